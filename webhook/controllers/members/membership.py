"""The controller of member clusters: joining, the status that agents report, and leaving.

Source: docs/specifications/rollout.md 17, 20 and 21.
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
"""Namespace whose UID identifies the hub (`scorer.membership.identity`)."""
POLL_CLEARING: Final = timedelta(seconds=5)
"""Poll interval for a namespace that is being deleted, besides its events."""


def _of_member(change: ObjectDelta) -> Iterator[str]:
    """Yield a changed member, unless only its status or annotations without effect here have changed."""
    if change.touches(_orders):
        yield change.document["metadata"]["name"]


def _of_report(change: ObjectDelta) -> Iterator[str]:
    """Yield the member whose InternalMemberCluster has changed, by a heartbeat of its agent or by a user."""
    metadata = change.document["metadata"]
    if metadata.get("namespace") == member_namespace(metadata["name"]):
        yield metadata["name"]


def _of_namespace(change: ObjectDelta) -> Iterator[str]:
    """Yield the member whose namespace was created, deleted or changed. See `_orders`."""
    name = change.document["metadata"]["name"]
    if name.startswith(MEMBER_NAMESPACE_PREFIX) and change.touches(_orders):
        yield name.removeprefix(MEMBER_NAMESPACE_PREFIX)


def _orders(document: JsonObject) -> tuple[object, ...]:
    """Return the parts of a MemberCluster or Namespace that the controller reads or keeps in a desired state."""
    metadata = document["metadata"]
    marks = ("uid", "generation", "deletionTimestamp", "labels", "finalizers")
    return (*(metadata.get(mark) for mark in marks), annotation(document, ACCEPT_OLDER_UNTIL))


WATCHES: Final = (
    Watch(MEMBER_CLUSTER, _of_member),
    Watch(INTERNAL_MEMBER_CLUSTER, _of_report),
    Watch(NAMESPACE, _of_namespace),
)
"""Watches that enqueue a member."""


class MemberController:
    """Manages the hub's objects of a member cluster.

    The recorded heartbeats (`scorer.membership.heartbeats`) live as long as the instance. Create a new instance for
    every leadership term.

    Args:
        hub: The hub cluster. Its cache must have Works and the watched kinds.
        now: The clock.
        record: Records Events.
        force_delete_after: Longest wait for the agent of a member that is being deleted.
        observer: Reports silent members.
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
        self._heartbeats: dict[str, tuple[str, Heartbeats]] = {}
        self._since = now()
        self._end = hub.cache.on_return(INTERNAL_MEMBER_CLUSTER, self._listen)
        self._refused: dict[str, tuple[object, str]] = {}

    def wiring(self) -> Wiring[str]:
        """Return the wiring: the member, reports of its agent, and its namespace enqueue it."""
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
        """Restart the heartbeat clock: heartbeats sent while the hub was unreadable were missed."""
        self._since = self._now()

    async def reconcile(self, name: str) -> Result:
        """Make the hub's objects of one member match its MemberCluster, and its status match the agents' reports.

        Raises:
            RetryError: The member's namespace is being deleted, or the cache lacks an object that exists.
            TerminalError: ``spec.identity`` cannot be granted access.
            StoreError: The hub refused a request, or did not respond.
        """
        member = self._hub.cache.get(MEMBER_CLUSTER, name)
        if member is None:
            self._heartbeats.pop(name, None)
            self._refused.pop(name, None)
            self._access.forget(name)
            self._observer.needs_action(MEMBER_CLUSTER, name, still=False)
            return DONE
        return await (self._leave(member) if is_deleting(member) else self._join(member))

    async def _join(self, member: JsonObject) -> Result:
        cluster = member["metadata"]["name"]
        # The finalizer first: everything made for the member from here on must be cleaned up when it leaves.
        if (amended := plan_member(member, self._internal(cluster))) is not None:
            member = await self._hub.amend(MEMBER_CLUSTER, amended)
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
        next_report = self._report(member, internal, problem, since=self._since)
        if problem:
            raise TerminalError(f"MemberCluster {cluster}: {problem}")
        return Result(next_report)

    async def _let_in(self, member: JsonObject, home: str) -> str:
        """Grant the member's agent access. Return why its identity was rejected, or an empty string.

        Args:
            member: MemberCluster.
            home: UID of its namespace.
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
        except InvalidObjectError as error:  # remembered, so that it is not sent and refused on every heartbeat
            self._refused[cluster] = identity, f"spec.identity was refused: {error}"
            return self._refused[cluster][1]
        self._refused.pop(cluster, None)
        return ""

    def _hub_uid(self) -> str:
        """Return the UID that identifies this hub to members, empty if unknown."""
        namespace = self._hub.cache.get(NAMESPACE, HUB_NAMESPACE)
        return str(namespace["metadata"].get("uid") or "") if namespace is not None else ""

    def _internal(self, cluster: str) -> JsonObject | None:
        return self._hub.cache.get(INTERNAL_MEMBER_CLUSTER, cluster, member_namespace(cluster))

    async def _repair(self, member: JsonObject, repair: Repair | None) -> JsonObject | None:
        """Execute a planned repair and record it. Return the stored object. None if nothing was planned.

        Raises:
            RetryError: An object to be created exists already. The cache has not received it yet.
        """
        if repair is None:
            return None
        if repair.stored is None:
            try:
                created = await self._hub.create(repair.kind, repair.document)
            except AlreadyExistsError as error:
                raise RetryError(str(error)) from error  # the cache has not received it yet
        else:
            created = await self._hub.replace(repair.kind, repair.document)
        self._tell(member, repair)
        return created

    def _tell(self, member: JsonObject, repair: Repair) -> None:
        self._record(member, Event(repair.reason, repair.message))

    def _report(
        self, member: JsonObject, internal: JsonObject | None, problem: str = "", since: datetime | None = None
    ) -> timedelta | None:
        """Store the status of a member and record its events. Return the delay until the next check. None: unset."""
        now, cluster, uid = self._now(), member["metadata"]["name"], member["metadata"].get("uid", "")
        last_report, heartbeats = self._heartbeats.get(cluster, ("", {}))
        heartbeats = record_heartbeats(
            _status(internal), _status(member), heartbeats if last_report == uid else {}, now
        )
        self._heartbeats[cluster] = uid, heartbeats
        works = self._hub.cache.of_kind(WORK).namespaces.get(member_namespace(cluster), {}).values()
        report = member_status(member, internal, heartbeats, now, problem=problem, since=since, works=works)
        self._hub.report(MEMBER_CLUSTER, member, report.status)
        is_waiting = not is_deleting(member) and is_silent(report.status)  # a member that leaves does not need action
        self._observer.needs_action(MEMBER_CLUSTER, cluster, still=is_waiting)
        for event in report.events:
            self._record(member, Event(event.reason, event.message, "Warning" if event.warning else "Normal"))
        return report.again

    async def _leave(self, member: JsonObject) -> Result:
        """Request the agent to leave. Once it has left or timed out, clean up and remove the member's finalizer."""
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
        member = self._hub.cache.get(MEMBER_CLUSTER, cluster) or member  # the cleanup took a while
        if (free := without_finalizer(member, MEMBER_CLUSTER_FINALIZER)) is not None:
            await self._hub.amend(MEMBER_CLUSTER, free)
        self._access.forget(cluster)
        return DONE

    async def _clear(self, cluster: str, namespace: JsonObject | None) -> bool:
        """Delete the member's Works after removing their finalizers, and delete its namespace.

        Return whether the namespace no longer exists.

        The agent's access is revoked first. Works are deleted with the version that was read, so an agent that kept
        writing to one could block its own removal indefinitely.

        The Works are read from the store: the cache may keep only parts of them, and writing those would store a Work
        without manifests. An agent that is still running would take that for an order to delete the placed objects.
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
        """Remove the cleanup finalizer from the deleted Works of a member's namespace.

        Their objects remain on the member.

        The agent loses its access when the namespace is deleted, so the namespace would wait for the agent
        indefinitely. After its deletion the namespace is created again, and so are the Works, which take over the same
        objects. The Works are read from the store, as in `_clear`.
        """
        works = (await self._hub.store.list(WORK, member_namespace(cluster))).items
        free = (without_finalizer(work, WORK_CLEANUP) for work in works if is_deleting(work))
        await run_concurrently(self._hub.replace(WORK, work) for work in free if work is not None)

    async def _take_away(self, work: JsonObject) -> None:
        """Remove the finalizers of a Work, then delete that version: its agent may add its finalizer again.

        Raises:
            ConflictError: Another client has written it since.
        """
        if (free := released(work)) is not None:
            work = await self._hub.replace(WORK, free)
        if not is_deleting(work):
            await self._hub.delete(WORK, work, this_version=True)


def _status(document: JsonObject | None) -> JsonObject:
    return status_of(document or {})
