"""Limits that RBAC cannot express, as ValidatingAdmissionPolicies.

RBAC cannot limit ``create`` to names, a verb to namespaces with a prefix, or an update to some fields. Without these
policies the loop would hold rights over all namespaces and Roles of the hub, every account that reserves would hold
rights over the leader's Lease, and an agent could relabel its Works. A policy applies to one account, or to every user
with exceptions. If the API server cannot evaluate a policy, it refuses the write.

Source: Kubernetes, Validating Admission Policy. docs/specifications/placement-api.md 8, G-11.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from scorer.api.kinds import CONFIG_MAP, KINDS, LEASE, NAMESPACE, NODE, NODE_CLAIM, SECRET, WORK, Kind
from scorer.api.meta import JsonObject
from scorer.api.names import MEMBER_NAMESPACE_PREFIX, WORK_CLEANUP
from scorer.membership.access import RBAC_GROUP
from scorer.node_disruption.execution.command_annotation import COMMAND
from scorer.reservations import LEASE_PREFIX
from webhook.history.record import PREFIX
from webhook.kube.certificates.authority_secret import TYPE
from webhook.kube.work_signing_keys import NAME
from webhook.kube.work_signing_keys import TYPE as OPAQUE
from webhook.member.membership.hub_token import SERVICE_ACCOUNT
from webhook.settings.agent import LONGEST_TOKEN_SECONDS
from webhook.validation.guard_rails.writes import ADMIN_GROUPS, TRUSTED_USERS

_GROUP: Final = "admissionregistration.k8s.io"
_ROLES: Final = (KINDS[RBAC_GROUP, "Role"], KINDS[RBAC_GROUP, "RoleBinding"])
_WRITES: Final = ("CREATE", "UPDATE", "DELETE")


@dataclass(frozen=True, slots=True)
class Policy:
    """A limit on writes to some kinds, beyond the roles of an account.

    Args:
        name: Name of the policy and of its binding.
        kinds: Kinds of one group.
        condition: CEL. ``variables.name`` is the name of the object that is created, changed or deleted.
        message: The refusal, which states what is allowed.
        whose: CEL that selects the requests. Empty: requests of the account that the policies are printed for.
        subresource: Subresource of the kinds. Empty: the objects themselves.
        operations: Operations of an admission request.
        exempt: Users that are exempt, in addition to the account and the groups of administrators. None: unset, no
            user is exempt.
        more_conditions: Further conditions in CEL, with the same message.
    """

    name: str
    kinds: tuple[Kind, ...]
    condition: str
    message: str
    whose: str = ""
    subresource: str = ""
    operations: tuple[str, ...] = _WRITES
    exempt: tuple[str, ...] | None = None
    more_conditions: tuple[str, ...] = ()

    def match_conditions(self, username: str) -> Iterator[JsonObject]:
        """Yield the match conditions of the policy. *username* is the account that the policy is printed for."""
        yield {"name": "whose", "expression": self.whose or f"request.userInfo.username == {_cel(username)}"}
        if self.exempt is not None:
            users = ", ".join(map(_cel, (username, *self.exempt)))
            groups = ", ".join(map(_cel, ADMIN_GROUPS))
            yield {"name": "not-exempt", "expression": f"!(request.userInfo.username in [{users}])"}
            yield {"name": "no-admin", "expression": f"!request.userInfo.groups.exists(g, g in [{groups}])"}

    def validations(self) -> Iterator[JsonObject]:
        """Yield the validations of the policy. A request must meet all of them."""
        for condition in (self.condition, *self.more_conditions):
            yield {"expression": condition, "message": self.message, "reason": "Forbidden"}


def _cel(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def reconcile_policies(lease: str) -> tuple[Policy, ...]:
    """Return the policies that restrict the loop's account, and the policy on the lifetime of self-requested tokens.

    Args:
        lease: Name of the leader's Lease.
    """
    members = json.dumps(MEMBER_NAMESPACE_PREFIX)
    return (
        Policy(
            "harbormaster-reconcile-namespaces",
            (NAMESPACE,),
            f"variables.name.startsWith({members})",
            f"harbormaster's loop may write only namespaces {MEMBER_NAMESPACE_PREFIX}*",
        ),
        Policy(
            "harbormaster-reconcile-roles",
            _ROLES,
            f"request.namespace.startsWith({members})",
            f"harbormaster's loop may write roles only in namespaces {MEMBER_NAMESPACE_PREFIX}*",
        ),
        Policy(
            "harbormaster-reconcile-leases",
            (LEASE,),
            f"variables.name.startsWith({json.dumps(LEASE_PREFIX)}) || variables.name == {json.dumps(lease)}",
            f"harbormaster's loop may write only the Lease {lease} and Leases {LEASE_PREFIX}*",
        ),
        _of_history("harbormaster-reconcile-configmaps", "loop"),
        Policy(  # any account can be the identity of a member, so the policy matches the request, not an account name
            "harbormaster-agent-tokens",
            (SERVICE_ACCOUNT,),
            f"object.spec.expirationSeconds <= {LONGEST_TOKEN_SECONDS}",
            f"a ServiceAccount may request its own tokens for at most {LONGEST_TOKEN_SECONDS} s",
            whose='request.userInfo.username == "system:serviceaccount:" + request.namespace + ":" + request.name',
            subresource="token",
            operations=("CREATE",),
        ),
    )


def member_policies(allowed_users: Iterable[str]) -> tuple[Policy, ...]:
    """Return the policy that lets agents, and other users who are not exempt, update only the finalizer of Works.

    Args:
        allowed_users: User names that count as admins (``HARBORMASTER_ALLOWED_USERS``).
    """
    conditions = (
        _unchanged("metadata.labels", "{}"),
        _unchanged("metadata.annotations", "{}"),
        _unchanged("metadata.ownerReferences", "[]"),
        _unchanged("metadata.finalizers", "[]", f".filter(f, f != {_cel(WORK_CLEANUP)})"),
        _unchanged("spec", "{}"),
    )
    return (
        Policy(
            "harbormaster-member-works",
            (WORK,),
            conditions[0],
            f"agents may write only the status and the finalizer {WORK_CLEANUP} of a Work",
            whose=f"request.namespace.startsWith({_cel(MEMBER_NAMESPACE_PREFIX)})",
            operations=("UPDATE",),
            exempt=(*TRUSTED_USERS, *sorted(allowed_users)),
            more_conditions=conditions[1:],
        ),
    )


def _unchanged(field: str, empty: str, part: str = "") -> str:
    """Return CEL that is true if *part* of a field is unchanged. An absent field equals *empty*."""
    *parents, name = field.split(".")
    new, old = (".".join((root, *parents, f"?{name}.orValue({empty}){part}")) for root in ("object", "oldObject"))
    return f"{new} == {old}"


def serve_policies() -> tuple[Policy, ...]:
    """Return the policies that restrict the account of the server, if it is not the loop's as well."""
    return (
        Policy(
            "harbormaster-serve-leases",
            (LEASE,),
            f"variables.name.startsWith({json.dumps(LEASE_PREFIX)})",
            f"harbormaster's server may write only Leases {LEASE_PREFIX}*",
        ),
        _of_history("harbormaster-serve-configmaps", "server"),
    )


def _of_history(name: str, process: str) -> Policy:
    return Policy(
        name,
        (CONFIG_MAP,),
        f"variables.name.startsWith({json.dumps(PREFIX)})",
        f"harbormaster's {process} may write only ConfigMaps {PREFIX}*",
    )


def certificate_policies(secret: str) -> tuple[Policy, ...]:
    """Return the policies that restrict the account of a server that keeps its own certificate authority.

    Args:
        secret: Name of the authority's Secret. Empty: no authority, so no policies.
    """
    return (_of_secrets("harbormaster-serve-secrets", "server", {secret: TYPE}),) if secret else ()


def key_policies(certificate_secret: str = "") -> tuple[Policy, ...]:
    """Return the policy on Secrets for the loop's account. One policy, because a write must meet all that match.

    Args:
        certificate_secret: Secret of a certificate authority of the same account (``serve --reconcile``). Empty: none.
    """
    secrets = {NAME: OPAQUE} | ({certificate_secret: TYPE} if certificate_secret else {})
    return (_of_secrets("harbormaster-reconcile-secrets", "loop", secrets),)


def _of_secrets(name: str, process: str, types: Mapping[str, str]) -> Policy:
    """Return a policy on Secrets by name and type. A Secret of another type could request a token of any account."""
    allowed = (
        f'variables.name == {_cel(secret)} && (request.operation != "CREATE" || object.type == {_cel(kind)})'
        for secret, kind in types.items()
    )
    listing = " and ".join(f"{secret} of type {kind}" for secret, kind in types.items())
    return Policy(
        name,
        (SECRET,),
        " || ".join(allowed),
        f"harbormaster's {process} may write only the Secret {listing}",
    )


def node_policies() -> tuple[Policy, ...]:
    """Return the policies that limit the loop to nodes with a command, and to NodeClaims of its own or in disruption.

    A NodeClaim is in disruption if it is being deleted, or has a condition DisruptionReason.
    """
    mark = json.dumps(COMMAND)
    before = f"has(oldObject.metadata.annotations) && {mark} in oldObject.metadata.annotations"
    after = f"has(object.metadata.annotations) && {mark} in object.metadata.annotations"
    is_disrupted = 'oldObject.status.conditions.exists(c, c.type == "DisruptionReason")'
    is_leaving = f"has(oldObject.metadata.deletionTimestamp) || (has(oldObject.status.conditions) && {is_disrupted})"
    return (
        Policy(
            "harbormaster-reconcile-nodes",
            (NODE,),
            f'request.operation == "CREATE" ? false : request.operation == "DELETE" ? ({before}) : '
            f"(({before}) || ({after}))",
            f"harbormaster's loop may write only nodes with the annotation {COMMAND}",
        ),
        Policy(
            "harbormaster-reconcile-claims",
            (NODE_CLAIM,),
            f'request.operation == "CREATE" ? ({after}) : (({before}) || {is_leaving})',
            "harbormaster's loop may write only NodeClaims that it created or that are being disrupted",
        ),
    )


def policy_documents(policies: tuple[Policy, ...], username: str) -> Iterator[JsonObject]:
    """Yield each policy and its binding. *username* is the account that the policies are printed for."""
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
                            "operations": list(policy.operations),
                            "resources": [
                                kind.plural + (f"/{policy.subresource}" if policy.subresource else "")
                                for kind in policy.kinds
                            ],
                        }
                    ]
                },
                "matchConditions": list(policy.match_conditions(username)),
                "variables": [
                    {
                        "name": "name",
                        "expression": 'request.operation == "DELETE" ? oldObject.metadata.name : object.metadata.name',
                    }
                ],
                "validations": list(policy.validations()),
            },
        }
        yield {
            "apiVersion": f"{_GROUP}/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": policy.name},
            "spec": {"policyName": policy.name, "validationActions": ["Deny"]},
        }
