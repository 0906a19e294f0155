"""The plan and the truth: what a plan foretells is what the scheduler then does, when the change is really made."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.api.cluster.member_cluster import CORDON
from scorer.api.kinds import BINDING, KINDS, MEMBER_CLUSTER, PLACEMENT, POLICY_SNAPSHOT, RESOURCE_SNAPSHOT
from scorer.api.unstructured.documents import is_deleting
from scorer.rollout.removal.marks import with_removal_mark
from tests.builders.placement import make_placement
from tests.scorer.builders import modest
from tests.virtual_time import loop_now, run_in_virtual_time
from tests.webhook.controllers.world import make_config_map, make_member, pick_n, running
from webhook.access.ports import NotReviewedError
from webhook.access.rights import Reviewed
from webhook.access.user import UserInfo
from webhook.admission.cached import CachedContext
from webhook.admission.rights import AuthorRights, UndisputedRights
from webhook.answers.one_at_a_time import MOST_WAITING, PlannerBusyError
from webhook.answers.plans import HubPlanner
from webhook.answers.proposal import EVERYBODY, Audience, Deleted, Proposal, ProposalError, ProposedObject
from webhook.kube.ports import Key
from webhook.settings.admission import AdmissionSettings, PlacementAuthorization

OWNER = UserInfo("owner", frozenset({"system:masters"}))
DEFAULTS = AdmissionSettings()
NAMES = ["m0", "m1", "m2", "m3", "m4"]
POLICIES = {
    "all": {"placementType": "PickAll"},
    "most": pick_n(3),
    "few": pick_n(1),
    "fixed": {"placementType": "PickFixed", "clusterNames": ["m0", "m3"]},
    "north": {
        "placementType": "PickAll",
        "affinity": {
            "clusterAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "clusterSelectorTerms": [{"labelSelector": {"matchLabels": {"region": "north"}}}]
                }
            }
        },
    },
}


def planner_of(world, settings=DEFAULTS, access=None):
    rights = UndisputedRights() if access is None else AuthorRights(access)
    return HubPlanner(world.cache, CachedContext(world.cache, settings, loop_now), rights, loop_now)


def given_object(document):
    kind = next(kind for kind in KINDS.values() if kind.kind == document["kind"])
    return ProposedObject(kind, document)


async def filled(world, names=NAMES):
    """Put members and a placement of every policy on the hub, and wait until they have settled."""
    for at, name in enumerate(names):
        await world.add(make_member(name, nodes=at + 1, region=("south", "north")[at % 2]))
    await world.until(lambda: all(map(world.has_joined, names)))  # else the first to join is picked
    for name, policy in POLICIES.items():
        await world.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"home-{name}"}})
        await world.add(placement(name, policy))
    await world.until(lambda: all(is_at_rest(world, name) for name in POLICIES))


def placement(name, policy):
    """Make a placement of a namespace of its own."""
    return make_placement(name, policy, home=f"home-{name}" if name in POLICIES else "quay")


def is_at_rest(world, name):
    return world.view(name)["state"] in ("available", "short")


def clusters_of(world):
    """Return which clusters every placement holds."""
    return {
        document["metadata"]["name"]: world.bound(document["metadata"]["name"])
        for document in world.cache.list(PLACEMENT)
    }


def foretold(plan):
    return {
        entry["name"]: sorted([*entry["moves"]["stays"], *entry["moves"]["gained"]])
        for entry in plan["placements"]
        if entry["rollout"]["type"] != "Deletion"
    }


async def carry_out(world, proposal):
    """Do to the hub what the proposal says, as people would."""
    for each in proposal.objects:
        key = Key(each.identity.name, each.identity.namespace)
        stored = world.cache.get(each.kind, *key)
        if stored is None:
            await world.add(each.document)
        else:
            labels = each.document["metadata"].get("labels", {})
            metadata = {**stored["metadata"], "labels": {**stored["metadata"].get("labels", {}), **labels}}
            await world.store.replace(each.kind, {**stored, "metadata": metadata, "spec": each.document["spec"]})
    for each in proposal.deleted:
        kind = next(kind for kind in KINDS.values() if kind.kind == each.kind)
        await world.store.delete(kind, Key(each.name, each.namespace))
    for name in proposal.lost:
        await world.store.delete(MEMBER_CLUSTER, Key(name))
    for name in proposal.drained:
        taint = {"key": CORDON.key, "value": CORDON.value, "effect": CORDON.effect}
        await world.change(MEMBER_CLUSTER, name, taints=[taint])
        for binding in world.cache.list(BINDING):
            fixed = binding["metadata"]["labels"]["kubernetes-fleet.io/parent-CRP"] == "fixed"
            if binding["spec"]["targetCluster"] == name and not is_deleting(binding) and not fixed:
                key = Key(binding["metadata"]["name"])
                await world.store.replace(
                    BINDING, with_removal_mark(await world.store.get(BINDING, key))
                )  # as an eviction does
                await world.store.delete(BINDING, key)


def member(name, **more):
    document = make_member(name, **more)
    return {key: value for key, value in document.items() if key != "status"}


def tainted(name):
    document = member(name)
    return {**document, "spec": {**document["spec"], "taints": [{"key": "dock", "effect": "NoSchedule"}]}}


OBJECTS = st.one_of(
    st.builds(
        placement,
        st.sampled_from(["most", "few"]),
        st.sampled_from([pick_n(0), pick_n(2), pick_n(4), pick_n(9), pick_n(2, affinity=None)]),
    ),
    st.builds(
        lambda names: placement("fixed", {"placementType": "PickFixed", "clusterNames": names}),
        st.lists(st.sampled_from([*NAMES, "nowhere"]), min_size=1, unique=True),
    ),
    st.just(placement("new", pick_n(2))),
    st.builds(tainted, st.sampled_from(NAMES)),
    st.builds(lambda name: member(name, region="north"), st.sampled_from(NAMES)),
)


PROPOSALS = st.one_of(
    OBJECTS.map(lambda document: Proposal([given_object(document)])),
    OBJECTS.map(lambda document: Proposal([given_object(document)])),
    st.sampled_from(NAMES).map(lambda name: Proposal(lost=[name])),
    st.sampled_from(NAMES).map(lambda name: Proposal(drained=[name])),
    st.sampled_from([*POLICIES]).map(lambda name: Proposal(deleted=[Deleted("ClusterResourcePlacement", name)])),
    st.sampled_from(NAMES).map(lambda name: Proposal(deleted=[Deleted("MemberCluster", name)])),
)
"""One change each: people cannot make several at once, and the loop reacts to the first before it sees the second."""


@given(proposal=PROPOSALS)
@modest(10)
def test_what_is_foretold_is_what_happens(proposal):
    """The clusters of every placement, after everything has settled, are those of the plan."""

    async def play():
        async with running() as world:
            planner = planner_of(world)
            await filled(world)
            before = clusters_of(world)
            plan = await planner.plan(proposal, OWNER, EVERYBODY)
            assert all(verdict["allowed"] for verdict in plan["admission"])
            held = {entry["name"]: [one["cluster"] for one in entry["before"]] for entry in plan["placements"]}
            assert {name: clusters for name, clusters in held.items() if name in before} == before
            await carry_out(world, proposal)
            expected = foretold(plan)
            await world.until(lambda: clusters_of(world) == expected)
            settled = await planner.plan(Proposal(), OWNER, EVERYBODY)
            assert not [
                entry["name"] for entry in settled["placements"] if entry["moves"]["gained"] or entry["moves"]["lost"]
            ]

    run_in_virtual_time(play())


async def test_the_order_of_a_rollout_is_the_order_in_which_it_happens():
    async with running() as world:
        planner = planner_of(world)
        await world.add(*(make_member(name) for name in NAMES))
        slow = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}}
        await world.add(make_placement("web", {"placementType": "PickAll"}, strategy=slow))
        await world.until(lambda: is_at_rest(world, "web") and len(world.bound("web")) == 5)
        change = make_config_map("rates", value="2")
        plan = await planner.plan(Proposal([given_object(change)]), OWNER, EVERYBODY)
        (entry,) = plan["placements"]
        assert [step["update"] for step in entry["rollout"]["steps"]] == [[name] for name in NAMES]
        seen = []

        def note(change):
            if change.alters(lambda binding: binding["spec"]["resourceSnapshotName"]):
                seen.append(change.document["spec"]["targetCluster"])

        world.cache.subscribe(BINDING, note)
        stored = world.cache.get(KINDS["", "ConfigMap"], "rates", "shop")
        await world.store.replace(KINDS["", "ConfigMap"], {**stored, "data": change["data"]})
        await world.until(lambda: len(seen) == 5 and is_at_rest(world, "web"))
        assert seen == NAMES
        names = {each["spec"]["resourceSnapshotName"] for each in world.cache.list(BINDING)}
        assert names == {entry["rollout"]["snapshot"]}


async def test_nothing_is_written():
    async with running() as world:
        planner = planner_of(world)
        await filled(world)
        kinds = (PLACEMENT, BINDING, POLICY_SNAPSHOT, RESOURCE_SNAPSHOT)
        before = [world.cache.list(kind) for kind in kinds]
        given_objects = [given_object(placement("most", pick_n(1))), given_object(tainted("m1"))]
        deleted = [Deleted("ClusterResourcePlacement", "all")]
        plan = await planner.plan(Proposal(given_objects, (), deleted, ["m2"], ["m3"]), OWNER, EVERYBODY)
        changed = [entry["name"] for entry in plan["placements"] if entry["changed"]]
        assert changed == ["all", "fixed", "most", "north"]
        await world.until(lambda: True)
        assert [world.cache.list(kind) for kind in kinds] == before
        assert not [each for each in world.cache.list(MEMBER_CLUSTER) if each["spec"].get("taints")]


async def test_the_impact_that_admission_warns_about_is_that_of_the_plan():
    async with running() as world:
        planner = planner_of(world)
        await filled(world)
        edits = {"most": pick_n(1), "few": pick_n(2), "fixed": {"placementType": "PickFixed", "clusterNames": ["m3"]}}
        for name, policy in edits.items():
            plan = await planner.plan(Proposal([given_object(placement(name, policy))]), OWNER, EVERYBODY)
            entry = next(entry for entry in plan["placements"] if entry["name"] == name)
            lost, held = len(entry["moves"]["lost"]), len(entry["before"])
            warned = [
                text
                for text in plan["admission"][0]["warnings"]
                if text.startswith("spec.policy: removes the placement from")
            ]
            words = [f"spec.policy: removes the placement from {lost} of {held} cluster"] if lost else []
            assert [text[: len(words[0])] for text in warned] == words if words else warned == []


async def test_what_admission_refuses_is_left_out():
    async with running() as world:
        planner = planner_of(world)
        await filled(world)
        bad = placement("most", {"placementType": "PickAll"})
        plan = await planner.plan(Proposal([given_object(bad)], lost=["m4"]), OWNER, EVERYBODY)
        (verdict,) = plan["admission"]
        assert (verdict["operation"], verdict["allowed"]) == ("UPDATE", False)
        assert verdict["errors"][0]["field"] == "spec.policy.placementType"
        assert verdict["errors"][0]["rule"]
        most = next(entry for entry in plan["placements"] if entry["name"] == "most")
        assert (most["type"], most["moves"]["lost"]) == ("PickN", ["m4"])


async def test_who_may_not_know_of_placements_is_told_nothing_about_them():
    async with running() as world:
        planner = planner_of(world)
        await filled(world)
        nobody = Audience(frozenset())
        given = [given_object(placement("most", pick_n(1)))]
        plan = await planner.plan(Proposal(given, drained=["m4"]), OWNER, nobody)
        assert plan["placements"] == []
        assert [verdict["operation"] for verdict in plan["admission"]] == ["CREATE"]
        assert not plan["admission"][0]["warnings"]
        with pytest.raises(ProposalError) as hidden:
            await planner.plan(Proposal(deleted=[Deleted("ClusterResourcePlacement", "most")]), OWNER, nobody)
        with pytest.raises(ProposalError) as unknown:
            await planner.plan(Proposal(deleted=[Deleted("ClusterResourcePlacement", "none")]), OWNER, nobody)
        assert hidden.value.mistakes[0].detail.replace("most", "none") == unknown.value.mistakes[0].detail


class Rights:
    """Knows what nobody may do, or does not know."""

    unanswered = ""

    async def review(self, user, wanted):
        return Reviewed(tuple(wanted), self.unanswered)


async def test_the_rights_of_the_author_are_asked_as_the_hook_does():
    async with running() as world:
        rights, enforced = Rights(), AdmissionSettings(placement_authorization=PlacementAuthorization.ENFORCE)
        planner = planner_of(world, enforced, rights)
        await filled(world)
        proposal = Proposal([given_object(placement("new", pick_n(1)))])
        author = UserInfo("somebody")
        plan = await planner.plan(proposal, author, EVERYBODY)
        (verdict,) = plan["admission"]
        assert (verdict["allowed"], verdict["errors"][0]["reason"]) == (False, "Forbidden")
        assert "new" not in {entry["name"] for entry in plan["placements"]}
        rights.unanswered = "the hub is away"
        with pytest.raises(NotReviewedError):
            await planner.plan(proposal, author, EVERYBODY)


async def test_plans_do_not_hold_up_the_event_loop():
    """While a plan is made, other things go on: here, another task counts."""
    async with running() as world:
        planner = planner_of(world)
        await filled(world)
        counted = 0

        async def count():
            nonlocal counted
            while True:
                counted += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        plans = [planner.plan(Proposal(lost=["m1"]), OWNER, EVERYBODY) for _ in range(5)]
        answers = await asyncio.gather(*plans)
        counting.cancel()
        assert counted > len(plans)
        assert all(answer["placements"] == answers[0]["placements"] for answer in answers)


async def test_only_so_many_plans_wait():
    async with running() as world:
        planner = planner_of(world)
        await filled(world)
        users = [UserInfo(f"user-{number}") for number in range(MOST_WAITING + 3)]
        asked = [planner.plan(Proposal(), user, EVERYBODY) for user in users]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(answer) for answer in answers] == [
            *[dict] * (MOST_WAITING + 1),
            PlannerBusyError,
            PlannerBusyError,
        ]
        assert await planner.plan(Proposal(), OWNER, EVERYBODY)


async def test_only_so_many_rights_are_asked_about_for_one_plan():
    async with running() as world:
        planner = planner_of(world, access=Rights())
        await filled(world)
        given = []
        for number in range(6):
            document = placement(f"new-{number}", pick_n(1))
            (selector,) = document["spec"]["resourceSelectors"]
            many = [{**selector, "name": f"quay-{number}-{term}"} for term in range(100)]
            given.append(given_object({**document, "spec": {**document["spec"], "resourceSelectors": many}}))
        assert await planner.plan(Proposal(given[:5]), UserInfo("somebody"), EVERYBODY)
        with pytest.raises(ProposalError) as refused:
            await planner.plan(Proposal(given), UserInfo("somebody"), EVERYBODY)
        (mistake,) = refused.value.mistakes
        assert (mistake.pointer, mistake.code) == ("/objects/5", "too-many")


async def test_the_question_for_rights_does_not_tell_what_a_hidden_placement_selects():
    """A placement like the stored one would need no rights; who may not know of it needs them as for a new one."""
    async with running() as world:
        planner = planner_of(world, access=Rights())
        await filled(world)
        proposal, author = Proposal([given_object(placement("most", pick_n(1)))]), UserInfo("somebody")
        (seen,) = (await planner.plan(proposal, author, EVERYBODY))["admission"]
        (hidden,) = (await planner.plan(proposal, author, Audience(frozenset())))["admission"]
        assert not any("may not get" in warning for warning in seen["warnings"])
        assert any("may not get" in warning for warning in hidden["warnings"])
