"""Runner and shared functions of live checks.

A live check is a pure function of (object, stored object, context) that yields warnings. It reads the hub through
`Context.hub`. If the hub cannot answer a question, the check ends. At the shared deadline of a review, all remaining
checks are skipped. An error in a check is reported through the context, and never refuses a write. In all three cases,
earlier warnings are kept.

Source: docs/specifications/placement-api.md 10 and 11.
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
"""Takes the object (None on DELETE), the stored object (None on CREATE) and the context.

The object has passed the rules of its kind. On an update, parts that were already broken may still be broken.
"""

MOST_FINDINGS: Final = 100
"""Maximum number of warnings of one check. An answer shows fewer."""
MOST_KNOWN: Final = 256
"""Maximum number of cached results, by policy or selector."""
LONGEST_KNOWN: Final = 4096
"""Size limit in bytes of a policy or selector, as JSON, whose results are cached."""
_STRIDE: Final = 256
"""Number of objects between two reads of the clock."""

Item = TypeVar("Item")


def run_checks(
    checks: Iterable[LiveCheck], document: JsonObject | None, old: JsonObject | None, context: Context
) -> list[FieldWarning]:
    """Return the warnings of *checks* until their shared deadline, which is counted from now."""
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
    """Yield *items*, and check the deadline every `_STRIDE` items. For loops over all objects of a kind.

    Raises:
        OutOfTimeError: The deadline has passed.
    """
    for number, item in enumerate(items):
        if number % _STRIDE == 0:
            context.check_time()
        yield item


def selector_of(term: JsonObject) -> LabelSelector:
    """Return the label selector of a term. Short selectors are parsed once and cached, because few differ.

    Raises:
        UnknownStateError: The selector is malformed.
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
    """Return ``text: a, b and 3 more``, with as many sorted names as fit in *room* characters, or *text* if none fits.

    Args:
        text: The message about the names.
        names: Names that may be listed.
        room: Maximum number of characters of the result. *text* alone may be longer.
        total: Number of objects, named or not. None means the number of *names*.
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
