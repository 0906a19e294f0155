"""``harbormaster version``: of this program, of the hub, of what is installed there, and of the agents."""

import json

import pytest

from scorer.api.kinds import KINDS, MEMBER_CLUSTER, NAMESPACE
from tests.webhook.cli.conftest import kubeconfig
from tests.webhook.cli.fleets import member
from webhook.kube.ports import Key
from webhook.runtime.distribution import installed_version

OWN = installed_version()
AGENT = "harbormaster.dev/agent-version"


@pytest.fixture
def installed(hub):
    """A hub with a Deployment of ours, and members whose agents say their version, or do not."""

    def create(kind, document):
        hub.run(hub.store.create(kind, document))

    create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "harbormaster-system"}})
    labels = {"app.kubernetes.io/name": "harbormaster", "app.kubernetes.io/version": "0.0.9"}
    metadata = {"name": "serve", "namespace": "harbormaster-system", "labels": labels}
    create(KINDS["apps", "Deployment"], {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata})
    for name, number in (("dover", OWN), ("kiel", OWN), ("brest", "0.0.1"), ("cadiz", None)):
        document = member(name, 1)
        create(MEMBER_CLUSTER, document)
        if number:
            status = {"properties": {AGENT: {"value": number, "observationTime": "2026-01-01T00:00:00Z"}}}
            stored = hub.run(hub.store.get(MEMBER_CLUSTER, Key(name)))
            hub.run(hub.store.replace_status(MEMBER_CLUSTER, {**stored, "status": status}))
    return hub


def test_of_everything_with_what_differs(cli, installed, tmp_path):
    done = cli("version", "--kubeconfig", kubeconfig(installed, tmp_path / "config"))
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"harbormaster {OWN}",
        "hub v1.36.0-harbormaster",
        f"server 0.0.9 (harbormaster-system/serve) is not {OWN}, the version of this program",
        f"agents 0.0.1 (1 member) is not {OWN}, the version of this program",
        f"agents {OWN} (2 members)",
        "agents unknown (1 member)",
    ]
    document = json.loads(cli("version", "-o", "json", "--kubeconfig", tmp_path / "config").stdout)
    assert document["agents"] == [
        {"version": "0.0.1", "count": 1},
        {"version": OWN, "count": 2},
        {"version": "unknown", "count": 1},
    ]


def test_without_a_hub_only_that_of_the_client(cli):
    done = cli("version")
    assert (done.exit_code, done.stdout, done.stderr) == (0, f"harbormaster {OWN}\n", "")


def test_a_hub_that_is_named_has_to_answer(cli, tmp_path):
    (tmp_path / "token").write_text("t")
    named = cli("version", "--server", "https://127.0.0.1:1", "--token-file", tmp_path / "token")
    assert (named.exit_code, named.stderr.count("\n")) == (1, 1)
