"""``/v1/upgrade/operations/RUN/MEMBER/ATTEMPT/status``: what an upgrader outside reports, signed.

Source: upgrade-runs.md 13.4.
"""

from functools import partial
from typing import Final

from aiohttp import web

from scorer.api.upgrade.request import UpgradeRequestStatus
from webhook.access.signature import OPERATION, SIGNATURE, is_signed
from webhook.admission.review import MOST_VALUES, BadReviewError, parse_object
from webhook.answers.upgrade_reports import ReportRefusedError, UnknownOperationError, UpgradeReports
from webhook.endpoints.api import Api, read_model
from webhook.endpoints.bodies import beside_loop
from webhook.endpoints.problems import Problem, ProblemError
from webhook.kube.ports import StoreError

LARGEST_REPORT_BYTES: Final = 256 * 1024
ROUTE: Final = "/v1/upgrade/operations/*"


def add_routes(api: Api, reports: UpgradeReports, secrets: tuple[str, ...]) -> None:
    """Serve the reports.

    Args:
        api: Gets the route.
        reports: Writes them.
        secrets: Any of them may have signed; without one, nobody can report.
    """

    async def report(request: web.Request) -> web.Response:
        if not secrets:
            raise ProblemError(Problem.NOT_FOUND, "reports are not taken here: there is no handoff_secret_file")
        parts = request.match_info
        operation = f"{parts['run']}/{parts['member']}/{parts['attempt']}"
        async with api.body(request, LARGEST_REPORT_BYTES, vouched=False) as body:
            if not is_signed(secrets, body, request.headers.get(SIGNATURE, "")):
                api.metrics.rejected("api", "unauthenticated")
                raise ProblemError(Problem.UNAUTHENTICATED, f"the header {SIGNATURE} does not fit the body")
            said = request.headers.get(OPERATION, operation)
            if said != operation:
                detail = f"the header {OPERATION} names another operation than the path"
                raise ProblemError(Problem.VALIDATION_FAILED, detail)
            try:
                document = await beside_loop(len(body), partial(parse_object, body, MOST_VALUES))
            except BadReviewError as error:
                raise ProblemError(Problem.MALFORMED_REQUEST, str(error)) from error
            status = read_model(UpgradeRequestStatus, document)
        try:
            await reports.take(operation, status)
        except UnknownOperationError as error:
            raise ProblemError(Problem.NOT_FOUND, str(error)) from error
        except ReportRefusedError as error:
            raise ProblemError(Problem.CONFLICT, str(error)) from error
        except StoreError as error:
            raise ProblemError(Problem.NOT_READY, f"the hub does not take it: {error}", retry_after=1) from error
        return web.Response(status=204)

    path = "/v1/upgrade/operations/{run}/{member}/{attempt}/status"
    api.post(path, ROUTE, report, open_to_all=True)
