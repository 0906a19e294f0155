"""Lists that depend on switches, as one text in which each part stands under the condition it needs.

The code is asked once for every combination of the switches. A part that comes only with some of them stands in an
``if`` whose condition holds for exactly those: so the template cannot say anything that the code does not.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

LITERALS = 3
"""The longest condition that is tried: so many switches, each on or off."""


@dataclass(frozen=True, slots=True)
class Part:
    """One entry of a list.

    Args:
        content: What the code said.
        condition: When it comes, as a Helm expression; empty: always.
    """

    content: Any
    condition: str


def merge(switches: Mapping[str, str], make: Callable[[frozenset[str]], Iterable[Any]]) -> list[Part]:
    """Return everything that *make* ever returns, in its order, each with the condition under which it does.

    Args:
        switches: Name of each switch to the Helm expression that says whether it is on.
        make: Returns the list for the switches that are on.

    Raises:
        ValueError: A part depends on its switches in a way that no condition of three of them can express.
    """
    sizes = range(len(switches), -1, -1)  # the fullest list first: it says the order of most
    cases = [frozenset(on) for size in sizes for on in combinations(sorted(switches), size)]
    seen: dict[str, set[frozenset[str]]] = {}
    order: list[str] = []
    for case in cases:
        place = 0
        for content in make(case):
            key = json.dumps(content)
            if key not in seen:
                order.insert(place, key)
                seen[key] = set()
            seen[key].add(case)
            place = order.index(key) + 1
    return [Part(json.loads(key), condition_of(seen[key], cases, switches)) for key in order]


def condition_of(presence: set[frozenset[str]], cases: Sequence[frozenset[str]], switches: Mapping[str, str]) -> str:
    """Return a Helm condition that holds for the cases in *presence* and no others; empty: for all of them."""
    for literals in _conjunctions(switches):
        if {case for case in cases if all((name in case) is on for name, on in literals)} == presence:
            return _expression(literals, switches)
    raise ValueError(f"no condition of {LITERALS} switches describes {sorted(map(sorted, presence))}")


def _conjunctions(switches: Mapping[str, str]) -> Iterator[tuple[tuple[str, bool], ...]]:
    literals = [(name, on) for name in sorted(switches) for on in (True, False)]
    for size in range(LITERALS + 1):
        yield from combinations(literals, size)


def _expression(literals: Sequence[tuple[str, bool]], switches: Mapping[str, str]) -> str:
    words = [switches[name] if on else f"(not {switches[name]})" for name, on in literals]
    return f"and {' '.join(words)}" if len(words) > 1 else "".join(words).removeprefix("(").removesuffix(")")
