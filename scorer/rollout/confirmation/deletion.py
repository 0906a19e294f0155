"""Judgement of a placement that is deleted: whether its content is removed, stays, or waits for confirmation.

Source: docs/specifications/removal.md 8.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any, Final

from scorer.api.kinds import group_kind
from scorer.api.meta import JsonObject, parse_time
from scorer.api.placement.binding import BindingState
from scorer.api.unstructured.documents import is_deleting, metadata_of, name_of, namespace_of, spec_of, uid_of
from scorer.rollout.confirmation.clusters import clusters_held
from scorer.rollout.confirmation.digests import CarriedOut, Confirmation, RemovalEffect, RemovalItem
from scorer.rollout.confirmation.objects import namespace_identity
from scorer.rollout.confirmation.policy import ConfirmationMode, RemovalPolicy, strictest
from scorer.rollout.removal.deletion import leaves_objects
from scorer.rollout.removal.marks import is_marked_for_removal

SEVERAL: Final = 2
"""From this number of clusters within the window on, deleting a placement is judged."""


class DeletionVerdict(Enum):
    """Verdict on the content of a deleted placement."""

    REMOVED = "it is removed, or stays as the delete strategy says"
    ABANDONED = "it stays: its namespace is being deleted, and cannot wait"
    PENDING = "it waits for confirmation"


@dataclass(frozen=True, slots=True)
class DeletionJudgement:
    """The verdict on a deleted placement.

    Args:
        verdict: Verdict on its content.
        confirmable: Any of these has to be confirmed: the placement, or the Namespace that it ends with.
        clusters: The clusters with content, sorted.
        digest: The digest by which the removal is confirmed. Empty: it is not.
        warned: It is removed with a warning.
    """

    verdict: DeletionVerdict
    confirmable: tuple[RemovalItem, ...]
    clusters: tuple[str, ...] = ()
    digest: str = ""
    warned: bool = False


def placement_item(placement: JsonObject) -> RemovalItem:
    """Return what to confirm when a placement is deleted."""
    group, kind = group_kind(placement)
    identity = group, kind, namespace_of(placement), name_of(placement)
    return RemovalItem(RemovalEffect.PLACEMENT, identity, uid_of(placement))


def judge_deletion(
    placement: JsonObject,
    bindings: Iterable[JsonObject],
    policy: RemovalPolicy,
    namespace: Mapping[str, Any] | None,
    now: datetime,
    *,
    exempt: bool = False,
    snapshots: Iterable[JsonObject] = (),
) -> DeletionJudgement:
    """Return what becomes of the content of a placement that is deleted, or about to be.

    Args:
        placement: ClusterResourcePlacement or ResourcePlacement.
        bindings: All of its bindings.
        policy: Of the placement.
        namespace: Its Namespace. None: it is cluster-scoped, or the Namespace is gone.
        now: The present time.
        exempt: All that it places is in exempt namespaces.
        snapshots: All of its policy snapshots, which have the record of clusters that it left.
    """
    unordered = (each for each in bindings if not is_marked_for_removal(each) and has_content(each))
    clusters = tuple(sorted({str(spec_of(each).get("targetCluster") or "") for each in unordered}))
    is_ending = bool(namespace_of(placement)) and (namespace is None or is_deleting(namespace))
    home = (_namespace_item(placement, namespace),) if is_ending else ()
    items = (placement_item(placement), *home)
    digest = _accepted(placement, items, now)
    if digest or leaves_objects(placement) or exempt:
        return DeletionJudgement(DeletionVerdict.REMOVED, items, clusters, digest)
    # By the time of the deletion: the end of the window confirms nothing.
    text = metadata_of(placement).get("deletionTimestamp")
    held = clusters_held(snapshots, parse_time(text) if text else now, policy.window)
    modes = [policy.placement] if clusters and max(len(clusters), held) >= SEVERAL else []
    mode = strictest([*modes, *([policy.data] if is_ending else [])])
    if mode is ConfirmationMode.CONFIRM:
        verdict = DeletionVerdict.ABANDONED if is_ending else DeletionVerdict.PENDING
        return DeletionJudgement(verdict, items, clusters)
    warned = bool(clusters) and mode is ConfirmationMode.WARN
    return DeletionJudgement(DeletionVerdict.REMOVED, items, clusters, warned=warned)


def has_content(binding: JsonObject) -> bool:
    """Return whether a binding may stand for content on its cluster: it was bound once."""
    spec = spec_of(binding)
    return spec.get("state") != BindingState.SCHEDULED and bool(spec.get("resourceSnapshotName"))


def _namespace_item(placement: JsonObject, namespace: Mapping[str, Any] | None) -> RemovalItem:
    return RemovalItem(RemovalEffect.OBJECT, namespace_identity(namespace_of(placement)), uid_of(namespace or {}))


def _accepted(placement: JsonObject, items: Iterable[RemovalItem], now: datetime) -> str:
    """Return the digest of an item that is confirmed; of one that was confirmed before, even if that has expired."""
    confirmed = Confirmation.of(placement, now).digests | CarriedOut.of(placement).until.keys()
    digests = (item.digest(uid_of(placement)) for item in items)
    return next((digest for digest in digests if digest in confirmed), "")
