"""``harbormaster join``: makes a cluster a member, on both sides, with the caller's rights.

All checks come before the first write: both API servers answer, the caller may write there, and without `--take-over`,
neither the cluster nor the name belongs to another member. A run that is interrupted between two writes can be
repeated: the agent's objects come first, then its account on the hub, then the MemberCluster, then the token, and the
agent's installation last. Each object is written completely or not at all, and unchanged objects are skipped.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from scorer.api.conditions import TRUE
from scorer.api.kinds import CUSTOM_RESOURCE_DEFINITION, INTERNAL_MEMBER_CLUSTER, MEMBER_CLUSTER, NAMESPACE
from scorer.api.meta import JsonObject
from scorer.api.names import member_namespace
from scorer.api.unstructured.documents import (
    dict_at,
    dicts_at,
    is_deleting,
    labels_of,
    spec_of,
    status_of,
    text_at,
    texts_at,
)
from scorer.membership.identity import HubMember
from scorer.membership.joined import missing_for_joining
from scorer.membership.member_status import JOINED
from webhook.access.rights import CONTROL_PLANE_GROUPS
from webhook.kube.client.paths import ApiPath
from webhook.kube.login.connection import ApiServerEndpoint
from webhook.kube.ports import Key, StoreError
from webhook.member.membership.hub_secret import HUB_SECRET, SECRET, HubAccess, InvalidSecretError
from webhook.member.membership.hub_token import SERVICE_ACCOUNT, request_token
from webhook.member.membership.registration import CONFIG_MAP, RECORD, Registration
from webhook.processes.agent_installation import (
    AgentInstall,
    AgentRequest,
    Helm,
    Image,
    InstallMethod,
    find_agent,
    find_image,
    plan_installation,
)
from webhook.processes.member_objects import (
    AGENT,
    DEPLOYMENT,
    DesiredObject,
    account_of,
    identity_of,
    member_cluster,
    on_hub,
    on_member,
    secret,
)
from webhook.processes.node_rights import NodeRights
from webhook.processes.rbac import CLUSTER_ROLE
from webhook.processes.rbac_objects import Role
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
from webhook.runtime.clock import utc_now

BOOTSTRAP_SECONDS: Final = 3600
"""Lifetime of the first token. The agent replaces it as soon as it starts."""

_TOKEN_REVIEW: Final = ApiPath("apis", "authentication.k8s.io", "v1", "tokenreviews")
_WRITES: Final = frozenset({"create", "delete", "patch", "update", "*"})
_LEAVE_FIRST: Final = "Run harbormaster leave for it first, or if that hub is lost, add --take-over"
_NO_TOKEN: Final = "none-yet"  # noqa: S105 - placeholder of a dry run


@dataclass(frozen=True, slots=True)
class JoinOptions:
    """Options of a join.

    Args:
        member: Name of the MemberCluster.
        endpoint: The hub, as the agent reaches it.
        hub_namespace: Namespace of harbormaster on the hub.
        namespace: Namespace of the agent in the member.
        roles: Returns the roles of the agent in the member. Its arguments are whether it may apply `CONTROL_PLANE`
            kinds, and its rights of node disruption.
        control_plane: Whether the agent may apply `CONTROL_PLANE` kinds. If the installed agent may, it still may.
        labels: Labels of the MemberCluster. Its other labels are kept.
        image: Image of the agent. None means the one that ``serve`` runs on the hub.
        method: How the agent is installed.
        chooses_roles: Whether the caller has selected the kinds that the agent may apply.
        take_over: Prepare the cluster even if it belongs to another hub or is another member. The agent needs the
            option, too.
    """

    member: str
    endpoint: ApiServerEndpoint
    hub_namespace: str
    namespace: str
    roles: Callable[[bool, NodeRights], tuple[Role, ...]]
    labels: Mapping[str, str]
    control_plane: bool = False
    image: Image | None = None
    method: InstallMethod = InstallMethod.AUTO
    chooses_roles: bool = False
    take_over: bool = False


class Uids(NamedTuple):
    """Identities of both clusters."""

    hub: str
    cluster: str


class Join:
    """The join of one cluster.

    Args:
        hub: The hub.
        cluster: The member.
        options: Options of the join.
        report: Called with a line about each object.
        helm: The caller's helm, for the member. None if not installed.
    """

    def __init__(self, hub: Side, cluster: Side, options: JoinOptions, report: Report, helm: Helm | None) -> None:
        self._hub = hub
        self._cluster = cluster
        self._options = options
        self._roles: tuple[Role, ...] = ()
        self._report = report
        self._helm = helm

    async def run(self, *, dry_run: bool) -> bool:
        """Check everything, then create or update objects. Return whether any object changed (or would change).

        Args:
            dry_run: Only check, and report the writes.

        Raises:
            JoinError: The join is impossible. If a check fails, nothing is written.
        """
        uids = Uids(await self._hub.uid(), await self._cluster.uid())
        self._roles = await self._desired_roles(uids.hub)
        await self._check_hub()
        if not self._options.take_over:
            await self._check_cluster(uids)
        if uids.hub == uids.cluster:
            raise JoinError(f"{self._cluster}: is the hub itself. Select the cluster to join with --member-context")
        if dry_run:
            return await self._settle_all(uids, dry_run=True, report=self._report)
        await self._settle_all(uids, dry_run=True, report=lambda _: None)
        return await self._settle_all(uids, dry_run=False, report=self._report)

    async def _desired_roles(self, hub_uid: str) -> tuple[Role, ...]:
        """Return the roles for the options.

        If the cluster is this member of this hub already, its agent keeps two kinds of rights that callers rarely
        repeat: to write kinds that act on every request to the member, and to disrupt nodes. Roles that another hub
        left behind, or that only allow reading, grant nothing.

        Raises:
            JoinError: The role belongs to a Helm release, and the options select its rights.
        """
        options = self._options
        roles = options.roles(options.control_plane, NodeRights())
        name = roles[0].name
        role = await self._cluster.find(CLUSTER_ROLE, name) or {}
        release = release_of(role)
        if release and options.chooses_roles:
            raise JoinError(
                f"{self._cluster}: ClusterRole {name} belongs to Helm release {release}. Omit "
                "--apply…, and set rbac.apply, rbac.applyControlPlane and rbac.applyRoles of the release"
            )
        access = await self._stored()
        if access is None or (access.member, access.hub) != (options.member, hub_uid):
            return roles
        rules = dicts_at(role, "rules")
        written = {
            group for rule in rules if _WRITES & {*texts_at(rule, "verbs")} for group in texts_at(rule, "apiGroups")
        }
        control_plane = options.control_plane or not written.isdisjoint({*CONTROL_PLANE_GROUPS, "*"})
        return options.roles(control_plane, NodeRights.held_by(rules))

    async def missing(self) -> str:
        """Return why the member is not joined and healthy yet, empty if it is. Raises `JoinError`."""
        name = self._options.member
        member = await self._hub.find(MEMBER_CLUSTER, name)
        internal = await self._hub.find(INTERNAL_MEMBER_CLUSTER, name, member_namespace(name))
        reason = missing_for_joining(member, internal, utc_now())
        return f"{reason}{await self._about_agent()}" if reason and "agent has not reported" in reason else reason

    async def installation(self) -> AgentInstall:
        """Return how the agent is installed or upgraded. Raises `JoinError`."""
        options = self._options
        agent = await find_agent(self._cluster, options.namespace)
        image = options.image
        if image is None and options.method is not InstallMethod.NONE:
            image = await find_image(self._hub, options.hub_namespace)
        agent_options = AgentRequest(options.member, options.namespace, image, options.method, options.take_over)
        return plan_installation(agent_options, agent, has_helm=self._helm is not None)

    async def _about_agent(self) -> str:
        space = self._options.namespace
        agent = await find_agent(self._cluster, space)
        if agent is None:
            return f". {self._cluster} has no Deployment {space}/{AGENT}"
        if not status_of(agent).get("availableReplicas"):
            return f". No Pod of Deployment {space}/{agent['metadata']['name']} in {self._cluster} is available"
        return ""

    async def _check_hub(self) -> None:
        options, hub = self._options, self._hub
        if await hub.find(CUSTOM_RESOURCE_DEFINITION, MEMBER_CLUSTER.resource) is None:
            raise JoinError(f"{hub}: does not serve MemberClusters. Install harbormaster there first")
        if await hub.find(NAMESPACE, options.hub_namespace) is None:
            raise JoinError(
                f"{hub}: has no namespace {options.hub_namespace!r}. Install harbormaster there first, or specify "
                "its namespace with --hub-namespace"
            )
        member = await hub.find(MEMBER_CLUSTER, options.member)
        if member is None:
            return
        if is_deleting(member):
            raise JoinError(f"{hub}: MemberCluster {options.member} is being deleted. Wait until it no longer exists")
        identity, ours = dict_at(spec_of(member), "identity"), identity_of(options.member, options.hub_namespace)
        if {**identity, "apiGroup": identity.get("apiGroup") or ""} != ours:
            raise JoinError(
                f"{hub}: MemberCluster {options.member}: spec.identity is {_identity_text(identity)}, not "
                f"{_identity_text(ours)}. Set it to that if the member will log in with a token that join creates"
            )

    async def _check_cluster(self, uids: Uids) -> None:
        """Check that the cluster is not another member, and that the member is not another cluster.

        Raises:
            JoinError: It is, or an API server refuses or does not respond.
        """
        options, cluster, hub_uid = self._options, self._cluster, uids.hub

        async def home() -> str:
            return options.namespace

        try:
            reason = await Registration(options.member, cluster.store, home).refusal(hub_uid)
        except StoreError as error:
            raise cluster.error(f"get ConfigMap {options.namespace}/{RECORD}", error) from error
        if reason:
            raise JoinError(f"{cluster}: {reason}. {_LEAVE_FIRST}")
        access = await self._stored()
        if access is not None and (access.member, access.hub) != (options.member, hub_uid):
            stored_member = HubMember.named(access.member, access.hub)
            raise JoinError(
                f"{cluster}: Secret {options.namespace}/{HUB_SECRET} is that of {stored_member}. {_LEAVE_FIRST}"
            )
        record = await cluster.find(CONFIG_MAP, RECORD, options.namespace)
        has_data = record is not None and record.get("data")  # the record of a member that has left has no data
        prices = None if access is not None or has_data else await self._hub.find(MEMBER_CLUSTER, options.member)
        if prices is not None and _is_joined(prices):
            raise JoinError(
                f"{self._hub}: member {options.member} has already joined, but {cluster} has no record of it in "
                f"namespace {options.namespace!r}: it is another cluster, or its agent is in another namespace "
                "(--namespace)"
            )
        if reason := await other_cluster(self._hub, options.member, options.hub_namespace, cluster, uids.cluster):
            raise JoinError(
                f"{reason}. Run harbormaster leave for that cluster first, or if it is lost, add --take-over"
            )

    async def _settle_all(self, uids: Uids, *, dry_run: bool, report: Report) -> bool:
        options, changed = self._options, False

        def tell(side: Side, desired: DesiredObject, outcome: WriteOutcome) -> None:
            nonlocal changed
            changed = changed or outcome is not WriteOutcome.UNCHANGED
            metadata = desired.document["metadata"]
            key = Key(metadata["name"], metadata.get("namespace", ""))
            report(format_outcome(side, desired.kind, key, outcome, dry_run=dry_run))

        async def settle(side: Side, steps: Sequence[DesiredObject]) -> None:
            for desired in steps:
                tell(side, desired, await side.settle(desired, dry_run=dry_run))

        await settle(self._cluster, await self._agent_objects())
        await settle(self._hub, [*on_hub(options.member, options.hub_namespace, uids.cluster)])
        tell(self._hub, *await self._settle_member(dry_run=dry_run))
        await settle(self._cluster, [secret(await self._access(uids.hub, dry_run=dry_run), options.namespace)])
        installation = await self.installation()
        if installation.remark:
            report(f"{self._cluster.name + ':':8}{installation.remark}")
        if installation.release:
            changed = changed or installation.outcome is not WriteOutcome.UNCHANGED
            await self._settle_release(installation, dry_run=dry_run)
            key = Key(installation.release, options.namespace)
            report(format_release(self._cluster, key, installation.outcome, dry_run=dry_run))
        elif installation.deployment is not None:
            if installation.obsolete:
                await self._cluster.remove(DEPLOYMENT, Key(AGENT, options.namespace), dry_run=dry_run)
            if installation.obsolete and dry_run:
                tell(self._cluster, installation.deployment, WriteOutcome.CHANGED)
            else:
                await settle(self._cluster, [installation.deployment])
        return changed

    async def _settle_release(self, installation: AgentInstall, *, dry_run: bool) -> None:
        if not installation.helm:
            return
        assert self._helm is not None
        if not dry_run:
            await self._helm.run(installation.helm)
            return
        if obstacle := await self._helm.obstacle(installation.release):
            raise JoinError(f"{self._cluster}: {obstacle}")
        for verb in ("create", "patch"):
            await self._cluster.check_right(verb, DEPLOYMENT, Key(AGENT, self._options.namespace))
        for verb in ("create", "update", "list"):  # helm stores the release in a Secret
            await self._cluster.check_right(verb, SECRET, Key("", self._options.namespace))

    async def _agent_objects(self) -> list[DesiredObject]:
        """Return the objects of the member, without account and roles if the installed agent has another account."""
        options = self._options
        objects = [*on_member(options.namespace, self._roles)]
        agent = await find_agent(self._cluster, options.namespace)
        if agent is None or text_at(agent, "spec", "template", "spec", "serviceAccountName") in ("", AGENT):
            return objects
        return [desired for desired in objects if desired.kind in (CUSTOM_RESOURCE_DEFINITION, NAMESPACE)]

    async def _settle_member(self, *, dry_run: bool) -> tuple[DesiredObject, WriteOutcome]:
        """Create the MemberCluster, or set the labels in the options on it. Its other labels are kept."""
        options = self._options
        member = await self._hub.find(MEMBER_CLUSTER, options.member)
        if member is None:
            new = member_cluster(options.member, options.hub_namespace, options.labels)
            await self._hub.write("POST", MEMBER_CLUSTER, new, dry_run=dry_run)
            return DesiredObject(MEMBER_CLUSTER, new), WriteOutcome.CREATED
        labels = {**labels_of(member), **options.labels}
        if labels == labels_of(member):
            return DesiredObject(MEMBER_CLUSTER, member), WriteOutcome.UNCHANGED
        labelled_member = {**member, "metadata": {**member["metadata"], "labels": labels}}
        await self._hub.write("PUT", MEMBER_CLUSTER, labelled_member, dry_run=dry_run)
        return DesiredObject(MEMBER_CLUSTER, labelled_member), WriteOutcome.CHANGED

    async def _access(self, hub_uid: str, *, dry_run: bool) -> HubAccess:
        """Return the desired content of the Secret. Its token is kept if the hub still accepts it.

        Raises:
            JoinError: A new token cannot be created.
        """
        options, stored_access = self._options, await self._stored()
        access = HubAccess(
            options.member,
            hub_uid,
            options.hub_namespace,
            account_of(options.member),
            "" if stored_access is None else stored_access.token,
            options.endpoint.server,
            options.endpoint.authorities,
            options.endpoint.server_name,
            options.endpoint.proxy,
        )
        if access.token and await self._is_accepted(access):
            return access
        account = Key(access.account, access.namespace)
        await self._hub.check_right("create", SERVICE_ACCOUNT, account, "token")
        if dry_run:
            return access.renewed(_NO_TOKEN)
        try:
            token = await request_token(self._hub.server, account, BOOTSTRAP_SECONDS)
        except StoreError as error:
            raise self._hub.error(
                f"create a token of ServiceAccount {account.namespace}/{account.name}", error
            ) from error
        return access.renewed(token.text)

    async def _stored(self) -> HubAccess | None:
        """Return the content of the Secret. None if the Secret is missing or invalid."""
        secret = await self._cluster.find(SECRET, HUB_SECRET, self._options.namespace)
        try:
            return None if secret is None else HubAccess.read(secret)
        except InvalidSecretError:
            return None

    async def _is_accepted(self, access: HubAccess) -> bool:
        """Return whether the hub accepts a token as one of the member's account. Raises `JoinError`."""
        question: JsonObject = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": access.token},
        }
        try:
            answer = await self._hub.server.request("POST", _TOKEN_REVIEW, question)
        except StoreError as error:
            raise self._hub.error("create TokenReviews", error) from error
        status = status_of(answer)
        return status.get("authenticated") is True and dict_at(status, "user").get("username") == access.username


def _identity_text(identity: JsonObject) -> str:
    space = identity.get("namespace") or ""
    return f"{identity.get('kind')} {space}{'/' if space else ''}{identity.get('name')}"


def _is_joined(member: JsonObject) -> bool:
    conditions = dicts_at(member, "status", "conditions")
    return any(condition.get("type") == JOINED and condition.get("status") == TRUE for condition in conditions)
