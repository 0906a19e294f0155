"""The placement that a pod follows, parsed and checked.

Source: docs/specifications/serving.md 2.4 and 2.5.
"""

from dataclasses import dataclass, replace
from typing import Final

from pydantic import ValidationError

from scorer.api.meta import JsonObject
from scorer.api.placement.placement import PlacementType, Toleration
from scorer.api.unstructured.documents import list_at, spec_of
from scorer.placement.request import Request, read_request
from scorer.plugins.cluster_affinity import ClusterAffinityPlugin
from scorer.plugins.taint_toleration import TaintToleration
from scorer.properties import RESOURCE_PREFIX
from scorer.selectors import InvalidPolicyError

AVAILABLE: Final = f"{RESOURCE_PREFIX}available-"
"""Prefix of the properties that change when pods are evicted."""


@dataclass(frozen=True, slots=True)
class FollowedPlacement:
    """The parts of a placement that apply to pods with its annotation.

    Args:
        request: Policy of the placement. None: unknown, the engine cannot evaluate it (DV-5).
        taints: Tolerations of the placement. None: disabled, the placement ignores taints (PickFixed).
        roomy: Required affinity without the conditions on free capacity. None if it has no such conditions.
    """

    request: Request | None
    taints: TaintToleration | None
    roomy: ClusterAffinityPlugin | None


def read_followed(document: JsonObject) -> FollowedPlacement:
    """Read a placement."""
    policy = spec_of(document).get("policy")
    if policy is not None and not isinstance(policy, dict):
        return FollowedPlacement(None, TaintToleration(), None)
    try:
        request = read_request(policy, namespace=document["metadata"].get("namespace", ""))
    except InvalidPolicyError:
        is_pick_fixed = (policy or {}).get("placementType") == PlacementType.PICK_FIXED
        return FollowedPlacement(None, None if is_pick_fixed else _tolerations(policy or {}), None)
    is_pick_fixed = request.policy.placement_type is PlacementType.PICK_FIXED
    affinity = request.profile.affinity
    return FollowedPlacement(request, None if is_pick_fixed else request.profile.taints, _roomy(affinity))


def _roomy(affinity: ClusterAffinityPlugin) -> ClusterAffinityPlugin | None:
    terms = tuple(
        replace(
            term,
            properties=tuple(
                requirement for requirement in term.properties if not requirement.name.startswith(AVAILABLE)
            ),
        )
        for term in affinity.required
    )
    return None if terms == affinity.required else ClusterAffinityPlugin(terms)


def _tolerations(policy: JsonObject) -> TaintToleration:
    """Return the readable tolerations of a policy that is invalid as a whole."""
    tolerations = []
    for toleration in list_at(policy, "tolerations"):
        try:
            tolerations.append(Toleration.read(toleration))
        except (ValidationError, TypeError):
            continue
    return TaintToleration(tuple(tolerations))
