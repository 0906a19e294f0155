"""Exempt namespaces that a placement does not place itself: since when they have the label."""

from datetime import timedelta

import pytest

from scorer.api.names import EXEMPT_SINCE
from scorer.api.unstructured.documents import with_metadata
from scorer.rollout.confirmation.exemption import ALWAYS, Exemptions, exemption_record
from scorer.rollout.confirmation.policy import NO_CONFIRMATION, RemovalPolicy
from tests.scorer.rollout.confirmation.placed_content import (
    DEFAULTS,
    HOUR,
    NOW,
    UID,
    config_maps,
    judge,
    make_group,
    make_namespace,
    make_placement,
)

LABELLED, BARE = make_namespace(labels={"harbormaster.dev/ephemeral": "true"}), make_namespace()
MAPS = config_maps(20)


def placed_in_shop(record=""):
    return make_placement(namespace="shop", exempt_since=record)


@pytest.mark.parametrize(
    ("namespace", "record", "is_exempt"),
    [
        pytest.param(LABELLED, "", False, id="the-label-was-set-a-moment-ago"),
        pytest.param(LABELLED, f"{UID} 2026-11-29T11:00:01Z", False, id="within-the-window"),
        pytest.param(LABELLED, f"{UID} 2026-11-29T11:00:00Z", True, id="for-the-whole-window"),
        pytest.param(LABELLED, f"{UID} {ALWAYS}", True, id="since-the-first-content"),
        pytest.param(LABELLED, f"another {ALWAYS}", False, id="on-a-copy-of-the-placement"),
        pytest.param(LABELLED, f" {ALWAYS}", False, id="without-uid"),
        pytest.param(LABELLED, f"{UID} yesterday", False, id="unreadable"),
        pytest.param(BARE, f"{UID} {ALWAYS}", False, id="without-the-label-the-record-counts-for-nothing"),
    ],
)
def test_the_label_counts_when_it_was_set_for_the_whole_window(namespace, record, is_exempt):
    placement = placed_in_shop(record)
    assert (not judge(MAPS, [], placement=placement, namespaces=[namespace]).pending) is is_exempt
    without_snapshots = Exemptions.of(placement, (), DEFAULTS, {"shop": namespace}.get, NOW)
    assert without_snapshots.covers_all() is is_exempt, "they are deleted with the Namespace, before the placement"


@pytest.mark.parametrize(
    ("namespace", "stored_record", "is_new", "record"),
    [
        pytest.param(LABELLED, "", False, f"{UID} 2026-11-29T12:00:00Z", id="set"),
        pytest.param(LABELLED, f"{UID} 2026-11-29T11:30:00Z", False, f"{UID} 2026-11-29T11:30:00Z", id="still-set"),
        pytest.param(LABELLED, f"{UID} {ALWAYS}", False, f"{UID} {ALWAYS}", id="always-set"),
        pytest.param(
            LABELLED, f"{UID} 2026-11-29T13:00:00Z", False, f"{UID} 2026-11-29T12:00:00Z", id="by-a-clock-ahead"
        ),
        pytest.param(LABELLED, f"other {ALWAYS}", False, f"{UID} 2026-11-29T12:00:00Z", id="copied"),
        pytest.param(LABELLED, "", True, f"{UID} {ALWAYS}", id="nothing-was-placed-before"),
        pytest.param(BARE, f"{UID} {ALWAYS}", False, "", id="taken-off"),
        pytest.param(None, "", True, "", id="unknown"),
    ],
)
def test_what_a_placement_records(namespace, stored_record, is_new, record):
    placement = placed_in_shop(stored_record)
    assert exemption_record(DEFAULTS, placement, namespace, NOW, is_new=is_new) == record
    for policy in (NO_CONFIRMATION, RemovalPolicy(exempt=None)):
        assert exemption_record(policy, placement, namespace, NOW, is_new=is_new) == ""


def test_a_label_that_is_taken_off_and_set_again_counts_anew():
    placement = placed_in_shop(f"{UID} {ALWAYS}")
    for namespace in (BARE, LABELLED):
        record = exemption_record(DEFAULTS, placement, namespace, NOW, is_new=False)
        placement = with_metadata(placement, annotations={EXEMPT_SINCE: record})
    for minutes, is_exempt in ((59, False), (60, True)):
        exemptions = Exemptions.of(placement, (), DEFAULTS, {"shop": LABELLED}.get, NOW + timedelta(minutes=minutes))
        assert exemptions.covers_all() is is_exempt


def test_without_hooks_the_label_exempts_nothing():
    """With every mode off, no hook asks for the right to set the label. A placement may still ask for confirmation."""
    groups, placement = [make_group(0, [LABELLED, *MAPS], NOW - 2 * HOUR)], make_placement(setting="Confirm")
    assert not judge(groups, [], placement=placement, namespaces=[LABELLED]).pending
    (item,) = judge(groups, [], placement=placement, namespaces=[LABELLED], policy=NO_CONFIRMATION).pending
    assert item.objects == 21
