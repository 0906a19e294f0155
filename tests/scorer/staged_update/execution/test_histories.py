"""Random histories of runs that are too large for every order of events: three stages, up to five clusters each.

What happens is drawn: passes, whole and cut short, reports and failures, approvals, stops, windows that close, time,
and what ends a run. Every state keeps the rules of the walk; where the loop rests, the run says what it waits for; and
once everybody means well, it ends.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta

from hypothesis import given, note, settings
from hypothesis import strategies as st

from scorer.api.conditions import TRUE
from scorer.api.meta import format_time
from scorer.api.unstructured.documents import annotations_of, is_deleting, spec_of, status_of
from scorer.staged_update.execution.engine import is_over
from scorer.staged_update.facts import ClusterWait
from scorer.staged_update.phase import situation_of
from scorer.staged_update.record import SUCCEEDED, status
from tests.scorer.staged_update.execution.orders import check, cut_short, is_disturbed, parts, taken_over
from tests.scorer.staged_update.hub import (
    Hub,
    make_binding,
    make_hub,
    make_run,
    make_stage,
    make_strategy,
    scheduled_anew,
    without,
)
from tests.thoroughness import examples

CLUSTERS = [f"c{number:02}" for number in range(15)]
APPROVAL = {"type": "Approval"}
WAIT = {"type": "TimedWait", "waitTime": "7m"}
CONCURRENCIES = [None, 1, 2, 3, "25%", "50%", "100%"]
Event = Callable[[Hub, int], Hub]


@st.composite
def stages(draw: st.DrawFn) -> list[dict]:
    found = []
    for name in ("one", "two", "three"):
        stage = make_stage(name)
        if (most := draw(st.sampled_from(CONCURRENCIES))) is not None:
            stage["maxConcurrency"] = most
        if draw(st.booleans()):
            stage["sortingLabelKey"] = "order"
        if draw(st.booleans()):
            stage["beforeStageTasks"] = [APPROVAL]
        if tasks := draw(st.sampled_from([[], [APPROVAL], [WAIT], [APPROVAL, WAIT]])):
            stage["afterStageTasks"] = tasks
        found.append(stage)
    return found


@st.composite
def hubs(draw: st.DrawFn) -> Hub:
    """Draw a hub around a run that has not been looked at yet."""
    sizes = [draw(st.integers(0, 5)) for _ in range(3)]
    names = iter(CLUSTERS)
    clusters = {
        next(names): stage for stage, size in zip(("one", "two", "three"), sizes, strict=True) for _ in range(size)
    }
    policy = draw(
        st.sampled_from(
            [{}, {"on_failure": "Stop"}, {"max_failures": "1", "cluster_deadline": "4m"}, {"on_failure": "Rollback"}]
        )
    )
    run = make_run(state=draw(st.sampled_from(["Run", "Initialize", "Stop"])))
    hub = make_hub(clusters=clusters, run=run, snapshots=2, strategy=make_strategy(*draw(stages()), **policy))
    members = {name: {**labels, "order": str(draw(st.integers(0, 3)))} for name, labels in hub.members.items()}
    bindings = {name: make_binding(name, "Bound", snapshot="p-0-snapshot") for name in clusters}
    for name in draw(st.lists(st.sampled_from(["y", "z"]), unique=True)):
        found = make_binding(name, "Unscheduled", snapshot="p-0-snapshot")
        bindings[name] = {**found, "metadata": {**found["metadata"], "finalizers": ["objects"]}}
    return replace(hub, members=members, bindings=bindings)


# What happens. Each takes a number, which says to whom.


def passed(hub: Hub, _number: int) -> Hub:
    return hub.passed()


def settled(hub: Hub, _number: int) -> Hub:
    return hub.settled()


def crashed(hub: Hub, number: int) -> Hub:
    """Cut a pass short: the number says after which writes."""
    _, sets, after = parts(hub.step)
    many = []
    for each in sets:
        number, count = divmod(number, len(each) + 1)
        many.append(count)
    found = cut_short(hub, many, number % (len(after) + 1))
    return hub if found is None else found


def reported(hub: Hub, number: int) -> Hub:
    names = in_flight(hub)
    return hub.reported(names[number % len(names)]) if names else hub


def failed(hub: Hub, number: int) -> Hub:
    names = in_flight(hub)
    return hub.reported(names[number % len(names)], kind="Applied", status="False") if names else hub


def in_flight(hub: Hub) -> list[str]:
    """Return the clusters that have been told to begin and are not done."""
    return [
        name
        for name, binding in hub.bindings.items()
        if said_now(binding, "RolloutStarted") and not said_now(binding, "Available") and not is_deleting(binding)
    ]


def said_now(binding: dict, kind: str) -> bool:
    generation = binding["metadata"]["generation"]
    return any(
        each["type"] == kind and each["status"] == TRUE and each["observedGeneration"] == generation
        for each in status_of(binding).get("conditions", ())
    )


def deleted(hub: Hub, number: int) -> Hub:
    """Have another client delete the binding of a cluster that the placement stays on."""
    names = [name for name, each in hub.bindings.items() if spec_of(each)["state"] != "Unscheduled"]
    if not names or number % 3:
        return hub
    name = names[number % len(names)]
    meta = {**hub.bindings[name]["metadata"], "deletionTimestamp": format_time(hub.now)}
    return replace(hub, bindings={**hub.bindings, name: {**hub.bindings[name], "metadata": meta}})


def gone(hub: Hub, number: int) -> Hub:
    """Let a binding that is being deleted be gone; one that nothing has ordered to go is created again as it was."""
    names = [name for name, binding in hub.bindings.items() if is_deleting(binding)]
    return without_binding(hub, names[number % len(names)]) if names else hub


def without_binding(hub: Hub, name: str) -> Hub:
    binding = hub.bindings[name]
    if spec_of(binding)["state"] == "Unscheduled":
        return replace(hub, bindings=without(hub.bindings, name))
    meta = {"name": binding["metadata"]["name"], "uid": f"uid-{name}-again", "generation": 1}
    again = {"metadata": meta, "spec": spec_of(binding), "status": {}}
    return replace(hub, bindings={**hub.bindings, name: again})


def approved(hub: Hub, number: int) -> Hub:
    names = sorted(hub.requests)
    return hub.approved(names[number % len(names)], generation=1 + (number % 3 == 2)) if names else hub


def request_deleted(hub: Hub, number: int) -> Hub:
    names = sorted(hub.requests)
    return replace(hub, requests=without(hub.requests, names[number % len(names)])) if names else hub


def ordered(hub: Hub, number: int) -> Hub:
    state = ("Run", "Stop")[number % 2]
    return hub if spec_of(hub.run)["state"] == state else hub.state(state)


def time_passed(hub: Hub, number: int) -> Hub:
    return hub.later(seconds=(1, 15, 61, 240, 301, 3600)[number % 6])


def window_turned(hub: Hub, number: int) -> Hub:
    """Close the windows of a cluster, or open them."""
    name = CLUSTERS[number % len(CLUSTERS)]
    if name in hub.waits:
        return replace(hub, waits={key: wait for key, wait in hub.waits.items() if key != name})
    until = hub.now + timedelta(hours=1)
    return replace(hub, waits={**hub.waits, name: ClusterWait(f"its window opens at {format_time(until)}", until)})


def disturbed(hub: Hub, number: int) -> Hub:
    """Do what ends a run, rarely."""
    match number % 40:
        case 0:
            return hub.labelled(CLUSTERS[0], stage="three")
        case 1:
            return scheduled_anew(hub)
        case 2 if found := in_flight(hub):
            return taken_over(hub, found[0])
        case 3:
            return replace(hub, strategy=None)
    return hub


EVENTS: list[Event] = [
    *(3 * [passed]),
    *(3 * [settled]),
    *(2 * [crashed]),
    *(4 * [reported]),
    *(2 * [approved]),
    failed,
    deleted,
    *(2 * [gone]),
    request_deleted,
    ordered,
    time_passed,
    window_turned,
    disturbed,
]


@given(hubs(), st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 10_000)), min_size=10, max_size=100))
@settings(max_examples=examples(270))
def test_every_history_keeps_the_rules_and_ends_once_everybody_means_well(hub, history):
    first = hub
    for event, number in history:
        note(f"{event.__name__} {number}")
        hub = event(hub, number)
        check(hub)
    check_rest(hub.settled())
    for _ in range(60):
        if is_over(hub.run):
            break
        hub = well_meaning(hub)
        check_rest(hub)
    assert is_over(hub.run), situation_of(hub.run, hub.requests.values(), hub.now)
    assert ended_rightly(first, hub)


def check_rest(hub: Hub) -> None:
    """Check a run that is at rest: it is over, or it says what it waits for, and looks again in time."""
    check(hub)
    found = situation_of(hub.run, hub.requests.values(), hub.now)
    assert found.is_over == is_over(hub.run)
    if found.is_over:
        return
    assert found.waits, found
    assert all(wait.message for wait in found.waits), found
    assert found.message or not found.stage, found
    assert found.needs_person or hub.step.again is not None, f"it never looks again: {found}"


def well_meaning(hub: Hub) -> Hub:
    """Do everything that a run may wait for, let time pass, and carry passes out until the loop rests."""
    if spec_of(hub.run)["state"] != "Run":
        hub = hub.state("Run")
    hub = replace(hub, waits={})
    for name in hub.requests:
        hub = hub.approved(name)
    for name in [name for name, binding in hub.bindings.items() if is_deleting(binding)]:
        hub = without_binding(hub, name)
    hub = hub.settled()
    while names := in_flight(hub):
        hub = hub.reported(*names).settled()
    return hub.later(minutes=8).settled()


def ended_rightly(first: Hub, hub: Hub) -> bool:
    """Say whether a run has done its work, and failed only where something has made it."""
    record = status_of(hub.run)
    if status(record, SUCCEEDED) != TRUE:
        return bool(annotations_of(hub.run)) or not first.bindings or is_disturbed(first, hub)
    wanted = f"p-{record['resourceSnapshotIndexUsed']}-snapshot"
    return all(hub.given().get(name) == wanted for name in done(record)) and not {"y", "z"} & set(hub.bindings)


def done(record: dict) -> Iterator[str]:
    """Yield the clusters of the record, each of which has ended."""
    for stage in record["stagesStatus"]:
        assert status(stage, SUCCEEDED) == TRUE
        for entry in stage["clusters"]:
            assert status(entry, SUCCEEDED)
            yield entry["clusterName"]
