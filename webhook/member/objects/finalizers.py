"""Finalizers of objects on the member: which of them harbormaster placed, and which block a deletion.

Earlier releases copied the finalizers of the hub's objects. On the member no controller removes these, so the agent
drops them when the object is removed. Finalizers of Kubernetes itself are an exception, regardless of the client that
set them: the member's control plane removes them after its cleanup. For example, it removes
``kubernetes.io/pvc-protection`` once no pod uses the claim.

Source: docs/specifications/rollout.md 20.
"""

from typing import Final

from scorer.api.conditions import TRUE
from scorer.api.kinds import NAMESPACE, Kind
from scorer.api.meta import JsonObject, dump_json
from scorer.api.unstructured.documents import conditions_of, dict_at, finalizers_of
from webhook.member.objects.field_managers import own_fields

_OF_COLLECTORS: Final = frozenset({"foregroundDeletion", "orphan"})
"""Finalizers of the garbage collector, which removes them itself."""
_OF_THE_CONTROL_PLANE: Final = (".kubernetes.io", ".k8s.io")
"""Domains of the finalizers of Kubernetes itself."""


def own_finalizers(live: JsonObject) -> list[str]:
    """Return the finalizers that we placed, by ``metadata.managedFields``."""
    fields = dict_at(own_fields(live), "f:metadata", "f:finalizers")
    return [finalizer for finalizer in finalizers_of(live) if f"v:{dump_json(finalizer).decode()}" in fields]


def without_own_finalizers(live: JsonObject) -> JsonObject | None:
    """Return the object without the finalizers that we placed, or None if it has none of ours."""
    dropped = {finalizer for finalizer in own_finalizers(live) if not _is_of_control_plane(finalizer)}
    if not dropped:
        return None
    remaining = [finalizer for finalizer in finalizers_of(live) if finalizer not in dropped]
    return {**live, "metadata": {**live["metadata"], "finalizers": remaining}}


def _is_of_control_plane(finalizer: str) -> bool:
    domain = finalizer.partition("/")[0]
    return finalizer in _OF_COLLECTORS or f".{domain}".endswith(_OF_THE_CONTROL_PLANE)


def obstacle(kind: Kind, live: JsonObject) -> str:
    """Return why an object that is being deleted remains. Empty: it is about to be removed."""
    finalizers = [finalizer for finalizer in finalizers_of(live) if finalizer not in _OF_COLLECTORS]
    if finalizers:
        return f"finalizer {', '.join(finalizers)}"
    if kind != NAMESPACE:
        return ""
    # Content may remain for a while, but the other conditions need action.
    reasons = [
        str(condition.get("message") or condition.get("reason"))
        for condition in conditions_of(live)
        if condition.get("type") != "NamespaceContentRemaining" and condition.get("status") == TRUE
    ]
    return "; ".join(reasons)
