"""Whether an upgrade run that was told to start has started, or why it cannot."""

import asyncio
from typing import Final

from scorer.api.conditions import FALSE, find_condition
from scorer.api.documents import name_of
from scorer.upgrade.conditions import INITIALIZED
from webhook.cli.upgrade_runs import FoundUpgrade, UpgradeRuns

POLL_SECONDS: Final = 0.25
PATIENCE_SECONDS: Final = 5.0
"""How long the loop is given to take an order in before the command says what it has come to."""


def why_not(found: FoundUpgrade) -> str:
    """Return why a run cannot start, as the loop says; empty: it says no such thing."""
    status = found.read.status
    initialized = find_condition(status.conditions, INITIALIZED)
    if status.start_time is not None or initialized is None or initialized.status != FALSE:
        return ""
    return f"{initialized.reason}: {initialized.message}"


async def taken_in(runs: UpgradeRuns, ordered: FoundUpgrade) -> FoundUpgrade:
    """Return a run once the loop has taken an order to start in; if that does not come within seconds, as it is then.

    Args:
        runs: Where it is.
        ordered: The run with the order.
    """
    clock = asyncio.get_running_loop().time
    end = clock() + PATIENCE_SECONDS
    found = ordered
    while not has_taken(found) and clock() < end:
        await asyncio.sleep(POLL_SECONDS)
        found = await runs.get(name_of(ordered.run))
    return found


def has_taken(found: FoundUpgrade) -> bool:
    """Say whether the order to start has come to something: the run has begun, or it is known why it cannot."""
    spec, status = found.read.spec, found.read.status
    if status.observed_generation < found.read.metadata.generation:
        return False
    if status.start_time is None:
        return bool(why_not(found))
    return status.observed_restart_token == spec.restart_token
