"""Answers of the aggregated API about one namespace, for users who may not read the rest of the hub.

The API server proxies the request to `harbormaster serve` and names the user that it has authenticated, so any
kubeconfig works. The platform team decides whether the hub has this API.

Source: docs/specifications/serving.md 3.6.
"""

from collections.abc import Callable, Sequence
from typing import Final

from scorer.api.family import PlacementRef
from scorer.api.unstructured.documents import dicts_at, namespace_of
from scorer.api.unstructured.json_object import JsonObject
from webhook.access.front_proxy import EXPLANATIONS, GROUP, PAST_DECISIONS, PLACEMENT_PLANS, RENDERINGS, VERSION
from webhook.cli.errors import complain
from webhook.cli.hub.client import Client, HubRefusedError
from webhook.kube.client.paths import ApiPath
from webhook.processes.hub_reading import NotReadableError, ReadForbiddenError
from webhook.processes.own_answers import OwnAnswers
from webhook.settings.answers import AnswerSettings

_FORBIDDEN: Final = 403
_MISSING: Final = 404
HOW: Final = "docs/teams.md#plans-explanations-and-history"


class OwnOrTeamAnswers(OwnAnswers):
    """Answers computed here from readable objects, otherwise those of the aggregated API about one namespace.

    The aggregated API is queried only if the user lacks a right, and never after a timeout. Its answers cover one
    namespace, and an administrator would mistake them for answers about the whole hub.

    Args:
        client: Client of the hub.
        settings: As for `OwnAnswers`.
        unread: As for `OwnAnswers`.
    """

    def __init__(self, client: Client, settings: AnswerSettings, unread: Callable[[Sequence[str]], None]) -> None:
        super().__init__(client.object_requests(), settings, unread)
        self._client = client

    async def explain(self, ref: PlacementRef) -> JsonObject:
        """See `OwnAnswers.explain`."""
        try:
            return await super().explain(ref)
        except ReadForbiddenError as error:
            return await self._of_team(EXPLANATIONS, ref.namespace, {"placement": {"ref": _members(ref)}}, error)

    async def placement_runs(self, ref: PlacementRef) -> JsonObject:
        """See `OwnAnswers.placement_runs`."""
        try:
            return await super().placement_runs(ref)
        except ReadForbiddenError as error:
            return await self._of_team(PAST_DECISIONS, ref.namespace, {"placement": {"ref": _members(ref)}}, error)

    async def plan(self, changes: JsonObject) -> JsonObject:
        """See `OwnAnswers.plan`."""
        try:
            return await super().plan(changes)
        except ReadForbiddenError as error:
            return await self._of_team(PLACEMENT_PLANS, self._namespace_of(changes, error), changes, error)

    async def render(self, question: JsonObject) -> JsonObject:
        """See `OwnAnswers.render`."""
        try:
            return await super().render(question)
        except ReadForbiddenError as error:
            return await self._of_team(RENDERINGS, self._namespace_of(question, error), question, error)

    def _namespace_of(self, changes: JsonObject, error: NotReadableError) -> str:
        """Return the namespace of changes, or that of the context. Raises `NotReadableError` if there are several."""
        namespaces = _namespaces(changes) or {self._client.namespace}
        if len(namespaces) > 1:
            reason = f"{error}. The server plans for one namespace at a time: {', '.join(sorted(namespaces))}"
            raise NotReadableError(reason) from error
        return min(namespaces)

    async def _of_team(
        self, resource: str, namespace: str, question: JsonObject, error: NotReadableError
    ) -> JsonObject:
        if not namespace:
            raise error
        try:
            return await ask_about_namespace(self._client, resource, namespace, question)
        except NotOfferedError as refusal:
            raise NotReadableError(f"{error}. {refusal}") from error


class NotOfferedError(Exception):
    """The hub does not answer questions about a namespace. The message gives the reason and the remedy."""


async def ask_about_namespace(client: Client, resource: str, namespace: str, question: JsonObject) -> JsonObject:
    """Return the answer of the aggregated API, and print its source on standard error.

    Raises:
        NotOfferedError: The hub has no aggregated API, or the user may not query it.
        HubRefusedError: The question has no answer.
    """
    path = ApiPath("apis", GROUP, VERSION, "namespaces", namespace, resource)
    try:
        answer = await client.query(path, question)
    except HubRefusedError as error:
        if error.code == _MISSING and error.details.get("group") != GROUP:
            raise NotOfferedError(
                f"To let the server answer for namespace {namespace}, the platform team sets settings.teamAnswers=true "
                f"in the chart of the hub ({HOW})"
            ) from error
        if error.code == _FORBIDDEN:
            raise NotOfferedError(
                f"The server may answer for namespace {namespace}, but you may not create {resource}.{GROUP} there "
                f"({HOW})"
            ) from error
        raise
    complain(f"note: answered by harbormaster serve for namespace {namespace}: you may not read the rest of the hub")
    return answer


def _members(ref: PlacementRef) -> JsonObject:
    return {"kind": ref.kind, "name": ref.name, "namespace": ref.namespace}


def _namespaces(changes: JsonObject) -> set[str]:
    """Return the namespaces of the objects in the body of a plan."""
    named = [
        str(item.get("namespace") or "") for key in ("deleted", "placements", "runs") for item in dicts_at(changes, key)
    ]
    return {namespace for namespace in (*map(namespace_of, dicts_at(changes, "objects")), *named) if namespace}
