"""A client of a hub: Kubernetes' REST interface and its errors.

The hub of ``up`` also answers questions, below ``/v1`` (`webhook.cli.hub.answers`).
"""

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeVar

from scorer.api.kinds import CUSTOM_RESOURCE_DEFINITION, Kind
from scorer.api.unstructured.documents import dicts_at, metadata_of
from scorer.api.unstructured.json_object import JsonObject, dump_json
from webhook.cli.errors import SERVER_ERROR, UserError
from webhook.cli.hub.connection import SECONDS, HubConnection, no_address, unauthorized_hint, unreachable
from webhook.embedded.storage.kinds import kind_of_definition
from webhook.kube.client.paths import ApiPath, path_of
from webhook.kube.client.responses import warnings_in
from webhook.kube.ports import InvalidObjectError, UnavailableError
from webhook.kube.transport.serialization import MERGE_PATCH

if TYPE_CHECKING:
    from webhook.kube.client.cli_client import HubHttp, Reply
    from webhook.kube.client.command_requests import CommandRequests

TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io, application/json"
METADATA: Final = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io, application/json"
PAGE: Final = 500
"""Maximum number of objects per page of a list."""

_Result = TypeVar("_Result")

_ATTEMPTS: Final = 5
_CONFLICT: Final = 409
_UNKNOWN_CALLER: Final = 401
_GONE: Final = 410
FORBIDDEN: Final = 403
MISSING: Final = 404
_PATCH: Final = "patch"
_PATCHED: Final = re.compile(r'(\A|: patch: )Invalid value: "(?:[^"\\]|\\.)*": ', re.DOTALL)
"""The patched object, which an API server repeats before the reason why it is invalid."""


class HubResponse(NamedTuple):
    """Response of the hub."""

    document: JsonObject
    warnings: tuple[str, ...] = ()


class HubRefusedError(Exception):
    """The hub refuses a request.

    If a patch results in an invalid object, the message of an API server contains the whole object, possibly a Secret.
    This part of the message is removed.

    Args:
        status: The ``Status`` object in the response.
        warnings: The warnings in the response.
    """

    def __init__(self, status: Mapping[str, Any], warnings: tuple[str, ...] = ()) -> None:
        self.code = int(status.get("code") or 0)
        self.reason = str(status.get("reason") or "")
        self.message = _PATCHED.sub(r"\1", str(status.get("message") or "the hub gave no reason"), count=1)
        self.details: Mapping[str, Any] = status.get("details") or {}
        self.answer: JsonObject | None = status.get("answer")
        """The answer of a gate that refused a reservation."""
        self.mistakes = [(str(error.get("pointer", "")), str(error.get("detail", ""))) for error in _errors(status)]
        self.warnings = warnings
        super().__init__(self.message)

    @property
    def causes(self) -> list[str]:
        """One ``field: message`` per error."""
        texts = ((cause.get("field", ""), str(cause.get("message", ""))) for cause in self.details.get("causes") or ())
        return [f"{field}: {_PATCHED.sub('', text) if field == _PATCH else text}" for field, text in texts]

    def lines(self) -> list[str]:
        """Return the refusal as text. For an invalid object, one error per line, as kubectl prints it."""
        causes = self.causes
        if self.reason == "Invalid" and causes:
            subject = f'The {self.details.get("kind", "object")} "{self.details.get("name", "")}" is invalid:'
            return [f"{subject} {causes[0]}"] if len(causes) == 1 else [subject, *(f"* {cause}" for cause in causes)]
        code = f"HTTP {self.code}"
        if self.message == code:
            return [f"{SERVER_ERROR}: {code}"]
        return [f"{SERVER_ERROR} ({self.reason or code}): {self.message}"]


async def retry_on_conflict(attempt: Callable[[], Awaitable[_Result]]) -> _Result:
    """Return the result of *attempt*, which reads an object and writes over the version that it read.

    A conflict means that another client wrote in between, so *attempt* is repeated.

    Raises:
        HubRefusedError: The refusal is not a conflict, or the last attempt failed.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return await attempt()
        except HubRefusedError as error:
            if error.code != _CONFLICT:
                raise
    return await attempt()


def _errors(problem: Mapping[str, Any]) -> list[JsonObject]:
    """Return the errors in problem details, each with its JSON Pointer."""
    return dicts_at(problem, "errors")


class HubWatchEvent(NamedTuple):
    """One change that a watch reports."""

    type: str
    document: JsonObject


@dataclass(frozen=True, slots=True)
class ResourcePath:
    """Path of an object or a collection.

    Args:
        kind: The kind.
        namespace: The namespace. None means no namespace or all namespaces.
        name: The name, empty for the collection.
        version: One of the kind's versions, empty for the preferred one.
        subresource: Subresource, such as ``status``, empty for the object itself.
    """

    kind: Kind
    namespace: str | None = None
    name: str = ""
    version: str = ""
    subresource: str = ""

    @property
    def path(self) -> ApiPath:
        """Path of the URL. Raises `UserError` for a name that no object can have."""
        namespace = self.namespace if self.kind.namespaced else None
        try:
            return path_of(self.kind, namespace or "", self.name, self.subresource, self.version)
        except InvalidObjectError as error:
            raise UserError(f"NotFound: {error}") from error


def place_of(document: JsonObject, kind: Kind) -> ResourcePath:
    """Return the path of *document*."""
    metadata = document["metadata"]
    version = str(document["apiVersion"]).rpartition("/")[2]
    return ResourcePath(kind, metadata.get("namespace"), metadata["name"], version)


class Client:
    """A client of one hub, and an async context manager.

    Every method raises `UserError` if the hub cannot be reached, and `HubRefusedError` if it refuses the request.

    Args:
        connection: The hub.
    """

    def __init__(self, connection: HubConnection) -> None:
        self.connection = connection
        self._http: HubHttp | None = None
        self.namespace = connection.namespace
        """Default namespace if the user names none."""
        self.simulated = connection.ours
        """Whether the hub simulates its members."""

    async def __aenter__(self) -> Self:
        from webhook.cli.hub.login import login_to
        from webhook.kube.client.cli_client import HubHttp

        login = await login_to(self.connection)
        try:
            self._http = HubHttp(login)
        except ValueError as error:
            raise no_address(self.connection, error) from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._http is not None:
            self._http.close()

    def object_requests(self) -> "CommandRequests":
        """Return requests for a store of the hub's objects that use this client's connection."""
        from webhook.kube.client.command_requests import CommandRequests

        assert self._http is not None
        return CommandRequests(self._http)

    async def get(self, place: ResourcePath) -> JsonObject:
        """Return one object."""
        return (await self._request("GET", place.path)).document

    async def list(self, place: ResourcePath, selector: str = "", fields: str = "") -> JsonObject:
        """Return a complete list object. *selector* is a label selector, and *fields* a field selector."""
        query = {"limit": str(PAGE)} | _selection(selector, fields)
        items: list[JsonObject] = []
        while True:
            page = (await self._request("GET", place.path, query=query)).document
            items += page.get("items") or ()
            if not (token := metadata_of(page).get("continue")):
                return {**page, "items": items}
            query["continue"] = token

    async def few(self, place: ResourcePath, most: int) -> JsonObject:
        """Return a list object with the metadata of the first *most* objects of a collection."""
        answer = await self._send("GET", place.path, query={"limit": str(most)}, accept=METADATA)
        return _decoded(self._check(answer, place.path))

    async def table(self, place: ResourcePath, selector: str = "", fields: str = "") -> JsonObject:
        """Return the hub's ``Table`` of a collection or an object, with the objects in its rows."""
        query = {"includeObject": "Object"} | _selection(selector, fields)
        answer = await self._send("GET", place.path, query=query, accept=TABLE)
        return _decoded(self._check(answer, place.path))

    async def watch(
        self, place: ResourcePath, since: str, selector: str = "", fields: str = ""
    ) -> AsyncIterator[HubWatchEvent]:
        """Yield changes after the resource version *since* until the hub ends the watch.

        If that version is too old, the only event is ``ERROR``.

        Raises:
            HubRefusedError: The hub refuses the watch.
            UserError: The hub cannot be reached.
        """
        from webhook.kube.client.cli_client import Reply

        query = {"watch": "1", "allowWatchBookmarks": "true", "resourceVersion": since} | _selection(selector, fields)
        assert self._http is not None
        try:
            async with self._http.stream(place.path, query) as answer:
                if answer.status == _GONE:
                    yield HubWatchEvent("ERROR", {})
                    return
                if answer.status >= 400:
                    self._check(Reply(answer.status, b"".join([part async for part in answer.parts])), place.path)
                rest = b""
                async for part in answer.parts:
                    *lines, rest = (rest + part).split(b"\n")
                    for line in lines:
                        if line.strip():
                            event = _decoded(line)
                            yield HubWatchEvent(str(event.get("type", "")), event.get("object") or {})
        except (UnavailableError, TimeoutError) as error:
            raise unreachable(self.connection, error) from error

    async def create(
        self, kind: Kind, document: JsonObject, *, dry_run: bool = False, validation: str = ""
    ) -> HubResponse:
        """Create an object. *validation* is ``fieldValidation``: the hub's treatment of unknown fields."""
        at = place_of(document, kind)
        place = ResourcePath(kind, at.namespace, version=at.version)
        return await self._request("POST", place.path, document, query=_of_write(dry_run, validation))

    async def patch(
        self, place: ResourcePath, patch: JsonObject, *, dry_run: bool = False, validation: str = ""
    ) -> HubResponse:
        """Change an object by a merge patch (RFC 7396). *validation* is as for `create`."""
        query = _of_write(dry_run, validation)
        return await self._request("PATCH", place.path, patch, query=query, content_type=MERGE_PATCH)

    async def delete(self, place: ResourcePath, *, dry_run: bool = False) -> HubResponse:
        """Delete an object. With finalizers, it remains until they are removed."""
        return await self._request("DELETE", place.path, query=_of_write(dry_run))

    async def read_json(self, path: str) -> JsonObject:
        """Return the response of the hub at *path*."""
        return (await self._request("GET", path)).document

    async def query(self, path: str, body: JsonObject) -> JsonObject:
        """Return the answer to a read-only question."""
        return (await self._request("POST", path, body)).document

    async def withdraw(self, path: str) -> None:
        """Delete the resource that an earlier request has created at *path*."""
        self._check(await self._send("DELETE", path))

    async def custom_kinds(self) -> dict[tuple[str, str], tuple[Kind, JsonObject]]:
        """Return the kinds that the hub's CustomResourceDefinitions define, with the definitions."""
        listing = await self.list(ResourcePath(CUSTOM_RESOURCE_DEFINITION))
        custom_kinds = {}
        for definition in listing.get("items") or ():
            kind = kind_of_definition(definition)
            if kind is not None:
                custom_kinds[kind.group_kind] = (kind, definition)
        return custom_kinds

    async def read_discovery(self, *segments: str) -> JsonObject:
        """Return a discovery document of the API server, such as ``apis/apps/v1``."""
        return (await self._request("GET", ApiPath(*segments))).document

    async def _request(
        self,
        method: str,
        path: str,
        body: JsonObject | None = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> HubResponse:
        answer = await self._send(method, path, body, query=query, content_type=content_type)
        return HubResponse(_decoded(self._check(answer, path)), warnings_in(answer.warnings))

    async def _send(
        self,
        method: str,
        path: str,
        body: JsonObject | None = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> "Reply":
        content = None if body is None else dump_json(body)
        assert self._http is not None
        try:
            return await self._http.send(method, path, content, query, content_type, SECONDS, accept)
        except (UnavailableError, TimeoutError) as error:
            raise unreachable(self.connection, error) from error

    def _check(self, answer: "Reply", path: str = "") -> bytes:
        """Return the body of a successful response to a request of *path*. Raises `HubRefusedError` or `UserError`."""
        if answer.status < 400:
            return answer.content
        if answer.status == _UNKNOWN_CALLER:
            raise unauthorized_hint(self.connection, answer.content)
        try:
            status = _decoded(answer.content)
        except UserError:
            status = {}
        if status.get("kind") != "Status":  # problem details of /v1
            unserved = _not_served(path) if answer.status == MISSING and not status else ""
            detail = status.get("detail") or unserved or f"HTTP {answer.status}"
            words = {"message": detail, "reason": status.get("title") or ("NotFound" if unserved else "")}
            status = {**words, "errors": status.get("errors"), "answer": status.get("answer")}
        raise HubRefusedError({"code": answer.status, **status}, warnings_in(answer.warnings))


async def find(client: Client, place: ResourcePath) -> JsonObject | None:
    """Return an object, or None if it does not exist.

    Raises:
        HubRefusedError: Any refusal other than NotFound.
    """
    try:
        return await client.get(place)
    except HubRefusedError as error:
        if error.code == 404:
            return None
        raise


def _not_served(path: str) -> str:
    """Return the message for a 404 without a body: the API server does not serve the kind in *path*."""
    match path.split("/")[1:]:
        case ["apis", group, version, "namespaces", _, plural, *_] | ["apis", group, version, plural, *_]:
            return f"the hub serves no {plural} of {group}/{version}: their CustomResourceDefinition is not installed"
    return ""


def _selection(selector: str, fields: str) -> dict[str, str]:
    """Return the query parameters of both selectors. Empty selectors are omitted."""
    return {key: text for key, text in (("labelSelector", selector), ("fieldSelector", fields)) if text}


def _of_write(dry_run: bool, validation: str = "") -> dict[str, str]:
    return ({"dryRun": "All"} if dry_run else {}) | ({"fieldValidation": validation} if validation else {})


def _decoded(content: bytes) -> JsonObject:
    try:
        document = json.loads(content)
    except ValueError as error:
        raise UserError(f"the server's answer is not JSON: is it a hub of harbormaster? ({error})") from error
    if not isinstance(document, dict):
        raise UserError("the server's answer is not an object: is it a hub of harbormaster?")
    return document
