"""Checks whether harbormaster's accounts have each right that they need, and none beyond."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from scorer.api.meta import JsonObject
from scorer.api.names import member_namespace
from scorer.api.unstructured.documents import dict_at, is_deleting, name_of, spec_of
from scorer.api.values.quoting import format_count
from scorer.membership.access import InvalidIdentityError, agent_rules, subject
from webhook.access.rights import NODE_POOLS, UPGRADE_ORDERS, OptionalRight
from webhook.doctor.differences import differences
from webhook.doctor.finding import Finding, State, judged
from webhook.doctor.installation import Installation
from webhook.doctor.rights import (
    READ_BY_CHOICE,
    Right,
    Roles,
    beyond,
    chosen,
    described,
    missing,
    partly,
    rights_in,
    subject_of,
)
from webhook.processes.account_policies import (
    Policy,
    certificate_policies,
    key_policies,
    member_policies,
    policy_documents,
    reconcile_policies,
    serve_policies,
)
from webhook.processes.member_objects import account_of
from webhook.processes.node_rights import NodeRights
from webhook.processes.rbac import READ, SelectedResources, reconcile_roles, serve_roles
from webhook.processes.rbac_objects import Role, username_of
from webhook.settings.upgraders import CLUSTER_API

_MARKS: Final = {UPGRADE_ORDERS: ("patch", "clusterupgradegates"), NODE_POOLS: ("list", "pods")}
"""Verb and resource that identify an optional right of the server, even if the loop has the same account."""

SERVER, LOOP, AGENTS, POLICIES = "server-rights", "loop-rights", "agent-rights", "policies"


@dataclass(frozen=True, slots=True)
class OptionalRights:
    """Optional rights of an account, which the operator may grant.

    Args:
        verbs: Verbs that the chosen purpose needs on a kind.
        allowed: All rights that may be chosen.
        says: Purpose of the chosen kinds as a phrase, such as ``Placements may select``.
    """

    verbs: tuple[str, ...]
    allowed: frozenset[Right]
    says: str


@dataclass(frozen=True, slots=True)
class Account:
    """One account of harbormaster.

    Args:
        check: Name of its check.
        command: Command that prints its roles.
        username: User name on the API server.
        held: Rights from the roles of the cluster.
        wanted: Rights that it needs.
        choice: Optional rights. None: unset.
        without: Optional rights that an operator has left out.
    """

    check: str
    command: str
    username: str
    held: frozenset[Right]
    wanted: frozenset[Right]
    choice: OptionalRights | None = None
    without: tuple[OptionalRight, ...] = ()

    @property
    def missing(self) -> list[Right]:
        """Rights that the account needs and does not hold."""
        rights_missing = missing(self.wanted, self.held)
        if self.choice is not None:
            by_choice = self.held - set(beyond(self.held, self.choice.allowed))
            rights_missing += missing(partly(by_choice, self.wanted, self.choice.verbs), self.held)
        return sorted(set(rights_missing))

    @property
    def beyond(self) -> list[Right]:
        """Rights that the account holds but must not have."""
        return beyond(self.held, self.wanted | (self.choice.allowed if self.choice else frozenset()))


def accounts_of(installation: Installation, roles: Roles) -> Iterator[Account]:
    """Yield the account of the server, then the account of the loop, if there is a loop and its account differs."""
    settings = installation.settings
    optional = optional_server_rights(roles.held_by(subject_of(installation.server)))
    server_roles = serve_roles(
        settings.namespace,
        networking_agents=settings.networking_agents,
        certificate_secret=settings.certificate_secret,
        webhook_configuration=installation.configuration,
        hand_off=settings.handoff_secret_file is not None,
        upgrade_orders=UPGRADE_ORDERS in optional,
        node_pools=NODE_POOLS in optional,
        team_answers=settings.team_answers,
    )
    without = tuple(right for right in (UPGRADE_ORDERS, NODE_POOLS) if right not in optional)
    loop_roles = reconcile_roles(
        SelectedResources(),
        settings.namespace,
        lease=settings.lease_name,
        analysis_kinds=settings.analysis_kinds,
        cluster_api=CLUSTER_API in settings.upgraders,
        nodes=NodeRights.of(settings.node_disruption_mode, settings.node_disruption_karpenter_lease),
    )

    def account(check: str, command: str, username: str, roles_needed: Iterable[Role]) -> Account:
        choice = (
            OptionalRights(READ, READ_BY_CHOICE, "Placements may select") if username == installation.loop else None
        )
        held_rights = roles.held_by(subject_of(username))
        left_out = without if username == installation.server else ()
        return Account(check, command, username, held_rights, frozenset(roles.rights(roles_needed)), choice, left_out)

    if installation.server == installation.loop:
        yield account(SERVER, "harbormaster rbac reconcile --serve", installation.server, (*server_roles, *loop_roles))
        return
    yield account(SERVER, "harbormaster rbac serve", installation.server, server_roles)
    if installation.loop:
        yield account(LOOP, "harbormaster rbac reconcile", installation.loop, loop_roles)


def optional_server_rights(held_rights: Collection[Right]) -> tuple[OptionalRight, ...]:
    """Return the optional rights that an operator has given to the server."""
    pairs = {(right.verb, right.resource) for right in held_rights}
    return tuple(right for right, mark in _MARKS.items() if mark in pairs)


def judge_account(account: Account, denied_rights: Collection[Right] | None) -> Finding:
    """Check the rights of an account.

    Args:
        account: The account.
        denied_rights: Required rights that the API server denies. None: unknown, the API server was not asked.
    """
    rights_missing, extra = account.missing, account.beyond
    problems = [f"{account.username} may not {description}" for description in described(rights_missing)]
    problems += [f"{account.username} may {description}, but does not need to" for description in described(extra)]
    if not rights_missing and denied_rights:
        problems += [
            f"{account.username} may not {description}, although its roles allow it: is RBAC the authorizer there?"
            for description in described(denied_rights)
        ]
    well = f"{account.username} has the {len(account.wanted)} rights that it needs, and no others"
    if account.choice:
        well += f". {account.choice.says} {chosen(account.held, account.wanted)}"
    if account.without:
        well += f". Not granted: {', '.join(f'{right.what} ({right.value})' for right in account.without)}"
    if denied_rights is None:
        well += ". Checked by its roles only, because you may not create subjectaccessreviews"
    advice = (
        f"{account.command} | kubectl apply -f -    (with Helm: helm upgrade)"
        if rights_missing or denied_rights
        else ""
    )
    return judged(account.check, problems, well, advice or "remove the bindings that grant it, or narrow their roles")


def judge_agents(members: Iterable[JsonObject], namespaces: Collection[str], roles: Roles, home: str) -> Finding:
    """Check the rights of all agents on the hub.

    Args:
        members: All MemberClusters.
        namespaces: Namespaces of the hub. The agent of a member has no rights until the member's namespace exists.
        roles: Roles of the hub.
        home: Namespace of the installation.
    """
    problems: list[str] = []
    count = 0
    for member in members:
        name = name_of(member)
        if is_deleting(member) or member_namespace(name) not in namespaces:
            continue
        count += 1
        try:
            identity = subject(dict_at(spec_of(member), "identity"))
        except InvalidIdentityError as error:
            problems.append(f"{name}: {error}")
            continue
        user = username_of(identity)
        held_rights, desired_rights = (
            roles.held_by(identity),
            frozenset(rights_in(agent_rules(), member_namespace(name))),
        )
        own = Right(home, "create", "", "serviceaccounts/token", account_of(name))
        problems += [
            f"{name}: its agent ({user}) may not {description}"
            for description in described(missing(desired_rights, held_rights))
        ]
        problems += [
            f"{name}: its agent ({user}) may {description}, but does not need to"
            for description in described(beyond(held_rights, desired_rights | {own}))
        ]
    well = f"{format_count(count, 'agent')} may write to the namespace of their member, and nowhere else"
    advice = "the loop restores missing rights: is it running? Remove bindings that grant too much"
    return judged(AGENTS, problems, well if count else "there are no members yet", advice)


LATER_DEFAULTS: Final[Mapping[str, object]] = {
    "matchPolicy": "Equivalent",
    "namespaceSelector": {},
    "objectSelector": {},
    "excludeResourceRules": [],
}
RULE_DEFAULTS: Final[Mapping[str, object]] = {"scope": "*", "resourceNames": []}
"""Defaults that an API server adds to the constraints of a policy and to their rules.

Other values of these fields, or parameters, would narrow the scope of the policy.
"""


def judge_policies(
    installation: Installation, policies: Iterable[JsonObject], bindings: Iterable[JsonObject]
) -> Finding:
    """Check the ValidatingAdmissionPolicies that restrict harbormaster's accounts. Their names do not matter."""
    policy_specs = {name_of(policy): spec_of(policy) for policy in policies}
    in_force = {
        str(spec.get("policyName"))
        for spec in map(spec_of, bindings)
        if "Deny" in (spec.get("validationActions") or ()) and not _narrows(spec.get("matchResources"))
    }
    problems = []
    policies_wanted = list(_policies(installation))
    for policy, username in policies_wanted:
        document = next(policy_documents((policy,), username))
        spec = document["spec"]
        spec["paramKind"] = {}
        spec["matchConstraints"] |= LATER_DEFAULTS
        for rule in spec["matchConstraints"]["resourceRules"]:
            rule |= RULE_DEFAULTS
        same_names = {name for name, other in policy_specs.items() if not any(differences(other, spec))}
        if not same_names & in_force:
            state = "has no binding with the action Deny" if same_names else "is missing, or differs"
            accounts = "every account of an agent" if policy.whose else username
            problems.append(f"policy {policy.name} {state}, so {accounts} is not restricted ({policy.message})")
    commands = "harbormaster rbac serve | kubectl apply -f -; harbormaster rbac reconcile | kubectl apply -f -"
    well = f"{len(policies_wanted)} policies restrict harbormaster's accounts beyond their roles"
    return judged(POLICIES, problems, well, f"{commands}    (with Helm: rbac.policies)")


def no_policies() -> Finding:
    """Return the finding for a hub without ValidatingAdmissionPolicies."""
    return Finding(POLICIES, State.OK, "this hub has no ValidatingAdmissionPolicies, which require Kubernetes 1.30")


def _narrows(match: object) -> bool:
    resources = match if isinstance(match, dict) else {}
    return any(resources.get(name) for name in ("resourceRules", "excludeResourceRules")) or any(
        resources.get(name) for name in ("namespaceSelector", "objectSelector")
    )


def _policies(installation: Installation) -> Iterator[tuple[Policy, str]]:
    """Yield each desired policy, with its user."""
    settings = installation.settings
    secret = settings.certificate_secret
    if installation.server != installation.loop:
        narrowing_server = (*serve_policies(), *certificate_policies(secret))
        yield from ((policy, installation.server) for policy in narrowing_server)
    if installation.loop:
        narrowing_loop = (
            *reconcile_policies(settings.lease_name),
            *key_policies(secret if installation.server == installation.loop else ""),
            *member_policies(settings.allowed_users),
        )
        yield from ((policy, installation.loop) for policy in narrowing_loop)
