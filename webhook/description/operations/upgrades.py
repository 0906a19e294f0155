"""The operations below ``/v1/upgrade``."""

from typing import Final

from scorer.api.upgrade.plan import UpgradePlan
from webhook.answers.upgrade_orders import OrderAnswer
from webhook.answers.upgrade_plans import UpgradeWhatIfAnswer
from webhook.description.operations.operation import OpenApiOperation
from webhook.endpoints.http.problems import Problem
from webhook.endpoints.upgrades.actions import GateAnswerModel, RetryAnswer, RetryModel, SkipModel
from webhook.endpoints.upgrades.plan_request import UpgradeChangesModel, UpgradePlanModel
from webhook.endpoints.upgrades.status_reports import UpgradeReport

_NOTED: Final = "the caller is noted in its annotation `harbormaster.dev/requested-by`."
_ORDERED: Final = (Problem.NOT_FOUND, Problem.CONFLICT)

UPGRADE_OPERATIONS: Final = (
    OpenApiOperation(
        "planUpgrade",
        "post",
        "/v1/upgrade/plan",
        "Upgrade",
        "When an upgrade run reaches each member",
        "The engine on a moved clock: upgrades take as long as expected, approvals are given, none fails. The run, its "
        "strategy, the windows, the catalogs and the members may be given; what is left out is as on the hub. A run, "
        "or the strategy of one that is given, that the caller may not read does not exist for them, and placements "
        "of kinds that they may not list are left out of `blastRadius`.",
        UpgradePlan,
        UpgradePlanModel,
        problems=(Problem.NOT_FOUND, Problem.CONFLICT, Problem.DEADLINE_EXCEEDED),
    ),
    OpenApiOperation(
        "whatIfUpgrade",
        "post",
        "/v1/upgrade/whatif",
        "Upgrade",
        "What would come of changes to an upgrade run",
        "The plan before and after the changes, and for which members that matters. Nothing is changed.",
        UpgradeWhatIfAnswer,
        UpgradeChangesModel,
        problems=(Problem.NOT_FOUND, Problem.CONFLICT, Problem.DEADLINE_EXCEEDED),
    ),
    *(
        OpenApiOperation(
            f"{verb}UpgradeRun",
            "post",
            f"/v1/upgrade/runs/{{name}}:{verb}",
            "Upgrade",
            summary,
            f"{description} Needs the right to update the run; {_NOTED}",
            OrderAnswer,
            request,
            problems=_ORDERED,
        )
        for verb, summary, description, request in (
            (
                "start",
                "Start an upgrade run, or start it again",
                "409: it is going on, is over, or is being stopped.",
                None,
            ),
            ("stop", "Stop an upgrade run", "Upgrades under way go on. 409: it has not started, or is over.", None),
            ("skip", "Leave out parts of an upgrade run", "409: it is over, or has no such part.", SkipModel),
        )
    ),
    OpenApiOperation(
        "retryUpgradeRun",
        "post",
        "/v1/upgrade/runs/{name}:retry",
        "Upgrade",
        "A run that does again what another has not done",
        "With the versions and images that the other one had chosen, not started. It is not created: look at it, then "
        "apply it. 409: the other run is going on.",
        RetryAnswer,
        RetryModel,
        body_optional=True,
        problems=_ORDERED,
    ),
    *(
        OpenApiOperation(
            f"{verb}UpgradeGate",
            "post",
            f"/v1/upgrade/gates/{{name}}:{verb}",
            "Upgrade",
            f"{verb.capitalize()} a gate of an upgrade run",
            f"Needs the right to update the status of the gate; {_NOTED} 409: it does not wait for an answer.",
            OrderAnswer,
            GateAnswerModel,
            body_optional=True,
            problems=_ORDERED,
        )
        for verb in ("approve", "reject")
    ),
    OpenApiOperation(
        "generateUpgradeRun",
        "post",
        "/v1/upgrade/profiles/{name}:generate",
        "Upgrade",
        "Make the run of a profile for what is published now",
        f"It is not started. Needs the right to create runs; {_NOTED} 409: there is no version to upgrade to.",
        OrderAnswer,
        problems=_ORDERED,
    ),
    OpenApiOperation(
        "reportUpgrade",
        "post",
        "/v1/upgrade/operations/{run}/{member}/{attempt}/status",
        "Upgrade",
        "What an upgrader outside reports",
        "For operations that were handed off by HTTP; the three parts of the path are those of the `operationID`. The "
        "body is what changes in the status of the ClusterUpgradeRequest. It is signed, not sent with credentials: "
        "`X-Harbormaster-Signature` is `sha256=` and the HMAC-SHA256 of the body in hex, by a secret of "
        "`HARBORMASTER_HANDOFF_SECRET_FILE`, which is read anew when it changes. The body must have `operationID`, so "
        "that the report is good for that operation only (`HARBORMASTER_HANDOFF_UNBOUND_REPORTS` makes it optional). "
        "`progressPercent` never falls within a phase, and no time is later than now. 409: it goes back behind an "
        "earlier report, or the attempt is over. A last report that is sent again is answered like the first time.",
        request=UpgradeReport,
        status=204,
        open_to_all=True,
        problems=(
            Problem.MALFORMED_REQUEST,
            Problem.UNAUTHENTICATED,
            Problem.NOT_FOUND,
            Problem.REQUEST_TIMEOUT,
            Problem.CONFLICT,
            Problem.PAYLOAD_TOO_LARGE,
            Problem.UNSUPPORTED_MEDIA_TYPE,
            Problem.VALIDATION_FAILED,
            Problem.RATE_LIMITED,
            Problem.NOT_READY,
        ),
    ),
)
