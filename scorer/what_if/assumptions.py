"""Placements that count as rolled out because a hub has none of their snapshots.

The files of a GitOps repository have placements without bindings and snapshots, and a dump may lack the snapshots. A
change to such a hub is compared with the state that the hub would reach without the change.

Source: docs/specifications/what-if.md 1.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from scorer.api.family import FAMILIES, family_in
from scorer.api.kinds import group_kind
from scorer.api.meta import JsonObject, format_time
from scorer.api.unstructured.documents import dict_at, is_deleting, metadata_of, name_of, namespace_of, spec_of, text_at
from scorer.placement.binding_plan import BrokenBindingError
from scorer.rollout.apply_strategy import effective_apply_strategy
from scorer.rollout.bindings import NO_OVERRIDES, bound, snapshot_index
from scorer.rollout.selection.selector import Selection
from scorer.rollout.snapshots.groups import SnapshotGroup, snapshot_groups
from scorer.rollout.snapshots.resources import UNTHROTTLED, plan_resource_snapshots
from scorer.rollout.views.preview import ready_conditions
from scorer.rollout.writes import applied
from scorer.what_if.changed import Changed
from scorer.what_if.changes import unchanged
from scorer.what_if.content import select_content
from scorer.what_if.overrides import overrides_of_placement
from scorer.what_if.scheduling import scheduled
from scorer.what_if.state import HubState, HypotheticalChanges, ObjectKey, identity_of


@dataclass(slots=True)
class _Assumed:
    """Assumed objects, and the placements that they belong to."""

    placements: list[ObjectKey] = field(default_factory=list)
    bindings: list[JsonObject] = field(default_factory=list)
    policy_snapshots: list[JsonObject] = field(default_factory=list)
    resource_snapshots: list[JsonObject] = field(default_factory=list)


def settled_placements(
    state: HubState, changes: HypotheticalChanges, adopted: Iterable[JsonObject], *, await_runs: bool = True
) -> Collection[ObjectKey]:
    """Return the placements of a hub that count as scheduled, see `with_assumed_rollouts`.

    Args:
        state: The hub.
        changes: The changes.
        adopted: Objects of the hub that are also changes.
        await_runs: Whether a placement that a staged update run names is still to be rolled out by that run.
    """
    placements = {identity_of(placement) for placement in state.placements} - set(map(identity_of, adopted))
    if not await_runs:
        return placements
    run_kinds = {family.run.group_kind for family in FAMILIES}
    runs = (*state.runs, *(document for document in changes.objects if group_kind(document) in run_kinds))
    updated = {(namespace_of(run), text_at(run, "spec", "placementName")) for run in runs}
    return {identity for identity in placements if (identity.namespace, identity.name) not in updated}


def with_assumed_rollouts(state: HubState, settled: Collection[ObjectKey]) -> tuple[HubState, Sequence[ObjectKey]]:
    """Return the hub with assumed snapshots of placements that have none, and these placements.

    The content of such a placement counts as rolled out to all of its bindings that name a snapshot.

    Args:
        state: The hub.
        settled: Placements that also count as scheduled if the hub has neither bindings nor policy snapshots of them.
    """
    hub, assumed = unchanged(state), _Assumed()
    for placement in state.placements:
        if is_deleting(placement) or state.resource_snapshots_of(placement):
            continue
        bindings = state.bindings_of(placement)
        if bindings:
            _roll_out(placement, bindings, hub, assumed)
        elif identity_of(placement) in settled and not state.policy_snapshots_of(placement):
            _settle(placement, hub, assumed)
    # The override controller is about to create these snapshots. An edited override must not reuse their names.
    state = replace(state, override_snapshots=hub.state.override_snapshots)
    if not assumed.placements:
        return state, ()
    bindings_by_key = {identity_of(binding): binding for binding in state.bindings}
    bindings_by_key |= {identity_of(binding): binding for binding in assumed.bindings}
    new_state = replace(
        state,
        bindings=list(bindings_by_key.values()),
        policy_snapshots=[*state.policy_snapshots, *assumed.policy_snapshots],
        resource_snapshots=[*state.resource_snapshots, *assumed.resource_snapshots],
    )
    return new_state, assumed.placements


def _roll_out(placement: JsonObject, bindings: Iterable[JsonObject], hub: Changed, assumed: _Assumed) -> None:
    """Assume that all bindings with content have the newest snapshot among them, with the present content."""
    with_content = [binding for binding in bindings if text_at(binding, "spec", "resourceSnapshotName")]
    names = [text_at(binding, "spec", "resourceSnapshotName") for binding in with_content]
    if not names:
        return
    group = _group(placement, max(snapshot_index(name) or 0 for name in names), hub)
    assumed.placements.append(identity_of(placement))
    assumed.resource_snapshots += group.documents
    assumed.bindings += [
        {**binding, "spec": {**spec_of(binding), "resourceSnapshotName": group.name}} for binding in with_content
    ]


def _settle(placement: JsonObject, hub: Changed, assumed: _Assumed) -> None:
    """Assume that a placement has been scheduled and rolled out."""
    strategy = dict_at(placement, "spec", "strategy")
    try:
        schedule = scheduled(hub.state, placement)
    except BrokenBindingError:
        return
    group = _group(placement, 0, hub)
    clusters = [text_at(binding, "spec", "targetCluster") for binding in schedule.bindings]
    overrides = overrides_of_placement(hub.state, placement, group, clusters)
    kind = family_in(namespace_of(placement)).binding
    applies = effective_apply_strategy(strategy.get("applyStrategy"))
    conditions = [{**condition, "observedGeneration": 1} for condition in ready_conditions(strategy).values()]
    for cluster, binding in zip(clusters, schedule.bindings, strict=True):
        document = bound(binding, group.name, overrides.get(cluster, NO_OVERRIDES))
        metadata = {**metadata_of(document), "generation": 1, "creationTimestamp": format_time(hub.state.now)}
        assumed.bindings.append(
            {
                "apiVersion": kind.api_version,
                "kind": kind.kind,
                "metadata": metadata,
                "spec": {**spec_of(document), "applyStrategy": applies},
                "status": {"conditions": conditions},
            }
        )
    assumed.placements.append(identity_of(placement))
    assumed.policy_snapshots += schedule.policy_snapshots
    assumed.resource_snapshots += group.documents


def _group(placement: JsonObject, index: int, hub: Changed) -> SnapshotGroup:
    """Return the snapshot group of an index with the present content. An invalid selection counts as empty."""
    selection = select_content(placement, (), hub)
    objects = selection.objects if isinstance(selection, Selection) else ()
    used = [{"spec": {"resourceSnapshotName": f"{name_of(placement)}-{index - 1}-snapshot"}}] if index else []
    plan = plan_resource_snapshots(placement, (), objects, hub.state.now, UNTHROTTLED, bindings=used)
    return snapshot_groups(applied((), plan.writes))[-1]
