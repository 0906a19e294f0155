"""Random histories of one placement: whatever happens, the rollout keeps its limits, and in the end it comes through.

The controllers are the real ones, driven by hand on the embedded store: they reconcile in any order, hear of what
others did late, and die at any write. Members, and the person who changes their mind, are played by the test.

What is checked after every reconcile is stated on what the controller could know then, its own writes included:

- Limits (rollout.md 7.3). Of the bindings that are neither deleting nor failed-and-outdated, one reconcile updates and
  removes at most ``(Ready - MayVanish) - (N - maxUnavailable)``, and none when that is not positive: so by our own
  doing never fewer than N - maxUnavailable are available. Failed outdated ones are updated without any limit (5.4,
  example R5), and a changed apply strategy is pushed outside all limits (8); such a reconcile does nothing else.
- It binds only while ``CanBeReady`` and what it binds stay within N + maxSurge. Both numbers are those from before the
  reconcile: a failed binding that is updated in the same one can be ready again and is not counted (7.3, R9).
- Cleanup gate (7.5): no cluster ever has two live bindings, or a deleting one beside one that is or was Bound.
- When members are healthy and the limits allow it, everything comes to its end; then another pass writes nothing.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from scorer.api.conditions import make_condition, merge_conditions
from scorer.api.family import PlacementRef
from scorer.api.kinds import (
    BINDING,
    DISRUPTION_BUDGET,
    EVICTION,
    MEMBER_CLUSTER,
    NAMESPACE,
    PLACEMENT,
    POLICY_SNAPSHOT,
    RESOURCE_SNAPSHOT,
    WORK,
)
from scorer.api.meta import JsonObject, parse_time
from scorer.api.names import PARENT_BINDING, PREVIOUS_BINDING_STATE, WORK_CLEANUP, member_namespace
from scorer.api.unstructured.documents import with_spec
from scorer.api.values.int_or_percent import scaled_up
from scorer.placement.policy_hash import policy_hash
from scorer.rollout.apply_strategy import effective_apply_strategy
from scorer.rollout.confirmation.policy import NO_CONFIRMATION
from scorer.rollout.snapshots.groups import latest_group, snapshot_groups
from scorer.rollout.snapshots.policies import plan_policy_snapshots
from scorer.rollout.snapshots.resources import UNTHROTTLED, plan_resource_snapshots
from tests.builders.go_texts import GO_ESCAPED
from tests.thoroughness import SOAK
from tests.virtual_time import run_in_virtual_time
from tests.webhook.controllers.by_hand import Life, Served
from tests.webhook.edits import edit
from webhook.controllers.machinery.result import TerminalError
from webhook.controllers.placements.evictions import EvictionController
from webhook.controllers.placements.rollout import RolloutController
from webhook.controllers.placements.scheduler import SchedulerController
from webhook.controllers.placements.work_generator import BindingRef, WorkGenerator
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.cache import hub as hub_module
from webhook.kube.listers.maintenance_windows import MaintenanceWindows
from webhook.kube.listers.placements import children
from webhook.kube.ports import Key, NotFoundError, RetryError, StoreError
from webhook.settings.loop import LoopSettings

EXAMPLES, LENGTH = (4000, 120) if SOAK else (25, 60)

CLUSTERS = tuple("abcdef")
REF = PlacementRef(PLACEMENT.kind, "p")
KINDS = (PLACEMENT, POLICY_SNAPSHOT, RESOURCE_SNAPSHOT, BINDING, WORK, MEMBER_CLUSTER, EVICTION)
PERIOD = timedelta(seconds=60)
NOT_FAILED = ("OverriddenPending", "WorkNotSynchronizedYet", "ApplyPending", "ResourceNotAvailableYet")


@pytest.fixture(autouse=True, scope="module")
def _statuses_are_stored_at_once():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hub_module, "STATUS_DELAY_SECONDS", 0.0)
        patch.setattr(hub_module, "_RETRY_SECONDS", (0.0,))
        yield


class History:
    """One placement on six clusters, the process that looks after it, and the world around it."""

    def __init__(self, store: EmbeddedStore) -> None:
        self.store = store
        self.now = datetime(2026, 11, 20, 12, tzinfo=UTC)
        self.modes = dict.fromkeys(CLUSTERS, "ready")
        self.release: tuple[int, str] = (1, "good")
        self.looks: dict[tuple[str, int], int] = defaultdict(int)
        self.evictions = 0
        self.life = self._live()

    def _live(self) -> Life:
        life = Life(self.store, KINDS)
        self.rollout = RolloutController(life.hub, self.clock, LoopSettings(), MaintenanceWindows(life.cache))
        self.scheduler = SchedulerController(
            life.hub, self.clock, lambda *_: None, self.rollout, life.keys, removal=NO_CONFIRMATION
        )
        self.works = WorkGenerator(
            life.hub, self.clock, Served(), lambda document, event: None, life.keys, removal=NO_CONFIRMATION
        )
        self.eviction = EvictionController(life.hub, self.clock)
        return life

    def clock(self) -> datetime:
        return self.now

    async def begin(self) -> None:
        for name in CLUSTERS:
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": member_namespace(name)}}
            await self.store.create(NAMESPACE, namespace)
            made = await self.store.create(
                MEMBER_CLUSTER,
                {
                    "apiVersion": MEMBER_CLUSTER.api_version,
                    "kind": MEMBER_CLUSTER.kind,
                    "metadata": {"name": name},
                    "spec": {"identity": {"kind": "User", "name": name}},
                },
            )
            await self.store.replace_status(MEMBER_CLUSTER, {**made, "status": _joined()})
        await self.store.create(
            PLACEMENT,
            {
                "apiVersion": PLACEMENT.api_version,
                "kind": PLACEMENT.kind,
                "metadata": {"name": "p"},
                "spec": {"resourceSelectors": [], "policy": {"placementType": "PickN", "numberOfClusters": 3}},
            },
        )
        await self.life.hear()

    # What the person does.

    async def change(self, **fields: Any) -> None:
        """Change fields of the placement's spec."""
        await edit(self.store, PLACEMENT, Key("p"), lambda it: with_spec(it, **fields))

    async def change_strategy(self, **fields: Any) -> None:
        strategy = (await self.placement())["spec"].get("strategy") or {}
        await self.change(strategy={**strategy, **fields})

    async def placement(self) -> JsonObject:
        return await self.store.get(PLACEMENT, Key("p"))

    async def set_budget(self, limits: dict[str, Any] | None) -> None:
        if await self._budget() is not None:
            await self.store.delete(DISRUPTION_BUDGET, Key("p"))
        if limits is not None:
            head = {"apiVersion": DISRUPTION_BUDGET.api_version, "kind": DISRUPTION_BUDGET.kind}
            await self.store.create(DISRUPTION_BUDGET, {**head, "metadata": {"name": "p"}, "spec": limits})

    async def _budget(self) -> JsonObject | None:
        try:
            return await self.store.get(DISRUPTION_BUDGET, Key("p"))
        except NotFoundError:
            return None

    async def evict(self, cluster: str) -> None:
        self.evictions += 1
        head = {"apiVersion": EVICTION.api_version, "kind": EVICTION.kind, "metadata": {"name": f"e{self.evictions}"}}
        await self.store.create(EVICTION, {**head, "spec": {"placementName": "p", "clusterName": cluster}})

    # What the members do.

    async def member_acts(self, cluster: str) -> None:
        """Let the agent of one member look at its Works once; a silent one does nothing."""
        mode = self.modes[cluster]
        if mode == "silent":
            return
        for work in (await self.store.list(WORK, member_namespace(cluster))).items:
            metadata = work["metadata"]
            if metadata.get("deletionTimestamp"):
                await self.store.replace(WORK, {**work, "metadata": {**metadata, "finalizers": []}})
                continue
            if WORK_CLEANUP not in (metadata.get("finalizers") or ()):
                held = {**work, "metadata": {**metadata, "finalizers": [WORK_CLEANUP]}}
                work = await self.store.replace(WORK, held)
            await self.store.replace_status(WORK, {**work, "status": {"conditions": self._says(work, mode)}})

    def _says(self, work: JsonObject, mode: str) -> list[JsonObject]:
        generation = work["metadata"]["generation"]
        self.looks[work["metadata"]["uid"], generation] += 1
        health = work["spec"]["workload"]["manifests"][0]["data"]["health"]
        if health == "slow":
            health = "good" if self.looks[work["metadata"]["uid"], generation] > 2 else "broken"
        if mode == "failing":
            health = "broken"
        said = [("Applied", "True", "AllManifestsApplied")]
        if work["spec"]["applyStrategy"]["type"] == "ReportDiff":
            said = [("DiffReported", "True", "AllManifestsDiffReported")]
        elif health == "broken":
            said.append(("Available", "False", "SomeManifestsAreNotAvailable"))
        else:
            said.append(("Available", "True", "WorkNotTrackable" if health == "untracked" else "AllManifestsAvailable"))
        made = [
            make_condition(kind, status, reason, "", generation=generation, now=self.now)  # type: ignore[arg-type]
            for kind, status, reason in said
        ]
        return merge_conditions((work.get("status") or {}).get("conditions") or (), made)

    # What the hub does.

    async def reconcile(self, what: str, at: int = 0) -> None:
        """Let one controller work once, and look at what it did."""
        family = {"rollout": self._roll, "placement": self._snapshot, "scheduler": self._schedule}
        if what == "works":
            bindings = children(self.life.cache, BINDING, REF)
            if bindings:
                name = bindings[at % len(bindings)]["metadata"]["name"]
                await self._step(lambda: self.works.reconcile(BindingRef(PLACEMENT.kind, name)), may_retry=True)
        elif what == "evictions":
            for eviction in self.life.cache.list(EVICTION):
                await self._step(lambda name=eviction["metadata"]["name"]: self.eviction.reconcile(name))
        else:
            await family[what]()
        await self._check_gate()

    async def _step(self, work: Callable[[], Awaitable[object]], *, may_retry: bool = False) -> None:
        """Do what a worker of the queue does; when the process dies, another one takes over.

        Only the work generator may say that it has to try again: of a binding that is given up before it was ever
        bound there is nothing to make Works of. Anywhere else it says that something is broken that only we write.
        """
        life, failure = self.life, None
        try:
            await work()
        except (StoreError, RetryError, TerminalError) as error:
            failure = error
        except Exception:
            if not life.store.dead:
                raise
        if life.store.dead:
            await life.end()
            self.life = self._live()
            await self.life.hear()
        elif isinstance(failure, TerminalError) or (isinstance(failure, RetryError) and not may_retry):
            raise failure

    async def _schedule(self) -> None:
        await self._step(lambda: self.scheduler.reconcile(REF))

    def _data(self) -> JsonObject:
        """Return what is placed: every release has other characters that Go escapes."""
        number, health = self.release
        return {"number": str(number), "health": health, "page": GO_ESCAPED[number % len(GO_ESCAPED) :]}

    async def _snapshot(self) -> None:
        """Keep the snapshots, as the placement controller does."""

        async def work() -> None:
            hub = self.life.hub
            placement = self.life.cache.get(PLACEMENT, "p")
            assert placement is not None
            policies = children(self.life.cache, POLICY_SNAPSHOT, REF)
            policy = plan_policy_snapshots(placement, policies, policy_hash(placement["spec"].get("policy")))
            assert not policy.error
            await hub.carry_out(POLICY_SNAPSHOT, policy.writes)
            metadata = {"name": "rates", "namespace": "shop"}
            content = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": self._data()}
            snapshots = children(self.life.cache, RESOURCE_SNAPSHOT, REF)
            plan = plan_resource_snapshots(placement, snapshots, [content], self.now, UNTHROTTLED)
            await hub.carry_out(RESOURCE_SNAPSHOT, plan.writes)

        await self._step(work)

    async def _roll(self) -> None:
        before = {each["metadata"]["name"]: each for each in children(self.life.cache, BINDING, REF)}
        parents = {each["metadata"]["labels"][PARENT_BINDING] for each in self.life.cache.list(WORK)}
        snapshots = snapshot_groups(children(self.life.cache, RESOURCE_SNAPSHOT, REF))
        latest = latest_group(snapshots)
        placement = self.life.cache.get(PLACEMENT, "p")
        assert placement is not None
        await self._step(lambda: self.rollout.reconcile(REF))
        after = {each["metadata"]["name"]: each for each in (await self.store.list(BINDING)).items}
        there = {
            name: each for name, each in before.items() if each["spec"]["state"] != "Unscheduled" or name in parents
        }  # nothing is disrupted where nothing is
        self._check_limits(placement["spec"], there, after, latest.name if latest else "")

    def _check_limits(
        self, spec: JsonObject, before: dict[str, JsonObject], after: dict[str, JsonObject], latest: str
    ) -> None:
        removed, updated, bound, pushed = [], [], [], []
        for name, old in before.items():
            new = after.get(name)
            if _deleting(old):
                continue
            if new is None or _deleting(new):
                removed.append(old)
            elif new["spec"].get("applyStrategy") != old["spec"].get("applyStrategy"):
                pushed.append(old)
                rest = {"applyStrategy": None}
                assert {**new["spec"], **rest} == {**old["spec"], **rest}
            elif new["spec"] != old["spec"]:
                assert (new["spec"]["state"], new["spec"]["resourceSnapshotName"]) == ("Bound", latest)
                (bound if old["spec"]["state"] == "Scheduled" else updated).append(old)
        assert not pushed or not (removed or updated or bound)
        assert {each["spec"]["state"] for each in removed} <= {"Unscheduled"}
        target, unavailable, surge = _numbers(spec, list(before.values()))
        placed = [each for each in before.values() if each["spec"]["state"] != "Scheduled"]
        ready = [each for each in placed if _is_ready(each, self.now)]
        staying = [each for each in ready if not _deleting(each)]
        limited = [*removed, *(each for each in updated if not _has_failed(each))]
        if limited:
            assert len(limited) <= len(staying) - (target - unavailable)
        taken = [each for each in staying if each in limited]
        assert not taken or len(staying) - len(taken) >= target - unavailable
        if bound:
            can_be_ready = [each for each in placed if not _has_failed(each) and "DiffReported" not in _said(each)]
            assert len(can_be_ready) + len(bound) <= target + surge

    async def _check_gate(self) -> None:
        by_cluster = defaultdict(list)
        for binding in (await self.store.list(BINDING)).items:
            by_cluster[binding["spec"]["targetCluster"]].append(binding)
        for those in by_cluster.values():
            live = [each for each in those if not _deleting(each)]
            assert len(live) <= 1
            if live and len(those) > 1:
                previous = (live[0]["metadata"].get("annotations") or {}).get(PREVIOUS_BINDING_STATE)
                assert "Bound" not in (live[0]["spec"]["state"], previous)

    # How it ends.

    async def recover(self) -> None:
        """Make the members healthy, and allow what has to be allowed for a rollout to be possible at all."""
        self.modes = dict.fromkeys(CLUSTERS, "ready")
        self.life.store.writes_left = None
        if self.release[1] == "broken":
            self.release = self.release[0] + 1, "good"
        spec = (await self.placement())["spec"]
        target, unavailable, _ = _numbers(spec, [])
        if unavailable < 1 or target == 0:  # in-place updates never start; what is not ready holds up what goes (R7)
            rolling = {**((spec.get("strategy") or {}).get("rollingUpdate") or {}), "maxUnavailable": 1}
            await self.change_strategy(rollingUpdate=rolling)

    async def hub_acts(self) -> None:
        """Let the hub do what does not need the members."""
        for what in ("evictions", "placement", "scheduler", "rollout"):
            await self.life.hear()
            await self.reconcile(what)

    async def round(self) -> None:
        """Let everybody do their part once, and know of each other."""
        await self.hub_acts()
        await self._all_works()
        await self.life.settle()
        for cluster in CLUSTERS:
            await self.member_acts(cluster)
        await self.life.hear()
        await self._all_works()
        await self.life.settle()

    async def _all_works(self) -> None:
        for at in range(len(children(self.life.cache, BINDING, REF)) - 1, -1, -1):
            await self.reconcile("works", at)

    async def finish(self, rounds: int = 80) -> None:
        """Go on until nothing changes any more, also when a slow release is given the time it needs."""
        quiet = 0
        for _ in range(rounds):
            before = self.store.resource_version
            await self.round()
            quiet = quiet + 1 if self.store.resource_version == before else 0
            if quiet == 4:
                return
            self.now += PERIOD + timedelta(seconds=1)
        pytest.fail("the rollout does not come to an end")

    async def check_end(self) -> None:
        """Everything is where it belongs and ready, and neither this process nor a new one writes anything."""
        spec = (await self.placement())["spec"]
        bindings = (await self.store.list(BINDING)).items
        latest = latest_group(snapshot_groups((await self.store.list(RESOURCE_SNAPSHOT)).items))
        assert latest is not None
        strategy = effective_apply_strategy((spec.get("strategy") or {}).get("applyStrategy"))
        assert len(bindings) == _numbers(spec, [])[0]
        for binding in bindings:
            assert not _deleting(binding)
            assert binding["spec"]["state"] == "Bound"
            assert binding["spec"]["resourceSnapshotName"] == latest.name
            assert _is_ready(binding, self.now)
            assert _said(binding)["RolloutStarted"]["status"] == "True"
            assert effective_apply_strategy(binding["spec"].get("applyStrategy")) == strategy
        works = (await self.store.list(WORK)).items
        assert len(works) == len(bindings)
        for work in works:
            assert work["spec"]["applyStrategy"] == strategy
            assert work["spec"]["workload"]["manifests"][0]["data"] == self._data()
        for _ in range(2):
            before, writes = self.store.resource_version, self.life.hub.writes
            await self.round()
            assert (self.store.resource_version, self.life.hub.writes) == (before, writes)
            await self.life.end()
            self.life = self._live()
            await self.life.hear()


def _joined() -> JsonObject:
    conditions = [
        {"type": kind, "status": "True", "reason": "Yes", "lastTransitionTime": "2026-11-20T11:00:00Z"}
        for kind in ("Joined", "Healthy")
    ]
    heartbeat = "2099-01-01T00:00:00Z"
    agent = {"type": "MemberAgent", "conditions": conditions, "lastReceivedHeartbeat": heartbeat}
    return {"agentStatus": [agent], "conditions": conditions}


def _deleting(document: JsonObject) -> bool:
    return "deletionTimestamp" in document["metadata"]


def _said(binding: JsonObject) -> dict[str, JsonObject]:
    """Return the conditions of the present generation."""
    conditions = (binding.get("status") or {}).get("conditions") or ()
    generation = binding["metadata"]["generation"]
    return {each["type"]: each for each in conditions if each["observedGeneration"] == generation}


def _has_failed(binding: JsonObject) -> bool:
    said = _said(binding)
    kinds = [kind for kind in ("Overridden", "WorkSynchronized", "Applied", "Available") if kind in said]
    return any(said[kind]["status"] == "False" and said[kind]["reason"] not in NOT_FAILED for kind in kinds)


def _is_ready(binding: JsonObject, now: datetime) -> bool:
    said = _said(binding)
    if said.get("DiffReported", {}).get("status") == "True":
        return True
    available = said.get("Available", {})
    if available.get("status") != "True":
        return False
    untracked = available["reason"] == "NotAllWorkAreAvailabilityTrackable"
    return not untracked or now - parse_time(available["lastTransitionTime"]) > PERIOD


def _numbers(spec: JsonObject, bindings: list[JsonObject]) -> tuple[int, int, int]:
    """Return N, maxUnavailable and maxSurge; without bindings, PickAll means all clusters."""
    policy = spec.get("policy") or {}
    match policy.get("placementType"):
        case "PickN":
            target = policy["numberOfClusters"]
        case "PickFixed":
            target = len(policy["clusterNames"])
        case _:
            live = sum(each["spec"]["state"] != "Unscheduled" for each in bindings)
            target = live if bindings else len(CLUSTERS)
    rolling = (spec.get("strategy") or {}).get("rollingUpdate") or {}
    return (
        target,
        scaled_up(rolling.get("maxUnavailable", "25%"), target),
        scaled_up(rolling.get("maxSurge", "25%"), target),
    )


policies = st.one_of(
    st.builds(lambda number: {"placementType": "PickN", "numberOfClusters": number}, st.integers(0, len(CLUSTERS))),
    st.just({"placementType": "PickAll"}),
    st.builds(
        lambda names: {"placementType": "PickFixed", "clusterNames": sorted(names)},
        st.sets(st.sampled_from(CLUSTERS), min_size=1),
    ),
)
amounts = st.one_of(st.integers(0, 4), st.sampled_from(["0%", "10%", "25%", "50%", "100%"]))
budgets = st.one_of(
    st.none(),
    st.builds(lambda value: {"maxUnavailable": value}, amounts),
    st.builds(lambda value: {"minAvailable": value}, amounts),
)
clusters = st.sampled_from(CLUSTERS)
controllers = st.sampled_from(["placement", "scheduler", "rollout", "rollout", "works", "works", "evictions"])
events = st.one_of(
    st.tuples(st.just("reconcile"), controllers, st.integers(0, 11)),
    st.tuples(st.just("round")),
    st.tuples(st.just("round")),
    st.tuples(st.just("hub")),
    st.tuples(st.just("hub")),
    st.tuples(st.just("member"), clusters),
    st.tuples(st.just("hear")),
    st.tuples(st.just("settle")),
    st.tuples(st.just("tick"), st.sampled_from([1, 30, 61])),
    st.tuples(st.just("crash"), st.integers(0, 5), st.booleans()),
    st.tuples(st.just("release"), st.sampled_from(["good", "good", "slow", "broken", "untracked"])),
    st.tuples(st.just("policy"), policies),
    st.tuples(st.just("policy"), policies),
    st.tuples(st.just("limits"), amounts, amounts),
    st.tuples(st.just("apply"), st.sampled_from(["ClientSideApply", "ServerSideApply", "ReportDiff"])),
    st.tuples(st.just("mode"), clusters, st.sampled_from(["ready", "failing", "silent"])),
    st.tuples(st.just("evict"), clusters),
    st.tuples(st.just("budget"), budgets),
)


histories = st.one_of(st.lists(events), st.lists(events, min_size=LENGTH // 2, max_size=LENGTH))
"""The short ones are what a failure shrinks to."""


async def happen(history: History, event: tuple[Any, ...]) -> None:
    """Let one thing happen."""
    match event:
        case "reconcile", what, at:
            await history.reconcile(what, at)
        case ("round",):
            await history.round()
        case ("hub",):
            await history.hub_acts()
        case "member", cluster:
            await history.member_acts(cluster)
        case ("hear",):
            await history.life.hear()
        case ("settle",):
            await history.life.settle()
        case "tick", seconds:
            history.now += timedelta(seconds=seconds)
        case "crash", writes, lands:
            history.life.store.writes_left, history.life.store.last_one_lands = writes, lands
        case "release", health:
            history.release = history.release[0] + 1, health
        case "policy", policy:
            await history.change(policy=policy)
        case "limits", unavailable, surge:
            await history.change_strategy(rollingUpdate={"maxUnavailable": unavailable, "maxSurge": surge})
        case "apply", kind:
            await history.change_strategy(applyStrategy={"type": kind})
        case "mode", cluster, mode:
            history.modes[cluster] = mode
        case "evict", cluster:
            await history.evict(cluster)
        case "budget", limits:
            await history.set_budget(limits)
        case _:
            raise AssertionError(event)


async def play(happenings: list[tuple[Any, ...]]) -> None:
    store = EmbeddedStore.open(None)
    history = History(store)
    try:
        await history.begin()
        for event in happenings:
            await happen(history, event)
        await history.recover()
        await history.finish()
        await history.check_end()
    finally:
        await history.life.end()
        store.close()


@settings(
    deadline=None, max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(happenings=histories)
@example(happenings=[("hub",), ("policy", {"placementType": "PickFixed", "clusterNames": ["a"]})])
def test_every_history_keeps_the_limits_and_comes_to_its_end(happenings):
    run_in_virtual_time(play(happenings))
