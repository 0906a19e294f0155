"""Versions that a member runs, as reported by its upgrader: in the status of its latest request, or in an annotation.

Both have the same shape. The annotation is for back ends that cannot be queried. The latest report wins, and the
request wins over an annotation without a time.

Source: docs/specifications/upgrade-runs.md 3.1, 13.1 and 13.4.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

import pydantic

from scorer.api.meta import JsonObject, parse_time
from scorer.api.names import OURS
from scorer.api.unstructured.documents import annotation, metadata_of, status_of
from scorer.api.upgrade.request import UpgradeRequestStatus
from scorer.upgrade.back_ends.interface import Inventory, Pool

OBSERVED: Final = OURS + "upgrade-observed"
"""Annotation of a MemberCluster: its inventory as JSON, in the shape of the status of a request."""
LONGEST_OBSERVED: Final = 64 * 1024
"""Maximum length of an annotation that is read, in characters."""

_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


def parse_inventory_annotation(text: str) -> Inventory:
    """Parse the inventory annotation of a MemberCluster.

    Raises:
        ValueError: *text* is too long, is not JSON, or has the wrong shape.
    """
    return inventory_of(_parse(text))


def _parse(text: str) -> UpgradeRequestStatus:
    if len(text) > LONGEST_OBSERVED:
        raise ValueError(f"has {len(text)} characters, must have at most {LONGEST_OBSERVED}")
    try:
        return UpgradeRequestStatus.model_validate_json(text)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        at = ".".join(map(str, first["loc"]))
        raise ValueError(f"{at}: {first['msg']}" if at else str(first["msg"])) from None


def reported_inventory(member: Mapping[str, object], requests: Iterable[JsonObject]) -> Inventory | None:
    """Return the latest reported inventory of a member, or None if no report is readable.

    Args:
        member: The MemberCluster.
        requests: The ClusterUpgradeRequests for it. An unreadable status is ignored.
    """
    reports = [
        (*_creation_key(request), status) for request in requests if (status := _reported_status(request)) is not None
    ]
    latest = max(reports, key=lambda report: report[:2], default=None)
    recorded_status = _recorded_status(member)
    if latest is None:
        return None if recorded_status is None else inventory_of(recorded_status)
    latest_status = latest[2]
    if recorded_status is not None and (recorded_status.heartbeat_time or _LONG_AGO) > (
        _report_time(latest_status) or latest[0]
    ):
        return inventory_of(recorded_status)
    return inventory_of(latest_status)


def _reported_status(request: JsonObject) -> UpgradeRequestStatus | None:
    try:
        status = UpgradeRequestStatus.read(status_of(request))
    except pydantic.ValidationError:
        return None
    return status if status.control_plane_version else None


def _recorded_status(member: Mapping[str, object]) -> UpgradeRequestStatus | None:
    text = annotation(member, OBSERVED)
    try:
        return _parse(text) if text else None
    except ValueError:
        return None


def _report_time(status: UpgradeRequestStatus) -> datetime | None:
    instants = [at for at in (status.heartbeat_time, status.finished_time) if at is not None]
    return max(instants, default=None)


def reported_version(member: Mapping[str, object], requests: Iterable[JsonObject]) -> str:
    """Return the reported version of a member's control plane, or an empty string if no report is readable.

    Args:
        member: The MemberCluster.
        requests: The ClusterUpgradeRequests for it.
    """
    inventory = reported_inventory(member, requests)
    return "" if inventory is None else inventory.version


def _creation_key(request: JsonObject) -> tuple[datetime, str]:
    """Return the creation time and name of a request. Names break ties."""
    metadata = metadata_of(request)
    try:
        creation_time = parse_time(str(metadata.get("creationTimestamp", "")))
    except ValueError:
        creation_time = _LONG_AGO
    return creation_time, str(metadata.get("name", ""))


def inventory_of(status: UpgradeRequestStatus) -> Inventory:
    """Return the inventory in the status of a request or in the annotation."""
    pools = tuple(
        Pool(pool.name, pool.kubernetes_version, pool.image_family, pool.image_version, pool.nodes)
        for pool in status.pools
    )
    return Inventory(status.control_plane_version, pools, observed_at=_report_time(status))
