"""What all tests of the service share."""

import asyncio
import gzip
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Final

import pytest

from tests.virtual_time import VirtualTimeLoop

IN_VIRTUAL_TIME: Final = (
    "tests/webhook/admission/",
    "tests/webhook/answers/",
    "tests/webhook/controllers/",
    "tests/webhook/embedded/simulation/",
    "tests/webhook/gate/",
    "tests/webhook/kube/certificates/",
    "tests/webhook/member/works/",
)
"""Folders whose tests wait for timers of a whole hub in memory."""


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    if item.nodeid.startswith(IN_VIRTUAL_TIME):
        return {"virtual time": VirtualTimeLoop}
    return {"real time": asyncio.new_event_loop}


@pytest.fixture(scope="session", autouse=True)
def compressed_once() -> Iterator[None]:
    """Compress each file of the page once per process: every server that a test starts compresses all of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gzip, "compress", lru_cache(maxsize=256)(gzip.compress))
        yield
