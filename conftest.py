"""Which tests stay together when several files are run at a time."""

import pytest

FLEET = "e2e/test_faults", "e2e/test_fleet"
"""Files that share the fleet of real clusters, which takes a while to start; they mostly wait."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep each file in one process, and all that share the fleet in one, which begins first and lasts longest."""
    items.sort(key=lambda item: not item.nodeid.startswith(FLEET))
    for item in items:
        file = item.nodeid.partition("::")[0]
        item.add_marker(pytest.mark.xdist_group("fleet" if file.startswith(FLEET) else file))
