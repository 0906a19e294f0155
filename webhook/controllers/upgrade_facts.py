"""What an upgrade run is decided on, as the hub and the back ends have it.

Source: upgrade-runs.md 3.6, 5, 10.5, 11 and 14.5.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import pydantic

from scorer.api import kinds
from scorer.api.binding import BindingState
from scorer.api.documents import annotation, conditions_of, dict_at, is_deleting, name_of, spec_of, text_at
from scorer.api.family import CLUSTER, FAMILIES, Family
from scorer.api.kinds import Kind
from scorer.api.meta import JsonObject, first_mistake
from scorer.api.placement import PlacementType
from scorer.api.upgrade.fields import UpgradeType
from scorer.api.upgrade.gate import ClusterUpgradeGate, UpgradeGateStatus
from scorer.api.upgrade.run import ClusterUpgradeRun, PlacementGuardMode, WindowReservation
from scorer.api.upgrade.strategy import ClusterUpgradeStrategy, StrategySpec
from scorer.api.upgrade.version_catalog import VersionCatalogSpec
from scorer.upgrade.back_end import Inventory, Observation, Operation
from scorer.upgrade.catalog import Catalog
from scorer.upgrade.facts import Estimate, Facts, GuardedPlacement
from scorer.upgrade.guard import allowed_in_upgrade
from scorer.upgrade.images import ImageTargets
from scorer.upgrade.members import UPGRADER, Member, read_member
from scorer.upgrade.operations import occupied, operation_of, to_observe, with_operation
from scorer.upgrade.planning.durations import Durations, Sample, samples_of
from scorer.upgrade.record import OVER
from scorer.upgrade.simulation import gates_of
from scorer.upgrade.tiers import Standings, targets_of
from webhook.controllers.result import TerminalError
from webhook.controllers.upgraders.desk import UpgraderDesk
from webhook.kube.hub import Hub
from webhook.kube.maintenance import MaintenanceWindows
from webhook.kube.ports import Key, NotFoundError

UPGRADE_KINDS: Final = (
    kinds.UPGRADE_RUN,
    kinds.UPGRADE_GATE,
    kinds.UPGRADE_STRATEGY,
    kinds.UPGRADE_PROFILE,
    kinds.VERSION_CATALOG,
    kinds.UPGRADE_REQUEST,
)
"""What the controllers of upgrades watch."""


@dataclass(frozen=True, slots=True)
class Situation:
    """A run with the hub around it.

    Args:
        run: As it is stored.
        facts: The hub around it.
        remarks: What people should know of its operations: reason and message, by operation.
    """

    run: ClusterUpgradeRun
    facts: Facts
    remarks: Mapping[str, tuple[str, str]]


class UpgradeFacts:
    """Gathers what runs are decided on; what has not changed is read once.

    Args:
        hub: Where everything is.
        now: The clock.
        desk: Asks the back ends.
        windows: The maintenance windows of the members.
    """

    def __init__(self, hub: Hub, now: Callable[[], datetime], desk: UpgraderDesk, windows: MaintenanceWindows) -> None:
        self._hub = hub
        self._now = now
        self._desk = desk
        self._windows = windows
        self._runs = _Runs()
        self._members: dict[tuple[str, UpgradeType], tuple[tuple[object, ...], Member]] = {}
        self._catalog: tuple[tuple[JsonObject, ...], Catalog] = ((), Catalog())
        self._standings = Standings()

    def run(self, document: JsonObject) -> ClusterUpgradeRun:
        """Read a run.

        Raises:
            TerminalError: It cannot be read; the message names the field.
        """
        return self._runs.read(document)

    def others(self, name: str) -> Iterator[ClusterUpgradeRun]:
        """Yield all runs but one, those left out that cannot be read."""
        documents = self._hub.cache.list(kinds.UPGRADE_RUN)
        self._runs.keep(list(map(name_of, documents)))
        for document in documents:
            if name_of(document) != name:
                try:
                    yield self.run(document)
                except TerminalError:
                    continue

    async def of(self, document: JsonObject, *, ask: bool = True) -> Situation:
        """Return a run with the hub around it.

        Args:
            document: The run.
            ask: Whether to ask the back ends how its operations go; if not, what they said last counts.

        Raises:
            TerminalError: The run cannot be read.
            StoreError: The hub does not answer.
        """
        run = self.run(document)
        documents = self.joined()
        anew = run.metadata.generation != run.status.observed_generation
        inventories = await self._desk.inspect(
            {name: (each, self._upgrader(each)) for name, each in documents.items()}, anew=anew
        )
        members = self.members(documents, inventories, run.spec.upgrade.type)
        catalog = self.catalog()
        operations = list(self._operations(run, members, catalog))
        observations = await self._desk.observe(operations, documents) if ask else self._last_seen(operations)
        facts = Facts(
            now=self._now(),
            members=members,
            strategy=self._strategy(run),
            windows=self._windows.definitions,
            standings=self._standings,
            catalog=catalog,
            upgraders=self._desk.capabilities,
            observations=observations,
            gates=dict(self._gates(run)),
            busy=self._busy(run),
            durations=self.durations(run, members) if _asks_for_durations(run) else {},
            guarded=await self._guarded(run),
        )
        remarks = {id_: each.remark for id_, each in observations.items() if each.remark is not None}
        return Situation(run, facts, remarks)

    def joined(self) -> dict[str, JsonObject]:
        """Return the MemberClusters that have joined and are not leaving."""
        found = self._hub.cache.list(kinds.MEMBER_CLUSTER)
        return {name_of(each): each for each in found if not is_deleting(each) and has_joined(each)}

    def _upgrader(self, document: JsonObject) -> str:
        return annotation(document, UPGRADER) or self._desk.default

    def members(
        self, documents: Mapping[str, JsonObject], inventories: Mapping[str, Inventory], upgrade: UpgradeType
    ) -> dict[str, Member]:
        """Return the members as an upgrade sees them, by name.

        Args:
            documents: The MemberClusters, by name.
            inventories: What they run.
            upgrade: Decides which windows apply.
        """
        targets = targets_of(upgrade)
        found: dict[str, Member] = {}
        for name, document in documents.items():
            windows, inventory = self._windows.of_upgrades(document, targets), inventories.get(name)
            known = self._members.get((name, upgrade))
            given = (document, windows, inventory)
            if known is None or any(old is not new for old, new in zip(known[0], given, strict=True)):
                member = read_member(document, windows, inventory, upgrader=self._desk.default)
                known = self._members[name, upgrade] = given, member
            found[name] = known[1]
        for gone in [key for key in self._members if key[0] not in documents]:
            del self._members[gone]
        return found

    def catalog(self) -> Catalog:
        """Return what is published; a catalog that cannot be read publishes nothing."""
        documents = tuple(self._hub.cache.list(kinds.VERSION_CATALOG))
        known = self._catalog
        if len(known[0]) != len(documents) or any(a is not b for a, b in zip(known[0], documents, strict=True)):
            known = self._catalog = documents, Catalog.of(_catalogs(documents))
        return known[1]

    def _strategy(self, run: ClusterUpgradeRun) -> StrategySpec | None:
        if run.status.start_time is not None or run.spec.strategy_ref is None:
            return None
        found = self._hub.cache.get(kinds.UPGRADE_STRATEGY, run.spec.strategy_ref.name)
        if found is None:
            return None
        try:
            return ClusterUpgradeStrategy.read(found).spec
        except pydantic.ValidationError:
            return None

    def _gates(self, run: ClusterUpgradeRun) -> Iterator[tuple[str, UpgradeGateStatus]]:
        for _, gate in gates_of(run):
            found = self._hub.cache.get(kinds.UPGRADE_GATE, gate.gate) if gate.gate else None
            if found is None:
                continue
            try:
                yield gate.gate, ClusterUpgradeGate.read(found).status
            except pydantic.ValidationError:
                yield gate.gate, UpgradeGateStatus()

    def _operations(
        self, run: ClusterUpgradeRun, members: Mapping[str, Member], catalog: Catalog
    ) -> Iterator[Operation]:
        """Yield the operations that back ends are asked about; of a member that has left, none."""
        images = ImageTargets(run.spec.upgrade, run.status.resolved.node_images, catalog)
        for entry in with_operation(run.status):
            if (member := members.get(entry.name)) is not None:
                yield operation_of(run, entry, member, images, None)

    def _last_seen(self, operations: Iterable[Operation]) -> dict[str, Observation]:
        found = ((each.id, self._desk.last_seen(each.id)) for each in operations)
        return {id_: seen for id_, seen in found if seen is not None}

    def _busy(self, run: ClusterUpgradeRun) -> dict[str, str]:
        """Return the members that other runs upgrade, and which run that is."""
        found: dict[str, str] = {}
        for other in self.others(run.metadata.name):
            if other.status.state in OVER:
                continue
            ids = to_observe(other.status)
            seen = {id_: known for id_ in ids if (known := self._desk.last_seen(id_)) is not None}
            found.update(dict.fromkeys(occupied(other.status, seen), other.metadata.name))
        return found

    def durations(self, run: ClusterUpgradeRun, members: Mapping[str, Member]) -> Mapping[str, Estimate]:
        """Return how long the upgrades of the members are expected to take, by what all runs know."""
        samples = (sample for each in self.others("") for sample in self._runs.samples(each))
        durations = Durations(samples, members, run.spec.upgrade.type)
        return {name: durations.of(member) for name, member in members.items()}

    async def _guarded(self, run: ClusterUpgradeRun) -> dict[str, list[GuardedPlacement]]:
        """Return the placements of each member that a run must protect; none unless it enforces that."""
        if run.spec.placement_guard.mode is not PlacementGuardMode.ENFORCE:
            return {}
        found: dict[str, list[GuardedPlacement]] = {}
        for placement in await self.placements(run):
            for cluster in placement.clusters:
                found.setdefault(cluster, []).append(placement)
        return found

    async def placements(self, run: ClusterUpgradeRun) -> Sequence[GuardedPlacement]:
        """Return the placements with the clusters that they are bound to, and how many a run may upgrade at once.

        Budgets are only asked for where the run looks at them: each takes a request.

        Raises:
            StoreError: The hub does not answer.
        """
        found, guards = [], run.spec.placement_guard.mode is not PlacementGuardMode.OFF
        for family in FAMILIES:
            clusters: dict[tuple[str, str], set[str]] = {}
            for binding in self._hub.cache.list(family.binding):
                if text_at(binding, "spec", "state") == BindingState.BOUND:
                    ref = family.parent(binding)
                    cluster = text_at(binding, "spec", "targetCluster")
                    clusters.setdefault((ref.namespace, ref.name), set()).add(cluster)
            for (namespace, name), names in sorted(clusters.items()):
                budget = await self._find(kinds.DISRUPTION_BUDGET, name) if guards and family is CLUSTER else None
                allowed = self._allowed(family, namespace, name, len(names), budget)
                found.append(GuardedPlacement(name, frozenset(names), allowed, namespace))
        return found

    def _allowed(self, family: Family, namespace: str, name: str, total: int, budget: JsonObject | None) -> int:
        placement = self._hub.cache.get(family.placement, name, namespace) or {}
        policy = dict_at(spec_of(placement), "policy")
        picks_n = policy.get("placementType") == PlacementType.PICK_N
        wanted = policy.get("numberOfClusters") if picks_n else total
        return allowed_in_upgrade(total, wanted if isinstance(wanted, int) else total, budget)

    async def _find(self, kind: Kind, name: str) -> JsonObject | None:
        try:
            return await self._hub.store.get(kind, Key(name))
        except NotFoundError:
            return None


class _Runs:
    """Runs as they were read, and what they tell of how long upgrades take, as long as they do not change."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[JsonObject, ClusterUpgradeRun | str]] = {}
        self._samples: dict[str, tuple[ClusterUpgradeRun, tuple[Sample, ...]]] = {}

    def read(self, document: JsonObject) -> ClusterUpgradeRun:
        name = name_of(document)
        known = self._known.get(name)
        if known is None or known[0] is not document:
            known = self._known[name] = document, _parse(document)
        if isinstance(known[1], str):
            raise TerminalError(known[1])
        return known[1]

    def samples(self, run: ClusterUpgradeRun) -> tuple[Sample, ...]:
        known = self._samples.get(run.metadata.name)
        if known is None or known[0] is not run:
            known = self._samples[run.metadata.name] = run, tuple(samples_of(run))
        return known[1]

    def keep(self, names: Collection[str]) -> None:
        """Forget all but the runs of these names."""
        for gone in self._known.keys() - set(names):
            del self._known[gone]
            self._samples.pop(gone, None)


def _parse(document: JsonObject) -> ClusterUpgradeRun | str:
    """Read a run; return what is wrong with it if it cannot be read."""
    try:
        return ClusterUpgradeRun.read(document)
    except pydantic.ValidationError as error:
        return first_mistake(error)


def _asks_for_durations(run: ClusterUpgradeRun) -> bool:
    """Say whether what a run starts depends on how long it takes; it is known for every plan."""
    policy = run.spec.window_policy
    return policy.require_fit or policy.reservation is WindowReservation.STRICT


def has_joined(member: JsonObject) -> bool:
    """Say whether a member is part of the fleet."""
    return any(each.get("type") == "Joined" and each.get("status") == "True" for each in conditions_of(member))


def _catalogs(documents: Iterable[JsonObject]) -> Iterator[VersionCatalogSpec]:
    for document in documents:
        try:
            yield VersionCatalogSpec.read(spec_of(document))
        except pydantic.ValidationError:
            continue
