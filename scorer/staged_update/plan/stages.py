"""Clusters of each stage, their order, and the concurrency of the stage.

Source: docs/specifications/staged-updates.md 3; KubeFleet pkg/controllers/updaterun/initialization.go. Unlike there,
clusters are processed by name, so that the reported error is deterministic.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from scorer.api.placement.staged_update import StageConfig, StageTask, StageTaskType, UpdateStrategySpec
from scorer.api.values.duration import parse_wait_time
from scorer.api.values.int_or_percent import scaled_down
from scorer.api.values.label_selector import holds_for, selector_error
from scorer.api.values.quoting import format_count
from scorer.staged_update.outcome import RunFailedError, RunFailureCause

MOST_NAMED: Final = 10
"""Maximum number of clusters that a message names."""
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,40}", re.ASCII)

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PlannedStage:
    """One stage with its clusters.

    Args:
        stage: The stage in the strategy.
        clusters: Cluster names, in the order of their start.
        max_concurrency: Maximum number of clusters in flight.
    """

    stage: StageConfig
    clusters: tuple[str, ...]
    max_concurrency: int

    @property
    def name(self) -> str:
        """Name of the stage."""
        return self.stage.name


def compute_stages(
    strategy: UpdateStrategySpec, members: Mapping[str, Labels], selected: Collection[str]
) -> tuple[PlannedStage, ...]:
    """Assign the selected clusters to stages.

    Args:
        strategy: The stages.
        members: Labels of every MemberCluster, by name.
        selected: Clusters that the run updates. One without a MemberCluster belongs to no stage.

    Raises:
        RunFailedError: The tasks, the selector or ``maxConcurrency`` of a stage are invalid, a cluster is in several
            stages or in none, or its sorting label is not an integer. Stages are checked in order, so the first error
            is reported.
    """
    candidates = sorted(name for name in selected if name in members)
    assigned: set[str] = set()
    stages = []
    for stage in strategy.stages:
        check_tasks(stage)
        matches = _matcher(stage)
        clusters = [name for name in candidates if matches(members[name])]
        if duplicates := [name for name in clusters if name in assigned]:
            message = (
                f"stage {stage.name} selects clusters that an earlier stage selects too: {_join_names(duplicates)}"
            )
            raise RunFailedError(RunFailureCause.CLUSTER_IN_TWO_STAGES, message)
        assigned.update(clusters)
        stages.append(
            PlannedStage(stage, _sort_clusters(stage, clusters, members), stage_concurrency(stage, len(clusters)))
        )
    if missing := sorted(name for name in selected if name not in assigned):
        message = f"no stage selects {format_count(len(missing), 'cluster')}: {_join_names(missing)}"
        raise RunFailedError(RunFailureCause.CLUSTERS_IN_NO_STAGE, message)
    return tuple(stages)


def check_tasks(stage: StageConfig) -> None:
    """Check the rules of admission again, because the strategy may have been stored without it.

    The ``waitTime`` of an Approval after a stage is ignored.

    Raises:
        RunFailedError: A task before or after the stage is invalid.
    """
    tasks_before = stage.before_stage_tasks
    if problem := _before_problem(tasks_before):
        raise RunFailedError(
            RunFailureCause.BEFORE_STAGE_TASKS_INVALID, f"stage {stage.name} has invalid beforeStageTasks: {problem}"
        )
    if problem := _after_problem(stage.after_stage_tasks):
        raise RunFailedError(
            RunFailureCause.AFTER_STAGE_TASKS_INVALID, f"stage {stage.name} has invalid afterStageTasks: {problem}"
        )


def _before_problem(tasks: Sequence[StageTask]) -> str:
    if len(tasks) > 1:
        return f"{len(tasks)} tasks, at most 1 is allowed"
    for task in tasks:
        if task.type is not StageTaskType.APPROVAL:
            return f"type {task.type}, only Approval is allowed"
        if task.wait_time is not None:
            return f"waitTime {task.wait_time!r} on an Approval"
    return ""


def _after_problem(tasks: Sequence[StageTask]) -> str:
    if len({task.type for task in tasks}) != len(tasks):
        return "two tasks of the same type"
    return next(filter(None, map(_after_task_problem, tasks)), "")


def _after_task_problem(task: StageTask) -> str:
    if task.type is StageTaskType.APPROVAL:
        return ""
    if task.wait_time is None:
        return "a TimedWait without waitTime"
    try:
        wait = parse_wait_time(task.wait_time)
    except ValueError as error:
        return f"waitTime {error}"
    return "" if wait > timedelta() else f"waitTime {task.wait_time!r} is not positive"


def stage_concurrency(stage: StageConfig, total: int) -> int:
    """Return how many of the *total* clusters of a stage may be in flight. Percentages round down, to at least 1.

    Raises:
        RunFailedError: ``maxConcurrency`` is neither an integer nor a percentage.
    """
    try:
        return max(1, scaled_down(stage.max_concurrency, total))
    except ValueError as error:
        raise RunFailedError(
            RunFailureCause.STRATEGY_INVALID, f"stage {stage.name} has an invalid maxConcurrency: {error}"
        ) from error


def _matcher(stage: StageConfig) -> Callable[[Labels], bool]:
    """Return a predicate on cluster labels. Without a selector it matches no cluster.

    Raises:
        RunFailedError: The selector cannot be evaluated.
    """
    selector = stage.label_selector
    if selector is None:
        return lambda _labels: False
    if error := selector_error(selector):
        raise RunFailedError(
            RunFailureCause.LABEL_SELECTOR_INVALID, f"stage {stage.name} has an invalid labelSelector: {error}"
        )
    requirements = selector.requirements()
    return lambda labels: all(holds_for(requirement, labels.get(requirement.key)) for requirement in requirements)


def _sort_clusters(stage: StageConfig, clusters: Sequence[str], members: Mapping[str, Labels]) -> tuple[str, ...]:
    """Return clusters sorted by the stage's sorting label, if any. The input is sorted by name.

    Raises:
        RunFailedError: The label is missing or not an integer on a cluster.
    """
    key = stage.sorting_label_key
    if key is None:
        return tuple(clusters)
    numbers = {name: integer(members[name].get(key, "")) for name in clusters}
    if bad := [name for name, number in numbers.items() if number is None]:
        text = ", ".join(f"{name} ({members[name].get(key, '')!r})" for name in bad[:MOST_NAMED])
        count = format_count(len(bad), "cluster")
        message = f"sortingLabelKey of stage {stage.name}: label {key} is missing or not an integer on {count}: {text}"
        raise RunFailedError(RunFailureCause.SORTING_LABEL_INVALID, message)
    return tuple(sorted(clusters, key=lambda name: (numbers[name] or 0, name)))


def integer(text: str) -> int | None:
    """Parse an integer like Go's ``Atoi``: an optional sign, digits, 64 bits. Return None if invalid."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def _join_names(names: Iterable[str]) -> str:
    name_list = list(names)
    more = f" and {len(name_list) - MOST_NAMED} more" if len(name_list) > MOST_NAMED else ""
    return ", ".join(name_list[:MOST_NAMED]) + more
