"""One real server on the example fleet for a whole module of questions."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.webhook.description.contract import Contract
from tests.webhook.description.example_hub import Caller, serving_example_fleet

COMMITTED = Path(__file__).parents[3] / "webhook" / "openapi.json"


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def caller(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Caller]:
    """The owner of a hub with the example fleet, at rest."""
    folder = tmp_path_factory.mktemp("hub")
    async with serving_example_fleet(folder, requests_per_second=1e6, request_burst=10**6) as owner:
        yield owner


@pytest.fixture(scope="module")
def contract() -> Contract:
    """The committed document."""
    return Contract(json.loads(COMMITTED.read_text(encoding="utf-8")))
