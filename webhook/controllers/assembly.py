"""Builds the controllers of a hub."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final

from scorer.api.event import Event
from scorer.api.family import FAMILIES
from scorer.api.kinds import (
    CUSTOM_RESOURCE_DEFINITION,
    EVICTION,
    INTERNAL_MEMBER_CLUSTER,
    MAINTENANCE_WINDOW,
    MEMBER_CLUSTER,
    NAMESPACE,
    NODE,
    PLACEMENT_STATUS,
    WORK,
    Kind,
)
from scorer.api.meta import JsonObject
from scorer.member_gate.holds import MemberDisruption
from scorer.rollout.confirmation.report import UNCONFIRMED_REASONS
from webhook.controllers.machinery.loop import Loop
from webhook.controllers.machinery.observer import UNOBSERVED, LoopObserver
from webhook.controllers.machinery.wiring import NODES, UPGRADES, Wiring
from webhook.controllers.members.membership import MemberController
from webhook.controllers.members.reservations import MemberReservations, member_reservations
from webhook.controllers.nodes.blocked_pools import NodePoolController
from webhook.controllers.nodes.disruption import NodeDisruptionController, NodePlace
from webhook.controllers.nodes.observer import UNOBSERVED_NODES, NodeDisruptionObserver
from webhook.controllers.placements.advisories import AdvisoryController
from webhook.controllers.placements.back_reports import BackReportController
from webhook.controllers.placements.evictions import EvictionController
from webhook.controllers.placements.overrides import OverrideController
from webhook.controllers.placements.placement import PlacementController
from webhook.controllers.placements.resource_watches import Selectables
from webhook.controllers.placements.rollout import RolloutController
from webhook.controllers.placements.scheduler import SchedulerController
from webhook.controllers.placements.work_generator import WorkGenerator
from webhook.controllers.staged_updates.analysis import AnalysisController
from webhook.controllers.staged_updates.runs import StagedUpdateController
from webhook.controllers.upgraders.client import UpgraderBackEnds
from webhook.controllers.upgraders.upgrader import Workplace, make_upgraders
from webhook.controllers.upgrades.facts import UpgradeFacts
from webhook.controllers.upgrades.observer import UNOBSERVED_UPGRADES, UpgradeObserver
from webhook.controllers.upgrades.plans import UpgradePlanController
from webhook.controllers.upgrades.profiles import UpgradeProfileController
from webhook.controllers.upgrades.runs import ClusterUpgradeController
from webhook.gate.holds import seen_in
from webhook.gate.pools import HubNodePools
from webhook.kube.cache.hub import Hub
from webhook.kube.client.evictions import NodeWork
from webhook.kube.events import EventRecorder
from webhook.kube.listers.maintenance_windows import MaintenanceWindows
from webhook.kube.listers.upgrades import UPGRADE_KINDS
from webhook.kube.work_signing_keys import WorkKeys
from webhook.settings.gate import NodeDisruptionMode
from webhook.settings.loop import LoopSettings

REQUIRED: Final[tuple[Kind, ...]] = (
    MEMBER_CLUSTER,
    INTERNAL_MEMBER_CLUSTER,
    MAINTENANCE_WINDOW,
    NAMESPACE,
    EVICTION,
    PLACEMENT_STATUS,
    CUSTOM_RESOURCE_DEFINITION,
    *(family.placement for family in FAMILIES),
    *(family.override for family in FAMILIES),
    *(family.override_snapshot for family in FAMILIES),
    *(kind for family in FAMILIES for kind in (family.policy_snapshot, family.resource_snapshot, family.binding)),
    *(kind for family in FAMILIES for kind in (family.strategy, family.run, family.approval_request)),
    WORK,
    *UPGRADE_KINDS,
)
"""Kinds that the controllers watch, besides selectable kinds and those that only some settings require."""
CONTROLLERS: Final = (
    "member",
    "override",
    "placement",
    "advisory",
    "scheduler",
    "rollout",
    "staged_update",
    "analysis",
    "upgrade_profile",
    "cluster_upgrade",
    "upgrade_plan",
    "work",
    "eviction",
    "back_report",
    "node_pool",
    "node_disruption",
)
"""Controller names, in the order of the pipeline.

``analysis`` runs only if the settings name a query endpoint or a kind to read, ``node_pool`` only if placements cannot
select nodes, and ``node_disruption`` only if its mode is not ``Off``. If replicas share the work, the controllers of
upgrades and of nodes run only on the shard that owns them, see `webhook.controllers.machinery.wiring`.
"""


@dataclass(frozen=True, slots=True)
class NodeSide:
    """Dependencies of node disruption besides the store.

    Args:
        work: Evicts and deletes pods. None: disabled, no command is executed.
        observer: Metrics hooks.
    """

    work: NodeWork | None = None
    observer: NodeDisruptionObserver = UNOBSERVED_NODES


def required(settings: LoopSettings) -> tuple[Kind, ...]:
    """Return the kinds to sync before any controller starts, besides selectable kinds."""
    return tuple(dict.fromkeys((*REQUIRED, *seen_in(settings.gate_members))))


def make_loop(
    hub: Hub,
    now: Callable[[], datetime],
    selectables: Selectables,
    settings: LoopSettings,
    observer: LoopObserver = UNOBSERVED,
    upgrades: UpgradeObserver = UNOBSERVED_UPGRADES,
    nodes: NodeSide = NodeSide(),
    events: EventRecorder | None = None,
) -> Loop:
    """Create the loop of one leadership term.

    Args:
        hub: The hub cluster.
        now: The clock.
        selectables: Selectable kinds. Their state outlives the term.
        settings: Settings of the operator.
        observer: Metrics hooks of the queues, and of objects that need action.
        upgrades: Metrics hooks of upgrade runs.
        nodes: Dependencies of node disruption.
        events: Writes Events. None means that the loop makes its own recorder.
    """
    events = events or EventRecorder(hub.store, now, "harbormaster")
    record = partial(_record, events, observer)
    controllers = (
        *_controllers(hub, now, selectables, settings, record, observer, upgrades),
        *_of_nodes(hub, now, settings, events.record, nodes),
    )
    return Loop(
        hub,
        now,
        controllers,
        events,
        required(settings),
        workers=settings.workers,
        observer=observer,
        share=settings.share,
    )


def _record(events: EventRecorder, observer: LoopObserver, document: JsonObject, event: Event) -> None:
    if event.reason in UNCONFIRMED_REASONS:
        observer.unconfirmed(event.reason)
    events.record(document, event)


def _controllers(
    hub: Hub,
    now: Callable[[], datetime],
    selectables: Selectables,
    settings: LoopSettings,
    record: Callable[[JsonObject, Event], None],
    observer: LoopObserver,
    upgrades: UpgradeObserver,
) -> Iterator[Wiring[Any]]:
    """Yield all controllers except node disruption, in the order of the pipeline."""
    served_kinds = selectables.served
    turns, windows = member_reservations(hub, settings, now), MaintenanceWindows(hub.cache)
    keys = WorkKeys(hub.store, settings.namespace)
    yield MemberController(hub, now, record, settings.force_delete_after, observer).wiring()
    yield OverrideController(hub, now, record).wiring()
    advisories = AdvisoryController(hub, now, record)
    yield PlacementController(hub, now, record, selectables, settings, advisories, observer).wiring()
    yield advisories.wiring()
    rollout = RolloutController(hub, now, settings, windows, turns.get(MemberDisruption.ROLLOUT))
    yield SchedulerController(hub, now, record, rollout, keys, settings.removal).wiring()
    yield rollout.wiring()
    staged_turns = turns.get(MemberDisruption.STAGED_UPDATE)
    yield StagedUpdateController(hub, now, record, selectables, settings, windows, staged_turns, observer).wiring()
    if settings.analysis.is_on:
        yield AnalysisController(hub, now, served_kinds, settings.analysis, record).wiring()
    if settings.share.owns(UPGRADES):
        workplace = Workplace(hub, now, served_kinds, settings.upgraders)
        yield from _upgrades(workplace, settings, record, windows, turns.get(MemberDisruption.UPGRADE), upgrades)
    yield WorkGenerator(hub, now, served_kinds, record, keys, settings.selection, settings.removal).wiring()
    yield EvictionController(hub, now, turns.get(MemberDisruption.EVICTION), record).wiring()
    yield BackReportController(hub, served_kinds, record).wiring(selectables)
    if settings.share.owns(NODES) and _keeps_nodes_trimmed(settings):
        yield NodePoolController(hub, HubNodePools(hub.cache, with_pods=False), now, record, observer).wiring()


def _of_nodes(
    hub: Hub,
    now: Callable[[], datetime],
    settings: LoopSettings,
    record: Callable[[JsonObject, Event], None],
    nodes: NodeSide,
) -> Iterator[Wiring[Any]]:
    """Yield the node disruption controller, if it is enabled and runs on this shard."""
    options = settings.node_disruption
    if settings.share.owns(NODES) and options.mode is not NodeDisruptionMode.OFF:
        place = NodePlace(hub, nodes.work, settings.namespace)
        yield NodeDisruptionController(place, options, now, record, nodes.observer).wiring()


def _upgrades(
    workplace: Workplace,
    settings: LoopSettings,
    record: Callable[[JsonObject, Event], None],
    windows: MaintenanceWindows,
    turns: MemberReservations | None,
    observer: UpgradeObserver,
) -> Iterator[Wiring[Any]]:
    """Yield the controllers of upgrade runs, upgrade profiles and upgrade plans."""
    hub, now = workplace.hub, workplace.now
    upgraders = make_upgraders(settings.upgraders.names, workplace)
    back_ends = UpgraderBackEnds(upgraders, settings.upgraders, now, observer.failed)
    facts = UpgradeFacts(hub, now, back_ends, windows)
    yield UpgradeProfileController(hub, now, record, facts.upgrades).wiring()
    yield ClusterUpgradeController(hub, now, record, facts, back_ends, windows, turns, observer).wiring()
    yield UpgradePlanController(hub, now, facts, windows, observer).wiring()


def _keeps_nodes_trimmed(settings: LoopSettings) -> bool:
    """Return whether the cache may trim nodes: it keeps them complete if placements can select them."""
    return not settings.selection.is_selectable(NODE.group, NODE.versions[0], NODE.kind)
