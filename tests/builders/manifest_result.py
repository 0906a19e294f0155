"""Results of applying one manifest."""

from scorer.rollout.availability import Availability, AvailabilityReason
from scorer.rollout.work_status import ManifestReason, ManifestResult


def make_result(name="a", reason=ManifestReason.APPLIED, available="Available", **more):
    answer = Availability(AvailabilityReason(available), "") if available and reason is ManifestReason.APPLIED else None
    more = {"observed_generation": 3, **more}
    return ManifestResult(0, "", "v1", "ConfigMap", "configmaps", "shop", name, reason, "said", answer, **more)
