"""Whether a regular expression takes more than linear time, found out from the expression itself.

Python's engine tries one way to match after another. A text that fails in the end costs as many steps as there are ways
to match its beginning, so the time is linear when that number is bounded. It is not when, for some text *v*,

- a place in the expression is left and reached again by *v* in two ways (as in ``(a|a)*``, ``(a*)*``): exponential;
- *v* leads from a place to itself, from that place to another, and from there to itself (as in ``a*a*``): polynomial.

Both are looked for in the automaton whose states are the characters of the expression. Counted repetitions are taken
for unlimited ones, what backtracks only into itself (atomic groups) for what backtracks, and what looks ahead or back
for nothing, so a pattern may be accused wrongly, but never acquitted.

Source: Weber and Seidl, On the degree of ambiguity of finite automata, 1991.
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final

_PARSER: Any = re._parser  # what the engine itself makes of an expression; there is no public door to it
ALPHABET: Final = (*map(chr, range(128)), "\u00e9", "\u0663", "\u2028", "\ud800")
"""All of ASCII, and a letter, a digit, a line break and a surrogate beyond."""
_COPIED: Final = 3
"""Repetitions that are written out; more are taken for any number."""
_CATEGORIES: Final = {
    "CATEGORY_DIGIT": r"\d",
    "CATEGORY_NOT_DIGIT": r"\D",
    "CATEGORY_SPACE": r"\s",
    "CATEGORY_NOT_SPACE": r"\S",
    "CATEGORY_WORD": r"\w",
    "CATEGORY_NOT_WORD": r"\W",
}


@dataclass
class _Part:
    """What of an automaton an expression has added: where it begins and ends, and whether it may be empty."""

    first: frozenset[int] = frozenset()
    last: frozenset[int] = frozenset()
    empty: bool = True


@dataclass
class _Automaton:
    """Its states are numbered; each is reached by the letters in its place of *letters*."""

    flags: int
    letters: list[frozenset[str]] = field(default_factory=list)
    steps: Counter[tuple[int, int]] = field(default_factory=Counter)
    """From one state to the next, and in how many ways."""
    doubt: str = ""

    def state(self, letters: Iterable[str]) -> _Part:
        self.letters.append(frozenset(letters))
        number = frozenset({len(self.letters) - 1})
        return _Part(number, number, empty=False)

    def then(self, before: _Part, after: _Part) -> _Part:
        self.steps.update(product(before.last, after.first))
        return _Part(
            before.first | (after.first if before.empty else frozenset()),
            after.last | (before.last if after.empty else frozenset()),
            before.empty and after.empty,
        )

    def all_of(self, items: Iterable[Any]) -> _Part:
        found = _Part()
        for item in items:
            found = self.then(found, self.one(item))
        return found

    def one(self, item: Any) -> _Part:
        name, value = str(item[0]), item[1]
        match name:
            case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN":
                return self.state(letter for letter in ALPHABET if self.takes(name, value, letter))
            case "BRANCH":
                parts = [self.all_of(each) for each in value[1]]
                if sum(part.empty for part in parts) > 1:  # also what the parser makes of two equal branches
                    self.doubt = "two branches that take the same"
                return _Part(
                    frozenset().union(*(part.first for part in parts)),
                    frozenset().union(*(part.last for part in parts)),
                    any(part.empty for part in parts),
                )
            case "SUBPATTERN":
                return self.all_of(value[-1])
            case "ATOMIC_GROUP":
                return self.all_of(value)
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                return self.repeated(*value)
            case "AT" | "ASSERT" | "ASSERT_NOT":
                return _Part()
        raise NotImplementedError(f"{name} in a regular expression")

    def repeated(self, least: int, most: Any, items: Any) -> _Part:
        if most != _PARSER.MAXREPEAT and most <= _COPIED:
            found = _Part()
            for number in range(most):
                copy = self.all_of(items)
                copy.empty |= number >= least
                found = self.then(found, copy)
            return found
        once = self.all_of(items)
        self.steps.update(product(once.last, once.first))
        once.empty |= least == 0
        return once

    def takes(self, name: str, value: Any, letter: str) -> bool:
        match name:
            case "LITERAL":
                return ord(letter) == value
            case "NOT_LITERAL":
                return ord(letter) != value
            case "ANY":
                return letter != "\n" or bool(self.flags & re.DOTALL)
        wanted = True
        found = False
        for kind, what in value:
            match str(kind):
                case "NEGATE":
                    wanted = False
                case "LITERAL":
                    found |= ord(letter) == what
                case "RANGE":
                    found |= what[0] <= ord(letter) <= what[1]
                case "CATEGORY":
                    found |= bool(re.fullmatch(_CATEGORIES[str(what)], letter, self.flags & re.ASCII))
        return found is wanted


def takes_long(pattern: re.Pattern[Any], *, anywhere: bool = False) -> str:
    """Return why a text can make a match take more than linear time; empty: none can.

    Args:
        pattern: Compiled.
        anywhere: It is looked for in the whole text, from every place.
    """
    assert not pattern.flags & re.IGNORECASE, "letters are compared as they are written"
    made = _Automaton(pattern.flags)
    found = made.all_of(_PARSER.parse(pattern.pattern, pattern.flags))
    if anywhere:
        skipped = made.state(ALPHABET)
        made.steps.update(product(skipped.last, skipped.first))
        made.then(skipped, found)
    made.letters = _told_apart(made.letters)
    return made.doubt or _exponential(made) or _polynomial(made)


def _told_apart(letters: list[frozenset[str]]) -> list[frozenset[str]]:
    """Return the same with one letter only of those that are always together."""
    kinds = {tuple(letter in each for each in letters): letter for letter in ALPHABET}
    kept = frozenset(kinds.values())
    return [each & kept for each in letters]


def _reached(made: _Automaton, places: Iterable[tuple[int, ...]]) -> set[tuple[int, ...]]:
    """Return where equal texts lead from some places, each a tuple of states."""
    following: dict[int, list[int]] = {}
    for before, after in made.steps:
        following.setdefault(before, []).append(after)
    left, seen = list(places), set()
    while left:
        for place in product(*(following.get(state, ()) for state in left.pop())):
            if place not in seen and frozenset.intersection(*(made.letters[state] for state in place)):
                seen.add(place)
                left.append(place)
    return seen


def _exponential(made: _Automaton) -> str:
    for state in range(len(made.letters)):
        around = _reached(made, [(state,)])
        if (state,) not in around:
            continue
        loop = {other for (other,) in around if (state,) in _reached(made, [(other,)])}
        if any(made.steps[step] > 1 for step in product(loop, loop)):
            return "a repetition of a repetition"
        for left, right in _reached(made, [(state, state)]):
            if left != right and {left, right} <= loop and (state, state) in _reached(made, [(left, right)]):
                return f"a repetition in two ways, by {_shown(made.letters[left] & made.letters[right])}"
    return ""


def _polynomial(made: _Automaton) -> str:
    loops = [state for state in range(len(made.letters)) if (state,) in _reached(made, [(state,)])]
    for first, second in product(loops, loops):
        if first == second or (second,) not in _reached(made, [(first,)]):
            continue
        if (first, second, second) in _reached(made, [(first, first, second)]):
            return f"two repetitions, one after the other, of {_shown(made.letters[first] & made.letters[second])}"
    return ""


def _shown(letters: frozenset[str]) -> str:
    return ascii("".join(sorted(letters))[:12])
