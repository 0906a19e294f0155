"""Which clusters are closed by their maintenance windows, at any instant of a plan."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import lru_cache

from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import name_of
from scorer.fleet import Fleet
from scorer.staged_update.facts import ClusterWait
from scorer.staged_update.views.forecast import Waits
from scorer.windows.maintenance import WindowState, window_state
from scorer.windows.member_windows import OF_UPDATES, MemberWindows, WindowDefinition, closed_window, windows_of


def window_waits(fleet: Fleet, windows: Iterable[JsonObject]) -> Waits:
    """Return what tells why a cluster is closed at an instant.

    Args:
        fleet: The clusters: they name windows, or are selected by them.
        windows: The ClusterMaintenanceWindows of the hub.
    """
    definitions = {name_of(document): WindowDefinition.of(document) for document in windows}
    of = _windows_by_cluster(fleet, definitions)

    @lru_cache(maxsize=4096)
    def standing_of(names: tuple[str, ...], at: datetime) -> WindowState:
        return window_state([window for name in names if (window := definitions[name].window) is not None], at)

    def wait(cluster: str, at: datetime) -> ClusterWait | None:
        found = of.get(cluster)
        if found is None:
            return None
        closed = closed_window(found, definitions, standing_of(found.names, at))
        return None if closed is None else ClusterWait(closed.message, closed.opens)

    return wait


def _windows_by_cluster(fleet: Fleet, definitions: Mapping[str, WindowDefinition]) -> Mapping[str, MemberWindows]:
    """Return the windows of the clusters that have some."""
    selecting = [definition for definition in definitions.values() if definition.selector is not None]
    found = {}
    for member in fleet.members:
        about = {"name": member.metadata.name, "labels": member.metadata.labels}
        document = {"metadata": {**about, "annotations": member.metadata.annotations}}
        windows = windows_of(document, definitions, OF_UPDATES, selecting)
        if windows.names or windows.missing:
            found[member.metadata.name] = windows
    return found
