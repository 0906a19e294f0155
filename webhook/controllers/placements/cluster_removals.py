"""Removal of clusters from placements: a decision is judged before its dropped bindings are written.

Source: docs/specifications/removal.md 7.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from scorer.api.conditions import TRUE
from scorer.api.event import Event
from scorer.api.family import Family
from scorer.api.kinds import MEMBER_CLUSTER
from scorer.api.meta import JsonObject, format_time, read_instant
from scorer.api.names import CARRIED_OUT, PREVIOUS_BINDING_STATE, REMOVAL_PENDING, REPLACEMENT, UNSCHEDULED_AT
from scorer.api.placement.binding import BindingState
from scorer.api.placement.placement import StrategyType
from scorer.api.unstructured.documents import (
    annotation,
    current_condition,
    is_deleting,
    name_of,
    text_at,
    uid_of,
    with_metadata,
)
from scorer.placement.schedule import ScheduleResult
from scorer.rollout.bindings import AVAILABLE, PendingRemoval, pending_reason
from scorer.rollout.confirmation.clusters import (
    ClusterFacts,
    ClusterJudgement,
    DroppedCluster,
    cluster_item,
    clusters_held,
    judge_clusters,
    with_clusters_held,
)
from scorer.rollout.confirmation.digests import CarriedOut, Confirmation
from scorer.rollout.confirmation.policy import RemovalPolicy
from scorer.rollout.confirmation.report import warning_event
from scorer.rollout.removal.deletion import is_member
from webhook.kube.cache.hub import Hub
from webhook.kube.listers.placements import children


@dataclass(frozen=True, slots=True)
class JudgedDecision:
    """The verdict on the clusters that a decision drops.

    Args:
        marks: Annotations of bindings that are dropped now, by name.
        replacing: Value of the annotation that marks new bindings as replacements. Empty: they replace nothing.
        changed: Bindings dropped before, as they are to be written.
        snapshot: The policy snapshot with its record. None: unset, it is unchanged.
        warned: Clusters that the placement leaves with a warning.
    """

    marks: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    replacing: str = ""
    changed: tuple[JsonObject, ...] = ()
    snapshot: JsonObject | None = None
    warned: tuple[str, ...] = ()


class ClusterRemovals:
    """Judges the clusters that placements leave.

    Args:
        hub: The hub cluster.
        now: The clock.
        record: Records Events.
        policy: Removal policy of the operator.
    """

    def __init__(
        self,
        hub: Hub,
        now: Callable[[], datetime],
        record: Callable[[JsonObject, Event], None],
        policy: RemovalPolicy,
    ) -> None:
        self._hub = hub
        self._now = now
        self._record = record
        self._policy = policy

    def judge(
        self,
        family: Family,
        placement: JsonObject,
        snapshot: JsonObject,
        run: ScheduleResult,
        documents: Iterable[JsonObject],
    ) -> JudgedDecision:
        """Return the verdict on a decision.

        Args:
            family: Family of the placement.
            placement: The placement.
            snapshot: Latest policy snapshot of the placement.
            run: The decision.
            documents: Stored and lost bindings of the placement.
        """
        by_name = {name_of(document): document for document in documents}
        picked = {pick.cluster for pick in run.picked}
        pending = [
            document
            for document in by_name.values()
            if pending_reason(document) and not is_deleting(document) and _cluster(document) not in picked
        ]
        if self._policy.of(placement).is_off:
            return JudgedDecision(changed=tuple(self._ordered(document) for document in pending))
        dangling = {binding.name for binding in run.holdings.dangling}
        dropped = [
            by_name[binding.name]
            for binding in run.dropped
            if binding.state is BindingState.BOUND and binding.name not in dangling
        ]
        waiting = [document for document in pending if self._is_member(document)]
        left_fleet = [document for document in pending if not self._is_member(document)]
        facts = self._facts(family, placement, run, by_name, dropped, waiting)
        judgement = judge_clusters(facts)
        by_verdict = [self._judged(document, judgement, facts) for document in waiting]
        changed = [after for before, after in zip(waiting, by_verdict, strict=True) if after is not before]
        snapshots = children(self._hub.cache, family.policy_snapshot, family.ref(placement))
        return JudgedDecision(
            {name_of(binding): self._mark(binding, judgement, facts) for binding in dropped},
            format_time(facts.now) if dropped or waiting else "",
            (*changed, *map(self._ordered, left_fleet)),
            with_clusters_held(snapshot, snapshots, judgement, facts),
            tuple(
                sorted(_cluster(binding) for binding in (*dropped, *waiting) if name_of(binding) in judgement.warned)
            ),
        )

    def _facts(
        self,
        family: Family,
        placement: JsonObject,
        run: ScheduleResult,
        by_name: Mapping[str, JsonObject],
        dropped: Sequence[JsonObject],
        waiting: Sequence[JsonObject],
    ) -> ClusterFacts:
        now, policy = self._now(), self._policy.of(placement)
        new = {pick.cluster for pick in run.picked if pick.cluster not in run.holdings.by_cluster}
        names = [binding.name for binding in run.kept]
        names += [run.holdings.by_cluster[pick.cluster].name for pick in run.picked if pick.cluster not in new]
        documents = [by_name[name] for name in names if name in by_name]
        records = [record for binding in waiting if (record := PendingRemoval.of(binding))]
        earliest = min([now.replace(microsecond=0), *(record.since for record in records if record.since)])
        replacing = [binding for binding in documents if _is_replacement(binding, earliest)]
        replacements = {_cluster(binding): _is_available(binding) for binding in replacing} | dict.fromkeys(new, False)
        snapshots = children(self._hub.cache, family.policy_snapshot, family.ref(placement))
        return ClusterFacts(
            policy,
            uid_of(placement),
            tuple(DroppedCluster(binding, PendingRemoval.of(binding)) for binding in (*dropped, *waiting)),
            frozenset(map(_cluster, documents)) - replacements.keys(),
            replacements,
            clusters_held(snapshots, now, policy.window),
            Confirmation.of(placement, now),
            now,
            text_at(placement, "spec", "strategy", "type") == StrategyType.EXTERNAL,
        )

    def _judged(self, document: JsonObject, judgement: ClusterJudgement, facts: ClusterFacts) -> JsonObject:
        """Return a waiting binding as it is to be written. If unchanged, it is *document* itself."""
        mark = self._mark(document, judgement, facts)
        if REMOVAL_PENDING not in mark:
            return with_metadata(self._ordered(document), annotations=mark)
        text = mark[REMOVAL_PENDING]
        return document if annotation(document, REMOVAL_PENDING) == text else with_metadata(document, annotations=mark)

    def _mark(self, document: JsonObject, judgement: ClusterJudgement, facts: ClusterFacts) -> dict[str, str]:
        """Return the annotations of a dropped binding: pending, confirmed, or none."""
        name, expiry = name_of(document), facts.confirmation.expiry
        if (pending := judgement.pending.get(name)) is not None:
            return {REMOVAL_PENDING: pending.format()}
        if name not in judgement.confirmed or expiry is None:
            return {}
        digest = cluster_item(document).digest(facts.placement_uid)
        return {CARRIED_OUT: CarriedOut.of(document).without_expired(facts.now).with_digests([digest], expiry).format()}

    def _ordered(self, document: JsonObject) -> JsonObject:
        order = {PREVIOUS_BINDING_STATE: str(BindingState.BOUND), UNSCHEDULED_AT: format_time(self._now())}
        return with_metadata(document, annotations={**order, REMOVAL_PENDING: None})

    def _is_member(self, document: JsonObject) -> bool:
        return is_member(self._hub.cache.get(MEMBER_CLUSTER, _cluster(document)))

    async def order(
        self, family: Family, placement: JsonObject, snapshot: JsonObject, judged: JudgedDecision
    ) -> JsonObject:
        """Record that a placement leaves clusters, before the bindings are written. Return the policy snapshot."""
        if judged.warned:
            self._record(placement, warning_event((), judged.warned))
        if judged.snapshot is None:
            return snapshot
        return await self._hub.replace(family.policy_snapshot, judged.snapshot)


def _cluster(document: JsonObject) -> str:
    return text_at(document, "spec", "targetCluster")


def _is_available(binding: JsonObject) -> bool:
    return (current_condition(binding, AVAILABLE) or {}).get("status") == TRUE


def _is_replacement(binding: JsonObject, earliest: datetime) -> bool:
    """Return whether a binding was created in place of clusters that were dropped at *earliest* or later."""
    since = read_instant(annotation(binding, REPLACEMENT))
    return since is not None and since >= earliest


def seen_of_replacement(binding: JsonObject) -> tuple[bool, str]:
    """Return whether a binding is an available replacement, and its annotation about a pending removal."""
    is_replacement = bool(annotation(binding, REPLACEMENT))
    return is_replacement and _is_available(binding), annotation(binding, REMOVAL_PENDING)
