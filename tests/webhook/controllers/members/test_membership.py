"""The hub's part of a member: joining, repairs, reports and leaving, on a real store in time that the test moves."""

import asyncio
from contextlib import suppress
from datetime import timedelta

import pytest

from scorer.api.kinds import INTERNAL_MEMBER_CLUSTER, MEMBER_CLUSTER, NAMESPACE, WORK
from scorer.api.names import HUB_UID, MEMBER_CLUSTER_FINALIZER, WORK_CLEANUP
from scorer.membership.access import ROLE, ROLE_BINDING, agent_rules
from tests.webhook.controllers.members.member_stage import (
    BINDING_KEY,
    CONFIG_MAP,
    HOME,
    INTERNAL,
    LION,
    PIECES,
    ROLE_KEY,
    SPACE,
    SPEC,
    UnsteadyStore,
    staged,
)
from webhook.controllers.machinery.result import TerminalError
from webhook.controllers.members.access import ACCESS_CHECK
from webhook.controllers.members.membership import WATCHES
from webhook.kube.cache.changes import ObjectDelta
from webhook.kube.ports import InvalidObjectError, Key, RetryError
from webhook.member.membership.heartbeat import HeartbeatFigures


@pytest.fixture
async def stage():
    async with staged() as stage:
        yield stage


async def test_everything_is_made_for_a_member_that_joins(stage):
    await stage.add(heartbeatPeriodSeconds=20)
    await stage.reconcile()
    metadata = (await stage.store.get(MEMBER_CLUSTER, LION))["metadata"]
    assert metadata["labels"] == {"kubernetes-fleet.io/member-name": "lion"}
    assert metadata["finalizers"] == [MEMBER_CLUSTER_FINALIZER]
    assert (await stage.store.get(ROLE, ROLE_KEY))["rules"] == agent_rules()
    binding = await stage.store.get(ROLE_BINDING, BINDING_KEY)
    assert [who["name"] for who in binding["subjects"]] == ["lion"]
    internal = await stage.store.get(INTERNAL_MEMBER_CLUSTER, INTERNAL)
    assert internal["spec"] == {"state": "Join", "heartbeatPeriodSeconds": 20}
    assert await stage.condition("ReadyToJoin") == ("True", "MemberClusterReadyToJoin")
    assert await stage.condition("Joined") == ("Unknown", "MemberClusterJoinStateUnknown")
    assert stage.events == [
        ("Normal", "NamespaceCreated"),
        ("Normal", "RoleCreated"),
        ("Normal", "RoleBindingCreated"),
        ("Normal", "InternalMemberClusterCreated"),
        ("Normal", "MemberClusterReadyToJoin"),
    ]


async def test_a_report_from_azure_labels_the_member_once(stage):
    await stage.add(heartbeatPeriodSeconds=600)
    await stage.reconcile()
    await stage.beat(figures=HeartbeatFigures(properties={"fleet.azure.com/location": "westus"}))
    await stage.reconcile()
    member = await stage.store.get(MEMBER_CLUSTER, LION)
    assert member["metadata"]["labels"]["fleet.azure.com/location"] == "westus"
    member["metadata"]["labels"]["fleet.azure.com/location"] = "eastus"
    await stage.store.replace(MEMBER_CLUSTER, member)
    await stage.reconcile()
    assert (await stage.store.get(MEMBER_CLUSTER, LION))["metadata"]["labels"]["fleet.azure.com/location"] == "eastus"


async def test_the_agent_is_told_which_hub_it_is(stage):
    await stage.add()
    await stage.reconcile()
    home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}}
    uid = (await stage.store.create(NAMESPACE, home))["metadata"]["uid"]
    await stage.reconcile()
    internal = await stage.store.get(INTERNAL_MEMBER_CLUSTER, INTERNAL)
    assert internal["metadata"]["annotations"] == {HUB_UID: uid}


@pytest.mark.parametrize("restart", [False, True], ids=["same-process", "after-a-restart"])
async def test_a_second_pass_writes_nothing(stage, restart):
    await stage.add(heartbeatPeriodSeconds=600)
    await stage.reconcile()
    await stage.beat()
    await stage.reconcile()
    before, writes = stage.store.resource_version, stage.hub.writes
    stage.time += timedelta(minutes=4)
    if restart:
        stage.start()
    await stage.reconcile()
    assert (stage.store.resource_version, stage.hub.writes) == (before, writes)


async def test_a_heartbeat_costs_one_write(stage):
    await stage.add()
    await stage.reconcile()
    await stage.beat()
    await stage.reconcile()
    assert ("Normal", "MemberClusterJoined") in stage.events
    for _ in range(3):
        stage.time += timedelta(seconds=60)
        await stage.beat()
        writes, generation = stage.hub.writes, (await stage.store.get(MEMBER_CLUSTER, LION))["metadata"]["generation"]
        await stage.reconcile()
        assert stage.hub.writes == writes + 1
        assert (await stage.store.get(MEMBER_CLUSTER, LION))["metadata"]["generation"] == generation


@pytest.mark.parametrize("minutes", [-10, 10])
async def test_the_hubs_clock_counts(stage, minutes):
    await stage.add()
    await stage.reconcile()
    for _ in range(2):
        stage.time += timedelta(seconds=60)
        await stage.beat(skew=timedelta(minutes=minutes))
        await stage.reconcile()
    assert await stage.heartbeat() == "2026-03-01T12:02:00Z"
    stage.start()
    stage.time += timedelta(hours=1)
    await stage.reconcile()
    assert await stage.heartbeat() == "2026-03-01T12:02:00Z", "a restart does not freshen it"


async def test_reports_reach_the_member_cluster(stage):
    await stage.add()
    await stage.reconcile()
    await stage.beat(figures=HeartbeatFigures(properties={"a": "1"}, capacity={"cpu": "2"}, namespaces={"web": "w"}))
    await stage.reconcile()
    status = await stage.status()
    assert status["properties"]["a"]["value"] == "1"
    assert status["resourceUsage"]["capacity"] == {"cpu": "2"}
    assert status["namespaces"] == {"web": "w"}
    assert await stage.condition("Joined") == ("True", "MemberClusterJoined")
    assert await stage.condition("ClusterPropertyCollectionSucceeded") == ("True", "Succeeded")
    generation = (await stage.store.get(MEMBER_CLUSTER, LION))["metadata"]["generation"]
    assert {entry["observedGeneration"] for entry in status["conditions"]} == {generation}


@pytest.mark.parametrize(
    ("kind", "key", "change", "event"),
    [
        pytest.param(NAMESPACE, HOME, {"metadata": {"labels": {}}}, "NamespacePatched", id="namespace"),
        pytest.param(ROLE, ROLE_KEY, {"rules": []}, "RoleUpdated", id="role"),
        pytest.param(ROLE, ROLE_KEY, {"metadata": {"labels": {}}}, "RoleUpdated", id="role-label"),
        pytest.param(ROLE_BINDING, BINDING_KEY, {"subjects": []}, "RoleBindingUpdated", id="subjects"),
        pytest.param(
            ROLE_BINDING,
            BINDING_KEY,
            {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"}},
            "RoleBindingUpdated",
            id="role-ref",
        ),
        pytest.param(
            INTERNAL_MEMBER_CLUSTER,
            INTERNAL,
            {"spec": {"state": "Leave"}},
            "InternalMemberClusterSpecUpdated",
            id="internal-member",
        ),
    ],
)
async def test_what_was_changed_by_hand_is_put_right(stage, kind, key, change, event):
    await stage.add()
    await stage.reconcile()
    wanted = await stage.store.get(kind, key)
    await stage.change(kind, key, **change)
    stage.events.clear()
    stage.time += ACCESS_CHECK
    await stage.reconcile()
    found = await stage.store.get(kind, key)
    members = [member for member in wanted if member not in ("metadata", "status")]
    assert {member: found[member] for member in members} == {member: wanted[member] for member in members}
    assert found["metadata"].get("labels") == wanted["metadata"].get("labels")
    assert stage.events == [("Normal", event)]


@pytest.mark.parametrize(("kind", "key"), PIECES[1:], ids=["role", "role-binding", "internal-member"])
async def test_what_was_deleted_by_hand_is_made_again(stage, kind, key):
    await stage.add()
    await stage.reconcile()
    await stage.store.delete(kind, key)
    stage.time += ACCESS_CHECK
    await stage.reconcile()
    assert await stage.exists(kind, key)


async def test_a_namespace_deleted_by_hand_is_made_again_with_all_that_was_in_it(stage):
    await stage.add()
    await stage.reconcile()
    await stage.change(INTERNAL_MEMBER_CLUSTER, INTERNAL, metadata={"finalizers": ["example.com/hold"]})
    await stage.store.delete(NAMESPACE, HOME)
    with pytest.raises(RetryError, match="namespace fleet-member-lion is still being deleted"):
        await stage.reconcile()
    await stage.change(INTERNAL_MEMBER_CLUSTER, INTERNAL, metadata={"finalizers": []})
    assert not await stage.exists(NAMESPACE, HOME)
    await stage.reconcile()
    assert [await stage.exists(kind, key) for kind, key in PIECES] == [True] * 4


async def test_a_namespace_that_came_back_by_another_hand_gets_its_access_at_once(stage):
    """It has the same name; nothing of what was in the one before it is there."""
    await stage.add()
    await stage.reconcile()
    await stage.store.delete(NAMESPACE, HOME)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}
    await stage.store.create(NAMESPACE, namespace)
    await stage.reconcile()
    assert [await stage.exists(kind, key) for kind, key in PIECES] == [True] * 4
    writes = stage.hub.writes
    await stage.reconcile()
    assert stage.hub.writes == writes


async def test_what_another_member_s_turn_read_in_a_namespace_that_goes_is_not_taken_for_what_is_in_the_next(stage):
    """A new leader reads the access of all members at once, while a namespace is on its way out."""
    await stage.add()
    await stage.add("bear")
    await stage.reconcile()
    await stage.change(INTERNAL_MEMBER_CLUSTER, INTERNAL, metadata={"finalizers": ["example.com/hold"]})
    stage.start()
    await stage.reconcile("bear")
    await stage.store.delete(NAMESPACE, HOME)
    with pytest.raises(RetryError):
        await stage.reconcile()
    await stage.change(INTERNAL_MEMBER_CLUSTER, INTERNAL, metadata={"finalizers": []})
    await stage.reconcile()
    assert [await stage.exists(kind, key) for kind, key in PIECES] == [True] * 4


async def test_works_in_a_namespace_that_goes_while_the_member_stays_are_let_go_of(stage):
    """With the namespace goes the agent's access: nobody else takes the finalizers off, and it would stay for ever."""
    await stage.add()
    await stage.reconcile()
    await stage.work("w1", finalizers=[WORK_CLEANUP])
    await stage.work("w2", finalizers=[WORK_CLEANUP])
    await stage.store.delete(NAMESPACE, HOME)
    with pytest.raises(RetryError, match="namespace fleet-member-lion is still being deleted"):
        await stage.reconcile()
    assert not await stage.exists(NAMESPACE, HOME)
    await stage.reconcile()
    assert [await stage.exists(kind, key) for kind, key in PIECES] == [True] * 4
    assert not await stage.exists(WORK, Key("w1", SPACE))


async def test_a_work_that_is_deleted_while_the_namespace_stays_is_left_to_its_agent(stage):
    await stage.add()
    await stage.reconcile()
    await stage.work("w1")
    await stage.store.delete(WORK, Key("w1", SPACE))
    await stage.reconcile()
    assert await stage.exists(WORK, Key("w1", SPACE))


async def test_another_identity_is_bound_at_once(stage):
    await stage.add()
    await stage.reconcile()
    account = {"kind": "ServiceAccount", "name": "agent", "namespace": "zoo"}
    await stage.change(MEMBER_CLUSTER, LION, spec={"identity": account})
    await stage.reconcile()
    binding = await stage.store.get(ROLE_BINDING, BINDING_KEY)
    assert binding["subjects"] == [account]


async def test_an_identity_that_cannot_be_bound_is_reported_and_stops_no_heartbeat(stage):
    await stage.add(identity={"kind": "Robot", "name": "x"})
    with pytest.raises(TerminalError, match=r"MemberCluster lion: spec.identity.kind is 'Robot'"):
        await stage.reconcile()
    assert await stage.condition("ReadyToJoin") == ("False", "MemberClusterNotReadyToJoin")
    await stage.beat()
    with pytest.raises(TerminalError):
        await stage.reconcile()
    assert await stage.heartbeat() == "2026-03-01T12:00:00Z"
    await stage.change(MEMBER_CLUSTER, LION, spec={"identity": {"kind": "User", "name": "x"}})
    await stage.reconcile()
    assert await stage.condition("ReadyToJoin") == ("True", "MemberClusterReadyToJoin")


async def test_an_identity_that_the_api_server_refuses_is_not_tried_again(stage, monkeypatch):
    refusals = []
    real = stage.store.create

    async def create(kind, document):
        if kind == ROLE_BINDING and document["subjects"][0]["name"] == "No Such":
            refusals.append(kind)
            raise InvalidObjectError("subjects[0].name: Invalid value")
        return await real(kind, document)

    monkeypatch.setattr(stage.store, "create", create)
    await stage.add(identity={"kind": "User", "name": "No Such"})
    for _ in range(3):
        with pytest.raises(TerminalError, match=r"spec.identity was refused: subjects\[0\].name"):
            await stage.reconcile()
    assert len(refusals) == 1
    await stage.change(MEMBER_CLUSTER, LION, spec={"identity": {"kind": "User", "name": "lion"}})
    await stage.reconcile()
    assert await stage.condition("ReadyToJoin") == ("True", "MemberClusterReadyToJoin")


async def test_a_member_that_left_goes_with_all_that_the_hub_keeps_for_it(stage):
    await stage.add()
    await stage.reconcile()
    await stage.beat()
    await stage.work("w1")
    await stage.work("w2", finalizers=[])
    await stage.reconcile()
    await stage.store.delete(MEMBER_CLUSTER, LION)
    result = await stage.reconcile()
    assert result.requeue_after == timedelta(minutes=15)
    internal = await stage.store.get(INTERNAL_MEMBER_CLUSTER, INTERNAL)
    assert internal["spec"]["state"] == "Leave"
    assert await stage.exists(WORK, Key("w1", SPACE)), "the agent still has it"
    stage.time += timedelta(minutes=5)
    writes = stage.hub.writes
    result = await stage.reconcile()
    assert (result.requeue_after, stage.hub.writes) == (timedelta(minutes=10), writes)
    await stage.beat(joined=False)
    await stage.reconcile()
    pieces = (*PIECES, (WORK, Key("w1", SPACE)), (WORK, Key("w2", SPACE)), (MEMBER_CLUSTER, LION))
    assert [await stage.exists(kind, key) for kind, key in pieces] == [False] * 7
    assert (await stage.reconcile()).requeue_after is None


async def test_a_member_that_does_not_answer_is_waited_for_a_quarter_of_an_hour(stage):
    await stage.add()
    await stage.reconcile()
    await stage.beat()
    await stage.work("w1")
    await stage.store.delete(MEMBER_CLUSTER, LION)
    await stage.reconcile()
    stage.time += timedelta(minutes=14, seconds=59)
    assert (await stage.reconcile()).requeue_after == timedelta(seconds=1)
    stage.time += timedelta(seconds=1)
    await stage.reconcile()
    assert not await stage.exists(WORK, Key("w1", SPACE))
    assert not await stage.exists(MEMBER_CLUSTER, LION)


async def test_an_agent_that_keeps_writing_cannot_prevent_its_removal(stage, monkeypatch):
    """It writes between any two writes of the loop, as long as the API server lets it."""
    await stage.add()
    await stage.reconcile()
    await stage.beat()
    await stage.work("w1")
    await stage.store.delete(MEMBER_CLUSTER, LION)
    await stage.reconcile()
    replace = stage.store.replace

    async def replace_and_be_overtaken(kind, document):
        stored = await replace(kind, document)
        if kind == WORK and await stage.exists(ROLE_BINDING, BINDING_KEY):
            await stage.store.replace_status(WORK, {**stored, "status": {"conditions": []}})
        return stored

    monkeypatch.setattr(stage.store, "replace", replace_and_be_overtaken)
    stage.time += timedelta(minutes=15)
    await stage.reconcile()
    assert not await stage.exists(WORK, Key("w1", SPACE))
    assert not await stage.exists(MEMBER_CLUSTER, LION)


async def test_a_work_never_loses_its_manifests_before_it_goes(stage):
    """An agent that is late would delete what it placed."""
    await stage.add()
    await stage.reconcile()
    await stage.work("w1")
    watcher = stage.store.watch(WORK, stage.store.resource_version)
    await stage.store.delete(MEMBER_CLUSTER, LION)
    stage.time += timedelta(minutes=15)
    await stage.reconcile()
    seen = [await anext(watcher) for _ in range(2)]
    assert [event.document["spec"] for event in seen] == [SPEC, SPEC]
    assert [event.type.value for event in seen] == ["MODIFIED", "DELETED"]


async def test_a_namespace_that_something_holds_is_waited_for(stage):
    await stage.add()
    await stage.reconcile()
    held = {"name": "held", "namespace": SPACE, "finalizers": ["example.com/hold"]}
    await stage.store.create(CONFIG_MAP, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": held})
    await stage.beat(joined=False)
    await stage.store.delete(MEMBER_CLUSTER, LION)
    await stage.reconcile()
    await stage.beat(joined=False)
    for _ in range(2):
        assert (await stage.reconcile()).requeue_after == timedelta(seconds=5)
    await stage.change(CONFIG_MAP, Key("held", SPACE), metadata={"finalizers": []})
    await stage.reconcile()
    assert not await stage.exists(MEMBER_CLUSTER, LION)


async def test_a_member_that_was_never_taken_in_leaves_at_once(stage):
    await stage.add()
    await stage.change(MEMBER_CLUSTER, LION, metadata={"finalizers": [MEMBER_CLUSTER_FINALIZER]})
    await stage.store.delete(MEMBER_CLUSTER, LION)
    await stage.reconcile()
    assert not await stage.exists(MEMBER_CLUSTER, LION)


async def test_what_others_hold_is_left_to_them(stage):
    await stage.add()
    await stage.change(MEMBER_CLUSTER, LION, metadata={"finalizers": ["example.com/hold"]})
    await stage.store.delete(MEMBER_CLUSTER, LION)
    before = stage.store.resource_version
    await stage.reconcile()
    assert stage.store.resource_version == before


async def test_a_member_that_comes_again_begins_anew(stage):
    await stage.add()
    await stage.reconcile()
    await stage.beat()
    await stage.reconcile()
    await stage.store.delete(MEMBER_CLUSTER, LION)
    await stage.reconcile()
    await stage.beat(joined=False)
    await stage.reconcile()
    await stage.add()
    await stage.reconcile()
    assert [await stage.exists(kind, key) for kind, key in PIECES] == [True] * 4
    assert await stage.condition("Joined") == ("Unknown", "MemberClusterJoinStateUnknown")
    assert "agentStatus" not in await stage.status()


class RefusingStore(UnsteadyStore):
    """A store whose writes fail from a certain one on, until they are let through."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.left = None

    async def _turn(self):
        await super()._turn()
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise InvalidObjectError("refused")


@pytest.mark.parametrize("writes", range(6))
async def test_a_pass_that_ends_anywhere_is_finished_by_the_next(monkeypatch, writes):
    monkeypatch.setattr("tests.webhook.controllers.members.member_stage.UnsteadyStore", RefusingStore)
    async with staged() as stage:
        await stage.add()
        await stage.known()
        stage.store.left = writes
        with suppress(InvalidObjectError, TerminalError):  # the status is stored later
            await stage.controller.reconcile("lion")
        stage.store.left = None
        stage.start()
        await stage.reconcile()
        assert [await stage.exists(kind, key) for kind, key in PIECES] == [True] * 4
        assert await stage.condition("ReadyToJoin") == ("True", "MemberClusterReadyToJoin")


@pytest.mark.parametrize("writes", range(7))
async def test_a_departure_that_ends_anywhere_is_finished_by_the_next(monkeypatch, writes):
    monkeypatch.setattr("tests.webhook.controllers.members.member_stage.UnsteadyStore", RefusingStore)
    async with staged() as stage:
        await stage.add()
        await stage.reconcile()
        await stage.work("w1")
        await stage.work("w2")
        await stage.store.delete(MEMBER_CLUSTER, LION)
        await stage.reconcile()
        await stage.beat(joined=False)
        await stage.known()
        stage.store.left = writes
        with suppress(InvalidObjectError):
            await stage.controller.reconcile("lion")
        stage.store.left = None
        stage.start()
        await stage.reconcile()
        pieces = (*PIECES, (WORK, Key("w1", SPACE)), (WORK, Key("w2", SPACE)), (MEMBER_CLUSTER, LION))
        assert [await stage.exists(kind, key) for kind, key in pieces] == [False] * 7


async def test_many_members_are_asked_about_by_few_questions(stage, monkeypatch):
    for number in range(50):
        await stage.add(f"m{number}")
    await stage.known()
    await asyncio.gather(*(stage.controller.reconcile(f"m{number}") for number in range(50)))
    await stage.known()
    questions = []

    def count(name, real):
        async def ask(kind, *args):
            questions.append((name, kind.kind))
            return await real(kind, *args)

        return ask

    for name in ("get", "list"):
        monkeypatch.setattr(stage.store, name, count(name, getattr(stage.store, name)))
    stage.start()
    await asyncio.gather(*(stage.controller.reconcile(f"m{number}") for number in range(50)))
    assert questions == [("list", "Role"), ("list", "RoleBinding")]
    assert not stage.cache.watches(ROLE)


def made(kind, name, namespace="", **members):
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), **members.pop("metadata", {})}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **members}


@pytest.mark.parametrize(
    ("kind", "old", "new", "wanted"),
    [
        pytest.param(MEMBER_CLUSTER, None, made(MEMBER_CLUSTER, "lion"), "lion", id="new-member"),
        pytest.param(
            MEMBER_CLUSTER,
            made(MEMBER_CLUSTER, "lion"),
            made(MEMBER_CLUSTER, "lion", status={"x": 1}),
            None,
            id="our-own-report",
        ),
        pytest.param(
            MEMBER_CLUSTER,
            made(MEMBER_CLUSTER, "lion"),
            made(MEMBER_CLUSTER, "lion", metadata={"generation": 2}),
            "lion",
            id="spec",
        ),
        pytest.param(
            INTERNAL_MEMBER_CLUSTER,
            made(INTERNAL_MEMBER_CLUSTER, "lion", SPACE),
            made(INTERNAL_MEMBER_CLUSTER, "lion", SPACE, status={"x": 1}),
            "lion",
            id="heartbeat",
        ),
        pytest.param(
            INTERNAL_MEMBER_CLUSTER, made(INTERNAL_MEMBER_CLUSTER, "lion", SPACE), None, "lion", id="order-gone"
        ),
        pytest.param(INTERNAL_MEMBER_CLUSTER, None, made(INTERNAL_MEMBER_CLUSTER, "x", SPACE), None, id="other-name"),
        pytest.param(INTERNAL_MEMBER_CLUSTER, None, made(INTERNAL_MEMBER_CLUSTER, "lion", "x"), None, id="elsewhere"),
        pytest.param(NAMESPACE, made(NAMESPACE, SPACE), None, "lion", id="namespace-gone"),
        pytest.param(
            NAMESPACE,
            made(NAMESPACE, SPACE),
            made(NAMESPACE, SPACE, metadata={"annotations": {"x": "y"}}),
            None,
            id="namespace-annotated",
        ),
        pytest.param(NAMESPACE, made(NAMESPACE, "shop"), None, None, id="other-namespace"),
    ],
)
def test_who_is_concerned(kind, old, new, wanted):
    woken = [name for watch in WATCHES if watch.kind == kind for name in watch.keys(ObjectDelta(old, new))]
    assert woken == ([] if wanted is None else [wanted])
