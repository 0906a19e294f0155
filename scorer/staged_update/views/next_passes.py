"""The next passes of a run, until it waits: those of the engine, one after another, with no time in between.

The forecast assumes approvals. These passes assume nothing: only an approval that the run accepts lets it continue.

Source: docs/specifications/staged-updates.md 6 and 11.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from scorer.api.conditions import FALSE
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import dicts_at, name_of, status_of, text_at
from scorer.staged_update.execution.engine import advance, is_over
from scorer.staged_update.facts import StagedUpdateFacts
from scorer.staged_update.outcome import Accept, Action, CreateApprovalRequest, Discard, Remove, Update
from scorer.staged_update.record import SUCCEEDED, condition, status


@dataclass(frozen=True, slots=True)
class NextPasses:
    """The effects of the next passes of a run.

    Args:
        clusters: Clusters that get other content, or lose the placement, in order.
        accepted: Names of the approval requests that the run accepts.
        discarded: Names of those that it deletes, because they were approved before it requested the approval.
        failure: Cause and message if the run ends without success. Empty: it does not.
    """

    clusters: tuple[str, ...] = ()
    accepted: frozenset[str] = frozenset()
    discarded: frozenset[str] = frozenset()
    failure: str = ""


def next_passes(run: JsonObject, facts: StagedUpdateFacts) -> NextPasses:
    """Return the effects of the passes of a run, up to the first that waits for an event or a timer.

    Args:
        run: The run, initialized.
        facts: State of the hub, with its approval requests.
    """
    actions: list[Action] = []
    for _ in range(_most_passes(run)):
        step = advance(run, facts)
        actions += step.actions
        if step.status is not None:
            run = {**run, "status": step.status}
        if step.again is None or step.again > timedelta() or is_over(run):
            break
        facts = _after(facts, step.actions)
    updated = (action.cluster for action in actions if isinstance(action, Update) and action.wanted != action.binding)
    removed = (action.cluster for action in actions if isinstance(action, Remove))
    return NextPasses(
        tuple(dict.fromkeys((*updated, *removed))),
        frozenset(name_of(action.request) for action in actions if isinstance(action, Accept)),
        frozenset(name_of(action.request) for action in actions if isinstance(action, Discard)),
        _failure(run),
    )


def _most_passes(run: JsonObject) -> int:
    """Return the limit of passes. A stage has at most three: approval, clusters, and end."""
    return 3 * (len(dicts_at(status_of(run), "stagesStatus")) + 1)


def _after(facts: StagedUpdateFacts, actions: Iterable[Action]) -> StagedUpdateFacts:
    """Return the state of the hub after the actions of a pass."""
    requests: dict[str, JsonObject] = dict(facts.requests)
    bindings: Mapping[str, JsonObject] = {
        name_of(action.binding): action.wanted for action in actions if isinstance(action, Update)
    }
    for action in actions:
        match action:
            case Accept(request, accepted_status):
                requests[name_of(request)] = {**request, "status": accepted_status}
            case CreateApprovalRequest(request):
                requests[name_of(request)] = request
            case Discard(request):
                requests.pop(name_of(request), None)
    return replace(
        facts, requests=requests, bindings=[bindings.get(name_of(binding), binding) for binding in facts.bindings]
    )


def _failure(run: JsonObject) -> str:
    if status(status_of(run), SUCCEEDED) != FALSE:
        return ""
    return text_at(condition(status_of(run), SUCCEEDED), "message")
