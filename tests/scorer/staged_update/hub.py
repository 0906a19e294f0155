"""A hub around one run, as a value: every change makes another one, and none shares what it may still change.

It knows what an API server does to the objects of a run: a change of a spec is another generation, for which conditions
have to be said anew. A pass of the loop is a list of single writes, so that a process may end between any two.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

from scorer.api.meta import JsonObject, format_time
from scorer.api.unstructured.documents import (
    finalizers_of,
    generation_of,
    name_of,
    spec_of,
    status_of,
    with_metadata,
    with_spec,
)
from scorer.rollout.selection.selector import Selection
from scorer.rollout.snapshots.groups import snapshot_groups
from scorer.rollout.snapshots.resources import UNTHROTTLED, plan_resource_snapshots
from scorer.staged_update.execution.clusters import started_status
from scorer.staged_update.execution.engine import advance
from scorer.staged_update.facts import ClusterWait, StagedUpdateFacts
from scorer.staged_update.outcome import (
    Accept,
    Action,
    CreateApprovalRequest,
    Discard,
    Remove,
    StagedUpdateStep,
    Update,
)
from scorer.staged_update.record import condition

START = datetime(2026, 3, 1, tzinfo=UTC)
API = "placement.kubernetes-fleet.io/v1beta1"
Write = Callable[["Hub"], "Hub"]


def make_condition(kind: str, status: str, generation: int, now: datetime, reason: str = "Said") -> JsonObject:
    """Make a condition."""
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": "",
        "observedGeneration": generation,
        "lastTransitionTime": format_time(now),
    }


def make_stage(name: str, **more: Any) -> JsonObject:
    """Make a stage of the clusters that are labelled with its name."""
    return {"name": name, "labelSelector": {"matchLabels": {"stage": name}}, **more}


def make_placement(policy: JsonObject | None = None, kind: str = "External") -> JsonObject:
    """Make the placement ``p``."""
    spec: JsonObject = {"resourceSelectors": [], "strategy": {"type": kind}, "policy": policy or {}}
    return {
        "apiVersion": API,
        "kind": "ClusterResourcePlacement",
        "metadata": {"name": "p", "generation": 1, "uid": "uid-p"},
        "spec": spec,
    }


def make_policy_snapshot(policy: JsonObject | None = None, index: int = 0, *, scheduled: bool = True) -> JsonObject:
    """Make the latest policy snapshot."""
    given = policy or {}
    annotations = {"kubernetes-fleet.io/CRP-generation": "1"}
    if given.get("placementType") == "PickN":
        annotations["kubernetes-fleet.io/number-of-clusters"] = str(given["numberOfClusters"])
    return {
        "metadata": {
            "name": f"p-{index}",
            "generation": 1,
            "labels": {
                "kubernetes-fleet.io/is-latest-snapshot": "true",
                "kubernetes-fleet.io/policy-index": str(index),
            },
            "annotations": annotations,
        },
        "spec": {"policy": given},
        "status": {
            "observedCRPGeneration": 1,
            "conditions": [make_condition("Scheduled", "True" if scheduled else "False", 1, START)],
        },
    }


def make_binding(cluster: str, state: str = "Scheduled", policy: str = "p-0", snapshot: str = "") -> JsonObject:
    """Make the binding of a cluster; a bound one has been rolled out long ago."""
    spec = {"targetCluster": cluster, "state": state, "schedulingPolicySnapshotName": policy}
    conditions = []
    if snapshot:
        spec["resourceSnapshotName"] = snapshot
        conditions = [make_condition(kind, "True", 1, START) for kind in ("RolloutStarted", "Applied", "Available")]
    meta = {"name": f"p-{cluster}", "generation": 1, "uid": f"uid-{cluster}"}
    return {"metadata": meta, "spec": spec, "status": {"conditions": conditions}}


def make_run(name: str = "r", state: str = "Run", index: str = "", **annotations: str) -> JsonObject:
    """Make a run of the placement ``p`` by the strategy ``careful``."""
    spec = {"placementName": "p", "stagedRolloutStrategyName": "careful", "state": state}
    if index:
        spec["resourceSnapshotIndex"] = index
    noted = {f"harbormaster.dev/{key.replace('_', '-')}": text for key, text in annotations.items()}
    meta = {
        "name": name,
        "generation": 1,
        "uid": f"uid-{name}",
        "creationTimestamp": format_time(START),
        "annotations": noted,
    }
    return {"apiVersion": API, "kind": "ClusterStagedUpdateRun", "metadata": meta, "spec": spec}


def make_strategy(*stages: JsonObject, **annotations: str) -> JsonObject:
    """Make the strategy ``careful``."""
    noted = {f"harbormaster.dev/{key.replace('_', '-')}": text for key, text in annotations.items()}
    return {"metadata": {"name": "careful", "annotations": noted}, "spec": {"stages": list(stages)}}


CONTENT = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "rates", "namespace": "shop"}}


def make_snapshots(placement: JsonObject, count: int) -> tuple[JsonObject, ...]:
    """Make resource snapshots, the last one with the content of now."""
    found: list[JsonObject] = []
    for number in range(count):
        content = {**CONTENT, "data": {"value": str(number + 1 - count)}}
        plan = plan_resource_snapshots(placement, found, [content], START, UNTHROTTLED)
        for write in plan.writes:
            found = [each for each in found if name_of(each) != write.name] + [write.document]
    return tuple(found)


@dataclass(frozen=True)
class Hub:
    """The hub.

    Args:
        run: The run that is looked at; None: it is gone.
        strategy: Its strategy.
        placement: Its placement.
        policies: Policy snapshots.
        bindings: By cluster.
        members: Labels, by cluster.
        snapshots: Resource snapshots.
        content: The value in what the placement selects now.
        requests: Approval requests by name.
        runs: Other runs.
        waits: The clusters that may not be touched now.
        now: The time.
    """

    run: JsonObject
    strategy: JsonObject | None
    placement: JsonObject | None
    policies: tuple[JsonObject, ...]
    bindings: Mapping[str, JsonObject]
    members: Mapping[str, Mapping[str, str]]
    snapshots: tuple[JsonObject, ...] = ()
    content: str = "0"
    requests: Mapping[str, JsonObject] = field(default_factory=dict)
    runs: tuple[JsonObject, ...] = ()
    waits: Mapping[str, ClusterWait] = field(default_factory=dict)
    now: datetime = START

    @cached_property
    def facts(self) -> StagedUpdateFacts:
        """What a pass is decided on."""
        return StagedUpdateFacts(
            now=self.now,
            placement=self.placement,
            policy_snapshots=self.policies,
            bindings=tuple(self.bindings.values()),
            members=self.members,
            strategy=self.strategy,
            groups=snapshot_groups(self.snapshots),
            requests=self.requests,
            runs=self.runs,
            waits=self.waits,
            selection=Selection(({**CONTENT, "data": {"value": self.content}},), ()),
        )

    @cached_property
    def step(self) -> StagedUpdateStep:
        """What the engine wants now."""
        return advance(self.run, self.facts)

    def later(self, **units: float) -> "Hub":
        """Let time pass."""
        return replace(self, now=self.now + timedelta(**units))

    def passed(self) -> "Hub":
        """Carry one whole pass out."""
        hub = self
        for write in writes(self.step):
            hub = write(hub)
        return hub

    def settled(self, passes: int = 40) -> "Hub":
        """Carry passes out for as long as the engine wants another one at once, or has written something."""
        hub = self
        for _ in range(passes):
            after = hub.passed()
            if after == hub:
                return hub
            hub = after
        raise AssertionError("the engine does not come to rest")

    # What members, people and others do.

    def reported(self, *clusters: str, kind: str = "Available", status: str = "True") -> "Hub":
        """Have members report on what they have been given."""
        found = dict(self.bindings)
        for cluster in clusters:
            found[cluster] = with_condition(found[cluster], kind, status, self.now)
        return replace(self, bindings=found)

    def approved(self, name: str, *, generation: int = 1) -> "Hub":
        """Have a person approve a request."""
        made = make_condition("Approved", "True", generation, self.now)
        request = self.requests[name]
        others = status_of(request).get("conditions") or []
        status = {"conditions": [*(each for each in others if each["type"] != "Approved"), made]}
        return replace(self, requests={**self.requests, name: {**request, "status": status}})

    def state(self, state: str) -> "Hub":
        """Have a person change the state of the run."""
        run = with_spec(self.run, state=state)
        return replace(self, run=_bumped(run))

    def labelled(self, cluster: str, **labels: str) -> "Hub":
        """Have a person relabel a member."""
        return replace(self, members={**self.members, cluster: labels})

    # What to look at.

    def said(self, kind: str) -> str:
        """Return status and reason of a condition of the run."""
        found = condition(status_of(self.run), kind)
        return f"{found.get('status', '')} {found.get('reason', '')}".strip()

    def message(self, kind: str) -> str:
        """Return the message of a condition of the run."""
        return str(condition(status_of(self.run), kind).get("message", ""))

    def stage_said(self, name: str, kind: str) -> str:
        """Return status and reason of a condition of a stage."""
        stages = [*status_of(self.run)["stagesStatus"], status_of(self.run)["deletionStageStatus"]]
        found = condition(next(stage for stage in stages if stage["stageName"] == name), kind)
        return f"{found.get('status', '')} {found.get('reason', '')}".strip()

    def given(self) -> dict[str, str]:
        """Return the resource snapshot of each cluster that has one."""
        found = ((cluster, spec_of(binding).get("resourceSnapshotName")) for cluster, binding in self.bindings.items())
        return {cluster: str(name) for cluster, name in found if name}


def make_hub(
    *stages: JsonObject, clusters: Mapping[str, str], run: JsonObject | None = None, snapshots: int = 1, **more: Any
) -> Hub:
    """Make a hub.

    Args:
        stages: Of the strategy.
        clusters: The label ``stage`` of each picked cluster.
        run: The run; without one, one in state Run.
        snapshots: How many resource snapshots there are.
        more: Other members of the hub.
    """
    placement = make_placement()
    given = {
        "run": run or make_run(),
        "strategy": make_strategy(*stages),
        "placement": placement,
        "policies": (make_policy_snapshot(),),
        "bindings": {cluster: make_binding(cluster) for cluster in clusters},
        "members": {cluster: {"stage": stage} for cluster, stage in clusters.items()},
        "snapshots": make_snapshots(placement, snapshots),
    }
    return Hub(**{**given, **more})


def with_condition(document: JsonObject, kind: str, status: str, now: datetime) -> JsonObject:
    """Return an object that says something of its present generation."""
    others = [each for each in status_of(document).get("conditions") or () if each["type"] != kind]
    made = make_condition(kind, status, generation_of(document), now)
    return {**document, "status": {**status_of(document), "conditions": [*others, made]}}


def _bumped(document: JsonObject) -> JsonObject:
    return {**document, "metadata": {**document["metadata"], "generation": generation_of(document) + 1}}


def writes(step: StagedUpdateStep) -> Iterator[Write]:
    """Yield the writes of a step, in their order."""
    if step.annotations:
        yield lambda hub: replace(hub, run=with_metadata(hub.run, annotations=step.annotations))
    for each in step.snapshots:
        yield _snapshot(each.document)
    for action in step.actions:
        yield from writes_of(action)
    if step.rollback is not None:
        yield lambda hub: replace(hub, runs=(*hub.runs, _created(step.rollback or {}, hub)))
    if step.status is not None:
        yield lambda hub: replace(hub, run={**hub.run, "status": step.status})


def _created(run: JsonObject, hub: Hub) -> JsonObject:
    return {**run, "metadata": {**run["metadata"], "creationTimestamp": format_time(hub.now)}}


def _snapshot(document: JsonObject) -> Write:
    def write(hub: Hub) -> Hub:
        others = [each for each in hub.snapshots if name_of(each) != name_of(document)]
        return replace(hub, snapshots=(*others, document))

    return write


def writes_of(action: Action) -> Iterator[Write]:
    """Yield the writes of one action; the condition of a binding is stored a little later than its spec."""
    match action:
        case Update(cluster=cluster, binding=binding, wanted=wanted, message=message):
            if wanted is not binding:
                yield lambda hub: replace(hub, bindings={**hub.bindings, cluster: _bumped(wanted)})
            yield _mark(cluster, message)
        case Remove(cluster=cluster):
            yield _deleted(cluster)
        case CreateApprovalRequest(request=request):
            made = {**request, "metadata": {**request["metadata"], "generation": 1}}
            yield lambda hub: replace(hub, requests={**hub.requests, name_of(made): made})
        case Discard(request=request):
            yield lambda hub: replace(hub, requests=without(hub.requests, name_of(request)))
        case Accept(request=request, status=status):
            accepted = {**request, "status": status}
            yield lambda hub: replace(hub, requests={**hub.requests, name_of(request): accepted})


def _deleted(cluster: str) -> Write:
    """Delete a binding: one with a finalizer stays until its objects are gone from the member."""

    def write(hub: Hub) -> Hub:
        binding = hub.bindings[cluster]
        if not finalizers_of(binding):
            return replace(hub, bindings=without(hub.bindings, cluster))
        meta = {**binding["metadata"], "deletionTimestamp": format_time(hub.now)}
        return replace(hub, bindings={**hub.bindings, cluster: {**binding, "metadata": meta}})

    return write


def without(documents: Mapping[str, JsonObject], name: str) -> dict[str, JsonObject]:
    """Return all documents but one."""
    return {key: each for key, each in documents.items() if key != name}


def _mark(cluster: str, message: str) -> Write:
    def write(hub: Hub) -> Hub:
        binding = hub.bindings[cluster]
        marked = {**binding, "status": started_status(binding, message, hub.now)}
        return replace(hub, bindings={**hub.bindings, cluster: marked})

    return write


def scheduled_anew(hub: Hub) -> Hub:
    """Return the hub with another policy, by which the scheduler has picked the same clusters."""
    bindings = {name: with_spec(each, schedulingPolicySnapshotName="p-1") for name, each in hub.bindings.items()}
    return replace(hub, policies=(make_policy_snapshot(index=1),), bindings=bindings)
