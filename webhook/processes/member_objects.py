"""Objects of a member, on the hub and in the cluster itself, that let its agent join.

On the hub, harbormaster's namespace has a ServiceAccount for each member, with a Role to request its own tokens. The
loop grants its rights for the member. The member has the definition of AppliedWorks, the agent's namespace, its
ServiceAccount with the rights that ``harbormaster rbac agent`` prints, and the Secret with its login for the hub.
Objects that ``join`` makes for the agent have a label: ``leave`` removes nothing else.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from scorer.api.crd.definitions import custom_resource_definitions
from scorer.api.kinds import APPLIED_WORK, CUSTOM_RESOURCE_DEFINITION, KINDS, MEMBER_CLUSTER, NAMESPACE, Kind
from scorer.api.meta import JsonObject
from scorer.api.names import CLUSTER_UID, MADE_BY
from scorer.api.unstructured.documents import label, labels_of
from scorer.membership.access import ROLE
from webhook.kube.ports import Key
from webhook.member.membership.hub_secret import HUB_SECRET, SECRET, HubAccess
from webhook.member.membership.hub_token import SERVICE_ACCOUNT
from webhook.processes.rbac import agent_roles, default_applied
from webhook.processes.rbac_objects import PolicyRule, RbacResource, Role, documents, service_account

AGENT: Final = "harbormaster-agent"
"""Name of the agent's ServiceAccount, roles, Deployment and Helm release in a member."""
DEPLOYMENT: Final = KINDS["apps", "Deployment"]
NAME_LABEL: Final = "app.kubernetes.io/name"
JOIN: Final = "join"
"""Value of the label `MADE_BY` of objects that ``join`` creates."""

_LABELS: Final[Mapping[str, str]] = {NAME_LABEL: AGENT, MADE_BY: JOIN}


class DesiredObject(NamedTuple):
    """The desired form of an object."""

    kind: Kind
    document: JsonObject


def is_from_join(document: JsonObject) -> bool:
    """Return whether ``join`` has made an object."""
    return label(document, MADE_BY) == JOIN


def unmarked(document: JsonObject) -> JsonObject:
    """Return an object without the labels of ``join``: it has another creator, and ``leave`` must skip it."""
    labels = {name: value for name, value in labels_of(document).items() if name not in _LABELS}
    metadata = {name: value for name, value in document["metadata"].items() if name != "labels"}
    return {**document, "metadata": {**metadata, "labels": labels} if labels else metadata}


def account_of(member: str) -> str:
    """Return the name of a member's ServiceAccount on the hub. No process of harbormaster has such a name."""
    return f"member-{member}"


def identity_of(member: str, namespace: str) -> JsonObject:
    """Return ``spec.identity`` of a MemberCluster.

    Args:
        member: Name of the MemberCluster.
        namespace: Namespace of harbormaster on the hub.
    """
    return {"kind": "ServiceAccount", "name": account_of(member), "namespace": namespace, "apiGroup": ""}


def member_cluster(member: str, namespace: str, labels: Mapping[str, str]) -> JsonObject:
    """Return a new MemberCluster. Arguments as for `identity_of`."""
    return _object(MEMBER_CLUSTER, member, "", dict(labels), spec={"identity": identity_of(member, namespace)})


def on_hub(member: str, namespace: str, cluster_uid: str = "") -> Iterator[DesiredObject]:
    """Yield the objects that must exist on the hub before the MemberCluster.

    Args:
        member: Name of the MemberCluster.
        namespace: Namespace of harbormaster on the hub.
        cluster_uid: UID of the member cluster. Empty: not recorded.
    """
    name = account_of(member)
    account = _object(SERVICE_ACCOUNT, name, namespace, {**_LABELS})
    if cluster_uid:
        account["metadata"]["annotations"] = {CLUSTER_UID: cluster_uid}
    yield DesiredObject(SERVICE_ACCOUNT, account)
    rule = PolicyRule("its own tokens", ("create",), (RbacResource.of(SERVICE_ACCOUNT, "token"),), (name,))
    yield from _roles((Role(name, (rule,), namespace),), service_account(namespace, name))


def on_member(namespace: str, roles: tuple[Role, ...] = ()) -> Iterator[DesiredObject]:
    """Yield the objects that must exist in the member before the Secret.

    Args:
        namespace: Namespace of the agent.
        roles: Roles of the agent. Empty: those for all kinds that it applies by default.
    """
    definitions = (
        definition
        for definition in custom_resource_definitions()
        if definition["metadata"]["name"] == APPLIED_WORK.resource
    )
    yield DesiredObject(CUSTOM_RESOURCE_DEFINITION, next(definitions))
    yield DesiredObject(NAMESPACE, _object(NAMESPACE, namespace))
    yield DesiredObject(SERVICE_ACCOUNT, _object(SERVICE_ACCOUNT, AGENT, namespace, {**_LABELS}))
    yield from _roles(roles or agent_roles(default_applied(), namespace), service_account(namespace, AGENT))


def secret(access: HubAccess, namespace: str) -> DesiredObject:
    """Return the agent's login for the hub. *namespace* is the agent's."""
    return DesiredObject(SECRET, _object(SECRET, HUB_SECRET, namespace, {**_LABELS}, type="Opaque", data=access.data()))


def member_leftovers(namespace: str) -> Iterator[tuple[Kind, Key]]:
    """Yield the objects that ``leave`` removes from the member before the Secret, without the definition."""
    yield DEPLOYMENT, Key(AGENT, namespace)
    for desired in reversed([*on_member(namespace)]):
        if desired.kind not in (NAMESPACE, CUSTOM_RESOURCE_DEFINITION):
            yield desired.kind, _key(desired)


def hub_leftovers(member: str, namespace: str) -> Iterator[tuple[Kind, Key]]:
    """Yield the objects that ``leave`` removes from the hub, the account last. Arguments as for `identity_of`."""
    for desired in reversed([*on_hub(member, namespace)]):
        yield desired.kind, _key(desired)


def _key(desired: DesiredObject) -> Key:
    metadata = desired.document["metadata"]
    return Key(metadata["name"], metadata.get("namespace", ""))


def _roles(roles: tuple[Role, ...], subject: JsonObject) -> Iterator[DesiredObject]:
    for document, _ in documents(roles, subject):
        document["metadata"] = {**document["metadata"], "labels": {**_LABELS}}
        yield DesiredObject(KINDS[ROLE.group, document["kind"]], document)


def _object(kind: Kind, name: str, namespace: str = "", labels: JsonObject | None = None, **rest: object) -> JsonObject:
    metadata: JsonObject = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    if labels:
        metadata["labels"] = labels
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **rest}
