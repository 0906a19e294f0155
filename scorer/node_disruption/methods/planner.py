"""One pass of the planner: which nodes to disrupt now, what holds others, and when to requeue.

The methods are tried in order, and a pass executes only the first one with a result.

The reference caches an empty result until something changes or five minutes pass. Here a pass may receive the decision
of an earlier pass. It reuses what is still valid, and returns the same decision as without it. If nothing has changed,
that is the earlier decision itself until `DisruptionDecision.next_at`, unless budgets allow something else by then. A
node whose pods are no longer protected is therefore found immediately, while the reference takes up to five minutes.

Source: docs/specifications/nodepool-disruption.md 5.1, 7, 10 and 12; Karpenter v1.15.0
``pkg/controllers/disruption/controller.go``.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import chain
from typing import Final

from scorer.api.node_pool import DisruptionReason
from scorer.node_budgets.blockers import DisruptionClass
from scorer.node_budgets.pool_view import PoolView
from scorer.node_disruption.candidates.candidate import Candidate, quiet_until
from scorer.node_disruption.candidates.refusals import Held, Refusal
from scorer.node_disruption.cluster.snapshot import ClusterSnapshot
from scorer.node_disruption.instance_types.catalog import InstanceTypeCatalog
from scorer.node_disruption.methods.balanced import pool_totals
from scorer.node_disruption.methods.command import Command, MethodOutcome
from scorer.node_disruption.methods.context import PlannerOptions, Survey, blocked_nodes, pool_views, survey
from scorer.node_disruption.methods.drift import Drifted, drifts, plan_drift, types_checked_at
from scorer.node_disruption.methods.emptiness import emptiable, plan_emptiness
from scorer.node_disruption.methods.expiration import Expiration, expirations, expired, plan_graceful_expiration
from scorer.node_disruption.methods.multi_node import plan_multi_node
from scorer.node_disruption.methods.single_node import plan_single_node
from scorer.node_disruption.methods.static_drift import plan_static_drift
from scorer.node_disruption.methods.validation import ValidationFailure, revalidate

__all__ = ["DisruptionDecision", "PlannerOptions", "decide", "pool_views", "validate"]

PASS: Final = timedelta(seconds=10)
"""Minimum delay of the pass after one with commands, or after one that did not reach all pools."""


@dataclass(frozen=True, slots=True)
class DisruptionDecision:
    """Result of one pass.

    Args:
        now: Time of the pass.
        commands: Commands to execute, all of one method. Only static drift returns more than one.
        expired: Names of expired nodes to delete now, in addition to all commands.
        expiring: Expirations of nodes, earliest first.
        held: Holds of nodes that have a reason for disruption, by node name. A node may have several.
        nodes: Every node that belongs to a pool, by name, with its costs and blockers.
        drifted: Drift by node name.
        eligible: Number of nodes eligible per pool and reason, regardless of budgets.
        next_at: Time at which the result may change even without an event. None: unlimited.
        unseen: Pools that single-node consolidation did not reach, an input of the next pass.
        notes: Oddities of the cluster, for users.
        memory: Survey of the cluster, for reuse in the next pass.
    """

    now: datetime
    commands: tuple[Command, ...] = ()
    expired: tuple[str, ...] = ()
    expiring: tuple[Expiration, ...] = ()
    held: tuple[Held, ...] = ()
    nodes: Mapping[str, Candidate] = field(default_factory=dict)
    drifted: Mapping[str, Drifted] = field(default_factory=dict)
    eligible: Mapping[tuple[str, str], int] = field(default_factory=dict)
    next_at: datetime | None = None
    unseen: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    memory: Survey | None = field(default=None, compare=False, repr=False)

    @property
    def command(self) -> Command | None:
        """The first command, or None."""
        return self.commands[0] if self.commands else None


def decide(
    cluster: ClusterSnapshot,
    catalog: InstanceTypeCatalog | None,
    now: datetime,
    settings: PlannerOptions = PlannerOptions(),  # noqa: B008 - it is frozen
    *,
    views: Mapping[str, PoolView] | None = None,
    unseen_pools: Collection[str] = (),
    previous: DisruptionDecision | None = None,
) -> DisruptionDecision:
    """Decide which nodes of a cluster to disrupt.

    Args:
        cluster: Snapshot of the cluster.
        catalog: Instance types and prices. None: unknown, which disables consolidation.
        now: Current time, timezone-aware.
        settings: Options of the operator.
        views: Pools by name, with reservations. None if there are no reservations.
        unseen_pools: `DisruptionDecision.unseen` of the previous pass.
        previous: An earlier decision. It saves time, but does not change the result.
    """
    pools = pool_views(cluster, settings) if views is None else views
    if previous and not unseen_pools and _is_still_true(previous, cluster, catalog, now, settings, pools):
        return replace(previous, now=now)
    leaving_nodes = () if settings.graceful_expiration else expired(cluster, now)
    earlier = previous.memory if previous else None
    pass_survey = survey(
        cluster, catalog, now, settings, pools, leaving_nodes=leaving_nodes, unseen_pools=unseen_pools, previous=earlier
    )
    holds = list[Held]()
    if settings.graceful_expiration:
        leaving_nodes, expiration_holds = plan_graceful_expiration(pass_survey)
        holds += expiration_holds
        if leaving_nodes:
            pass_survey = survey(
                cluster,
                catalog,
                now,
                settings,
                pools,
                leaving_nodes=leaving_nodes,
                unseen_pools=unseen_pools,
                previous=pass_survey,
            )
    drifted = drifts(pass_survey)
    outcome = _first(pass_survey, drifted)
    holds += [*_consolidation_holds(pass_survey), *outcome.held]
    commands = tuple(outcome.commands)
    disrupted_nodes = {name for command in commands for name in command.nodes}.union(leaving_nodes)
    reported_holds = tuple(
        blocked_node for blocked_node in _sort_holds(holds) if blocked_node.node not in disrupted_nodes
    )
    all_expirations = expirations(cluster)
    return DisruptionDecision(
        now=now,
        commands=commands,
        expired=tuple(leaving_nodes),
        expiring=all_expirations,
        held=reported_holds,
        nodes=pass_survey.nodes,
        drifted=drifted,
        eligible=_eligible(pass_survey, drifted),
        next_at=_next(pass_survey, outcome, reported_holds, all_expirations, drifted),
        unseen=outcome.unseen,
        notes=cluster.notes,
        memory=pass_survey,
    )


def validate(
    command: Command,
    cluster: ClusterSnapshot,
    catalog: InstanceTypeCatalog | None,
    now: datetime,
    settings: PlannerOptions = PlannerOptions(),  # noqa: B008 - it is frozen
    *,
    views: Mapping[str, PoolView] | None = None,
    previous: DisruptionDecision | None = None,
) -> Command | ValidationFailure:
    """Return the still valid part of *command* in the present cluster, or why it is no longer valid.

    Args:
        command: A command that was decided earlier and has not started.
        cluster: Present snapshot.
        catalog: See `decide`.
        now: Current time, timezone-aware.
        settings: Options of the operator.
        views: See `decide`, without a reservation for this command itself.
        previous: See `decide`.
    """
    pools = pool_views(cluster, settings) if views is None else views
    leaving_nodes = () if settings.graceful_expiration else expired(cluster, now)
    earlier = previous.memory if previous else None
    return revalidate(
        command, survey(cluster, catalog, now, settings, pools, leaving_nodes=leaving_nodes, previous=earlier)
    )


def _is_still_true(
    previous: DisruptionDecision,
    cluster: ClusterSnapshot,
    catalog: InstanceTypeCatalog | None,
    now: datetime,
    settings: PlannerOptions,
    views: Mapping[str, PoolView],
) -> bool:
    """Return whether an earlier decision without commands is still valid, including its reasons.

    If nodes had expired, the earlier views counted them as held, unlike the present ones. The decision is not reused
    then.
    """
    last_survey = previous.memory
    if last_survey is None or previous.commands or previous.unseen:
        return False
    if now < previous.now or (previous.next_at is not None and now >= previous.next_at):
        return False
    return (
        last_survey.catalog is catalog
        and last_survey.settings == settings
        and last_survey.cluster == cluster
        and last_survey.given.views == views
        and last_survey.allowances.holds_at(now)
    )


def _first(pass_survey: Survey, drifted: Mapping[str, Drifted]) -> MethodOutcome:
    """Try the methods in order until one has a result. Holds are collected from all tried methods."""
    holds, changes, unseen_pools = list[Held](), list[datetime](), pass_survey.unseen
    for outcome in _outcomes(pass_survey, drifted):
        holds += outcome.held
        changes += outcome.changes
        unseen_pools = outcome.unseen
        if outcome.commands:
            return MethodOutcome(outcome.commands, tuple(holds), unseen_pools, tuple(changes))
    return MethodOutcome((), tuple(holds), unseen_pools, tuple(changes))


def _outcomes(pass_survey: Survey, drifted: Mapping[str, Drifted]) -> Iterator[MethodOutcome]:
    yield _with_unreached(pass_survey, plan_emptiness(pass_survey))
    yield _with_unreached(pass_survey, plan_static_drift(pass_survey, drifted))
    if refusal := pass_survey.no_ready_pool:
        yield MethodOutcome((), tuple(_all_held(pass_survey, drifted, refusal)), pass_survey.unseen)
        return
    yield _with_unreached(pass_survey, plan_drift(pass_survey, drifted))
    if pass_survey.catalog is None:
        return
    totals = pool_totals(pass_survey.nodes.values())
    yield _with_unreached(pass_survey, plan_multi_node(pass_survey, totals))
    yield plan_single_node(pass_survey, totals)


def _all_held(pass_survey: Survey, drifted: Collection[str], refusal: Refusal) -> Iterator[Held]:
    """Yield holds with the same refusal for all nodes with pods that drift and consolidation would try."""
    for candidate in pass_survey.eligible(DisruptionClass.EVENTUAL):
        if candidate.name in drifted and candidate.pool and candidate.pool.replicas is None:
            yield Held.of(candidate.name, DisruptionReason.DRIFTED, refusal)
    for candidate in pass_survey.underutilized():
        yield Held.of(candidate.name, DisruptionReason.UNDERUTILIZED, refusal)


def _with_unreached(pass_survey: Survey, outcome: MethodOutcome) -> MethodOutcome:
    """Return *outcome* with the unreached pools of the previous pass, which only single-node consolidation updates."""
    return replace(outcome, unseen=pass_survey.unseen)


def _consolidation_holds(pass_survey: Survey) -> Iterator[Held]:
    """Yield the holds of nodes that only consolidation would consider."""
    reason = DisruptionReason.UNDERUTILIZED
    for node in pass_survey.nodes.values():
        if node.is_empty or node.pool is None or node.pool.replicas is not None:
            continue
        yield from blocked_nodes(
            node, reason, pass_survey.not_underutilized(node), node.blockers_for(DisruptionClass.GRACEFUL)
        )


def _sort_holds(holds: Iterable[Held]) -> list[Held]:
    unique = dict.fromkeys(holds)
    return sorted(unique, key=lambda hold: (hold.node, hold.wanted, hold.reason, hold.message))


def _eligible(pass_survey: Survey, drifted: Collection[str]) -> dict[tuple[str, str], int]:
    replaceable = [
        candidate for candidate in pass_survey.eligible(DisruptionClass.EVENTUAL) if candidate.name in drifted
    ]
    counts: dict[tuple[str, str], int] = {}
    for reason, candidates in (
        (DisruptionReason.EMPTY, emptiable(pass_survey)),
        (DisruptionReason.DRIFTED, replaceable),
        (DisruptionReason.UNDERUTILIZED, pass_survey.underutilized()),
    ):
        for candidate in candidates:
            key = candidate.node.pool, reason.value
            counts[key] = counts.get(key, 0) + 1
    return dict(sorted(counts.items()))


def _next(
    pass_survey: Survey,
    outcome: MethodOutcome,
    holds: Iterable[Held],
    all_expirations: Iterable[Expiration],
    drifted: Mapping[str, Drifted],
) -> datetime | None:
    now = pass_survey.now
    waits = [now + max(command.validate_after, PASS) for command in outcome.commands]
    waits += [now + PASS] if outcome.unseen else []
    ends = (item.until for item in holds)
    ages = (item.at for item in all_expirations)
    nodes = chain.from_iterable(_changes(node, pass_survey.catalog) for node in pass_survey.nodes.values())
    drift = (item.since for item in drifted.values())
    instants = chain(waits, outcome.changes, ends, ages, nodes, drift, pass_survey.relocations.changes)
    return min((instant for instant in instants if instant is not None and instant > now), default=None)


def _changes(candidate: Candidate, catalog: InstanceTypeCatalog | None) -> Iterator[datetime | None]:
    """Yield the times at which the state of a node changes without an event."""
    if candidate.pool is not None:
        yield quiet_until(candidate.node, candidate.pool)
    for blocker in candidate.blockers:
        yield blocker.until
    if candidate.node.claim is not None:
        yield types_checked_at(candidate.node.claim, catalog)
