"""Expected duration of each member's upgrade.

The best available source wins: its own past upgrades, those of similar clusters, its annotation, or a rule of thumb.

Source: docs/specifications/upgrade-runs.md 14.2.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Final

from scorer.api.upgrade.fields import UpgradeState, UpgradeType
from scorer.api.upgrade.run import ClusterUpgradeRun
from scorer.upgrade.members.member import Member
from scorer.upgrade.state.facts import Estimate
from scorer.upgrade.versions.images import pools_of

NEWEST_WEIGHT: Final = 0.4
"""Weight of a member's latest upgrade in its moving average."""
CONTROL_PLANE: Final = timedelta(minutes=10)
"""Duration of a control plane upgrade by the rule of thumb."""
BEFORE_NODES: Final = timedelta(minutes=15)
"""Lead time before the first node."""
PER_NODE: Final = timedelta(minutes=4)
"""Time per node by the rule of thumb, one node after the other."""
SPREAD: Final = 1.5
"""P90 as a multiple of P50 for small samples."""
ENOUGH: Final = 10
"""Minimum number of samples for an estimate by their own 90th percentile."""
MOST_NODES: Final = 100_000
"""Upper bound for the nodes of one pool. A larger report is capped."""
MOST_KEPT: Final = 50
"""Maximum number of upgrades that are kept per member, the latest ones."""
LONGEST: Final = timedelta(days=365)
"""Upper bound for an estimate, regardless of reported or assumed values."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One successful upgrade.

    Args:
        member: The cluster.
        upgrader: The back end.
        type: Parts of the cluster that changed.
        ended: Time of its end.
        took: Duration.
    """

    member: str
    upgrader: str
    type: UpgradeType
    ended: datetime
    took: timedelta


def samples_of(run: ClusterUpgradeRun) -> Iterator[Sample]:
    """Yield the successful upgrades of a run."""
    for stage in run.status.stages:
        for group in stage.groups:
            for entry in group.members:
                start, end = entry.start_time, entry.completion_time
                if entry.state is UpgradeState.COMPLETED and start is not None and end is not None and end > start:
                    yield Sample(entry.name, entry.upgrader, run.spec.upgrade.type, end, end - start)


def estimates(samples: Iterable[Sample], members: Mapping[str, Member], upgrade: UpgradeType) -> Mapping[str, Estimate]:
    """Return the expected duration for every member.

    Args:
        samples: Successful upgrades of any type.
        members: Current members, by name.
        upgrade: Planned type of upgrade.
    """
    durations = Durations(samples, members, upgrade)
    return {name: durations.of(member) for name, member in members.items()}


class _Peers:
    """Past upgrades of one back end, sorted by cluster size."""

    __slots__ = ("_nodes", "_samples", "_sums")

    def __init__(self, samples: Iterable[tuple[int, timedelta]]) -> None:
        sorted_samples = sorted(samples)
        self._nodes = [nodes for nodes, _ in sorted_samples]
        self._samples = [took.total_seconds() for _, took in sorted_samples]
        self._sums = [0.0, *accumulate(self._samples)]

    def estimate(self, nodes: int) -> Estimate | None:
        """Return an estimate from the clusters with half to twice as many nodes, or None without such clusters."""
        first, last = bisect_left(self._nodes, -(-nodes // 2)), bisect_right(self._nodes, nodes * 2)
        if first == last:
            return None
        return _estimate((self._sums[last] - self._sums[first]) / (last - first), self._samples[first:last])


class Durations:
    """Expected durations for one type of upgrade."""

    def __init__(self, samples: Iterable[Sample], members: Mapping[str, Member], upgrade: UpgradeType) -> None:
        """Group the samples.

        Args:
            samples: Successful upgrades of any type.
            members: Current members, by name.
            upgrade: Planned type of upgrade.
        """
        self._type = upgrade
        self._own: dict[str, list[Sample]] = {}
        by_upgrader: dict[str, list[tuple[int, timedelta]]] = {}
        for sample in samples:
            if sample.type is not upgrade:
                continue
            self._own.setdefault(sample.member, []).append(sample)
            if (member := members.get(sample.member)) is not None:
                by_upgrader.setdefault(sample.upgrader, []).append((_nodes(member), sample.took))
        self._peers = {upgrader: _Peers(upgrader_samples) for upgrader, upgrader_samples in by_upgrader.items()}

    def of(self, member: Member) -> Estimate:
        """Return the expected duration for a member."""
        if (own := self._own.get(member.name)) is not None:
            latest = sorted(own, key=lambda sample: sample.ended)[-MOST_KEPT:]
            return _weigh([sample.took.total_seconds() for sample in latest])
        peers = self._peers.get(member.upgrader)
        if peers is not None and (estimate := peers.estimate(_nodes(member))) is not None:
            return estimate
        return _estimate((member.expected or self._by_rule(member)).total_seconds(), ())

    def _by_rule(self, member: Member) -> timedelta:
        if self._type is UpgradeType.CONTROL_PLANE_ONLY:
            return CONTROL_PLANE
        return BEFORE_NODES + PER_NODE * min(_nodes(member), LONGEST // PER_NODE)


def _weigh(seconds: Sequence[float]) -> Estimate:
    mean = seconds[0]
    for duration in seconds[1:]:
        mean += NEWEST_WEIGHT * (duration - mean)
    return _estimate(mean, seconds)


def _estimate(mean: float, seconds: Sequence[float]) -> Estimate:
    """Return an estimate in whole seconds. P90 is never below P50."""
    many = len(seconds) >= ENOUGH
    long = sorted(seconds)[-(-len(seconds) * 9 // 10) - 1] if many else mean * SPREAD
    middle = in_whole_seconds(mean)
    return Estimate(middle, max(middle, in_whole_seconds(long)))


def in_whole_seconds(seconds: float) -> timedelta:
    """Round a duration to whole seconds, at least one second and at most `LONGEST`."""
    return timedelta(seconds=max(1, int(min(seconds, LONGEST.total_seconds()) + 0.5)))


def _nodes(member: Member) -> int:
    """Return the number of a member's nodes, with each pool clamped to plausible values."""
    return sum(min(max(pool.nodes, 0), MOST_NODES) for pool in pools_of(member))
