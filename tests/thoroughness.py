"""How much of a random test runs: all its examples in ``make soak``, a third of them in every other run."""

import os
from typing import Final

import hypothesis
from hypothesis.internal.conjecture import engine

SOAK: Final = os.environ.get("HARBORMASTER_SOAK") == "1"
DEFAULT_EXAMPLES: Final = 100
SHRINKING_SECONDS: Final = 30
"""How long to look for a smaller example of a failure; examples of some tests take a second each."""


def examples(count: int) -> int:
    """Return how many examples of *count* this run tries."""
    return count if SOAK else -(-count // 3)


def load_profile() -> None:
    """Have Hypothesis run by these rules; how long an example takes says nothing about what is tested."""
    engine.MAX_SHRINKING_SECONDS = min(engine.MAX_SHRINKING_SECONDS, SHRINKING_SECONDS)
    hypothesis.settings.register_profile("harbormaster", deadline=None, max_examples=examples(DEFAULT_EXAMPLES))
    hypothesis.settings.load_profile("harbormaster")
