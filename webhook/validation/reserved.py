"""What is never placed, however it is written down: selected by a term, or wrapped in an envelope.

Source: placement-api.md 2.1, X-01 and X-02; rollout.md 2.3.
"""

from typing import Final

from scorer.api.kinds import ENVELOPE, NAMESPACED_ENVELOPE
from scorer.api.names import CLUSTER_GROUP, PLACEMENT_GROUP, SYSTEM_NAMESPACE_PREFIXES, is_reserved_namespace
from webhook.admission.context import Context
from webhook.validation.rule import OURS, deny

NAMESPACE_RULE: Final = deny(
    "X-01", "No reserved namespace is selected by name, or wrapped in an envelope.", f"{OURS}; KubeFleet issue 661"
)
KIND_RULE: Final = deny(
    "X-02", "What is selected or wrapped is no kind that is never placed, such as Pods or the fleet's own.", OURS
)

_GROUPS: Final = frozenset({CLUSTER_GROUP, "events.k8s.io", "coordination.k8s.io", "metrics.k8s.io"})
_KINDS: Final = frozenset(
    {("", "Pod"), ("", "Node"), ("", "Event")}
    | {
        ("networking.fleet.azure.com", kind)
        for kind in ("ServiceImport", "TrafficManagerProfile", "TrafficManagerBackend")
    }
)
_ENVELOPES: Final = frozenset({ENVELOPE.kind, NAMESPACED_ENVELOPE.kind})


def is_never_placed(group: str, kind: str, context: Context) -> bool:
    """Say whether no object of a kind is ever placed (X-02); of our own kinds, envelopes are, by what is in them."""
    if group in _GROUPS:
        return True
    if group == PLACEMENT_GROUP:
        return kind not in _ENVELOPES
    return (group, kind) in _KINDS or (group, kind) in context.settings.skipped_kinds


def is_never_placed_namespace(name: str, context: Context) -> bool:
    """Say whether a namespace is never placed (X-01)."""
    return is_reserved_namespace(name) or name in context.settings.skipped_namespaces


def is_never_written_to(namespace: str, context: Context) -> bool:
    """Say whether nothing wrapped is placed in a namespace (X-01).

    ``default`` is not placed itself, yet every member has it, and a ResourcePlacement there may place what is in it.
    """
    return namespace.startswith(SYSTEM_NAMESPACE_PREFIXES) or namespace in context.settings.skipped_namespaces
