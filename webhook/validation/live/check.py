"""How live checks run, and what they share.

A live check is a pure function of (object, stored object, context) that yields warnings. It reads the hub through
`Context.hub`. A question that the hub cannot answer ends the check without a verdict, and so does the end of the time
that all checks of one review share. An error in a check is reported through the context and never changes the verdict.

Source: placement-api.md 10 and 11.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Final, TypeAlias, TypeVar

import orjson

from scorer.api.meta import JsonObject
from scorer.api.values.label_selector import LabelSelector, selector_error
from scorer.api.values.quoting import printable
from webhook.validation.framework.context import Context, OutOfTimeError, UnknownStateError
from webhook.validation.framework.field import FieldWarning

LiveCheck: TypeAlias = Callable[[JsonObject | None, JsonObject | None, Context], Iterator[FieldWarning]]
"""Takes the object (None on DELETE) and the stored one (None on CREATE). The object has passed the rules of its kind;
on an update, parts that were broken before may still be broken."""

MOST_FINDINGS: Final = 100
"""Most warnings of one check; an answer shows fewer."""
MOST_KNOWN: Final = 256
"""Results that are remembered, by policy or selector."""
LONGEST_KNOWN: Final = 4096
"""Bytes of the longest of those policies and selectors, as JSON."""
_STRIDE: Final = 256
"""How many objects to visit between two looks at the clock."""

Item = TypeVar("Item")


def run_checks(
    checks: Iterable[LiveCheck], document: JsonObject | None, old: JsonObject | None, context: Context
) -> list[FieldWarning]:
    """Return the warnings of *checks* within the time that they share."""
    context = context.started()
    warnings: list[FieldWarning] = []
    for check in checks:
        try:
            context.check_time()
            for warning in islice(check(document, old, context), MOST_FINDINGS):
                warnings.append(warning)  # noqa: PERF402 - warnings before an error are kept
        except UnknownStateError:
            continue
        except OutOfTimeError:
            break
        except Exception as error:  # noqa: BLE001 - a broken check must not turn into a refusal
            context.on_failure(check.__name__, error)
    return warnings


def timed(items: Iterable[Item], context: Context) -> Iterator[Item]:
    """Yield *items*, checking the clock at intervals; for loops over all objects of a kind.

    Raises:
        OutOfTimeError: The time is over.
    """
    for number, item in enumerate(items):
        if number % _STRIDE == 0:
            context.check_time()
        yield item


def selector_of(term: JsonObject) -> LabelSelector:
    """Return the label selector of a term. The same few repeat, so short ones are read once.

    Raises:
        UnknownStateError: It is malformed.
    """
    try:
        text = orjson.dumps(term.get("labelSelector") or {})
        return _read_selector(text) if len(text) <= LONGEST_KNOWN else _read_selector.__wrapped__(text)
    except (orjson.JSONEncodeError, ValueError) as error:
        raise UnknownStateError("labelSelector") from error


@lru_cache(maxsize=MOST_KNOWN)
def _read_selector(text: bytes) -> LabelSelector:
    selector = LabelSelector.read(orjson.loads(text))
    if error := selector_error(selector):
        raise ValueError(error)
    return selector


def with_names(text: str, names: Collection[str], room: int, total: int | None = None) -> str:
    """Return ``text: a, b and 3 more``: as many names, in order, as fit in *room* characters.

    Args:
        text: The message about them.
        names: Those that may be named.
        room: Characters for the whole text.
        total: How many there are, named or not; by default as many as *names*.
    """
    total = len(names) if total is None else total
    ordered: Sequence[str] = [printable(name) for name in sorted(names)]
    best = text
    for count in range(1, len(ordered) + 1):
        rest = f" and {total - count} more" if total > count else ""
        longer = f"{text}: {', '.join(ordered[:count])}{rest}"
        if len(longer) <= room:
            best = longer
        elif len(longer) - len(rest) > room:
            break
    return best
