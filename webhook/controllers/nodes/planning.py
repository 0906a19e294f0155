"""Runs the disruption planner in a thread, and holds a command until its validation is due.

Only the command that waits for validation is kept in memory. A new leader decides again, and waits again. The last
reading and decision are kept only to reuse unchanged parts.

Source: docs/specifications/nodepool-disruption.md 5.1 and 7.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from scorer.api.kinds import NODE
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import name_of, uid_of
from scorer.node_budgets.blockers import Blocker, DisruptionClass
from scorer.node_budgets.nodes import PoolNode
from scorer.node_budgets.pool_view import PoolView
from scorer.node_disruption.cluster.reader import ClusterReading, read_incrementally
from scorer.node_disruption.cluster.snapshot import ClusterSnapshot
from scorer.node_disruption.instance_types.catalog import InstanceTypeCatalog, missing_types_message
from scorer.node_disruption.methods.command import Command
from scorer.node_disruption.methods.planner import DisruptionDecision, PlannerOptions, decide, pool_views, validate
from scorer.node_disruption.methods.validation import ValidationFailure
from scorer.reservations import DISRUPTION, Reservation, UnreadableReservationsError
from webhook.controllers.nodes.cache import NodeWorld
from webhook.gate.instance_types import read_catalog
from webhook.gate.reservations import LeaseReservations
from webhook.runtime.price_files import PriceFile
from webhook.settings.gate import NodeDisruptionOptions

PASS: Final = timedelta(seconds=10)
"""Minimum time between two decisions, unless a command has changed something."""
FORGET: Final = timedelta(minutes=5)
"""Maximum time without a decision while nothing changes."""
SHUNNED: Final = "FailedBefore"
"""Cause for holding a backed-off node, in addition to the planner's causes."""
SHARE: Final = 4
"""Minimum pause after a decision, as a multiple of the duration of the decision."""


@dataclass(frozen=True, slots=True)
class PlanningPass:
    """One evaluation of the cluster.

    Args:
        cluster: The snapshot.
        decision: The decision.
        views: The pools, with their reservations.
        waited: Command of an earlier decision that has been validated now. None: unset.
        checked: Valid part of that command, or the failure. None: unset, no validation was due.
        problem: Reason why the instance types are not used, or empty.
        uids: UIDs of the nodes, by name. A decision does not apply to a newer node of the same name.
    """

    cluster: ClusterSnapshot
    decision: DisruptionDecision
    views: Mapping[str, PoolView]
    waited: Command | None = None
    checked: Command | ValidationFailure | None = None
    problem: str = ""
    uids: Mapping[str, str] = field(default_factory=dict)


class NodePlanning:
    """Plans the disruption of a cluster's nodes.

    Args:
        world: The cluster.
        options: Settings of the operator.
        reservations: Reservations of its pools. None: disabled.
        now: The clock.
    """

    def __init__(
        self,
        world: NodeWorld,
        options: NodeDisruptionOptions,
        reservations: LeaseReservations | None,
        now: Callable[[], datetime],
    ) -> None:
        self._world = world
        self._reservations = reservations
        self._now = now
        self._types = None if options.prices is None else PriceFile(options.prices, read_catalog)
        self._settings = PlannerOptions(
            spot_to_spot=options.spot_to_spot,
            graceful_expiration=options.graceful_expiration,
            template_do_not_disrupt=options.gate.template_do_not_disrupt,
        )
        self.waiting: tuple[Command, datetime] | None = None
        """Command that waits for validation, with the due time."""
        self._unseen: frozenset[str] = frozenset()
        self._reading: ClusterReading | None = None
        self._decision: DisruptionDecision | None = None
        self._evaluated_changes = -1
        self._due: datetime | None = None
        self._earliest: datetime | None = None
        self._catalog: InstanceTypeCatalog | None = None

    def requeue_immediately(self) -> None:
        """Make the next evaluation due immediately: a command has changed something."""
        self._earliest = None
        self._due = self._now()

    def repeat(self) -> None:
        """Make the next evaluation due after the shortest pause: an action failed."""
        self._due = self._now()

    def reset(self) -> None:
        """Forget all instants and the waiting command: the clock has been set."""
        self.waiting = None
        self.requeue_immediately()

    def next_evaluation(self, now: datetime) -> datetime:
        """Return when the next evaluation is due, at *now* or later."""
        soon = now if self._evaluated_changes != self._world.changes else None
        due = min(filter(None, (self._due, soon, self.waiting and self.waiting[1])), default=now)
        return max(now, due, self._earliest or due)

    @property
    def trouble(self) -> str:
        """Reason why the instance types in the file are not used. Empty if they are, or if there is no file."""
        return "" if self._types is None else self._types.problem

    async def evaluate(self, shunned: Mapping[str, str]) -> PlanningPass:
        """Read the cluster and decide. Validate the waiting command if due.

        Args:
            shunned: Backed-off nodes to exclude, with the reasons.
        """
        now, start, changes = self._now(), time.monotonic(), self._world.changes
        catalog = None if self._types is None else await self._types.current()
        if catalog is not self._catalog:
            self._catalog, self._unseen = catalog, frozenset()
        waits = self.waiting[0] if self.waiting is not None and self.waiting[1] <= now else None
        documents, held_reservations = self._world.documents(), self._pool_reservations()
        evaluation = await asyncio.to_thread(
            self._think, documents, _Left(held_reservations, shunned), catalog, now, waits
        )
        self._evaluated_changes, self._unseen = changes, evaluation.decision.unseen
        took = timedelta(seconds=time.monotonic() - start)
        self._earliest = now + max(PASS, SHARE * took)
        self._due = min(filter(None, (evaluation.decision.next_at, now + FORGET)))
        if waits is not None:
            self.waiting = None
        return evaluation

    def _think(
        self,
        documents: list[JsonObject],
        remaining: "_Left",
        catalog: InstanceTypeCatalog | None,
        now: datetime,
        waits: Command | None,
    ) -> PlanningPass:
        self._reading = read_incrementally(documents, now, self._reading)
        cluster = self._reading.cluster
        problem = "" if catalog is None else missing_types_message(catalog, cluster)
        if problem:  # otherwise the types of its nodes would count as no longer offered, and the nodes be disrupted
            catalog = None
        views = {name: remaining.taken_off(view) for name, view in sorted(pool_views(cluster, self._settings).items())}
        before, settings = self._decision, self._settings
        decision = decide(cluster, catalog, now, settings, views=views, unseen_pools=self._unseen, previous=before)
        self._decision = decision
        validation = None
        if waits is not None:
            validation = validate(waits, cluster, catalog, now, settings, views=views, previous=decision)
        uids = {name_of(document): uid_of(document) for document in documents if document.get("kind") == NODE.kind}
        return PlanningPass(cluster, decision, views, waits, validation, problem, uids)

    def _pool_reservations(self) -> dict[str, tuple[Reservation, ...] | None]:
        """Return the reservations by pool. None: unknown, they cannot be read."""
        reservations_by_pool: dict[str, tuple[Reservation, ...] | None] = {}
        if self._reservations is None:
            return reservations_by_pool
        for name in self._world.pools.names():
            try:
                reservations_by_pool[name] = self._reservations.cached(DISRUPTION, name)
            except UnreadableReservationsError:
                reservations_by_pool[name] = None
        return reservations_by_pool


@dataclass(frozen=True, slots=True)
class _Left:
    """Nodes to exclude from a decision.

    Args:
        reservations: Reservations by pool. None: unknown, they cannot be read.
        shunned: Backed-off nodes, with the reasons.
    """

    reservations: Mapping[str, tuple[Reservation, ...] | None]
    shunned: Mapping[str, str]

    def taken_off(self, view: PoolView) -> PoolView:
        """Return a pool with its reservations. If they cannot be read, every node counts as held."""
        pool_reservations = self.reservations.get(view.name, ())
        view = (
            view.with_held(frozenset(view.nodes))
            if pool_reservations is None
            else view.with_reservations(pool_reservations)
        )
        own = {name: Blocker(SHUNNED, reason) for name, reason in self.shunned.items() if name in view.nodes}
        if not own:
            return view
        blockers = view.blockers

        def more(node: PoolNode, class_: DisruptionClass, now: datetime) -> tuple[Blocker, ...]:
            node_blockers = blockers(node, class_, now)
            return (*node_blockers, own[node.name]) if node.name in own else node_blockers

        return replace(view, blockers=more)
