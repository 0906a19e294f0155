"""One gate for every disruption of a member cluster. A second disruption waits, and the response names the first.

Four operations disrupt a member: an eviction removes a placement from it, a rolling update and a staged update change
its placed objects, and an upgrade changes the cluster itself. Two disruptions of different kinds wait for one another.
The gate does not separate two of the same kind: each kind has its own budgets, and a member may lose two placements at
the same time.

A member is held by objects on the hub that show an operation in progress, and by reservations. Our controllers reserve
a member before they change it, and any other client may reserve one too. The objects alone are not sufficient: a second
disruption could pass between the decision of the first and the write that shows it.

Example: the eviction controller reserves member-1, then deletes the binding. An upgrade that is due between these two
steps sees the reservation and waits.

Source: docs/specifications/serving.md 3.1; docs/specifications/upgrade-runs.md 3.4 and 8.1;
docs/specifications/staged-updates.md 6.3 and 8.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from scorer.api.unstructured.documents import dict_at, dicts_at, name_of, namespace_of, text_at
from scorer.api.upgrade.fields import UpgradeState
from scorer.reservations import Reservation


class MemberDisruption(StrEnum):
    """The kinds of disruption of a member cluster."""

    EVICTION = "Eviction"
    ROLLOUT = "Rollout"
    STAGED_UPDATE = "StagedUpdate"
    UPGRADE = "Upgrade"


@dataclass(frozen=True, slots=True)
class Hold:
    """One reason why a member may not be disrupted in another way now.

    Args:
        kind: The disruption in progress. None: unknown, every kind waits for it.
        by: The holder of the reservation, such as ``eviction/off-bravelion``, or the object that disrupts the member.
        message: Human-readable message with the member and the disruption.
        until: End of the hold. None: unknown, the hold ends with the disruption.
    """

    kind: MemberDisruption | None
    by: str
    message: str
    until: datetime | None = None


_ORDER: Final = {kind: place for place, kind in enumerate(MemberDisruption)}


def waits_for(kind: MemberDisruption, holds: Iterable[Hold]) -> Hold | None:
    """Return the hold that a disruption of this kind waits for, None if it need not wait.

    Holds are ordered by kind, then by name. Equal sets of holds therefore give the same answer.
    """
    other_holds = (hold for hold in holds if hold.kind is not kind)
    return min(other_holds, key=lambda hold: (-1 if hold.kind is None else _ORDER[hold.kind], hold.by), default=None)


def eviction_holder(name: str) -> str:
    """Return the name of the holder of a member during an eviction."""
    return f"eviction/{name}"


def rollout_holder(placement: str) -> str:
    """Return the name of the holder of a member during the rolling update of a placement, such as ``crp/web``."""
    return f"rollout/{placement}"


def staged_update_holder(run: str) -> str:
    """Return the name of the holder of a member during a staged update run, such as ``team-a/release-7``."""
    return f"staged-update/{run}"


def upgrade_holder(run: str) -> str:
    """Return the name of the holder of a member during an upgrade run."""
    return f"upgrade/{run}"


def eviction_hold(cluster: str, name: str, placement: str) -> Hold:
    """Return the hold of an eviction that is under way."""
    message = f"eviction {name} is removing placement {placement} from member {cluster}"
    return Hold(MemberDisruption.EVICTION, eviction_holder(name), message)


def rollout_hold(cluster: str, placement: str) -> Hold:
    """Return the hold of a rolling update that is under way, of a placement such as ``crp/web``."""
    message = f"{placement} is being rolled out to member {cluster} and is not available there yet"
    return Hold(MemberDisruption.ROLLOUT, rollout_holder(placement), message)


def reserved_holds(cluster: str, reservations: Iterable[Reservation]) -> Iterator[Hold]:
    """Yield the hold of each reservation that is in force."""
    for reservation in reservations:
        is_disruption = reservation.purpose in tuple(MemberDisruption)
        kind = MemberDisruption(reservation.purpose) if is_disruption else None
        purpose = reservation.purpose or "an unspecified purpose"
        yield Hold(
            kind,
            reservation.holder,
            f"member {cluster} is reserved for {purpose} by {reservation.holder}",
            reservation.expires,
        )


def reservation_hold(placement: str, cluster: str, reservations: Iterable[Reservation]) -> Hold | None:
    """Return the hold of the reservation of a placement, such as ``crp/web``, on a cluster. None: not reserved."""
    for reservation in reservations:
        if not isinstance(reservation.granted, int) and cluster in reservation.granted:
            kind = MemberDisruption(reservation.purpose) if reservation.purpose in tuple(MemberDisruption) else None
            return Hold(
                kind,
                reservation.holder,
                f"{placement} is reserved on member {cluster} by {reservation.holder}",
                reservation.expires,
            )
    return None


def upgrade_holds(run: Mapping[str, Any]) -> Mapping[str, Hold]:
    """Return the hold of each member that a ClusterUpgradeRun is upgrading, as far as the run can be read."""
    name = name_of(run)
    return {
        member: Hold(MemberDisruption.UPGRADE, upgrade_holder(name), f"member {member} is being upgraded by run {name}")
        for stage in dicts_at(run, "status", "stages")
        for group in dicts_at(stage, "groups")
        for entry in dicts_at(group, "members")
        if entry.get("state") == UpgradeState.RUNNING and (member := text_at(entry, "name"))
    }


def staged_update_holds(run: Mapping[str, Any]) -> Mapping[str, Hold]:
    """Return the hold of each member that a staged update run is working on, as far as the run can be read.

    A run that has ended works on no member, even if it left one half updated.
    """
    name, namespace = name_of(run), namespace_of(run)
    full = f"{namespace}/{name}" if namespace else name
    if _condition(run.get("status"), "Succeeded"):
        return {}
    stages = [*dicts_at(run, "status", "stagesStatus"), dict_at(run, "status", "deletionStageStatus")]
    return {
        member: Hold(
            MemberDisruption.STAGED_UPDATE,
            staged_update_holder(full),
            f"member {member} is being updated by staged update run {full}, in its stage {text_at(stage, 'stageName')}",
        )
        for stage in stages
        for entry in dicts_at(stage, "clusters")
        if _condition(entry, "Started") == "True"
        and not _condition(entry, "Succeeded")
        and (member := text_at(entry, "clusterName"))
    }


def _condition(status: object, kind: str) -> str:
    """Return the status of a condition. Empty: no condition of that type."""
    matching = (entry for entry in dicts_at(status, "conditions") if entry.get("type") == kind)
    return text_at(next(matching, {}), "status")
