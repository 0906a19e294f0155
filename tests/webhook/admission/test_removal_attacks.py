"""Routes around the confirmation of removals, each of which needs the right to confirm, or is refused.

The routes that only the loop can close are in `tests.webhook.controllers.removals.test_attacks`.
"""

import json
from datetime import UTC, datetime, timedelta

import pytest

from scorer.api.family import FAMILIES
from scorer.api.kinds import ENVELOPE, POLICY_SNAPSHOT, RESOURCE_SNAPSHOT
from scorer.api.names import (
    CARRIED_OUT,
    CLUSTERS_HELD,
    CONFIRM_REMOVAL,
    EXEMPT_SINCE,
    OBJECTS_PENDING,
    OBJECTS_REMOVAL,
    PARENT_PLACEMENT,
    REMOVAL_CONFIRMATION,
    REMOVAL_PENDING,
    REMOVE,
    SOURCES,
    SUPERSEDED_AT,
)
from scorer.rollout.confirmation.digests import Confirmation
from scorer.rollout.confirmation.policy import RemovalPolicy
from tests.builders.binding import make_binding
from tests.builders.placement import make_placement
from webhook.access.user import UserInfo
from webhook.admission.judge import judge
from webhook.admission.removal_effects import PASSING_USERS, removal_losses
from webhook.admission.removal_rights import confirmation_rights
from webhook.settings.admission import OWN_CONTROLLER, AdmissionSettings
from webhook.validation.framework.context import Context

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
DIGEST = "0123456789abcdef0123"
CONFIRMED = f"{DIGEST}@2026-11-30T00:00:00Z"
EXEMPT = {"harbormaster.dev/ephemeral": "true"}
DELETED = {"deletionTimestamp": "2026-11-29T11:00:00Z"}
SHOP, EVERY = ("clusterresourceplacements", "shop", ""), ("clusterresourceplacements", "", "")
IN_SHOP = ("resourceplacements", "", "shop")


def context_for(user="alice", **settings):
    return Context(user=UserInfo(user), settings=AdmissionSettings(removal=RemovalPolicy(**settings)), now=NOW)


CONTEXT = context_for()


def write(new, old=None, **rest):
    return {"operation": "CREATE" if old is None else "UPDATE", "object": new, "oldObject": old} | rest


def needed(request, context=CONTEXT):
    """Return the placements on which a write needs the right to confirm: resource, name and namespace of each."""
    [accesses] = confirmation_rights(request, context) or [()]
    assert {access.verb for access in accesses} <= {"confirmremoval"}
    return [(access.resource, access.name, access.namespace) for access in accesses]


def namespace(labels=None, name="shop", **metadata):
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels or {}, **metadata}}


def annotated(**metadata):
    """Make a placement with annotations."""
    return lambda annotations: make_placement("shop", metadata={"annotations": annotations, **metadata})


def bound(annotations, **metadata):
    return make_binding("shop", "fish", metadata={"annotations": annotations, **metadata})


def record_of(kind):
    """Make a snapshot of ``shop`` with annotations."""
    labels = {PARENT_PLACEMENT: "shop"}

    def make(annotations):
        metadata = {"name": "shop-0", "labels": labels, "annotations": annotations}
        return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": {}}

    return make


def enveloped(labels):
    metadata, data = {"name": "crate"}, {"shop.yaml": namespace(labels)}
    return {"apiVersion": ENVELOPE.api_version, "kind": ENVELOPE.kind, "metadata": metadata, "data": data}


@pytest.mark.parametrize(
    ("request_", "resources"),
    [
        pytest.param(write(namespace(EXEMPT)), [EVERY, IN_SHOP], id="a-namespace-is-created-exempt"),
        pytest.param(
            write({**namespace(EXEMPT), "metadata": {"generateName": "shop-", "labels": EXEMPT}}),
            [EVERY, ("resourceplacements", "", "")],
            id="a-namespace-of-generated-name-is-created-exempt",
        ),
        pytest.param(write(namespace(EXEMPT), namespace()), [EVERY, IN_SHOP], id="the-label-is-set"),
        pytest.param(
            write(namespace(EXEMPT), namespace({"harbormaster.dev/ephemeral": "false"})),
            [EVERY, IN_SHOP],
            id="the-value-of-the-label-is-toggled",
        ),
        pytest.param(write(namespace(EXEMPT), namespace(), subResource="status"), [EVERY, IN_SHOP], id="by-the-status"),
        pytest.param(
            write(namespace(EXEMPT), namespace(), subResource="finalize"), [EVERY, IN_SHOP], id="by-the-finalizers"
        ),
        pytest.param(
            write(namespace(EXEMPT, **DELETED), namespace(**DELETED)), [EVERY, IN_SHOP], id="while-it-is-deleted"
        ),
        pytest.param(write(enveloped(EXEMPT), enveloped({})), [EVERY, IN_SHOP], id="an-entry-of-an-envelope-is-exempt"),
        pytest.param(write(enveloped(EXEMPT)), [EVERY, IN_SHOP], id="an-envelope-is-created-with-such-an-entry"),
    ],
)
def test_who_exempts_a_namespace_needs_the_right_on_every_placement_of_it(request_, resources):
    assert needed(request_) == resources


@pytest.mark.parametrize(
    ("make", "before", "after"),
    [
        pytest.param(annotated(), None, {CONFIRM_REMOVAL: CONFIRMED}, id="a-placement-is-created-confirmed"),
        pytest.param(annotated(), {}, {CONFIRM_REMOVAL: CONFIRMED}, id="it-is-confirmed"),
        pytest.param(annotated(**DELETED), {}, {CONFIRM_REMOVAL: CONFIRMED}, id="it-is-confirmed-while-it-is-deleted"),
        pytest.param(
            annotated(),
            {CONFIRM_REMOVAL: CONFIRMED},
            {CONFIRM_REMOVAL: f"{DIGEST}@2026-12-01T00:00:00Z"},
            id="a-confirmation-is-prolonged",
        ),
        pytest.param(annotated(), None, {REMOVAL_CONFIRMATION: "Off"}, id="it-is-created-with-confirmation-off"),
        pytest.param(annotated(), {}, {REMOVAL_CONFIRMATION: "Warn"}, id="confirmation-is-relaxed"),
        pytest.param(annotated(), {REMOVAL_CONFIRMATION: "Confirm"}, {}, id="apply-drops-the-stricter-mode"),
        pytest.param(annotated(), {}, {CARRIED_OUT: "{}"}, id="the-record-of-a-deletion-is-forged"),
        pytest.param(
            annotated(),
            {CARRIED_OUT: "{}", CONFIRM_REMOVAL: CONFIRMED},
            {CONFIRM_REMOVAL: CONFIRMED},
            id="the-record-of-a-digest-is-dropped-so-that-it-counts-again",
        ),
        pytest.param(bound, {REMOVAL_PENDING: "since"}, {}, id="a-pending-cluster-is-made-an-ordered-one"),
        pytest.param(bound, {OBJECTS_PENDING: "[]"}, {}, id="the-record-of-pending-objects-is-dropped"),
        pytest.param(bound, {}, {OBJECTS_REMOVAL: "Ordered"}, id="objects-are-ordered-to-leave"),
        pytest.param(bound, {}, {REMOVE: "uid"}, id="a-binding-is-marked-for-removal"),
        pytest.param(
            lambda annotations: bound(annotations, **DELETED), {}, {REMOVE: "uid"}, id="a-deleted-binding-is-marked"
        ),
        pytest.param(record_of(RESOURCE_SNAPSHOT), {SOURCES: "[]"}, {SOURCES: "[1]"}, id="sources-are-forged"),
        pytest.param(bound, {CARRIED_OUT: "{}"}, {}, id="a-digest-that-was-used-is-forgotten"),
        pytest.param(
            record_of(RESOURCE_SNAPSHOT), {SUPERSEDED_AT: "2026-01-01T00:00:00Z"}, {}, id="a-selection-is-dated-back"
        ),
        pytest.param(annotated(), {EXEMPT_SINCE: "u 1"}, {EXEMPT_SINCE: "u Always"}, id="an-exemption-is-dated-back"),
        pytest.param(record_of(POLICY_SNAPSHOT), {CLUSTERS_HELD: "[]"}, {}, id="the-number-of-clusters-is-forgotten"),
    ],
)
def test_who_confirms_in_any_way_needs_the_right_on_the_placement(make, before, after):
    assert needed(write(make(after), None if before is None else make(before))) == [SHOP]


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(write(namespace({}), namespace(EXEMPT)), id="a-namespace-is-protected-again"),
        pytest.param(
            write(namespace({"tier": "1", **EXEMPT}), namespace(EXEMPT)), id="an-exempt-namespace-is-labelled"
        ),
        pytest.param(
            write(annotated()({}), annotated()({CONFIRM_REMOVAL: CONFIRMED})), id="apply-drops-a-confirmation"
        ),
        pytest.param(
            write(annotated()({}), annotated()({EXEMPT_SINCE: "u Always"})), id="apply-drops-the-record-of-an-exemption"
        ),
        pytest.param(write(bound({"team": "fish"}), bound({})), id="another-annotation-of-a-binding"),
        pytest.param(write(bound({REMOVE: "uid"})), id="a-copy-of-a-binding-is-created"),
    ],
)
def test_what_confirms_nothing_needs_no_right(request_):
    assert needed(request_) == []


@pytest.mark.parametrize("kind", [RESOURCE_SNAPSHOT, POLICY_SNAPSHOT], ids=str)
def test_who_deletes_what_a_placement_remembers_needs_the_right(kind):
    """Without its snapshots, the loop does not know what a placement has placed, and on how many clusters."""
    stored = record_of(kind)({})
    deletion = {"operation": "DELETE", "name": "shop-0", "object": None, "oldObject": stored}
    assert needed(deletion) == [SHOP]
    assert needed({**deletion, "name": ""}) == [SHOP]
    for user in (OWN_CONTROLLER, *PASSING_USERS):
        assert needed(deletion, context_for(user)) == []
    assert needed({**deletion, "oldObject": {**stored, "metadata": {**stored["metadata"], **DELETED}}}) == []


def test_the_right_is_asked_for_the_author_whom_the_api_server_names():
    """Impersonation changes that name, so it takes the rights of the user who is impersonated."""
    confirmed = write(annotated()({CONFIRM_REMOVAL: CONFIRMED}), annotated()({}))
    assert needed(confirmed, context_for(OWN_CONTROLLER)) == []
    for user in ("harbormaster-reconcile", OWN_CONTROLLER.upper(), f"{OWN_CONTROLLER} ", *PASSING_USERS):
        assert needed(confirmed, context_for(user)) == [SHOP]


def test_a_namesake_of_a_controller_does_not_pass():
    """Only controllers of Kubernetes finish deletions unasked, and service accounts of other namespaces are none."""
    pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "a", "uid": "u"},
        "status": {"resources": {"nodes": "2"}},
    }
    deletion = {"operation": "DELETE", "name": "a", "object": None, "oldObject": pool}
    for user in PASSING_USERS:
        assert removal_losses(deletion, context_for(user)) == ()
        assert removal_losses(deletion, context_for(user.replace("kube-system", "shop").replace("manager", "x")))


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.placement.kind)
@pytest.mark.parametrize(
    "text",
    [
        pytest.param(",".join([DIGEST] * 10_000) + "@never", id="huge"),
        pytest.param(Confirmation(frozenset({DIGEST}), NOW + timedelta(hours=73)).format(), id="for-three-days"),
        pytest.param(Confirmation(frozenset({DIGEST}), NOW).format(), id="after-the-clock-went-on"),
        pytest.param(f"{DIGEST}@9999-12-31T23:59:59Z", id="for-ever"),
        pytest.param(f"{DIGEST}@2026-11-30T00:00:00Z@2026-11-30T00:00:00Z", id="two-expiries"),
        pytest.param("*@2026-11-30T00:00:00Z", id="wildcard"),
        pytest.param("\N{FULLWIDTH DIGIT ONE}" * 20 + "@2026-11-30T00:00:00Z", id="full-width-digits"),
        pytest.param(f"{DIGEST}\N{ZERO WIDTH SPACE}@2026-11-30T00:00:00Z", id="invisible-character"),
        pytest.param(f"\N{RIGHT-TO-LEFT OVERRIDE}{DIGEST}@2026-11-30T00:00:00Z", id="right-to-left"),
        pytest.param(f"{CONFIRMED}\0", id="nul"),
    ],
)
def test_a_confirmation_of_everything_for_ever_is_refused_and_does_not_count(family, text):
    home = {"namespace": "shop"} if family.placement.namespaced else {}
    before = {**make_placement("shop", metadata=home), "kind": family.placement.kind}
    placement = {**before, "metadata": {**before["metadata"], "annotations": {CONFIRM_REMOVAL: text}}}
    verdict = judge("UPDATE", placement, before, CONTEXT)
    assert "X-84" in verdict.rules
    assert len(json.dumps(verdict.message)) < 4096
    assert Confirmation.of(placement, NOW) == Confirmation()


def test_an_exemption_that_the_operator_has_switched_off_needs_no_right():
    assert needed(write(namespace(EXEMPT)), context_for(exempt=None)) == []
