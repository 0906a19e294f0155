"""What a member runs, as an upgrader reports it: in the status of its latest request, or in an annotation.

Both have the same shape. The annotation is for back ends that cannot be asked.

Source: upgrade-runs.md 3.1, 13.1 and 13.4.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import pydantic

from scorer.api.documents import annotation, metadata_of, text_at
from scorer.api.meta import JsonObject
from scorer.api.names import OURS
from scorer.api.upgrade.request import UpgradeRequestStatus
from scorer.upgrade.back_end import Inventory, Pool

OBSERVED: Final = OURS + "upgrade-observed"
"""On a MemberCluster: what it runs, as JSON in the shape of the status of a request."""
LONGEST_OBSERVED: Final = 64 * 1024
"""Characters of the annotation that are read."""


def parse_observed(text: str) -> Inventory:
    """Read the annotation of a MemberCluster.

    Raises:
        ValueError: It is too long, no JSON, or of another shape.
    """
    if len(text) > LONGEST_OBSERVED:
        raise ValueError(f"has {len(text)} characters, more than {LONGEST_OBSERVED}")
    try:
        return _inventory(UpgradeRequestStatus.model_validate_json(text))
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        at = ".".join(map(str, first["loc"]))
        raise ValueError(f"{at}: {first['msg']}" if at else str(first["msg"])) from None


def known_version(member: Mapping[str, object], requests: Iterable[JsonObject]) -> str:
    """Return the version of a member's control plane; empty: nobody has reported one that can be read.

    Args:
        member: The MemberCluster.
        requests: The ClusterUpgradeRequests for it; the latest that reports a version counts.
    """
    reports = ((_made(request), text_at(request, "status", "controlPlaneVersion")) for request in requests)
    if latest := max((each for each in reports if each[1]), default=None):
        return latest[1]
    text = annotation(member, OBSERVED)
    try:
        return parse_observed(text).version if text else ""
    except ValueError:
        return ""


def _made(request: JsonObject) -> tuple[str, str]:
    """Return when a request was made; of two at once, names decide."""
    about = metadata_of(request)
    return str(about.get("creationTimestamp", "")), str(about.get("name", ""))


def _inventory(status: UpgradeRequestStatus) -> Inventory:
    pools = tuple(
        Pool(pool.name, pool.kubernetes_version, pool.image_family, pool.image_version, pool.nodes)
        for pool in status.pools
    )
    return Inventory(status.control_plane_version, pools, observed_at=status.heartbeat_time)
