"""ClusterUpgradeRequests: one attempt on one member as an object, and the observation in its status.

Source: docs/specifications/upgrade-runs.md 13.4.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Final

import pydantic

from scorer.api.meta import JsonObject, first_mistake, format_time, parse_time
from scorer.api.names import OURS, UPGRADED_MEMBER
from scorer.api.unstructured.documents import dict_at, dicts_at, metadata_of, owner_reference, status_of, text_at
from scorer.api.upgrade.fields import LONGEST_GENERATED_NAME, NodeImageVersion, UpgradeError
from scorer.api.upgrade.request import PoolInventory, RequestPhase, UpgradeRequestStatus
from scorer.upgrade.back_ends.interface import Inventory, Observation, Operation, OperationState
from scorer.upgrade.back_ends.inventories import inventory_of

UPGRADER_LABEL: Final = OURS + "upgrader"
"""Label of a ClusterUpgradeRequest: the back end that created it."""
NOT_ACCEPTED_AFTER: Final = timedelta(minutes=15)
STALE_AFTER: Final = timedelta(minutes=30)

LONGEST_LABEL: Final = 63
"""Maximum length of the value of a label, in characters. A request for a member with a longer name lacks
`UPGRADED_MEMBER`."""
_HASH_DIGITS: Final = 8
_VERSION: Final = "upgrade.harbormaster.dev/v1alpha1"
_STATES: Final = {
    None: OperationState.ACCEPTED,
    RequestPhase.ACCEPTED: OperationState.ACCEPTED,
    RequestPhase.IN_PROGRESS: OperationState.IN_PROGRESS,
    RequestPhase.SUCCEEDED: OperationState.SUCCEEDED,
    RequestPhase.FAILED: OperationState.FAILED,
    RequestPhase.CANCELLED: OperationState.CANCELLED,
}
ENDED: Final = frozenset({RequestPhase.SUCCEEDED, RequestPhase.FAILED, RequestPhase.CANCELLED})
"""Terminal phases."""


def request_name(operation: Operation) -> str:
    """Return the name of the request for an operation. It is deterministic, so a retry finds the same request."""
    digest = sha256(operation.id.encode()).hexdigest()[:_HASH_DIGITS]
    name = f"{operation.run}-{operation.member}-{operation.attempt}"
    return f"{name[: LONGEST_GENERATED_NAME - _HASH_DIGITS - 1].rstrip('-.')}-{digest}".replace(".", "-")


def request_document(operation: Operation) -> JsonObject:
    """Return the request to create for an operation.

    Args:
        operation: The operation. Its run owns the request, so both are deleted together.
    """
    target = operation.target
    spec: JsonObject = {
        "operationID": operation.id,
        "runName": operation.run,
        "memberName": operation.member,
        "upgradeType": target.type.value,
        "dryRun": False,
        "cancelRequested": False,
    }
    if target.kubernetes_version:
        spec["kubernetesVersion"] = target.kubernetes_version
    if target.images:
        images = sorted(target.images.items())
        spec["nodeImages"] = [{"family": family, "version": version} for family, version in images]
    if operation.deadline is not None:
        spec["deadline"] = format_time(operation.deadline)
    labels = {UPGRADER_LABEL: operation.upgrader}
    if len(operation.member) <= LONGEST_LABEL:  # a longer name cannot be the value of a label
        labels[UPGRADED_MEMBER] = operation.member
    return {
        "apiVersion": _VERSION,
        "kind": "ClusterUpgradeRequest",
        "metadata": {
            "name": request_name(operation),
            "labels": labels,
            "ownerReferences": [_owner(operation)],
        },
        "spec": spec,
    }


def _owner(operation: Operation) -> JsonObject:
    """Return the owner reference to the run of an operation, whose id starts with the uid of the run."""
    uid = operation.id.partition("/")[0]
    owner = {"name": operation.run, "uid": uid}
    return owner_reference({"apiVersion": _VERSION, "kind": "ClusterUpgradeRun", "metadata": owner})


def is_of(request: Mapping[str, Any], operation: str) -> bool:
    """Return whether a request belongs to an operation. Compares ids, because names may collide."""
    return text_at(request, "spec", "operationID") == operation


def later_attempt(operation: str, requests: Iterable[Mapping[str, Any]]) -> int:
    """Return the latest attempt of the same run on the same member that has a request. 0: none after *operation*."""
    member, _, attempt = operation.rpartition("/")
    attempts_by_run = (text_at(request, "spec", "operationID").rpartition("/") for request in requests)
    attempts = [
        int(number) for other, _, number in attempts_by_run if other == member and number.isascii() and number.isdigit()
    ]
    latest = max(attempts, default=0)
    return latest if attempt.isascii() and attempt.isdigit() and latest > int(attempt) else 0


def observation_of(request: Mapping[str, Any]) -> Observation:
    """Return the observation in the status of a request. An unreadable status counts as in progress."""
    try:
        status = UpgradeRequestStatus.read(status_of(request))
    except pydantic.ValidationError:
        return Observation(OperationState.IN_PROGRESS)
    error = status.error
    if error is not None and not (error.code or error.message):
        error = None
    if status.phase is RequestPhase.FAILED and error is None and status.message:
        error = UpgradeError(message=status.message)
    return Observation(
        _STATES[status.phase],
        asked=_requested_images(request),
        error=error,
        finished_at=status.finished_time if status.phase in ENDED else None,
        inventory=inventory_of(status) if status.control_plane_version else None,
        unclaimed=status.phase is None,
    )


def _requested_images(request: Mapping[str, Any]) -> tuple[NodeImageVersion, ...] | None:
    """Return the node images that a request names, or None if it is unreadable."""
    images = dicts_at(request, "spec", "nodeImages")
    try:
        return tuple(NodeImageVersion.read(image) for image in images)
    except pydantic.ValidationError:
        return None


def may_begin(request: Mapping[str, Any], now: datetime) -> bool:
    """Return whether an upgrader may still claim a request: it is neither cancelled nor past its deadline."""
    if dict_at(request, "spec").get("cancelRequested") is True:
        return False
    try:
        deadline = parse_time(text_at(request, "spec", "deadline"))
    except ValueError:  # no deadline
        return True
    return now < deadline


def request_note(request: Mapping[str, Any], now: datetime) -> tuple[str, str] | None:
    """Return the reason and message of an Event about a request, or None without anything to report."""
    name, member = text_at(request, "metadata", "name"), text_at(request, "spec", "memberName")
    try:
        status = UpgradeRequestStatus.read(status_of(request))
    except pydantic.ValidationError as error:  # otherwise the upgrade would appear in progress forever
        return (
            "HandoffUnreadable",
            f"the status of request {name} for member {member} is invalid: {first_mistake(error)}",
        )
    try:
        creation_time = parse_time(str(metadata_of(request).get("creationTimestamp", "")))
    except ValueError:
        return None
    if status.phase is None and now - creation_time >= NOT_ACCEPTED_AFTER:
        minutes = int(NOT_ACCEPTED_AFTER.total_seconds() / 60)
        return "HandoffNotAccepted", (
            f"no upgrader has accepted request {name} for member {member} within {minutes} minutes"
        )
    if status.phase in ENDED or status.phase is None:
        return None
    heartbeat = status.heartbeat_time
    if heartbeat is not None and now - heartbeat >= STALE_AFTER:
        message = f"the upgrader of member {member} has not reported since {format_time(heartbeat)} (request {name})"
        return "HandoffStale", message
    return None


def report_of(inventory: Inventory) -> JsonObject:
    """Return an inventory in the shape of the status of a request."""
    pools = [
        PoolInventory(
            name=pool.name,
            kubernetes_version=pool.version,
            image_family=pool.family,
            image_version=pool.image,
            nodes=pool.nodes,
        ).model_dump(mode="json", by_alias=True)
        for pool in inventory.pools
    ]
    return {"controlPlaneVersion": inventory.version, "pools": pools}
