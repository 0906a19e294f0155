"""Proposals of any shape: there is always a verdict and a plan, never an exception."""

import copy

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.api import kinds
from scorer.api.family import PLACEMENTS
from scorer.api.kinds import KINDS, MEMBER_CLUSTER, group_kind
from scorer.api.unstructured.documents import with_spec
from scorer.what_if.state import FIELDS
from tests.scorer.builders import NOW, cluster_document, modest, pick_n
from tests.scorer.what_if.settled_hub import ALL, FIXED, NODE_COUNTS, RATES, SHOP, WEB, budget, placement, settled
from webhook.access.user import UserInfo
from webhook.admission.documents import DocumentSet
from webhook.answers.proposal import (
    APPROVAL_REQUESTS,
    EVERYBODY,
    OVERRIDE_KINDS,
    PLANNED_KINDS,
    RUNS,
    SHOWN_KINDS,
    UPGRADES,
    Audience,
    Proposal,
    ProposedObject,
    plan,
)
from webhook.validation.framework.context import Context

STATE = settled(
    (WEB, ["dover", "genoa"]),
    (ALL, list(NODE_COUNTS)),
    (FIXED, ["dover", "faro"]),
    budgets=[budget("web", maxUnavailable=1)],
)
STORED = [
    *(*STATE.placements, *STATE.bindings, *STATE.policy_snapshots, *STATE.resource_snapshots, *STATE.budgets),
    *(SHOP, RATES, *map(cluster_document, NODE_COUNTS)),
]
HUB = DocumentSet.of(STORED, STATE.fleet, PLANNED_KINDS)
NEW = [placement("new", pick_n(2)), placement("cart", pick_n(1), namespace="shop"), cluster_document("zeebrugge")]
JUNK = [None, 0, -1, 1.5, True, "", "x", [], {}, [None], [{}], {"a": None}, "50%", {"name": 3}, 10**20]


@st.composite
def mutated(draw):
    """Draw an object of the hub, or a new one, with junk somewhere in it."""
    document = copy.deepcopy(draw(st.sampled_from([*STORED, *NEW])))
    node, key = document, "spec"
    node.setdefault("spec", {})
    while isinstance(node[key], dict | list) and node[key] and draw(st.integers(0, 3)):
        node = node[key]
        key = draw(st.sampled_from(sorted(node) if isinstance(node, dict) else range(len(node))))
    node[key] = copy.deepcopy(draw(st.sampled_from(JUNK)))
    return document


@given(
    documents=st.lists(mutated(), max_size=3, unique_by=lambda each: (each["kind"], each["metadata"]["name"])),
    drained=st.booleans(),
)
@modest(150)
def test_whatever_is_proposed_is_judged_and_the_rest_is_planned(documents, drained):
    failures = []
    user = UserInfo("ann", frozenset({"system:masters"}))
    watched = Context(user=user, now=NOW, on_failure=lambda check, error: failures.append((check, error)))
    given_objects = [ProposedObject(KINDS[group_kind(document)], document) for document in documents]
    answer = plan(HUB, Proposal(given_objects, drained=["dover"] if drained else []), watched)
    assert failures == []
    assert len(answer["admission"]) == len(documents)
    assert all(bool(verdict["errors"]) is not verdict["allowed"] for verdict in answer["admission"])
    assert {"web", "all", "fixed"} <= {entry["name"] for entry in answer["placements"]}
    assert orjson.dumps(answer)
    refused = {verdict["name"] for verdict in answer["admission"] if not verdict["allowed"]}
    members = {
        document["metadata"]["name"] for document in documents if group_kind(document) == MEMBER_CLUSTER.group_kind
    }
    assert not (members & refused & {*answer["fleet"]["gained"], *answer["fleet"]["changed"]})


_OF_THEIR_OWN = (*RUNS, *APPROVAL_REQUESTS, *UPGRADES)


@pytest.mark.parametrize(
    ("kinds_known", "told"),
    [
        ((), {False}),
        (PLACEMENTS, {True}),
    ],
)
def test_what_is_made_for_a_placement_is_as_secret_as_the_placement(kinds_known, told):
    """Its name is made of the placement's: whoever may guess one has guessed the other."""
    audience = Audience(frozenset(kinds_known))
    assert {audience.knows(kind) for kind in FIELDS if KINDS[kind] not in _OF_THEIR_OWN} == told
    assert audience.knows(kinds.MEMBER_CLUSTER.group_kind)


@pytest.mark.parametrize("of_placements", [RUNS, APPROVAL_REQUESTS])
def test_a_run_is_told_to_whoever_may_see_both_it_and_its_placement(of_placements):
    for seen in (PLACEMENTS, of_placements):
        assert not any(Audience(frozenset(seen)).knows(kind.group_kind) for kind in of_placements)
    assert all(EVERYBODY.knows(kind.group_kind) for kind in of_placements)


def test_namespaced_and_cluster_wide_placements_are_told_apart():
    audience = Audience(frozenset({kinds.PLACEMENT}))
    assert audience.knows(kinds.POLICY_SNAPSHOT.group_kind)
    assert audience.knows(kinds.DISRUPTION_BUDGET.group_kind)
    assert not audience.knows(kinds.NAMESPACED_POLICY_SNAPSHOT.group_kind)
    assert not audience.knows(kinds.NAMESPACED_BINDING.group_kind)


USER = UserInfo("ann", frozenset({"system:masters"}))


def make_profile(name):
    kind = {"apiVersion": kinds.UPGRADE_PROFILE.api_version, "kind": kinds.UPGRADE_PROFILE.kind}
    return {**kind, "metadata": {"name": name}, "spec": {"channel": "Stable"}}


def coverage(*documents, audience=EVERYBODY, unread=()):
    given_objects = [ProposedObject(KINDS[group_kind(document)], document) for document in documents]
    answer = plan(HUB, Proposal(given_objects), Context(user=USER, now=NOW), audience, unread=unread)
    assert all(verdict["allowed"] for verdict in answer["admission"])
    return {key: answer[key] for key in ("complete", "notJudged", "hidden", "unread", "assumed")}


@pytest.mark.parametrize(
    ("documents", "audience", "unread", "expected"),
    [
        pytest.param([placement("new", pick_n(2))], EVERYBODY, (), {}, id="all"),
        pytest.param(
            [make_profile("a"), make_profile("b")],
            EVERYBODY,
            (),
            {"notJudged": [{"kind": "ClusterUpgradeProfile", "count": 2}]},
            id="not-judged",
        ),
        pytest.param(
            [placement("new", pick_n(2))],
            Audience(frozenset(SHOWN_KINDS) - {kinds.PLACEMENT}),
            (),
            {
                "hidden": [{"kind": "ClusterResourcePlacement", "namespace": "", "name": "new"}],
                "unread": ["clusterresourceplacements.placement.kubernetes-fleet.io"],
            },
            id="hidden",
        ),
        pytest.param(
            [],
            EVERYBODY,
            [kinds.MAINTENANCE_WINDOW],
            {"unread": ["clustermaintenancewindows.upgrade.harbormaster.dev"]},
            id="unread",
        ),
    ],
)
def test_what_a_plan_does_not_cover_is_told(documents, audience, unread, expected):
    nothing = {"complete": not expected, "notJudged": [], "hidden": [], "unread": [], "assumed": []}
    assert coverage(*documents, audience=audience, unread=unread) == nothing | expected


@pytest.mark.parametrize(
    ("complete_kinds", "is_updated"),
    [
        pytest.param(PLANNED_KINDS, True, id="a-hub-without-overrides"),
        pytest.param({*PLANNED_KINDS} - OVERRIDE_KINDS, False, id="a-dump-without-these-kinds"),
    ],
)
def test_overrides_that_bindings_name_are_unknown_only_in_a_dump(complete_kinds, is_updated):
    named = [with_spec(one, clusterResourceOverrideSnapshots=["lost-0"]) for one in STATE.bindings]
    documents = [one for one in STORED if one not in STATE.bindings]
    hub = DocumentSet.of([*documents, *named], STATE.fleet, complete_kinds)
    effects = plan(hub, Proposal(), Context(now=NOW), EVERYBODY)
    (entry,) = (entry for entry in effects["placements"] if entry["name"] == "web")
    assert bool(entry["rollout"]["steps"]) is is_updated
