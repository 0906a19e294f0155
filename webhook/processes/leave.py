"""``harbormaster leave``: releases a member, and removes the objects that ``join`` made for it, the credentials last.

The MemberCluster is deleted first. Its agent releases the placed objects, which remain, and reports that. The loop then
deletes the member's namespace and finally the MemberCluster. Until then the agent needs its account, its rights and its
login, so nothing else is removed before. An interrupted run can be repeated.

The definition of AppliedWorks and the AppliedWorks remain in the cluster: deleting them would delete the placed
objects.
"""

import shlex
from dataclasses import dataclass

from scorer.api.kinds import INTERNAL_MEMBER_CLUSTER, MEMBER_CLUSTER, NAMESPACE
from scorer.api.names import member_namespace
from scorer.api.unstructured.documents import is_deleting, uid_of
from scorer.api.unstructured.json_object import JsonObject
from scorer.membership.identity import HubMember
from webhook.kube.ports import Key, NotFoundError, StoreError
from webhook.member.membership.controller import has_left
from webhook.member.membership.hub_secret import HUB_SECRET, SECRET, HubAccess, InvalidSecretError
from webhook.member.membership.registration import CONFIG_MAP, RECORD, Registration
from webhook.processes.agent_installation import RELEASE_NAME, Helm, find_agent
from webhook.processes.member_objects import hub_leftovers, is_from_join, member_leftovers
from webhook.processes.sides import (
    JoinError,
    Report,
    Side,
    WriteOutcome,
    format_outcome,
    format_release,
    other_cluster,
    release_of,
)


@dataclass(frozen=True, slots=True)
class LeaveOptions:
    """Options of a departure.

    Args:
        member: Name of the MemberCluster.
        hub_namespace: Namespace of harbormaster on the hub.
        namespace: Namespace of the agent in the member.
    """

    member: str
    hub_namespace: str
    namespace: str


class Leave:
    """The departure of one member.

    Args:
        hub: The hub.
        cluster: The member. None means that it is unreachable and nothing is removed there.
        options: Options of the departure.
        report: Called with a line about each object.
        helm: The caller's helm, for the member. None: unset, not installed.
    """

    def __init__(
        self, hub: Side, cluster: Side | None, options: LeaveOptions, report: Report, helm: Helm | None
    ) -> None:
        self._hub = hub
        self._cluster = cluster
        self._options = options
        self._report = report
        self._helm = helm
        self._shown_uid = ""

    async def check(self) -> None:
        """Check that the cluster is this member of this hub, or not a member.

        Raises:
            JoinError: The cluster belongs to another hub or member, or an API server refuses or does not respond.
        """
        options, cluster, hub_uid = self._options, self._cluster, await self._hub.uid()
        if cluster is None:
            return

        async def home() -> str:
            return options.namespace

        try:
            reason = await Registration(options.member, cluster.store, home).refusal(hub_uid)
        except StoreError as error:
            raise cluster.error(f"get ConfigMap {options.namespace}/{RECORD}", error) from error
        if reason:
            raise JoinError(f"{cluster}: {reason}")
        if reason := await other_cluster(
            self._hub, options.member, options.hub_namespace, cluster, await cluster.uid()
        ):
            raise JoinError(f"{reason}. If that cluster is lost, leave without --member-context")
        secret = await cluster.find(SECRET, HUB_SECRET, options.namespace)
        try:
            access = None if secret is None else HubAccess.read(secret)
        except InvalidSecretError:
            return
        if access is not None and (access.member, access.hub) != (options.member, hub_uid):
            theirs, ours = HubMember.named(access.member, access.hub), HubMember.named(options.member, hub_uid)
            secret_name = f"Secret {options.namespace}/{HUB_SECRET}"
            raise JoinError(
                f"{cluster}: {secret_name} is that of {theirs}, not of {ours}. Select another cluster: --member-context"
            )

    async def request_departure(self, *, dry_run: bool) -> bool:
        """Delete the MemberCluster. Return whether it existed.

        Raises:
            JoinError: The hub refuses or does not respond, or the MemberCluster is not the one that an earlier dry run
                has shown.
        """
        key = Key(self._options.member)
        member = await self._hub.find(MEMBER_CLUSTER, key.name)
        if member is None:
            return False
        uid = uid_of(member)
        if self._shown_uid not in ("", uid):
            raise JoinError(f"{self._hub}: MemberCluster {key.name} was recreated. Run the command again")
        self._shown_uid = uid
        await self._hub.check_right("delete", MEMBER_CLUSTER, key)
        if not dry_run and not is_deleting(member):
            try:
                await self._hub.store.delete(MEMBER_CLUSTER, key, uid=uid)
            except NotFoundError:
                pass
            except StoreError as error:
                raise self._hub.error(f"delete MemberCluster {key.name}", error) from error
        self._report(format_outcome(self._hub, MEMBER_CLUSTER, key, WriteOutcome.REMOVED, dry_run=dry_run))
        return True

    async def waited_on(self) -> str:
        """Return why the MemberCluster still exists, empty once it is deleted. Raises `JoinError`."""
        name, space = self._options.member, member_namespace(self._options.member)
        if await self._hub.find(MEMBER_CLUSTER, name) is None:
            return ""
        internal = await self._hub.find(INTERNAL_MEMBER_CLUSTER, name, space)
        if internal is not None and not has_left(internal):
            return (
                "its agent has not reported that it has released the placed objects. The loop waits for 15 minutes "
                "by default (HARBORMASTER_FORCE_DELETE_SECONDS)"
            )
        if await self._hub.find(NAMESPACE, space) is not None:
            return f"namespace {space} on the hub is still being deleted"
        return "the loop has not released the MemberCluster. Is `harbormaster reconcile` running on the hub?"

    async def clear(self, *, dry_run: bool) -> bool:
        """Remove the objects that ``join`` made. Return whether there were any.

        Args:
            dry_run: Remove nothing, and report what would be removed.

        Raises:
            JoinError: An API server refuses, or does not respond.
        """
        options, any_removed = self._options, False
        hub = [(self._hub, *leftover) for leftover in hub_leftovers(options.member, options.hub_namespace)]
        cluster = self._cluster
        steps = list(hub[:-1])
        if cluster is not None:
            any_removed = await self._uninstall(cluster, dry_run=dry_run)
            steps = [(cluster, *leftover) for leftover in member_leftovers(options.namespace)] + steps
            steps.append((cluster, SECRET, Key(HUB_SECRET, options.namespace)))
        for side, kind, key in (*steps, hub[-1]):
            outcome = await side.remove(kind, key, dry_run=dry_run)
            if outcome is not None:
                any_removed = True
                self._report(format_outcome(side, kind, key, outcome, dry_run=dry_run))
        return any_removed

    async def _uninstall(self, cluster: Side, *, dry_run: bool) -> bool:
        """Uninstall the release that ``join`` has installed, unless helm is missing. Raises `JoinError`.

        Returns:
            Whether it was uninstalled, or with *dry_run*, would be.
        """
        agent = await find_agent(cluster, self._options.namespace)
        if self._helm is None or agent is None or not _is_release_of_join(agent):
            return False
        key = Key(release_of(agent), self._options.namespace)
        if not dry_run:
            await self._helm.run(["uninstall", key.name])
        self._report(format_release(cluster, key, WriteOutcome.REMOVED, dry_run=dry_run))
        return True

    async def follow_up(self, *, dry_run: bool) -> list[str]:
        """Return the remaining steps for the caller, one per line. Raises `JoinError`.

        Args:
            dry_run: Nothing was removed: omit the steps that removing it makes unnecessary.
        """
        options, cluster = self._options, self._cluster
        if cluster is None:
            return ["nothing was removed from the member itself. To clean up there, add --member-context"]
        remarks = []
        record = await cluster.find(CONFIG_MAP, RECORD, options.namespace)
        if not dry_run and record is not None and record.get("data"):
            remarks.append(
                f"{cluster}: the agent has not released the cluster: AppliedWorks there keep their finalizers, and "
                "another hub needs --take-over"
            )
        agent = await find_agent(cluster, options.namespace)
        would_be_removed = dry_run and self._helm is not None and agent is not None and _is_release_of_join(agent)
        if agent is not None and not would_be_removed:
            name, release = agent["metadata"]["name"], release_of(agent)
            place = f"Deployment {options.namespace}/{name}"
            command = ["helm", "uninstall", release] if release else ["kubectl", "delete", "deployment", name]
            target = ["--namespace", options.namespace, "--kube-context" if release else "--context", cluster.context]
            remarks.append(f"{cluster}: {place} remains. To remove it: {shlex.join([*command, *target])}")
        return remarks


def _is_release_of_join(agent: JsonObject) -> bool:
    """Return whether an agent belongs to a Helm release that ``join`` has installed."""
    return is_from_join(agent) and RELEASE_NAME.fullmatch(release_of(agent)) is not None
