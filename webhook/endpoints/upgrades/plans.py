"""``/v1/upgrade/plan`` and ``/v1/upgrade/whatif``: when a run upgrades each member, and effects of changes to it.

Source: docs/specifications/upgrade-runs.md 14.1, 14.4 and 14.7.
"""

from collections.abc import Callable

from aiohttp import web

from scorer.api.family import PLACEMENTS, family_in
from scorer.api.kinds import Kind
from scorer.upgrade.state.placement_guard import GuardedPlacement
from webhook.answers.upgrade_plans import HubUpgradePlanner, UpgradeQuestion
from webhook.endpoints.http.access_control import caller_of
from webhook.endpoints.http.api import Api
from webhook.endpoints.http.responses import unstored
from webhook.endpoints.upgrades.plan_request import (
    UpgradeChangesModel,
    UpgradePlanModel,
    read_question,
    upgrade_problems,
)


def add_routes(api: Api, planner: HubUpgradePlanner) -> None:
    """Serve ``/v1/upgrade/plan`` and ``/v1/upgrade/whatif``."""

    async def plan(request: web.Request) -> web.Response:
        body = await api.read(request, UpgradePlanModel)
        question, readable = await _question(api, request, body)
        with upgrade_problems():
            return unstored(await planner.plan(question, readable))

    async def what_if(request: web.Request) -> web.Response:
        body = await api.read(request, UpgradeChangesModel)
        question, readable = await _question(api, request, body)
        with upgrade_problems():
            return unstored(await planner.what_if(question, readable))

    api.post("/v1/upgrade/plan", "/v1/upgrade/plan", plan)
    api.post("/v1/upgrade/whatif", "/v1/upgrade/whatif", what_if)


async def _question(
    api: Api, request: web.Request, body: UpgradePlanModel
) -> tuple[UpgradeQuestion, Callable[[GuardedPlacement], bool]]:
    """Return the question, and a predicate for the placements that the caller may list. Raises as `read_question`."""

    async def may_get(kind: Kind, name: str) -> bool:
        return await api.may_get(request, kind, name, "")

    question = await read_question(body, api.answers.admission().with_user(caller_of(request)), may_get)
    readable = await api.readable_kinds(request, PLACEMENTS)
    return question, lambda placement: family_in(placement.namespace).placement in readable
