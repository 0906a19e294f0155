"""From a scheduling decision to the bindings that have to be written.

Order: new bindings, then re-picked bindings, then dropped bindings. If the process ends in between, the placement is on
too many clusters until the next run, and never on too few.

Source: docs/specifications/scheduling.md 3 (step 6) and 4; DV-14.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Any, Final

from scorer.api.meta import JsonObject, format_time
from scorer.api.names import (
    PARENT_PLACEMENT,
    PREVIOUS_BINDING_STATE,
    REMOVAL_PENDING,
    REMOVE,
    REPLACEMENT,
    SCHEDULER_BINDING_CLEANUP,
    UNSCHEDULED_AT,
)
from scorer.api.placement.binding import BindingState, previous_state
from scorer.api.unstructured.documents import name_of, spec_of, with_metadata
from scorer.placement.holdings import Binding
from scorer.placement.record import picked_decision
from scorer.placement.schedule import ScheduleResult
from scorer.plugins.cluster_eligibility import ineligibility

_STATES = frozenset(BindingState)
_NONE_TAKEN: Final = frozenset[str]().__contains__


@dataclass(frozen=True, slots=True)
class BindingPlan:
    """Documents to write: those to create, then those to replace."""

    create: tuple[JsonObject, ...] = ()
    replace: tuple[JsonObject, ...] = ()


@dataclass(frozen=True, slots=True)
class Drops:
    """Rules for writing dropped bindings.

    Args:
        now: The time to write on them. None: unset.
        annotations: Additional annotations, by name of the binding.
        replaced: Value of the annotation that marks new bindings as replacements of dropped ones. Empty: they replace
            none.
    """

    now: datetime | None = None
    annotations: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    replaced: str = ""


_PLAIN_DROPS: Final = Drops()


class BrokenBindingError(Exception):
    """A binding is unusable. The run stops until a user repairs or deletes it."""


def is_readable(document: Mapping[str, Any]) -> bool:
    """Return whether `read_binding` can read a binding. An unreadable one stops the run."""
    return str(spec_of(document).get("state")) in _STATES


def read_binding(document: Mapping[str, Any], snapshot: str) -> Binding:
    """Read a ClusterResourceBinding or ResourceBinding as scheduling sees it.

    Args:
        document: The stored binding.
        snapshot: Name of the latest policy snapshot.

    Raises:
        BrokenBindingError: ``spec.state`` is none of the three states.
    """
    metadata, spec = document["metadata"], document["spec"]
    state = spec.get("state")
    if state not in _STATES:
        raise BrokenBindingError(
            f"binding {metadata['name']}: spec.state: {str(state)[:64]!r} is not a valid state of a binding"
        )
    score = (spec.get("clusterDecision") or {}).get("clusterScore")
    policy_snapshot = spec.get("schedulingPolicySnapshotName")
    return Binding(
        name=metadata["name"],
        cluster=spec.get("targetCluster") or "",
        state=BindingState(state),
        current=policy_snapshot == snapshot,
        deleting=bool(metadata.get("deletionTimestamp")),
        topology=None if score is None else score.get("priorityScore") or 0,
        affinity=None if score is None else score.get("affinityScore") or 0,
        previous_state=previous_state(document),
        snapshot=str(policy_snapshot or ""),
        since=str(metadata.get("creationTimestamp") or ""),
    )


def plan_bindings(
    run: ScheduleResult,
    placement: Mapping[str, Any],
    snapshot: str,
    documents: Iterable[JsonObject],
    blank: JsonObject,
    *,
    lost_bindings: Iterable[JsonObject] = (),
    is_taken: Callable[[str], bool] = _NONE_TAKEN,
    drops: Drops = _PLAIN_DROPS,
) -> BindingPlan:
    """Return the bindings to create and to replace, so that those of a placement match a decision.

    A lost binding that the decision keeps is created as it was. One that the decision drops is created as Unscheduled,
    so that the rollout removes its content. It is not created while its cluster is ineligible, for example because no
    heartbeat has arrived since the hub was restored. Otherwise a member that was only silent would lose its content.

    Args:
        run: The decision.
        placement: The placement that the bindings belong to.
        snapshot: Name of the policy snapshot that was scheduled.
        documents: The bindings as stored.
        blank: ``apiVersion`` and ``kind`` of a new binding.
        lost_bindings: Bindings that the decision counted although they are not stored (`scorer.rollout.works.orphans`).
        is_taken: Returns whether a binding of another placement has that name.
        drops: Rules for writing dropped bindings, and new bindings in the same plan.

    Raises:
        BrokenBindingError: A binding waiting for removal is picked again but has no record of its earlier state.
    """
    existing = {name_of(document): document for document in documents}
    missing = {name_of(document): document for document in lost_bindings}
    documents_by_name = existing | missing
    names = set(documents_by_name)
    create, changed = [], []
    for pick in run.picked:
        decision = picked_decision(run, pick)
        old = run.holdings.by_cluster.get(pick.cluster)
        if old is None:
            new = _new_binding(
                placement,
                decision,
                snapshot,
                documents_by_name.values(),
                blank,
                lambda name: name in names or is_taken(name),
            )
            names.add(name_of(new))
            create.append(with_metadata(new, annotations={REPLACEMENT: drops.replaced}) if drops.replaced else new)
        else:
            changed.append(_repicked_binding(documents_by_name[old.name], old, snapshot, decision))
    dropped_bindings = (
        binding for binding in run.dropped if binding.name in existing or _is_eligible(run, binding.cluster)
    )
    changed += (_dropped_binding(documents_by_name[binding.name], binding, drops) for binding in dropped_bindings)
    create += (missing[binding.name] for binding in run.kept if binding.name in missing)
    create += (document for document in changed if name_of(document) in missing)
    return BindingPlan(tuple(create), tuple(document for document in changed if name_of(document) in existing))


def _is_eligible(run: ScheduleResult, cluster: str) -> bool:
    row = run.fleet.row(cluster)
    return row is not None and ineligibility(run.fleet, row, run.now) is None


def _free_name(
    placement: Mapping[str, Any], cluster: str, documents: Iterable[JsonObject], is_taken: Callable[[str], bool]
) -> str:
    """Return the name of a new binding.

    It ends in 8 hexadecimal characters. They are derived from the placement, the cluster, and the bindings of the
    placement that exist there. A create request may succeed although its response is lost: the retry then uses the same
    name and gets a conflict. With random names, it would create a second binding.

    Truncated names may differ only in these 8 characters. Among 100,000 such bindings, two equal names are likely.
    """
    on_cluster = (document for document in documents if document["spec"].get("targetCluster") == cluster)
    uids = sorted(document["metadata"].get("uid") or document["metadata"]["name"] for document in on_cluster)
    parts = [placement["metadata"].get("uid", ""), cluster, *uids]
    while True:
        suffix = sha256("/".join(parts).encode()).hexdigest()[:8]
        name = binding_name(placement["metadata"]["name"], cluster, suffix)
        if not is_taken(name):
            return name
        parts.append(suffix)


def binding_name(placement: str, cluster: str, suffix: str) -> str:
    """Return the name of a new binding: at most 63 characters. A truncated part ends in a letter or digit."""
    return f"{placement[:26].rstrip('-.')}-{cluster[:27].rstrip('-.')}-{suffix}"


def lost_binding(
    placement: Mapping[str, Any],
    cluster: str,
    snapshot: str,
    documents: Iterable[JsonObject],
    blank: JsonObject,
    is_taken: Callable[[str], bool] = _NONE_TAKEN,
) -> JsonObject:
    """Return a binding in place of one that was lost. The decision determines whether the cluster is kept or dropped.

    Args:
        placement: The placement that lost the binding.
        cluster: The cluster of the lost binding.
        snapshot: Name of the latest policy snapshot.
        documents: All bindings of the placement as stored.
        blank: ``apiVersion`` and ``kind``.
        is_taken: Returns whether a binding of another placement has that name.
    """
    reason = f"the placement's objects were still on {cluster} when its binding was lost"
    decision = {"clusterName": cluster, "selected": True, "reason": reason}
    return _new_binding(placement, decision, snapshot, documents, blank, is_taken)


def _new_binding(
    placement: Mapping[str, Any],
    decision: JsonObject,
    snapshot: str,
    documents: Iterable[JsonObject],
    blank: JsonObject,
    is_taken: Callable[[str], bool],
) -> JsonObject:
    """Return the binding to create for a cluster that was picked.

    Args:
        placement: The placement that the binding belongs to.
        decision: The decision about the cluster, which contains its name.
        snapshot: Name of the policy snapshot under which the cluster was picked.
        documents: All bindings of the placement as stored.
        blank: ``apiVersion`` and ``kind``.
        is_taken: Returns whether a binding of another placement has that name.
    """
    owner, cluster = placement["metadata"], decision["clusterName"]
    metadata: JsonObject = {
        "name": _free_name(placement, cluster, documents, is_taken),
        "labels": {PARENT_PLACEMENT: owner["name"]},
        "finalizers": [SCHEDULER_BINDING_CLEANUP],
    }
    if owner.get("namespace"):
        metadata["namespace"] = owner["namespace"]
    spec = {
        "state": str(BindingState.SCHEDULED),
        "resourceSnapshotName": "",
        "schedulingPolicySnapshotName": snapshot,
        "targetCluster": cluster,
        "clusterDecision": decision,
    }
    return {**blank, "metadata": metadata, "spec": spec}


def _repicked_binding(document: JsonObject, old: Binding, snapshot: str, decision: JsonObject) -> JsonObject:
    state = old.state
    metadata = document["metadata"]
    if state is BindingState.UNSCHEDULED:
        if old.previous_state is None:
            raise BrokenBindingError(f"binding {old.name} is Unscheduled and has no record of its previous state")
        state = old.previous_state
        # REMOVE must not remain on a re-picked binding: a deletion by another client would look like the loop's.
        obsolete_annotations = (PREVIOUS_BINDING_STATE, UNSCHEDULED_AT, REMOVAL_PENDING, REMOVE)
        annotations = {key: value for key, value in metadata["annotations"].items() if key not in obsolete_annotations}
        metadata = {**metadata, "annotations": annotations}
    changed = {"state": str(state), "schedulingPolicySnapshotName": snapshot, "clusterDecision": decision}
    return {**document, "metadata": metadata, "spec": {**document["spec"], **changed}}


def _dropped_binding(document: JsonObject, old: Binding, drops: Drops) -> JsonObject:
    metadata = document["metadata"]
    annotations = {**(metadata.get("annotations") or {}), PREVIOUS_BINDING_STATE: str(old.state)}
    if drops.now is not None:
        annotations[UNSCHEDULED_AT] = format_time(drops.now)
    annotations |= drops.annotations.get(old.name, {})
    if annotations.get(REMOVAL_PENDING):
        del annotations[PREVIOUS_BINDING_STATE]
    spec = {**document["spec"], "state": str(BindingState.UNSCHEDULED)}
    return {**document, "metadata": {**metadata, "annotations": annotations}, "spec": spec}
