"""How thoroughly this run tests: how many random examples, in which order, and how fast the store is.

``make soak`` runs every example, in a random order, and delays writes to the embedded store at random, so that tests
that pass only on a fast machine fail there. ``HARBORMASTER_SEED`` repeats such an order and its delays.
"""

import asyncio
import os
import random
from typing import Final

import hypothesis
from hypothesis.internal.conjecture import engine

SOAK: Final = os.environ.get("HARBORMASTER_SOAK") == "1"
DEFAULT_EXAMPLES: Final = 100
SHRINKING_SECONDS: Final = 30
"""Limit for shrinking a failing example; examples of some tests take a second each."""
DELAYED_SHARE: Final = 0.15
LONGEST_DELAY_SECONDS: Final = 0.12


def seed_of(text: str) -> int | None:
    """Return the seed that ``HARBORMASTER_SEED`` holds; None: unset.

    Raises:
        ValueError: It is not a number.
    """
    if not text:
        return None
    if not text.isascii() or not text.isdecimal():
        raise ValueError(f"HARBORMASTER_SEED must be a decimal number, not {text!r}")
    return int(text)


SEED: Final = seed_of(os.environ.get("HARBORMASTER_SEED", ""))


def examples(count: int) -> int:
    """Return how many of *count* examples this run tries: all in a soak, otherwise a third."""
    return count if SOAK else -(-count // 3)


def load_profile() -> None:
    """Configure Hypothesis, without deadlines; with a seed, delay writes to the embedded store, too."""
    engine.MAX_SHRINKING_SECONDS = min(engine.MAX_SHRINKING_SECONDS, SHRINKING_SECONDS)
    # The same examples in every run but a soak: a rare failure is found where there is time for it.
    hypothesis.settings.register_profile(
        "harbormaster", deadline=None, derandomize=not SOAK, max_examples=examples(DEFAULT_EXAMPLES)
    )
    hypothesis.settings.load_profile("harbormaster")
    if SEED is not None:
        delay_writes(SEED)


def delay_writes(seed: int) -> None:
    """Make the embedded store wait at random before a write, as a hub under load does.

    Not in still time: a delay would move the clock by which such a test measures, and its stores have faults of their
    own for that.
    """
    # Only now: nothing else needs these before the tests.
    from tests.webhook.kube.still_time import StillLoop
    from webhook.embedded.storage.store import EmbeddedStore

    dice, turn = random.Random(seed), EmbeddedStore._turn

    async def delayed_turn(store: EmbeddedStore) -> None:
        if dice.random() < DELAYED_SHARE and not isinstance(asyncio.get_running_loop(), StillLoop):
            await asyncio.sleep(dice.random() * LONGEST_DELAY_SECONDS)
        await turn(store)

    EmbeddedStore._turn = delayed_turn  # type: ignore[method-assign] # the one place that all writes pass
