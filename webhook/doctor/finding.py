"""The finding of a check, in the shape of the output."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from scorer.api.meta import JsonObject
from scorer.api.values.quoting import format_count
from webhook.kube.ports import ForbiddenError, NotServedError, StoreError

MOST_PROBLEMS: Final = 20
"""Maximum number of problems that are listed per check. The others are only counted."""


class State(StrEnum):
    """Outcome of a check."""

    OK = "ok"
    WRONG = "wrong"
    UNCHECKED = "unchecked"


@dataclass(frozen=True, slots=True)
class Finding:
    """Finding of one check.

    Args:
        check: Name of the check.
        state: Outcome of the check.
        found: The healthy state, the number of problems, or the reason why nothing was checked, on one line.
        problems: One line per problem. Empty unless *state* is WRONG.
        advice: Fix of the problems. Empty: the problems themselves include the fix.
    """

    check: str
    state: State
    found: str
    problems: tuple[str, ...] = ()
    advice: str = ""

    def document(self) -> JsonObject:
        """Return the finding as JSON, always with the same members."""
        return {
            "check": self.check,
            "state": self.state.value,
            "found": self.found,
            "problems": list(self.problems),
            "advice": self.advice,
        }


def judged(check: str, problems: Iterable[str], well: str, advice: str = "") -> Finding:
    """Return the finding of a check: OK without problems.

    Args:
        check: Name of the check.
        problems: One line per problem.
        well: Text for the healthy state.
        advice: Fix of the problems.
    """
    all_problems = tuple(problems)
    if not all_problems:
        return Finding(check, State.OK, well)
    top_problems = all_problems[:MOST_PROBLEMS]
    if len(all_problems) > len(top_problems):
        top_problems = (*top_problems, f"and {len(all_problems) - len(top_problems)} more")
    return Finding(check, State.WRONG, format_count(len(all_problems), "problem"), top_problems, advice)


def unchecked(check: str, reason: str) -> Finding:
    """Return the finding of a check that was not made, with the reason."""
    return Finding(check, State.UNCHECKED, f"not checked: {reason}")


def refused(check: str, error: StoreError) -> Finding:
    """Return the finding of a check that was not made because of an error of the API server."""
    text = " ".join(str(error).split())
    match error:
        case ForbiddenError() if right := _denied(text):
            return unchecked(check, f"you may not {right}")
        case NotServedError():
            return unchecked(check, f"the hub does not know the kind ({text}, see definitions)")
    return unchecked(check, text)


def listed(names: Sequence[str], most: int = 5) -> str:
    """Join names on one line. Only the first *most* are listed."""
    rest = len(names) - most
    return ", ".join(names[:most]) + (f" and {rest} more" if rest > 0 else "")


def _denied(text: str) -> str:
    """Return the right that a caller lacks, as an API server names it. Empty for other errors."""
    verb, _, rest = text.partition(" cannot ")[2].partition(' resource "')
    resource, _, rest = rest.partition('"')
    namespace = rest.partition(' in the namespace "')[2].partition('"')[0]
    return f"{verb} {resource}{f' in namespace {namespace}' if namespace else ''}" if resource else ""
