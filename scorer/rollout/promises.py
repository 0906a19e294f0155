"""Promises: a reservation of a placement on a cluster counts in its rollout plan as if it had been carried out.

Source: serving.md 3.1; rollout.md 7.3.
"""

from collections.abc import Container, Iterable
from dataclasses import replace

from scorer.api.binding import BindingState
from scorer.rollout.bindings import BindingView
from scorer.rollout.planner import cleanup_gate


def with_promises(bindings: Iterable[BindingView], promised: Container[str]) -> list[BindingView]:
    """Return the bindings as they will be once these clusters have been changed, and have not reported yet.

    Without this, the holder of a reservation and the rollout would both use the same room in the limits. While two
    bindings of one cluster conflict there is no plan, whatever is promised.

    Args:
        bindings: All bindings of a placement.
        promised: Names of the reserved clusters.
    """
    found = sorted(bindings, key=lambda binding: binding.name)
    if cleanup_gate(found) is not None:
        return found
    return [
        replace(each, state=BindingState.BOUND if each.state is BindingState.SCHEDULED else each.state, conditions={})
        if each.cluster in promised and not each.deleting
        else each
        for each in found
    ]
