"""The forecast and the truth: the engine, carried out on clusters that take no time, ends when the forecast says."""

from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from scorer.api.unstructured.documents import name_of, status_of, with_metadata
from scorer.rollout.snapshots.groups import snapshot_groups
from scorer.rollout.writes import applied
from scorer.staged_update.execution.clusters import started_status
from scorer.staged_update.execution.engine import advance, is_over
from scorer.staged_update.facts import ClusterWait
from scorer.staged_update.outcome import Accept, CreateApprovalRequest, Remove, Update
from scorer.staged_update.record import SUCCEEDED, status
from scorer.staged_update.views.forecast import forecast
from tests.scorer.builders import modest
from tests.scorer.staged_update.plans import NOW, facts, run, stage

MOST_PASSES = 2000
NAMES = [f"c{number}" for number in range(7)]


class Hub:
    """A hub on which everything happens at once: content is available, bindings go, requests are approved."""

    def __init__(self, run, around, opens):
        self.run, self.facts, self.opens = run, around, opens
        self.order = []

    def look(self, now):
        """Let the run take a step; return whether anything has changed, and when to look again."""
        waits = {name: ClusterWait("closed", until) for name, until in self.opens.items() if until > now}
        step = advance(self.run, replace(self.facts, now=now, waits=waits))
        if step.snapshots:
            documents = [document for group in self.facts.groups for document in group.documents]
            self.facts = replace(self.facts, groups=snapshot_groups(applied(documents, step.snapshots)))
        for action in step.actions:
            self.carry_out(action, now)
        moved = bool(step.actions or step.snapshots or step.annotations) or step.status is not None
        if step.status is not None:
            self.run = {**self.run, "status": step.status}
        self.run = with_metadata(self.run, annotations=step.annotations)
        return moved, step.again or timedelta()

    def carry_out(self, action, now):
        match action:
            case Update(cluster=cluster, wanted=wanted, message=message):
                self.order.append(cluster)
                conditions = started_status(wanted, message, now)["conditions"]
                there = {"type": "Available", "status": "True", "observedGeneration": 0}
                self.put({**wanted, "status": {"conditions": [there, *conditions]}})
            case Remove(binding=binding):
                kept = [each for each in self.facts.bindings if name_of(each) != name_of(binding)]
                self.facts = replace(self.facts, bindings=kept)
            case CreateApprovalRequest(request=request):
                approved = {"type": "Approved", "status": "True", "observedGeneration": 1}
                meta = {**request["metadata"], "generation": 1}
                self.answer({**request, "metadata": meta, "status": {"conditions": [approved]}})
            case Accept(request=request, status=accepted):
                self.answer({**request, "status": accepted})

    def put(self, binding):
        kept = [each for each in self.facts.bindings if name_of(each) != name_of(binding)]
        self.facts = replace(self.facts, bindings=[*kept, binding])

    def answer(self, request):
        self.facts = replace(self.facts, requests={**self.facts.requests, name_of(request): request})


def carried_out(run, around, opens):
    """Carry a run out to its end; return the hub, and when that was."""
    hub, now = Hub(run, around, opens), NOW
    for _ in range(MOST_PASSES):
        moved, again = hub.look(now)
        if is_over(hub.run):
            return hub, now
        if not moved:
            now += again
    raise AssertionError("the run does not come to its end")


seconds = st.integers(min_value=1, max_value=90)
tasks = st.lists(
    st.one_of(
        st.just({"type": "Approval"}),
        seconds.map(lambda number: {"type": "TimedWait", "waitTime": f"{number}s"}),
    ),
    max_size=2,
    unique_by=lambda task: task["type"],
)
plans = st.lists(
    st.builds(
        lambda before, after, concurrency, ordered: (
            {"beforeStageTasks": [{"type": "Approval"}] if before else [], "afterStageTasks": after}
            | {"maxConcurrency": concurrency}
            | ({"sortingLabelKey": "wave"} if ordered else {})
        ),
        st.booleans(),
        tasks,
        st.one_of(st.integers(min_value=1, max_value=4), st.sampled_from(["1%", "50%", "100%"])),
        st.booleans(),
    ),
    min_size=1,
    max_size=3,
)


@modest(150)
@given(
    plan=plans,
    placed=st.lists(st.integers(min_value=0, max_value=2), min_size=1, max_size=7),
    opens=st.dictionaries(st.sampled_from(NAMES), seconds, max_size=4),
    removed=st.integers(min_value=0, max_value=2),
)
def test_a_run_ends_when_the_forecast_says_and_starts_its_clusters_in_that_order(plan, placed, opens, removed):
    stages = [stage(f"s{number}", **more) for number, more in enumerate(plan)]
    clusters = {
        name: {"stage": f"s{at % len(stages)}", "wave": str(len(NAMES) - number)}
        for number, (name, at) in enumerate(zip(NAMES, placed, strict=False))
    }
    gone = [f"z{number}" for number in range(removed)]
    around = facts(*stages, clusters=clusters, removed=gone)
    opening = {name: NOW + timedelta(seconds=number) for name, number in opens.items()}
    waits = {name: ClusterWait("closed", until) for name, until in opening.items()}
    found = forecast(run(), replace(around, waits=waits))
    hub, ended = carried_out(run(), around, opening)
    assert status(status_of(hub.run), SUCCEEDED) == "True"
    assert found.ends == ended
    assert [name_of(each) for each in hub.facts.bindings if name_of(each) in gone] == []
    starts = {cluster.name: cluster.starts for each in found.stages for cluster in each.clusters}
    assert sorted(hub.order) == sorted(starts)
    assert [starts[name] for name in hub.order] == sorted(starts.values())
