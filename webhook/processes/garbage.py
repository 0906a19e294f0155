"""How a server collects garbage: what it was started with is never looked at again, what comes later seldom.

Nearly everything here is freed the moment the last reference goes. The collector is for cycles, and finds few; but it
walks all that the cache holds, which takes tens of milliseconds with a thousand members, during which nobody gets an
answer. With a member reporting every millisecond it would do so several times a second.
"""

import gc
from typing import Final

THRESHOLDS: Final = (50_000, 50, 100)
"""New objects before the youngest are looked at, and how often a generation is before the next older one is."""


def spare_what_stays() -> None:
    """Take all that exists now for lasting, and have the collector come seldom; to be called once, when set up."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
