"""Simulated members: the clusters behind the MemberClusters of an embedded hub.

Each has its own store. Its agent (`webhook.member`) applies its Works there, and `webhook.embedded.simulation.kubelet`
makes the objects ready. The MemberCluster describes a member's reports and behavior: see
`webhook.embedded.simulation.annotations`.

Only the agents are simulated here. Like real agents, they follow the InternalMemberCluster (Join or Leave) and report
into its status. `webhook.controllers.members.membership` is the hub's part, as for real members.

Three watches on the hub serve all members. All work, due now or later, is an entry of one queue, which a few workers
process: an idle member costs one heap entry.

Source: docs/specifications/rollout.md 11 and 21; docs/specifications/scheduling.md 18 and 19.
"""

import asyncio
import logging
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from scorer.api.cluster.member_state import DEFAULT_HEARTBEAT_PERIOD_SECONDS, MemberState
from scorer.api.kinds import INTERNAL_MEMBER_CLUSTER, MEMBER_CLUSTER, NAMESPACE, WORK, Kind
from scorer.api.meta import JsonObject
from scorer.api.names import MEMBER_NAMESPACE_PREFIX, WORK_CLEANUP, member_namespace
from scorer.api.unstructured.documents import spec_of, with_finalizer, without_finalizer
from webhook.embedded.simulation.annotations import (
    SIMULATE_APPLY,
    SIMULATE_LEAVING,
    Behaviour,
    figures,
    node_count,
    parse_behaviour,
    silent_status,
)
from webhook.embedded.simulation.kubelet import SIMULATED_KINDS, is_simulated, settle
from webhook.embedded.simulation.member_stores import MemberStores, ObservedStore
from webhook.embedded.simulation.work_items import (
    HeartbeatItem,
    Item,
    MemberItem,
    ObjectItem,
    SimulatedMember,
    WorkItem,
)
from webhook.embedded.simulation.workloads import WORKLOAD_KINDS, requests
from webhook.embedded.storage.store import EmbeddedStore, utc_now
from webhook.kube.ports import (
    ConflictError,
    EventType,
    ExpiredError,
    Key,
    NotFoundError,
    Store,
    StoreError,
    WatchEvent,
    key_of,
)
from webhook.member.membership.heartbeat import next_heartbeat, report
from webhook.member.membership.hub_state import read_member_state
from webhook.member.objects.owner_references import is_applied_work, owners
from webhook.member.store.reflector import list_and_watch
from webhook.member.works.backoff import CONFLICT_DELAY, Pace, next_pace
from webhook.member.works.queue import DelayingQueue
from webhook.member.works.reconciler import WORDS, reconcile_work

WORKERS = 8
OPEN_STORES = 128

_LONGEST_BACKOFF = timedelta(minutes=1)
_RELIST_AFTER_SECONDS = 1.0

_log = logging.getLogger(__name__)


class SimulatedMembers:
    """All simulated members of one embedded hub.

    Args:
        hub: Store of the MemberClusters and Works.
        data: Folder of the hub's data, with the members' stores as ``members/<name>.db``. None: unset, in memory.
        now: The clock.
        sleep: Sleeps for a number of seconds of that clock.
        workers: Number of concurrent workers.
        open_stores: Maximum number of open files of members. Only files in use may exceed it.
    """

    def __init__(
        self,
        hub: Store,
        data: Path | None,
        *,
        now: Callable[[], datetime] = utc_now,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        workers: int = WORKERS,
        open_stores: int = OPEN_STORES,
    ) -> None:
        self._hub = hub
        self._now = now
        self._sleep = sleep
        self._workers = workers
        self._stores = MemberStores(data / "members" if data is not None else None, now, open_stores)
        self._agenda: DelayingQueue[Item] = DelayingQueue(now, sleep)
        self._members: dict[str, SimulatedMember] = {}
        self._reported: dict[str, tuple[Any, ...]] = {}
        self._works: dict[str, dict[str, tuple[Any, ...]]] = {}
        self._paces: dict[WorkItem, Pace] = {}
        self._failures: dict[Item, int] = {}
        self._recovered: set[str] = set()

    async def run(self) -> None:
        """Simulate all members until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._agenda.run())
                group.create_task(self._follow(MEMBER_CLUSTER, self._members_listed, self._member_changed))
                events = self._follow(INTERNAL_MEMBER_CLUSTER, self._internals_listed, self._internal_changed)
                group.create_task(events)
                group.create_task(self._follow(WORK, self._works_listed, self._work_changed))
                for _ in range(self._workers):
                    group.create_task(self._worker())
        finally:
            self._stores.close()

    @property
    def open_stores(self) -> int:
        """The number of open stores of members."""
        return len(self._stores)

    @property
    def busy(self) -> bool:
        """Whether any work is running or ready to run."""
        return self._agenda.busy

    @asynccontextmanager
    async def store(self, cluster: str) -> AsyncIterator[EmbeddedStore]:
        """Open the store of a member, while `run` is running.

        Raises:
            NotFoundError: The member does not exist.
            StoreError: The file of the store cannot be opened.
        """
        if cluster not in self._members:
            raise NotFoundError(f"MemberCluster {cluster} not found")
        async with self._stores.use(cluster) as store:
            yield store

    # Changes on the hub are enqueued.

    async def _follow(
        self, kind: Kind, on_list: Callable[[Sequence[JsonObject]], None], changed: Callable[[WatchEvent], None]
    ) -> None:
        while True:
            try:
                await list_and_watch(self._hub, kind, on_list, changed)
            except ExpiredError:
                continue
            except StoreError as error:
                _log.warning("watch on the hub ended", extra={"kind": kind.kind, "error": str(error)})
                await self._sleep(_RELIST_AFTER_SECONDS)

    def _members_listed(self, items: Sequence[JsonObject]) -> None:
        for name in self._members.keys() - {item["metadata"]["name"] for item in items}:
            self._member_gone(name)
        for item in items:
            self._note_member(item)

    def _member_changed(self, event: WatchEvent) -> None:
        if event.type is EventType.DELETED:
            self._member_gone(event.document["metadata"]["name"])
        else:
            self._note_member(event.document)

    def _note_member(self, document: JsonObject) -> None:
        metadata = document["metadata"]
        name = metadata["name"]
        mark = (
            metadata["uid"],
            metadata.get("generation"),
            metadata.get("deletionTimestamp"),
            SIMULATE_LEAVING in (metadata.get("finalizers") or ()),
            tuple(sorted((metadata.get("annotations") or {}).items())),
        )
        cached_member = self._members.get(name)
        if cached_member is not None and cached_member.mark == mark:
            return
        behaviour = parse_behaviour(metadata.get("annotations") or {})
        news = behaviour.problem if cached_member is None or cached_member.behaviour != behaviour else ""
        if cached_member is None:
            self._members[name] = SimulatedMember(mark, behaviour)
        else:
            cached_member.mark, cached_member.behaviour = mark, behaviour
        if news:
            _log.warning("invalid annotation", extra={"cluster": name, "problem": behaviour.problem})
        self._agenda.add(MemberItem(name))

    def _member_gone(self, name: str) -> None:
        if self._members.pop(name, None) is not None:
            self._agenda.forget(HeartbeatItem(name))
            for work in self._works.get(name, ()):
                self._agenda.forget(WorkItem(name, work))

    def _internals_listed(self, items: Sequence[JsonObject]) -> None:
        keys = {key_of(item) for item in items}
        for cluster in [name for name in self._reported if Key(name, member_namespace(name)) not in keys]:
            self._internal_gone(cluster)
        for item in items:
            self._note_internal(item)

    def _internal_changed(self, event: WatchEvent) -> None:
        key = key_of(event.document)
        if event.type is not EventType.DELETED:
            self._note_internal(event.document)
        elif key.namespace == member_namespace(key.name):
            self._internal_gone(key.name)

    def _note_internal(self, document: JsonObject) -> None:
        key, metadata = key_of(document), document["metadata"]
        mark = (metadata["uid"], metadata.get("generation"), metadata.get("deletionTimestamp"))
        if key.namespace == member_namespace(key.name) and self._reported.get(key.name) != mark:
            self._reported[key.name] = mark
            self._agenda.add(MemberItem(key.name))

    def _internal_gone(self, cluster: str) -> None:
        if self._reported.pop(cluster, None) is not None:
            self._agenda.add(MemberItem(cluster))

    def _works_listed(self, items: Sequence[JsonObject]) -> None:
        keys = {key_of(item) for item in items}
        for cluster, works in self._works.items():
            for name in [name for name in works if Key(name, member_namespace(cluster)) not in keys]:
                self._work_gone(cluster, name)
        for item in items:
            self._note_work(item)

    def _work_changed(self, event: WatchEvent) -> None:
        if event.type is EventType.DELETED:
            key = key_of(event.document)
            self._work_gone(key.namespace.removeprefix(MEMBER_NAMESPACE_PREFIX), key.name)
        else:
            self._note_work(event.document)

    def _note_work(self, document: JsonObject) -> None:
        key = key_of(document)
        if not key.namespace.startswith(MEMBER_NAMESPACE_PREFIX):
            return
        cluster = key.namespace.removeprefix(MEMBER_NAMESPACE_PREFIX)
        metadata = document["metadata"]
        words = tuple((metadata.get("annotations") or {}).get(name) for name in WORDS)
        mark = (metadata["uid"], metadata.get("generation"), metadata.get("deletionTimestamp"), words)
        works = self._works.setdefault(cluster, {})
        if works.get(key.name) != mark:
            works[key.name] = mark
            self._take_up(cluster, key.name)

    def _take_up(self, cluster: str, work: str) -> None:
        member = self._members.get(cluster)
        if member is None or not member.applies:
            return  # `_look` enqueues all Works when the member joins
        if member.behaviour.slow:
            self._agenda.add_at(WorkItem(cluster, work), self._now() + member.behaviour.slow)
        else:
            self._agenda.add(WorkItem(cluster, work))

    def _work_gone(self, cluster: str, name: str) -> None:
        self._works.get(cluster, {}).pop(name, None)
        entry = WorkItem(cluster, name)
        self._agenda.forget(entry)
        self._paces.pop(entry, None)
        self._failures.pop(entry, None)

    # Handling of queue entries.

    async def _worker(self) -> None:
        while True:
            entry = await self._agenda.take()
            try:
                await self._handle(entry)
                self._failures.pop(entry, None)
            except ConflictError:
                self._agenda.add_at(entry, self._now() + CONFLICT_DELAY)
            except StoreError as error:
                _log.warning(
                    "simulation failed, will retry",
                    extra={"entry": entry.what, "cluster": entry.cluster, "error": str(error)},
                )
                self._retry(entry)
            except Exception:  # noqa: BLE001 - the loop of the queue: a bug must not stop the other members
                _log.exception("simulation failed, will retry", extra={"entry": entry.what, "cluster": entry.cluster})
                self._retry(entry)
            finally:
                self._agenda.done(entry)

    def _retry(self, entry: Item) -> None:
        count = self._failures[entry] = self._failures.get(entry, 0) + 1
        self._agenda.add_at(entry, self._now() + min(timedelta(seconds=2 ** min(count, 10) / 2), _LONGEST_BACKOFF))

    async def _handle(self, entry: Item) -> None:
        match entry:
            case MemberItem(cluster):
                await self._look(cluster)
            case HeartbeatItem(cluster):
                await self._beat(cluster)
            case WorkItem():
                await self._apply(entry)
            case ObjectItem():
                await self._settle(entry)

    async def _look(self, cluster: str) -> None:
        """Converge the agent to the state requested by the hub and the behavior requested by the annotations."""
        member = self._members.get(cluster)
        if member is None:
            return
        key = Key(cluster, member_namespace(cluster))
        try:
            spec = spec_of(await self._hub.get(INTERNAL_MEMBER_CLUSTER, key))
            member.state = MemberState(spec.get("state") or "")
        except (NotFoundError, ValueError):
            member.state = None
        await self._keep_leaving(cluster, member)
        if member.state is MemberState.LEAVE and not member.behaviour.silent:
            await self._drop_works(cluster)
        if member.beats:
            self._agenda.add(HeartbeatItem(cluster))
            for work in self._works.get(cluster, ()):
                self._take_up(cluster, work)
            return
        self._agenda.forget(HeartbeatItem(cluster))
        if member.state is MemberState.LEAVE and not member.behaviour.silent:
            with suppress(NotFoundError):
                member_figures = figures(member.behaviour, member.placed, member.namespaces)
                await report(self._hub, INTERNAL_MEMBER_CLUSTER, key, member_figures, self._now(), is_joined=False)

    async def _keep_leaving(self, cluster: str, member: SimulatedMember) -> None:
        """Delete a member that simulates a hanging leave, and keep it with a finalizer. Release any other member.

        The hub abandons it after the force-delete wait, but our finalizer remains.
        """
        try:
            document = await self._hub.get(MEMBER_CLUSTER, Key(cluster))
            metadata = document["metadata"]
            is_deleting = bool(metadata.get("deletionTimestamp"))
            if not member.behaviour.leaving:
                changed = without_finalizer(document, SIMULATE_LEAVING)
            else:
                changed = None if is_deleting else with_finalizer(document, SIMULATE_LEAVING)
            if changed is not None:
                await self._hub.replace(MEMBER_CLUSTER, changed)
            if member.behaviour.leaving and not is_deleting and member.state is MemberState.JOIN:
                await self._hub.delete(MEMBER_CLUSTER, Key(cluster), uid=metadata["uid"])
        except NotFoundError:
            return

    async def _drop_works(self, cluster: str) -> None:
        """Remove our finalizer from the Works. The placed objects remain on the member."""
        for work in (await self._hub.list(WORK, member_namespace(cluster))).items:
            if (free := without_finalizer(work, WORK_CLEANUP)) is not None:
                with suppress(NotFoundError):
                    await self._hub.replace(WORK, free)

    async def _beat(self, cluster: str) -> None:
        """Send the member's heartbeat, and schedule the next one."""
        member = self._members.get(cluster)
        if member is None or not member.beats:
            return
        key = Key(cluster, member_namespace(cluster))
        try:
            if member.behaviour.silent:
                await self._adopt(key, member.behaviour)
                return
            await self._count(cluster, member)
            now = self._now()
            member_figures = figures(member.behaviour, member.placed, member.namespaces)
            document = await report(self._hub, INTERNAL_MEMBER_CLUSTER, key, member_figures, now)
        except NotFoundError:
            return
        period = spec_of(document).get("heartbeatPeriodSeconds") or DEFAULT_HEARTBEAT_PERIOD_SECONDS
        if member.has_beaten:
            due = next_heartbeat(now, period, _dice(f"{cluster} {now.timestamp()}") * 2 - 1)
        else:  # all members start together, so the first heartbeats are spread over the period
            due = now + timedelta(seconds=period * _dice(cluster))
            member.has_beaten = True
        self._agenda.add_at(HeartbeatItem(cluster), due)

    async def _adopt(self, key: Key, behaviour: Behaviour) -> None:
        """Set the status of a silent member from its annotation, once."""
        document = await self._hub.get(INTERNAL_MEMBER_CLUSTER, key)
        if document.get("status"):
            return
        status = silent_status(behaviour, self._now(), generation=document["metadata"].get("generation", 0))
        if status:
            await self._hub.replace_status(INTERNAL_MEMBER_CLUSTER, {**document, "status": status})

    async def _count(self, cluster: str, member: SimulatedMember) -> None:
        """Sum up the resource requests on the member and list its namespaces, if its objects have changed."""
        if member.counted or not self._stores.exists(cluster):
            return
        member.counted = True  # before counting: a concurrent write resets it, and the next heartbeat counts again
        nodes = node_count(member.behaviour)
        usage: dict[str, int] = {}
        async with self._stores.use(cluster) as store:
            for kind in WORKLOAD_KINDS:
                for document in (await store.list(kind)).items:
                    for name, amount in requests(document, nodes=nodes).items():
                        usage[name] = usage.get(name, 0) + amount
            namespaces = (await store.list(NAMESPACE)).items
        member.placed = usage
        member.namespaces = {item["metadata"]["name"]: _maker(item) for item in namespaces}

    async def _apply(self, entry: WorkItem) -> None:
        """Reconcile one Work, and enqueue the written objects for the simulated controllers."""
        cluster = entry.cluster
        member = self._members.get(cluster)
        if member is None or not member.applies:
            return
        refuses = f"member {cluster} refuses all objects ({SIMULATE_APPLY}: fail)" if member.behaviour.refuses else ""
        async with self._stores.use(cluster) as store:
            await self._recover(cluster, store)
            observed = ObservedStore(store, refuses)
            try:
                key, now = Key(entry.work, member_namespace(cluster)), self._now()
                word = partial(read_member_state, self._hub, cluster, now)
                outcome = await reconcile_work(key, self._hub, observed, now, member.memory, word)
            finally:  # also after a failure: an interrupted pass has written objects
                self._look_after(cluster, member, observed)
        if outcome.gone:
            self._paces.pop(entry, None)
            return
        pace = self._paces[entry] = next_pace(self._paces.get(entry), outcome)
        self._agenda.add_at(entry, self._now() + pace.delay)

    def _look_after(self, cluster: str, member: SimulatedMember, observed: ObservedStore) -> None:
        for kind, key in observed.written:
            if is_simulated(kind):
                self._agenda.add(ObjectItem(cluster, kind, key))
        if observed.written or observed.deleted:
            member.counted = False
        reports_namespaces = (member.behaviour.status or {}).get("namespaces") is not None
        if reports_namespaces and any(kind == NAMESPACE for kind, _ in observed.written):
            self._agenda.add(HeartbeatItem(cluster))

    async def _recover(self, cluster: str, store: EmbeddedStore) -> None:
        """On the first call for a member, enqueue all of its simulated objects: some may be between two states."""
        if cluster in self._recovered:
            return
        self._recovered.add(cluster)  # before the first await: other workers apply Works of the same member
        for kind in SIMULATED_KINDS:
            for document in (await store.list(kind)).items:
                self._agenda.add(ObjectItem(cluster, kind, key_of(document)))

    async def _settle(self, entry: ObjectItem) -> None:
        member = self._members.get(entry.cluster)
        if member is None:
            return
        nodes = node_count(member.behaviour)
        async with self._stores.use(entry.cluster) as store:
            is_settled = await settle(store, entry.kind, entry.key, self._now(), nodes=nodes)
        for work in is_settled.works:
            if member.applies:
                self._agenda.add(WorkItem(entry.cluster, work))
        if is_settled.changes_at is not None:
            self._agenda.add_at(entry, is_settled.changes_at)


def _maker(namespace: JsonObject) -> str:
    return next((owner["name"] for owner in owners(namespace) if is_applied_work(owner)), "")


def _dice(seed: str) -> float:
    """Return a pseudo-random number from 0 to 1 that is always the same for one *seed*."""
    return zlib.crc32(seed.encode()) / 0xFFFFFFFF
