"""``/v1/history``: what has happened in the last days, as kept on the hub by all processes.

Entries about objects of harbormaster's own kinds are for callers who may list these everywhere: a refusal repeats
values that a user wrote. Entries about objects of other kinds are for callers who may list ConfigMaps everywhere, and
so could read the record itself.

The path alone is enough for events of members and node pools, as for ``/v1/clusters`` and ``/v1/budgets``. It is not
enough for refusals, warnings and actions of users, nor for answers of the gate about a member, which name the objects
that disrupt it.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Final

from aiohttp import web
from typing_extensions import TypedDict

from scorer.api.kinds import CONFIG_MAP, MEMBER_CLUSTER, NODE_POOL, OUR_KINDS, Kind
from scorer.api.values.answer import ContinueToken, Described
from scorer.api.values.quoting import quote
from webhook.endpoints.http.access_control import DISRUPTING_KINDS
from webhook.endpoints.http.api import Api
from webhook.endpoints.http.problems import Problem, ProblemError
from webhook.endpoints.http.query_parameters import check_names, instant, refuse, whole_number
from webhook.endpoints.http.responses import tagged
from webhook.history.entry import EntryType, HistoryEntry
from webhook.history.query import MOST_ITEMS, USUAL_ITEMS, Query, parse_place, words_of
from webhook.history.service import HistoryService
from webhook.kube.ports import StoreError

OPEN: Final[frozenset[Kind]] = frozenset({MEMBER_CLUSTER, NODE_POOL})
"""The kinds whose events every caller with access to the path sees."""
LISTED: Final[frozenset[Kind]] = frozenset(OUR_KINDS) - OPEN
"""The kinds whose entries are shown to callers who may list them."""
_WRITTEN: Final = (EntryType.REFUSAL, EntryType.WARNING, EntryType.ACTION)
_TEXTS: Final = ("kind", "namespace", "name", "reason", "by", "id", "q")
_LISTS: Final = ("type",)
_PARAMETERS: Final = (*_LISTS, *_TEXTS, "since", "before", "continue", "limit")


_History = TypedDict(
    "_History",
    {
        "kept": Annotated[bool, Described("Whether the history is enabled.")],
        "items": list[HistoryEntry],
        "more": Annotated[bool, Described("Whether older entries exist.")],
        "continue": ContinueToken,
    },
)


class History(_History, TypedDict):
    """Entries, the latest first."""

    unreadable: int
    """Number of lines of the record that could not be read."""


def add_routes(api: Api, history: HistoryService) -> None:
    """Serve ``/v1/history``."""

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
            id=text("id"),
            words=words_of(text("q")),
        )
        query = _restricted(query, await api.readable_kinds(request, {*OUR_KINDS, CONFIG_MAP}))
        try:
            page = await history.find(query)
        except StoreError as error:
            raise ProblemError(Problem.NOT_READY, f"reading the history failed: {error}") from error
        body: History = {**page.document(), "kept": history.is_kept, "continue": page.token}
        return tagged(request, body, "history")

    api.get("/v1/history", "/v1/history", every)


def _restricted(query: Query, readable: frozenset[Kind]) -> Query:
    """Return *query*, limited to the entries for a caller who may list the *readable* kinds."""
    excluded = {(kind.kind, operation) for kind in OPEN - readable for operation in _WRITTEN}
    if not readable >= DISRUPTING_KINDS:
        excluded.add((MEMBER_CLUSTER.kind, EntryType.GATE))
    others = None if CONFIG_MAP in readable else _words(readable | OPEN)
    return replace(
        query,
        hidden=_words(LISTED - readable),
        in_namespaces=others,
        cluster_scoped=others,
        excluded=frozenset(excluded),
    )


def _words(kinds: Iterable[Kind]) -> frozenset[str]:
    return frozenset(kind.kind for kind in kinds)


def _place(token: str) -> tuple[datetime, str] | None:
    try:
        return parse_place(token) if token else None
    except (ValueError, OverflowError):
        refuse("continue", f"{quote(token)}: not a token of this list. Start again without it")


def _type(word: str) -> EntryType:
    entry_type = next((candidate for candidate in EntryType if candidate.lower() == word.lower()), None)
    return entry_type or refuse("type", f"{quote(word)}: must be one of {', '.join(EntryType)}")
