"""The controller of member clusters: joining, the status that agents report, and leaving.

Source: rollout.md 17, 20 and 21.
"""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Final

from scorer.api.cluster.member_state import MemberState
from scorer.api.event import Event
from scorer.api.kinds import INTERNAL_MEMBER_CLUSTER, MEMBER_CLUSTER, NAMESPACE, WORK
from scorer.api.meta import JsonObject
from scorer.api.names import (
    ACCEPT_OLDER_UNTIL,
    MEMBER_CLUSTER_FINALIZER,
    MEMBER_NAMESPACE_PREFIX,
    WORK_CLEANUP,
    member_namespace,
)
from scorer.api.unstructured.documents import (
    annotation,
    finalizers_of,
    is_deleting,
    name_of,
    spec_of,
    status_of,
    uid_of,
    without_finalizer,
)
from scorer.membership.access import ROLE, ROLE_BINDING, InvalidIdentityError, role_binding_name, role_name
from scorer.membership.heartbeats import Heartbeats, record_heartbeats
from scorer.membership.joining import (
    Repair,
    plan_internal_member,
    plan_member,
    plan_namespace,
    plan_role,
    plan_role_binding,
)
from scorer.membership.leaving import FORCE_DELETE_AFTER, DepartureStage, departure, released
from scorer.membership.member_status import member_status
from scorer.membership.missed_heartbeats import is_silent
from webhook.controllers.machinery.failures import concerned_of
from webhook.controllers.machinery.observer import UNOBSERVED, LoopObserver
from webhook.controllers.machinery.result import DONE, Result, TerminalError
from webhook.controllers.machinery.wiring import Watch, Wiring, owner_of_member
from webhook.controllers.members.access import MemberAccess
from webhook.kube.cache.changes import ObjectDelta
from webhook.kube.cache.hub import Hub, run_concurrently
from webhook.kube.ports import (
    AlreadyExistsError,
    InvalidObjectError,
    Key,
    RetryError,
)

HUB_NAMESPACE: Final = "kube-system"
"""Its uid stands for the hub (`scorer.membership.identity`)."""
POLL_CLEARING: Final = timedelta(seconds=5)
"""How often to check a namespace that is being deleted, besides its events."""


def _of_member(change: ObjectDelta) -> Iterator[str]:
    """Yield a member whose MemberCluster has changed, unless only in its status, which we store ourselves."""
    if change.touches(_orders):
        yield change.document["metadata"]["name"]


def _of_report(change: ObjectDelta) -> Iterator[str]:
    """Yield the member whose InternalMemberCluster has changed: by a heartbeat of its agent, or by a user."""
    metadata = change.document["metadata"]
    if metadata.get("namespace") == member_namespace(metadata["name"]):
        yield metadata["name"]


def _of_namespace(change: ObjectDelta) -> Iterator[str]:
    """Yield the member whose namespace has changed."""
    name = change.document["metadata"]["name"]
    if name.startswith(MEMBER_NAMESPACE_PREFIX) and change.touches(_orders):
        yield name.removeprefix(MEMBER_NAMESPACE_PREFIX)


def _orders(document: JsonObject) -> tuple[object, ...]:
    """Return the parts of a MemberCluster or Namespace that we act upon, or keep as they have to be."""
    metadata = document["metadata"]
    marks = ("uid", "generation", "deletionTimestamp", "labels", "finalizers")
    return (*(metadata.get(mark) for mark in marks), annotation(document, ACCEPT_OLDER_UNTIL))


WATCHES: Final = (
    Watch(MEMBER_CLUSTER, _of_member),
    Watch(INTERNAL_MEMBER_CLUSTER, _of_report),
    Watch(NAMESPACE, _of_namespace),
)
"""What wakes a member."""


class MemberController:
    """Keeps what the hub has of a member.

    What it has heard of agents (`scorer.membership.heartbeats`) lives as long as it does: make a new one for every
    term of a leader.

    Args:
        hub: Where everything is; its cache has to have Works and the kinds that are watched.
        now: The clock.
        record: Takes the events that are worth telling.
        force_delete_after: How long to wait for the agent of a member that is being deleted.
        observer: Is told which members are silent.
    """

    def __init__(
        self,
        hub: Hub,
        now: Callable[[], datetime],
        record: Callable[[JsonObject, Event], None],
        force_delete_after: timedelta = FORCE_DELETE_AFTER,
        observer: LoopObserver = UNOBSERVED,
    ) -> None:
        self._hub = hub
        self._now = now
        self._record = record
        self._force_delete_after = force_delete_after
        self._observer = observer
        self._access = MemberAccess(hub, now)
        self._heard: dict[str, tuple[str, Heartbeats]] = {}
        self._since = now()
        self._end = hub.cache.on_return(INTERNAL_MEMBER_CLUSTER, self._listen)
        self._refused: dict[str, tuple[object, str]] = {}

    def wiring(self) -> Wiring[str]:
        """Say what wakes it: the member, what its agent reports, and its namespace."""
        return Wiring(
            name="member",
            reconcile=self.reconcile,
            concerned=concerned_of(MEMBER_CLUSTER),
            owner=owner_of_member,
            watches=WATCHES,
            resync=lambda: map(name_of, self._hub.cache.list(MEMBER_CLUSTER)),
            takes_reports=True,
            ends=(self._end,),
        )

    def _listen(self) -> None:
        """Begin to listen for heartbeats anew: what was sent while the hub could not be read was not heard."""
        self._since = self._now()

    async def reconcile(self, name: str) -> Result:
        """Make the hub's part of one member match its MemberCluster, and the status match what its agents say."""
        member = self._hub.cache.get(MEMBER_CLUSTER, name)
        if member is None:
            self._heard.pop(name, None)
            self._refused.pop(name, None)
            self._access.forget(name)
            self._observer.needs_action(MEMBER_CLUSTER, name, still=False)
            return DONE
        return await (self._leave(member) if is_deleting(member) else self._join(member))

    async def _join(self, member: JsonObject) -> Result:
        # The finalizer first: what is made for the member from here on has to be cleared away when it leaves.
        if (with_our_finalizer := plan_member(member)) is not None:
            member = await self._hub.amend(MEMBER_CLUSTER, with_our_finalizer)
        cluster = member["metadata"]["name"]
        namespace = self._hub.cache.get(NAMESPACE, member_namespace(cluster))
        if namespace is not None and is_deleting(namespace):
            await self._let_go(cluster)
            raise RetryError(f"namespace {member_namespace(cluster)} is still being deleted", POLL_CLEARING)
        namespace = await self._repair(member, plan_namespace(cluster, namespace)) or namespace
        assert namespace is not None
        problem = await self._let_in(member, uid_of(namespace))
        internal = self._internal(cluster)
        desired = plan_internal_member(member, internal, MemberState.JOIN, self._hub_uid())
        internal = await self._repair(member, desired) or internal
        if self._hub.cache.of_kind(INTERNAL_MEMBER_CLUSTER).away:
            self._listen()
        again = self._report(member, internal, problem, since=self._since)
        if problem:
            raise TerminalError(f"MemberCluster {cluster}: {problem}")
        return Result(again)

    async def _let_in(self, member: JsonObject, home: str) -> str:
        """Give the member's agent access; return why that is impossible, empty when all is well.

        Args:
            member: MemberCluster.
            home: The uid of its namespace.
        """
        cluster = member["metadata"]["name"]
        namespace = member_namespace(cluster)
        role = await self._access.get(ROLE, Key(role_name(cluster), namespace), home)
        if (repair := plan_role(cluster, role)) is not None:
            await self._access.carry_out(repair, home)
            self._tell(member, repair)
        identity = spec_of(member).get("identity")
        refused, reason = self._refused.get(cluster, (None, ""))
        if reason and refused == identity:
            return reason
        binding = await self._access.get(ROLE_BINDING, Key(role_binding_name(cluster), namespace), home)
        try:
            if (repair := plan_role_binding(cluster, identity, binding)) is not None:
                await self._access.carry_out(repair, home)
                self._tell(member, repair)
        except InvalidIdentityError as error:
            return str(error)
        except InvalidObjectError as error:  # remembered: it would be sent, and refused, at every heartbeat
            self._refused[cluster] = identity, f"spec.identity was refused: {error}"
            return self._refused[cluster][1]
        self._refused.pop(cluster, None)
        return ""

    def _hub_uid(self) -> str:
        """Return the uid by which members tell this hub from others; empty: not known."""
        namespace = self._hub.cache.get(NAMESPACE, HUB_NAMESPACE)
        return str(namespace["metadata"].get("uid") or "") if namespace is not None else ""

    def _internal(self, cluster: str) -> JsonObject | None:
        return self._hub.cache.get(INTERNAL_MEMBER_CLUSTER, cluster, member_namespace(cluster))

    async def _repair(self, member: JsonObject, repair: Repair | None) -> JsonObject | None:
        """Do what is planned and tell of it; return the object as it is now, None when nothing was planned."""
        if repair is None:
            return None
        if repair.stored is None:
            try:
                created = await self._hub.create(repair.kind, repair.document)
            except AlreadyExistsError as error:
                raise RetryError(str(error)) from error  # the cache has not heard of it yet
        else:
            created = await self._hub.replace(repair.kind, repair.document)
        self._tell(member, repair)
        return created

    def _tell(self, member: JsonObject, repair: Repair) -> None:
        self._record(member, Event(repair.reason, repair.message))

    def _report(
        self, member: JsonObject, internal: JsonObject | None, problem: str = "", since: datetime | None = None
    ) -> timedelta | None:
        """Store what is known of a member and tell of it; return when to look again."""
        now, cluster, uid = self._now(), member["metadata"]["name"], member["metadata"].get("uid", "")
        last_report, heartbeats = self._heard.get(cluster, ("", {}))
        heartbeats = record_heartbeats(
            _status(internal), _status(member), heartbeats if last_report == uid else {}, now
        )
        self._heard[cluster] = uid, heartbeats
        report = member_status(member, internal, heartbeats, now, problem=problem, since=since)
        self._hub.report(MEMBER_CLUSTER, member, report.status)
        is_waiting = not is_deleting(member) and is_silent(
            report.status
        )  # a member that leaves is not awaited indefinitely
        self._observer.needs_action(MEMBER_CLUSTER, cluster, still=is_waiting)
        for event in report.events:
            self._record(member, Event(event.reason, event.message, "Warning" if event.warning else "Normal"))
        return report.again

    async def _leave(self, member: JsonObject) -> Result:
        """Ask the agent to leave; when it has, or has had enough time, clear up and let the member go."""
        if MEMBER_CLUSTER_FINALIZER not in finalizers_of(member):
            return DONE
        cluster = member["metadata"]["name"]
        namespace = self._hub.cache.get(NAMESPACE, member_namespace(cluster))
        internal = self._internal(cluster)
        self._report(member, internal)
        plan = departure(member, namespace, internal, self._now(), wait=self._force_delete_after)
        if plan.stage is DepartureStage.ASKED:
            await self._repair(member, plan_internal_member(member, internal, MemberState.LEAVE, self._hub_uid()))
            return Result(plan.remaining)
        if plan.stage is DepartureStage.CLEARING and not await self._clear(cluster, namespace):
            return Result(POLL_CLEARING)
        member = self._hub.cache.get(MEMBER_CLUSTER, cluster) or member  # clearing took a while
        if (free := without_finalizer(member, MEMBER_CLUSTER_FINALIZER)) is not None:
            await self._hub.amend(MEMBER_CLUSTER, free)
        self._access.forget(cluster)
        return DONE

    async def _clear(self, cluster: str, namespace: JsonObject | None) -> bool:
        """Take the finalizers off the member's Works, then delete them and the namespace; say whether that is gone.

        The agent's access goes first. Works are deleted as they were judged, so an agent that kept writing to one could
        hold up its own removal without end.

        The Works are read from the store: the cache may keep only parts of them, and writing those would store a Work
        without manifests. An agent that is still running would take that for an order to delete what it placed.
        """
        space = member_namespace(cluster)
        if namespace is not None:
            await self._access.revoke(cluster, uid_of(namespace))
        works = (await self._hub.store.list(WORK, space)).items
        await run_concurrently(self._take_away(work) for work in works)
        if namespace is not None and not is_deleting(namespace):
            await self._hub.delete(NAMESPACE, namespace)
        return self._hub.cache.get(NAMESPACE, space) is None

    async def _let_go(self, cluster: str) -> None:
        """Take our finalizer off the Works that go with a member's namespace; what they placed stays on the member.

        The agent has lost its access with the namespace, so the namespace would wait for it without end. When the
        namespace is gone, it is created again, and so are the Works, which take over the same objects. They are read
        from the store, as in `_clear`.
        """
        works = (await self._hub.store.list(WORK, member_namespace(cluster))).items
        free = (without_finalizer(work, WORK_CLEANUP) for work in works if is_deleting(work))
        await run_concurrently(self._hub.replace(WORK, work) for work in free if work is not None)

    async def _take_away(self, work: JsonObject) -> None:
        """Delete a Work without finalizers, and only in that state: its agent may put its finalizer on again meanwhile.

        Raises:
            ConflictError: Another client has written it since.
        """
        if (free := released(work)) is not None:
            work = await self._hub.replace(WORK, free)
        if not is_deleting(work):
            await self._hub.delete(WORK, work, this_version=True)


def _status(document: JsonObject | None) -> JsonObject:
    return status_of(document or {})
