"""``/v1/score``, ``/v1/filter`` and ``/v1/explain``.

Source: docs/specifications/serving.md 3.1 and 3.2.
"""

import asyncio
import hashlib
import time
from dataclasses import replace
from typing import Annotated, Literal, NotRequired

from aiohttp import web
from pydantic import Field
from typing_extensions import TypedDict

from scorer.api.family import PlacementRef
from scorer.api.meta import format_time
from scorer.api.values.answer import Described, FleetRevision, Instant, Shape, one_of
from scorer.framework.status import Category
from scorer.placement.explanation import ExplainedCluster
from webhook.answers.questions import Eligible, PlacementQuestion, PlacementVerdict, RejectedCandidate
from webhook.answers.ranking import affinity_range
from webhook.endpoints.http.api import Api
from webhook.endpoints.http.continue_tokens import ContinueExpiredError
from webhook.endpoints.http.problems import Problem, ProblemError
from webhook.endpoints.http.responses import tagged
from webhook.endpoints.scheduling.request_bodies import ExplainModel, QuestionModel, ScoreModel

Refusal = Annotated[str, one_of(*(category for category in Category if category is not Category.SCORE_TOO_LOW))]
"""The category of the first check that failed."""


class Score(TypedDict):
    """The points of one eligible cluster."""

    topologySpread: int
    """Points of all spread constraints, compared first."""
    affinity: int
    """Points of all preferred terms, compared second."""
    total: int
    """Sum of both, for display only: the order does not follow from it."""
    normalized: Annotated[int, Shape({"type": "integer", "minimum": 0, "maximum": 100})]
    """`affinity`, scaled to 0 to 100 over all eligible candidates, not only those of this page."""


class Rejection(TypedDict):
    """Reason why a filter rejected a cluster."""

    plugin: str
    """Name of the filter."""
    code: Refusal
    """The category of the first check that failed."""
    message: str
    """Human-readable reason."""
    resolvable: bool
    """Whether freeing capacity on the cluster could help."""


class RankedCluster(TypedDict):
    """A cluster that passes every filter."""

    cluster: str
    eligible: Literal[True]
    selected: bool
    """Whether it would be picked now. The current clusters of a placement on the hub count as picked."""
    rank: Annotated[int, Shape({"type": "integer", "minimum": 1})]
    """Rank among all eligible candidates, from 1, as in a first run that ignores existing placements."""
    score: Score
    explanation: NotRequired[ExplainedCluster]
    """With `explain` in the question: every number in the decision."""


class RejectedCluster(TypedDict):
    """A cluster that a filter rejected."""

    cluster: str
    eligible: Literal[False]
    rejection: Rejection
    explanation: NotRequired[ExplainedCluster]
    """With `explain` in the question: every number in the decision."""


Answered = Annotated[RankedCluster | RejectedCluster, Field(discriminator="eligible")]
"""One cluster."""
_ScoreAnswer = TypedDict(
    "_ScoreAnswer",
    {
        "fleetRevision": Annotated[
            FleetRevision,
            Described(
                "State of the fleet that was evaluated, as `<fleet>/<step>`. The same question at the same "
                "revision gets the same bytes."
            ),
        ],
        "policyHash": Annotated[str, Described("Hash of the policy.")],
        "evaluatedAt": Annotated[Instant, Described("Instant at which ages were measured.")],
        "items": Annotated[
            list[Answered],
            Described(
                "Ranks are those of a first scheduling run with the present scores, regardless of existing "
                "bindings. A placement on the hub keeps its clusters, so `selected` may differ from `rank`."
            ),
        ],
        "continue": Annotated[str, Described("Token of the next page, empty on the last one.")],
    },
)


class ScoreAnswer(_ScoreAnswer, TypedDict):
    """One page of the ranking: eligible clusters as a first run ranks them, then the rejected ones by name."""


class TurnedAwayCluster(Rejection, TypedDict):
    """A cluster that is not eligible, with the reason."""

    cluster: str


class FilterAnswer(TypedDict):
    """Eligible and rejected clusters."""

    fleetRevision: FleetRevision
    """Revision of the judged state of the fleet, `<fleet>/<step>`."""
    policyHash: str
    """Hash of the policy."""
    evaluatedAt: Instant
    """The instant that ages were measured at."""
    eligible: list[str]
    """Names, ascending."""
    rejected: list[TurnedAwayCluster]
    """By name."""


def add_routes(api: Api, *, explain_only: bool = False) -> None:
    """Serve ``/v1/explain`` and, unless *explain_only*, ``/v1/score`` and ``/v1/filter``."""
    advisor = api.answers.advisor
    continuation = api.continuation

    async def asked(request: web.Request, body: QuestionModel) -> PlacementQuestion:
        question = body.question()
        if isinstance(question.placement, PlacementRef):
            await api.require_placement(request, question.placement)
        return question

    def evaluate(question: PlacementQuestion) -> PlacementVerdict:
        start = time.perf_counter()
        verdict = advisor.evaluate(question)
        api.metrics.scored(time.perf_counter() - start, verdict.turned_away)
        return verdict

    async def score(request: web.Request) -> web.Response:
        body = await api.read(request, ScoreModel)
        question = await asked(request, body)
        verdict = evaluate(question)
        # The token is tied to the policy, too: a placement's policy may change between two pages without a new revision
        # of the fleet.
        fingerprint = f"{verdict.policy_hash} {body.model_dump_json(exclude={'continue_'})}"
        query = hashlib.sha256(fingerprint.encode()).digest()
        try:
            start = continuation.start(body.continue_, verdict.fleet_revision, query)
        except ContinueExpiredError:
            raise ProblemError(
                Problem.CONTINUE_EXPIRED,
                "the token belongs to another query, or the fleet has changed. Start again without it",
            ) from None
        items = _page(verdict, start, body.page)
        if body.explain and items:
            names = tuple(item["cluster"] for item in items)
            # `explaining` runs here, on the event loop, and copies its inputs. Only its result runs in the thread.
            # There is no await since `evaluate`: ranking and explanations see the same fleet.
            trace = (await asyncio.to_thread(advisor.explaining(replace(question, names=names, anew=True))))["items"]
            traces = {item["cluster"]: item for item in trace}
            for item in items:
                if (trace_item := traces.get(item["cluster"])) is not None:
                    item["explanation"] = trace_item
        end = start + len(items)
        more = end < len(verdict.eligible) + len(verdict.rejected)
        document: ScoreAnswer = {
            **_head(verdict),
            "items": items,
            "continue": continuation.token(end, verdict.fleet_revision, query) if more else "",
        }
        return tagged(request, document, verdict.fleet_revision)

    async def filtered(request: web.Request) -> web.Response:
        verdict = evaluate(await asked(request, await api.read(request, QuestionModel)))
        document: FilterAnswer = {
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
    """Scale *score* to 0…100 over the range *low* to *high*. Halves round up, and an empty range gives 0.

    Args:
        score: An affinity score.
        low: The minimum of all scores and 0.
        high: The maximum of all scores.

    Source: docs/specifications/serving.md 2.6 with M = 100.
    """
    span = high - low
    return (200 * (score - low) + span) // (2 * span) if span else 0


def rejection(item: RejectedCandidate) -> Rejection:
    """Return why a cluster was rejected, as JSON."""
    return {"plugin": item.plugin, "code": item.code, "message": item.message, "resolvable": item.resolvable}


class _Head(TypedDict):
    fleetRevision: str
    policyHash: str
    evaluatedAt: str


def _head(verdict: PlacementVerdict) -> _Head:
    return {
        "fleetRevision": verdict.fleet_revision,
        "policyHash": verdict.policy_hash,
        "evaluatedAt": format_time(verdict.evaluated_at),
    }


def _page(verdict: PlacementVerdict, start: int, limit: int) -> list[Answered]:
    eligible, count = verdict.eligible, len(verdict.eligible)
    low, high = affinity_range(eligible)
    items: list[Answered] = [_ranked(item, min(0, low), high) for item in eligible[start : start + limit]]
    room = limit - len(items)
    first = max(0, start - count)
    items += [
        {"cluster": item.cluster, "eligible": False, "rejection": rejection(item)}
        for item in verdict.rejected[first : first + room]
    ]
    return items


def _ranked(item: Eligible, low: int, high: int) -> RankedCluster:
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
