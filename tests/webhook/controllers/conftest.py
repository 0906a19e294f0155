"""Controllers are tested in virtual time."""

from collections.abc import Mapping

from tests.virtual_time import VirtualTimeLoop


def pytest_asyncio_loop_factories() -> Mapping[str, type[VirtualTimeLoop]]:
    return {"virtual time": VirtualTimeLoop}
