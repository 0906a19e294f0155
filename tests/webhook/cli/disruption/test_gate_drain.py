"""``gate drain``: of files, and of a cluster with its own objects."""

import json
import re

import pytest
import yaml

from scorer.api.kinds import NODE, POD, POD_DISRUPTION_BUDGET
from tests.builders.pod import make_pod
from tests.builders.worker import make_pool_of, make_worker
from tests.webhook.cli.conftest import kubeconfig
from webhook.cli.hub.client import Client, HubRefusedError

GUARD = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {"selector": {"matchLabels": {"app": "web"}}},
    "status": {"disruptionsAllowed": 0},
}
PODS = (
    make_pod("big", "left", needs={"cpu": "5"}, owner="ReplicaSet"),
    make_pod("free", "left", needs={"cpu": "1"}, owner="ReplicaSet"),
    make_pod("log", "left", owner="DaemonSet"),
    make_pod("web", "left", labels={"app": "web"}, needs={"cpu": "1"}, owner="ReplicaSet"),
)


@pytest.fixture
def files(tmp_path):
    path = tmp_path / "dump.yaml"
    documents = [make_pool_of(), *make_worker("left"), *make_worker("right"), GUARD, *PODS]
    path.write_text(yaml.safe_dump_all(documents), encoding="utf-8")
    return path


def rows(text):
    return [re.split(" {3,}", line) for line in text.partition("\n\n")[0].splitlines()]


def test_files(cli, files):
    result = cli("gate", "drain", "left", "-f", files, "--now", "2026-06-10T12:00:00Z")
    assert result.exit_code == 2
    assert rows(result.stdout) == [
        ["POD", "NODE", "MOVES TO", "REASON", "UNTIL"],
        ["shop/big", "left", "no node: 1 Insufficient cpu", "-", "-"],
        ["shop/free", "left", "right", "-", "-"],
        ["shop/log", "left", "-", "a pod of a DaemonSet: it is deleted with the node", "-"],
        ["shop/web", "left", "right", "PodDisruptionBudget shop/web allows no evictions", "-"],
    ]
    assert result.stdout.partition("\n\n")[2].splitlines() == [
        "left: 2 can move, 1 is blocked, 1 remains until the node is deleted, 1 fits no other node; 1 other node.",
        "PodDisruptionBudget shop/web covers 1 pod there and allows the eviction of none of them.",
    ]


def test_json(cli, files):
    result = cli("gate", "drain", "left", "-f", files, "-o", "json")
    document = json.loads(result.stdout)
    assert (result.exit_code, document["clear"], document["nodes"]) == (2, False, ["left"])
    assert [each["goesTo"] for each in document["pods"]] == [None, "right", None, "right"]
    said = cli("gate", "drain", "--help").stdout
    assert [each for each in (*document, *document["pods"][0]) if each not in said] == []


def test_yaml_is_the_same(cli, files):
    words = ("gate", "drain", "left", "-f", files, "--now", "2026-06-10T12:00:00Z", "-o")
    as_yaml, as_json = (cli(*words, output) for output in ("yaml", "json"))
    assert (as_yaml.exit_code, as_json.exit_code) == (2, 2)
    assert yaml.safe_load(as_yaml.stdout) == json.loads(as_json.stdout)


def test_all_clear(cli, files):
    result = cli("gate", "drain", "right", "-f", files)
    assert (result.exit_code, result.stdout) == (0, "right: no pods; 1 other node.\n")


def test_what_is_missing_is_noted(cli, tmp_path):
    path = tmp_path / "dump.yaml"
    path.write_text(yaml.safe_dump_all([*make_worker("left"), *make_worker("right"), PODS[1]]), encoding="utf-8")
    result = cli("gate", "drain", "left", "-f", path)
    assert result.exit_code == 0
    assert "note: no PodDisruptionBudget: no budget protects a pod" in result.stderr


def test_an_unknown_node(cli, files):
    result = cli("gate", "drain", "left", "nowhere", "-f", files)
    assert result.exit_code == 1
    assert result.stderr == "error: there is no node nowhere. Nodes of the cluster: left, right\n"


def test_no_node(cli, files):
    assert cli("gate", "drain", "-f", files).exit_code == 1


def test_files_or_a_cluster(cli, files, tmp_path):
    result = cli("gate", "drain", "left", "-f", files, "--kubeconfig", tmp_path / "kubeconfig")
    assert (result.exit_code, "with -f, the command evaluates the files" in result.stderr) == (1, True)


def put(hub):
    """Have the hub hold the same as the files, as far as it knows the kinds; pods whose owner is not there would go."""
    for kind, documents in (
        (NODE, [make_worker("left")[0], make_worker("right")[0]]),
        (POD_DISRUPTION_BUDGET, [GUARD]),
        (POD, [each for each in PODS if each["metadata"]["name"] != "log"]),
    ):
        for document in documents:
            metadata = {key: value for key, value in document["metadata"].items() if key != "ownerReferences"}
            made = {**document, "apiVersion": kind.api_version, "metadata": metadata}
            created = hub.run(hub.store.create(kind, made))
            hub.run(hub.store.replace_status(kind, {**created, "status": document["status"]}))


def test_a_cluster(cli, hub, tmp_path):
    put(hub)
    path = kubeconfig(hub, tmp_path / "kubeconfig")
    result = cli("gate", "drain", "left", "--kubeconfig", path, "-o", "json")
    assert result.exit_code == 2, result.stderr
    document = json.loads(result.stdout)
    assert [(each["pod"], each["goesTo"]) for each in document["pods"]] == [
        ("shop/big", None),
        ("shop/free", "right"),
        ("shop/web", "right"),
    ]


def refusing(monkeypatch, plural, code):
    listing = Client.list

    async def refuse(self, place, *more):
        if place.kind.plural == plural:
            raise HubRefusedError({"code": code, "message": f"no {plural} for you"})
        return await listing(self, place, *more)

    monkeypatch.setattr(Client, "list", refuse)


@pytest.mark.parametrize("plural", ["nodes", "pods"])
def test_nodes_and_pods_must_be_readable(cli, hub, tmp_path, monkeypatch, plural):
    put(hub)
    refusing(monkeypatch, plural, 403)
    result = cli("gate", "drain", "left", "--kubeconfig", kubeconfig(hub, tmp_path / "kubeconfig"))
    assert (result.exit_code, result.stderr) == (1, f"error: {plural}: no {plural} for you\n")


@pytest.mark.parametrize(
    ("plural", "code", "note"),
    [
        ("poddisruptionbudgets", 403, "you may not list them; PodDisruptionBudgets are not considered"),
        ("persistentvolumes", 403, "you may not list them; volumes do not restrict pods to a zone or node"),
        ("nodeclaims", 404, ""),
    ],
)
def test_the_rest_is_noted(cli, hub, tmp_path, monkeypatch, plural, code, note):
    """A cluster without Karpenter has no claims, which is nothing to speak of."""
    put(hub)
    refusing(monkeypatch, plural, code)
    result = cli("gate", "drain", "left", "--kubeconfig", kubeconfig(hub, tmp_path / "kubeconfig"))
    assert result.exit_code == 2
    assert (f"{plural}: {note}" in result.stderr) is bool(note)


def test_what_is_missing_is_told_as_a_drain_needs_it(cli, tmp_path):
    path = tmp_path / "dump.yaml"
    path.write_text(yaml.safe_dump_all([*make_worker("left"), *make_worker("right")]), encoding="utf-8")
    result = cli("gate", "drain", "left", "-f", path)
    assert "note: no Pod: no pods would move\n" in result.stderr
    assert "DaemonSet" not in result.stderr
