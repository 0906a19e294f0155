"""The objects that the hub keeps for a member, and their repair after a user changes or deletes one by hand.

Every ``plan_`` function returns None for an object in the desired state, so a second pass writes nothing. Labels,
annotations and finalizers of other writers are kept.

Differs from the reference: these objects carry no owner reference to the MemberCluster. A foreground deletion of the
MemberCluster would delete the namespace, and the Works in it, before the agent has released their objects.

Source: docs/specifications/rollout.md 21.1.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scorer.api.cluster.member_state import DEFAULT_HEARTBEAT_PERIOD_SECONDS, MemberState
from scorer.api.kinds import INTERNAL_MEMBER_CLUSTER, NAMESPACE, Kind
from scorer.api.meta import JsonObject
from scorer.api.names import (
    ACCEPT_OLDER_UNTIL,
    AZURE_LABELS,
    HUB_UID,
    IS_FLEET_RESOURCE,
    MEMBER_CLUSTER_FINALIZER,
    MEMBER_NAME,
    member_namespace,
)
from scorer.api.unstructured.documents import annotation, annotations_of, dict_at, spec_of
from scorer.api.values.name_grammar import label_value_error
from scorer.membership.access import ROLE, ROLE_BINDING, agent_role, agent_role_binding


@dataclass(frozen=True, slots=True)
class Repair:
    """One object that differs from its desired state.

    Args:
        kind: Kind of the object.
        document: The object to store. With a resource version, the write replaces only that version, so that a
            concurrent change is not lost.
        stored: The stored object, None if it does not exist.
        reason: Reason of the event that reports the repair.
        message: Message of the event.
        recreate: Whether the field that differs is immutable: delete the object, then create it.
    """

    kind: Kind
    document: JsonObject
    stored: JsonObject | None
    reason: str
    message: str
    recreate: bool = False


def plan_member(member: JsonObject, internal: JsonObject | None = None) -> JsonObject | None:
    """Return a MemberCluster with its finalizer, its name as a label, and its Azure labels. None if it has all of them.

    An Azure label that the user has set is never overwritten, even if its value is empty.

    Args:
        member: The MemberCluster.
        internal: The InternalMemberCluster with the report of the agent, None if it does not exist.
    """
    metadata = member["metadata"]
    labels, finalizers = metadata.get("labels") or {}, metadata.get("finalizers") or []
    desired = {**_reported_labels(internal or {}), **labels, MEMBER_NAME: metadata["name"]}
    if labels == desired and MEMBER_CLUSTER_FINALIZER in finalizers:
        return None
    all_finalizers = finalizers if MEMBER_CLUSTER_FINALIZER in finalizers else [*finalizers, MEMBER_CLUSTER_FINALIZER]
    return {**member, "metadata": {**metadata, "labels": desired, "finalizers": all_finalizers}}


def _reported_labels(internal: Mapping[str, Any]) -> dict[str, str]:
    """Return the Azure labels that the agent reports as properties, without invalid label values."""
    properties = dict_at(internal, "status", "properties")
    values = {name: dict_at(properties, name).get("value") for name in AZURE_LABELS}
    return {
        name: value
        for name, value in values.items()
        if isinstance(value, str) and value and not label_value_error(value)
    }


def plan_namespace(cluster: str, stored: JsonObject | None) -> Repair | None:
    """Return the repair of the member's namespace, or None. The namespace must have the label of a fleet namespace."""
    metadata = {"name": member_namespace(cluster), "labels": {IS_FLEET_RESOURCE: "true"}}
    desired = {"apiVersion": NAMESPACE.api_version, "kind": NAMESPACE.kind, "metadata": metadata}
    return _repair(NAMESPACE, desired, stored, ("NamespaceCreated", "NamespacePatched"))


def plan_role(cluster: str, stored: JsonObject | None) -> Repair | None:
    """Return the repair of the Role of the member's agent, or None."""
    return _repair(ROLE, agent_role(cluster), stored, ("RoleCreated", "RoleUpdated"), "rules")


def plan_role_binding(cluster: str, identity: object, stored: JsonObject | None) -> Repair | None:
    """Return the repair of the RoleBinding of the member's agent, or None.

    Raises:
        scorer.membership.access.InvalidIdentityError: The identity cannot be the subject of a role binding.
    """
    desired = agent_role_binding(cluster, identity)
    reasons = ("RoleBindingCreated", "RoleBindingUpdated")
    return _repair(ROLE_BINDING, desired, stored, reasons, "subjects", immutable="roleRef")


def plan_internal_member(
    member: JsonObject, stored: JsonObject | None, state: MemberState, hub_uid: str = ""
) -> Repair | None:
    """Return the repair of the InternalMemberCluster, or None. It holds the orders to the agent and the hub's uid.

    Args:
        member: The MemberCluster.
        stored: The InternalMemberCluster, None if it does not exist.
        state: The order to the agent.
        hub_uid: See `scorer.membership.identity`. Empty: unknown, the stored one is kept.
    """
    cluster, spec = member["metadata"]["name"], spec_of(member)
    period = spec.get("heartbeatPeriodSeconds") or DEFAULT_HEARTBEAT_PERIOD_SECONDS
    handed_down = annotation(member, ACCEPT_OLDER_UNTIL)
    desired: JsonObject = {
        "apiVersion": INTERNAL_MEMBER_CLUSTER.api_version,
        "kind": INTERNAL_MEMBER_CLUSTER.kind,
        "metadata": {
            "name": cluster,
            "namespace": member_namespace(cluster),
            "annotations": {ACCEPT_OLDER_UNTIL: handed_down, **({HUB_UID: hub_uid} if hub_uid else {})},
        },
        "spec": {"state": state.value, "heartbeatPeriodSeconds": period},
    }
    reasons = ("InternalMemberClusterCreated", "InternalMemberClusterSpecUpdated")
    return _repair(INTERNAL_MEMBER_CLUSTER, desired, stored, reasons, "spec")


def _repair(
    kind: Kind,
    desired: JsonObject,
    stored: JsonObject | None,
    reasons: tuple[str, str],
    *fields: str,
    immutable: str = "",
) -> Repair | None:
    """Return the repair of an object, or None if its labels, annotations, *fields* and *immutable* are as desired.

    Annotations with an empty desired value are removed.
    """
    name, (created_reason, updated_reason) = desired["metadata"]["name"], reasons
    if stored is None:
        metadata = {**desired["metadata"], "annotations": _merge({}, annotations_of(desired))}
        return Repair(kind, {**desired, "metadata": metadata}, None, created_reason, f"{kind.kind} {name} was created")
    if immutable and stored.get(immutable) != desired[immutable]:
        return Repair(
            kind,
            desired,
            stored,
            updated_reason,
            f"{kind.kind} {name} was recreated: its {immutable} differed",
            recreate=True,
        )
    wrong = [field for field in fields if stored.get(field) != desired[field]]
    metadata = stored["metadata"]
    for field in ("labels", "annotations"):
        current: Mapping[str, str] = stored["metadata"].get(field) or {}
        new_texts = _merge(current, desired["metadata"].get(field) or {})
        if new_texts != current:
            wrong.append(field)
            metadata = {**metadata, field: new_texts}
    if not wrong:
        return None
    document = {**stored, **{field: desired[field] for field in fields}, "metadata": metadata}
    return Repair(kind, document, stored, updated_reason, f"{kind.kind} {name}: {', '.join(wrong)} repaired")


def _merge(texts: Mapping[str, str], desired: Mapping[str, str]) -> dict[str, str]:
    """Return *texts* updated with *desired*. Keys whose desired text is empty are removed."""
    return {key: text for key, text in {**texts, **desired}.items() if text or key not in desired}
