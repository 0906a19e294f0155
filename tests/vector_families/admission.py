"""Allow or deny by the whole chain: defaulting, schema, rules between fields, rules of updates."""

from dataclasses import replace
from typing import Any

from scorer.rollout.confirmation.policy import NO_CONFIRMATION
from tests.vector_families.line import Line
from webhook.access.user import UserInfo
from webhook.admission.judge import judge, mutate
from webhook.settings.admission import AdmissionSettings
from webhook.validation.framework.context import Context


def check_admission(line: Line) -> None:
    """The write is allowed or denied as the line wants."""
    operation, old, document = line["operation"], line.get("old"), line.get("object")
    if document is not None:
        document = mutate(document, old, operation).document
    verdict = judge(operation, document, old, _context(line))
    assert ("allow" if verdict.allowed else "deny") == line["want"], verdict.errors


def _context(line: Line) -> Context:
    context = Context.of_objects(line.get("existing") or ())
    config: Line = line.get("config") or {}
    if user := line.get("user"):
        context = context.with_user(UserInfo.read(user))
    switches: dict[str, Any] = {
        "networking_agents": bool(config.get("networkingAgents")),
        "block_workloads": bool(config.get("blockWorkloads")),
        "block_pod_disruption_budgets": bool(config.get("blockPDBs")),
        "guard_rail": bool(config.get("guardRail")),
        "protect_works": bool(config.get("guardRail")),  # the line's one switch for G-04 to G-11
        "removal": NO_CONFIRMATION,  # as in the reference
        "deny_member_label_changes": bool(config.get("denyModifyMemberClusterLabels")),
        "allowed_users": frozenset(config.get("allowedUsers") or ()),
    }
    return replace(context, settings=replace(AdmissionSettings(), **switches))
