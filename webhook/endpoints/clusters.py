"""``/v1/clusters``: the fleet as the engine sees it."""

from collections.abc import Mapping

from aiohttp import web

from scorer.api.kinds import UPGRADE_RUN
from scorer.api.meta import JsonObject
from scorer.api.references import ref_prefixes
from webhook.endpoints.answers import tagged
from webhook.endpoints.api import Api
from webhook.endpoints.problems import Problem, ProblemError


def add_routes(api: Api) -> None:
    """Serve the list and the single cluster, each with only those of its placements that the caller may list."""
    advisor, upkeep = api.answers.advisor, api.answers.runs.upkeep

    async def every(request: web.Request) -> web.Response:
        prefixes = ref_prefixes(await api.readable_kinds(request))
        document = advisor.clusters()
        kept = await _kept(request)
        document = document | {"items": [_shown(item, prefixes, kept) for item in document["items"]]}
        return tagged(request, document, str(document["fleetRevision"]))

    async def one(request: web.Request) -> web.Response:
        prefixes = ref_prefixes(await api.readable_kinds(request))
        name = request.match_info["name"]
        document = advisor.cluster(name)
        if document is None:
            raise ProblemError(Problem.NOT_FOUND, f"there is no member cluster {name[:253]!r}")
        return tagged(request, _shown(document, prefixes, await _kept(request)), advisor.fleet_revision)

    async def _kept(request: web.Request) -> Mapping[str, JsonObject]:
        """Return the upkeep of the members, without what runs say that the caller may not list."""
        found = upkeep.every()
        if await api.readable_kinds(request, (UPGRADE_RUN,)):
            return found
        return {name: {key: each[key] for key in each if key != "upgrade"} for name, each in found.items()}

    api.get("/v1/clusters", "/v1/clusters", every)
    api.get("/v1/clusters/{name}", "/v1/clusters/*", one)


def _shown(cluster: JsonObject, prefixes: tuple[str, ...], kept: Mapping[str, JsonObject]) -> JsonObject:
    shown = cluster | {"placements": [ref for ref in cluster["placements"] if ref.startswith(prefixes)]}
    return shown | {"upkeep": upkeep} if (upkeep := kept.get(cluster["name"])) else shown
