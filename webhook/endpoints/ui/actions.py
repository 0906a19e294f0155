"""``POST /v1/actions``: previews and executes an action with the viewer's own credential.

The token of the viewer is forwarded to the API server of the hub and used nowhere else. It is in no log, no error and
no answer.

Source: docs/specifications/serving.md 3.5.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated, Final, Self
from urllib.parse import quote

from aiohttp import web
from pydantic import Field, model_validator

from scorer.api.kinds import Kind
from webhook.access.bearer import bearer_token
from webhook.actions.page_actions import ActionAnswer, PageActions, StaleActionError
from webhook.actions.planned import (
    KINDS_OF,
    LONGEST_FACT,
    ActionName,
    ActionOrder,
    ActionRefusedError,
    HubRefusalError,
)
from webhook.endpoints.http.access_control import ID_TOKEN, Credential, caller_of, credential_of, get_cookie
from webhook.endpoints.http.api import Api
from webhook.endpoints.http.problems import Problem, ProblemError
from webhook.endpoints.http.request_models import Name, RequestModel
from webhook.endpoints.http.responses import unstored
from webhook.kube.login.kubeconfig import ConfigurationError
from webhook.kube.ports import InvalidObjectError, StoreError
from webhook.sign_in.sessions import Sessions

PATH: Final = "/v1/actions"
MOST_DIGESTS: Final = 50
MOST_FACTS: Final = 100
API_SERVER_AUDIENCE: Final = "https://kubernetes.default.svc"
"""Audience of the API server in the advice: the default of most distributions."""

_KINDS: Final = {kind.kind: kind for kinds in KINDS_OF.values() for kind in kinds}
_REASONED: Final = frozenset({ActionName.APPROVE, ActionName.REJECT})


class TargetModel(RequestModel):
    """Names the object of an action."""

    kind: Annotated[str, Field(min_length=1, max_length=63)]
    """Kind, such as `ClusterStagedUpdateRun`."""
    name: Name
    namespace: Annotated[str, Field(max_length=63)] = ""
    """Empty for a cluster-scoped object."""

    def resolved(self) -> Kind | None:
        """Return the kind of the object, or None if no action accepts it."""
        return _KINDS.get(self.kind)


class ActionModel(RequestModel):
    """An action on one object."""

    action: Annotated[ActionName, Field(strict=False)]
    target: TargetModel
    """The object: a run or a gate, a placement for `confirm`, a member cluster for `cordon` and `uncordon`."""
    stage: Annotated[str, Field(max_length=63)] = ""
    """Stage of the approval to answer. Empty: the waiting stage. Only for approvals of staged update runs."""
    digests: Annotated[tuple[Annotated[str, Field(pattern="^[0-9a-f]{20}$")], ...], Field(max_length=MOST_DIGESTS)] = ()
    """Removals to confirm. Empty: all pending ones. Only for `confirm`."""
    reason: Annotated[str, Field(max_length=1024)] = ""
    """Reason, recorded with the answer. Required to execute `reject`. Only for `approve` and `reject`."""
    dry_run: bool = False
    """Whether to return the effect without changing anything."""
    precondition: (
        Annotated[
            dict[Annotated[str, Field(max_length=100)], Annotated[str, Field(max_length=LONGEST_FACT)]],
            Field(max_length=MOST_FACTS),
        ]
        | None
    ) = None
    """The `precondition` of the preview. Required unless `dryRun` is true."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        kinds, kind = KINDS_OF[self.action], self.target.resolved()
        if kind is None or kind not in kinds:
            names = ", ".join(each.kind for each in kinds)
            raise ValueError(f"target.kind: {self.target.kind!r}: must be one of {names} for the action {self.action}")
        if kind.namespaced != bool(self.target.namespace):
            raise ValueError(
                f"target.namespace: {self.target.namespace!r}: must "
                f"{'be set' if kind.namespaced else 'be empty'} for a {kind.kind}"
            )
        is_answer_of_run = self.action in _REASONED and self.target.kind != "ClusterUpgradeGate"
        if self.stage and not is_answer_of_run:
            raise ValueError(f"stage: {self.stage!r}: must be set only to approve or reject a staged update run")
        if self.digests and self.action is not ActionName.CONFIRM:
            raise ValueError("digests: must be set only for the action confirm")
        if self.reason.strip() and self.action not in _REASONED:
            raise ValueError(f"reason: must be set only for {' and '.join(sorted(_REASONED))}")
        if not self.dry_run and self.precondition is None:
            raise ValueError("precondition: must be that of a preview, unless dryRun is true")
        if not self.dry_run and self.action is ActionName.REJECT and not self.reason.strip():
            raise ValueError("reason: must be set to reject")
        return self

    def order(self) -> ActionOrder:
        """Return the order."""
        target, kind = self.target, self.target.resolved()
        assert kind is not None
        return ActionOrder(
            self.action, kind, target.name, target.namespace, self.stage, self.digests, self.reason.strip()
        )


def add_routes(api: Api, actions: PageActions, *, audience: str = "", sessions: Sessions | None = None) -> None:
    """Serve the actions.

    Args:
        api: Gets the route.
        actions: Plans and executes actions.
        audience: Audience of tokens for this server, for the advice to a viewer.
        sessions: Opens the cookies of viewers who have signed in. None: disabled.
    """

    async def act(request: web.Request) -> web.Response:
        body = await api.read(request, ActionModel)
        token, order = _token(request, audience, sessions), body.order()
        user = actions.viewer or caller_of(request).username
        if body.dry_run:
            answer = await _carried_out(lambda: actions.preview(order, token, user), request, audience)
        else:
            facts = body.precondition or {}
            answer = await _carried_out(lambda: actions.execute(order, facts, token, user), request, audience)
        return unstored(answer)

    api.act(PATH, PATH, act)


def _token(request: web.Request, audience: str, sessions: Sessions | None) -> str:
    """Return the token of the viewer to forward. Raises `ProblemError`."""
    match credential_of(request):
        case Credential.BEARER:
            return bearer_token(request.headers.get("Authorization", ""))
        case Credential.SESSION if sessions is not None:
            token = sessions.open_token(get_cookie(request, ID_TOKEN) or "", caller_of(request).username)
            if token is None:
                raise ProblemError(
                    Problem.FORBIDDEN,
                    "your session has no ID token: actions were enabled after you signed in, or the token is too large "
                    f"for a cookie. Sign in again, or use a token: {_create_token(audience)}",
                )
            return token
        case Credential.CERTIFICATE:
            raise ProblemError(
                Problem.FORBIDDEN,
                "a client certificate cannot be forwarded to the API server of the hub. Use a browser profile without "
                f"the certificate, and sign in with a token: {_create_token(audience)}",
            )
    return ""


async def _carried_out(
    order: Callable[[], Awaitable[ActionAnswer]], request: web.Request, audience: str
) -> ActionAnswer:
    """Carry out an order, and raise its errors as problems."""
    try:
        return await order()
    except StaleActionError as error:
        detail = f"changed since the preview: {error}. Check the new effect, and confirm again"
        raise ProblemError(Problem.CONFLICT, detail) from error
    except ActionRefusedError as error:
        raise ProblemError(Problem.CONFLICT, str(error)) from error
    except HubRefusalError as error:
        raise _refusal(error, request, audience) from error
    except InvalidObjectError as error:  # a name that no object can have
        raise ProblemError(Problem.NOT_FOUND, str(error)) from error
    except ConfigurationError as error:
        raise ProblemError(Problem.NOT_READY, "the connection to the hub is misconfigured", retry_after=30) from error
    except StoreError as error:
        raise ProblemError(Problem.NOT_READY, f"the request to the hub failed: {error}", retry_after=1) from error


def _refusal(error: HubRefusalError, request: web.Request, audience: str) -> ProblemError:
    """Return the refusal of the API server. Its 401 becomes a 403: this server has authenticated the caller."""
    match error.code:
        case 401:
            if credential_of(request) is Credential.SESSION:
                advice = (
                    "It must trust the same issuer and client ID (--oidc-issuer-url, --oidc-client-id). Otherwise use "
                    f"a token: {_create_token(audience)}"
                )
                detail = "the API server of the hub does not accept the ID token of your session (401 Unauthorized)"
            else:
                detail = "the API server of the hub does not accept your token (401 Unauthorized)"
                advice = f"It must also have the audience of the API server: {_create_token(audience)}"
            return ProblemError(Problem.FORBIDDEN, f"{detail}. {advice}")
        case 403:
            return ProblemError(Problem.FORBIDDEN, f"the API server of the hub refuses the request: {error.message}")
        case 404:
            return ProblemError(Problem.NOT_FOUND, error.message)
        case code if code == 429 or code >= 500:
            return ProblemError(Problem.NOT_READY, f"the request to the hub failed: {error.message}", retry_after=1)
    return ProblemError(Problem.CONFLICT, f"the API server of the hub refuses the request: {error.message}")


def _create_token(audience: str) -> str:
    audiences = [audience, API_SERVER_AUDIENCE] if audience else [API_SERVER_AUDIENCE]
    options = " ".join(f"--audience {quote(each, safe=':/.')}" for each in audiences)
    return f"kubectl create token NAME {options}"
