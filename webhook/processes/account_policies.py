"""What RBAC cannot keep our own accounts from, as ValidatingAdmissionPolicies.

RBAC cannot limit ``create`` to names, nor any verb to namespaces with a prefix. So the loop would hold rights over all
namespaces and Roles of the hub, and every account that reserves, over the Lease of the leader. The API server evaluates
these policies for the writes of one account alone; if it cannot, it refuses the write.

Source: Kubernetes, Validating Admission Policy.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from scorer.api.kinds import KINDS, LEASE, NAMESPACE, NODE, NODE_CLAIM, Kind
from scorer.api.meta import JsonObject
from scorer.api.names import MEMBER_NAMESPACE_PREFIX
from scorer.membership.access import RBAC_GROUP
from scorer.node_disruption.order import COMMAND
from scorer.reservations import LEASE_PREFIX
from webhook.history.record import CONFIG_MAP, PREFIX
from webhook.kube.authority_secret import SECRET, TYPE
from webhook.member.hub_token import SERVICE_ACCOUNT
from webhook.processes.member_objects import account_of
from webhook.processes.rbac_objects import service_account, username_of
from webhook.settings.agent import LONGEST_TOKEN_SECONDS

_GROUP: Final = "admissionregistration.k8s.io"
_ROLES: Final = (KINDS[RBAC_GROUP, "Role"], KINDS[RBAC_GROUP, "RoleBinding"])
_WRITES: Final = ("CREATE", "UPDATE", "DELETE")


@dataclass(frozen=True, slots=True)
class Policy:
    """What one account may write of some kinds, of all that its roles allow.

    Args:
        name: Of the policy and of its binding.
        kinds: Of what, all of one group.
        condition: In CEL; ``variables.name`` is the name of the object that is made, changed or deleted.
        message: What the API server tells the account it refuses: what is allowed.
        whose: In CEL: of whom it holds; empty: of the account that the policies are printed for.
        subresource: Of the kinds; empty: the objects themselves.
    """

    name: str
    kinds: tuple[Kind, ...]
    condition: str
    message: str
    whose: str = ""
    subresource: str = ""


def reconcile_policies(lease: str, namespace: str) -> tuple[Policy, ...]:
    """Return what narrows the account of the loop, and those that ``join`` makes for the agents of its members.

    Args:
        lease: The name of the Lease by which one process leads.
        namespace: Of the installation.
    """
    members = json.dumps(MEMBER_NAMESPACE_PREFIX)
    agents = username_of(service_account(namespace, account_of("")))
    return (
        Policy(
            "harbormaster-reconcile-namespaces",
            (NAMESPACE,),
            f"variables.name.startsWith({members})",
            f"harbormaster's loop writes namespaces {MEMBER_NAMESPACE_PREFIX}* and no others",
        ),
        Policy(
            "harbormaster-reconcile-roles",
            _ROLES,
            f"request.namespace.startsWith({members})",
            f"harbormaster's loop writes roles in namespaces {MEMBER_NAMESPACE_PREFIX}* and nowhere else",
        ),
        Policy(
            "harbormaster-reconcile-leases",
            (LEASE,),
            f"variables.name.startsWith({json.dumps(LEASE_PREFIX)}) || variables.name == {json.dumps(lease)}",
            f"harbormaster's loop writes the Lease {lease} and Leases {LEASE_PREFIX}*, and no others",
        ),
        _of_history("harbormaster-reconcile-configmaps", "loop"),
        Policy(  # an account that may ask for its own tokens may ask for one that outlives every renewal
            "harbormaster-agent-tokens",
            (SERVICE_ACCOUNT,),
            f"object.spec.expirationSeconds <= {LONGEST_TOKEN_SECONDS}",
            f"agents get tokens that last {LONGEST_TOKEN_SECONDS} s at most",
            whose=f"request.userInfo.username.startsWith({json.dumps(agents)})",
            subresource="token",
        ),
    )


def serve_policies() -> tuple[Policy, ...]:
    """Return what narrows the account of the server, when it is not the loop's as well."""
    return (
        Policy(
            "harbormaster-serve-leases",
            (LEASE,),
            f"variables.name.startsWith({json.dumps(LEASE_PREFIX)})",
            f"harbormaster's server writes Leases {LEASE_PREFIX}* and no others",
        ),
        _of_history("harbormaster-serve-configmaps", "server"),
    )


def _of_history(name: str, process: str) -> Policy:
    return Policy(
        name,
        (CONFIG_MAP,),
        f"variables.name.startsWith({json.dumps(PREFIX)})",
        f"harbormaster's {process} writes ConfigMaps {PREFIX}* and no others",
    )


def certificate_policies(secret: str) -> tuple[Policy, ...]:
    """Return what narrows whoever keeps a certificate authority: who may make any Secret may have anybody's token made.

    Args:
        secret: Where the authority is kept; empty: nowhere.
    """
    if not secret:
        return ()
    is_tls = f'(request.operation != "CREATE" || object.type == {json.dumps(TYPE)})'
    return (
        Policy(
            "harbormaster-serve-secrets",
            (SECRET,),
            f"variables.name == {json.dumps(secret)} && {is_tls}",
            f"harbormaster's server writes the Secret {secret} of type {TYPE} and no others",
        ),
    )


def node_policies() -> tuple[Policy, ...]:
    """Return what narrows the account of the loop where it disrupts nodes: it writes those that carry a command."""
    mark = json.dumps(COMMAND)
    before = f"has(oldObject.metadata.annotations) && {mark} in oldObject.metadata.annotations"
    after = f"has(object.metadata.annotations) && {mark} in object.metadata.annotations"
    told = 'oldObject.status.conditions.exists(c, c.type == "DisruptionReason")'
    going = f"has(oldObject.metadata.deletionTimestamp) || (has(oldObject.status.conditions) && {told})"
    return (
        Policy(
            "harbormaster-reconcile-nodes",
            (NODE,),
            f'request.operation == "CREATE" ? false : request.operation == "DELETE" ? ({before}) : '
            f"(({before}) || ({after}))",
            f"harbormaster's loop writes nodes with the annotation {COMMAND} and no others",
        ),
        Policy(
            "harbormaster-reconcile-claims",
            (NODE_CLAIM,),
            f'request.operation == "CREATE" ? ({after}) : (({before}) || {going})',
            "harbormaster's loop writes NodeClaims that it has made or that are being disrupted, and no others",
        ),
    )


def policy_documents(policies: tuple[Policy, ...], username: str) -> Iterator[JsonObject]:
    """Yield each policy and what switches it on, for the writes of one user where it does not say whose."""
    ours = f"request.userInfo.username == {json.dumps(username, ensure_ascii=False)}"
    for policy in policies:
        yield {
            "apiVersion": f"{_GROUP}/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": policy.name},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {
                    "resourceRules": [
                        {
                            "apiGroups": [policy.kinds[0].group],
                            "apiVersions": list(policy.kinds[0].versions),
                            "operations": list(_WRITES),
                            "resources": [
                                kind.plural + (f"/{policy.subresource}" if policy.subresource else "")
                                for kind in policy.kinds
                            ],
                        }
                    ]
                },
                "matchConditions": [{"name": "whose", "expression": policy.whose or ours}],
                "variables": [
                    {
                        "name": "name",
                        "expression": 'request.operation == "DELETE" ? oldObject.metadata.name : object.metadata.name',
                    }
                ],
                "validations": [{"expression": policy.condition, "message": policy.message, "reason": "Forbidden"}],
            },
        }
        yield {
            "apiVersion": f"{_GROUP}/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": policy.name},
            "spec": {"policyName": policy.name, "validationActions": ["Deny"]},
        }
