"""``/v1/budgets``: limits of disruption budgets, now and on the calendar.

The query of the URL selects the answer. An error in it is reported with the name of the parameter.

Source: docs/specifications/serving.md 3.1.
"""

from datetime import datetime
from typing import Final

from aiohttp import web

from scorer.api.node_pool import DisruptionReason
from scorer.api.values.quoting import quote
from scorer.node_budgets.documents import LONGEST_DAYS, REASONS, TooLargeError
from webhook.answers.time_zones import UnknownZoneError, find_zone
from webhook.endpoints.http.api import Api
from webhook.endpoints.http.query_parameters import check_names, instant, refuse, whole_number
from webhook.endpoints.http.responses import tagged
from webhook.gate.budgets import HubBudgets

USUAL_DAYS: Final = 14
_LISTS: Final = ("pool", "reason")
"""Parameters that may be given several times."""


def add_routes(api: Api, budgets: HubBudgets) -> None:
    """Serve the list, the single pool and the calendar.

    A pool named ``calendar`` has no path of its own. The list includes it: ``?pool=calendar``.
    """

    async def every(request: web.Request) -> web.Response:
        check_names(request, "pool", "reason", "at", lists=_LISTS)
        at, reasons = _at(request, budgets), _reasons(request)
        pools = budgets.pools(_pools(request))
        return tagged(request, await budgets.overview(pools, at, reasons))

    async def one(request: web.Request) -> web.Response:
        check_names(request, "reason", "at", lists=_LISTS)
        at, reasons = _at(request, budgets), _reasons(request)
        pools = budgets.pools((request.match_info["name"],))
        return tagged(request, await budgets.overview(pools, at, reasons))

    async def calendar(request: web.Request) -> web.Response:
        check_names(request, "pool", "days", "tz", "from", lists=_LISTS)
        start = instant(request, "from") or budgets.now().replace(microsecond=0)
        days = whole_number(request, "days", USUAL_DAYS, LONGEST_DAYS)
        zone = None
        if "tz" in request.query:
            try:
                zone = find_zone(request.query["tz"])
            except UnknownZoneError as error:
                refuse("tz", str(error))
        pools = budgets.pools(_pools(request))
        try:
            return tagged(request, await budgets.calendar(pools, start, days, zone))
        except TooLargeError as error:
            refuse("days", str(error))
        except OverflowError:
            refuse("from", f"{quote(request.query['from'])}: the calendar must be within the years 1 to 9999")

    api.get("/v1/budgets", "/v1/budgets", every)
    api.get("/v1/budgets/calendar", "/v1/budgets/calendar", calendar)
    api.get("/v1/budgets/{name}", "/v1/budgets/*", one)


def _pools(request: web.Request) -> list[str]:
    return request.query.getall("pool", [])


def _at(request: web.Request, budgets: HubBudgets) -> datetime:
    return instant(request, "at") or budgets.now()


def _reasons(request: web.Request) -> tuple[DisruptionReason, ...]:
    words = request.query.getall("reason", [])
    for word in words:
        if word not in REASONS:
            refuse("reason", f"{quote(word)}: must be one of {', '.join(REASONS)}")
    return tuple(reason for reason in REASONS if not words or reason in words)
