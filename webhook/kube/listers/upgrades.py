"""Inputs of upgrade runs in the cache of a hub: everything except the reports of back ends.

Shared by the controllers of runs and the answers about plans.

Source: docs/specifications/upgrade-runs.md 3.6, 5, 10.5, 11 and 14.5.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, Self

import pydantic

from scorer.api import kinds
from scorer.api.family import CLUSTER, FAMILIES, FAMILY_OF, PlacementRef
from scorer.api.meta import JsonObject, first_mistake
from scorer.api.unstructured.documents import conditions_of, is_deleting, name_of, spec_of
from scorer.api.upgrade.fields import UpgradeType
from scorer.api.upgrade.gate import ClusterUpgradeGate, UpgradeGateStatus
from scorer.api.upgrade.run import ClusterUpgradeRun, PlacementGuardMode
from scorer.api.upgrade.strategy import ClusterUpgradeStrategy, StrategySpec
from scorer.api.upgrade.version_catalog import VersionCatalogSpec
from scorer.upgrade.back_ends.interface import Inventory
from scorer.upgrade.members.member import DEFAULT_UPGRADER, Member, read_member
from scorer.upgrade.members.windows import targets_of
from scorer.upgrade.planning.durations import Sample, samples_of
from scorer.upgrade.simulation.hub import gates_of
from scorer.upgrade.state.operations import occupied_members
from scorer.upgrade.state.placement_guard import GuardedPlacement, guarded_placements
from scorer.upgrade.versions.catalog import ReleaseCatalog
from webhook.kube.cache.informer import Cache
from webhook.kube.listers.maintenance_windows import MaintenanceWindows
from webhook.kube.ports import Store

UPGRADE_KINDS: Final = (
    kinds.UPGRADE_RUN,
    kinds.UPGRADE_GATE,
    kinds.UPGRADE_STRATEGY,
    kinds.UPGRADE_PROFILE,
    kinds.VERSION_CATALOG,
    kinds.UPGRADE_REQUEST,
)
"""Watched kinds of upgrades."""


class UnreadableRunError(ValueError):
    """A run cannot be parsed. The message names the field."""


class HubUpgrades:
    """The upgrade runs of a hub and their inputs. Unchanged objects are parsed only once.

    Args:
        cache: The hub's objects.
        store: The hub, for live reads of the budgets of placements.
        windows: The maintenance windows of the members.
        default_upgrader: The back end of members that name none.
    """

    def __init__(
        self, cache: Cache, store: Store, windows: MaintenanceWindows, default_upgrader: str = DEFAULT_UPGRADER
    ) -> None:
        self._cache = cache
        self._store = store
        self._windows = windows
        self._default_upgrader = default_upgrader
        self._runs = _Runs()
        self._members: dict[tuple[str, UpgradeType], tuple[tuple[object, ...], Member]] = {}
        self._catalog: tuple[tuple[JsonObject, ...], ReleaseCatalog] = ((), ReleaseCatalog())

    @classmethod
    def watching(cls, cache: Cache, store: Store, windows: MaintenanceWindows, default_upgrader: str) -> Self:
        """Return the upgrade runs of a hub, and watch their kinds where permitted."""
        cache.watch_if_allowed((*UPGRADE_KINDS, kinds.MAINTENANCE_WINDOW))
        return cls(cache, store, windows, default_upgrader)

    @property
    def default_upgrader(self) -> str:
        """The back end of members that name none."""
        return self._default_upgrader

    def run(self, document: JsonObject) -> ClusterUpgradeRun:
        """Parse a run.

        Raises:
            UnreadableRunError: *document* cannot be parsed.
        """
        return self._runs.read(document)

    def others(self, name: str) -> Iterator[ClusterUpgradeRun]:
        """Yield all runs except *name*, without those that cannot be parsed."""
        documents = self._cache.list(kinds.UPGRADE_RUN)
        self._runs.keep(list(map(name_of, documents)))
        for document in documents:
            if name_of(document) != name:
                try:
                    yield self.run(document)
                except UnreadableRunError:
                    continue

    def joined(self) -> dict[str, JsonObject]:
        """Return the MemberClusters that have joined and are not leaving."""
        members = self._cache.list(kinds.MEMBER_CLUSTER)
        return {name_of(member): member for member in members if not is_deleting(member) and has_joined(member)}

    def members(
        self, documents: Mapping[str, JsonObject], inventories: Mapping[str, Inventory], upgrade: UpgradeType
    ) -> dict[str, Member]:
        """Return the members as an upgrade sees them, by name.

        Args:
            documents: The MemberClusters, by name.
            inventories: Versions of the members, by name.
            upgrade: The upgrade, which determines the windows that apply.
        """
        targets = targets_of(upgrade)
        members: dict[str, Member] = {}
        for name, document in documents.items():
            windows, inventory = self._windows.of_upgrades(document, targets), inventories.get(name)
            entry = self._members.get((name, upgrade))
            inputs = (document, windows, inventory)
            if entry is None or any(old is not new for old, new in zip(entry[0], inputs, strict=True)):
                member = read_member(document, windows, inventory, upgrader=self._default_upgrader)
                entry = self._members[name, upgrade] = inputs, member
            members[name] = entry[1]
        for obsolete_key in [key for key in self._members if key[0] not in documents]:
            del self._members[obsolete_key]
        return members

    def catalog(self) -> ReleaseCatalog:
        """Return the published releases. A catalog that cannot be parsed publishes none."""
        documents = tuple(self._cache.list(kinds.VERSION_CATALOG))
        entry = self._catalog
        if len(entry[0]) != len(documents) or any(a is not b for a, b in zip(entry[0], documents, strict=True)):
            entry = self._catalog = documents, ReleaseCatalog.of(catalogs_of(documents))
        return entry[1]

    def strategy(self, run: ClusterUpgradeRun) -> StrategySpec | None:
        """Return the strategy that a run refers to. None: unset, missing or invalid, or the run has already started."""
        if run.status.start_time is not None or run.spec.strategy_ref is None:
            return None
        strategy = self._cache.get(kinds.UPGRADE_STRATEGY, run.spec.strategy_ref.name)
        if strategy is None:
            return None
        try:
            return ClusterUpgradeStrategy.read(strategy).spec
        except pydantic.ValidationError:
            return None

    def gates(self, run: ClusterUpgradeRun) -> dict[str, UpgradeGateStatus]:
        """Return the status of the gate objects of a run, by name.

        A missing gate has no entry. A gate that cannot be parsed has an empty status.
        """
        gates = {}
        for _, gate in gates_of(run.status):
            document = self._cache.get(kinds.UPGRADE_GATE, gate.gate) if gate.gate else None
            if document is None:
                continue
            try:
                gates[gate.gate] = ClusterUpgradeGate.read(document).status
            except pydantic.ValidationError:
                gates[gate.gate] = UpgradeGateStatus()
        return gates

    def busy(self, name: str) -> dict[str, str]:
        """Return the members that other runs upgrade, or may upgrade later, with a reason for users.

        A finished run may have abandoned an upgrade whose result no back end has reported yet. Such a run counts as
        well.

        Args:
            name: The run to ignore.
        """
        return dict(member for other in self.others(name) for member in self._runs.occupied(other))

    def samples(self) -> list[Sample]:
        """Return the durations of the upgrades of all runs."""
        return [sample for other_run in self.others("") for sample in self._runs.samples(other_run)]

    async def placements(self, run: ClusterUpgradeRun) -> list[GuardedPlacement]:
        """Return the placements with their bound clusters, and how many of those a run may upgrade concurrently.

        Budgets are only read if the placement guard of the run is enabled, with one list request.

        Raises:
            StoreError: The hub does not respond.
        """
        budgets: dict[PlacementRef, JsonObject] = {}
        if run.spec.placement_guard.mode is not PlacementGuardMode.OFF:
            budgets_listed = await self._store.list(kinds.DISRUPTION_BUDGET)
            budgets = {CLUSTER.ref(document): document for document in budgets_listed.items}
        bindings = (binding for family in FAMILIES for binding in self._cache.list(family.binding))
        return guarded_placements(bindings, self._placement, budgets.get)

    def _placement(self, ref: PlacementRef) -> JsonObject | None:
        return self._cache.get(FAMILY_OF[ref.kind].placement, ref.name, ref.namespace)


class _Runs:
    """Cache of parsed runs and values derived from them, valid until the run changes."""

    def __init__(self) -> None:
        self._parsed: dict[str, tuple[JsonObject, ClusterUpgradeRun | str]] = {}
        self._samples: dict[str, tuple[ClusterUpgradeRun, tuple[Sample, ...]]] = {}
        self._occupied: dict[str, tuple[ClusterUpgradeRun, tuple[tuple[str, str], ...]]] = {}

    def read(self, document: JsonObject) -> ClusterUpgradeRun:
        name = name_of(document)
        entry = self._parsed.get(name)
        if entry is None or entry[0] is not document:
            entry = self._parsed[name] = document, _parse(document)
        if isinstance(entry[1], str):
            raise UnreadableRunError(entry[1])
        return entry[1]

    def samples(self, run: ClusterUpgradeRun) -> tuple[Sample, ...]:
        entry = self._samples.get(run.metadata.name)
        if entry is None or entry[0] is not run:
            entry = self._samples[run.metadata.name] = run, tuple(samples_of(run))
        return entry[1]

    def occupied(self, run: ClusterUpgradeRun) -> tuple[tuple[str, str], ...]:
        entry = self._occupied.get(run.metadata.name)
        if entry is None or entry[0] is not run:
            entry = self._occupied[run.metadata.name] = run, tuple(occupied_members(run))
        return entry[1]

    def keep(self, names: Collection[str]) -> None:
        """Evict all runs except these."""
        for name in self._parsed.keys() - set(names):
            del self._parsed[name]
            self._samples.pop(name, None)
            self._occupied.pop(name, None)


def _parse(document: JsonObject) -> ClusterUpgradeRun | str:
    """Parse a run, or return its first error."""
    try:
        return ClusterUpgradeRun.read(document)
    except pydantic.ValidationError as error:
        return first_mistake(error)


def readable_runs(documents: Iterable[JsonObject]) -> Iterator[ClusterUpgradeRun]:
    """Yield upgrade runs, without those that cannot be parsed."""
    for document in documents:
        if not isinstance(run := _parse(document), str):
            yield run


def has_joined(member: JsonObject) -> bool:
    """Return whether the condition Joined of a MemberCluster is True."""
    return any(
        condition.get("type") == "Joined" and condition.get("status") == "True" for condition in conditions_of(member)
    )


def catalogs_of(documents: Iterable[JsonObject]) -> Iterator[VersionCatalogSpec]:
    """Yield the content of catalogs, without those that cannot be parsed."""
    for document in documents:
        try:
            yield VersionCatalogSpec.read(spec_of(document))
        except pydantic.ValidationError:
            continue
