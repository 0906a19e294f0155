"""What a Tab offers: asked of the real hub, by the protocol of bash and by that of kubectl's plugins."""

import os
import socket

import pytest

from scorer.api.kinds import (
    APPROVAL_REQUEST,
    KINDS,
    MEMBER_CLUSTER,
    NAMESPACED_APPROVAL_REQUEST,
    NAMESPACED_STAGED_RUN,
    NODE_POOL,
    PLACEMENT,
    RESOURCE_PLACEMENT,
    STAGED_RUN,
    STAGED_STRATEGY,
    UPGRADE_GATE,
    UPGRADE_RUN,
)
from tests.webhook.cli.conftest import kubeconfig
from tests.webhook.cli.fleets import member, placement
from tests.webhook.cli.terminal import program
from webhook.cli.completion import print_for_kubectl


def request(of, stage):
    return {"spec": {"parentStageRollout": of, "targetStage": stage}}


def gate(of, stage, state):
    return {"spec": {"runName": of, "stage": stage, "type": "Approval"}, "status": {"state": state}}


@pytest.fixture
def fleet(hub):
    def create(kind, document):
        created = hub.run(hub.store.create(kind, document))
        if "status" in document:
            hub.run(hub.store.replace_status(kind, {**created, "status": document["status"]}))

    for name in ("web", "wiki"):
        create(PLACEMENT, placement(name))
    spec = placement("site")
    create(RESOURCE_PLACEMENT, {**spec, "kind": "ResourcePlacement", "metadata": {"name": "site", "namespace": "shop"}})
    create(MEMBER_CLUSTER, member("dover", 1))
    create(NODE_POOL, {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "spot"}, "spec": {}})
    approved = {"type": "Approved", "status": "True", "observedGeneration": 1}
    for kind, name, parts in (
        (STAGED_RUN, "web-1", {}),
        (STAGED_RUN, "web-2", {}),
        (STAGED_STRATEGY, "careful", {}),
        (APPROVAL_REQUEST, "web-1-after-canary", request("web-1", "canary")),
        (APPROVAL_REQUEST, "web-2-after-canary", request("web-2", "canary") | {"status": {"conditions": [approved]}}),
        (UPGRADE_RUN, "kubernetes-1-31", {"status": {"stages": [{"name": "first"}, {"name": "rest"}]}}),
        (UPGRADE_RUN, "kubernetes-1-30", {}),
        (UPGRADE_GATE, "kubernetes-1-31-first", gate("kubernetes-1-31", "first", "Pending")),
        (UPGRADE_GATE, "kubernetes-1-30-first", gate("kubernetes-1-30", "first", "Completed")),
        (NAMESPACED_STAGED_RUN, "site-1", {}),
        (NAMESPACED_APPROVAL_REQUEST, "site-1-before-all", request("site-1", "all")),
    ):
        metadata = {"name": name, "namespace": "shop"} if kind.namespaced else {"name": name}
        create(kind, {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": {}, **parts})
    boat = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "boat", "namespace": "shop"}}
    create(KINDS["", "ConfigMap"], boat)
    return hub


def offered(capsys, *words):
    print_for_kubectl(["get", *words] if words[0] not in VERBS else words)
    *found, directive = capsys.readouterr().out.splitlines()
    return [line.split("\t")[0] for line in found], directive


VERBS = (
    *("run", "approve", "reject", "undo", "upgrade", "leave", "plan", "history", "explain", "cordon", "budgets"),
    *("gate", "describe", "delete", "ap", "--kube", "tree", "wait", "render", "lint", "rules"),
)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["crp", ""], ["web", "wiki"]),
        (["crp", "we"], ["web"]),
        (["crp", "web", ""], ["wiki"]),
        (["crp/w"], ["crp/web", "crp/wiki"]),
        (["crp/web", "cluster/"], ["cluster/dover"]),
        (["cm", "-n", "shop", ""], ["boat"]),
        (["cm", ""], []),
        (["crp", "-n", "sh"], ["shop"]),
        (["clusterresourceplacementd"], ["clusterresourceplacementdisruptionbudgets"]),
        (["ns,clusterresourceplacementd"], ["ns,clusterresourceplacementdisruptionbudgets"]),
        (["nothing", ""], []),
        (["describe", "crp", "wi"], ["wiki"]),
        (["delete", "crp", "wi"], ["wiki"]),
        (["explain", "crp/w"], ["crp/web", "crp/wiki"]),
        (["explain", "rp/"], ["rp/shop/site"]),
        (["explain", "crp/web", ""], ["dover"]),
        (["cordon", ""], ["dover"]),
        (["budgets", "list", ""], ["spot"]),
        (["gate", "disruption", ""], ["spot"]),
        (["run", "status", ""], ["web-1", "web-2"]),
        (["run", "stop", "-n", "shop", ""], ["site-1"]),
        (["run", "start", "x", "--placement", "wi"], ["wiki"]),
        (["run", "start", "x", "--strategy", ""], ["careful"]),
        (["run", "status", "-n", "sh"], ["shop"]),
        (["approve", ""], ["web-1", "kubernetes-1-31", "web-1-after-canary", "kubernetes-1-31-first"]),
        (["approve", "web-1", "--stage", ""], ["canary"]),
        (["approve", "web-2", "--stage", ""], []),
        (["reject", "-n", "shop", ""], ["site-1", "site-1-before-all"]),
        (["reject", "-n", "shop", "site-1", "--stage", ""], ["all"]),
        (["undo", "w"], ["web-1", "web-2"]),
        (["upgrade", "status", ""], ["kubernetes-1-30", "kubernetes-1-31"]),
        (["upgrade", "plan", "k"], ["kubernetes-1-30", "kubernetes-1-31"]),
        (["upgrade", "skip", "kubernetes-1-31", "--stage", ""], ["first", "rest"]),
        (["upgrade", "skip", "kubernetes-1-31", "--wait-after", "r"], ["rest"]),
        (["upgrade", "skip", "kubernetes-1-31", "--member", ""], ["dover"]),
        (["wait", "crp/web", "--for", ""], ["condition=", "jsonpath=", "create", "delete"]),
        (["wait", "clusterapprovalrequest", "--for", "condition="], ["condition=Approved"]),
        (["wait", "crp", "web", "--for", "condition="], []),
        (["crp", "-o", "j"], ["json", "jsonpath=", "jsonpath-as-json=", "jsonpath-file="]),
        (["render", "-o", "d"], ["diff", "dir="]),
        (["lint", "-o", "s"], ["sarif"]),
        (["rules", "X-1"], [f"X-{number}" for number in range(10, 20)]),
        (["history", "--reason", "C-0"], [f"C-0{number}" for number in range(1, 10)]),
        (["gate", "cluster-update", "dover", "--run", ""], ["kubernetes-1-30", "kubernetes-1-31"]),
        (["leave", ""], ["dover"]),
        (["plan", "--lost", ""], ["dover"]),
        (["plan", "--run", ""], ["web-1", "web-2"]),
        (["history", "crp", "we"], ["web"]),
        (["ap"], ["apply", "api-resources", "approve"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_words_that_can_follow(fleet, capsys, monkeypatch, tmp_path, words, expected):
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(fleet, tmp_path / "config")))
    assert offered(capsys, *words) == (expected, ":4")


def test_contexts_are_those_of_the_kubeconfig(fleet, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(fleet, tmp_path / "config")))
    assert offered(capsys, "crp", "--context", "") == (["here"], ":4")


def test_where_files_are_meant_the_shell_completes_them(capsys):
    assert offered(capsys, "crp", "--kubeconfig", "") == ([], ":0")


def test_a_hub_that_does_not_answer_is_not_waited_for_and_nothing_is_said(tmp_path):
    """It accepts the connection and is silent."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        environment = {
            **os.environ,
            "HOME": str(tmp_path),
            "COMP_CWORD": "9",
            "_HARBORMASTER_COMPLETE": "bash_complete",
        }
        (tmp_path / "token").write_text("t")
        words = (
            f"harbormaster get crp --server http://127.0.0.1:{silent.getsockname()[1]} --token-file {tmp_path}/token "
        )
        environment |= {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()))}
        done = program(env=environment)
        silent.settimeout(0)
        silent.accept()[0].close()  # it has connected
    assert (done.stdout.strip(), done.stderr) == ("", "")
