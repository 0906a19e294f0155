"""How a server collects garbage: objects that exist at the start are never examined again, later ones seldom.

Nearly everything here is freed the moment the last reference goes. The collector is for cycles, and finds few; but it
walks all that the cache holds. With a thousand members that takes tens of milliseconds, during which no caller gets an
answer; and with a member reporting every millisecond it would happen several times a second.
"""

import gc
from typing import Final

THRESHOLDS: Final = (50_000, 50, 100)
"""New objects before the youngest are examined, and how often a generation is before the next older one is."""


def spare_what_stays() -> None:
    """Exempt all objects that exist now from collection, and collect seldom; to be called once, after the set-up."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
