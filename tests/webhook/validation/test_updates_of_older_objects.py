"""Updates of objects that were stored before defaulting, through both hooks: what is old stays, what is new is judged.

The mutating hook writes defaults into the new object only. That is no change by the user, so an old mistake beside
them is still an old one (placement-api.md 2.8, X-21; nodepool-disruption.md 2.8).
"""

from copy import deepcopy

import pytest

from tests.builders.placement import make_placement
from webhook.admission.judge import judge, mutate
from webhook.validation.framework.context import Context

FLEET = "placement.kubernetes-fleet.io/v1"
NAMESPACE = {"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}
SORTER = {"name": "a b", "sortOrder": "Ascending"}
POOL = {"spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "K", "name": "n"}}}


def make_override(**rule):
    patch = {"op": "add", "path": "/kind", "value": "x"}
    rules = [{"clusterSelector": {"clusterSelectorTerms": []}, "jsonPatchOverrides": [patch], **rule}]
    spec = {"clusterResourceSelectors": [NAMESPACE], "policy": {"overrideRules": rules}}
    return {"apiVersion": FLEET, "kind": "ClusterResourceOverride", "metadata": {"name": "cro"}, "spec": spec}


def make_run(**spec):
    spec = {"placementName": "p", "stagedRolloutStrategyName": "s", **spec}
    return {"apiVersion": FLEET, "kind": "ClusterStagedUpdateRun", "metadata": {"name": "run"}, "spec": spec}


def make_node_pool(**spec):
    spec = {"template": POOL, **spec}
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "np"}, "spec": spec}


def labelled(document):
    return {**document, "metadata": {**document["metadata"], "labels": {"a": "b"}}}


def with_spec(document, **changes):
    return {**document, "spec": {**document["spec"], **changes}}


def judged(document, old=None):
    """Ask both hooks, as an API server does."""
    operation = "CREATE" if old is None else "UPDATE"
    return judge(operation, mutate(deepcopy(document), old, operation).document, old, Context())


def fields(document, old=None):
    return [str(error.field) for error in judged(document, old).errors]


PREFERRED = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": {"metricSorter": SORTER}}]}
BROKEN_PLACEMENTS = [
    pytest.param({"policy": {"placementType": "PickFixed", "tolerations": [{"key": "a"}]}}, id="P-20-tolerations"),
    pytest.param({"policy": {"topologySpreadConstraints": [{"topologyKey": "zone"}]}}, id="P-23-spread-by-default"),
    pytest.param({"policy": {"affinity": {"clusterAffinity": PREFERRED}}}, id="P-24-P-36-old-sorter"),
    pytest.param({"policy": {"tolerations": [{"value": "a"}]}}, id="P-40-operator-by-default"),
    pytest.param({"policy": {"tolerations": [{"key": "a"}, {"key": "a"}]}}, id="P-44"),
    pytest.param({"policy": {"placementType": "PickN", "numberOfClusters": None}}, id="P-25-null"),
    pytest.param({"policy": []}, id="policy-a-list"),
    pytest.param({"strategy": "fast"}, id="strategy-a-string"),
    pytest.param({"strategy": {"type": "External", "rollingUpdate": {}}}, id="P-46"),
    pytest.param({"strategy": {"rollingUpdate": {"maxUnavailable": "5"}}}, id="P-48"),
    pytest.param({"strategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 0}}}, id="X-14"),
    pytest.param({"strategy": {"applyStrategy": {"serverSideApplyConfig": {}}}}, id="P-50-type-by-default"),
    pytest.param({"strategy": {"reportBackStrategy": {"type": "Mirror"}}}, id="P-52"),
    pytest.param({"resourceSelectors": [NAMESPACE, NAMESPACE]}, id="X-04"),
]


@pytest.mark.parametrize("spec", BROKEN_PLACEMENTS)
def test_broken_placements_stored_without_defaults(spec):
    """X-21: relabelled and changed elsewhere; a second fault is the user's own."""
    old = make_placement(**spec)
    assert not judged(old).allowed
    assert fields(labelled(old), old) == []
    assert judged(labelled(old), old).warnings
    assert fields(with_spec(old, revisionHistoryLimit=7), old) == []
    assert fields(with_spec(old, revisionHistoryLimit=0), old) == ["spec.revisionHistoryLimit"]


def test_a_second_mistake_of_a_kind_is_new():
    """X-21: one default toleration without a key was stored, the second is the user's own."""
    old = make_placement(policy={"tolerations": [{"value": "a"}]})
    new = make_placement(policy={"tolerations": [{"value": "a"}, {"value": "b"}]})
    assert fields(new, old) == ["spec.policy.tolerations[1].operator"]


def test_a_broken_part_that_changes_is_judged():
    """X-21: a default written out is no change, a value is."""
    old = make_placement(policy={"placementType": "PickFixed", "tolerations": [{"key": "a"}]})
    new = make_placement(policy={"placementType": "PickFixed", "tolerations": [{"key": "a", "value": "b"}]})
    assert "spec.policy.tolerations" in fields(new, old)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(
            make_override(), make_override(overrideType="JSONPatch"), id="O-18-overrideType-written-out-by-the-schema"
        ),
        pytest.param(make_override(), make_override(overrideType=None), id="O-18-null-is-absent"),
        pytest.param(
            make_run(resourceSnapshotIndex="01"),
            make_run(resourceSnapshotIndex="01", state="Initialize"),
            id="X-40-state-written-out-by-the-schema",
        ),
        pytest.param(
            make_run(resourceSnapshotIndex="01"), make_run(resourceSnapshotIndex="01", state="Run"), id="X-40-R-08"
        ),
    ],
)
def test_schema_defaults_are_no_change(old, new):
    assert not judged(old).allowed
    assert fields(new, old) == []


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"disruption": {"budgets": [{"schedule": "@every 1h", "duration": "1h"}]}}, id="8.1-schedule"),
        pytest.param({"disruption": {"budgets": [{"nodes": "-1"}]}}, id="2.6-nodes"),
        pytest.param({"disruption": {"budgets": [{"schedule": "@daily"}]}}, id="2.6-duration-missing"),
        pytest.param({"replicas": 1, "weight": 3}, id="2.7-static"),
        pytest.param({"template": {**POOL, "metadata": {"labels": {"karpenter.sh/x": "y"}}}}, id="2.4-label"),
        pytest.param({"limits": {"cpu": "many", "memory": None}}, id="1-limit-beside-null"),
    ],
)
def test_broken_node_pools_stored_without_defaults(spec):
    """2.8: an unchanged spec is let through, also after defaulting; a changed one is judged as a whole."""
    old = make_node_pool(**spec)
    assert not judged(old).allowed
    assert fields(labelled(old), old) == []
    assert judged(labelled(old), old).warnings
    assert fields(with_spec(old, weight=50), old) != []
