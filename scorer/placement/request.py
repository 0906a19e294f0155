"""The request of a placement to the fleet: its policy, read and checked.

Source: docs/specifications/scheduling.md 1 (table of policy fields) and DV-5.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from scorer.api.placement.placement import PlacementPolicy, PlacementType
from scorer.profile import Profile, read_profile
from scorer.selectors import InvalidPolicyError

_USED = {
    PlacementType.PICK_ALL: ("affinity", "tolerations"),
    PlacementType.PICK_N: ("numberOfClusters", "affinity", "tolerations", "topologySpreadConstraints"),
    PlacementType.PICK_FIXED: ("clusterNames",),
}
_REQUIRED = {"requiredDuringSchedulingIgnoredDuringExecution"}
"""The parts of the affinity that placement types other than PickN use."""


@dataclass(frozen=True, slots=True)
class Request:
    """One policy, ready to be scheduled.

    Args:
        policy: The policy as written, with defaults.
        profile: Plugins.
        wanted: Number of requested clusters. None: unlimited, all that qualify.
        namespace: Namespace of a ResourcePlacement, else empty.
    """

    policy: PlacementPolicy
    profile: Profile
    wanted: int | None
    namespace: str = ""


def read_request(policy: Mapping[str, Any] | None, *, number: int | None = None, namespace: str = "") -> Request:
    """Return the request of *policy*. Every part that its placement type uses is checked.

    Args:
        policy: ``spec.policy``. None means PickAll without conditions.
        number: Number in the annotation of the policy snapshot. It overrides ``numberOfClusters`` of the policy.
        namespace: Namespace of a ResourcePlacement, else empty.

    Raises:
        InvalidPolicyError: A part is invalid. The message names the field and the value.
    """
    parsed_policy = _read_policy(policy or {})
    desired: int | None = None
    if parsed_policy.placement_type is PlacementType.PICK_FIXED:
        desired = len(parsed_policy.cluster_names)
    elif parsed_policy.placement_type is PlacementType.PICK_N:
        desired = parsed_policy.number_of_clusters if number is None else number
        if desired is None:
            raise InvalidPolicyError("spec.policy.numberOfClusters: must be set when placementType is PickN")
    return Request(parsed_policy, read_profile(parsed_policy), desired, namespace)


def _read_policy(policy: Mapping[str, Any]) -> PlacementPolicy:
    try:
        kind = PlacementType(policy.get("placementType") or PlacementType.PICK_ALL)
    except ValueError as error:
        raise InvalidPolicyError(f"spec.policy.placementType: {error}") from error
    fields = {key: value for key, value in policy.items() if key in _USED[kind]}
    match fields:
        case {"affinity": {"clusterAffinity": dict(affinity)}} if kind is not PlacementType.PICK_N:
            fields["affinity"] = {"clusterAffinity": {key: affinity[key] for key in affinity if key in _REQUIRED}}
    try:
        return PlacementPolicy.read({**fields, "placementType": kind})
    except ValidationError as error:
        first = error.errors()[0]
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
        raise InvalidPolicyError(f"spec.policy{path}: {first['msg']}") from error
