"""Query parameters: names, times, numbers, and pagination with ``limit``, ``continue`` and names.

An error in a parameter is reported with the name of the parameter.

A page continues after the last name of the previous one, even if objects were created or deleted in between: members
report all the time, and a token for one state of the hub would expire before the next page is requested.

Source: docs/specifications/serving.md 3.2.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NoReturn

from aiohttp import web

from scorer.api.meta import parse_time
from scorer.api.values.quoting import quote
from webhook.endpoints.http.problems import Mistake, Problem, ProblemError


def check_names(request: web.Request, *names: str, lists: Collection[str] = ()) -> None:
    """Refuse a parameter that is misspelt or given twice, rather than answer a different question.

    Args:
        request: Has the query.
        names: The valid parameters.
        lists: Parameters that may be repeated.

    Raises:
        ProblemError: A parameter is unknown or given twice.
    """
    for name in request.query:
        if name not in names:
            refuse(name[:64], f"unknown parameter: must be one of {', '.join(names)}", "unknown")
        if name not in lists and len(request.query.getall(name)) > 1:
            refuse(name, "must be set only once", "duplicate")


def instant(request: web.Request, name: str) -> datetime | None:
    """Return the time in a parameter, None if it is absent.

    Raises:
        ProblemError: The parameter is not an RFC 3339 time.
    """
    text = request.query.get(name)
    if text is None:
        return None
    try:
        return parse_time(text)
    except (ValueError, OverflowError):
        hint = ". In a URL, write + as %2B" if " " in text else ""
        refuse(name, f"{quote(text)}: must be an instant such as 2026-03-01T10:00:00Z{hint}")


def whole_number(request: web.Request, name: str, usual: int, most: int) -> int:
    """Return the number in a parameter, *usual* if it is absent.

    Raises:
        ProblemError: The parameter is not an integer from 1 to *most*.
    """
    text = request.query.get(name)
    if text is None:
        return usual
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(most)) and 1 <= int(text) <= most):
        refuse(name, f"{quote(text)}: must be an integer from 1 to {most}")
    return int(text)


def refuse(name: str, reason: str, code: str = "invalid") -> NoReturn:
    """Raise the `ProblemError` about one parameter."""
    mistake = Mistake(f"/{name}", code, reason)
    raise ProblemError(Problem.VALIDATION_FAILED, f"{name}: {reason}", mistakes=[mistake])


LONGEST_PAGE: Final = 500
"""Maximum number of items per page."""
MOST_NAMES: Final = 200
"""Maximum number of items that may be selected by name."""
_CONTINUE: Final = "continue"


@dataclass(frozen=True, slots=True)
class Page:
    """The requested part of a list.

    Args:
        names: Names of its items, in order.
        next: The token of the next page, empty for the last page.
    """

    names: Sequence[str]
    next: str


def page_of(request: web.Request, names: Sequence[str], by: str | None = None, others: Collection[str] = ()) -> Page:
    """Return the requested part of a list. Without parameters, it is the whole list.

    Args:
        request: Request with ``limit`` and ``continue`` in its query, or names of items, or neither.
        names: Names of all items that the caller may see, sorted.
        by: The parameter that names an item and may be repeated. Unknown items are omitted. None: disabled, items
            cannot be selected by name.
        others: Further parameters, which the caller of this function reads.

    Raises:
        ProblemError: A parameter is unknown, given twice or malformed, there are too many names, or they are given
            together with ``limit`` or ``continue``.
    """
    query = request.query
    parameters = (by, "limit", _CONTINUE, *others)
    check_names(request, *(each for each in parameters if each), lists=() if by is None else (by,))
    if by is not None and by in query:
        return Page(_selected_names(query.getall(by), names, by, alone=set(query) <= {by, *others}), "")
    limit = whole_number(request, "limit", len(names), LONGEST_PAGE) if "limit" in query else len(names)
    start = bisect_right(names, _after(query[_CONTINUE])) if query.get(_CONTINUE) else 0
    page_names = names[start : start + limit]
    return Page(page_names, _token(page_names[-1]) if start + len(page_names) < len(names) else "")


def _selected_names(wanted_names: Sequence[str], names: Sequence[str], by: str, *, alone: bool) -> Sequence[str]:
    if not alone:
        refuse(by, "must not be set when limit or continue is set")
    if len(wanted_names) > MOST_NAMES:
        refuse(by, f"{len(wanted_names)} items: must have at most {MOST_NAMES}", "too-many")
    return sorted(set(wanted_names) & set(names))


def _token(name: str) -> str:
    return urlsafe_b64encode(name.encode()).decode().rstrip("=")


def _after(token: str) -> str:
    try:
        return urlsafe_b64decode(token.encode("ascii") + b"=" * (-len(token) % 4)).decode()
    except ValueError:
        refuse(_CONTINUE, f"{quote(token)}: not a token of this list. Start again without it")
