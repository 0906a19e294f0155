"""An hour of random accidents on a real fleet: nothing local is ever lost, nothing placed goes that was not asked for.

``HARBORMASTER_ACCIDENTS_SECONDS`` and ``HARBORMASTER_ACCIDENTS_SEED`` choose another length and another course; the
seed of a run is printed, so that it can be had again. ``HARBORMASTER_ACCIDENTS_ONLY`` names those that may happen.
"""

import os
import random
import time
from collections import Counter

import pytest

from e2e.fleet.accidents import ACCIDENTS, ON_PURPOSE, World, happen

pytestmark = pytest.mark.soak

SECONDS = float(os.environ.get("HARBORMASTER_ACCIDENTS_SECONDS", "3600"))
SEED = int(os.environ.get("HARBORMASTER_ACCIDENTS_SEED", str(int(time.time()))))
ONLY = [name for name in os.environ.get("HARBORMASTER_ACCIDENTS_ONLY", "").split(",") if name]


def test_nothing_is_lost_by_accident(fleet, capsys):
    with capsys.disabled():
        print(f"\n{SECONDS:g} s of accidents, HARBORMASTER_ACCIDENTS_SEED={SEED}", flush=True)
        known = {happening.__name__: happening for happening in (*ON_PURPOSE, *ACCIDENTS)}
        first = [known[name] for name in ONLY] or ACCIDENTS
        world = World(fleet, random.Random(SEED))
        world.begin()
        began, counts = time.monotonic(), Counter[str]()
        while (passed := time.monotonic() - began) < SECONDS:
            happenings = [world.dice.choice(first)]
            if not ONLY and world.dice.random() < 0.5:
                happenings.insert(world.dice.randint(0, 1), world.dice.choice((*ON_PURPOSE, *ACCIDENTS)))
            words = " and ".join(happening.__name__ for happening in happenings)
            print(f"{passed:6.0f} s {words} ({len(world.ledger.entries)} objects in the ledger)", flush=True)
            happen(world, *happenings)
            counts.update(happening.__name__ for happening in happenings)
        for name, count in counts.most_common():
            print(f"{count:5} {name}", flush=True)
        world.end()
