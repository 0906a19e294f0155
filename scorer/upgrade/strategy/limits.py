"""The limits of stages and groups as numbers.

Source: docs/specifications/upgrade-runs.md 2.3, 3.2 and 5.
"""

from dataclasses import dataclass

from scorer.api.upgrade.strategy import DEFAULT_GROUP_CONCURRENCY, DEFAULT_STAGE_CONCURRENCY, Group, StrategyStage
from scorer.api.values.int_or_percent import percent, scaled_down, scaled_up


@dataclass(frozen=True, slots=True)
class ConcurrencyLimits:
    """Maximum numbers of concurrent upgrades and of failed members."""

    max_concurrency: int
    max_allowed_failures: int


def stage_limits(stage: StrategyStage, size: int) -> ConcurrencyLimits:
    """Return the limits of a stage of *size* members.

    Raises:
        ValueError: A limit is neither a count nor a percentage.
    """
    max_concurrency = DEFAULT_STAGE_CONCURRENCY if stage.max_concurrency is None else stage.max_concurrency
    return ConcurrencyLimits(concurrency(max_concurrency, size), _failures(stage.max_allowed_failures or 0, size))


def group_limits(group: Group, size: int, stage: ConcurrencyLimits) -> ConcurrencyLimits:
    """Return the limits of a group of *size* members, with its concurrency capped by its stage and its own size.

    Raises:
        ValueError: A limit is neither a count nor a percentage.
    """
    max_concurrency = min(concurrency(group.max_concurrency, size), stage.max_concurrency, max(1, size))
    return ConcurrencyLimits(max_concurrency, _failures(group.max_allowed_failures, size))


def is_clamped(group: Group, size: int, limits: ConcurrencyLimits) -> bool:
    """Return whether the concurrency of a group is lower than its configured count. False for a percentage."""
    limit = group.max_concurrency
    return percent(limit) is None and limits.max_concurrency < concurrency(limit, size)


def groups_of(stage: StrategyStage) -> tuple[Group, ...]:
    """Return the groups of a stage. A stage without groups gets one with its name and limits."""
    if stage.groups:
        return stage.groups
    max_concurrency = DEFAULT_GROUP_CONCURRENCY if stage.max_concurrency is None else stage.max_concurrency
    failures = stage.max_allowed_failures or 0
    return (
        Group(
            name=stage.name,
            member_selector=stage.member_selector,
            max_concurrency=max_concurrency,
            max_allowed_failures=failures,
        ),
    )


def concurrency(value: int | str, size: int) -> int:
    """Return how many of *size* members are upgraded concurrently. Percentages round down, to at least one.

    Raises:
        ValueError: *value* is neither a count nor a percentage.
    """
    return max(1, scaled_down(_number(value), size))


def _failures(value: int | str, size: int) -> int:
    return scaled_up(_number(value), size)


def _number(value: int | str) -> int | str:
    """Return a number for a count in text form. A number or a percentage is returned unchanged.

    Raises:
        ValueError: *value* is neither a count nor a percentage.
    """
    if isinstance(value, int) or percent(value) is not None:
        return value
    if value.isascii() and value.isdigit() and len(value) < 11:
        return int(value)
    raise ValueError(f"{value[:64]!r} is neither a count nor a percentage")
