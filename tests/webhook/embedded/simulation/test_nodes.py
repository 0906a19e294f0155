"""What a file says of nodes and claims is what an embedded hub shows of them."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from scorer.api.kinds import NODE, NODE_CLAIM
from scorer.api.meta import dump_json
from tests.scorer.node_pool_builders import claim, node
from tests.waiting import PATIENCE_SECONDS
from webhook.embedded.simulation.annotations import SIMULATE_STATUS
from webhook.embedded.simulation.nodes import SimulatedNodes, desired_status
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.ports import Key


def saying(document, text=None):
    """Return an object as it is applied: its status is in an annotation."""
    status = document["status"]
    annotations = {SIMULATE_STATUS: dump_json(status).decode() if text is None else text}
    return {**document, "metadata": {**document["metadata"], "annotations": annotations}}


@asynccontextmanager
async def simulated(*before):
    store = EmbeddedStore.open(None)
    nodes = SimulatedNodes(store)
    for kind, document in before:
        await store.create(kind, document)
    task = asyncio.create_task(nodes.run())
    try:
        yield store
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        store.close()


async def shown(store, kind, name, status):
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (await store.get(kind, Key(name))).get("status") != status:
            await asyncio.sleep(0.005)


async def test_nodes_and_claims_get_what_they_say():
    one, its_claim, later = node("a"), claim("c", "a"), node("b", ready="False")
    async with simulated((NODE, saying(one))) as store:
        await shown(store, NODE, "a", one["status"])
        await store.create(NODE_CLAIM, saying(its_claim))
        await shown(store, NODE_CLAIM, "c", its_claim["status"])
        await store.create(NODE, saying(later))
        await shown(store, NODE, "b", later["status"])


async def test_another_text_is_another_status():
    async with simulated((NODE, saying(node("a")))) as store:
        await shown(store, NODE, "a", node("a")["status"])
        current = await store.get(NODE, Key("a"))
        changed = saying(node("a", ready="Unknown"))
        await store.replace(NODE, {**changed, "metadata": {**current["metadata"], **changed["metadata"]}})
        await shown(store, NODE, "a", node("a", ready="Unknown")["status"])


async def test_what_says_nothing_is_left_alone():
    async with simulated() as store:
        plain = node("plain")
        created = await store.create(NODE, plain)
        await store.replace_status(NODE, {**created, "status": {"phase": "mine"}})
        await store.create(NODE, saying(node("a")))
        await shown(store, NODE, "a", node("a")["status"])
        assert (await store.get(NODE, Key("plain")))["status"] == {"phase": "mine"}


@pytest.mark.parametrize("text", ["", "{", "[]", "1", "null"])
def test_what_makes_no_sense_is_no_status(text):
    assert desired_status(saying(node("a"), text)) is None
