"""Live checks on ClusterResourceOverride and ResourceOverride.

Source: placement-api.md 10.3.
"""

from collections.abc import Iterator
from typing import Final

from scorer.api.family import CLUSTER, NAMESPACED
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import namespace_of, text_at
from scorer.api.values.field_path import FieldPath
from scorer.api.values.quoting import quote
from webhook.validation.framework.context import Context
from webhook.validation.framework.field import FieldWarning
from webhook.validation.live.check import LiveCheck


def warn_about_placement(
    document: JsonObject | None, _old: JsonObject | None, context: Context
) -> Iterator[FieldWarning]:
    """The placement that an override is for does not exist (X-62)."""
    name = text_at(document, "spec", "placement", "name")
    if document is None or not name:
        return
    family = NAMESPACED if text_at(document, "spec", "placement", "scope") == "Namespaced" else CLUSTER
    kind = family.placement
    if context.hub.get(kind, name, namespace_of(document) if kind.namespaced else "") is None:
        at = FieldPath.of("spec", "placement", "name")
        yield FieldWarning(at, f"there is no {kind.kind} {quote(name)} yet", "X-62")


CHECKS: Final[tuple[LiveCheck, ...]] = (warn_about_placement,)
