"""How a server collects garbage: objects that exist at the start are never examined again, later ones seldom.

Nearly everything here is freed the moment the last reference goes. The collector is for cycles, and finds few; but it
walks all that the cache holds. With a thousand members that takes tens of milliseconds, during which no caller gets an
answer; and with a member reporting every millisecond it would happen several times a second.
"""

import gc
from typing import Final

THRESHOLDS: Final = (5_000, 500, 100)
"""New objects before the youngest are examined, and how often a generation is before the next older one is.

The youngest few and often, five milliseconds each; those that have outlived that as seldom as the bound allows.
"""
LOADING: Final = 500_000
"""New objects before any are examined while a program is loaded: that makes fewer, and nearly all of them stay."""


def load_without_collecting() -> None:
    """Collect nothing until `freeze_heap`, unless that takes unusually long; to be called first."""
    gc.set_threshold(LOADING)


def freeze_heap() -> None:
    """Exempt all objects that exist now from collection, and collect seldom; to be called once, after the set-up.

    There is no collection before: it would find two thousand objects among 200,000, and take a tenth of a second.
    """
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
