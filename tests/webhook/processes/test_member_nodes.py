"""Where the nodes of a member are looked at by its agent, and where not."""

import asyncio

import pytest

from scorer.api.kinds import LEASE, NODE_POOL
from tests.waiting import until
from webhook.controllers.nodes.observer import UNOBSERVED_NODES
from webhook.kube.client.paths import path_of
from webhook.kube.ports import NotFoundError, UnavailableError
from webhook.processes import member_nodes
from webhook.processes.member_nodes import MemberNodes
from webhook.runtime.clock import utc_now
from webhook.settings.gate import GateSettings, NodeDisruptionMode, NodeDisruptionOptions

POOLS, LEASES = path_of(NODE_POOL), path_of(LEASE, "agents")


class Server:
    """An API server that has NodePools and stores nothing."""

    def __init__(self):
        self.asked = []

    async def request(self, method, path, *_, **__):
        self.asked.append((method, str(path)))
        if path == POOLS:
            return {"metadata": {"resourceVersion": "1"}, "items": [{"metadata": {"name": "general"}}]}
        raise NotFoundError("there is none")


async def home():
    return "agents"


@pytest.mark.parametrize("answer", [False, UnavailableError("it does not answer")], ids=["anothers", "not-known"])
async def test_nodes_of_a_cluster_that_is_not_that_of_our_member_are_left_alone(monkeypatch, answer):
    """A kubeconfig may name the wrong cluster: "touches nothing" (docs/upgrade-and-recovery.md)."""
    monkeypatch.setattr(member_nodes, "LOOK_SECONDS", 0.001)
    server, looks, enough = Server(), [answer, answer, True], asyncio.Event()

    async def is_ours():
        if not looks:
            enough.set()
            return False
        found = looks.pop(0)
        if found is not True:
            assert not any(path.startswith(LEASES) for _, path in server.asked)
        if isinstance(found, Exception):
            raise found
        return found

    options = NodeDisruptionOptions(NodeDisruptionMode.ACT, gate=GateSettings(namespace="agents"))
    running = asyncio.create_task(MemberNodes(server, home, options, UNOBSERVED_NODES, utc_now, is_ours).run())
    await until(lambda: any(path.startswith(LEASES) for _, path in server.asked))
    running.cancel()
    await asyncio.wait([running])
    assert looks == []


async def test_a_term_ends_when_the_cluster_is_not_ours_any_more(monkeypatch):
    monkeypatch.setattr(member_nodes, "LOOK_SECONDS", 0.001)
    looks = [True, UnavailableError("it does not answer"), False, True]

    async def is_ours():
        found = looks.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    options = NodeDisruptionOptions(NodeDisruptionMode.ACT)
    await MemberNodes(Server(), home, options, UNOBSERVED_NODES, utc_now, is_ours)._wait_while_ours()
    assert looks == [True]
