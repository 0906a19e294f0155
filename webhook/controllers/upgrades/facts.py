"""Inputs of an upgrade decision, read from the hub and from the back ends.

Source: docs/specifications/upgrade-runs.md 10.5, 11, 13.1 and 14.5.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import annotation
from scorer.api.upgrade.run import ClusterUpgradeRun, PlacementGuardMode, WindowReservation
from scorer.upgrade.back_ends.interface import Observation, Operation, Target
from scorer.upgrade.members.member import UPGRADER, Member
from scorer.upgrade.members.windows import WindowStates
from scorer.upgrade.planning.durations import estimates
from scorer.upgrade.state.facts import UpgradeRunFacts
from scorer.upgrade.state.operations import operation_of, with_operation
from scorer.upgrade.state.placement_guard import GuardedPlacement, by_cluster
from scorer.upgrade.versions.catalog import ReleaseCatalog
from scorer.upgrade.versions.images import ImageTargets
from webhook.controllers.machinery.result import TerminalError
from webhook.controllers.upgraders.client import UpgraderBackEnds
from webhook.kube.cache.hub import Hub
from webhook.kube.listers.maintenance_windows import MaintenanceWindows
from webhook.kube.listers.upgrades import HubUpgrades, UnreadableRunError


@dataclass(frozen=True, slots=True)
class UpgradeRunContext:
    """A run and its inputs.

    Args:
        run: The stored run.
        facts: Inputs of a decision.
        remarks: Warnings about its operations for users: reason and message by operation id.
        documents: The MemberClusters, by name.
    """

    run: ClusterUpgradeRun
    facts: UpgradeRunFacts
    remarks: Mapping[str, tuple[str, str]]
    documents: Mapping[str, JsonObject]


class UpgradeFacts:
    """Gathers the inputs of upgrade decisions.

    Args:
        hub: The hub cluster.
        now: The clock.
        back_ends: Calls the back ends.
        windows: Maintenance windows of the members.
    """

    def __init__(
        self, hub: Hub, now: Callable[[], datetime], back_ends: UpgraderBackEnds, windows: MaintenanceWindows
    ) -> None:
        self.upgrades = HubUpgrades(hub.cache, hub.store, windows, back_ends.default)
        self._now = now
        self._back_ends = back_ends
        self._windows = windows
        self._standings = WindowStates()

    def run(self, document: JsonObject) -> ClusterUpgradeRun:
        """Parse a run.

        Raises:
            TerminalError: The run is invalid. The message names the field.
        """
        try:
            return self.upgrades.run(document)
        except UnreadableRunError as error:
            raise TerminalError(str(error)) from error

    async def of(self, document: JsonObject, *, ask: bool = True) -> UpgradeRunContext:
        """Return a run with its inputs.

        Args:
            document: The run.
            ask: Whether to poll the back ends for its operations and, before its start, for issues. If not, the last
                observations count.

        Raises:
            TerminalError: The run is invalid.
            StoreError: The hub does not respond.
        """
        run, hub = self.run(document), self.upgrades
        documents = hub.joined()
        anew = run.metadata.generation != run.status.observed_generation
        upgraders_by_name = {name: (document, self._upgrader(document)) for name, document in documents.items()}
        inventories = await self._back_ends.inspect(upgraders_by_name, anew=anew)
        waits = ask and run.status.start_time is None
        issues = await self._back_ends.preflight(upgraders_by_name, _target(run), anew=anew) if waits else {}
        members = hub.members(documents, inventories, run.spec.upgrade.type)
        catalog = hub.catalog()
        operations = list(_operations(run, members, catalog))
        observations = await self._back_ends.observe(operations, documents) if ask else self._last_seen(operations)
        facts = UpgradeRunFacts(
            now=self._now(),
            members=members,
            strategy=hub.strategy(run),
            windows=self._windows.definitions,
            standings=self._standings,
            catalog=catalog,
            upgraders=self._back_ends.capabilities,
            observations=observations,
            gates=hub.gates(run),
            busy=hub.busy(run.metadata.name),
            durations=estimates(hub.samples(), members, run.spec.upgrade.type) if _asks_for_durations(run) else {},
            guarded=await self._guarded(run),
            issues=issues,
        )
        remarks = {
            id_: observation.remark for id_, observation in observations.items() if observation.remark is not None
        }
        return UpgradeRunContext(run, facts, remarks, documents)

    def _upgrader(self, document: JsonObject) -> str:
        return annotation(document, UPGRADER) or self._back_ends.default

    def _last_seen(self, operations: Iterable[Operation]) -> dict[str, Observation]:
        return {
            operation.id: self._back_ends.seen[operation.id]
            for operation in operations
            if operation.id in self._back_ends.seen
        }

    async def _guarded(self, run: ClusterUpgradeRun) -> dict[str, list[GuardedPlacement]]:
        """Return the placements of each member that a run must protect. Empty unless the guard is enforced."""
        if run.spec.placement_guard.mode is not PlacementGuardMode.ENFORCE:
            return {}
        return by_cluster(await self.upgrades.placements(run))


def _operations(run: ClusterUpgradeRun, members: Mapping[str, Member], catalog: ReleaseCatalog) -> Iterator[Operation]:
    """Yield the operations to poll the back ends for. Of a member that has left, this is only an abandoned one."""
    images = ImageTargets(run.spec.upgrade, run.status.resolved.node_images, catalog)
    for entry in with_operation(run.status):
        member = members.get(entry.name)
        if member is not None or entry.operation_open:
            yield operation_of(run, entry, member, images, None)


def _target(run: ClusterUpgradeRun) -> Target:
    """Return the part of a run's target that all members share."""
    upgrade = run.spec.upgrade
    version = run.status.resolved.kubernetes_version or upgrade.kubernetes_version or ""
    return Target(upgrade.type, version)


def _asks_for_durations(run: ClusterUpgradeRun) -> bool:
    """Return whether a run's starts depend on durations. Plans always estimate them."""
    policy = run.spec.window_policy
    return policy.require_fit or policy.reservation is WindowReservation.STRICT
