"""Fields that an apply leaves as they are on the member: its finalizers.

An apply neither sets nor removes such a field. A whole object that is sent repeats the member's value. A server-side
apply repeats only what an earlier apply of ours set: to leave that out would remove it, and to repeat the rest would
take it from the client that set it.

Source: docs/specifications/rollout.md 11.5.
"""

from collections.abc import Mapping
from typing import Any, Final

from scorer.api.meta import JsonObject
from webhook.member.apply.three_way_merge import Path
from webhook.member.objects.field_managers import owned_items

_FINALIZERS: Final[Path] = ("metadata", "finalizers")


def with_retained(manifest: JsonObject, live: JsonObject, owned: Mapping[str, Any] | None = None) -> JsonObject:
    """Return *manifest* with the fields of *live* that it must not change.

    Args:
        manifest: The manifest, as the agent applies it.
        live: The object on the member.
        owned: The fields to repeat, as ``fieldsV1``. None: unlimited.
    """
    return _overlaid(manifest, live, _FINALIZERS, owned)


def _overlaid(document: JsonObject, live: JsonObject, path: Path, owned: Mapping[str, Any] | None) -> JsonObject:
    """Return *document* with the owned value that *live* has at *path*."""
    name, rest = path[0], path[1:]
    if name not in live or (owned is not None and f"f:{name}" not in owned):
        return document
    below = owned[f"f:{name}"] or None if owned else None  # a leaf stands for everything below it
    if rest:
        value: Any = _overlaid(document.get(name) or {}, live[name], rest, below)
    else:
        value = live[name] if below is None else owned_items(live[name], below)
    return {**document, name: value} if value else document
