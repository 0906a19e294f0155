"""``plan --on``: the nodes that changed NodePools, classes and overlays disrupt, and the cost."""

import json
import re

import pytest
import yaml

from tests.builders.pod import make_pod
from tests.builders.worker import make_pool_of, make_worker
from webhook.cli.planning import node_pools

PRICES = "name,cpu,memory,zone,price\nlarge,4,16Gi,z1,1.00\nsmall,2,8Gi,z1,0.30\n"
NOW = ("--now", "2026-06-10T12:00:00Z")


def write(path, *documents):
    path.write_text(yaml.safe_dump_all([{"apiVersion": "v1", **document} for document in documents]), encoding="utf-8")
    return path


def node_class(**spec):
    version = "karpenter.azure.com/v1beta1"
    return {"apiVersion": version, "kind": "AKSNodeClass", "metadata": {"name": "default"}, "spec": spec}


def pool(**labels):
    document = make_pool_of(template={"labels": labels})
    document["spec"]["template"]["spec"]["expireAfter"] = "720h"
    return document


@pytest.fixture
def dump(tmp_path):
    full = [make_pod(f"pod-{name}", name, needs={"cpu": "4"}, owner="ReplicaSet") for name in "ab"]
    workers = [document for name in "ab" for document in make_worker(name)]
    return write(tmp_path / "dump.yaml", pool(), node_class(imageFamily="Ubuntu"), *workers, *full)


@pytest.fixture
def prices(tmp_path):
    path = tmp_path / "prices.csv"
    path.write_text(PRICES, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(pool(team="new"), id="template"),
        pytest.param(node_class(imageFamily="AzureLinux"), id="node-class-alone"),
    ],
)
def test_the_nodes_that_drift_by_when_and_the_cost(cli, dump, prices, tmp_path, changed):
    file = write(tmp_path / "changed.yaml", changed)
    result = cli("plan", "--on", dump, "-f", file, "--prices", prices, *NOW, "-o", "json")
    assert result.exit_code == 2, result.output
    effects = json.loads(result.stdout)["nodePools"]
    (found,) = effects["pools"]
    assert (found["pool"], found["pricePerHourAfter"]) == ("general", {"today": 2.0, "changed": 2.0})
    (drift,) = found["disruptions"]
    assert (drift["reason"], drift["today"], sorted(drift["changed"])) == ("Drifted", [], ["a", "b"])
    assert effects["start"] <= drift["first"] <= drift["last"] < effects["end"]


@pytest.mark.parametrize("base", [(), ("--lost", "dover")], ids=["files", "lost"])
def test_prices_without_nodes_are_refused(cli, prices, tmp_path, base):
    file = write(tmp_path / "changed.yaml", pool(team="new"))
    result = cli("plan", "-f", file, "--prices", prices, *base)
    assert result.exit_code == 1
    assert "--prices requires --on FILE: the cost is that of the nodes in a dump" in result.stderr


def test_the_table_and_the_warnings_of_admission(cli, dump, prices, tmp_path):
    result = cli(
        "plan", "--on", dump, "-f", write(tmp_path / "changed.yaml", pool(team="new")), "--prices", prices, *NOW
    )
    assert "general    Drifted   -" in result.stdout
    assert re.search(r"^general: cost per hour at \S+: today 2\.00; changed ", result.stdout, re.MULTILINE)
    assert (
        "spec.template: drifts 2 of 2 nodes, all replaced at 2026-06-10T12:01:35Z at the earliest: a, b"
        in result.stderr
    )


def test_the_comment_of_a_pull_request_has_them(cli, dump, tmp_path):
    changed = write(tmp_path / "changed.yaml", pool(team="new"))
    result = cli("plan", "--on", dump, "-f", changed, *NOW, "-o", "markdown")
    assert "general: Drifted: today -; changed a, b, from 2026-06-10T12:00:" in result.stdout


def test_a_change_without_an_effect_on_nodes(cli, dump, tmp_path):
    changed = pool()
    changed["spec"]["weight"] = 7
    result = cli("plan", "--on", dump, "-f", write(tmp_path / "changed.yaml", changed), *NOW)
    assert result.exit_code == 0
    assert "NodePools: no difference in disruptions, nodes or cost until " in result.stdout


def test_a_large_cluster_is_not_simulated(cli, dump, tmp_path, monkeypatch):
    monkeypatch.setattr(node_pools, "MOST_NODES", 1)
    result = cli("plan", "--on", dump, "-f", write(tmp_path / "changed.yaml", pool(team="new")), *NOW, "-o", "json")
    assert "nodePools" not in json.loads(result.stdout)
    assert "note: NodePools are not simulated, because the dump has more than 1 nodes" in result.stderr


def test_a_deleted_pool_is_not_judged_beside_a_simulated_one(cli, dump, tmp_path):
    old = write(tmp_path / "old.yaml", {**pool(), "metadata": {"name": "old"}})
    words = ["plan", "--on", dump, "--on", old, "-f", write(tmp_path / "changed.yaml", pool(team="new")), *NOW]
    assert json.loads(cli(*words, "-o", "json").stdout)["complete"]
    result = cli(*words, "--delete", "nodepool/old", "--require-complete", "-o", "json")
    assert (result.exit_code, json.loads(result.stdout)["notJudged"]) == (1, [{"kind": "NodePool", "count": 1}])
