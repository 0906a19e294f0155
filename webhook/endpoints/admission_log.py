"""``/v1/admission-log``: what admission refused or warned about lately.

Who may not list the objects of a kind does not learn from the log what others do with them.
"""

from aiohttp import web

from scorer.api.kinds import KINDS
from webhook.admission.log import AdmissionLog, Entry
from webhook.endpoints.answers import tagged
from webhook.endpoints.api import Api
from webhook.endpoints.pages import page_of


def add_routes(api: Api, log: AdmissionLog) -> None:
    """Serve the log, the latest entry first."""

    async def every(request: web.Request) -> web.Response:
        entries = tuple(log.entries())
        kinds = {found for entry in entries if (found := KINDS.get((entry.group, entry.kind))) is not None}
        readable = {kind.group_kind for kind in await api.readable_kinds(request, kinds)} if kinds else set()
        seen = {_key(entry): entry for entry in entries if (entry.group, entry.kind) in readable}
        page = page_of(request, list(seen))
        return tagged(request, page.document([seen[key].document() for key in page.names]))

    api.get("/v1/admission-log", "/v1/admission-log", every)


def _key(entry: Entry) -> str:
    """Return a key by which the latest entry comes first, as pages are sorted."""
    return f"{2**63 - entry.number:020}"
