"""The context of admission from a cache, for `harbormaster up` and `harbormaster serve`."""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime
from typing import Final

from scorer.api import kinds
from scorer.api.family import FAMILIES
from scorer.api.kinds import Kind
from scorer.api.meta import JsonObject
from scorer.api.values.label_selector import LabelSelector
from scorer.fleet import Fleet
from webhook.admission.failures import log_failure
from webhook.kube.cache.changes import ObjectDelta
from webhook.kube.cache.indexer import KindCache
from webhook.kube.cache.informer import Cache
from webhook.kube.ports import Key
from webhook.settings.admission import AdmissionSettings
from webhook.validation.framework.context import Context, HubKinds, UnknownStateError

LIVE_KINDS: Final = (
    kinds.MEMBER_CLUSTER,
    kinds.NAMESPACE,
    *(
        kind
        for family in FAMILIES
        for kind in (
            family.placement,
            family.policy_snapshot,
            family.resource_snapshot,
            family.binding,
            family.strategy,
            family.run,
        )
    ),
)
"""Kinds that live checks always read."""
WANTED_KINDS: Final = (
    kinds.UPGRADE_STRATEGY,
    kinds.UPGRADE_RUN,
    kinds.UPGRADE_REQUEST,
    kinds.VERSION_CATALOG,
    kinds.KINDS["batch", "Job"],
)
"""Further kinds that live checks read if the account may read them. Roles of older releases do not include them."""
POOL_KINDS: Final = (kinds.NODE_POOL, kinds.NODE_CLAIM)
"""Kinds that live checks of NodePools and node classes read, if the gate of the same process watches them."""
ADMISSION_KINDS: Final = (
    kinds.CUSTOM_RESOURCE_DEFINITION,
    *(family.override for family in FAMILIES),
    *LIVE_KINDS,
)
"""Kinds that admission always reads."""


_MOST_COLUMNS: Final = 256
"""Maximum number of columns of the reviews' copy of the fleet. Beyond it, a new copy is made."""


class CachedHub:
    """A view of the hub from a cache.

    Args:
        cache: Cache of the hub.
        cache_of: Returns the cache of a kind that may be read. None: unknown, as are the objects of a kind that was not
            listed yet. A review never makes the cache watch another kind.
        fleet: Returns the fleet.
    """

    def __init__(self, cache: Cache, cache_of: Callable[[Kind], KindCache | None], fleet: Callable[[], Fleet]) -> None:
        self._cache = cache
        self._cache_of = cache_of
        self._fleet = fleet

    def get(self, kind: Kind, name: str, namespace: str = "") -> JsonObject | None:
        """See `HubView.get`."""
        return self._kind_cache(kind).objects.get(Key(name, namespace))

    def list(self, kind: Kind, namespace: str = "") -> Collection[JsonObject]:
        """See `HubView.list`. Not sorted: sorting many bindings alone would take tens of milliseconds."""
        kind_cache = self._kind_cache(kind)
        return (kind_cache.namespaces.get(namespace, {}) if namespace else kind_cache.objects).values()

    def labelled(self, kind: Kind, label: str, value: str, namespace: str = "") -> Collection[JsonObject]:
        """See `HubView.labelled`."""
        self._kind_cache(kind)
        return self._cache.labelled(kind, label, value, namespace)

    def candidates(self, kind: Kind, selector: LabelSelector, namespace: str = "") -> Collection[JsonObject]:  # noqa: ARG002 - of HubView
        """See `HubView.candidates`. Not indexed: one review has few selectors."""
        return self.list(kind, namespace)

    @property
    def fleet(self) -> Fleet:
        """See `HubView.fleet`."""
        self._kind_cache(kinds.MEMBER_CLUSTER)
        return self._fleet()

    def _kind_cache(self, kind: Kind) -> KindCache:
        kind_cache = self._cache_of(kind)
        if kind_cache is None or not kind_cache.synced.is_set():
            raise UnknownStateError(kind)
        return kind_cache


class StoredObjectsContext:
    """Returns contexts for judging stored objects in the loop, which reads every kind that its cache watches.

    Args:
        cache: Cache of the loop.
        now: The clock.
    """

    def __init__(self, cache: Cache, now: Callable[[], datetime]) -> None:
        self._cache = cache
        self._now = now
        self._known_kinds: HubKinds | None = None
        self._hub = CachedHub(cache, self._watched, lambda: cache.fleet)

    def __call__(self) -> Context:
        """Return the current context, with the loop as the author."""
        if self._known_kinds is None:
            self._known_kinds = HubKinds.of_definitions(self._cache.list(kinds.CUSTOM_RESOURCE_DEFINITION))
        return Context(self._known_kinds, self._cache.list, now=self._now(), hub=self._hub, on_failure=log_failure)

    def _watched(self, kind: Kind) -> KindCache | None:
        return self._cache.of_kind(kind) if self._cache.watches(kind) else None

    def forget_kinds(self) -> None:
        """Invalidate the served kinds after a change to a definition."""
        self._known_kinds = None


class CachedContext:
    """Makes the context of each review.

    Attributes:
        failures: Number of failures per live check.

    Args:
        cache: Cache of the hub, still empty. The kinds that admission needs are added to its watches.
        settings: Settings of admission.
        now: The clock.
        selectable: Further kinds to watch, which placements select. Live checks ignore all others.
        clock: Monotonic clock for the time limit of live checks.
    """

    def __init__(
        self,
        cache: Cache,
        settings: AdmissionSettings,
        now: Callable[[], datetime],
        *,
        selectable: Iterable[Kind] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cache = cache
        self._now = now
        self._settings = settings
        self._clock = clock
        self._hub_kinds: HubKinds | None = None
        self._shared: Fleet | None = None
        self._copy: Fleet | None = None
        self.failures: Counter[str] = Counter()
        cache.require(ADMISSION_KINDS)
        cache.watch_if_allowed(WANTED_KINDS)
        self._live = {kind: cache.of_kind(kind) for kind in (*LIVE_KINDS, *WANTED_KINDS, *selectable)}
        self._hub = CachedHub(cache, self._readable, self._fleet)
        cache.subscribe(kinds.CUSTOM_RESOURCE_DEFINITION, self._forget_kinds)

    def __call__(self) -> Context:
        """Return the current context, without an author."""
        if self._hub_kinds is None:
            self._hub_kinds = HubKinds.of_definitions(self._cache.list(kinds.CUSTOM_RESOURCE_DEFINITION))
        return Context(
            self._hub_kinds,
            self._existing,
            settings=self._settings,
            now=self._now(),
            hub=self._hub,
            clock=self._clock,
            on_failure=self._count,
        )

    def _fleet(self) -> Fleet:
        """Return the fleet, as a separate copy for reviews.

        The copy shares the existing columns, and keeps those that reviews add, up to a limit: otherwise a client that
        invents label keys and property names could fill the memory.
        """
        shared = self._cache.fleet
        if self._copy is None or self._shared is not shared or self._copy.column_count > _MOST_COLUMNS:
            _ = shared.eligibility, shared.taints, shared.namespaces
            self._shared, self._copy = shared, shared.updated(())
        return self._copy

    def _readable(self, kind: Kind) -> KindCache | None:
        """Return the cache of a kind, None if live checks do not read the kind.

        They read the kinds of NodePools if the gate watches them.
        """
        if kind in POOL_KINDS and self._cache.watches(kind):
            return self._cache.of_kind(kind)
        return self._live.get(kind)

    def _existing(self, kind: Kind) -> Sequence[JsonObject]:
        return self._cache.list(kind)

    def _count(self, check: str, error: Exception) -> None:
        self.failures[check] += 1
        log_failure(check, error)

    def _forget_kinds(self, _change: ObjectDelta) -> None:
        self._hub_kinds = None
