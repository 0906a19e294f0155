"""The parameters in the query of a URL: a mistake in one is reported with its name."""

from collections.abc import Collection
from datetime import datetime
from typing import NoReturn

from aiohttp import web

from scorer.api.meta import parse_time
from scorer.api.quoting import quote
from webhook.endpoints.problems import Mistake, Problem, ProblemError


def check_names(request: web.Request, *known: str, lists: Collection[str] = ()) -> None:
    """Refuse a parameter that is misspelt or given twice, rather than answer a different question.

    Args:
        request: Has the query.
        known: The parameters that there are.
        lists: Those that may be given several times.

    Raises:
        ProblemError: There is another one, or one is given twice.
    """
    for name in request.query:
        if name not in known:
            refuse(name[:64], f"is not known here, only {', '.join(known)}", "unknown")
        if name not in lists and len(request.query.getall(name)) > 1:
            refuse(name, "is given more than once", "duplicate")


def instant(request: web.Request, name: str) -> datetime | None:
    """Read an RFC 3339 instant; None: it is not given. Raises `ProblemError`."""
    text = request.query.get(name)
    if text is None:
        return None
    try:
        return parse_time(text)
    except (ValueError, OverflowError):
        hint = "; write + as %2B in a URL" if " " in text else ""
        refuse(name, f"{quote(text)} is no instant such as 2026-03-01T10:00:00Z{hint}")


def whole_number(request: web.Request, name: str, usual: int, most: int) -> int:
    """Read a number from 1 to *most*; *usual* when it is not given. Raises `ProblemError`."""
    text = request.query.get(name)
    if text is None:
        return usual
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(most)) and 1 <= int(text) <= most):
        refuse(name, f"{quote(text)} is no whole number from 1 to {most}")
    return int(text)


def refuse(name: str, why: str, code: str = "invalid") -> NoReturn:
    """Raise the `ProblemError` about one parameter."""
    mistake = Mistake(f"/{name}", code, why)
    raise ProblemError(Problem.VALIDATION_FAILED, f"{name}: {why}", mistakes=[mistake])
