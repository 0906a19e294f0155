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

_NOTED: Final = "The caller is recorded in its annotation `harbormaster.dev/requested-by`."
_ORDERED: Final = (Problem.NOT_FOUND, Problem.CONFLICT)

UPGRADE_OPERATIONS: Final = (
    OpenApiOperation(
        "planUpgrade",
        "post",
        "/v1/upgrade/plan",
        "Upgrade",
        "Plan an upgrade run",
        "Returns when the run reaches each member, simulated by the engine with an advanced clock: upgrades take "
        "the expected time, approvals are given, and no upgrade fails. The run, its strategy, the windows, the "
        "catalogs and the members may be in the request. The rest is taken from the hub.\n\n"
        "Also returns 404 if the caller may not read the run or its strategy. `blastRadius` has only placements of "
        "kinds that the caller may list.",
        UpgradePlan,
        UpgradePlanModel,
        problems=(Problem.NOT_FOUND, Problem.CONFLICT, Problem.DEADLINE_EXCEEDED),
    ),
    OpenApiOperation(
        "whatIfUpgrade",
        "post",
        "/v1/upgrade/whatif",
        "Upgrade",
        "Simulate changes to an upgrade run",
        "Returns the plan before and after the changes, and the affected members. Nothing is changed.",
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
            f"{description} Requires the right to update the run. {_NOTED}",
            OrderAnswer,
            request,
            problems=_ORDERED,
        )
        for verb, summary, description, request in (
            (
                "start",
                "Start or restart an upgrade run",
                "409: the run is in progress, finished, or stopping.",
                None,
            ),
            (
                "stop",
                "Stop an upgrade run",
                "Upgrades in progress continue. 409: the run has not started, or is finished.",
                None,
            ),
            ("skip", "Skip parts of an upgrade run", "409: the run is finished, or has no such part.", SkipModel),
        )
    ),
    OpenApiOperation(
        "retryUpgradeRun",
        "post",
        "/v1/upgrade/runs/{name}:retry",
        "Upgrade",
        "Prepare a retry of an upgrade run",
        "Returns a run for the members that an earlier run did not upgrade, with the same versions and images, not "
        "started. The run is not created: review it, then apply it. 409: the earlier run is in progress, or was never "
        "started.",
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
            f"Requires the right to update the status of the gate. {_NOTED} 409: the gate is not waiting for approval.",
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
        "Create the upgrade run for the current target of a profile",
        f"The run is not started. Requires the right to create runs. {_NOTED} 409: no version to upgrade to is "
        "available.",
        OrderAnswer,
        problems=_ORDERED,
    ),
    OpenApiOperation(
        "reportUpgrade",
        "post",
        "/v1/upgrade/operations/{run}/{member}/{attempt}/status",
        "Upgrade",
        "Report the status of an operation",
        "External upgraders call this for operations that were handed off by HTTP. The three parts of the path are "
        "those of the `operationID`. The body contains the changes to the status of the ClusterUpgradeRequest.\n\n"
        "Reports are signed instead of authenticated: `X-Harbormaster-Signature` is `sha256=` and the HMAC-SHA256 of "
        "the body in hex, with a secret of `HARBORMASTER_HANDOFF_SECRET_FILE`, which is reloaded when it changes. "
        "The body must have `operationID`, so that the report is valid for that operation only "
        "(`HARBORMASTER_HANDOFF_UNBOUND_REPORTS` makes it optional).\n\n"
        "Within a phase, a lower `progressPercent` than before is ignored. Times in the future are replaced by the "
        "time of arrival. 409: the report contradicts an earlier one, or the attempt is finished. A repeated final "
        "report gets the same response as the first.",
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
