"""Judgment of dropped clusters: which of them lose their content now, and what the others wait for.

The judgment is net: a cluster that was picked in place of a dropped one reduces the loss. If the loss is acceptable
only because of replacements that are not available yet, one removal waits for each of them.

Source: docs/specifications/removal.md 2, 3 and 7.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from scorer.api.kinds import group_kind
from scorer.api.meta import JsonObject
from scorer.api.names import CLUSTERS_HELD
from scorer.api.unstructured.documents import (
    annotation,
    name_of,
    namespace_of,
    spec_of,
    uid_of,
    with_metadata,
)
from scorer.rollout.bindings import PendingReason, PendingRemoval
from scorer.rollout.confirmation.digests import (
    CarriedOut,
    Confirmation,
    RemovalEffect,
    RemovalItem,
    confirmable_groups,
)
from scorer.rollout.confirmation.objects import MANY, is_large_share
from scorer.rollout.confirmation.policy import ConfirmationMode, RemovalPolicy, strictest
from scorer.rollout.confirmation.sources import MOST_GROUPS
from scorer.rollout.snapshots.clusters_held import DIGEST_PART, ClustersHeld

_UNKNOWN = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class DroppedCluster:
    """A dropped cluster that still has content of the placement.

    Args:
        binding: Its binding.
        pending: Record of the binding if the removal waits already. None if it was dropped now.
    """

    binding: JsonObject
    pending: PendingRemoval | None = None

    @property
    def cluster(self) -> str:
        """Name of the cluster."""
        return str(spec_of(self.binding).get("targetCluster") or "")

    @property
    def item(self) -> RemovalItem:
        """The item to confirm."""
        return cluster_item(self.binding)


def cluster_item(binding: JsonObject) -> RemovalItem:
    """Return the item for the cluster of a binding."""
    group, kind = group_kind(binding)
    identity = group, kind, namespace_of(binding), name_of(binding)
    cluster = str(spec_of(binding).get("targetCluster") or "")
    pending = PendingRemoval.of(binding)
    return RemovalItem(
        RemovalEffect.CLUSTER, identity, uid_of(binding), cluster, since=pending.since if pending else None
    )


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """Inputs of the judgment: a decision about clusters, and the history of the window.

    Args:
        policy: Removal policy of the placement.
        placement_uid: Uid of the placement.
        dropped: Dropped clusters with content whose removal has not been ordered.
        remaining: Clusters that the placement keeps, without replacements.
        replacements: Clusters that were picked in place of the dropped ones. True: available.
        largest: Largest number of clusters that the placement has had within the window.
        confirmation: The valid confirmation, empty without one.
        now: The current time.
        external: The strategy is External: unconfirmed removals wait for an update run, or for another strategy.
    """

    policy: RemovalPolicy
    placement_uid: str
    dropped: tuple[DroppedCluster, ...]
    remaining: frozenset[str] = frozenset()
    replacements: Mapping[str, bool] = field(default_factory=dict)
    largest: int = 0
    confirmation: Confirmation = field(default_factory=Confirmation)
    now: datetime = _UNKNOWN
    external: bool = False


@dataclass(frozen=True, slots=True)
class ClusterJudgement:
    """Verdict on dropped clusters.

    Args:
        ordered: Names of bindings whose content is removed now.
        confirmed: Names of the ordered bindings whose removal a user has confirmed.
        pending: Records of the other bindings, by name.
        warned: Names of the ordered bindings whose content is removed with a warning.
    """

    ordered: frozenset[str]
    confirmed: frozenset[str]
    pending: Mapping[str, PendingRemoval]
    warned: frozenset[str] = frozenset()


def judge_clusters(facts: ClusterFacts) -> ClusterJudgement:
    """Return which of the dropped clusters lose their content now, and the reason why each of the others waits."""
    confirmed = {cluster.cluster for cluster in facts.dropped if _is_confirmed(cluster, facts)}
    unconfirmed_clusters = [cluster for cluster in facts.dropped if cluster.cluster not in confirmed]
    total = max(facts.largest - len(confirmed), len(facts.remaining) + len(unconfirmed_clusters))
    loss_mode = _mode(facts, unconfirmed_clusters, total, len(facts.replacements))
    present_mode = _mode(facts, unconfirmed_clusters, total, sum(facts.replacements.values()))
    pending: dict[str, PendingRemoval] = {}
    if facts.external:
        pending = _pending(unconfirmed_clusters, PendingReason.UPDATE_RUN, facts)
    elif unconfirmed_clusters and ConfirmationMode.CONFIRM in (loss_mode, present_mode):
        if loss_mode is ConfirmationMode.CONFIRM:
            pending = _pending(unconfirmed_clusters, PendingReason.CONFIRMATION, facts)
        else:
            pending = _pending(_unreplaced(unconfirmed_clusters, facts), PendingReason.REPLACEMENT, facts)
    names = {name_of(cluster.binding) for cluster in facts.dropped}
    ordered = frozenset(names - pending.keys())
    confirmed_names = frozenset(name_of(cluster.binding) for cluster in facts.dropped if cluster.cluster in confirmed)
    warned = ordered - confirmed_names if loss_mode is ConfirmationMode.WARN else frozenset[str]()
    return ClusterJudgement(ordered, confirmed_names, pending, warned)


def _mode(
    facts: ClusterFacts, clusters: Sequence[DroppedCluster], total: int, replacement_count: int
) -> ConfirmationMode:
    """Return the mode of the loss of *clusters* from *total* clusters, given the number of replacements.

    A loss that is waiting for confirmation remains a loss of many clusters until every one of them is replaced.
    Neither the end of the window nor the confirmation of other clusters changes that.
    """
    if not clusters:
        return ConfirmationMode.OFF
    running = len(facts.remaining) + replacement_count
    net = total - running
    is_asked = any(cluster.pending and cluster.pending.is_asked for cluster in clusters)
    is_many = (
        running == 0 or net > MANY or is_large_share(net, total) or (is_asked and len(clusters) > replacement_count)
    )
    modes = [facts.policy.many_clusters] if is_many else []
    return strictest([*modes, *([facts.policy.clusters] if net > 0 else [])])


def _unreplaced(clusters: Iterable[DroppedCluster], facts: ClusterFacts) -> list[DroppedCluster]:
    """Return the clusters whose removal waits for replacements: the last ones by name, one per missing replacement.

    If all of them waited, they would use up the surge of the rollout, and no further replacement could be added: with
    4 of 4 clusters replaced and a surge of 1, the first removal makes room for the second replacement.
    """
    by_name = sorted(clusters, key=lambda cluster: name_of(cluster.binding))
    missing = sum(not is_available for is_available in facts.replacements.values())
    return by_name[max(0, len(by_name) - missing) :]


def _is_confirmed(dropped: DroppedCluster, facts: ClusterFacts) -> bool:
    """Return whether a cluster is confirmed, alone or in a roll-up.

    A digest on the record of its binding is accepted again only with a later expiry.
    """
    cluster_digest = dropped.item.digest(facts.placement_uid)
    digests = {cluster_digest, *(dropped.pending.groups if dropped.pending else ())}
    record = CarriedOut.of(dropped.binding).without_expired(facts.now)
    return bool(digests & facts.confirmation.digests) and record.is_renewed(cluster_digest, facts.confirmation.expiry)


def _pending(
    dropped: Iterable[DroppedCluster], reason: PendingReason, facts: ClusterFacts
) -> dict[str, PendingRemoval]:
    dropped = list(dropped)
    rolled_up = {
        item: group.digest
        for group in confirmable_groups(facts.placement_uid, (cluster.item for cluster in dropped))
        if len(group.items) > 1
        for item in group.items
    }
    pending = {}
    for cluster in dropped:
        since = (cluster.pending.since if cluster.pending else None) or facts.now.replace(microsecond=0)
        groups = cluster.pending.groups if cluster.pending else ()
        if (digest := rolled_up.get(cluster.item, "")) and digest not in groups:
            groups = (digest, *groups)[:MOST_GROUPS]
        was_unconfirmed = reason is not PendingReason.CONFIRMATION and bool(
            cluster.pending and cluster.pending.is_asked
        )
        pending[name_of(cluster.binding)] = PendingRemoval(reason, since, groups, was_unconfirmed)
    return pending


def clusters_held(snapshots: Iterable[JsonObject], now: datetime, window: timedelta) -> int:
    """Return the largest number of clusters that a placement had when it lost some within the window. 0: it lost none.

    Clusters whose removal was confirmed since then are subtracted: they do not count against later losses.

    Args:
        snapshots: All policy snapshots of the placement.
        now: The current time.
        window: Maximum age of a loss.
    """
    return ClustersHeld.of(snapshots).since(now - window).largest


def with_clusters_held(
    snapshot: JsonObject, snapshots: Iterable[JsonObject], judgement: ClusterJudgement, facts: ClusterFacts
) -> JsonObject | None:
    """Return the latest policy snapshot with the ordered removals added to its record. None if unchanged.

    Args:
        snapshot: The latest policy snapshot.
        snapshots: All policy snapshots of the placement.
        judgement: The verdict.
        facts: Inputs of the verdict.
    """
    if not judgement.ordered:
        return None
    record, now = ClustersHeld.of(snapshots), facts.now.replace(microsecond=0)
    counts = record.counts
    if judgement.ordered - judgement.confirmed:
        counts = (*counts, (now, len(facts.remaining) + len(facts.dropped)))
    digests = (
        cluster.item.digest(facts.placement_uid)[:DIGEST_PART]
        for cluster in facts.dropped
        if name_of(cluster.binding) in judgement.confirmed
    )
    updated_record = ClustersHeld(counts, {**dict.fromkeys(digests, now), **record.confirmed})
    text = updated_record.since(facts.now - facts.policy.window).format()
    if text == annotation(snapshot, CLUSTERS_HELD):
        return None
    return with_metadata(snapshot, annotations={CLUSTERS_HELD: text or None})
