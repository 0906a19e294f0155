"""Identity of members and ownership of AppliedWorks. A member is identified by its hub and its name on that hub.

An AppliedWork is found by the name of its Work, and Works of two members, or of two hubs, may have equal names. An
agent that runs on the wrong cluster would find another member's AppliedWorks there, treat the objects that they own as
its own, and delete these objects with its Works. The owner is therefore written on each AppliedWork, and the agent
checks it before it acts.

A hub is identified by the uid of its namespace kube-system: the uid survives restarts and upgrades, a restored backup
of etcd brings it back, and no other cluster has it. The loop writes the uid on every InternalMemberCluster, since an
agent lacks the right to read that namespace. Other implementations do not write it, so only the names are compared.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from scorer.api.meta import JsonObject
from scorer.api.names import (
    HUB_UID,
    MEMBER_NAMESPACE_PREFIX,
    RELEASED,
    REMOVE,
    member_namespace,
)
from scorer.api.unstructured.documents import annotation, annotations_of, text_at, with_metadata, with_spec

IDENTITY_ACCEPTED = "IdentityAccepted"
"""Condition that is True if the agent runs on the right cluster. Absent until it has run on a wrong one."""

DISCOVERED_WORKS = "WorksFound"
"""Condition that is True if all AppliedWorks of the member have Works on the hub. Absent until one had none."""

REMOVE_APPLIED_WORK = (
    "run on the member: "
    f"kubectl annotate appliedwork NAME {REMOVE}=$(kubectl get appliedwork NAME -o jsonpath='{{.metadata.uid}}') "
    "&& kubectl delete appliedwork NAME"
)
"""Commands that remove an AppliedWork without a Work, with the objects that it owns."""


@dataclass(frozen=True, slots=True)
class HubMember:
    """A member as one hub knows it.

    Args:
        hub: The uid of the hub. Empty: the hub does not identify itself.
        namespace: The member's namespace on the hub.
    """

    hub: str
    namespace: str

    @classmethod
    def named(cls, cluster: str, hub: str = "") -> "HubMember":
        """Return the member with this name."""
        return cls(hub, member_namespace(cluster))

    @property
    def cluster(self) -> str:
        """Name of the member."""
        return self.namespace.removeprefix(MEMBER_NAMESPACE_PREFIX)

    def may_be(self, other: "HubMember") -> bool:
        """Return whether *other*, a recorded member, may be this member.

        A record without a hub matches any hub. A record with a hub does not match a hub that does not identify itself.
        """
        return self.namespace == other.namespace and other.hub in ("", self.hub)

    def __str__(self) -> str:
        return (
            f"member {self.cluster or '(none)'} of "
            f"{f'hub {self.hub}' if self.hub else 'a hub that does not identify itself'}"
        )


class AppliedWorkOwnership(Enum):
    """The owner of an AppliedWork, from the point of view of the member that finds it."""

    OURS = "it belongs to this member"
    UNMARKED = "it may belong to this member: it records no hub"
    LET_GO = "its member has released it: another member may take it over"
    ANOTHERS = "it belongs to another member"


def placed_by(applied_work: Mapping[str, Any]) -> HubMember:
    """Return the member that an AppliedWork names as its owner."""
    return HubMember(annotation(applied_work, HUB_UID), text_at(applied_work, "spec", "workNamespace"))


def ownership_of(applied_work: Mapping[str, Any], own_member: HubMember) -> AppliedWorkOwnership:
    """Return the owner of an AppliedWork from our point of view."""
    owner = placed_by(applied_work)
    if is_released(applied_work):
        return AppliedWorkOwnership.LET_GO
    if not own_member.may_be(owner):
        return AppliedWorkOwnership.ANOTHERS
    return AppliedWorkOwnership.OURS if owner.hub == own_member.hub else AppliedWorkOwnership.UNMARKED


def is_owned_by(applied_work: Mapping[str, Any], own_member: HubMember) -> bool:
    """Return whether the objects that an AppliedWork owns are ours, or may be."""
    return ownership_of(applied_work, own_member) in (AppliedWorkOwnership.OURS, AppliedWorkOwnership.UNMARKED)


def is_released(applied_work: Mapping[str, Any]) -> bool:
    """Return whether the owner has left or was replaced. Its objects are kept then, and any agent may adopt them."""
    return RELEASED in annotations_of(applied_work)


def released(applied_work: JsonObject) -> JsonObject:
    """Return an AppliedWork marked as released by its member."""
    return with_metadata(applied_work, annotations={RELEASED: "true"})


def adopted(applied_work: JsonObject, own_member: HubMember) -> JsonObject:
    """Return an AppliedWork marked as ours."""
    own_work = with_metadata(applied_work, annotations={HUB_UID: own_member.hub or None, RELEASED: None})
    return with_spec(own_work, workNamespace=own_member.namespace)


def refusal(record: HubMember | None, applied_works: Collection[JsonObject], own_member: HubMember) -> str:
    """Return why a cluster must not join as this member. Empty: it may.

    Args:
        record: The member as which an agent last joined here. None: unknown, no agent has joined or recorded it.
        applied_works: AppliedWorks on the cluster. They decide if there is no record: the cluster is refused if another
            member owns some of them, and this one owns none.
        own_member: The member that wants to join.
    """
    if record is not None:
        return "" if own_member.may_be(record) else f"this cluster is recorded as {record}, not as {own_member}"
    standings = [(ownership_of(applied_work, own_member), applied_work) for applied_work in applied_works]
    foreign = [ownership for state, ownership in standings if state is AppliedWorkOwnership.ANOTHERS]
    if foreign and len(foreign) == sum(state is not AppliedWorkOwnership.LET_GO for state, _ in standings):
        name, owner = foreign[0]["metadata"]["name"], placed_by(foreign[0])
        return f"this cluster holds objects placed for {owner} (AppliedWork {name}), and none placed for {own_member}"
    return ""
