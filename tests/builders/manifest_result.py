"""Results of applying one manifest."""

from typing import Any

from scorer.rollout.works.availability import Availability, AvailabilityReason
from scorer.rollout.works.status import ManifestReason, ManifestResult


def make_result(
    name: str = "a",
    reason: ManifestReason = ManifestReason.APPLIED,
    available: str | None = "Available",
    **more: Any,
) -> ManifestResult:
    answer = Availability(AvailabilityReason(available), "") if available and reason is ManifestReason.APPLIED else None
    more = {"observed_generation": 3, **more}
    return ManifestResult(0, "", "v1", "ConfigMap", "configmaps", "shop", name, reason, "said", answer, **more)
