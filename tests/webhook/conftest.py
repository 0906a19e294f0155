"""What all tests of the service share."""

import gzip
from collections.abc import Iterator
from functools import lru_cache

import pytest


@pytest.fixture(scope="session", autouse=True)
def compressed_once() -> Iterator[None]:
    """Compress each file of the page once per process: every server that a test starts compresses all of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gzip, "compress", lru_cache(maxsize=256)(gzip.compress))
        yield
