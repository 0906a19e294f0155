"""One pass of the planner: which nodes go now, why others stay, and when to look again.

The methods are tried in order, and the first that finds something is all that happens in a pass.

The reference remembers that nothing was to be done until something changes or five minutes pass. Here a pass can be
handed what one before it decided. It takes over what is still true, and answers as it would without: as long as nothing
changes, until `DisruptionDecision.next_at`, that is the decision itself, unless the budgets say something else by then.
So a node whose pods are no longer protected is found at once, where the reference finds it up to five minutes later.

Source: nodepool-disruption.md 5.1, 7, 10 and 12; Karpenter v1.15.0 ``pkg/controllers/disruption/controller.go``.
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
from scorer.node_disruption.methods.validation import ValidationFailure, revalidated

__all__ = ["DisruptionDecision", "PlannerOptions", "decide", "pool_views", "validate"]

PASS: Final = timedelta(seconds=10)
"""How long after a pass that found nothing the next one begins."""


@dataclass(frozen=True, slots=True)
class DisruptionDecision:
    """What one pass found.

    Args:
        now: The instant of the pass.
        commands: To be carried out; of one method, and several only of static drift.
        expired: Names of nodes that have reached their age and are to be deleted now, beside all commands.
        expiring: When nodes reach their age, the first first.
        held: Why nodes stay that could go, by the name of the node; a node may be held by several things.
        nodes: Every node that belongs to a pool with its figures and all that keeps it, by name.
        drifted: Why nodes have drifted, by their names.
        eligible: How many nodes each method's reason may take, budgets apart, by pool and reason.
        next_at: When the passing of time alone can change the answer; None: never.
        unseen: Pools that single-node consolidation did not come to; to be handed to the next pass.
        notes: What was odd about the cluster, for people.
        memory: How the cluster looked, for the next pass.
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
        """The first command; None: nothing is to be done."""
        return self.commands[0] if self.commands else None


def decide(
    cluster: ClusterSnapshot,
    catalog: InstanceTypeCatalog | None,
    now: datetime,
    settings: PlannerOptions = PlannerOptions(),  # noqa: B008 - it is frozen
    *,
    views: Mapping[str, PoolView] | None = None,
    unseen: Collection[str] = (),
    before: DisruptionDecision | None = None,
) -> DisruptionDecision:
    """Decide what is to be done with the nodes of a cluster.

    Args:
        cluster: At the instant.
        catalog: Instance types and prices; None: not available, then nothing is consolidated.
        now: The instant, with a time zone.
        settings: Of the operator.
        views: The pools by name with what is reserved; None: nothing is.
        unseen: Of the pass before.
        before: What some pass before decided; the answer is the same without it, but takes longer.
    """
    pools = pool_views(cluster, settings) if views is None else views
    if before and not unseen and _is_still_true(before, cluster, catalog, now, settings, pools):
        return replace(before, now=now)
    leaving = () if settings.graceful_expiration else expired(cluster, now)
    earlier = before.memory if before else None
    looked = survey(cluster, catalog, now, settings, pools, leaving=leaving, unseen=unseen, before=earlier)
    blocked = list[Held]()
    if settings.graceful_expiration:
        leaving, kept = plan_graceful_expiration(looked)
        blocked += kept
        if leaving:
            looked = survey(cluster, catalog, now, settings, pools, leaving=leaving, unseen=unseen, before=looked)
    drifted = drifts(looked)
    outcome = _first(looked, drifted)
    blocked += [*_blocked(looked), *outcome.held]
    commands = tuple(outcome.commands)
    going = {name for command in commands for name in command.nodes}.union(leaving)
    reported = tuple(blocked_node for blocked_node in _sorted(blocked) if blocked_node.node not in going)
    expiring = expirations(cluster)
    return DisruptionDecision(
        now=now,
        commands=commands,
        expired=tuple(leaving),
        expiring=expiring,
        held=reported,
        nodes=looked.nodes,
        drifted=drifted,
        eligible=_eligible(looked, drifted),
        next_at=_next(looked, outcome, reported, expiring, drifted),
        unseen=outcome.unseen,
        notes=cluster.notes,
        memory=looked,
    )


def validate(
    command: Command,
    cluster: ClusterSnapshot,
    catalog: InstanceTypeCatalog | None,
    now: datetime,
    settings: PlannerOptions = PlannerOptions(),  # noqa: B008 - it is frozen
    *,
    views: Mapping[str, PoolView] | None = None,
    before: DisruptionDecision | None = None,
) -> Command | ValidationFailure:
    """Return what is left of *command* in the cluster as it is now, or why it does not hold any more.

    Args:
        command: That was decided some time ago, and has not been begun.
        cluster: As it is now.
        catalog: As for `decide`.
        now: The instant, with a time zone.
        settings: Of the operator.
        views: As for `decide`, without a reservation for this command itself.
        before: As for `decide`.
    """
    pools = pool_views(cluster, settings) if views is None else views
    leaving = () if settings.graceful_expiration else expired(cluster, now)
    earlier = before.memory if before else None
    return revalidated(command, survey(cluster, catalog, now, settings, pools, leaving=leaving, before=earlier))


def _is_still_true(
    before: DisruptionDecision,
    cluster: ClusterSnapshot,
    catalog: InstanceTypeCatalog | None,
    now: datetime,
    settings: PlannerOptions,
    views: Mapping[str, PoolView],
) -> bool:
    """Say whether a pass that found nothing to do would find the same again, with the same reasons.

    Where nodes expired, budgets saw them as held, which nobody has said now: then it is not taken to be the same.
    """
    looked = before.memory
    if looked is None or before.commands or before.unseen:
        return False
    if now < before.now or (before.next_at is not None and now >= before.next_at):
        return False
    return (
        looked.catalog is catalog
        and looked.settings == settings
        and looked.cluster == cluster
        and looked.given.views == views
        and looked.allowances.holds_at(now)
    )


def _first(looked: Survey, drifted: Mapping[str, Drifted]) -> MethodOutcome:
    """Try the methods in order until one finds something; what holds nodes is gathered from all that were tried."""
    blocked, changes, unseen = list[Held](), list[datetime](), looked.unseen
    for outcome in _outcomes(looked, drifted):
        blocked += outcome.held
        changes += outcome.changes
        unseen = outcome.unseen
        if outcome.commands:
            return MethodOutcome(outcome.commands, tuple(blocked), unseen, tuple(changes))
    return MethodOutcome((), tuple(blocked), unseen, tuple(changes))


def _outcomes(looked: Survey, drifted: Mapping[str, Drifted]) -> Iterator[MethodOutcome]:
    yield _keeping(looked, plan_emptiness(looked))
    yield _keeping(looked, plan_static_drift(looked, drifted))
    if refusal := looked.no_ready_pool:
        yield MethodOutcome((), tuple(_all_held(looked, drifted, refusal)), looked.unseen)
        return
    yield _keeping(looked, plan_drift(looked, drifted))
    if looked.catalog is None:
        return
    totals = pool_totals(looked.nodes.values())
    yield _keeping(looked, plan_multi_node(looked, totals))
    yield plan_single_node(looked, totals)


def _all_held(looked: Survey, drifted: Collection[str], refusal: Refusal) -> Iterator[Held]:
    """Yield the nodes with pods that drift and consolidation would try, all held by the same refusal."""
    for candidate in looked.eligible(DisruptionClass.EVENTUAL):
        if candidate.name in drifted and candidate.pool and candidate.pool.replicas is None:
            yield Held.of(candidate.name, DisruptionReason.DRIFTED, refusal)
    for candidate in looked.underutilized():
        yield Held.of(candidate.name, DisruptionReason.UNDERUTILIZED, refusal)


def _keeping(looked: Survey, outcome: MethodOutcome) -> MethodOutcome:
    """Return *outcome* with the pools that were not come to last time: only single-node consolidation comes to them."""
    return replace(outcome, unseen=looked.unseen)


def _blocked(looked: Survey) -> Iterator[Held]:
    """Yield why the nodes stay that only consolidation would look at."""
    reason = DisruptionReason.UNDERUTILIZED
    for node in looked.nodes.values():
        if node.is_empty or node.pool is None or node.pool.replicas is not None:
            continue
        yield from blocked_nodes(
            node, reason, looked.not_underutilized(node), node.blockers_for(DisruptionClass.GRACEFUL)
        )


def _sorted(held: Iterable[Held]) -> list[Held]:
    unique = dict.fromkeys(held)
    return sorted(unique, key=lambda each: (each.node, each.wanted, each.reason, each.message))


def _eligible(looked: Survey, drifted: Collection[str]) -> dict[tuple[str, str], int]:
    replaceable = [candidate for candidate in looked.eligible(DisruptionClass.EVENTUAL) if candidate.name in drifted]
    counts: dict[tuple[str, str], int] = {}
    for reason, candidates in (
        (DisruptionReason.EMPTY, emptiable(looked)),
        (DisruptionReason.DRIFTED, replaceable),
        (DisruptionReason.UNDERUTILIZED, looked.underutilized()),
    ):
        for candidate in candidates:
            key = candidate.node.pool, reason.value
            counts[key] = counts.get(key, 0) + 1
    return dict(sorted(counts.items()))


def _next(
    looked: Survey,
    outcome: MethodOutcome,
    held: Iterable[Held],
    expiring: Iterable[Expiration],
    drifted: Mapping[str, Drifted],
) -> datetime | None:
    now = looked.now
    waits = [now + max(command.validate_after, PASS) for command in outcome.commands]
    waits += [now + PASS] if outcome.unseen else []
    ends = (each.until for each in held)
    ages = (each.at for each in expiring)
    nodes = chain.from_iterable(_changes(node, looked.catalog) for node in looked.nodes.values())
    drift = (each.since for each in drifted.values())
    instants = chain(waits, outcome.changes, ends, ages, nodes, drift, looked.relocations.changes)
    return min((instant for instant in instants if instant is not None and instant > now), default=None)


def _changes(candidate: Candidate, catalog: InstanceTypeCatalog | None) -> Iterator[datetime | None]:
    """Yield when the passing of time changes what holds for a node."""
    if candidate.pool is not None:
        yield quiet_until(candidate.node, candidate.pool)
    for blocker in candidate.blockers:
        yield blocker.until
    if candidate.node.claim is not None:
        yield types_checked_at(candidate.node.claim, catalog)
