"""The claim of a new node asks for what was planned, and for all that its pool's template says."""

import pytest

from scorer.node_disruption.execution.command_annotation import order_of, read_order
from scorer.node_disruption.execution.replacement_claims import claims_of
from scorer.node_disruption.methods.planner import decide
from tests.builders.pod import make_pod
from tests.builders.worker import NOW, drifted, make_catalog, make_cluster, make_pool_of, make_worker

POOL = make_pool_of(
    "general",
    {"key": "example.com/team", "operator": "In", "values": ["sea"]},
    {"key": "example.com/size", "operator": "Gt", "values": ["3"]},
    {"key": "example.com/old", "operator": "DoesNotExist"},
    digest="abc",
    template={"labels": {"tier": "web"}, "annotations": {"note": "x"}},
    taints=[{"key": "for", "effect": "NoSchedule", "value": "web"}],
)


@pytest.fixture
def claim():
    node, own = make_worker(
        "a", "small", conditions=drifted(), labels={"example.com/team": "sea", "example.com/size": "4"}
    )
    tolerations = [{"key": "for", "operator": "Exists"}]
    cluster = make_cluster(POOL, node, own, make_pod("web", "a", needs={"cpu": "1500m"}, tolerations=tolerations))
    command = decide(cluster, make_catalog({"small": 0.1, "large": 0.2}), NOW).command
    assert command is not None
    order = order_of(command, ["uid"], NOW)
    [made] = claims_of(
        order, command.replacements, {"general": {**POOL, "metadata": {**POOL["metadata"], "uid": "u1"}}}
    )
    assert read_order(made) == order
    return made


def test_metadata(claim):
    metadata = claim["metadata"]
    assert metadata["name"].startswith("general-")
    assert metadata["labels"] == {"karpenter.sh/nodepool": "general", "tier": "web", "example.com/team": "sea"} | {
        key: metadata["labels"][key] for key in metadata["labels"] if key not in ("tier", "example.com/team")
    }
    assert metadata["annotations"]["karpenter.sh/nodepool-hash"] == "abc"
    assert metadata["annotations"]["note"] == "x"
    assert [(each["name"], each["uid"]) for each in metadata["ownerReferences"]] == [("general", "u1")]


def test_spec(claim):
    spec = claim["spec"]
    assert spec["taints"] == POOL["spec"]["template"]["spec"]["taints"]
    assert spec["resources"]["requests"] == {"cpu": "1500m", "pods": "1"}
    by_key = {each["key"]: each for each in spec["requirements"]}
    assert by_key["node.kubernetes.io/instance-type"]["values"] == ["large", "small"]
    assert by_key["example.com/size"] == {"key": "example.com/size", "operator": "Gte", "values": ["4"]}
    assert by_key["example.com/old"] == {"key": "example.com/old", "operator": "DoesNotExist"}
    assert "karpenter.sh/nodepool" not in by_key
    assert "kubernetes.io/hostname" not in by_key


def test_names_are_those_of_the_order_and_another_time_others():
    node, own = make_worker("a", conditions=drifted())
    cluster = make_cluster(make_pool_of(), node, own, make_pod("web", "a", needs={"cpu": "3"}))
    command = decide(cluster, None, NOW).command
    assert order_of(command, ["u"], NOW) == order_of(command, ["u"], NOW)
    assert order_of(command, ["u"], NOW).id != order_of(command, ["v"], NOW).id
