"""What a test puts on the hub, and takes away again."""

from e2e.controlplane.cluster import JsonObject
from e2e.controlplane.process import PATIENCE
from e2e.fleet.bed import Fleet
from e2e.fleet.objects import Objects, kind_of, make_config_map, make_namespace, name_of
from e2e.fleet.waiting import wait_until
from scorer.api.kinds import NAMESPACE, PLACEMENT, RESOURCE_PLACEMENT


class Scene:
    """Remembers what was created through it.

    Args:
        fleet: Where.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._made: list[tuple[Objects, JsonObject]] = []

    def put(self, *documents: JsonObject, on: Objects | None = None) -> JsonObject:
        """Create objects, on the hub unless said otherwise; return the last one."""
        stored: JsonObject = {}
        for document in documents:
            objects = on or self._fleet.on_hub
            stored = objects.create(document)
            self._made.append((objects, document))
        return stored

    def remember(self, *documents: JsonObject) -> None:
        """Take objects away at the end that somebody else has created on the hub."""
        self._made += [(self._fleet.on_hub, document) for document in documents]

    def home(self, name: str, *documents: JsonObject, **data: str) -> None:
        """Create a namespace with a ConfigMap ``settings`` of *data*, and *documents* in it."""
        maps = [make_config_map("settings", name, **data)] if data else []
        self.put(make_namespace(name), *maps, *documents)

    def clear(self, seconds: float = PATIENCE) -> None:
        """Delete everything: placements first, the rest when they and all they had placed are gone."""
        placements = [item for item in self._made if item[1]["kind"] in {PLACEMENT.kind, RESOURCE_PLACEMENT.kind}]
        others = [item for item in reversed(self._made) if item not in placements]
        for objects, document in placements:
            _delete(objects, document)

        def remaining() -> str:
            left = [name_of(document) for objects, document in placements if _exists(objects, document)]
            return f"placements are still there: {left}; {self._fleet.last_words()}" if left else ""

        wait_until("placements go", remaining, seconds)
        inside = {name_of(document) for _, document in others if document["kind"] == NAMESPACE.kind}
        for objects, document in others:
            if document["metadata"].get("namespace", "") not in inside or objects is not self._fleet.on_hub:
                _delete(objects, document)
        self._made.clear()


def _delete(objects: Objects, document: JsonObject) -> None:
    metadata = document["metadata"]
    objects.delete(kind_of(document), metadata["name"], metadata.get("namespace", ""))


def _exists(objects: Objects, document: JsonObject) -> bool:
    metadata = document["metadata"]
    return objects.find(kind_of(document), metadata["name"], metadata.get("namespace", "")) is not None
