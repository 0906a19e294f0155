"""Rules on ``spec.strategy``: rolling updates, apply strategy and report-back (P-46 to P-52, U-04)."""

from collections.abc import Iterator

from scorer.api.placement.placement import (
    PlacementPolicy,
    PlacementType,
    ReportBackStrategy,
    RollingUpdate,
    RolloutStrategy,
    StrategyType,
)
from scorer.api.values.field_path import FieldPath
from scorer.api.values.int_or_percent import LARGEST, count_or_percent, percent
from scorer.api.values.quoting import quote
from webhook.validation.framework.field import Cause, FieldError, FieldWarning, invalid
from webhook.validation.framework.reading import Finding
from webhook.validation.placement.rules import ROLLING_UPDATE, STRATEGY


def validate_strategy(strategy: RolloutStrategy, policy: PlacementPolicy | None) -> Iterator[Finding]:
    """Yield the findings about the rollout strategy (P-46 to P-52, X-14 to X-16)."""
    if strategy.rolling_update is not None:
        if strategy.type is StrategyType.EXTERNAL:
            message = "must not be set when type is External"
            yield FieldError(ROLLING_UPDATE, Cause.FORBIDDEN, message, "P-46", (ROLLING_UPDATE, STRATEGY / "type"))
        yield from validate_rolling_update(strategy.rolling_update, ROLLING_UPDATE)
    apply = strategy.apply_strategy
    if apply is not None and apply.server_side_apply_config is not None and apply.type != "ServerSideApply":
        path = STRATEGY / "applyStrategy"
        message = "must not be set unless type is ServerSideApply"
        parts = (path / "serverSideApplyConfig", path / "type")
        yield FieldError(path / "serverSideApplyConfig", Cause.FORBIDDEN, message, "P-50", parts)
    if strategy.report_back_strategy is not None:
        yield from validate_report_back(strategy.report_back_strategy, policy, STRATEGY / "reportBackStrategy")


def validate_rolling_update(rolling_update: RollingUpdate, at: FieldPath) -> Iterator[Finding]:
    """Limits are integers or percentages (P-48), and not both 0 (X-14). The unavailability period is sensible (X-15).

    The reference forbids two zeros only in its documentation. Such a rollout never makes progress.
    """
    limits = {"maxUnavailable": rolling_update.max_unavailable, "maxSurge": rolling_update.max_surge}
    zeros = []
    for name, value in limits.items():
        share = percent(value)
        if not count_or_percent(value):
            reason = f"must be an integer from 0 to {LARGEST} or a percentage of 0% to 100%"
            yield invalid(at / name, value, reason, "P-48")
        elif value == 0 or share == 0:
            zeros.append(name)
    if len(zeros) == 2:
        parts = tuple(at / name for name in limits)
        message = f"{quote(limits)}: must not both be zero, which would block every update"
        yield FieldError(at, Cause.INVALID, message, "X-14", parts)
    elif zeros:
        yield FieldWarning(at / zeros[0], f"{quote(limits[zeros[0]])} can block the rollout", "X-14")
    if (period := rolling_update.unavailable_period_seconds) > 3600:
        message = f"{quote(period)} is more than an hour. The unit is seconds"
        yield FieldWarning(at / "unavailablePeriodSeconds", message, "X-15")


def validate_report_back(
    report: ReportBackStrategy, policy: PlacementPolicy | None, at: FieldPath
) -> Iterator[Finding]:
    """Mirror requires a destination (P-52). The original object can mirror the status of one cluster only (X-16)."""
    if report.type != "Mirror":
        return
    if report.destination is None:
        parts = (at / "destination", at / "type")
        yield FieldError(at / "destination", Cause.REQUIRED, "must be set when type is Mirror", "P-52", parts)
    elif report.destination == "OriginalResource" and not _picks_one_cluster(policy):
        yield FieldWarning(at, "OriginalResource requires a policy that picks only one cluster", "X-16")


def validate_external_stays(new: RolloutStrategy | None, old: RolloutStrategy | None) -> Iterator[FieldError]:
    """A strategy of type External remains External. Its removal is refused as well (U-04)."""
    if old is None or old.type is not StrategyType.EXTERNAL:
        return
    if new is None or new.type is not StrategyType.EXTERNAL:
        yield FieldError(STRATEGY / "type", Cause.FORBIDDEN, "must not change from External", "U-04")


def _picks_one_cluster(policy: PlacementPolicy | None) -> bool:
    if policy is None:
        return False
    match policy.placement_type:
        case PlacementType.PICK_FIXED:
            return len(policy.cluster_names) == 1
        case PlacementType.PICK_N:
            return policy.number_of_clusters == 1
        case _:
            return False
