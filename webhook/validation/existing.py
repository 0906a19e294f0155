"""Questions about other objects on the hub, which may have any shape."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from scorer.api.documents import dict_at, name_of
from scorer.api.meta import JsonObject


def placements_named(name: str, placements: Iterable[JsonObject]) -> Iterator[JsonObject]:
    """Yield the placement of that name, if there is one."""
    return (placement for placement in placements if name_of(placement) == name)


def placement_type_of(placement: Mapping[str, Any]) -> str:
    """Return the type of a stored placement; without a policy or a type, that is PickAll."""
    kind = dict_at(placement, "spec", "policy").get("placementType")
    return kind if isinstance(kind, str) else "PickAll"
