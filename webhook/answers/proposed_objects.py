"""Objects of a proposal: as they would reach admission, and their names in answers.

Source: docs/specifications/scheduling.md 22; docs/specifications/what-if.md 7.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final

from pydantic import ValidationError

from scorer.api.cluster.member_cluster import MemberCluster
from scorer.api.conditions import TRUE, make_condition
from scorer.api.crd.models import MODELS
from scorer.api.family import FAMILIES
from scorer.api.kinds import KINDS, MEMBER_CLUSTER, OUR_KINDS, UPGRADE_GATE, UPGRADE_RUN, Kind, group_kind
from scorer.api.meta import JsonObject, format_time
from scorer.api.names import MEMBER_AGENT
from scorer.api.unstructured.documents import dict_at, metadata_of
from scorer.api.values.quoting import quote
from scorer.fleet import Fleet
from scorer.what_if.state import ObjectKey, identity_of
from webhook.validation.framework.context import HubKinds

_OF_THE_SERVER: Final = (
    *("uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp"),
    *("deletionGracePeriodSeconds", "managedFields", "selfLink"),
)
"""Fields of ``metadata`` that only the API server sets."""
_FROM_NOW_ON: Final = (("Joined", "InternalMemberClusterJoined"), ("Healthy", "InternalMemberClusterHealthy"))

APPROVALS: Final = (*(family.approval_request for family in FAMILIES), UPGRADE_GATE)
"""Kinds that users approve by a write to their status."""
_MADE_WITHOUT_STATUS: Final = (*(family.run for family in FAMILIES), UPGRADE_RUN, *APPROVALS)
MOST_NAMED: Final = 20
"""Maximum number of names that the answer to an unknown name lists."""
NO_STATUS: Final = "status: neither given nor stored: the member counts as not reporting"
NO_AGENT: Final = "status: has no agent: the member counts as joined, healthy and having just reported"


def as_written(
    kind: Kind, document: JsonObject, live: JsonObject | None, now: datetime
) -> tuple[JsonObject, Sequence[str]]:
    """Return an object as it would reach admission, and the assumptions made about it.

    As with ``kubectl apply``, a write changes only the fields of ``metadata`` that it names. It cannot change the
    status, except that of a hypothetical member cluster, and of an approval: the given fields count, the others are as
    stored. A new run has no status, because it has not started.
    """
    notes = []
    if live is not None:
        metadata = {key: value for key, value in metadata_of(document).items() if key not in _OF_THE_SERVER}
        document = {**document, "metadata": {**metadata_of(live), **metadata}}
    if kind == MEMBER_CLUSTER:
        status = {**dict_at(live, "status"), **dict_at(document, "status")}
        if not status:
            notes.append(NO_STATUS)
        elif not status.get("agentStatus") and "status" in document:
            status["agentStatus"] = [_agent(now)]
            notes.append(NO_AGENT)
        document = {**document, "status": status}
    elif live is not None and kind in APPROVALS:
        document = {**document, "status": {**dict_at(live, "status"), **dict_at(document, "status")}}
    elif live is not None and kind.has_status:
        document = {key: value for key, value in document.items() if key != "status"}
        if "status" in live:
            document["status"] = live["status"]
    elif kind in _MADE_WITHOUT_STATUS:
        document = {key: value for key, value in document.items() if key != "status"}
    return document, notes


def is_readable(document: JsonObject) -> bool:
    """Return whether an object is well-formed. A malformed one is refused, and affects no other verdict."""
    model = MODELS.get(group_kind(document))
    if model is None:
        return True
    try:
        model.read(document)
    except ValidationError:
        return False
    return True


def fleet_in_thought(
    fleet: Fleet, written_objects: Sequence[tuple[JsonObject, Any]], lost_members: Sequence[str]
) -> Fleet:
    """Return the fleet that admission judges by. An unreadable member is refused by its own verdict."""
    members = []
    for document, _ in written_objects:
        if identity_of(document)[:2] == MEMBER_CLUSTER.group_kind:
            try:
                members.append(MemberCluster.read(document))
            except ValidationError:
                continue
    return fleet.updated(members, lost_members) if members or lost_members else fleet


def _agent(now: datetime) -> JsonObject:
    conditions = [make_condition(kind, TRUE, reason, "assumed", generation=0, now=now) for kind, reason in _FROM_NOW_ON]
    return {"type": MEMBER_AGENT, "conditions": conditions, "lastReceivedHeartbeat": format_time(now)}


def kinds_named(word: str, hub_kinds: HubKinds) -> list[Kind]:
    """Return the kinds that ``KIND`` or ``KIND.GROUP`` names, ours first, because groups may use the same name."""
    every = (*OUR_KINDS, *KINDS.values(), *hub_kinds.custom.values())
    return list(dict.fromkeys(kind for kind in every if word in (kind.kind, f"{kind.kind}.{kind.group}")))


def unknown_member(name: str, fleet: Fleet) -> str:
    """Return the message about a member cluster that does not exist, with the names in the fleet."""
    return f"there is no member cluster {quote(name)}. {_listed('The fleet', fleet.names)}"


def unknown_object(identity: ObjectKey, others: Iterable[ObjectKey]) -> str:
    """Return the message about an object that does not exist, with the names of *others*, which have its kind."""
    names = map(_qualified_name, others)
    return f"there is no {identity.kind} {quote(_qualified_name(identity))}. {_listed('Known', names)}"


def _listed(subject: str, names: Iterable[str]) -> str:
    sorted_names = sorted(names)
    more = f" and {len(sorted_names) - MOST_NAMED} more" if len(sorted_names) > MOST_NAMED else ""
    return f"{subject}: {', '.join(sorted_names[:MOST_NAMED]) or 'none'}{more}"


def _qualified_name(identity: ObjectKey) -> str:
    return f"{identity.namespace}/{identity.name}" if identity.namespace else identity.name
