"""Annotations that confirm removals are refused where they would confirm nothing, and left alone where they are old."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from scorer.api.kinds import NODE_POOL
from scorer.api.names import CONFIRM_REMOVAL, REMOVAL_CONFIRMATION
from tests.builders.placement import make_placement
from webhook.access.user import UserInfo
from webhook.admission.judge import judge
from webhook.validation.framework.context import Context
from webhook.validation.removal_annotations import validate_removal_annotations

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
CONTEXT = Context(now=NOW, user=UserInfo("alice"))
DIGEST = "0123456789abcdef0123"
EXPIRED = f"{DIGEST}@2026-11-29T11:59:59Z"
FORM = "must be DIGEST[,DIGEST…]@EXPIRY, as `harbormaster confirm` writes it"


def placement(annotations=None, **metadata):
    return make_placement(metadata={"annotations": annotations or {}, **metadata})


def errors(document, old=None, context=CONTEXT):
    """Return the errors of a write: the last part of each path, the rule, and the message."""
    verdict = judge("CREATE" if old is None else "UPDATE", document, old, context)
    assert verdict.allowed is not bool(verdict.errors)
    return [(error.field.parts[-1], error.rule, error.message) for error in verdict.errors]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("yes", "'yes' is not a digest of 20 hexadecimal characters", id="no-digest"),
        pytest.param(DIGEST.upper() + "@2026-11-30T00:00:00Z", "is not a digest", id="upper-case"),
        pytest.param(f"{DIGEST},@2026-11-30T00:00:00Z", "'' is not a digest", id="empty-part"),
        pytest.param(DIGEST, "must end in @ and the time at which it expires", id="no-expiry"),
        pytest.param(f"{DIGEST}@tomorrow", "'tomorrow' is not an RFC 3339 time", id="no-time"),
        pytest.param(EXPIRED, "expired at 2026-11-29T11:59:59Z", id="expired"),
        pytest.param(
            f"{DIGEST}@2026-12-02T12:00:01Z", "expires at 2026-12-02T12:00:01Z, more than 72h ahead", id="too-late"
        ),
    ],
)
def test_a_confirmation_that_confirms_nothing_is_refused(text, reason):
    [(field, rule, message)] = errors(placement({CONFIRM_REMOVAL: text}), placement())
    assert (field, rule) == (CONFIRM_REMOVAL, "X-84")
    assert reason in message
    assert message.endswith(FORM)


def test_a_placement_is_recreated_from_git_with_a_confirmation_that_expired_there():
    assert errors(placement({CONFIRM_REMOVAL: EXPIRED})) == []
    assert [rule for _, rule, _ in errors(placement({CONFIRM_REMOVAL: "yes"}))] == ["X-84"]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="withdrawn"),
        pytest.param(f"{DIGEST}@2026-12-02T12:00:00Z", id="72-hours"),
        pytest.param(f"{DIGEST}, {DIGEST}@2026-11-29T14:00:00+01:00", id="spaces-and-zone"),
    ],
)
def test_a_confirmation_that_counts_is_allowed(text):
    assert errors(placement({CONFIRM_REMOVAL: text}), placement()) == []


@pytest.mark.parametrize("mode", ["off", "Confirmed", ""])
def test_an_unknown_mode_is_refused(mode):
    [(field, rule, message)] = errors(placement({REMOVAL_CONFIRMATION: mode}))
    assert (field, rule) == (REMOVAL_CONFIRMATION, "X-85")
    assert message == f'"{mode}": supported values: "Off", "Warn", "Confirm"'


@pytest.mark.parametrize("old", [EXPIRED, "yes"])
def test_an_edit_leaves_an_old_mistake_alone(old):
    annotations = {CONFIRM_REMOVAL: old, REMOVAL_CONFIRMATION: "never"}
    before = placement(annotations)
    assert errors(placement({**annotations, "team": "fish"}), before) == []
    assert errors({**before, "spec": {**before["spec"], "revisionHistoryLimit": 3}}, before) == []
    assert [rule for _, rule, _ in errors(placement({**annotations, CONFIRM_REMOVAL: "no"}), before)] == ["X-84"]


def test_a_placement_that_waits_for_its_deletion_is_confirmed_by_the_same_rules():
    deleted = {"deletionTimestamp": "2026-11-29T11:00:00Z", "finalizers": ["kubernetes-fleet.io/crp-cleanup"]}
    before = placement(**deleted)
    assert [rule for _, rule, _ in errors(placement({CONFIRM_REMOVAL: "yes"}, **deleted), before)] == ["X-84"]
    assert errors(placement({}, **{**deleted, "finalizers": []}), placement({CONFIRM_REMOVAL: "yes"}, **deleted)) == []


def test_the_deletion_of_a_node_pool_is_confirmed_by_the_same_rules():
    pool = {"apiVersion": NODE_POOL.api_version, "kind": "NodePool", "metadata": {"name": "a"}, "spec": {}}
    written = {**pool, "metadata": {"name": "a", "annotations": {CONFIRM_REMOVAL: EXPIRED}}}
    assert CONFIRM_REMOVAL in [field for field, _, _ in errors(written, pool)]
    assert CONFIRM_REMOVAL not in [field for field, _, _ in errors(written, written)]


def test_without_a_clock_nothing_expires():
    files = replace(CONTEXT, now=Context().now)
    assert [*validate_removal_annotations(placement({CONFIRM_REMOVAL: EXPIRED}), placement(), files)] == []
    assert [*validate_removal_annotations(placement({CONFIRM_REMOVAL: "yes"}), placement(), files)]
