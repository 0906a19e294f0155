"""``/v1/budgets``: what disruption budgets allow, now and on the calendar.

The query of the URL says what is wanted; a mistake in it is reported with the name of the parameter.

Source: serving.md 3.1.
"""

from datetime import datetime
from typing import Final, NoReturn

from aiohttp import web

from scorer.api.meta import parse_time
from scorer.api.node_pool import DisruptionReason
from scorer.api.quoting import quote
from scorer.node_budgets.documents import LONGEST_DAYS, REASONS, TooLargeError
from webhook.answers.time_zones import UnknownZoneError, find_zone
from webhook.endpoints.answers import tagged
from webhook.endpoints.api import Api
from webhook.endpoints.problems import Mistake, Problem, ProblemError
from webhook.gate.budgets import HubBudgets

USUAL_DAYS: Final = 14
_LISTS: Final = ("pool", "reason")
"""Parameters that may be given several times."""


def add_routes(api: Api, budgets: HubBudgets) -> None:
    """Serve the list, the single pool and the calendar.

    A pool that is called ``calendar`` has no path of its own; the list shows it: ``?pool=calendar``.
    """

    async def every(request: web.Request) -> web.Response:
        _check_names(request, "pool", "reason", "at")
        at, reasons = _at(request, budgets), _reasons(request)
        pools = budgets.pools(_pools(request))
        return tagged(request, await budgets.overview(pools, at, reasons))

    async def one(request: web.Request) -> web.Response:
        _check_names(request, "reason", "at")
        at, reasons = _at(request, budgets), _reasons(request)
        pools = budgets.pools((request.match_info["name"],))
        return tagged(request, await budgets.overview(pools, at, reasons))

    async def calendar(request: web.Request) -> web.Response:
        _check_names(request, "pool", "days", "tz", "from")
        start = _instant(request, "from") or budgets.now().replace(microsecond=0)
        days = _days(request)
        zone = None
        if "tz" in request.query:
            try:
                zone = find_zone(request.query["tz"])
            except UnknownZoneError as error:
                _refuse("tz", str(error))
        pools = budgets.pools(_pools(request))
        try:
            return tagged(request, await budgets.calendar(pools, start, days, zone))
        except TooLargeError as error:
            _refuse("days", str(error))
        except OverflowError:
            _refuse("from", f"{quote(request.query['from'])}: the calendar would leave the years 1 to 9999")

    api.get("/v1/budgets", "/v1/budgets", every)
    api.get("/v1/budgets/calendar", "/v1/budgets/calendar", calendar)
    api.get("/v1/budgets/{name}", "/v1/budgets/*", one)


def _check_names(request: web.Request, *known: str) -> None:
    """Refuse a parameter that is misspelt or given twice, rather than answer a different question."""
    for name in request.query:
        if name not in known:
            _refuse(name[:64], f"is not known here, only {', '.join(known)}", "unknown")
        if name not in _LISTS and len(request.query.getall(name)) > 1:
            _refuse(name, "is given more than once", "duplicate")


def _pools(request: web.Request) -> list[str]:
    return request.query.getall("pool", [])


def _at(request: web.Request, budgets: HubBudgets) -> datetime:
    return _instant(request, "at") or budgets.now()


def _reasons(request: web.Request) -> tuple[DisruptionReason, ...]:
    words = request.query.getall("reason", [])
    for word in words:
        if word not in REASONS:
            _refuse("reason", f"{quote(word)} is none of {', '.join(REASONS)}")
    return tuple(reason for reason in REASONS if not words or reason in words)


def _instant(request: web.Request, name: str) -> datetime | None:
    text = request.query.get(name)
    if text is None:
        return None
    try:
        return parse_time(text)
    except (ValueError, OverflowError):
        hint = "; write + as %2B in a URL" if " " in text else ""
        _refuse(name, f"{quote(text)} is no instant such as 2026-03-01T10:00:00Z{hint}")


def _days(request: web.Request) -> int:
    text = request.query.get("days")
    if text is None:
        return USUAL_DAYS
    if not (text.isascii() and text.isdigit() and len(text) <= 3 and 1 <= int(text) <= LONGEST_DAYS):
        _refuse("days", f"{quote(text)} is no whole number from 1 to {LONGEST_DAYS}")
    return int(text)


def _refuse(name: str, why: str, code: str = "invalid") -> NoReturn:
    mistake = Mistake(f"/{name}", code, why)
    raise ProblemError(Problem.VALIDATION_FAILED, f"{name}: {why}", mistakes=[mistake])
