"""A hub made of files, for ``plan`` and ``explain -f``.

A dump of a real hub is evaluated as it is, at the moment it was taken. Members that have never reported, like those of
the examples, are simulated as in ``harbormaster up``.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pydantic

from scorer.api import kinds
from scorer.api.cluster.member_cluster import MemberCluster
from scorer.api.crd.models import MODELS
from scorer.api.family import FAMILIES, PLACEMENTS
from scorer.api.kinds import Kind
from scorer.api.names import MEMBER_AGENT, MEMBER_NAME
from scorer.api.unstructured.documents import labels_of, status_of
from scorer.api.unstructured.json_object import JsonObject, format_time
from scorer.fleet import Fleet
from scorer.placement.binding_plan import BrokenBindingError, read_binding
from webhook.cli.errors import UserError
from webhook.cli.files.documents import Loaded
from webhook.cli.offline.admission import OfflineVerdict, admit, offline_context
from webhook.embedded.simulation.annotations import figures, parse_behaviour, silent_status, status_in_annotation
from webhook.member.membership.heartbeat import heartbeat_status
from webhook.validation.framework.field import shape_errors

BINDINGS = tuple(family.binding for family in FAMILIES)
SNAPSHOTS = tuple(family.policy_snapshot for family in FAMILIES)
READ_KINDS = (kinds.MEMBER_CLUSTER, *BINDINGS, *SNAPSHOTS)
"""Kinds that decisions depend on, apart from placements."""


@dataclass(frozen=True, slots=True)
class OfflineHub:
    """All inputs of a decision.

    Args:
        placements: Placements as admission would store them.
        fleet: All members.
        bindings: Bindings of any placement.
        snapshots: Policy snapshots of any placement.
        now: The instant of the evaluation.
        warnings: Warnings of admission about the placements, each with its source.
    """

    placements: tuple[JsonObject, ...]
    fleet: Fleet
    bindings: tuple[JsonObject, ...]
    snapshots: tuple[JsonObject, ...]
    now: datetime
    warnings: tuple[str, ...] = ()


def make_hub(objects: Sequence[Loaded], *, now: datetime | None, clock: datetime) -> OfflineHub:
    """Return a hub of *objects*. Kinds that no decision depends on are omitted.

    Args:
        objects: The objects of the files.
        now: The instant of the evaluation. None means the newest heartbeat among *objects*, else *clock*.
        clock: The current time.

    Raises:
        UserError: Admission refuses a placement, or an object is malformed. Lists every error.
    """
    problems: list[str] = []
    members = [item for item in objects if item.kind == kinds.MEMBER_CLUSTER]
    for item in objects:
        if item.kind in READ_KINDS:
            problems += shape_mistakes(item)
    verdicts: list[OfflineVerdict] = []
    if not problems:
        context = offline_context(objects, now or clock)
        verdicts = [admit(item, context) for item in objects if item.kind in PLACEMENTS]
        problems += (line for verdict in verdicts for line in verdict.lines())
    if problems:
        raise UserError(problems)
    instant = now or newest_heartbeat(item.document for item in members) or clock
    return OfflineHub(
        tuple(verdict.document for verdict in verdicts),
        Fleet.of(read_member(item, instant) for item in members),
        tuple(item.document for item in objects if item.kind in BINDINGS),
        tuple(item.document for item in objects if item.kind in SNAPSHOTS),
        instant,
        tuple(f"{verdict.loaded.source}: {text}" for verdict in verdicts for text in verdict.warnings),
    )


def shape_mistakes(item: Loaded) -> list[str]:
    """Return the errors in the shape of an object that decisions depend on."""
    try:
        MODELS[item.kind.group_kind].read(item.document)
        if item.kind in BINDINGS:
            read_binding(item.document, "")
    except pydantic.ValidationError as error:
        return [f"{item.source}: {mistake}" for mistake in shape_errors(error)]
    except BrokenBindingError as error:
        return [f"{item.source}: {error}"]
    return []


def newest_heartbeat(members: Iterable[JsonObject]) -> datetime | None:
    """Return the newest heartbeat of the agents of *members*, or None if none ever reported."""
    beats = (
        agent.last_received_heartbeat
        for document in members
        for agent in MemberCluster.read(document).status.agent_status
        if agent.type == MEMBER_AGENT
    )
    return max((beat for beat in beats if beat is not None), default=None)


def read_member(item: Loaded, now: datetime) -> MemberCluster:
    """Return a member as stored, or as simulated at *now* if its agents have never reported.

    Raises:
        UserError: The member is malformed, or an annotation that configures the simulation is invalid.
    """
    try:
        return MemberCluster.read(played(item, now))
    except pydantic.ValidationError as error:
        raise UserError(f"{item.source}: {mistake}" for mistake in shape_errors(error)) from error


def played(item: Loaded, now: datetime) -> JsonObject:
    """Return a MemberCluster with the status its simulated agent would have reported at *now*, and with its name label.

    A member whose agents have reported is returned unchanged.

    Raises:
        UserError: An annotation that configures the simulation is invalid.
    """
    document = item.document
    status: dict[str, Any] = status_of(document)
    if status.get("agentStatus"):
        return document
    document_with_status = status_in_annotation(document)
    metadata: dict[str, Any] = document_with_status["metadata"]
    metadata = {**metadata, "labels": {**labels_of(document), MEMBER_NAME: metadata["name"]}}
    behaviour = parse_behaviour(metadata.get("annotations") or {})
    if behaviour.problem:
        raise UserError(f"{item.source}: metadata.annotations: {behaviour.problem}")
    generation = metadata.get("generation", 0)
    if behaviour.leaving:
        metadata = {"deletionTimestamp": format_time(now), **metadata}
    if behaviour.silent:
        status = silent_status(behaviour, now, generation=generation)
    else:
        status = heartbeat_status(kinds.MEMBER_CLUSTER, {}, figures(behaviour, {}, {}), now, generation=generation)
    return {**document, "metadata": metadata, "status": status}


def find_placement(hub: OfflineHub, kind: Kind, namespace: str, name: str) -> JsonObject:
    """Return a placement of *hub*.

    Raises:
        UserError: The placement does not exist.
    """
    for document in hub.placements:
        metadata = document["metadata"]
        if (document["kind"], metadata.get("namespace", ""), metadata["name"]) == (kind.kind, namespace, name):
            return document
    qualified_name = f"{namespace}/{name}" if namespace else name
    others = ", ".join(map(reference, hub.placements[:10])) or "none"
    raise UserError(f"there is no {kind.kind} {qualified_name!r} in the files, available: {others}")


def reference(placement: JsonObject) -> str:
    """Return ``crp/NAME`` or ``rp/NAMESPACE/NAME``."""
    metadata = placement["metadata"]
    if metadata.get("namespace"):
        return f"rp/{metadata['namespace']}/{metadata['name']}"
    return f"crp/{metadata['name']}"
