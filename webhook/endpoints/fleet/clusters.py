"""``/v1/clusters``: the fleet as the engine sees it."""

from collections.abc import Callable, Iterable, Mapping

from aiohttp import web
from typing_extensions import TypedDict

from scorer.api.family import ref_prefixes
from scorer.api.kinds import UPGRADE_RUN
from scorer.api.meta import format_time
from scorer.api.values.answer import ContinueToken
from scorer.member_gate.holds import Hold
from webhook.answers.clusters import Cluster, MemberHold
from webhook.answers.upkeep import ClusterUpkeep
from webhook.endpoints.http.access_control import DISRUPTING_KINDS
from webhook.endpoints.http.api import Api
from webhook.endpoints.http.problems import Problem, ProblemError
from webhook.endpoints.http.query_parameters import page_of
from webhook.endpoints.http.responses import tagged

_ClusterList = TypedDict("_ClusterList", {"items": list[Cluster], "continue": ContinueToken})


class ClusterList(_ClusterList, TypedDict):
    """Member clusters, by name."""


def add_routes(api: Api, holds: Callable[[str], Iterable[Hold]]) -> None:
    """Serve the list, the single cluster and its history. Placements that the caller may not list are left out.

    Args:
        api: Registers the routes.
        holds: Returns the current disruptions of a member.
    """
    advisor, upkeep = api.answers.advisor, api.answers.runs.upkeep

    async def every(request: web.Request) -> web.Response:
        page = page_of(request, advisor.cluster_names(), "name")
        prefixes = ref_prefixes(await api.readable_kinds(request))
        readable = await _upkeep(request)
        items = [_visible_cluster(item, prefixes, readable) for item in advisor.clusters(page.names)]
        answer: ClusterList = {"items": items, "continue": page.next}
        return tagged(request, answer)

    async def one(request: web.Request) -> web.Response:
        prefixes = ref_prefixes(await api.readable_kinds(request))
        name = request.match_info["name"]
        clusters = advisor.clusters((name,))
        if not clusters:
            raise ProblemError(Problem.NOT_FOUND, f"there is no member cluster {name[:253]!r}")
        readable = await _readable(request, {name: cluster_upkeep} if (cluster_upkeep := upkeep.one(name)) else {})
        document = _visible_cluster(clusters[0], prefixes, readable)
        if disrupting_holds := [_hold(hold) for hold in holds(name)]:
            if not await api.readable_kinds(request, DISRUPTING_KINDS) >= DISRUPTING_KINDS:
                for hold in disrupting_holds:
                    hold["by"] = hold["message"] = ""
            document["holds"] = disrupting_holds
        return tagged(request, document)

    async def history(request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if not advisor.clusters((name,)):
            raise ProblemError(Problem.NOT_FOUND, f"there is no member cluster {name[:253]!r}")
        return tagged(request, api.answers.properties.document(name))

    async def _upkeep(request: web.Request) -> Mapping[str, ClusterUpkeep]:
        """Return the upkeep of the members, without the contributions of runs that the caller may not list."""
        return await _readable(request, upkeep.every())

    async def _readable(request: web.Request, upkeeps: Mapping[str, ClusterUpkeep]) -> Mapping[str, ClusterUpkeep]:
        if await api.readable_kinds(request, (UPGRADE_RUN,)):
            return upkeeps
        return {name: _without_upgrade(upkeep) for name, upkeep in upkeeps.items()}

    api.get("/v1/clusters", "/v1/clusters", every)
    api.get("/v1/clusters/{name}", "/v1/clusters/*", one)
    api.get("/v1/clusters/{name}/history", "/v1/clusters/*/history", history)


def _without_upgrade(upkeep: ClusterUpkeep) -> ClusterUpkeep:
    remaining = upkeep.copy()
    remaining.pop("upgrade", None)
    return remaining


def _hold(hold: Hold) -> MemberHold:
    kind = "" if hold.kind is None else hold.kind.value
    document: MemberHold = {"kind": kind, "by": hold.by, "message": hold.message}
    if hold.until is not None:
        document["until"] = format_time(hold.until)
    return document


def _visible_cluster(cluster: Cluster, prefixes: tuple[str, ...], upkeeps: Mapping[str, ClusterUpkeep]) -> Cluster:
    document: Cluster = {**cluster, "placements": [ref for ref in cluster["placements"] if ref.startswith(prefixes)]}
    if upkeep := upkeeps.get(cluster["name"]):
        document["upkeep"] = upkeep
    return document
