"""Notifies viewers when the displayed objects change."""

from collections.abc import Callable
from functools import partial

from scorer.api.family import FAMILIES, Family, placement_ref
from scorer.api.kinds import MAINTENANCE_WINDOW, MEMBER_CLUSTER, UPGRADE_RUN
from scorer.api.unstructured.documents import name_of, namespace_of, text_at
from webhook.answers.questions import ViewChange
from webhook.kube.cache.changes import ObjectDelta
from webhook.kube.cache.informer import Cache


class HubChanges:
    """Watches the cache for changes to the objects that views show.

    Args:
        cache: The hub's objects.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._viewers: dict[int, Callable[[ViewChange], None]] = {}
        self._next = 0
        cache.watch_if_allowed(family.approval_request for family in FAMILIES)
        cache.watch_if_allowed((UPGRADE_RUN, MAINTENANCE_WINDOW))
        cache.subscribe(MEMBER_CLUSTER, self._on_member)
        cache.subscribe(UPGRADE_RUN, self._on_upgrade)
        cache.subscribe(MAINTENANCE_WINDOW, self._on_window)
        for family in FAMILIES:
            cache.subscribe(family.placement, partial(self._on_placement, family))
            cache.subscribe(family.binding, partial(self._on_binding, family))
            cache.subscribe(family.run, self._on_run)
            cache.subscribe(family.approval_request, partial(self._on_request, family))

    def everything(self) -> ViewChange:
        """Return a change of all clusters, placements and runs."""
        refs = (str(family.ref(document)) for family in FAMILIES for document in self._cache.list(family.placement))
        return ViewChange(self._cache.revision, clusters=None, placements=frozenset(refs), runs=True)

    def subscribe(self, handler: Callable[[ViewChange], None]) -> Callable[[], None]:
        """Call *handler* after every change, until the returned function is called."""
        number = self._next
        self._next += 1
        self._viewers[number] = handler
        return lambda: self._viewers.pop(number, None) and None

    def _on_member(self, change: ObjectDelta) -> None:
        self._tell(ViewChange(self._cache.revision, frozenset({name_of(change.document)})))

    def _on_upgrade(self, _change: ObjectDelta) -> None:
        """Notify viewers of the runs, and of the members, whose view includes their upgrades."""
        self._tell(ViewChange(self._cache.revision, clusters=None, runs=True))

    def _on_window(self, _change: ObjectDelta) -> None:
        """Notify viewers of the members, whose view includes their windows."""
        self._tell(ViewChange(self._cache.revision, clusters=None))

    def _on_placement(self, family: Family, change: ObjectDelta) -> None:
        ref = str(family.ref(change.document))
        self._tell(ViewChange(self._cache.revision, placements=frozenset({ref})))

    def _on_binding(self, family: Family, change: ObjectDelta) -> None:
        ref = str(family.parent(change.document))
        cluster = text_at(change.document, "spec", "targetCluster")
        clusters = frozenset({cluster}) if change.is_added_or_deleted and cluster else frozenset[str]()
        self._tell(ViewChange(self._cache.revision, clusters, frozenset({ref})))

    def _on_run(self, change: ObjectDelta) -> None:
        """Notify viewers of the placement, which shows the run, and viewers of runs."""
        placement = text_at(change.document, "spec", "placementName")
        ref = str(placement_ref(placement, namespace_of(change.document)))
        self._tell(ViewChange(self._cache.revision, placements=frozenset({ref}), runs=True))

    def _on_request(self, family: Family, change: ObjectDelta) -> None:
        """Notify viewers of the run, which shows the approval and the progress of its analysis."""
        name, namespace = text_at(change.document, "spec", "parentStageRollout"), namespace_of(change.document)
        run = self._cache.get(family.run, name, namespace)
        if run is not None:
            ref = str(placement_ref(text_at(run, "spec", "placementName"), namespace))
            self._tell(ViewChange(self._cache.revision, placements=frozenset({ref}), runs=True))

    def _tell(self, change: ViewChange) -> None:
        for viewer in tuple(self._viewers.values()):  # a copy: a viewer may unsubscribe while it is called
            viewer(change)
