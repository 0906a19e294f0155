"""Selection of the members of the current stage that start now.

A pass works in rounds. In each round, every group with a free slot offers one member, and offers start in the order of
their tiers while the stage has slots. Groups thus share a stage evenly, and members with an open window come first
across groups.

Each member is checked once per pass, because its checks do not change during the pass. The exception is the placement
guard, which depends on the members started before it.

Source: docs/specifications/upgrade-runs.md 6.6, 7.2 and 7.3.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Final

from scorer.api.upgrade.fields import UpgradeState
from scorer.upgrade.back_ends.interface import Operation
from scorer.upgrade.evaluation.checks import Checks, StartOutcome, StartVerdict
from scorer.upgrade.evaluation.context import Evaluation
from scorer.upgrade.evaluation.halting import check_thresholds
from scorer.upgrade.evaluation.member_transitions import fail_member, mark_waiting, skip_member
from scorer.upgrade.evaluation.window_policy import closing_time, is_reserved
from scorer.upgrade.members.order import UpgradeSlot
from scorer.upgrade.messages import shortened
from scorer.upgrade.state.record import OVER, GroupWork, StageWork
from scorer.upgrade.state.step import StartUpgrade
from scorer.upgrade.versions.comparison import LONGEST_VERSION


@dataclass(frozen=True, slots=True)
class _Offer:
    """A member that may start."""

    group: GroupWork
    index: int
    tier: int
    verdict: StartVerdict


class _Queue:
    """Candidates of a group that have not been checked yet, in order."""

    __slots__ = ("_candidates", "group")

    def __init__(self, ev: Evaluation, group: GroupWork) -> None:
        self.group = group
        line_up = group.roster.line_up(ev.facts.members)
        self._candidates = line_up.candidates(group.members, partial(_turn, ev))

    def next_offer(self, ev: Evaluation, checks: Checks) -> _Offer | None:
        """Return the first candidate that may start, or None. The outcomes of those before it are recorded."""
        for (tier, _), index in self._candidates:
            verdict = checks.verdict(self.group.members[index])
            if verdict.outcome is StartOutcome.GO:
                return _Offer(self.group, index, tier, verdict)
            _WRITE[verdict.outcome](ev, self.group, index, verdict)
            if ev.record.is_halted:
                return None
        return None


def _turn(ev: Evaluation, name: str) -> UpgradeSlot:
    member = ev.facts.members[name]
    tier = ev.tiers.tier(member)
    return tier, closing_time(ev, member, tier)


def schedule(ev: Evaluation, stage: StageWork) -> None:
    """Start the members of the current stage that can start."""
    if stage.running >= stage.status.max_concurrency:
        return
    checks = Checks(ev, ev.record.status.resolved)
    queues: dict[str, _Queue] = {}
    while stage.running < stage.status.max_concurrency:
        offers = _round(ev, stage, queues, checks)
        if ev.record.is_halted or not offers:
            return
        for offer in offers:
            if stage.running < stage.status.max_concurrency:
                _start_unless_held(ev, stage, offer, checks)


def _round(ev: Evaluation, stage: StageWork, queues: dict[str, _Queue], checks: Checks) -> list[_Offer]:
    """Return one offer of each group with a free slot, sorted by tier. Empty if a check has halted the run."""
    offers = []
    for group in stage.groups:
        if not _is_open(group) or group.running >= group.status.max_concurrency:
            continue
        queue = queues.get(group.name) or queues.setdefault(group.name, _Queue(ev, group))
        offer = queue.next_offer(ev, checks)
        if ev.record.is_halted:
            return []
        if offer is not None:
            offers.append(offer)
    return sorted(offers, key=lambda offer: offer.tier)


def _is_open(group: GroupWork) -> bool:
    return group.state not in OVER and not group.is_skipped_by_user and group.before.done


def _start_unless_held(ev: Evaluation, stage: StageWork, offer: _Offer, checks: Checks) -> None:
    """Start a member, unless a placement guard forbids it by now, or the slot is reserved for another member."""
    entry, verdict = offer.group.members[offer.index], offer.verdict
    if is_reserved(ev, stage, offer.group, ev.facts.members[entry.name]):
        return
    if ev.facts.guarded:
        verdict = checks.verdict(entry)
    if verdict.outcome is StartOutcome.GO:
        start_member(ev, offer.group, offer.index, verdict)
    else:
        _WRITE[verdict.outcome](ev, offer.group, offer.index, verdict)


def start_member(ev: Evaluation, group: GroupWork, index: int, verdict: StartVerdict) -> None:
    """Record a new attempt and request its start. A retry after a retryable refusal reuses the attempt number."""
    entry = group.members[index]
    member = ev.facts.members[entry.name]
    is_retry = entry.attempt > 0 and not entry.operation_id
    attempt = entry.attempt if is_retry else entry.attempt + 1
    seconds = ev.spec.timeouts.member_upgrade_seconds
    operation = Operation(
        id=f"{ev.run.metadata.uid}/{entry.name}/{attempt}",
        run=ev.run.metadata.name,
        member=entry.name,
        upgrader=member.upgrader,
        attempt=attempt,
        target=verdict.target,
        deadline=ev.now + timedelta(seconds=seconds) if seconds else None,
    )
    group.update_member(
        index,
        state=UpgradeState.RUNNING,
        reason="",
        message="",
        attempt=attempt,
        operation_id=operation.id,
        upgrader=operation.upgrader,
        start_time=ev.now,
        completion_time=None,
        pending_since=None,
        next_window_open=None,
        from_version=shortened(member.inventory.version, LONGEST_VERSION) if member.inventory is not None else "",
        to_version=verdict.target.kubernetes_version,
        error=None,
    )
    ev.upgrading.add(entry.name)
    ev.actions.append(StartUpgrade(operation))
    ev.announce("MemberUpgradeStarted", f"the upgrade of member {entry.name} started (attempt {attempt})")


def _skip(ev: Evaluation, group: GroupWork, index: int, verdict: StartVerdict) -> None:
    skip_member(ev, group, index, verdict.reason, verdict.message)


def _fail(ev: Evaluation, group: GroupWork, index: int, verdict: StartVerdict) -> None:
    fail_member(ev, group, index, verdict.reason, verdict.message)
    check_thresholds(ev)


def _wait(ev: Evaluation, group: GroupWork, index: int, verdict: StartVerdict) -> None:
    mark_waiting(ev, group, index, verdict.reason, verdict.message, verdict.opens)


_WRITE: Final[dict[StartOutcome, Callable[[Evaluation, GroupWork, int, StartVerdict], None]]] = {
    StartOutcome.SKIP: _skip,
    StartOutcome.FAIL: _fail,
    StartOutcome.WAIT: _wait,
}
