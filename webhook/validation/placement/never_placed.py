"""Objects and namespaces that are never placed, whether selected by a term or wrapped in an envelope.

Source: docs/specifications/placement-api.md 2.1, X-01 and X-02; docs/specifications/rollout.md 2.3.
"""

from typing import Final

from scorer.api.names import PLACEMENT_GROUP, SYSTEM_NAMESPACE_PREFIXES, is_reserved_namespace
from scorer.rollout.selection.exclusions import (
    BLOCKED_GROUPS,
    BLOCKED_KINDS,
    ENVELOPE_KINDS,
    exclusion_reason,
    is_fleet_group,
    is_fleet_namespace,
)
from webhook.validation.framework.context import Context
from webhook.validation.framework.rule import OURS, deny

NAMESPACE_RULE: Final = deny(
    "X-01",
    "Reserved namespaces must not be selected by name or wrapped in an envelope.",
    f"{OURS}; KubeFleet issue 661",
)
KIND_RULE: Final = deny(
    "X-02",
    "Selected and wrapped objects must not belong to the fleet itself or to a kind that is never placed, such as Pod.",
    OURS,
)


def is_never_placed(group: str, kind: str, context: Context) -> bool:
    """Return whether no object of a kind is ever placed (X-02). Of our own kinds, only envelopes are selectable."""
    if group == PLACEMENT_GROUP:
        return kind not in ENVELOPE_KINDS
    if group in BLOCKED_GROUPS or is_fleet_group(group):
        return True
    return (group, kind) in BLOCKED_KINDS or (group, kind) in context.settings.skipped_kinds


def is_never_placed_namespace(name: str, context: Context) -> bool:
    """Return whether a namespace is never placed (X-01)."""
    return is_reserved_namespace(name) or name in context.settings.skipped_namespaces


def is_never_written_to(namespace: str, context: Context) -> bool:
    """Return whether wrapped objects are never placed in a namespace (X-01).

    The namespace ``default`` is never placed itself. But it exists on every member, so objects may be placed in it.
    """
    return namespace.startswith(SYSTEM_NAMESPACE_PREFIXES) or namespace in context.settings.skipped_namespaces


def reserved_reason(group: str, kind: str, name: str) -> str:
    """Return why an object is never placed, unlike others of its kind (X-02). Empty if it may be placed.

    Always empty for the fleet's own API groups, which `is_never_placed` covers.
    """
    return "" if is_fleet_group(group) else exclusion_reason(group, kind, name)


def is_of_the_fleet(namespace: str, context: Context) -> bool:
    """Return whether a namespace belongs to the fleet itself: its objects are never placed (X-01)."""
    return is_fleet_namespace(namespace, context.settings.unblocked_namespaces)
