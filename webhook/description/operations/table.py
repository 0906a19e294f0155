"""All operations in the order of the document, with their tags and the names of their models.

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
from webhook.answers.rendering import RenderAnswer
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
from webhook.endpoints.scheduling.plan_request import PlanModel, RenderModel
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
    "Placement": "Placement decisions, explanations and simulations. These operations change nothing.",
    "Fleet": "Current state of the member clusters and placements.",
    "Gate": "Permission to disrupt nodes, placements and clusters, now or later. Only reservations change state.",
    "Upgrade": "Plans and simulations of upgrades. Commands change runs and gates if the caller has the rights.",
    "Admission": "Admission checks and defaulting for CI. These operations change nothing.",
    "Description": "This document.",
    "Extender": "Protocol of kube-scheduler's extenders. Field names are spelled as in kube-scheduler.",
}

_MANY_ANSWERS: Final = (
    "Identical requests at the same state of the fleet (`fleetRevision`) get identical responses with the same `ETag`."
)

OPERATIONS: Final = (
    OpenApiOperation(
        "score",
        "post",
        "/v1/score",
        "Placement",
        "Rank clusters for a placement",
        "Returns eligible clusters by rank, then rejected ones by name, in pages of `limit` items, by default 100 "
        "and at most 500 (with `explain: true`, 50). For the next page, send the same request with `continue` from "
        "the last response. If the fleet has changed since then, the status is 410: start again. " + _MANY_ANSWERS,
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
        "List the eligible clusters",
        "Returns the names of all clusters that pass every filter, and the reasons why the others do not. "
        + _MANY_ANSWERS,
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
        "Explain a placement decision",
        "Returns the current scores and filter results per cluster, and the changes that would make a cluster "
        "eligible. At most 50 clusters may be named. " + _MANY_ANSWERS,
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
        "Simulate changes",
        "Returns the current clusters of every placement, and those after simulated changes: objects written or "
        "deleted, member clusters lost or drained. Staged update runs are returned with their stages, what they wait "
        "for, what they change, and their earliest completion.\n\n"
        "Admission first evaluates each change as a write of the caller. Changes that it would refuse are left out. "
        "Without changes, the response has the pending effects of the current state.",
        PlanAnswer,
        PlanModel,
        (Problem.DEADLINE_EXCEEDED,),
    ),
    OpenApiOperation(
        "render",
        "post",
        "/v1/render",
        "Placement",
        "Render the objects of placements",
        "Returns the objects of each placement that simulated changes would change on its clusters, as the reconcile "
        "loop would write them to Works: unwrapped from envelopes, with overrides and their variables applied. Each "
        "object includes the difference from its current version. With `unchanged: true`, unchanged objects are "
        "included. Clusters with equal objects are grouped. Values of Secrets are hidden.\n\n"
        "Admission first evaluates each change as a write of the caller, and changes that it would refuse are left "
        "out. Without changes, the response contains the pending effects of the current state.",
        RenderAnswer,
        RenderModel,
        (Problem.DEADLINE_EXCEEDED,),
    ),
    OpenApiOperation(
        "gateDisruption",
        "post",
        "/v1/gate/disruption",
        "Gate",
        "Check whether nodes may be disrupted",
        "Returns the disruptions that the budgets of a NodePool allow, and the blockers of single nodes, now or at "
        "another time. If the budgets allow too few, the response names the blocking budget and the time at which "
        "they will allow enough. A refusal also has status 200.\n\n"
        "The result reserves nothing, so two concurrent callers may both be allowed. A request may have at most 100 "
        "questions. They are evaluated in order, and disruptions granted to one are not available to the next.",
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
        "Check whether a placement may change on a cluster",
        "Returns the verdict of its rollout or staged update run, and whether another disruption is in progress "
        "on the cluster. Also returns 404 if the caller may not read the placement.",
        MemberGateAnswer,
        RolloutModel,
        (Problem.NOT_FOUND,),
    ),
    OpenApiOperation(
        "gateClusterUpdate",
        "post",
        "/v1/gate/cluster-update",
        "Gate",
        "Check whether a cluster may be upgraded",
        "Returns the verdict of its upgrade run (stage, group, gate, maintenance window, hold), and whether "
        "another disruption is in progress on the cluster.",
        MemberGateAnswer,
        ClusterUpdateModel,
        (Problem.NOT_FOUND,),
    ),
    OpenApiOperation(
        "listBudgets",
        "get",
        "/v1/budgets",
        "Gate",
        "List disruption budgets and allowed disruptions",
        "Returns for every NodePool and reason the limit, the disruptions in progress and the allowed "
        "disruptions, now or at another time, and when the budgets allow more. Warns of budgets that probably "
        "differ from their author's intent.",
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
        "Get the disruption budgets of a NodePool",
        "Returns one entry of the list.",
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
        "Get the calendar of disruption budgets",
        "Returns for every NodePool and reason the periods with a constant limit, computed with the current "
        "number of nodes. Windows are in UTC. With `tz`, each period is also given in that time zone.",
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
        "List the history",
        "Returns decisions, rollouts, actions of users, refusals and warnings of admission, refusals of the gate, and "
        "Events of the loop, as recorded by the loop and all servers. Entries of the last seconds may be missing.\n\n"
        "Entries about objects of harbormaster's own kinds require the right to list those, and entries about other "
        "objects the right to list ConfigMaps. Events of members and node pools are visible to every caller, and so "
        "are answers of the gate about nodes. Answers about a member require the right to list placements, runs and "
        "evictions.",
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
            "entryId",
            "words",
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
        "List reservations",
        "Returns the holder, the target and the expiry of each reservation, by gate and name. Reservations of "
        "placements require the right to list placements. Only the owner sees the ID, which is required to renew "
        "or release a reservation.",
        ReservationList,
        tagged=True,
    ),
    OpenApiOperation(
        "reserve",
        "post",
        "/v1/gate/reservations",
        "Gate",
        "Create a reservation",
        "Reserves the disruptions that the gate grants, so that no other caller gets them. If the gate refuses, the "
        "problem is a conflict, with the gate's `answer`.\n\n"
        "The reservation of a named node counts until the deletion of the node is observed, and need not be released. "
        "A reservation by number counts until it is released or expires. A member cluster is reserved for one kind of "
        "disruption. Other kinds must wait.",
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
        "Renew a reservation",
        "Extends the reservation for the given time from now. Only the owner may renew a reservation, and only "
        "before it expires.",
        TakenReservation,
        RenewalModel,
        (Problem.NOT_FOUND, Problem.CONFLICT, Problem.DEADLINE_EXCEEDED),
    ),
    OpenApiOperation(
        "releaseReservation",
        "delete",
        "/v1/gate/reservations/{id}",
        "Gate",
        "Release a reservation",
        "Only the owner may release a reservation. Release it when its nodes are ready again, or when the hub shows "
        "them as being deleted. Otherwise the gate may grant the same number to another caller before these nodes "
        "count.",
        problems=(Problem.NOT_FOUND, Problem.CONFLICT, Problem.DEADLINE_EXCEEDED),
        status=204,
    ),
    *UPGRADE_OPERATIONS,
    OpenApiOperation(
        "validate",
        "post",
        "/v1/validate",
        "Admission",
        "Validate an object",
        "Applies defaults and the rules of the webhook to the object, as a write of the caller (an update if "
        "`oldObject` is set). All errors are listed. A kind without rules is allowed, with a warning.",
        ValidateAnswer,
        RehearsalModel,
    ),
    OpenApiOperation(
        "default",
        "post",
        "/v1/default",
        "Admission",
        "Apply defaults to an object",
        "Returns the object as changed by the mutating webhook, and the JSON Patch of the changes. The object is "
        "not validated.",
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
        "Returns OpenAPI 3.1. The page `/docs` shows it. No credentials are required. Each address has a rate limit.",
        problems=(Problem.RATE_LIMITED,),
        tagged=True,
        open_to_all=True,
    ),
    OpenApiOperation(
        "extenderFilter",
        "post",
        "/extender/v1/filter",
        "Extender",
        "Filter nodes for a pod",
        "Evaluates nodes that represent member clusters by the placement that the pod follows. Other nodes pass. "
        "`Error` has the reason for a failure.",
        ExtenderFilterResult,
        ExtenderArgs,
    ),
    OpenApiOperation(
        "extenderPrioritize",
        "post",
        "/extender/v1/prioritize",
        "Extender",
        "Score nodes for a pod",
        "Returns one entry per node, in the order of the request.",
        HostPriority,
        ExtenderArgs,
        many=True,
    ),
    OpenApiOperation(
        "extenderPreempt",
        "post",
        "/extender/v1/preempt",
        "Extender",
        "Filter nodes for preemption",
        "Returns the nodes where pods may be evicted for this one. The answer may have fewer nodes than the "
        "request, but never more victims.",
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
