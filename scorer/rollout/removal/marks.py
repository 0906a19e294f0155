"""Removal marks: the annotation that authorizes a removal, and the agent's decision about content.

A binding or a Work can be deleted in many ways: by hand, with its namespace, with its definition, by restoring a
backup. None of these is a reason to remove content from a member.

So the loop first marks the object for removal, by an annotation with the object's own uid, and then deletes it. The uid
invalidates the mark on a copy, or on an object recreated from a file. A controller or agent that sees an object being
deleted without the mark does not block the deletion, but keeps the content on the member.

The mark comes first because the two cannot be one write. A crash in between leaves a mark without a deletion: the next
pass deletes the object, or has other plans for it and removes the mark (`without_removal_mark`). In the other order, a
crash would leave a deletion that looks like another client's.

A deletion timestamp does not record which client deleted an object, nor why: removing a definition, clearing a
namespace and ``kubectl delete --all`` leave the same timestamp as the loop. To the agent, only the mark is an order to
remove, and no other state of the hub, not even that an object is missing, unreadable, empty or being deleted.

To the loop, the deletion of a placement is an order. It passes the order on to the bindings, and from each binding to
its Works.

Example: ``kubectl delete namespace`` on the hub deletes the Works of a member. None of them has a mark, so the agent
removes nothing, and the loop recreates the Works.

Source: docs/specifications/rollout.md 10 and 20. The reference removes the content of a Work whenever the Work is
deleted.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from hashlib import sha256
from typing import Any, Final

from scorer.api.kinds import split_api_version
from scorer.api.meta import JsonObject, dump_json
from scorer.api.names import KEEP, REMOVE, WORK_OBJECTS
from scorer.api.unstructured.documents import annotation, manifests_of, uid_of, with_metadata

REMOVED: Final = "Removed"
"""Type of the condition on a Work and a binding. On a placement, it is prefixed with the kind. It exists only while it
is False."""

FINALIZERS_REMAIN: Final = "FinalizersRemain"
"""Reason of that condition, and of an Event: objects on a member cannot be deleted."""


def with_removal_mark(document: JsonObject) -> JsonObject | None:
    """Return the object marked for removal, or None if it is marked already."""
    return None if is_marked_for_removal(document) else with_metadata(document, annotations={REMOVE: _uid(document)})


def without_removal_mark(document: JsonObject) -> JsonObject:
    """Return the object without the removal mark, or the same object if it has none."""
    if not annotation(document, REMOVE):
        return document
    return with_metadata(document, annotations={REMOVE: None})


def is_marked_for_removal(document: Mapping[str, Any]) -> bool:
    """Return whether the loop has marked this very object for removal."""
    uid = _uid(document)
    return bool(uid) and annotation(document, REMOVE) == uid


def _uid(document: Mapping[str, Any]) -> str:
    return uid_of(document)


class RemovalAction(Enum):
    """Action of the agent on content of a member."""

    REMOVED = "it is deleted"
    RELEASED = "it remains, and is no longer managed"
    HANDED_OVER = "it remains, and moves to another Work of its binding"
    KEPT = "it remains unchanged, and is still managed"


@dataclass(frozen=True, slots=True)
class RemovalFacts:
    """The facts about an object on a member that may have to be removed.

    Args:
        ours: The agent owns it.
        shared: It has other owners as well.
        marked: It is annotated to remain (`is_marked`).
        untouchable: An earlier release has applied it. This one never does (`scorer.rollout.selection.exclusions`).
        occupied: It is a CustomResourceDefinition, and deleting it would delete objects that did not come from Works.
        compared: The Work only compares, and the object was never applied: an earlier agent took it over to compare it.
        listed: Its Work still holds it.
        signed: The Work holds exactly the objects that the hub has written into it.
        going: The Work is deleted or being deleted.
        ordered: The loop has ordered, on this very Work, the removal of its content.
        abandoned: The content of the Work remains when the Work is deleted.
        leaving: The member is leaving the fleet, or its namespace on the hub is being deleted.
        older: The Work is older than what was applied, and no user has accepted that.
        inherited: Another Work of the same binding holds it.
        unsettled: Another Work of the same binding belongs to another snapshot. Its next content is not known yet.
    """

    ours: bool = True
    shared: bool = False
    marked: bool = False
    untouchable: bool = False
    occupied: bool = False
    compared: bool = False
    listed: bool = False
    signed: bool = False
    going: bool = False
    ordered: bool = False
    abandoned: bool = False
    leaving: bool = False
    older: bool = False
    inherited: bool = False
    unsettled: bool = False

    @property
    def is_untouchable(self) -> bool:
        """Whether the agent must neither write nor remove the object."""
        return self.untouchable or self.compared

    @property
    def outlives_owner(self) -> bool:
        """Whether the object is kept without another owner: our reference must be removed before its AppliedWork is."""
        return self.marked or self.is_untouchable or self.abandoned or self.occupied


def removal_action(content: RemovalFacts) -> RemovalAction:
    """Return the action of the agent on an object. No other function decides this.

    An object is kept unchanged if the agent does not own it, the member is leaving, or the Work is older. Otherwise, an
    object that the agent must not touch is released whether or not its removal was ordered: garbage collection would
    delete it with its owner.

    Example: a Work no longer lists Deployment ``web``. If the hub has signed the Work's content, the Deployment is
    removed. If not, a user may have edited the Work by hand, and the Deployment is kept.
    """
    requested = content.ordered if content.going else content.signed and not content.listed
    if not content.ours or content.leaving or content.older:
        return RemovalAction.KEPT
    if content.is_untouchable:
        return RemovalAction.RELEASED
    # Unsettled: the other Work may be about to take the object over. If deleted now, it would be recreated without its
    # state on the member. The agent decides again once that Work has been written.
    if not requested or (content.unsettled and not content.going):
        return RemovalAction.KEPT
    if content.inherited:
        return RemovalAction.HANDED_OVER
    if content.shared or content.marked or content.occupied or (content.going and content.abandoned):
        return RemovalAction.RELEASED
    return RemovalAction.REMOVED


def is_marked(live: Mapping[str, Any]) -> bool:
    """Return whether an object on a member is annotated to remain there when it is no longer placed.

    The mark is meant for objects that existed before they were taken over. Any other object with the mark remains as
    well: it cannot be known later who created an object, and a user can still delete one that was kept by mistake.
    """
    return annotation(live, KEEP) == "true"


def objects_digest(manifests: Iterable[Any]) -> str:
    """Return a digest of the identities of a Work's objects, independent of their content and order."""
    return sha256(dump_json(sorted(_identity(manifest) for manifest in manifests))).hexdigest()[:32]


def has_hub_signature(work: Mapping[str, Any]) -> bool:
    """Return whether a Work holds the objects that the hub has written into it.

    It does not if a user emptied or edited it by hand, if an older definition dropped its content, or if its hub does
    not sign. An object that is missing from such a Work does not count as unwanted.

    Raises:
        TypeError: The content of the Work cannot be parsed.
    """
    return annotation(work, WORK_OBJECTS) == objects_digest(manifests_of(work))


def _identity(manifest: Any) -> list[str]:
    if not isinstance(manifest, Mapping):
        return []
    about = manifest.get("metadata")
    about = about if isinstance(about, Mapping) else {}
    group, _ = split_api_version(str(manifest.get("apiVersion") or ""))
    return [group, *(str(text or "") for text in (manifest.get("kind"), about.get("namespace"), about.get("name")))]
