"""Pools as Karpenter makes them, with nodes that kwok plays: counts that follow, and budgets that are enforced.

The API server has Karpenter's own definitions and asks one replica. Each test has a pool of its own.
"""

import itertools
import subprocess
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from e2e.conftest import StartService
from e2e.controlplane.client_certificate import ClientCertificate
from e2e.controlplane.cluster import ApiError, Cluster, JsonObject
from e2e.controlplane.process import PATIENCE, Program
from e2e.controlplane.service import Service
from e2e.fleet.waiting import wait_until
from e2e.karpenter.scene import INITIALIZED, NOT_READY, Pools
from e2e.nodes.karpenter_hub import karpenter_definitions, running_kwok
from scorer.api.kinds import NODE, NODE_POOL
from scorer.api.meta import format_time
from webhook.kube.client.paths import path_of

KARPENTER = "system:serviceaccount:karpenter:karpenter"
SYSTEM = "harbormaster-system"
SHUT = {"nodes": "0"}
NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def cluster(own_hub: Cluster) -> Iterator[Cluster]:
    """A hub with Karpenter's definitions of its kinds, and ours of all others."""
    with karpenter_definitions(own_hub):
        yield own_hub


@pytest.fixture(scope="module")
def kwok(cluster: Cluster, programs: Mapping[str, Path]) -> Iterator[Program]:
    """Plays all nodes and their pods."""
    with running_kwok(cluster, programs["kwok"]) as found:
        yield found


@pytest.fixture(scope="module")
def replica(cluster: Cluster, start_service: StartService) -> Service:
    """A replica that enforces budgets, which the API server asks."""
    found = start_service(cluster, enforce_budgets="true")
    found.register()
    return found


@pytest.fixture(scope="module")
def client(cluster: Cluster) -> ClientCertificate:
    """Somebody who may ask the replica."""
    return cluster.issue_client_certificate("reader", ("system:masters",))


@pytest.fixture
def pools(cluster: Cluster, kwok: Program, replica: Service) -> Pools:
    """Where a test puts its pool."""
    assert kwok.running
    assert replica.program.running
    return Pools(cluster)


@pytest.fixture
def name() -> str:
    """A pool that no other test has."""
    return f"pool-{next(NUMBERS)}"


@pytest.fixture
def settle(replica: Service, client: ClientCertificate) -> Callable[..., None]:
    """Waits until the replica counts the nodes of a pool as told."""

    def wait(pool: str, total: int, disrupting: int = 0, reason: str = "Drifted") -> None:
        def problem() -> str:
            answer = replica.ask("GET", f"/v1/budgets/{pool}?reason={reason}", client=client)
            if answer.status != 200:
                return f"{answer.status}: {answer.body.decode()}"
            [item] = answer.document["items"]
            found = (item["total"], item["disrupting"])
            return "" if found == (total, disrupting) else f"total and disrupting are {found}"

        wait_until(f"{pool} has {total} nodes, {disrupting} of them being disrupted", problem)

    return wait


def test_counts_follow_the_nodes(pools: Pools, name: str, settle: Callable[..., None], replica: Service) -> None:
    names = pools.add_pool(name, {"nodes": "2"}, nodes=3)
    settle(name, total=3)
    pools.add_node(name, f"{name}-new", initialized=False)
    pools.label(names[0], NOT_READY, "true")
    settle(name, total=3, disrupting=1)
    settle(name, total=3, disrupting=0, reason="Unhealthy")
    assert _metric(replica, "active", name, "Drifted") == 1
    assert _metric(replica, "active", name, "Unhealthy") == 0
    assert _metric(replica, "allowed", name, "Drifted") == 2
    pools.label(f"{name}-new", INITIALIZED, "true")
    settle(name, total=4, disrupting=1)
    pools.objects.cluster.kubectl("delete", "node", names[1], "--wait=false")
    settle(name, total=4, disrupting=2)
    pools.label(names[0], NOT_READY, None)
    settle(name, total=4, disrupting=1)
    pools.finish(names[1])
    settle(name, total=3)


def _metric(replica: Service, word: str, pool: str, reason: str) -> float:
    return replica.metric(f'harbormaster_disruption_{word}{{nodepool="{pool}",reason="{reason}"}}')


def test_what_a_window_holds_back_is_refused_with_the_instant_at_which_it_opens(
    pools: Pools, name: str, settle: Callable[..., None], replica: Service
) -> None:
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    names = pools.add_pool(name, SHUT | {"schedule": f"0 {hour.hour} * * *", "duration": "3h"}, nodes=2)
    settle(name, total=2)
    opening = hour + timedelta(hours=3)
    assert _metric(replica, "next_opening_timestamp_seconds", name, "Empty") == opening.timestamp()
    for kind, deed in (("node", f'deleting Node "{names[0]}"'), ("nodeclaim", f'deleting NodeClaim "{names[0]}"')):
        refused = pools.objects.cluster.kubectl("delete", kind, names[0], "--wait=false", check=False)
        assert refused.returncode == 1
        assert "(Forbidden)" in refused.stderr
        assert f'.disruption.validate.harbormaster.dev" denied the request: {deed}' in refused.stderr
        assert f'NodePool "{name}": budgets[0] (nodes "0", schedule' in refused.stderr
        assert f"The next disruption is allowed at {format_time(opening)}" in refused.stderr
    assert not pools.is_going(names[0])
    pools.set_budgets(name, {"nodes": "1"})
    wait_until("the other budget is known", lambda: _refusal(pools, names[0]))
    assert pools.is_going(names[0])


def _refusal(pools: Pools, node: str) -> str:
    return pools.objects.cluster.kubectl("delete", "node", node, "--wait=false", check=False).stderr


def test_within_the_budget_nodes_go_and_beyond_it_the_refusal_names_them(
    pools: Pools, name: str, settle: Callable[..., None]
) -> None:
    names = pools.add_pool(name, {"nodes": "50%"}, nodes=3)
    settle(name, total=3)
    cluster = pools.objects.cluster
    cluster.kubectl("delete", "nodeclaim", names[0], "--wait=false")
    cluster.kubectl("delete", "node", names[0], "--wait=false")  # the same node, counted once
    cluster.kubectl("delete", "node", names[1], "--wait=false")
    settle(name, total=3, disrupting=2)
    refused = _refusal(pools, names[2])
    for node in names[:2]:
        assert f"{node} (being deleted)" in refused
    assert "Retry once some of them have finished or are ready" in refused
    pools.finish(names[0])
    pools.finish(names[1])
    settle(name, total=1)
    cluster.kubectl("delete", "node", names[2], "--wait=false")


def test_of_deletions_at_once_no_more_go_than_may(pools: Pools, name: str, settle: Callable[..., None]) -> None:
    names = pools.add_pool(name, {"nodes": "2"}, nodes=8)
    settle(name, total=8)

    def delete(node: str) -> int:
        try:
            pools.objects.cluster.request("DELETE", path_of(NODE, "", node))
        except ApiError as error:
            return error.code
        return 200

    with ThreadPoolExecutor(len(names)) as threads:
        codes = list(threads.map(delete, names))
    assert sorted(codes) == [200, 200, *[403] * 6]
    assert sum(pools.is_going(node) for node in names) == 2


def test_of_deletions_at_once_through_two_replicas_no_more_go_than_may(
    pools: Pools, name: str, settle: Callable[..., None], replica: Service, start_service: StartService
) -> None:
    names = pools.add_pool(name, {"nodes": "3"}, nodes=10)
    replicas = (replica, start_service(pools.objects.cluster, enforce_budgets="true"))
    settle(name, total=len(names))

    def ask(number: int) -> bool:
        asked = replicas[number % 2]
        answer = asked.ask("POST", asked.hook("/validate/disruption"), _deletion(pools, names[number]))
        assert answer.status == 200, answer.body
        assert not answer.document["response"].get("warnings")
        return bool(answer.document["response"]["allowed"])

    with ThreadPoolExecutor(len(names)) as threads:
        allowed = list(threads.map(ask, range(len(names))))
    assert sum(allowed) == 3


def _deletion(pools: Pools, node: str) -> JsonObject:
    """The review of a node's deletion by hand, as the API server sends it."""
    request = {
        "uid": node,
        "kind": {"group": "", "version": "v1", "kind": "Node"},
        "resource": {"group": "", "version": "v1", "resource": "nodes"},
        "operation": "DELETE",
        "name": node,
        "userInfo": {"username": "jane"},
        "oldObject": pools.objects.get(NODE, node),
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def test_a_drain_beyond_the_budget_is_refused(pools: Pools, name: str, settle: Callable[..., None]) -> None:
    names = pools.add_pool(name, SHUT, nodes=2)
    for number, node in enumerate(names):
        pools.add_pod(f"{name}-{number}-a", node)
        pools.add_pod(f"{name}-{number}-b", node)
    settle(name, total=2)
    refused = _drain(pools, names[0], "--timeout=15s")
    assert refused.returncode == 1
    assert f'evicting Pod "default/{name}-0-a", which drains node "{names[0]}"' in refused.stderr
    assert "will retry after" in refused.stderr
    assert pools.has_pod(f"{name}-0-a")
    pools.objects.cluster.request("POST", *_eviction(f"{name}-1-a"))  # its node is not drained
    pools.set_budgets(name, {"nodes": "1"})
    drained = _drain(pools, names[0], f"--timeout={PATIENCE:g}s")
    assert drained.returncode == 0, drained.stderr
    assert not pools.has_pod(f"{name}-0-a")
    assert not pools.has_pod(f"{name}-0-b")
    assert _drain(pools, names[1], "--timeout=15s").returncode == 1
    assert pools.has_pod(f"{name}-1-b")


def _drain(pools: Pools, node: str, *words: str) -> subprocess.CompletedProcess[str]:
    return pools.objects.cluster.kubectl("drain", node, "--force", *words, check=False)


def _eviction(pod: str) -> tuple[str, JsonObject]:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": "default"}}
    return f"/api/v1/namespaces/default/pods/{pod}/eviction", body


def test_who_keeps_to_the_budgets_by_themselves_is_not_asked(
    pools: Pools, name: str, settle: Callable[..., None]
) -> None:
    names = pools.add_pool(name, SHUT, nodes=2)
    settle(name, total=2)
    as_somebody = ["--as=jane", "--as-group=system:masters", "--wait=false"]
    cluster = pools.objects.cluster
    assert cluster.kubectl("delete", "nodeclaim", names[0], *as_somebody, check=False).returncode == 1
    cluster.kubectl("delete", "nodeclaim", names[0], f"--as={KARPENTER}", *as_somebody[1:])
    cluster.kubectl("delete", "node", names[1], f"--as={KARPENTER}", *as_somebody[1:])


def test_a_dry_run_is_judged_and_takes_nothing_from_the_budget(
    pools: Pools, name: str, settle: Callable[..., None]
) -> None:
    names = pools.add_pool(name, {"nodes": "1"}, nodes=2)
    settle(name, total=2)
    cluster = pools.objects.cluster
    for node in names:
        cluster.kubectl("delete", "node", node, "--dry-run=server", "--wait=false")
    cluster.kubectl("delete", "node", names[0], "--wait=false")
    assert cluster.kubectl("delete", "node", names[1], "--dry-run=server", check=False).returncode == 1


def test_nodes_of_no_pool_and_pools_that_go_are_nobodys_business(
    pools: Pools, name: str, settle: Callable[..., None]
) -> None:
    names = pools.add_pool(name, SHUT, nodes=1)
    settle(name, total=1)
    cluster = pools.objects.cluster
    cluster.request("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"{name}-own"}})
    cluster.kubectl("delete", "node", f"{name}-own")
    assert _refusal(pools, names[0])
    pools.objects.patch(NODE_POOL, name, {"metadata": {"finalizers": ["example.com/keep"]}})
    pools.objects.delete(NODE_POOL, name)
    cluster.kubectl("delete", "node", names[0], "--wait=false")
    pools.objects.patch(NODE_POOL, name, {"metadata": {"finalizers": None}})


def test_the_audit_log_says_what_refused(pools: Pools, name: str, settle: Callable[..., None]) -> None:
    names = pools.add_pool(name, SHUT, nodes=1)
    settle(name, total=1)
    cluster = pools.objects.cluster
    mark = cluster.audit_mark()
    cluster.kubectl("delete", "nodeclaim", names[0], check=False)
    [entry] = [entry for entry in cluster.audit(mark) if entry["verb"] == "delete"]
    assert entry["responseStatus"]["code"] == 403
    assert entry["annotations"]["nodeclaims.disruption.validate.harbormaster.dev/rules"] == "disruption-budget"


def test_while_no_replica_answers_nodes_can_be_deleted(
    pools: Pools, name: str, settle: Callable[..., None], replica: Service, start_service: StartService
) -> None:
    names = pools.add_pool(name, SHUT, nodes=2)
    settle(name, total=2)
    cluster = pools.objects.cluster
    other = start_service(cluster, enforce_budgets="true")
    other.register()
    try:
        assert _refusal(pools, names[0])
        other.program.stop()
        cluster.kubectl("delete", "node", names[0], "--wait=false")
    finally:
        replica.register()
    assert _refusal(pools, names[1])
