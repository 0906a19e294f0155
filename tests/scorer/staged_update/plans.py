"""A placement that is left to runs, on a few clusters, with its snapshots: what a run is planned on, without a hub."""

from dataclasses import replace
from datetime import UTC, datetime

from scorer.api.meta import parse_time
from scorer.rollout.selection.selector import Selection
from scorer.rollout.snapshots.groups import snapshot_groups
from scorer.rollout.snapshots.resources import UNTHROTTLED, plan_resource_snapshots
from scorer.rollout.writes import applied
from scorer.staged_update.facts import StagedUpdateFacts

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
API = "placement.kubernetes-fleet.io/v1beta1"
WAIT = {"type": "TimedWait", "waitTime": "10m"}
APPROVAL = {"type": "Approval"}


def at(text):
    """Return an instant of the day of `NOW`."""
    return parse_time(f"2026-03-01T{text}:00Z")


def stage(name, **more):
    """Make a stage of the clusters that are labelled with its name."""
    return {"name": name, "labelSelector": {"matchLabels": {"stage": name}}, **more}


def run(name="r", state="Run", index="", status=None):
    """Make a run of the placement ``p`` by the strategy ``careful``."""
    spec = {"placementName": "p", "stagedRolloutStrategyName": "careful", "state": state}
    if index:
        spec["resourceSnapshotIndex"] = index
    document = {"apiVersion": API, "kind": "ClusterStagedUpdateRun", "metadata": {"name": name}, "spec": spec}
    return {**document, "status": status} if status else document


def placement(strategy="External"):
    """Make the placement ``p``."""
    spec = {"resourceSelectors": [], "strategy": {"type": strategy}}
    return {"apiVersion": API, "kind": "ClusterResourcePlacement", "metadata": {"name": "p"}, "spec": spec}


def binding(cluster, snapshot="", state="Bound", policy="p-0"):
    """Make the binding of a cluster."""
    spec = {"targetCluster": cluster, "state": state, "schedulingPolicySnapshotName": policy}
    if snapshot:
        spec["resourceSnapshotName"] = snapshot
    return {"metadata": {"name": f"p-{cluster}"}, "spec": spec}


def config_map(name="settings", **data):
    """Make a ConfigMap of the namespace ``shop``."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "shop"}, "data": data}


def policy_snapshot():
    """Make the latest policy snapshot, which has been scheduled."""
    labels = {"kubernetes-fleet.io/is-latest-snapshot": "true", "kubernetes-fleet.io/policy-index": "0"}
    scheduled = {"type": "Scheduled", "status": "True", "observedGeneration": 0}
    return {"metadata": {"name": "p-0", "labels": labels}, "spec": {}, "status": {"conditions": [scheduled]}}


def snapshots(*contents):
    """Make one resource snapshot of each content, the oldest first."""
    documents = []
    for objects in contents:
        plan = plan_resource_snapshots(placement(), documents, objects, NOW, UNTHROTTLED)
        documents = applied(documents, plan.writes)
    return snapshot_groups(documents)


def facts(*stages, clusters=None, old=(), removed=(), content=None, **more):
    """Make the hub around a run.

    Args:
        stages: Of the strategy.
        clusters: The labels of the members that have the placement; by default ``t1`` in stage ``test``, ``v1`` to
            ``v3`` in stage ``live``.
        old: The contents of the snapshots that there are; every cluster has the last one.
        removed: The members that are to lose the placement.
        content: What is selected now.
        more: Other members of `StagedUpdateFacts`.
    """
    labels = clusters or {"t1": {"stage": "test"}, **{name: {"stage": "live"} for name in ("v1", "v2", "v3")}}
    has = f"p-{len(old) - 1}-snapshot" if old else ""
    bindings = [binding(name, has, "Bound" if has else "Scheduled") for name in labels]
    bindings += [binding(name, has, "Unscheduled") for name in removed]
    strategy = {"metadata": {"name": "careful"}, "spec": {"stages": list(stages) or [stage("test"), stage("live")]}}
    made = StagedUpdateFacts(
        now=NOW,
        placement=placement(),
        policy_snapshots=[policy_snapshot()],
        bindings=bindings,
        members=labels,
        strategy=strategy,
        groups=snapshots(*old),
        selection=Selection(tuple(content or (config_map(level="1"),)), ()),
    )
    return replace(made, **more)
