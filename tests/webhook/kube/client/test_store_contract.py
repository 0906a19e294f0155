"""The embedded store keeps the contract of all stores.

What it does beyond: tests/webhook/embedded/storage/test_store.py.
"""

from collections.abc import Iterator

import pytest

from scorer.api.kinds import MEMBER_CLUSTER
from tests.contracts import store_contract as contract
from tests.contracts.store_contract import *  # noqa: F403 - every class of the contract, also the next one
from webhook.embedded.storage.store import EmbeddedStore

RETAINED = 100


@pytest.fixture
def store() -> Iterator[EmbeddedStore]:
    opened = EmbeddedStore.open(None, retention=RETAINED)
    yield opened
    opened.close()


@pytest.fixture
async def forgotten(store: EmbeddedStore) -> str:
    stored = await store.create(MEMBER_CLUSTER, contract.member_cluster("many-writes"))
    first = contract.version(stored)
    for turn in range(5 * RETAINED):
        stored = await store.replace(MEMBER_CLUSTER, contract.altered(stored, labels={"turn": str(turn)}))
    return first
