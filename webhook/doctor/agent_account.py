"""Checks whether the account of an agent has exactly the rights in its member that it needs.

The operator chooses the kinds that placements may place on the member, including roles. The check only reports their
number. No agent needs any other right, such as to exec into Pods or to impersonate another user.
"""

from collections.abc import Iterable
from typing import Final

from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import label, namespace_of, text_at
from webhook.doctor.accounts import Account, OptionalRights, judge_account
from webhook.doctor.finding import Finding, refused
from webhook.doctor.installation import OURS, PART_OF
from webhook.doctor.reviews import denied, read_roles
from webhook.doctor.rights import Right, Roles
from webhook.kube.client.api_server import ApiServer
from webhook.kube.client.hub_store import HubStore
from webhook.kube.ports import ForbiddenError, StoreError
from webhook.processes.member_objects import AGENT, DEPLOYMENT
from webhook.processes.node_rights import NodeRights
from webhook.processes.rbac import APPLY, OWN_NAMESPACE, RBAC_KINDS, SelectedResources, agent_roles
from webhook.processes.rbac_objects import service_account, username_of
from webhook.settings.gate import NodeDisruptionMode

CHECK: Final = "member-rights"
_NAME: Final = "app.kubernetes.io/name"
_COMPONENT: Final = "app.kubernetes.io/component"
_ROLES: Final = frozenset((kind.group, kind.plural) for kind in RBAC_KINDS)


async def examine_member(member: ApiServer) -> list[Finding]:
    """Return a finding for the account of each agent in a member. Without a Deployment, the default account is used.

    If the API server refuses a read, the only finding has the reason.
    """
    store = HubStore(member)
    try:
        try:
            deployments = (await store.list(DEPLOYMENT)).items
        except ForbiddenError:
            deployments = ()
        roles = await read_roles(store)
        accounts = [account_of_agent(*place, roles) for place in places_of_agents(deployments)]
        return [judge_account(account, await denied(member, account.username, account.wanted)) for account in accounts]
    except StoreError as error:
        return [refused(CHECK, error)]


def places_of_agents(deployments: Iterable[JsonObject]) -> list[tuple[str, str]]:
    """Return namespace and ServiceAccount of each agent, or the default ones without a Deployment."""
    places = {
        (namespace_of(deployment), text_at(deployment, "spec", "template", "spec", "serviceAccountName") or "default")
        for deployment in deployments
        if label(deployment, _NAME) == AGENT
        or (label(deployment, PART_OF) == OURS and label(deployment, _COMPONENT) == "agent")
    }
    return sorted(places) or [(OWN_NAMESPACE, AGENT)]


def account_of_agent(namespace: str, name: str, roles: Roles) -> Account:
    """Return the rights that an agent's ServiceAccount holds and needs.

    Args:
        namespace: Namespace of its ServiceAccount.
        name: Name of its ServiceAccount.
        roles: Roles of the member.
    """
    subject = service_account(namespace, name)
    held_rights = roles.held_by(subject)
    places_roles = any(_gives_rights(right) for right in held_rights)
    roles_needed = agent_roles(
        SelectedResources(), namespace, apply_rbac=places_roles, nodes=NodeRights(_node_mode(held_rights))
    )
    desired_rights = frozenset(roles.rights(roles_needed))
    says = "Placements may place roles, which can grant it any right, and" if places_roles else "Placements may place"
    choice = OptionalRights(APPLY, frozenset(right for right in held_rights if _applies(right)), says)
    return Account(CHECK, "harbormaster rbac agent", username_of(subject), held_rights, desired_rights, choice)


def _gives_rights(right: Right) -> bool:
    """Return whether a right lets its holder grant rights that it does not have, as ``--apply-rbac`` does."""
    return right.verb in ("bind", "escalate") and (right.group, right.resource) in _ROLES


def _node_mode(held_rights: Iterable[Right]) -> NodeDisruptionMode:
    """Return the node disruption mode that the rights of an agent allow: the operator's choice."""
    pairs = {(right.verb, right.resource) for right in held_rights}
    if ("create", "pods/eviction") in pairs:
        return NodeDisruptionMode.ACT
    return NodeDisruptionMode.ADVISE if ("update", "nodepools/status") in pairs else NodeDisruptionMode.OFF


def _applies(right: Right) -> bool:
    """Return whether a right is one to apply a kind, apart from subresources and roles."""
    return (
        not right.name
        and right.verb in APPLY
        and "/" not in right.resource
        and (right.group, right.resource) not in _ROLES
    )
