"""``/v1/upgrade/runs``, ``gates`` and ``profiles``: start, stop, skip, retry and approve.

Source: docs/specifications/upgrade-runs.md 9, 10.2 and 12.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated, Final, TypeVar

from aiohttp import web
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from scorer.api.upgrade.fields import LONGEST_NAME, NAME_PATTERN
from scorer.api.upgrade.run import MOST_SKIP_TARGETS, SkipTarget
from scorer.upgrade.patches import UpgradeOrderRefusedError
from webhook.access.ports import NotReviewedError
from webhook.access.rights import UPGRADE_ORDERS
from webhook.answers.upgrade_orders import NotAllowedError, Ordered, UnknownOrderError, UpgradeOrders, ordered_document
from webhook.endpoints.http.access_control import caller_of
from webhook.endpoints.http.api import Api
from webhook.endpoints.http.problems import Problem, ProblemError
from webhook.endpoints.http.request_models import RequestModel, WholeObject
from webhook.endpoints.http.responses import unstored
from webhook.kube.ports import ConflictError, ForbiddenError, InvalidObjectError, StoreError

_LONGEST_MESSAGE: Final = 1024

ModelT = TypeVar("ModelT", bound=BaseModel)
ResultT = TypeVar("ResultT")


class SkipModel(RequestModel):
    """Parts of a run to skip."""

    targets: Annotated[tuple[SkipTarget, ...], Field(min_length=1, max_length=MOST_SKIP_TARGETS)]


class RetryModel(RequestModel):
    """Name of the new run. Optional."""

    name: Annotated[str, Field(min_length=1, max_length=LONGEST_NAME, pattern=NAME_PATTERN)] | None = None
    """Absent: the name of the retried run with the suffix `-retry`."""


class GateAnswerModel(RequestModel):
    """Reason of the answer to a gate. Optional."""

    message: Annotated[str, Field(max_length=_LONGEST_MESSAGE)] = ""
    """Absent: a message that names the caller."""


class RetryAnswer(TypedDict):
    """The new ClusterUpgradeRun. It is not created on the hub."""

    object: WholeObject


def add_routes(api: Api, orders: UpgradeOrders) -> None:
    """Serve the actions on upgrade runs, gates and profiles."""

    async def start(request: web.Request) -> web.Response:
        return _order_response(await _carried_out(lambda: orders.start(_name(request), caller_of(request))))

    async def stop(request: web.Request) -> web.Response:
        return _order_response(await _carried_out(lambda: orders.stop(_name(request), caller_of(request))))

    async def skip(request: web.Request) -> web.Response:
        body = await api.read(request, SkipModel)
        return _order_response(
            await _carried_out(lambda: orders.skip(_name(request), caller_of(request), body.targets))
        )

    async def retry(request: web.Request) -> web.Response:
        body = await _body(api, request, RetryModel)
        new_name = "" if body.name is None else body.name
        retry = await _carried_out(lambda: orders.retry(_name(request), caller_of(request), new_name))
        answer: RetryAnswer = {"object": retry}
        return unstored(answer)

    async def approve(request: web.Request) -> web.Response:
        return await answer(request, approve=True)

    async def reject(request: web.Request) -> web.Response:
        return await answer(request, approve=False)

    async def answer(request: web.Request, *, approve: bool) -> web.Response:
        body = await _body(api, request, GateAnswerModel)
        caller = caller_of(request)
        return _order_response(
            await _carried_out(lambda: orders.answer(_name(request), caller, body.message, approve=approve))
        )

    async def generate(request: web.Request) -> web.Response:
        return _order_response(await _carried_out(lambda: orders.generate(_name(request), caller_of(request))))

    for verb, handler in (("start", start), ("stop", stop), ("skip", skip), ("retry", retry)):
        api.post(f"/v1/upgrade/runs/{{name}}:{verb}", "/v1/upgrade/runs/*", handler)
    for verb, handler in (("approve", approve), ("reject", reject)):
        api.post(f"/v1/upgrade/gates/{{name}}:{verb}", "/v1/upgrade/gates/*", handler)
    api.post("/v1/upgrade/profiles/{name}:generate", "/v1/upgrade/profiles/*", generate)


def _name(request: web.Request) -> str:
    return request.match_info["name"]


async def _body(api: Api, request: web.Request, model: type[ModelT]) -> ModelT:
    """Read a body. A request without one gets the defaults of *model*."""
    return await api.read(request, model) if request.body_exists else model()


async def _carried_out(order: Callable[[], Awaitable[ResultT]]) -> ResultT:
    """Execute an order, and raise its errors as problems."""
    try:
        return await order()
    except UnknownOrderError as error:
        raise ProblemError(Problem.NOT_FOUND, str(error)) from error
    except NotAllowedError as error:
        raise ProblemError(Problem.FORBIDDEN, str(error)) from error
    except ForbiddenError as error:  # the caller is authorized, the account of the server is not
        detail = f"the hub refuses the change: {error}. {UPGRADE_ORDERS.advice}"
        raise ProblemError(Problem.FORBIDDEN, detail) from error
    except UpgradeOrderRefusedError as error:
        raise ProblemError(Problem.CONFLICT, str(error)) from error
    except ConflictError as error:
        detail = "conflict: other clients keep changing the object"
        raise ProblemError(Problem.NOT_READY, detail, retry_after=1) from error
    except InvalidObjectError as error:
        raise ProblemError(Problem.CONFLICT, f"the hub refuses the change: {error}") from error
    except NotReviewedError as error:
        detail = "the caller's rights could not be reviewed: the hub refused the review or did not answer"
        raise ProblemError(Problem.NOT_READY, detail, retry_after=1) from error
    except StoreError as error:
        raise ProblemError(Problem.NOT_READY, f"the request to the hub failed: {error}", retry_after=1) from error


def _order_response(order: Ordered) -> web.Response:
    return unstored(ordered_document(order))
