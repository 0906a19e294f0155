"""``/v1/history``: what has happened in the last days, as kept on the hub by all processes.

Who may ask sees what admission refused to whom, and what the gate answered; entries about placements and runs only
where they may list those.
"""

from dataclasses import replace
from typing import Final

from aiohttp import web

from scorer.api.family import FAMILIES
from scorer.api.kinds import UPGRADE_RUN, Kind
from scorer.api.quoting import quote
from webhook.endpoints.answers import tagged
from webhook.endpoints.api import Api
from webhook.endpoints.parameters import check_names, instant, refuse, whole_number
from webhook.endpoints.problems import Problem, ProblemError
from webhook.history.desk import HistoryDesk
from webhook.history.entry import EntryType
from webhook.history.query import MOST_ITEMS, USUAL_ITEMS, Query
from webhook.kube.ports import StoreError

LISTED: Final[frozenset[Kind]] = frozenset(
    {UPGRADE_RUN, *(kind for family in FAMILIES for kind in (family.placement, family.run))}
)
"""The kinds whose entries are shown to those who may list them."""
_TEXTS: Final = ("kind", "namespace", "name", "reason", "by")
_LISTS: Final = ("type",)
_PARAMETERS: Final = (*_LISTS, *_TEXTS, "since", "before", "limit")


def add_routes(api: Api, history: HistoryDesk) -> None:
    """Serve the list."""

    async def every(request: web.Request) -> web.Response:
        check_names(request, *_PARAMETERS, lists=_LISTS)

        def text(name: str) -> str:
            return request.query.get(name, "")

        query = Query(
            types=frozenset(map(_type, request.query.getall("type", []))),
            since=instant(request, "since"),
            before=instant(request, "before"),
            limit=whole_number(request, "limit", USUAL_ITEMS, MOST_ITEMS),
            kind=text("kind"),
            namespace=text("namespace"),
            name=text("name"),
            reason=text("reason"),
            by=text("by"),
        )
        readable = await api.readable_kinds(request, LISTED)
        query = replace(query, hidden=frozenset(kind.kind for kind in LISTED - readable))
        try:
            found = await history.find(query)
        except StoreError as error:
            raise ProblemError(Problem.NOT_READY, f"the history cannot be read: {error}") from error
        body = found.document() | {"kept": history.is_kept}
        return tagged(request, body, "history")

    api.get("/v1/history", "/v1/history", every)


def _type(word: str) -> EntryType:
    found = next((each for each in EntryType if each.lower() == word.lower()), None)
    return found or refuse("type", f"{quote(word)} is none of {', '.join(EntryType)}")
