"""Garbage collection of programs. A server exempts the objects of its startup, and rarely collects later ones.

Nearly all objects are freed with their last reference. The collector is only for cycles and finds few, but traverses
all objects in the cache. With a thousand members, that blocks every answer for tens of milliseconds. With a member
report every millisecond, the collector would run several times a second.
"""

import gc
from typing import Final

THRESHOLDS: Final = (5_000, 500, 100)
"""Thresholds of the three generations.

The youngest is collected often, which takes five milliseconds each time. The others are collected rarely.
"""
OF_COMMANDS: Final = 200_000
"""Threshold of the youngest generation while a command runs.

The largest imports allocate about as many objects, which a command keeps. It creates few others.
"""
LOADING: Final = 500_000
"""Threshold while the program is loaded: nearly all of those objects are kept."""


def collect_rarely() -> None:
    """Collect as rarely as is safe for a command of any duration. Saves 5% of the time of a short command."""
    gc.set_threshold(OF_COMMANDS, *gc.get_threshold()[1:])


def load_without_collecting() -> None:
    """Disable collection in practice until `freeze_heap`. Call it first."""
    gc.set_threshold(LOADING)


def freeze_heap() -> None:
    """Exempt all current objects from collection, and collect rarely. Call it once, after the setup.

    Does not collect first: that would free two thousand objects of 200,000, and take a tenth of a second.
    """
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
