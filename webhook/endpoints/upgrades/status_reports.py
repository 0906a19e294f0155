"""``/v1/upgrade/operations/RUN/MEMBER/ATTEMPT/status``: signed status reports of external upgraders.

Source: docs/specifications/upgrade-runs.md 13.4.
"""

import asyncio
import logging
from collections.abc import Iterator
from functools import partial
from typing import Annotated, Final

from aiohttp import web
from pydantic import Field

from scorer.api.upgrade.request import LONGEST_OPERATION_ID, MOST_POOLS, PoolInventory, UpgradeRequestStatus
from scorer.api.values.quoting import quote
from webhook.access.signature import OPERATION, SIGNATURE, is_signature, is_signed
from webhook.admission.review import MOST_VALUES, InvalidReviewError, parse_object
from webhook.answers.upgrade_reports import (
    ReportInvalidError,
    ReportRefusedError,
    UnknownOperationError,
    UpgradeReports,
)
from webhook.endpoints.http.api import Api
from webhook.endpoints.http.bodies import off_loop
from webhook.endpoints.http.problems import Mistake, Problem, ProblemError
from webhook.endpoints.http.request_models import read_model
from webhook.kube.ports import StoreError
from webhook.settings.environment import SettingsError
from webhook.settings.secret_files import SecretFile

LARGEST_REPORT_BYTES: Final = 256 * 1024
ROUTE: Final = "/v1/upgrade/operations/*"
READ_AGAIN_SECONDS: Final = 5

_log = logging.getLogger(__name__)


class UpgradeReport(UpgradeRequestStatus):
    """Changes to the status of a ClusterUpgradeRequest."""

    operation_id: Annotated[
        str | None,
        Field(
            alias="operationID",
            max_length=LONGEST_OPERATION_ID,
            description="Operation of the report, as in the path. The signature covers only the body, so that a "
            "report without this field could be replayed for another operation. Required, except with "
            "`HARBORMASTER_HANDOFF_UNBOUND_REPORTS`.",
        ),
    ] = None
    pools: Annotated[
        tuple[PoolInventory, ...],
        Field(
            max_length=MOST_POOLS,
            json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        ),
    ] = ()


def add_routes(api: Api, reports: UpgradeReports, secrets: SecretFile, *, unbound: bool) -> None:
    """Serve the reports of upgraders at ``/v1/upgrade/operations``.

    Args:
        api: Gets the route.
        reports: Writes the reports.
        secrets: Secrets that may sign a report. Without a file, reports are disabled.
        unbound: Whether a report may lack the operation that it is about.
    """

    async def report(request: web.Request) -> web.Response:
        if not secrets.is_set:
            raise ProblemError(Problem.NOT_FOUND, "reports are disabled: handoff_secret_file is not set")
        parts, signature = request.match_info, request.headers.get(SIGNATURE, "")
        operation = f"{parts['run']}/{parts['member']}/{parts['attempt']}"
        if not is_signature(signature):
            raise api.invalid_signature(request, f"header {SIGNATURE}: must be a signature such as sha256=HEX")
        credentials = await _read(secrets)
        async with api.body(request, LARGEST_REPORT_BYTES, vouched=False) as body:
            if not is_signed(credentials, body, signature):
                raise api.invalid_signature(request, f"header {SIGNATURE}: the signature does not match the body")
            try:
                document = await off_loop(len(body), partial(parse_object, body, MOST_VALUES))
            except InvalidReviewError as error:
                raise ProblemError(Problem.MALFORMED_REQUEST, str(error)) from error
            status = read_model(UpgradeReport, document)
        _check_operation(operation, request.headers.get(OPERATION, operation), status, unbound=unbound)
        try:
            await reports.record(operation, status)
        except UnknownOperationError as error:
            raise ProblemError(Problem.NOT_FOUND, str(error)) from error
        except ReportRefusedError as error:
            raise ProblemError(Problem.CONFLICT, str(error)) from error
        except ReportInvalidError as error:
            raise ProblemError(Problem.VALIDATION_FAILED, str(error)) from error
        except StoreError as error:
            raise ProblemError(Problem.NOT_READY, f"the report could not be stored: {error}", retry_after=1) from error
        return web.Response(status=204)

    path = "/v1/upgrade/operations/{run}/{member}/{attempt}/status"
    api.post(path, ROUTE, report, open_to_all=True)


async def _read(secrets: SecretFile) -> tuple[str, ...]:
    try:
        return await asyncio.to_thread(secrets.read)
    except SettingsError as error:
        _log.warning("upgrader secrets not read", extra={"error": str(error)})
        detail = "the secrets in handoff_secret_file cannot be read: see the log of harbormaster"
        raise ProblemError(Problem.NOT_READY, detail, retry_after=READ_AGAIN_SECONDS) from error


def _check_operation(operation: str, header: str, report: UpgradeReport, *, unbound: bool) -> None:
    """Check that a report is for the operation of its path, and has no duplicate entries.

    Raises:
        ProblemError: The report is for another operation, names none although it must, or has duplicate entries.
    """
    if header != operation:
        raise ProblemError(Problem.VALIDATION_FAILED, f"header {OPERATION}: must name the operation of the path")
    mistakes = list(_twice(report))
    if report.operation_id is None and not unbound:
        detail = (
            f"must be {quote(operation)}: the signature covers only the body, so that a report without operationID "
            "could be replayed for another operation"
        )
        mistakes.insert(0, Mistake("/operationID", "required", detail))
    elif report.operation_id is not None and report.operation_id != operation:
        detail = f"{quote(report.operation_id)}: must be the operation of the path"
        mistakes.insert(0, Mistake("/operationID", "invalid", detail))
    if mistakes:
        raise ProblemError.of_mistakes(mistakes)


def _twice(report: UpgradeReport) -> Iterator[Mistake]:
    visited_names = set()
    for place, pool in enumerate(report.pools):
        if pool.name in visited_names:
            yield Mistake(f"/pools/{place}/name", "duplicate", f"{quote(pool.name)} is listed twice")
        visited_names.add(pool.name)
