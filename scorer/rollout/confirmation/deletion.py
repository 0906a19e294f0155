"""Judgment of a deleted placement: whether its content is removed, remains, or waits for confirmation.

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
from scorer.rollout.confirmation.policy import ConfirmationMode, RemovalPolicy, strictest
from scorer.rollout.object_size import namespace_identity
from scorer.rollout.removal.deletion import leaves_objects
from scorer.rollout.removal.marks import is_marked_for_removal

SEVERAL: Final = 2
"""Minimum number of clusters within the window at which the mode for deleted placements applies."""


class DeletionVerdict(Enum):
    """Verdict on the content of a deleted placement."""

    REMOVED = "it is removed, or remains according to the delete strategy"
    ABANDONED = "it remains: the placement's namespace is being deleted, which cannot wait for a confirmation"
    PENDING = "it waits for confirmation"


@dataclass(frozen=True, slots=True)
class DeletionJudgement:
    """The verdict on a deleted placement.

    Args:
        verdict: Verdict on its content.
        confirmable: Items that each confirm the removal: the placement, and the Namespace that is deleted with it.
        clusters: The clusters with content, sorted.
        digest: The digest that confirms the removal. Empty: unconfirmed.
        warned: Whether the content is removed with a warning.
    """

    verdict: DeletionVerdict
    confirmable: tuple[RemovalItem, ...]
    clusters: tuple[str, ...] = ()
    digest: str = ""
    warned: bool = False


def placement_item(placement: JsonObject) -> RemovalItem:
    """Return the item for the deletion of a placement. Its digest confirms that deletion."""
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
    """Return the verdict on the content of a placement that is being deleted or about to be deleted.

    Args:
        placement: ClusterResourcePlacement or ResourcePlacement.
        bindings: All of its bindings.
        policy: Removal policy of the placement.
        namespace: Its Namespace. None if the placement is cluster-scoped or the Namespace no longer exists.
        now: The current time.
        exempt: Whether all content of the placement is in exempt namespaces.
        snapshots: All of its policy snapshots, which record the clusters that it has lost.
    """
    content_bindings = (binding for binding in bindings if not is_marked_for_removal(binding) and has_content(binding))
    clusters = tuple(sorted({str(spec_of(binding).get("targetCluster") or "") for binding in content_bindings}))
    is_ending = bool(namespace_of(placement)) and (namespace is None or is_deleting(namespace))
    home = (_namespace_item(placement, namespace),) if is_ending else ()
    items = (placement_item(placement), *home)
    digest = _confirming_digest(placement, items, now)
    if digest or leaves_objects(placement) or exempt:
        return DeletionJudgement(DeletionVerdict.REMOVED, items, clusters, digest)
    # The window ends at the deletion request. Otherwise the mere passage of time would confirm the removal.
    text = metadata_of(placement).get("deletionTimestamp")
    cluster_count = clusters_held(snapshots, parse_time(text) if text else now, policy.window)
    modes = [policy.placement] if clusters and max(len(clusters), cluster_count) >= SEVERAL else []
    mode = strictest([*modes, *([policy.data] if is_ending else [])])
    if mode is ConfirmationMode.CONFIRM:
        verdict = DeletionVerdict.ABANDONED if is_ending else DeletionVerdict.PENDING
        return DeletionJudgement(verdict, items, clusters)
    warned = bool(clusters) and mode is ConfirmationMode.WARN
    return DeletionJudgement(DeletionVerdict.REMOVED, items, clusters, warned=warned)


def has_content(binding: JsonObject) -> bool:
    """Return whether the cluster of a binding may have content: the binding was bound once."""
    spec = spec_of(binding)
    return spec.get("state") != BindingState.SCHEDULED and bool(spec.get("resourceSnapshotName"))


def _namespace_item(placement: JsonObject, namespace: Mapping[str, Any] | None) -> RemovalItem:
    return RemovalItem(RemovalEffect.OBJECT, namespace_identity(namespace_of(placement)), uid_of(namespace or {}))


def _confirming_digest(placement: JsonObject, items: Iterable[RemovalItem], now: datetime) -> str:
    """Return the first digest that is confirmed, or on the placement's record, expired or not. Empty: unconfirmed."""
    confirmed = Confirmation.of(placement, now).digests | CarriedOut.of(placement).until.keys()
    digests = (item.digest(uid_of(placement)) for item in items)
    return next((digest for digest in digests if digest in confirmed), "")
