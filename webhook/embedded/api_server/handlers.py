"""The embedded store as an API server: a subset of Kubernetes' REST interface that is sufficient for ordinary clients.

Bodies are JSON, or protobuf for some kinds (`webhook.embedded.api_server.protobuf`), and answers are JSON. Writes pass
admission (`webhook.embedded.api_server.admission_chain`), and refusals are ``Status`` objects.

Deliberately unsupported: server-side apply of a status, deletion of collections, paging, OpenAPI v2.
"""

import asyncio
import weakref
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, cast
from urllib.parse import unquote

from aiohttp import web

from scorer.api.kinds import CUSTOM_RESOURCE_DEFINITION, Kind
from scorer.api.meta import JsonObject
from scorer.api.placement.staged_update import RunState
from scorer.api.unstructured.json_patch import PatchError, apply_patch
from scorer.api.values.quoting import printable, quote
from webhook.access.bearer import bearer_token
from webhook.access.vouching import mark_authenticated
from webhook.admission.review import InvalidReviewError, parse_json
from webhook.embedded.api_server import discovery, openapi, protobuf
from webhook.embedded.api_server.admission_chain import FIELD_VALIDATIONS, FieldValidation, WriteRules
from webhook.embedded.api_server.owner_token import OwnerToken
from webhook.embedded.api_server.request_info import RequestInfo, parse_target
from webhook.embedded.api_server.selectors import parse_field_selector, parse_label_selector, selectable_fields
from webhook.embedded.api_server.status import ApiError, json_response, of_conflicts, of_store, success
from webhook.embedded.api_server.tables import Tables, accepts_table, tables_for
from webhook.embedded.api_server.watch import WatchOptions, stream
from webhook.embedded.patches import managed_fields
from webhook.embedded.patches.field_sets import FieldShape
from webhook.embedded.patches.managed_fields import FieldConflictError, Manager
from webhook.embedded.patches.merge_patches import InvalidPatchError, merge_patch, strategic_merge
from webhook.embedded.storage.lifecycle import Propagation
from webhook.embedded.storage.store import EmbeddedStore
from webhook.embedded.storage.watcher import Watcher
from webhook.history.service import HistoryService
from webhook.kube.ports import AlreadyExistsError, ConflictError, Key, NotFoundError, StoreError
from webhook.kube.transport.serialization import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from webhook.validation.framework.context import Context
from webhook.validation.framework.reading import DEEPEST, is_deeper

_PATCH_ATTEMPTS: Final = 5
_LONGEST_MANAGER: Final = 128
_MOST_OPERATIONS: Final = 10_000
"""Maximum number of operations in a JSON patch, as on an API server."""
_TRUE: Final = ("1", "true", "True")


def add_routes(
    app: web.Application,
    store: EmbeddedStore,
    context: Callable[[], Context],
    token: str,
    *,
    staged_run_default_state: str = RunState.INITIALIZE.value,
    history: HistoryService | None = None,
) -> None:
    """Serve *store* under ``/api``, ``/apis``, ``/openapi/v3`` and ``/version`` of *app*.

    Args:
        app: The application. Its ``client_max_size`` limits the bodies.
        store: The served store.
        context: Returns the inputs of admission rules for each request. Its user is the author.
        token: Token that a client must send as ``Authorization: Bearer``.
        staged_run_default_state: Default of ``spec.state`` of a staged update run.
        history: Records refusals, warnings and actions of users. None: disabled.
    """
    api = _Api(store, context, OwnerToken(token), staged_run_default_state, history)
    for path in (
        "/api",
        "/api/{rest:.*}",
        "/apis",
        "/apis/{rest:.*}",
        "/openapi/v3",
        "/openapi/v3/{rest:.*}",
        "/version",
    ):
        app.router.add_route("*", path, api.handle)
    app.on_shutdown.append(api.end_watches)


@dataclass(frozen=True, slots=True)
class _Api:
    store: EmbeddedStore
    context: Callable[[], Context]
    owner: OwnerToken
    staged_run_default_state: str
    history: HistoryService | None
    watchers: weakref.WeakSet[Watcher] = field(default_factory=weakref.WeakSet)
    patching: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Serializes patches, so that they never conflict with each other and retries remain for other writes."""

    async def end_watches(self, _app: web.Application) -> None:
        """Stop open watches, so that the server can stop."""
        for watcher in tuple(self.watchers):
            watcher.end()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Authenticate a request and answer it. An `ApiError` becomes a ``Status``."""
        try:
            self._authenticate(request)
            _check_accept(request)
            return await self._route(request)
        except ApiError as error:
            return json_response(error.body(), code=error.code, warnings=error.warnings, headers=error.headers)

    async def _route(self, request: web.Request) -> web.StreamResponse:
        segments = [unquote(part) for part in request.rel_url.raw_path.strip("/").split("/")]
        match segments:
            case ["version" | "api" | "apis"] | ["api", _] | ["apis", _] | ["apis", _, _]:
                return self._discover(request, segments)
            case ["openapi", "v3"]:
                _check_method(request, ("GET",))
                return json_response(openapi.index(self.store.kinds))
            case ["openapi", "v3", "api", version]:
                return await self._describe(request, "", version)
            case ["openapi", "v3", "apis", group, version]:
                return await self._describe(request, group, version)
            case ["api", version, *rest]:
                return await self._serve(request, "", version, rest)
            case ["apis", group, version, *rest]:
                return await self._serve(request, group, version, rest)
            case _:
                raise ApiError(404, "the server could not find the requested resource")

    def _authenticate(self, request: web.Request) -> None:
        token = bearer_token(request.headers.get("Authorization", ""))
        if not self.owner.cached(token):
            raise ApiError(401, "Unauthorized", headers={"WWW-Authenticate": "Bearer"})
        mark_authenticated(request)

    def _discover(self, request: web.Request, segments: list[str]) -> web.Response:
        _check_method(request, ("GET",))
        kinds = self.store.kinds
        match segments:
            case ["version"]:
                return json_response(discovery.VERSION)
            case ["api"]:
                return json_response(discovery.core_versions())
            case ["apis"]:
                return json_response(discovery.groups(kinds))
            case ["apis", group]:
                return json_response(discovery.group(kinds, group))
            case _:
                return json_response(discovery.resources(kinds, *["", *segments[1:]][-2:]))

    async def _describe(self, request: web.Request, group: str, version: str) -> web.Response:
        _check_method(request, ("GET",))
        custom = [kind for kind in self.store.kinds.custom.values() if kind.group == group]
        definitions = {kind.group_kind: definition for kind in custom if (definition := await self._definition(kind))}
        return json_response(openapi.document(self.store.kinds, group, version, definitions))

    async def _definition(self, kind: Kind) -> JsonObject | None:
        """Return the CustomResourceDefinition of a kind, or None if the kind is built in."""
        if kind.group_kind in self.store.kinds.custom:
            with suppress(NotFoundError):
                return await self.store.get(CUSTOM_RESOURCE_DEFINITION, Key(kind.resource))
        return None

    async def _tables(self, request: web.Request, target: RequestInfo) -> Tables | None:
        """Return a writer of tables, or None if the client requests objects."""
        if not accepts_table(request.headers.get("Accept", "")):
            return None
        definition = await self._definition(target.kind)
        return tables_for(target, definition, lambda: self.context().now, request.query.get("includeObject", ""))

    async def _serve(self, request: web.Request, group: str, version: str, rest: list[str]) -> web.StreamResponse:
        target = parse_target(self.store.kinds, group, version, rest)
        _check_method(request, target.methods)
        serve: Callable[[web.Request, RequestInfo], Awaitable[web.StreamResponse]]
        match request.method:
            case "POST":
                serve = self._create
            case "PUT":
                serve = self._replace
            case "PATCH":
                serve = self._patch
            case "DELETE":
                serve = self._delete
            case _:
                serve = self._get if target.name else self._list
        try:
            return await serve(request, target)
        except StoreError as error:
            raise of_store(error, target.kind, target.name) from error

    async def _get(self, request: web.Request, target: RequestInfo) -> web.Response:
        tables = await self._tables(request, target)
        document = await self.store.get(target.kind, target.key)
        return json_response(tables.of_one(document) if tables else target.present(document))

    async def _list(self, request: web.Request, target: RequestInfo) -> web.StreamResponse:
        query = request.query
        try:
            labels = parse_label_selector(query.get("labelSelector", ""))
            accepts = parse_field_selector(query.get("fieldSelector", ""), selectable_fields(target.group, target.kind))
        except ValueError as error:
            raise ApiError(400, str(error)) from None

        tables = await self._tables(request, target)
        if query.get("watch") in _TRUE:
            starts_with_list = query.get("sendInitialEvents") in _TRUE
            options = WatchOptions(
                since="" if starts_with_list else query.get("resourceVersion", ""),
                labels=labels,
                accepts=accepts,
                present=tables.of_one if tables else target.present,
                bookmarks=query.get("allowWatchBookmarks") in _TRUE,
                marks_end_of_list=starts_with_list and query.get("allowWatchBookmarks") in _TRUE,
                seconds=_timeout(query.get("timeoutSeconds", "")),
            )
            return await stream(request, self.store, target, options, self.watchers.add)
        listing = await self.store.list(target.kind, target.namespace)
        documents = [
            document
            for document in listing.items
            if accepts(document) and labels.matches(document["metadata"].get("labels", {}))
        ]
        if tables:
            return json_response(tables.of(documents, listing.resource_version))
        items = [target.present(document) for document in documents]
        metadata = {"resourceVersion": listing.resource_version}
        kind = f"{target.kind.kind}List"
        return json_response({"kind": kind, "apiVersion": target.api_version, "metadata": metadata, "items": items})

    async def _create(self, request: web.Request, target: RequestInfo) -> web.Response:
        document = _addressed(target, await _body(request))
        document["metadata"].pop("managedFields", None)
        document, warnings = (await self._rules(request, target)).admit(target, document, None)
        try:
            created = await self.store.create(target.kind, target.stored(document), dry_run=_is_dry_run(request))
        except StoreError as error:
            raise of_store(error, target.kind, str(document["metadata"].get("name", ""))) from error
        return json_response(target.present(created), code=201, warnings=warnings)

    async def _replace(self, request: web.Request, target: RequestInfo) -> web.Response:
        document = _addressed(target, await _body(request))
        old = await self.store.get(target.kind, target.key)
        return await self._update(request, target, document, old)

    async def _patch(self, request: web.Request, target: RequestInfo) -> web.Response:
        if request.content_type == APPLY_PATCH:
            return await self._apply(request, target)
        if request.content_type == JSON_PATCH:
            patch: Any = await _json(request, JSON_PATCH)
        else:
            is_strategic = target.kind.built_in and request.content_type == STRATEGIC_MERGE_PATCH
            patch = await _body(request, STRATEGIC_MERGE_PATCH if is_strategic else MERGE_PATCH)
        metadata = patch.get("metadata") if isinstance(patch, dict) else None
        is_conditional = isinstance(metadata, dict) and bool(metadata.get("resourceVersion") or metadata.get("uid"))
        async with self.patching:
            # A patch without a precondition applies to any version, so a conflict is retried. A patch with a uid or a
            # resourceVersion is not retried.
            for _ in range(0 if is_conditional else _PATCH_ATTEMPTS - 1):
                with suppress(ConflictError):
                    return await self._patch_once(request, target, patch)
            return await self._patch_once(request, target, patch)

    async def _apply(self, request: web.Request, target: RequestInfo) -> web.Response:
        """Answer a server-side apply. Conflicting writes are retried unless it has a resource version."""
        if target.subresource:
            raise ApiError(415, f"the status of {target.kind.plural} does not accept {APPLY_PATCH} on this hub")
        if not request.query.get("fieldManager"):
            raise ApiError(400, f"fieldManager: required for {APPLY_PATCH}")
        config = _addressed(target, await _body(request, APPLY_PATCH))
        if config["metadata"].get("managedFields"):
            raise ApiError(400, "metadata.managedFields must not be set: the hub writes it")
        async with self.patching:
            for _ in range(0 if config["metadata"].get("resourceVersion") else _PATCH_ATTEMPTS - 1):
                with suppress(ConflictError, AlreadyExistsError):
                    return await self._apply_once(request, target, config)
            return await self._apply_once(request, target, config)

    async def _apply_once(self, request: web.Request, target: RequestInfo, config: JsonObject) -> web.Response:
        try:
            old = await self.store.get(target.kind, target.key)
        except NotFoundError:
            old = None
            if uid := config["metadata"].get("uid"):  # an apply must not recreate a deleted object
                raise ApiError(409, f"metadata.uid: {quote(uid)} was expected, but there is no such object") from None
        live = target.present(old) if old else None
        manager = self._manager(request, target, "Apply")
        force = request.query.get("force") in _TRUE
        shape, now = await self._shape(target), self.context().now
        try:
            document = managed_fields.applied(shape, live, config, manager, now, force=force)
        except InvalidPatchError as error:
            raise ApiError(400, str(error)) from error
        except FieldConflictError as error:
            raise of_conflicts(error) from error
        # A field that the kind does not have could be owned, but not stored. It is refused, regardless of
        # fieldValidation.
        document, warnings = (await self._rules(request, target, "Strict")).admit(target, document, old)
        document, dry_run = target.stored(document), _is_dry_run(request)
        if old is None:
            created = await self.store.create(target.kind, document, dry_run=dry_run)
            return json_response(target.present(created), code=201, warnings=warnings)
        created = await self.store.replace(target.kind, document, dry_run=dry_run)
        return json_response(target.present(created), warnings=warnings)

    async def _shape(self, target: RequestInfo) -> FieldShape:
        kind = target.kind
        if kind.built_in:
            return FieldShape(kind, None)
        return FieldShape(kind, openapi.content_schema(kind, target.version, await self._definition(kind)))

    def _manager(self, request: web.Request, target: RequestInfo, operation: str) -> Manager:
        """Return the manager of the request: ``fieldManager``, else the program in ``User-Agent``, else ``unknown``.

        Raises:
            ApiError: The name is too long or not printable.
        """
        name = request.query.get("fieldManager", "")
        if len(name.encode()) > _LONGEST_MANAGER or not name.isprintable():  # truncation could merge two managers
            raise ApiError(422, f"fieldManager {quote(name)}: must be up to {_LONGEST_MANAGER} printable bytes")
        program = printable(request.headers.get("User-Agent", "").partition("/")[0])[:_LONGEST_MANAGER]
        return Manager(name or program or "unknown", operation, target.api_version)

    async def _patch_once(self, request: web.Request, target: RequestInfo, patch: Any) -> web.Response:
        old = await self.store.get(target.kind, target.key)
        document = _patched(request, target, target.present(old), patch)
        return await self._update(request, target, _addressed(target, document), old)

    async def _update(
        self, request: web.Request, target: RequestInfo, document: JsonObject, old: JsonObject
    ) -> web.Response:
        document, warnings = (await self._rules(request, target)).admit(target, document, old)
        if not target.subresource and (managed_fields.is_owned(old) or managed_fields.is_owned(document)):
            manager = self._manager(request, target, "Update")
            shape, live = await self._shape(target), target.present(old)
            document = managed_fields.updated(shape, live, document, manager, self.context().now)
        write = self.store.replace_status if target.subresource else self.store.replace
        updated = await write(target.kind, target.stored(document), dry_run=_is_dry_run(request))
        return json_response(target.present(updated), warnings=warnings)

    async def _delete(self, request: web.Request, target: RequestInfo) -> web.Response:
        options = await _body(request) if request.can_read_body else {}
        old = await self.store.get(target.kind, target.key)
        warnings = list((await self._rules(request, target)).admit_deletion(target, old))
        propagation = _propagation(request, options)
        preconditions = options.get("preconditions") or {}
        if not isinstance(preconditions, dict):
            raise ApiError(400, f"preconditions must be an object, not {quote(preconditions)}")
        uid, version = preconditions.get("uid") or "", preconditions.get("resourceVersion") or ""
        dry_run = _is_dry_run(request, options.get("dryRun"))
        await self.store.delete(
            target.kind, target.key, uid=uid, resource_version=version, dry_run=dry_run, propagation=propagation
        )
        try:
            live = await self.store.get(target.kind, target.key)
        except NotFoundError:
            live = None
        metadata = old["metadata"]
        # Compare uids: another client may have created an object of this name after the deletion.
        if live is None or dry_run or live["metadata"]["uid"] != metadata["uid"]:
            return json_response(success(target.kind, metadata["name"], metadata["uid"]), warnings=warnings)
        return json_response(target.present(live), warnings=warnings)

    async def _rules(self, request: web.Request, target: RequestInfo, validation: str = "") -> WriteRules:
        validation = validation or request.query.get("fieldValidation") or "Warn"
        if validation not in FIELD_VALIDATIONS:
            raise ApiError(400, f"fieldValidation {validation[:64]!r} is not one of {', '.join(FIELD_VALIDATIONS)}")
        history = None if "dryRun" in request.query else self.history
        definition = await self._definition(target.kind)
        return WriteRules(
            self.context(),
            cast(FieldValidation, validation),
            patched=request.method == "PATCH" and request.content_type != APPLY_PATCH,
            content=definition and openapi.content_schema(target.kind, target.version, definition),
            staged_run_default_state=self.staged_run_default_state,
            history=history,
        )


def _patched(request: web.Request, target: RequestInfo, live: JsonObject, patch: Any) -> Any:
    if request.content_type == JSON_PATCH:
        return _json_patched(live, patch)
    if request.content_type != STRATEGIC_MERGE_PATCH:
        return merge_patch(live, patch)
    try:
        return strategic_merge(target.kind, live, patch)
    except InvalidPatchError as error:
        raise ApiError(400, str(error)) from error


def _json_patched(live: JsonObject, patch: Any) -> JsonObject:
    if not isinstance(patch, list) or not all(isinstance(operation, dict) for operation in patch):
        raise ApiError(400, f"a {JSON_PATCH} must be a list of operations, not {quote(patch)}")
    if len(patch) > _MOST_OPERATIONS:
        raise ApiError(413, f"a {JSON_PATCH} may have {_MOST_OPERATIONS} operations, not {len(patch)}")
    # Operations build on each other: together they could nest an object deeper than any body may be.
    if any(str(operation.get("path")).count("/") > DEEPEST for operation in patch):
        raise ApiError(422, f"a path of the patch has more than {DEEPEST} levels")
    try:
        result = apply_patch(live, patch)
    except PatchError as error:
        raise ApiError(422, f"operation {error.position} of the patch: {error}") from error
    if is_deeper(result, DEEPEST):
        raise ApiError(422, f"the patch nests the object deeper than {DEEPEST} levels")
    return result


async def _body(request: web.Request, content_type: str = "application/json") -> JsonObject:
    value = await _json(request, content_type)
    if not isinstance(value, dict):
        raise ApiError(400, f"the body must be a JSON object, not {quote(value)}")
    return value


async def _json(request: web.Request, content_type: str) -> Any:
    is_protobuf = request.content_type == protobuf.CONTENT_TYPE and content_type == "application/json"
    if "Content-Type" in request.headers and request.content_type != content_type and not is_protobuf:
        raise ApiError(415, f"the body must be {content_type}, not {request.content_type[:64]}")
    try:
        body = await request.read()
        return protobuf.decode_object(body) if is_protobuf else parse_json(body)
    except protobuf.UnsupportedMessageError as error:
        message = f"the body must be {content_type}: this hub does not decode {error} from {protobuf.CONTENT_TYPE}"
        raise ApiError(415, printable(message)) from error
    except web.HTTPRequestEntityTooLarge as error:
        raise ApiError(413, f"the body is too large: {error.text}") from error
    except InvalidReviewError as error:
        raise ApiError(400, str(error)) from error
    except ValueError as error:
        raise ApiError(400, f"the body is malformed: {error}") from error


def _addressed(target: RequestInfo, document: JsonObject) -> JsonObject:
    """Return *document* with the namespace of the URL. Raises `ApiError` if it is not the object of the URL."""
    for member, expected in (("apiVersion", target.api_version), ("kind", target.kind.kind)):
        if document.get(member) != expected:
            raise ApiError(
                400, f"{member} of the object is {quote(document.get(member))}, but the URL has {quote(expected)}"
            )
    metadata = document.get("metadata")
    if not isinstance(metadata, dict):
        raise ApiError(400, f"metadata must be an object, not {quote(metadata)}")
    values = {member: value for member, value in metadata.items() if value is not None}
    for member, expected in (("name", target.name), ("namespace", target.namespace or "")):
        if expected and values.setdefault(member, expected) != expected:
            raise ApiError(400, f"metadata.{member} is {quote(values[member])}, but the URL has {quote(expected)}")
    return document | {"metadata": values}


def _propagation(request: web.Request, options: JsonObject) -> Propagation | None:
    """Return the policy of a deletion for dependents. None: unset.

    Raises:
        ApiError: ``propagationPolicy`` is none of `Propagation`.
    """
    word = options.get("propagationPolicy") or request.query.get("propagationPolicy")
    if not word:
        orphan = options.get("orphanDependents")  # deprecated, but sent by old clients
        return None if orphan is None else Propagation.ORPHAN if orphan else Propagation.BACKGROUND
    if word not in list(Propagation):
        words = ", ".join(quote(policy) for policy in Propagation)
        raise ApiError(422, f"propagationPolicy: Unsupported value: {quote(word)}: supported values: {words}")
    return Propagation(word)


def _is_dry_run(request: web.Request, option: object = None) -> bool:
    values = [*request.query.getall("dryRun", []), *(option if isinstance(option, list) else [])]
    if any(value != "All" for value in values):
        raise ApiError(400, f"dryRun must be All, not {quote(values)}")
    return bool(values)


def _timeout(text: str) -> int | None:
    if not text:
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise ApiError(400, f"timeoutSeconds must be an integer from 0 to 999999999, not {text[:64]!r}")
    return int(text) or None


def _check_method(request: web.Request, methods: tuple[str, ...]) -> None:
    if request.method not in methods:
        message = "the server does not allow this method on the requested resource"
        raise ApiError(405, message, headers={"Allow": ", ".join(methods)})


def _check_accept(request: web.Request) -> None:
    accept = request.headers.get("Accept", "*/*")
    kinds = {part.partition(";")[0].strip().lower() for part in accept.split(",")}
    if not kinds & {"*/*", "application/*", "application/json", ""}:
        raise ApiError(406, "only application/json is served")
