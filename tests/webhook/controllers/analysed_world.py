"""Runs whose stages are approved by what a query endpoint says, in a whole hub in memory."""

import json
from contextlib import asynccontextmanager

from scorer.api.kinds import APPROVAL_REQUEST, STAGED_RUN
from scorer.api.unstructured.documents import current_condition, with_metadata
from tests.virtual_time import loop_now
from tests.webhook.controllers.query_server import query_server
from tests.webhook.controllers.staged_world import APPROVAL, make_run, make_stage, staged
from tests.webhook.edits import edit
from webhook.kube.ports import Key
from webhook.settings.analysis import AnalysisOptions

QUERY = {"endpoint": "main", "expr": "errors", "below": 5}
STAGES = (make_stage("test", afterStageTasks=APPROVAL), make_stage("live", maxConcurrency=5))


def analysed(name="r", **checks):
    """Make a run with an analysis of its stages."""
    run = make_run(name)
    run["metadata"]["annotations"] = {"harbormaster.dev/analysis": json.dumps(checks)}
    return run


@asynccontextmanager
async def queried(**options):
    """Run a world with one query endpoint, whose clock is that of the loop."""
    ahead = []
    async with query_server(lambda: loop_now() + ahead[0].ahead if ahead else loop_now()) as server:
        settings = AnalysisOptions(endpoints={"main": server.url}, **options)
        async with staged(*STAGES, analysis=settings) as world:
            ahead.append(world)
            yield world, server


def request(world, name="r-after-test"):
    return world.cache.get(APPROVAL_REQUEST, name) or {}


def shown(world, kind="Analyzed", name="r-after-test"):
    """Return status and reason of a condition of a request."""
    found = current_condition(request(world, name), kind) or {}
    return f"{found.get('status', '')} {found.get('reason', '')}".strip()


def told(world, kind="Analyzed"):
    return (current_condition(request(world), kind) or {}).get("message", "")


async def annotate(world, **annotations):
    """Set annotations of the run, as a user does."""
    await edit(world.store, STAGED_RUN, Key("r"), lambda it: with_metadata(it, annotations=annotations))
