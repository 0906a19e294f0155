"""Whether content on a member may go: only when the loop has said so, on the object that stands for it.

A deletion mark says that somebody deletes an object, not who, and not why: a definition that is removed, a namespace
that is cleared, ``kubectl delete --all`` leave the same mark as the loop. So the loop says first that it means it
(`scorer.rollout.intent`): the order. Everything else that can be seen on the hub, that something is missing,
unreadable, empty or on its way out, is none.

The order is handed down: from a placement, whose deletion is one, to its bindings, and from each binding to its Works.

Source: rollout.md 10 and 20. The reference removes what a Work has placed whenever the Work goes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from hashlib import sha256
from typing import Any

from scorer.api.documents import annotation
from scorer.api.kinds import split_api_version
from scorer.api.meta import dump_json
from scorer.api.names import KEEP, WORK_OBJECTS
from scorer.api.work import manifests_of


class Fate(Enum):
    """What is to be done about content on a member."""

    REMOVED = "it is deleted"
    RELEASED = "it stays, and is ours no longer"
    HANDED_OVER = "it stays, and another Work of its binding has it"
    KEPT = "it stays as it is, and ours"


@dataclass(frozen=True, slots=True)
class Content:
    """What is known of an object on a member that may have to go.

    Args:
        ours: We own it.
        shared: Others own it, too.
        marked: It is annotated to stay (`is_marked`).
        untouchable: The agent does nothing to it (`scorer.rollout.never_placed`): an earlier one has applied it.
        listed: Its Work still holds it.
        signed: What the Work holds is what the hub has written into it.
        going: The Work is on its way out, or gone.
        ordered: The loop has said of this very Work that its content is to go.
        abandoned: What the Work has placed is to stay when it goes.
        leaving: The member leaves the fleet, or its namespace on the hub is going.
        older: The Work is older than what was applied, and nobody has accepted that.
        inherited: Another Work of its binding holds it.
        unsettled: Another Work of its binding is of another snapshot: what it is going to hold is not known.
    """

    ours: bool = True
    shared: bool = False
    marked: bool = False
    untouchable: bool = False
    listed: bool = False
    signed: bool = False
    going: bool = False
    ordered: bool = False
    abandoned: bool = False
    leaving: bool = False
    older: bool = False
    inherited: bool = False
    unsettled: bool = False


def fate(content: Content) -> Fate:
    """Return what is to be done about an object: the only place where that is decided.

    What is untouchable stops being ours whether its end was asked for or not: else it would go with its owner.
    """
    asked = content.ordered if content.going else content.signed and not content.listed
    if not content.ours or content.leaving or content.older:
        return Fate.KEPT
    if content.untouchable:
        return Fate.RELEASED
    if not asked or (content.unsettled and not content.going):
        return Fate.KEPT
    if content.inherited:
        return Fate.HANDED_OVER
    if content.shared or content.marked or (content.going and content.abandoned):
        return Fate.RELEASED
    return Fate.REMOVED


def is_marked(live: Mapping[str, Any]) -> bool:
    """Say whether an object on a member is to stay there: somebody wants to have it when it is placed no longer.

    Meant for what was there before it was taken over. What else carries the mark stays as well: nobody can tell later
    who made an object, and one that is kept by mistake can still be deleted.
    """
    return annotation(live, KEEP) == "true"


def objects_digest(manifests: Iterable[Any]) -> str:
    """Return a text that is the same for Works that hold the same objects, whatever is in those and in any order."""
    return sha256(dump_json(sorted(_identity(manifest) for manifest in manifests))).hexdigest()[:32]


def is_signed(work: Mapping[str, Any]) -> bool:
    """Say whether a Work holds the objects that the hub has written into it.

    Not so: one that was emptied or edited by hand, one that lost its content to an older definition, and one of a hub
    that does not sign. What such a Work does not hold is not taken for unwanted.

    Raises:
        TypeError: What it holds cannot be read.
    """
    return annotation(work, WORK_OBJECTS) == objects_digest(manifests_of(work))


def _identity(manifest: Any) -> list[str]:
    if not isinstance(manifest, Mapping):
        return []
    about = manifest.get("metadata")
    about = about if isinstance(about, Mapping) else {}
    group, _ = split_api_version(str(manifest.get("apiVersion") or ""))
    return [group, *(str(text or "") for text in (manifest.get("kind"), about.get("namespace"), about.get("name")))]
