"""What a rollout is planned from, as the cache knows it: for the controller that carries it out, and for answers.

An answer about a rollout is only right if it says what the controller would do, so both plan from what is gathered
here.

Source: rollout.md 7.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from scorer.api.documents import spec_of
from scorer.api.family import Family
from scorer.api.meta import JsonObject
from scorer.rollout.bindings import BindingView, Overrides, views
from scorer.rollout.planner import RolloutPlan, Wanted, plan_rollout
from scorer.rollout.promises import with_promises
from scorer.rollout.resource_snapshots import latest_group, snapshot_groups
from webhook.kube.cache import Cache
from webhook.kube.children import children, without_works
from webhook.kube.overrides import wanted_overrides


@dataclass(frozen=True, slots=True)
class RolloutState:
    """One placement and all that its rollout depends on, except what else goes on at its clusters.

    Args:
        wanted: How many clusters the placement asks for.
        strategy: Its ``spec.strategy``; None when absent.
        bindings: All of its bindings, in the order of their names.
        snapshot: Name of the latest master resource snapshot. None: unset, before the first one or while its group is
            incomplete. No binding moves to an incomplete group, and none moves back from it.
        overrides: The override lists wanted, by cluster; a cluster not named has none.
    """

    wanted: Wanted
    strategy: Mapping[str, Any] | None
    bindings: Sequence[BindingView]
    snapshot: str | None
    overrides: Mapping[str, Overrides]

    @property
    def clusters(self) -> list[str]:
        """The clusters of the bindings, each once, sorted."""
        return sorted({binding.cluster for binding in self.bindings})

    def plan(
        self, now: datetime, *, promised: Collection[str], held: Collection[str], removal_needs_budget: bool
    ) -> RolloutPlan:
        """Plan one reconcile; see `plan_rollout`.

        Args:
            now: The present instant; aware.
            promised: Clusters on which others have reserved to change the placement: they count as changed, and are
                left as they are.
            held: Clusters that are being disrupted by something else.
            removal_needs_budget: Whether removals wait for the limits also where the binding has failed, or where
                no cluster is wanted any more.
        """
        return plan_rollout(
            self.wanted,
            self.strategy,
            with_promises(self.bindings, promised),
            self.snapshot,
            now,
            overrides=self.overrides,
            removal_needs_budget=removal_needs_budget,
            held={*held, *promised},
        )


def rollout_state(
    cache: Cache, family: Family, placement: JsonObject, bindings: Sequence[JsonObject], *, works_known: bool
) -> RolloutState:
    """Gather what the rollout of a placement is planned from.

    Args:
        cache: The hub's objects.
        family: Of the placement.
        placement: The placement.
        bindings: All of its bindings, deleting ones included.
        works_known: Whether the cache holds Works; where it does not, no binding counts as one without Works.

    Raises:
        RetryError: It is not known yet which overrides apply; see `wanted_overrides`.
        ValueError: ``placementType``, or the state of a binding, has an unknown value.
    """
    spec = spec_of(placement)
    wanted = Wanted.of(spec.get("policy"))
    snapshots = children(cache, family.resource_snapshot, family.ref(placement))
    groups = snapshot_groups(snapshots)
    latest = latest_group(groups)
    overrides = wanted_overrides(cache, placement, latest, bindings)
    empty = without_works(cache, bindings) if works_known else ()
    superseded = {group.name for group in groups if group.master and not group.is_complete and group is not latest}
    snapshot = latest.name if latest and latest.is_complete else None
    return RolloutState(wanted, spec.get("strategy"), views(bindings, empty, superseded), snapshot, overrides)
