"""Lists in pages, and parts of them: ``?limit=&continue=`` and ``?name=``.

A page goes on after the last name of the one before, whatever has come and gone since: members report all the time, and
a token that is tied to one state of the hub would expire before the next page is asked for.

Source: serving.md 3.2.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NoReturn

from aiohttp import web

from scorer.api.meta import JsonObject
from scorer.api.quoting import quote
from webhook.endpoints.problems import Mistake, Problem, ProblemError

MOST_ITEMS: Final = 500
"""Of one page."""
MOST_NAMES: Final = 200
"""How many items may be asked for by name."""
_CONTINUE: Final = "continue"


@dataclass(frozen=True, slots=True)
class Page:
    """The part of a list that was asked for.

    Args:
        names: Of its items, in order.
        next: The token of the page after it; empty: there is none.
    """

    names: Sequence[str]
    next: str

    def document(self, items: Sequence[JsonObject]) -> JsonObject:
        """Return the answer."""
        return {"items": items, _CONTINUE: self.next}


def page_of(request: web.Request, names: Sequence[str], by: str | None = None) -> Page:
    """Choose what a request asks for; without parameters: everything.

    Args:
        request: Its query has ``limit`` and ``continue``, or names of items, or nothing.
        names: Of all items that the caller may see, sorted.
        by: The parameter that names an item; it may be given several times. Items that there are not are left out.
            None: items cannot be asked for by name.

    Raises:
        ProblemError: A parameter is unknown, given twice, or not understood.
    """
    query = request.query
    for name in query:
        known = [each for each in (by, "limit", _CONTINUE) if each]
        if name not in known:
            _refuse(name[:64], f"is not known here, only {', '.join(known)}", "unknown")
        if name != by and len(query.getall(name)) > 1:
            _refuse(name, "is given more than once", "duplicate")
    if by is not None and by in query:
        return Page(_named(query.getall(by), names, by, alone=len(set(query)) == 1), "")
    limit = _limit(query.get("limit"))
    start = bisect_right(names, _after(query[_CONTINUE])) if query.get(_CONTINUE) else 0
    found = names[start:] if limit is None else names[start : start + limit]
    return Page(found, _token(found[-1]) if start + len(found) < len(names) else "")


def _named(wanted: Sequence[str], names: Sequence[str], by: str, *, alone: bool) -> Sequence[str]:
    if not alone:
        _refuse(by, "items that are asked for by name come in one page: leave limit and continue out")
    if len(wanted) > MOST_NAMES:
        _refuse(by, f"{len(wanted)} items: ask for at most {MOST_NAMES}", "too-many")
    return sorted(set(wanted) & set(names))


def _limit(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 3 and 1 <= int(text) <= MOST_ITEMS):
        _refuse("limit", f"{quote(text)} is no whole number from 1 to {MOST_ITEMS}")
    return int(text)


def _token(name: str) -> str:
    return urlsafe_b64encode(name.encode()).decode().rstrip("=")


def _after(token: str) -> str:
    try:
        return urlsafe_b64decode(token.encode("ascii") + b"=" * (-len(token) % 4)).decode()
    except ValueError:
        _refuse(_CONTINUE, f"{quote(token)} is no token of this list; begin anew without it")


def _refuse(name: str, why: str, code: str = "invalid") -> NoReturn:
    raise ProblemError(Problem.VALIDATION_FAILED, f"{name}: {why}", mistakes=[Mistake(f"/{name}", code, why)])
