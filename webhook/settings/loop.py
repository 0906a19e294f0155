"""The reconcile loop. The operator sets `HubLoopSettings`, and the controllers receive `LoopSettings`."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta

from pydantic import Field

from scorer.member_gate.holds import MemberDisruption
from scorer.reservations import LEASE_PREFIX
from scorer.rollout.confirmation.policy import DEFAULT_POLICY, RemovalPolicy
from scorer.rollout.selection.exclusions import SelectionSettings
from scorer.rollout.snapshots.resources import SnapshotSettings
from scorer.shards import MOST_SHARDS, WHOLE, Share
from webhook.settings.analysis import AnalysisOptions, AnalysisSettings
from webhook.settings.environment import Contradiction
from webhook.settings.gate import GateSettings, NodeDisruptionOptions, NodeDisruptionSettings
from webhook.settings.observability import HistorySettings
from webhook.settings.placement import PlaceableSettings, RolloutSettings
from webhook.settings.upgraders import UpgraderOptions, UpgraderSettings
from webhook.settings.values import Name, SecondsWithin


@dataclass(frozen=True, slots=True)
class LoopSettings:
    """Settings of all controllers.

    Args:
        snapshots: Minimum interval between changes of placed content.
        selection: Kinds and namespaces that placements may select.
        removal: Removals of content that need confirmation.
        removal_needs_budget: Whether removals of failed bindings need budget, and all removals once no cluster is
            selected.
        stalled_after: Time without progress after which a placement reports that its rollout is stalled.
        renewed_after: Time without progress of a rollout before its blocked bindings get a changed reason.
        force_delete_after: Time to wait for a leaving member that does not respond.
        workers: Concurrent reconciles per controller.
        write_concurrency: Concurrent writes.
        gate_members: Kinds of disruption that exclude each other on a member. Empty: no controller reserves members.
        namespace: Namespace of the reservations.
        analysis: Permitted queries for automatic approval of stages.
        upgraders: Back ends that upgrade members.
        node_disruption: Options of the node disruption controller.
        share: Share of the work that this loop does.
    """

    snapshots: SnapshotSettings = field(default_factory=SnapshotSettings)
    selection: SelectionSettings = field(default_factory=SelectionSettings)
    removal: RemovalPolicy = DEFAULT_POLICY
    removal_needs_budget: bool = True
    stalled_after: timedelta = timedelta(minutes=10)
    renewed_after: timedelta = timedelta(seconds=5)
    force_delete_after: timedelta = timedelta(minutes=15)
    workers: int = 16
    write_concurrency: int = 32
    gate_members: tuple[MemberDisruption, ...] = ()
    namespace: str = "harbormaster-system"
    analysis: AnalysisOptions = field(default_factory=AnalysisOptions)
    upgraders: UpgraderOptions = field(default_factory=UpgraderOptions)
    node_disruption: NodeDisruptionOptions = field(default_factory=NodeDisruptionOptions)
    share: Share = WHOLE


class ControllerSettings(PlaceableSettings, GateSettings, RolloutSettings, AnalysisSettings, UpgraderSettings):
    """Settings of the controllers, on any kind of hub, and of their leader election over an API server."""

    lease_name: Name = Field(
        default="harbormaster-reconcile",
        description="Name of the leader election Lease, in the namespace of the installation.",
    )
    shards: int = Field(
        default=1,
        ge=1,
        le=MOST_SHARDS,
        description=(
            "Number of shards of the loop, and of replicas that can be active concurrently. 1: a single leader. Must "
            "be the same in all replicas: a replica with another number remains idle until the others have stopped."
        ),
    )
    force_delete_seconds: SecondsWithin = Field(
        default=900,
        ge=30,
        le=3600,
        description="Time to wait for a leaving member whose agent does not respond.",
    )
    reconcile_workers: int = Field(
        default=16, ge=1, le=1000, description="Maximum number of concurrent reconciles per controller."
    )
    write_concurrency: int = Field(
        default=32, ge=1, le=150, description="Maximum number of concurrent writes to the hub."
    )

    def contradictions(self) -> Iterator[Contradiction]:
        """Yield a leader Lease with the name of a reservation."""
        yield from super().contradictions()
        if self.lease_name.startswith(LEASE_PREFIX):
            yield Contradiction(
                frozenset({"lease_name"}),
                f"lease_name: {self.lease_name!r}: must not be the name of a reservation, which the server may delete",
            )

    def loop(self) -> LoopSettings:
        """Return the settings of the controllers. Those that only the loop of a real hub has keep their defaults."""
        return LoopSettings(
            selection=self.selection(),
            removal=self.removal(),
            removal_needs_budget=self.removal_needs_budget,
            stalled_after=timedelta(seconds=self.rollout_stalled_seconds),
            force_delete_after=timedelta(seconds=self.force_delete_seconds),
            workers=self.reconcile_workers,
            gate_members=self.gate_members,
            namespace=self.namespace,
            analysis=self.analysis(),
            upgraders=self.upgrader_options(),
        )


class HubLoopSettings(ControllerSettings, NodeDisruptionSettings, HistorySettings):
    """The loop over the API server of a hub."""

    def loop(self) -> LoopSettings:
        """Return the settings of the controllers, with snapshots, concurrent writes and node disruption."""
        return replace(
            super().loop(),
            snapshots=SnapshotSettings(
                timedelta(seconds=self.resource_snapshot_interval_seconds),
                timedelta(seconds=self.resource_collection_seconds),
            ),
            write_concurrency=self.write_concurrency,
            node_disruption=self.node_disruption(),
        )
