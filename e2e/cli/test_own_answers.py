"""Answers that a command computes from the hub of a kubeconfig: they take the rights to read what they are about."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result

from e2e.controlplane.cluster import Cluster
from e2e.controlplane.printed import called_with
from e2e.fleet.objects import Objects
from scorer.api.family import CLUSTER, FAMILIES, Family
from scorer.api.kinds import CUSTOM_RESOURCE_DEFINITION, KINDS, LEASE, MEMBER_CLUSTER, NODE, NODE_CLAIM, NODE_POOL, Kind
from tests.webhook.cli.assistants.client import ask as tool_answer
from tests.webhook.cli.assistants.client import connected, refusal
from tests.webhook.cli.fleets import placement

RBAC = "rbac.authorization.k8s.io"
SPACE = "own-answers"

Ask = Callable[..., Result]


def of_decisions(family: Family) -> tuple[Kind, ...]:
    return family.placement, family.binding, family.policy_snapshot


DECISIONS = (MEMBER_CLUSTER, *(kind for family in FAMILIES for kind in of_decisions(family)))
POOLS = (NODE_POOL, NODE_CLAIM, NODE, CUSTOM_RESOURCE_DEFINITION)
"""The definitions tell whether the hub has NodeClaims at all."""


@pytest.fixture(scope="module")
def hub(twin: Cluster) -> Iterator[Cluster]:
    """A hub with one placement."""
    objects = Objects(twin)
    objects.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}, placement("harbour")])
    yield twin
    objects.delete(CLUSTER.placement, "harbour")
    objects.delete(KINDS["", "Namespace"], SPACE)


@pytest.fixture
def kubeconfig(hub: Cluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """The kubeconfig of a ServiceAccount that may read the kinds of the test's parameter, and nothing else."""
    objects, name = Objects(hub), f"own-{request.node.callspec.id}"
    rules = [
        {"apiGroups": [kind.group], "resources": [kind.plural], "verbs": ["get", "list"]} for kind in request.param
    ]
    account = {"kind": "ServiceAccount", "name": name, "namespace": SPACE}
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}
    made = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": SPACE}},
        {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules},
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": role,
            "subjects": [account],
        },
    ]
    objects.apply(made)
    yield hub.write_kubeconfig(name, hub.token_of(SPACE, name), folder=tmp_path)
    for kind in ("ClusterRoleBinding", "ClusterRole"):
        objects.delete(KINDS[RBAC, kind], name)


@pytest.fixture
def ask(kubeconfig: Path) -> Ask:
    """Runs commands with the kubeconfig."""
    return lambda *words: called_with({}, *words, "--kubeconfig", kubeconfig)


@pytest.mark.parametrize("kubeconfig", [pytest.param(DECISIONS, id="decisions")], indirect=True)
def test_an_explanation_reads_nothing_but_decisions_and_members(ask: Ask) -> None:
    done = ask("explain", "crp/harbour")
    assert (done.exit_code, done.stdout.split(".")[0]) == (0, "crp/harbour picks every cluster that passes, has 0")
    assert done.stderr.endswith("without harbormaster serve\n")  # nothing is left out
    assert ask("explain", "crp/harbour", "--runs").exit_code == 0
    refused = ask("budgets", "list")
    assert (refused.exit_code, " is forbidden: " in refused.stderr) == (1, True)


@pytest.mark.parametrize("kubeconfig", [pytest.param((*POOLS, LEASE), id="pools")], indirect=True)
def test_budgets_read_nothing_but_pools_and_reservations(ask: Ask) -> None:
    assert ask("budgets", "list").stdout == "No NodePools found\n"
    assert ask("gate", "list").stdout == "No reservations found\n"
    assert "there is no node pool" in ask("gate", "disruption", "x", "--count", "1", "--reason", "Empty").stderr
    refused = ask("explain", "crp/harbour")
    assert (refused.exit_code, ".kubernetes-fleet.io is forbidden: " in refused.stderr) == (1, True)


@pytest.mark.parametrize("kubeconfig", [pytest.param((), id="nothing")], indirect=True)
def test_reservations_that_may_not_be_read_are_not_taken_for_none(ask: Ask) -> None:
    done = ask("gate", "list")
    assert (done.exit_code, done.stdout) == (1, "")
    assert 'cannot list resource "leases"' in done.stderr


@pytest.mark.parametrize("kubeconfig", [pytest.param(DECISIONS, id="assistant")], indirect=True)
async def test_tools_for_assistants_have_the_rights_of_the_kubeconfig(kubeconfig: Path, tmp_path: Path) -> None:
    async with connected(tmp_path, "--kubeconfig", kubeconfig) as client:
        explained = await tool_answer(client, "explain", placement="crp/harbour")
        (refused,) = await refusal(client, "budgets")
    assert explained["answer"]["placement"] == "crp/harbour"
    assert explained["notes"][0].endswith("without harbormaster serve")
    assert ".karpenter.sh is forbidden: " in refused
