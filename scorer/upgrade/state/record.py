"""The record of a run: the mutable copy that an evaluation changes, and the status as stored.

A status is frozen. An `UpgradeRecord` is a mutable view of it, which copies only what changes. The members of a group,
which may be many, are in a `Roster`.

Source: docs/specifications/upgrade-runs.md 3.4 and 8.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar

from scorer.api.meta import ApiModel, JsonObject
from scorer.api.upgrade.fields import UpgradeState
from scorer.api.upgrade.plan import UpgradePlan
from scorer.api.upgrade.run import (
    GateReport,
    GroupStatus,
    MemberCounts,
    MemberStatus,
    StageStatus,
    UpgradeRunStatus,
    WaitStatus,
)
from scorer.upgrade.members.rosters import Roster, Rosters

OVER: Final = frozenset({UpgradeState.COMPLETED, UpgradeState.SKIPPED})
"""Terminal states."""
FINISHED: Final = OVER | {UpgradeState.FAILED}
"""States of a member after its turn."""
HALTED: Final = frozenset({UpgradeState.STOPPING, UpgradeState.STOPPED, UpgradeState.FAILED})
"""States of a run that starts no more upgrades."""
STOPPED: Final = HALTED - {UpgradeState.STOPPING}
"""States of a run that can be restarted."""
_ENDED: Final = FINISHED | {UpgradeState.STOPPED}

SKIPPED_BY_USER: Final = "SkippedByUser"

_Model = TypeVar("_Model", bound=ApiModel)


class Gates:
    """The gates in one position: before or after a stage or group."""

    __slots__ = ("reports",)

    def __init__(self, reports: tuple[GateReport, ...]) -> None:
        self.reports = reports

    @property
    def done(self) -> bool:
        """Whether no gate blocks the run any longer."""
        return all(gate.state in OVER for gate in self.reports)

    @property
    def pending(self) -> bool:
        """Whether any gate has been reached and is unfinished."""
        return any(gate.state is UpgradeState.PENDING for gate in self.reports)

    def update(self, index: int, **changes: Any) -> None:
        """Change fields of one gate."""
        changed = self.reports[index].model_copy(update=changes)
        self.reports = (*self.reports[:index], changed, *self.reports[index + 1 :])

    def skip(self, now: datetime) -> None:
        """Skip the unfinished gates."""
        for index, gate in enumerate(self.reports):
            if gate.state not in OVER:
                self.update(index, state=UpgradeState.SKIPPED, completion_time=now)


class GroupWork:
    """A group during an evaluation."""

    __slots__ = ("after", "before", "roster", "status")

    def __init__(self, status: GroupStatus, roster: Roster) -> None:
        self.status = status
        self.roster = roster
        self.before = Gates(status.before_gates)
        self.after = Gates(status.after_gates)

    @property
    def name(self) -> str:
        """Name of the group."""
        return self.status.name

    @property
    def state(self) -> UpgradeState:
        """State of the group."""
        return self.status.state

    @property
    def members(self) -> Sequence[MemberStatus]:
        """Members as changed so far."""
        return self.roster.entries

    @property
    def counts(self) -> Counter[UpgradeState]:
        """Number of members per state."""
        return self.roster.counts

    @property
    def is_skipped_by_user(self) -> bool:
        """Whether the user has skipped the group or its stage."""
        return self.status.reason == SKIPPED_BY_USER

    @property
    def running(self) -> int:
        """Number of members in upgrade."""
        return self.counts[UpgradeState.RUNNING]

    @property
    def failed(self) -> int:
        """Number of failed members."""
        return self.counts[UpgradeState.FAILED]

    @property
    def is_finished(self) -> bool:
        """Whether every member has had its turn."""
        return sum(self.counts[state] for state in FINISHED) == len(self.members)

    @property
    def is_all_skipped(self) -> bool:
        """Whether every member is skipped. True for an empty group."""
        return self.counts[UpgradeState.SKIPPED] == len(self.members)

    @property
    def is_exceeded(self) -> bool:
        """Whether more members have failed than the group allows."""
        return self.failed > self.status.max_allowed_failures

    def update(self, **changes: Any) -> None:
        """Change fields of the group itself."""
        self.status = _copy_with(self.status, changes)

    def set_state(self, state: UpgradeState, now: datetime) -> None:
        """Change its state."""
        self.update(**_state_changes(self.status, state, now))

    def update_member(self, index: int, **changes: Any) -> None:
        """Change fields of one member."""
        self.roster.update(index, _copy_with(self.roster.entries[index], changes))

    def result(self) -> GroupStatus:
        """Return its current status."""
        changes = {
            "members": self.roster.result(),
            "before_gates": self.before.reports,
            "after_gates": self.after.reports,
            "failure_count": self.failed,
        }
        return _copy_with(self.status, changes)


class StageWork:
    """A stage during an evaluation."""

    __slots__ = ("after", "before", "groups", "status", "wait")

    def __init__(self, status: StageStatus, rosters: Rosters) -> None:
        self.status = status
        self.groups = [GroupWork(group, rosters.of(status.name, group)) for group in status.groups]
        self.before = Gates(status.before_gates)
        self.after = Gates(status.after_gates)
        self.wait = status.after_stage_wait or WaitStatus(state=UpgradeState.NOT_STARTED)

    @property
    def name(self) -> str:
        """Name of the stage."""
        return self.status.name

    @property
    def state(self) -> UpgradeState:
        """State of the stage."""
        return self.status.state

    @property
    def is_skipped_by_user(self) -> bool:
        """Whether the user has skipped the stage."""
        return self.status.reason == SKIPPED_BY_USER

    @property
    def running(self) -> int:
        """Number of members in upgrade."""
        return sum(group.running for group in self.groups)

    @property
    def failed(self) -> int:
        """Number of failed members."""
        return sum(group.failed for group in self.groups)

    @property
    def is_exceeded(self) -> bool:
        """Whether more members have failed than the stage or one of its groups allows."""
        return self.failed > self.status.max_allowed_failures or any(group.is_exceeded for group in self.groups)

    def update(self, **changes: Any) -> None:
        """Change fields of the stage itself."""
        self.status = _copy_with(self.status, changes)

    def set_state(self, state: UpgradeState, now: datetime) -> None:
        """Change its state."""
        self.update(**_state_changes(self.status, state, now))

    def update_wait(self, **changes: Any) -> None:
        """Change fields of the wait after the stage."""
        self.wait = _copy_with(self.wait, changes)

    def result(self) -> StageStatus:
        """Return its current status."""
        groups = tuple(group.result() for group in self.groups)
        if all(new is old for new, old in zip(groups, self.status.groups, strict=True)):
            groups = self.status.groups
        changes = {
            "groups": groups,
            "before_gates": self.before.reports,
            "after_gates": self.after.reports,
            "after_stage_wait": self.wait,
            "failure_count": self.failed,
        }
        return _copy_with(self.status, changes)


class UpgradeRecord:
    """The status of a run during an evaluation."""

    __slots__ = ("stages", "status")

    def __init__(self, status: UpgradeRunStatus, rosters: Rosters) -> None:
        self.status = status
        self.stages = [StageWork(stage, rosters) for stage in status.stages]

    @property
    def state(self) -> UpgradeState:
        """The state of the run."""
        return self.status.state

    @property
    def is_started(self) -> bool:
        """Whether the run has been started."""
        return self.status.start_time is not None

    @property
    def is_halted(self) -> bool:
        """Whether the run is unfinished, but starts no more upgrades."""
        return self.state in HALTED

    @property
    def current(self) -> StageWork | None:
        """The first unfinished stage, or None."""
        return next((stage for stage in self.stages if stage.state not in OVER), None)

    def update(self, **changes: Any) -> None:
        """Change fields of the run itself."""
        self.status = _copy_with(self.status, changes)

    def set_state(self, state: UpgradeState, now: datetime) -> None:
        """Change the state of the run."""
        if state is not self.state:
            self.update(state=state, completion_time=now if state in _ENDED else None)

    def entries(self) -> Iterator[tuple[GroupWork, int, MemberStatus]]:
        """Yield every member with its group and index."""
        for stage in self.stages:
            for group in stage.groups:
                for index, member in enumerate(group.members):
                    yield group, index, member

    def running(self) -> Iterator[tuple[GroupWork, int, MemberStatus]]:
        """Yield the members in upgrade with group and index."""
        for stage in self.stages:
            for group in stage.groups:
                for index in sorted(group.roster.at_work):
                    yield group, index, group.members[index]

    def abandoned_operations(self) -> Iterator[tuple[GroupWork, int, MemberStatus]]:
        """Yield the members whose abandoned operations may still be in progress, with group and index."""
        for stage in self.stages:
            for group in stage.groups:
                for index in sorted(group.roster.given_up):
                    yield group, index, group.members[index]

    def result(self) -> UpgradeRunStatus:
        """Return the current status."""
        stages = tuple(stage.result() for stage in self.stages)
        if len(stages) == len(self.status.stages) and all(
            new is old for new, old in zip(stages, self.status.stages, strict=True)
        ):
            stages = self.status.stages
        failed = sum(stage.failed for stage in self.stages)
        return _copy_with(self.status, {"stages": stages, "counts": self._counts(), "failure_count": failed})

    def _counts(self) -> MemberCounts:
        total: Counter[UpgradeState] = Counter()
        for stage in self.stages:
            for group in stage.groups:
                total.update(group.counts)
        counts = MemberCounts(
            total=total.total(),
            completed=total[UpgradeState.COMPLETED],
            skipped=total[UpgradeState.SKIPPED],
            failed=total[UpgradeState.FAILED],
            running=total[UpgradeState.RUNNING],
            pending=total[UpgradeState.PENDING],
            not_started=total[UpgradeState.NOT_STARTED],
            stopped=total[UpgradeState.STOPPED],
        )
        return self.status.counts if counts == self.status.counts else counts


def _copy_with(model: _Model, changes: dict[str, Any]) -> _Model:
    """Return a copy of a model with changes, or the model itself if nothing differs."""
    different = {
        name: value
        for name, value in changes.items()
        if (current := getattr(model, name)) is not value and (type(value) is tuple or current != value)
    }
    return model.model_copy(update=different) if different else model


def _state_changes(status: GroupStatus | StageStatus, state: UpgradeState, now: datetime) -> dict[str, Any]:
    if state is status.state:
        return {}
    start = status.start_time or (None if state in (UpgradeState.NOT_STARTED, UpgradeState.SKIPPED) else now)
    return {"state": state, "start_time": start, "completion_time": now if state in _ENDED else None}


def status_document(status: UpgradeRunStatus) -> JsonObject:
    """Return a status for the API server.

    Empty fields of members are omitted: one object may contain a thousand members.
    """
    document = status.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"plan"})
    if status.plan is not None:
        document["plan"] = plan_document(status.plan)
    for stage in document["stages"]:
        for group in stage["groups"]:
            group["members"] = [_short(member) for member in group["members"]]
    return document


def _short(member: JsonObject) -> JsonObject:
    return {key: value for key, value in member.items() if value not in ("", 0)}


def plan_document(plan: UpgradePlan) -> JsonObject:
    """Return a plan as JSON for the API server and other readers."""
    document = plan.model_dump(mode="json", by_alias=True, exclude_none=True)
    document["members"] = [_short(member) for member in document["members"]]
    return document
