"""``/v1/history``: what has happened in the last days, as kept on the hub by all processes.

Who may ask sees what admission refused to whom, and what the gate answered. Entries about placements, runs, and what
belongs to them are for those who may list these everywhere: a refusal repeats values that somebody wrote. Entries about
anything else in a namespace are for those who may list ConfigMaps everywhere, and so could read the record itself.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
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
from webhook.history.query import MOST_ITEMS, USUAL_ITEMS, Query, parse_place
from webhook.history.record import CONFIG_MAP
from webhook.kube.ports import StoreError

LISTED: Final[frozenset[Kind]] = frozenset(
    {
        UPGRADE_RUN,
        *(
            kind
            for family in FAMILIES
            for kind in (family.placement, family.run, family.override, family.strategy, family.approval_request)
        ),
    }
)
"""The kinds whose entries are shown to those who may list them."""
_TEXTS: Final = ("kind", "namespace", "name", "reason", "by")
_LISTS: Final = ("type",)
_PARAMETERS: Final = (*_LISTS, *_TEXTS, "since", "before", "continue", "limit")


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
            after=_place(request.query.get("continue", "")),
            limit=whole_number(request, "limit", USUAL_ITEMS, MOST_ITEMS),
            kind=text("kind"),
            namespace=text("namespace"),
            name=text("name"),
            reason=text("reason"),
            by=text("by"),
        )
        readable = await api.readable_kinds(request, {*LISTED, CONFIG_MAP})
        query = replace(
            query,
            hidden=_words(LISTED - readable),
            in_namespaces=None if CONFIG_MAP in readable else _words(readable),
        )
        try:
            found = await history.find(query)
        except StoreError as error:
            raise ProblemError(Problem.NOT_READY, f"the history cannot be read: {error}") from error
        body = found.document() | {"kept": history.is_kept, "continue": found.token}
        return tagged(request, body, "history")

    api.get("/v1/history", "/v1/history", every)


def _words(kinds: Iterable[Kind]) -> frozenset[str]:
    return frozenset(kind.kind for kind in kinds)


def _place(token: str) -> tuple[datetime, str] | None:
    try:
        return parse_place(token) if token else None
    except (ValueError, OverflowError):
        refuse("continue", f"{quote(token)} is no token of this list; begin anew without it")


def _type(word: str) -> EntryType:
    found = next((each for each in EntryType if each.lower() == word.lower()), None)
    return found or refuse("type", f"{quote(word)} is none of {', '.join(EntryType)}")
