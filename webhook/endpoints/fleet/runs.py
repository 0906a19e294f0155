"""``/v1/runs``: staged update runs and upgrade runs.

Callers see only the runs that they may read on the hub. Others are treated as absent.
"""

from aiohttp import web

from scorer.api.family import family_in
from scorer.api.kinds import UPGRADE_RUN
from webhook.answers.status.hub_status import RESTRICTED_KINDS
from webhook.answers.update_runs import unknown_run
from webhook.answers.upgrade_views import upgrade_ref
from webhook.endpoints.http.api import Api
from webhook.endpoints.http.problems import Problem, ProblemError
from webhook.endpoints.http.responses import tagged


def add_routes(api: Api) -> None:
    """Serve the list of the runs that the caller may list, and the single run by its reference."""
    answers = api.answers

    async def every(request: web.Request) -> web.Response:
        kinds = await api.readable_kinds(request, RESTRICTED_KINDS)
        await answers.runs.catch_up(kinds)
        document = answers.runs.runs(kinds)
        return tagged(request, document)

    async def one(request: web.Request) -> web.Response:
        name, namespace = request.match_info["name"], request.match_info.get("namespace", "")
        may = await api.may_get(request, family_in(namespace).run, name, namespace)
        document = answers.runs.run(name, namespace) if may else None
        if document is None:
            raise ProblemError(Problem.NOT_FOUND, unknown_run(name, namespace))
        return tagged(request, document)

    async def upgrade(request: web.Request) -> web.Response:
        name = request.match_info["name"]
        document = await answers.runs.upgrade(name) if await api.may_get(request, UPGRADE_RUN, name, "") else None
        if document is None:
            raise ProblemError(Problem.NOT_FOUND, f"there is no upgrade run {upgrade_ref(name)[:320]}")
        return tagged(request, document)

    api.get("/v1/runs", "/v1/runs", every)
    api.get("/v1/runs/cuprun/{name}", "/v1/runs/*", upgrade)
    api.get("/v1/runs/csur/{name}", "/v1/runs/*", one)
    api.get("/v1/runs/sur/{namespace}/{name}", "/v1/runs/*", one)
