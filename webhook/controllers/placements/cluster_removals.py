"""Removal of clusters from placements: a decision is judged before its dropped bindings are written.

Source: docs/specifications/removal.md 7.
"""

from collections.abc import Callable, Iterable
from datetime import datetime

from scorer.api.event import Event
from scorer.api.family import Family
from scorer.api.kinds import MEMBER_CLUSTER
from scorer.api.meta import JsonObject
from scorer.placement.schedule import ScheduleResult
from scorer.rollout.confirmation.dropped_bindings import ClusterChanges, DropFacts, DropJudgement, judge_drops
from scorer.rollout.confirmation.policy import RemovalPolicy
from scorer.rollout.confirmation.report import warning_event
from scorer.rollout.removal.deletion import is_member
from webhook.kube.cache.hub import Hub
from webhook.kube.listers.placements import children


class ClusterRemovals:
    """Evaluates the clusters that placements leave.

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
    ) -> DropJudgement:
        """Return the verdict on the clusters that a decision removes from a placement.

        Args:
            family: Family of the placement.
            placement: The placement.
            snapshot: Latest policy snapshot of the placement.
            run: The decision.
            documents: Stored and lost bindings of the placement.
        """
        snapshots = children(self._hub.cache, family.policy_snapshot, family.ref(placement))
        facts = DropFacts(placement, self._policy, snapshot, snapshots, self._is_member, self._now())
        changes = ClusterChanges(run.picked_clusters, run.new_clusters, run.held_bindings, run.dropped_with_content)
        return judge_drops(facts, changes, documents)

    def _is_member(self, cluster: str) -> bool:
        return is_member(self._hub.cache.get(MEMBER_CLUSTER, cluster))

    async def order(
        self, family: Family, placement: JsonObject, snapshot: JsonObject, judged: DropJudgement
    ) -> JsonObject:
        """Record that a placement leaves clusters, before their bindings are written. Return the policy snapshot.

        Raises:
            ConflictError: Another client has written the policy snapshot since it was read.
        """
        if judged.warned:
            self._record(placement, warning_event((), judged.warned))
        if judged.snapshot is None:
            return snapshot
        return await self._hub.replace(family.policy_snapshot, judged.snapshot)
