"""Whose a member cluster is, and whose an AppliedWork on it: a member is known by its hub and by its name there.

An AppliedWork is found by the name of its Work, and Works of two members, or of two hubs, may well have the same name.
An agent at the wrong cluster would find the AppliedWorks of another there, take what they own for its own, and delete
it with its Works. So whose something is has to be written on it, and is asked before anything is done.

A hub is told apart by the uid of its namespace kube-system: it stays with restarts and upgrades, comes back with a
backup of etcd, and no other cluster has it. The loop writes it on every InternalMemberCluster, since an agent may not
read that namespace. A hub of another make says nothing; then the names alone are compared.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from scorer.api.documents import annotation, annotations_of, text_at, with_metadata, with_spec
from scorer.api.meta import JsonObject
from scorer.api.names import (
    HUB_UID,
    LET_GO,
    MEMBER_NAMESPACE_PREFIX,
    member_namespace,
)


@dataclass(frozen=True, slots=True)
class HubMember:
    """A member as one hub knows it.

    Args:
        hub: The uid of the hub; empty: the hub does not say.
        namespace: The member's namespace there.
    """

    hub: str
    namespace: str

    @classmethod
    def named(cls, cluster: str, hub: str = "") -> "HubMember":
        """Return the member of this name."""
        return cls(hub, member_namespace(cluster))

    @property
    def cluster(self) -> str:
        """Its name."""
        return self.namespace.removeprefix(MEMBER_NAMESPACE_PREFIX)

    def may_be(self, other: "HubMember") -> bool:
        """Say whether *other*, as it was written down, is this one: a hub that was not written down may be any.

        A hub that does not say which it is, is not the one that was written down.
        """
        return self.namespace == other.namespace and other.hub in ("", self.hub)

    def __str__(self) -> str:
        return (
            f"member {self.cluster or '(none)'} of {f'hub {self.hub}' if self.hub else 'a hub that does not say which'}"
        )


class Standing(Enum):
    """How an AppliedWork stands to the member that finds it."""

    OURS = "it is ours"
    UNMARKED = "it may be ours, and its hub was not written down"
    LET_GO = "whoever had it has let go of it: it may be taken over"
    ANOTHERS = "it is another's"


def placed_by(applied_work: Mapping[str, Any]) -> HubMember:
    """Return whose an AppliedWork is, as it says itself."""
    return HubMember(annotation(applied_work, HUB_UID), text_at(applied_work, "spec", "workNamespace"))


def standing(applied_work: Mapping[str, Any], us: HubMember) -> Standing:
    """Say how an AppliedWork stands to us."""
    theirs = placed_by(applied_work)
    if is_let_go(applied_work):
        return Standing.LET_GO
    if not us.may_be(theirs):
        return Standing.ANOTHERS
    return Standing.OURS if theirs.hub == us.hub else Standing.UNMARKED


def is_ours(applied_work: Mapping[str, Any], us: HubMember) -> bool:
    """Say whether what an AppliedWork owns is ours."""
    return standing(applied_work, us) in (Standing.OURS, Standing.UNMARKED)


def is_let_go(applied_work: Mapping[str, Any]) -> bool:
    """Say whether its member has left, or was taken over: nobody removes what it owns, and anybody may take it over."""
    return LET_GO in annotations_of(applied_work)


def let_go(applied_work: JsonObject) -> JsonObject:
    """Return an AppliedWork that its member has let go of."""
    return with_metadata(applied_work, annotations={LET_GO: "true"})


def taken_up(applied_work: JsonObject, us: HubMember) -> JsonObject:
    """Return an AppliedWork as ours."""
    marked = with_metadata(applied_work, annotations={HUB_UID: us.hub or None, LET_GO: None})
    return with_spec(marked, workNamespace=us.namespace)


def refusal(recorded: HubMember | None, applied_works: Collection[JsonObject], us: HubMember) -> str:
    """Say why a cluster must not be this member, empty when it may.

    Args:
        recorded: Whose the cluster was when an agent joined last; None: nobody's, or none that wrote it down.
        applied_works: On the cluster. They decide when nothing is recorded: some are another's, and none is ours.
        us: Who wants to join.
    """
    if recorded is not None:
        return "" if us.may_be(recorded) else f"this cluster is recorded as {recorded}, not as {us}"
    standings = [(standing(each, us), each) for each in applied_works]
    foreign = [each for found, each in standings if found is Standing.ANOTHERS]
    if foreign and len(foreign) == sum(found is not Standing.LET_GO for found, _ in standings):
        name, theirs = foreign[0]["metadata"]["name"], placed_by(foreign[0])
        return f"on this cluster there is what was placed for {theirs} (AppliedWork {name}), and nothing of {us}"
    return ""
