"""What goes, and in which order, when a placement is deleted; above all, what stays on the members.

``deleteStrategy.propagationPolicy: Abandon`` holds for a placement that is itself deleted, and for no other loss of a
cluster. By the time the Works are deleted the placement may be gone, so what it wanted is written down first: on each
binding before it is deleted, on each Work before it is deleted. That order is also what makes it safe: a crash
anywhere leaves nothing deleted that was not marked, and a Work that the work generator makes while the placement is
already going is marked when its turn to be deleted comes, like all others of its binding.

In the same way bindings and Works say before they are deleted that the loop means it (`scorer.rollout.intent`). A
binding that is going without that word was deleted by somebody else: its Works stay, and the scheduler makes it anew.

Source: rollout.md 18 and 20. KubeFleet has the field without an implementation.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from scorer.api.binding import BindingState
from scorer.api.documents import (
    annotation,
    is_deleting,
    name_of,
    namespace_of,
    spec_of,
    uid_of,
    with_metadata,
)
from scorer.api.meta import JsonObject
from scorer.rollout.eviction import EVICTED_BINDING, is_finished
from scorer.rollout.intent import is_meant, meant, unmeant
from scorer.rollout.works import ABANDON
from scorer.rollout.writes import Write, delete, replace


def leaves_objects(placement: Mapping[str, Any]) -> bool:
    """Say whether the objects of a placement stay on the members when it is deleted."""
    strategy = (spec_of(placement).get("strategy") or {}).get("deleteStrategy") or {}
    return strategy.get("propagationPolicy") == "Abandon"


def plan_binding_deletion(placement: JsonObject, bindings: Iterable[JsonObject]) -> list[Write]:
    """Return what takes all bindings of a placement away that is being deleted, in order.

    A binding that the loop takes away for another reason is left alone: its objects go, whatever the placement says.
    One that somebody else has deleted goes with the placement like all others.

    Args:
        placement: ClusterResourcePlacement or ResourcePlacement with a deletion mark.
        bindings: All of its bindings.
    """
    writes = []
    for binding in sorted(bindings, key=name_of):
        if is_deleting(binding) and is_to_go(binding):
            continue
        marked = binding
        if leaves_objects(placement) and annotation(binding, ABANDON) != "true":
            marked = with_metadata(marked, annotations={ABANDON: "true"})
        marked = meant(marked) or marked
        if marked is not binding:
            writes.append(replace(marked))
        if not is_deleting(binding):
            writes.append(delete(binding))
    return writes


def is_to_go(binding: Mapping[str, Any]) -> bool:
    """Say whether the loop wants the content of a binding gone from its cluster.

    Unscheduled is such a word, too: nobody but the loop writes it, when another decision has dropped the cluster.
    """
    return is_meant(binding) or spec_of(binding).get("state") == BindingState.UNSCHEDULED


def plan_words_taken_back(bindings: Iterable[JsonObject], evictions: Iterable[Mapping[str, Any]]) -> list[Write]:
    """Return what takes the words off bindings that they are to go, where nobody stands behind them any more.

    An eviction that was withdrawn between its word and the deletion leaves such a binding, and so does a placement that
    was on its way out when its definition went. Whoever deletes it later, by mistake, is not the loop. That its objects
    are abandoned is the word of a placement that goes, and taken back in any case.

    Args:
        bindings: All of a placement that stays.
        evictions: All there are.
    """
    said = [binding for binding in bindings if not is_deleting(binding)]
    said = [binding for binding in said if is_meant(binding) or annotation(binding, ABANDON)]
    if not said:
        return []
    behind = {annotation(eviction, EVICTED_BINDING) for eviction in evictions if not is_finished(eviction)}
    writes = []
    for binding in said:
        left = with_metadata(binding, annotations={ABANDON: None})
        if spec_of(binding).get("state") != BindingState.UNSCHEDULED and uid_of(binding) not in behind:
            left = unmeant(left)
        if left != binding:
            writes.append(replace(left))
    return writes


def is_abandoned(binding: Mapping[str, Any]) -> bool:
    """Say whether what a binding has placed stays when it goes."""
    return annotation(binding, ABANDON) == "true"


def plan_work_deletion(
    works: Iterable[JsonObject], member: Mapping[str, Any] | None, *, abandoned: bool
) -> list[Write]:
    """Return what takes Works away that are to go, in order; nothing when all are going.

    Each is told first that its content is to go, also one that somebody else has deleted; none of it when its member
    leaves the fleet: what is there stays.

    Args:
        works: Which.
        member: Their MemberCluster; None: gone.
        abandoned: Their content stays on the member, except for what the loop has ordered away before: that goes.
    """
    writes = []
    stays = member is not None and not is_deleting(member)
    for work in sorted(works, key=lambda work: (namespace_of(work), name_of(work))):
        said = (meant(work) or work) if stays else unmeant(work)
        ordered = is_deleting(work) and is_meant(work)
        if abandoned and not ordered and annotation(work, ABANDON) != "true":
            said = with_metadata(said, annotations={ABANDON: "true"})
        if said is not work:
            writes.append(replace(said))
        if not is_deleting(work):
            writes.append(delete(work))
    return writes
