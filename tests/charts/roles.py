"""The roles of the charts and the policies beside them, from `webhook.processes`."""

import json
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from tests.charts.templates import HEADER, document, entries, fill, metadata
from tests.charts.variants import merge
from webhook.processes.account_policies import (
    Policy,
    certificate_policies,
    key_policies,
    member_policies,
    node_policies,
    policy_documents,
    reconcile_policies,
    serve_policies,
)
from webhook.processes.node_rights import NodeRights
from webhook.processes.rbac import (
    AUTHORITIES_READER,
    SelectedResources,
    agent_roles,
    default_applied,
    default_selection,
    reconcile_roles,
    serve_roles,
)
from webhook.processes.rbac_objects import RbacResource, Role, documents, service_account, username_of
from webhook.runtime.yaml import format_yaml
from webhook.settings.gate import NodeDisruptionMode

PREFIX: Final = "harbormaster-"
AUTHORITY: Final = "@FULLNAME@-ca"
"""Secret in which the server keeps an authority of its own."""
NODE_SWITCHES: Final[Mapping[str, str]] = {
    "acts": '(eq .Values.settings.nodeDisruptionMode "Act")',
    "looks": '(ne .Values.settings.nodeDisruptionMode "Off")',
}
OTHER_LOOP: Final = '(ne .Values.reconcile.mode "Server")'
"""The loop has an account of its own."""
OTHER_AUTHORITY: Final = '(ne .Values.certs.mode "own")'
_LONGEST: Final = 100

MakeRoles = Callable[[frozenset[str]], Iterable[Role]]


def reconcile_page() -> str:
    """Return the template of what the loop may do; what placements select is added by a helper of the chart."""
    switches = {"cluster_api": '(has "cluster-api" .Values.settings.upgraders)', **NODE_SWITCHES}
    text = _roles(switches, _reconcile_roles, "@LOOP@", "harbormaster.reading")
    text += _policies(reconcile_policies("@LEASE@"), "@LOOP@")
    text += _policies(key_policies(), "@LOOP@", f"or {OTHER_LOOP} {OTHER_AUTHORITY}")
    text += _policies(key_policies(AUTHORITY), "@LOOP@", f"not (or {OTHER_LOOP} {OTHER_AUTHORITY})")
    text += _policies(member_policies(("@ALLOWED@",)), "@LOOP@", ".Values.settings.protectWorks")
    text += _policies(node_policies(), "@LOOP@", NODE_SWITCHES["acts"].strip("()"))
    return _wrapped(text, '.Values.rbac.create (ne .Values.reconcile.mode "Off")')


def serve_page() -> str:
    """Return the template of what the server may do."""
    own_authority = '(eq .Values.certs.mode "own")'
    switches = {
        "networking_agents": ".Values.settings.networkingAgents",
        "own_authority": own_authority,
        "hand_off": ".Values.handOff.secret",
        "upgrade_orders": _unless_off("rbac.upgradeOrders"),
        "node_pools": _unless_off("rbac.nodePools"),
        "team_answers": ".Values.settings.teamAnswers",
    }
    text = _roles(switches, _serve_roles, "@SERVER@")
    text += _policies(serve_policies(), "@SERVER@", OTHER_LOOP.strip("()"))
    text += _policies(certificate_policies(AUTHORITY), "@SERVER@", f"and {own_authority} {OTHER_LOOP}")
    return _wrapped(text, ".Values.rbac.create")


def _unless_off(value: str) -> str:
    """Return a condition that also holds where the value is missing, as with ``--reuse-values`` of an older chart."""
    return f'(ne (toString .Values.{value}) "false")'


def _reconcile_roles(on: frozenset[str]) -> tuple[Role, ...]:
    cluster_api, nodes = "cluster_api" in on, _node_rights(on)
    return reconcile_roles(SelectedResources(), "@NAMESPACE@", lease="@LEASE@", cluster_api=cluster_api, nodes=nodes)


def _node_rights(on: frozenset[str]) -> NodeRights:
    """Return what the disruption of nodes may do; who acts looks as well, so acting alone is the same as both."""
    mode = NodeDisruptionMode.OFF
    if "looks" in on:
        mode = NodeDisruptionMode.ACT if "acts" in on else NodeDisruptionMode.ADVISE
    return NodeRights(mode, "@KARPENTER@")


def _serve_roles(on: frozenset[str]) -> tuple[Role, ...]:
    return serve_roles(
        "@NAMESPACE@",
        networking_agents="networking_agents" in on,
        certificate_secret=AUTHORITY if "own_authority" in on else "",
        webhook_configuration="@CLUSTER@",
        hand_off="hand_off" in on,
        upgrade_orders="upgrade_orders" in on,
        node_pools="node_pools" in on,
        team_answers="team_answers" in on,
    )


def agent_page() -> str:
    """Return the template of what an agent may do on its member."""
    switches = {"apply_rbac": ".Values.rbac.applyRoles", **NODE_SWITCHES}
    text = _roles(
        switches,
        lambda on: agent_roles(
            SelectedResources(), "@NAMESPACE@", apply_rbac="apply_rbac" in on, nodes=_node_rights(on)
        ),
        "@AGENT@",
        "harbormaster.applying",
    )
    return _wrapped(text, ".Values.rbac.create")


def selectable_page() -> str:
    """Return the partial with the kinds that placements can select, and which of them have no status."""
    return HEADER + _listed("harbormaster.selectable", default_selection()) + _without_status()


def applicable_page() -> str:
    """Return the partial with the kinds that an agent applies unless the values name others."""
    narrow = _listed("harbormaster.applicableNarrow", default_applied(control_plane=False))
    return HEADER + _listed("harbormaster.applicable", default_applied()) + narrow


def word_of(resource: RbacResource) -> str:
    """Return a kind as the values name it: ``plural.group``, or ``plural`` of the core group."""
    return f"{resource.plural}.{resource.group}".removesuffix(".")


def _listed(name: str, selected: SelectedResources) -> str:
    words = json.dumps([word_of(each) for each in selected.resources])
    lines = textwrap.wrap(words, _LONGEST, break_long_words=False, break_on_hyphens=False)
    return f'{{{{- define "{name}" -}}}}\n' + "\n".join(lines) + "\n{{- end }}\n"


def _without_status() -> str:
    """Return the built-in kinds whose status cannot be written: no rule for one comes with back reports."""
    selected = default_selection(secrets=True)
    roles = reconcile_roles(selected, "@NAMESPACE@", back_report=True)
    written = {
        (each.group, each.plural.removesuffix("/status"))
        for rule in roles[0].rules
        if rule.why.startswith("status of placed objects")
        for each in rule.resources
    }
    without = tuple(each for each in selected.resources if (each.group, each.plural) not in written)
    return _listed("harbormaster.withoutStatus", SelectedResources(without))


def _roles(switches: Mapping[str, str], make: MakeRoles, account: str, more_rules: str = "") -> str:
    """Return all roles and their bindings; *more_rules*: a partial that adds rules to the role of the cluster."""
    subject = service_account("@NAMESPACE@", account)
    text = ""
    for found, rules in documents(make(frozenset()), subject):
        role = _renamed(found)
        if not rules:
            text += document(role)
            continue
        del role["rules"]
        place = (found["metadata"]["name"], found["metadata"].get("namespace", ""))
        parts = merge(switches, lambda on, place=place: _rules_of(make(on), place))  # type: ignore[misc]
        text += f"---\n{fill(format_yaml(role))}rules:\n{entries(parts, _write_rule)}"
        if more_rules and not place[1]:
            text += f'{{{{- include "{more_rules}" . }}}}\n'
    return text


def _rules_of(roles: Iterable[Role], place: tuple[str, str]) -> Iterator[dict[str, Any]]:
    for role in roles:
        if (role.name, role.namespace) == place:
            yield from ({"why": rule.why, **rule.document()} for rule in role.rules)


def _write_rule(rule: dict[str, Any]) -> str:
    why = rule["why"]
    lines = [f"{key}: {json.dumps(value)}" for key, value in rule.items() if key != "why"]
    return f"  # {why}\n" + "".join(f"  {'  ' if place else '- '}{line}\n" for place, line in enumerate(lines))


def _renamed(found: Any) -> Any:
    """Give an object the name that it has in a release."""
    namespace = found["metadata"].get("namespace", "")
    prefix = "@FULLNAME@-" if namespace == "@NAMESPACE@" else "@CLUSTER@-"

    def name(old: str) -> str:
        return prefix + old.removeprefix(PREFIX) if old.startswith(PREFIX) else old

    made = {**found, "metadata": metadata(name(found["metadata"]["name"]), namespace)}
    if AUTHORITIES_READER in made["metadata"]["name"]:  # in a namespace that all releases share
        made["metadata"]["name"] = f"@CLUSTER@-@NAMESPACE@-{AUTHORITIES_READER}"
    if "roleRef" in made:
        made["roleRef"] = {**made["roleRef"], "name": name(made["roleRef"]["name"])}
    return made


def _policies(policies: tuple[Policy, ...], account: str, condition: str = "") -> str:
    text = ""
    for made in policy_documents(policies, username_of(service_account("@NAMESPACE@", account))):
        name = "@CLUSTER@-" + made["metadata"]["name"].removeprefix(PREFIX)
        renamed = {**made, "metadata": metadata(name)}
        if "policyName" in made["spec"]:
            renamed["spec"] = {**made["spec"], "policyName": name}
        text += document(renamed)
    switch = f"({condition}) " if condition else ""
    return f'{{{{- if and {switch}(include "harbormaster.policies" .) }}}}\n{text}{{{{- end }}}}\n'


def _wrapped(text: str, condition: str) -> str:
    words = f"and {condition}" if " " in condition else condition
    return f"{HEADER}{{{{- if {words} }}}}\n{text}{{{{- end }}}}\n"
