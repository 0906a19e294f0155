"""``/v1/score``, ``/v1/filter`` and ``/v1/explain``.

Source: serving.md 3.1 and 3.2.
"""

import asyncio
import hashlib
import time
from dataclasses import replace

from aiohttp import web

from scorer.api.family import PlacementRef
from scorer.api.meta import JsonObject, format_time
from webhook.answers.questions import Eligible, PlacementQuestion, PlacementVerdict, RejectedCandidate
from webhook.answers.ranking import affinity_range
from webhook.endpoints.http.api import Api
from webhook.endpoints.http.continue_tokens import ContinueExpiredError
from webhook.endpoints.http.problems import Problem, ProblemError
from webhook.endpoints.http.responses import tagged
from webhook.endpoints.scheduling.request_bodies import ExplainModel, QuestionModel, ScoreModel


def add_routes(api: Api, *, explain_only: bool = False) -> None:
    """Serve the three questions, or only the last."""
    advisor = api.answers.advisor
    continuation = api.continuation

    async def asked(request: web.Request, body: QuestionModel) -> PlacementQuestion:
        question = body.question()
        if isinstance(question.placement, PlacementRef):
            await api.require_placement(request, question.placement)
        return question

    def evaluate(question: PlacementQuestion) -> PlacementVerdict:
        started = time.perf_counter()
        verdict = advisor.evaluate(question)
        api.metrics.scored(time.perf_counter() - started, verdict.turned_away)
        return verdict

    async def score(request: web.Request) -> web.Response:
        body = await api.read(request, ScoreModel)
        question = await asked(request, body)
        verdict = evaluate(question)
        # The token is tied to the policy too: a placement's policy may change between two pages, and the revision of
        # the fleet does not show that.
        asked_for = f"{verdict.policy_hash} {body.model_dump_json(exclude={'continue_'})}"
        query = hashlib.sha256(asked_for.encode()).digest()
        try:
            start = continuation.start(body.continue_, verdict.fleet_revision, query)
        except ContinueExpiredError:
            raise ProblemError(
                Problem.CONTINUE_EXPIRED,
                "the token is of another query or the fleet has changed; ask anew without it",
            ) from None
        items = _page(verdict, start, body.page)
        if body.explain and items:
            names = tuple(item["cluster"] for item in items)
            # `explaining` runs here, on the event loop, and copies what it needs; only what it returns runs in the
            # thread. Before that there is no await since `evaluate`: ranking and explanations see the same fleet.
            trace = (await asyncio.to_thread(advisor.explaining(replace(question, names=names, anew=True))))["items"]
            explained = {item["cluster"]: item for item in trace}
            items = [{**item, "explanation": explained.get(item["cluster"])} for item in items]
        end = start + len(items)
        more = end < len(verdict.eligible) + len(verdict.rejected)
        document = {
            **_head(verdict),
            "items": items,
            "continue": continuation.token(end, verdict.fleet_revision, query) if more else "",
        }
        return tagged(request, document, verdict.fleet_revision)

    async def filtered(request: web.Request) -> web.Response:
        verdict = evaluate(await asked(request, await api.read(request, QuestionModel)))
        document = {
            **_head(verdict),
            "eligible": sorted(item.cluster for item in verdict.eligible),
            "rejected": [{"cluster": item.cluster, **rejection(item)} for item in verdict.rejected],
        }
        return tagged(request, document, verdict.fleet_revision)

    async def explain(request: web.Request) -> web.Response:
        question = await asked(request, await api.read(request, ExplainModel))
        document = await asyncio.to_thread(advisor.explaining(question))
        return tagged(request, document, str(document["fleetRevision"]))

    api.post("/v1/explain", "/v1/explain", explain, of_page=True)
    if not explain_only:
        api.post("/v1/score", "/v1/score", score)
        api.post("/v1/filter", "/v1/filter", filtered)


def normalized(score: int, low: int, high: int) -> int:
    """Stretch *score* to 0…100 over the range *low* to *high*; halves round up, no range gives 0.

    Args:
        score: An affinity score.
        low: The least of all scores and of 0.
        high: The largest of all scores.

    Source: serving.md 2.6 with M = 100.
    """
    span = high - low
    return (200 * (score - low) + span) // (2 * span) if span else 0


def rejection(item: RejectedCandidate) -> JsonObject:
    """Return why a cluster was turned away, as JSON."""
    return {"plugin": item.plugin, "code": item.code, "message": item.message, "resolvable": item.resolvable}


def _head(verdict: PlacementVerdict) -> JsonObject:
    return {
        "fleetRevision": verdict.fleet_revision,
        "policyHash": verdict.policy_hash,
        "evaluatedAt": format_time(verdict.evaluated_at),
    }


def _page(verdict: PlacementVerdict, start: int, limit: int) -> list[JsonObject]:
    eligible, count = verdict.eligible, len(verdict.eligible)
    low, high = affinity_range(eligible)
    items = [_ranked(item, min(0, low), high) for item in eligible[start : start + limit]]
    room = limit - len(items)
    first = max(0, start - count)
    items += [
        {"cluster": item.cluster, "eligible": False, "rejection": rejection(item)}
        for item in verdict.rejected[first : first + room]
    ]
    return items


def _ranked(item: Eligible, low: int, high: int) -> JsonObject:
    return {
        "cluster": item.cluster,
        "eligible": True,
        "selected": item.selected,
        "rank": item.rank,
        "score": {
            "topologySpread": item.topology_spread,
            "affinity": item.affinity,
            "total": item.topology_spread + item.affinity,
            "normalized": normalized(item.affinity, low, high),
        },
    }
