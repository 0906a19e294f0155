"""What is reserved of a placement counts in the plan of its rollout as if it had been done.

Source: serving.md 3.1; rollout.md 7.3.
"""

from collections.abc import Container, Iterable
from dataclasses import replace

from scorer.api.binding import BindingState
from scorer.rollout.bindings import BindingView
from scorer.rollout.planner import cleanup_gate


def with_promises(bindings: Iterable[BindingView], promised: Container[str]) -> list[BindingView]:
    """Return the bindings as they are once these clusters have been changed, and nothing has been heard of them.

    While two bindings of one cluster are in each other's way there is no plan, whatever is promised.

    Args:
        bindings: All bindings of a placement.
        promised: Names of the clusters that somebody has reserved.
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
