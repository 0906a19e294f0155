"""What a check has found, in the shape in which it is printed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from scorer.api.meta import JsonObject
from webhook.kube.ports import ForbiddenError, NotServedError, StoreError

MOST_PROBLEMS: Final = 20
"""How many problems of one check are named; the others are counted."""


class State(StrEnum):
    """How a check has ended."""

    OK = "ok"
    WRONG = "wrong"
    UNCHECKED = "unchecked"


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check has found.

    Args:
        check: Its name.
        state: How it has ended.
        found: What is there, or why it was not checked, in a line.
        problems: What is wrong, a line each; empty unless *state* is WRONG.
        advice: What to do about them; empty: the problems say it.
    """

    check: str
    state: State
    found: str
    problems: tuple[str, ...] = ()
    advice: str = ""

    def document(self) -> JsonObject:
        """Return it as JSON, always with the same members."""
        return {
            "check": self.check,
            "state": self.state.value,
            "found": self.found,
            "problems": list(self.problems),
            "advice": self.advice,
        }


def judged(check: str, problems: Iterable[str], well: str, advice: str = "") -> Finding:
    """Return what a check has found: OK where there are no problems.

    Args:
        check: Its name.
        problems: What is wrong, a line each.
        well: What to say where nothing is.
        advice: What to do about the problems.
    """
    all_problems = tuple(problems)
    if not all_problems:
        return Finding(check, State.OK, well)
    top_problems = all_problems[:MOST_PROBLEMS]
    if len(all_problems) > len(top_problems):
        top_problems = (*top_problems, f"and {len(all_problems) - len(top_problems)} more")
    return Finding(check, State.WRONG, counted(len(all_problems), "problem"), top_problems, advice)


def unchecked(check: str, reason: str) -> Finding:
    """Return that a check was not made, and why."""
    return Finding(check, State.UNCHECKED, f"not checked: {reason}")


def refused(check: str, error: StoreError) -> Finding:
    """Return that a check was not made, because of what the API server has answered."""
    text = " ".join(str(error).split())
    match error:
        case ForbiddenError() if right := _denied(text):
            return unchecked(check, f"you may not {right}")
        case NotServedError():
            return unchecked(check, f"the hub does not know the kind ({text}); see definitions")
    return unchecked(check, text)


def counted(count: int, noun: str) -> str:
    """Write a number of things."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def listed(names: Sequence[str], most: int = 5) -> str:
    """Write names in a line, the first ones where there are many."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def _denied(text: str) -> str:
    """Return the right that a caller lacks, as an API server names it; empty: it says something else."""
    verb, _, rest = text.partition(" cannot ")[2].partition(' resource "')
    resource, _, rest = rest.partition('"')
    namespace = rest.partition(' in the namespace "')[2].partition('"')[0]
    return f"{verb} {resource}{f' in namespace {namespace}' if namespace else ''}" if resource else ""
