"""All operations in the order of the document, with their tags and the names of their requests.

A test compares them with the routes of the application, in both directions.
"""

from collections.abc import Mapping
from typing import Final

from scorer.extender.protocol import (
    ExtenderArgs,
    ExtenderBindingArgs,
    ExtenderBindingResult,
    ExtenderFilterResult,
    ExtenderPreemptionArgs,
    ExtenderPreemptionResult,
    HostPriority,
)
from scorer.member_gate.answer import MemberGateAnswer
from scorer.node_budgets.answer import GateAnswer
from scorer.node_budgets.documents import BudgetCalendar, BudgetList
from scorer.placement.explanation import ExplainAnswer
from webhook.answers.plan_answer import PlanAnswer
from webhook.description.operations.fleet import FLEET_OPERATIONS
from webhook.description.operations.operation import OpenApiOperation
from webhook.description.operations.upgrades import UPGRADE_OPERATIONS
from webhook.endpoints.admission.dry_run import DefaultAnswer, RehearsalModel, ValidateAnswer
from webhook.endpoints.fleet.history import History
from webhook.endpoints.gate.nodes import GateAnswers
from webhook.endpoints.gate.request_bodies import (
    ClusterUpdateModel,
    DisruptionBatchModel,
    DisruptionModel,
    RenewalModel,
    ReservationModel,
    RolloutModel,
)
from webhook.endpoints.gate.reservations import ReservationList, TakenReservation
from webhook.endpoints.http.problems import Problem
from webhook.endpoints.scheduling.plan_request import PlanModel
from webhook.endpoints.scheduling.request_bodies import ExplainModel, QuestionModel, ScoreModel
from webhook.endpoints.scheduling.scoring import FilterAnswer, ScoreAnswer

NAMES: Final[Mapping[str, str]] = {
    "QuestionModel": "FilterRequest",
    "ScoreModel": "ScoreRequest",
    "ExplainModel": "ExplainRequest",
    "RehearsalModel": "RehearsalRequest",
    "PlanModel": "PlanRequest",
    "DeletedModel": "DeletedObject",
    "RefModel": "PlacementRef",
    "PlacementModel": "PlacementInQuestion",
    "CandidatesModel": "Candidates",
    "DisruptionModel": "DisruptionQuestion",
    "DisruptionBatchModel": "DisruptionQuestions",
    "ObservedModel": "ObservedNodes",
    "RolloutModel": "RolloutQuestion",
    "ClusterUpdateModel": "ClusterUpdateQuestion",
    "ReservationModel": "ReservationRequest",
    "RenewalModel": "RenewalRequest",
    "UpgradePlanModel": "UpgradePlanRequest",
    "UpgradeChangesModel": "UpgradeWhatIfRequest",
    "AssumeModel": "PlanAssumptions",
    "SkipModel": "SkipRequest",
    "RetryModel": "RetryRequest",
    "GateAnswerModel": "GateAnswerRequest",
    "ReservationGrant": "Reservation",
    "PlannedRollout": "RolloutPlan",
}
"""Names in the document that differ from those of the models, by the names of the models."""

GATE_QUESTIONS: Final = ("DisruptionQuestion", "RolloutQuestion", "ClusterUpdateQuestion")
"""Questions that a reservation may contain, by their names in the document."""

TAGS: Final[Mapping[str, str]] = {
    "Placement": "Where would it go, why, and what if? These change nothing.",
    "Fleet": "The member clusters and the placements as they are now.",
    "Gate": "May it be disrupted now, and if not, when? Only reservations change something.",
    "Upgrade": "When is a member upgraded, and what if? Orders change runs and gates, for callers who may.",
    "Admission": "What admission would say and fill in, for CI. These change nothing.",
    "Description": "This document.",
    "Extender": "The protocol by which kube-scheduler asks; member names are spelled as it spells them.",
}

_MANY_ANSWERS: Final = (
    "Two equal questions about one state of the fleet (`fleetRevision`) get the same bytes, under the same `ETag`."
)

OPERATIONS: Final = (
    OpenApiOperation(
        "score",
        "post",
        "/v1/score",
        "Placement",
        "Rank clusters for a placement",
        "Eligible clusters by rank, then the rejected ones by name, page by page. To go on, send the same question "
        "with `continue` from the last answer. If the fleet has changed meanwhile, the answer is 410: start again. "
        + _MANY_ANSWERS,
        ScoreAnswer,
        ScoreModel,
        (Problem.NOT_FOUND, Problem.CONTINUE_EXPIRED),
        tagged=True,
    ),
    OpenApiOperation(
        "filter",
        "post",
        "/v1/filter",
        "Placement",
        "Which clusters are eligible",
        "The names of all clusters that pass every filter, and why the others do not. " + _MANY_ANSWERS,
        FilterAnswer,
        QuestionModel,
        (Problem.NOT_FOUND,),
        tagged=True,
    ),
    OpenApiOperation(
        "explain",
        "post",
        "/v1/explain",
        "Placement",
        "Why here and not there",
        "Every number that entered the decision as it stands now, cluster by cluster, with what would help. "
        "At most 50 clusters may be asked for by name. " + _MANY_ANSWERS,
        ExplainAnswer,
        ExplainModel,
        (Problem.NOT_FOUND,),
        tagged=True,
    ),
    OpenApiOperation(
        "plan",
        "post",
        "/v1/plan",
        "Placement",
        "What would happen if",
        "What every placement has now, and what it would have after changes that are not made: objects written or "
        "deleted, member clusters lost or drained. Admission judges each change first, as a write of the caller; "
        "changes that it would refuse are left out. The empty question tells what would happen anyway. Of staged "
        "update runs: their stages, what they wait for, what they change, and when they are done at the earliest.",
        PlanAnswer,
        PlanModel,
        (Problem.DEADLINE_EXCEEDED,),
    ),
    OpenApiOperation(
        "gateDisruption",
        "post",
        "/v1/gate/disruption",
        "Gate",
        "May these nodes be disrupted now?",
        "How many nodes the disruption budgets of a NodePool let go, and what holds back single nodes, now or at "
        "another instant; when the budgets will let that many go, and which budget is in the way. A refusal is a "
        "status 200, too. An answer without a reservation is only advice: two callers who ask at the same time may "
        "both be allowed. At most 100 questions fit into one request; they are answered in order, and what one is "
        "granted is no longer free for the next.",
        GateAnswer,
        DisruptionModel,
        (Problem.NOT_FOUND, Problem.CONFLICT, Problem.DEADLINE_EXCEEDED),
        batch=(DisruptionBatchModel, GateAnswers),
    ),
    OpenApiOperation(
        "gateRollout",
        "post",
        "/v1/gate/rollout",
        "Gate",
        "May this placement change on this cluster now?",
        "What its rollout, or its staged update run, says; and whether something else is disrupting the cluster. A "
        "placement that the caller may not read does not exist for them.",
        MemberGateAnswer,
        RolloutModel,
        (Problem.NOT_FOUND,),
    ),
    OpenApiOperation(
        "gateClusterUpdate",
        "post",
        "/v1/gate/cluster-update",
        "Gate",
        "May this cluster be upgraded now?",
        "What its upgrade run says: stage, group, gate, maintenance window, hold; and whether something else is "
        "disrupting the cluster.",
        MemberGateAnswer,
        ClusterUpdateModel,
        (Problem.NOT_FOUND,),
    ),
    OpenApiOperation(
        "listBudgets",
        "get",
        "/v1/budgets",
        "Gate",
        "What disruption budgets let go",
        "For every NodePool and reason: the limit, what uses it up and what is left, now or at another instant, and "
        "when more nodes may go; and budgets that probably do not do what their author meant.",
        BudgetList,
        problems=(Problem.NOT_FOUND, Problem.VALIDATION_FAILED),
        tagged=True,
        query=("pool", "reason", "at"),
    ),
    OpenApiOperation(
        "getBudgets",
        "get",
        "/v1/budgets/{name}",
        "Gate",
        "What the disruption budgets of one NodePool let go",
        "As the list, for one pool.",
        BudgetList,
        problems=(Problem.NOT_FOUND, Problem.VALIDATION_FAILED),
        tagged=True,
        query=("reason", "at"),
    ),
    OpenApiOperation(
        "getBudgetCalendar",
        "get",
        "/v1/budgets/calendar",
        "Gate",
        "How many nodes disruption budgets let go at which times",
        "For every NodePool and reason: periods in which the limit stays the same, computed with the present number of "
        "nodes. Windows are in UTC; with `tz`, each period is also given in the time of that zone.",
        BudgetCalendar,
        problems=(Problem.NOT_FOUND, Problem.VALIDATION_FAILED),
        tagged=True,
        query=("pool", "days", "from", "tz"),
    ),
    OpenApiOperation(
        "listHistory",
        "get",
        "/v1/history",
        "Fleet",
        "What has happened in the last days",
        "Decisions, rollouts, refusals and warnings of admission, answers of the gate, and all else the loop tells, as "
        "the loop and all servers have kept it. What other processes did in the last seconds may not be there yet. "
        "Entries about objects of harbormaster's own kinds are for callers who may list those, and entries about other "
        "objects for callers who may list ConfigMaps. Events of members and node pools are for every caller.",
        History,
        problems=(Problem.VALIDATION_FAILED,),
        tagged=True,
        query=(
            "type",
            "ofKind",
            "ofNamespace",
            "ofName",
            "ruleOrReason",
            "by",
            "since",
            "before",
            "continue",
            "atMost",
        ),
    ),
    OpenApiOperation(
        "listReservations",
        "get",
        "/v1/gate/reservations",
        "Gate",
        "What is reserved",
        "Who has reserved what, and until when, by gate and name. Reservations of placements are listed only for "
        "callers who may list placements. Only the owner sees the id, which is needed to renew or release a "
        "reservation.",
        ReservationList,
        tagged=True,
    ),
    OpenApiOperation(
        "reserve",
        "post",
        "/v1/gate/reservations",
        "Gate",
        "Reserve the permission",
        "What the gate grants is reserved, so that no other caller gets it. The reservation of a named node counts "
        "until the node is seen being deleted, so you need not release it; a reservation by number counts until you "
        "release it or it expires. A member cluster is reserved for one kind of disruption: another kind has to wait. "
        "If the gate refuses, the problem is a conflict, with the gate's `answer`.",
        TakenReservation,
        ReservationModel,
        (Problem.NOT_FOUND, Problem.CONFLICT, Problem.DEADLINE_EXCEEDED),
        status=201,
    ),
    OpenApiOperation(
        "renewReservation",
        "put",
        "/v1/gate/reservations/{id}",
        "Gate",
        "Keep the permission",
        "For the given time, counted from now. Only the owner may renew a reservation, and only before it expires.",
        TakenReservation,
        RenewalModel,
        (Problem.NOT_FOUND, Problem.CONFLICT, Problem.DEADLINE_EXCEEDED),
    ),
    OpenApiOperation(
        "releaseReservation",
        "delete",
        "/v1/gate/reservations/{id}",
        "Gate",
        "Release the reservation",
        "Only the owner may. Release it only when the hub shows that the nodes are going; otherwise another caller may "
        "be granted as many before they count.",
        problems=(Problem.NOT_FOUND, Problem.CONFLICT, Problem.DEADLINE_EXCEEDED),
        status=204,
    ),
    *UPGRADE_OPERATIONS,
    OpenApiOperation(
        "validate",
        "post",
        "/v1/validate",
        "Admission",
        "Would admission let this object in?",
        "The object is defaulted and judged by the rules of the webhook, as a write of the caller (an update if it "
        "has an `oldObject`). Every mistake is listed. A kind without rules is allowed, with a warning.",
        ValidateAnswer,
        RehearsalModel,
    ),
    OpenApiOperation(
        "default",
        "post",
        "/v1/default",
        "Admission",
        "What would admission fill in?",
        "The object as the mutating webhook would leave it, and the JSON Patch that leads there. The object is not "
        "validated.",
        DefaultAnswer,
        RehearsalModel,
    ),
    *FLEET_OPERATIONS,
    OpenApiOperation(
        "getOpenApi",
        "get",
        "/v1/openapi.json",
        "Description",
        "This document",
        "OpenAPI 3.1. The page `/docs` shows it. No credentials are needed; each address has a rate limit.",
        problems=(Problem.RATE_LIMITED,),
        tagged=True,
        open_to_all=True,
    ),
    OpenApiOperation(
        "extenderFilter",
        "post",
        "/extender/v1/filter",
        "Extender",
        "Which nodes may the pod go to?",
        "Nodes that stand for member clusters are judged by the placement that the pod follows; other nodes pass. "
        "`Error` says what went wrong.",
        ExtenderFilterResult,
        ExtenderArgs,
    ),
    OpenApiOperation(
        "extenderPrioritize",
        "post",
        "/extender/v1/prioritize",
        "Extender",
        "Points for nodes",
        "One entry per node, in the order of the question.",
        HostPriority,
        ExtenderArgs,
        many=True,
    ),
    OpenApiOperation(
        "extenderPreempt",
        "post",
        "/extender/v1/preempt",
        "Extender",
        "Where may pods be evicted for this one?",
        "The answer may have fewer nodes than the question, but never more victims.",
        ExtenderPreemptionResult,
        ExtenderPreemptionArgs,
    ),
    OpenApiOperation(
        "extenderBind",
        "post",
        "/extender/v1/bind",
        "Extender",
        "Not supported",
        "harbormaster does not bind pods.",
        ExtenderBindingResult,
        ExtenderBindingArgs,
    ),
)
