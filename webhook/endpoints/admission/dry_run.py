"""``/v1/validate`` and ``/v1/default``: a dry run of admission, for CI.

The rules are those of the hooks, with the caller as the user: a write that admission would refuse to the caller is
reported as refused. Objects that the caller may not list are treated as absent, and a warning names their kind if a
rule compares with them.

Source: docs/specifications/serving.md 3.1.
"""

from collections.abc import Iterator
from typing import Annotated, Any

from aiohttp import web
from pydantic import Field
from typing_extensions import TypedDict

from scorer.api.kinds import Kind
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import name_of, namespace_of
from scorer.api.values.quoting import printable, quote
from webhook.access.rights import Reviewed
from webhook.admission.authorization import is_enforced
from webhook.admission.limited import Readable, compared_kinds, limited, shown_with
from webhook.admission.patch import PatchOperation
from webhook.admission.rehearsal import FieldMistake, RehearsalVerdict, WriteOperation, default, rehearse
from webhook.endpoints.http.access_control import caller_of
from webhook.endpoints.http.api import Api
from webhook.endpoints.http.problems import Mistake, Problem, ProblemError
from webhook.endpoints.http.request_models import RequestModel, WholeObject
from webhook.endpoints.http.responses import unstored
from webhook.validation.framework.context import Context


class RehearsalModel(RequestModel):
    """An object to be validated or defaulted as if it were written now."""

    object_: Annotated[dict[str, Any], Field(alias="object")]
    """The object as its author wrote it, with `apiVersion` and `kind`."""
    old_object: dict[str, Any] | None = None
    """The stored object. If present, the review is an update."""
    operation: WriteOperation | None = None
    """CREATE, or UPDATE if there is an old object. Optional."""

    def done(self) -> WriteOperation:
        """Return the operation that the objects imply. `operation` must agree with it."""
        return "CREATE" if self.old_object is None else "UPDATE"


class ValidateAnswer(TypedDict):
    """Verdict of admission."""

    allowed: bool
    errors: list[FieldMistake]
    """Every error, by path. Empty if the object would be admitted."""
    warnings: list[str]


class DefaultAnswer(TypedDict):
    """Defaults that admission would fill in."""

    object: WholeObject
    """The object after the patch."""
    patch: list[PatchOperation]
    """Changes that the mutating hook would make."""
    warnings: list[str]


def add_routes(api: Api) -> None:
    """Serve ``/v1/validate`` and ``/v1/default``."""

    async def validate(request: web.Request) -> web.Response:
        body = await _read(api, request)
        context = api.answers.admission().with_user(caller_of(request))
        hidden_kinds: set[Kind] = set()
        context = limited(context, await _readable(api, request, body.object_, context), hidden_kinds)
        rights_review = await _rights(api, body, context)
        verdict = rehearse(body.object_, body.old_object, body.done(), context, rights_review)
        warnings = [
            *verdict.warnings,
            *(_not_compared(kind) for kind in sorted(hidden_kinds, key=lambda kind: kind.plural)),
        ]
        answer: ValidateAnswer = {"allowed": verdict.allowed, "errors": list(_errors(verdict)), "warnings": warnings}
        return unstored(answer)

    async def defaults(request: web.Request) -> web.Response:
        body = await _read(api, request)
        result = default(body.object_, body.old_object, body.done())
        answer: DefaultAnswer = {
            "object": result.document,
            "patch": list(result.patch),
            "warnings": list(result.warnings),
        }
        return unstored(answer)

    api.post("/v1/validate", "/v1/validate", validate)
    api.post("/v1/default", "/v1/default", defaults)


async def _read(api: Api, request: web.Request) -> RehearsalModel:
    body = await api.read(request, RehearsalModel)
    if mistakes := list(_mistakes(body)):
        raise ProblemError.of_mistakes(mistakes)
    return body


async def _readable(api: Api, request: web.Request, document: JsonObject, context: Context) -> Readable:
    """Return the kinds that the caller may list, of those that the verdict on a document may depend on."""
    kinds, namespace = compared_kinds([document], context.kinds), namespace_of(document)
    everywhere = await api.readable_kinds(request, kinds)
    rest = {kind for kind in kinds - everywhere if kind.namespaced}
    inside = await api.readable_kinds(request, rest, namespace) if rest and namespace else frozenset()
    return Readable(shown_with(everywhere), namespace, shown_with(inside))


def _not_compared(kind: Kind) -> str:
    return f"not compared with other {kind.plural}: the caller may not list them"


def _mistakes(body: RehearsalModel) -> Iterator[Mistake]:
    new, old = body.object_, body.old_object
    yield from _untyped(new, "/object")
    if body.operation == "UPDATE" and old is None:
        yield Mistake("/oldObject", "required", "must be set when operation is UPDATE")
    if old is None:
        return
    if body.operation == "CREATE":
        yield Mistake("/operation", "invalid", '"CREATE": must be UPDATE when oldObject is set')
    for pointer, before, after in (
        ("/oldObject/apiVersion", old.get("apiVersion"), new.get("apiVersion")),
        ("/oldObject/kind", old.get("kind"), new.get("kind")),
        ("/oldObject/metadata/name", name_of(old), name_of(new)),
        ("/oldObject/metadata/namespace", namespace_of(old), namespace_of(new)),
    ):
        if before != after:
            yield Mistake(pointer, "invalid", f"{quote(before)}: must be {quote(after)}, as in the object")


def _untyped(document: JsonObject, at: str) -> Iterator[Mistake]:
    for member in ("apiVersion", "kind"):
        value = document.get(member)
        if value is None:
            yield Mistake(f"{at}/{member}", "required", "must be set")
        elif not isinstance(value, str):
            yield Mistake(f"{at}/{member}", "type", f"{quote(value)}: must be a string")
        elif not value:
            yield Mistake(f"{at}/{member}", "invalid", "must not be empty")


async def _rights(api: Api, body: RehearsalModel, context: Context) -> Reviewed:
    """Review the caller's rights to the objects that a placement selects, as the validating hook does.

    Raises:
        ProblemError: The hub does not respond, and the settings require a review.
    """
    rights = api.answers.rights
    group, _, version = body.object_["apiVersion"].rpartition("/")
    write: JsonObject = {
        "kind": {"group": group, "version": version, "kind": body.object_["kind"]},
        "operation": body.done(),
        "object": body.object_,
        "oldObject": body.old_object,
    }
    rights_review = await rights.review(context.user, rights.needed(write, context.user, context))
    if rights_review.unanswered and is_enforced(rights_review, context.settings.placement_authorization):
        raise ProblemError(
            Problem.NOT_READY, f"the rights of the caller are unknown: {rights_review.unanswered}", retry_after=1
        )
    return rights_review


def _errors(verdict: RehearsalVerdict) -> Iterator[FieldMistake]:
    """Yield the reasons of a refusal. A reason without a field has an empty path."""
    if verdict.refusal:
        yield {"field": "", "reason": verdict.reason, "message": verdict.refusal}
    for error in verdict.errors:
        entry: FieldMistake = {
            "field": printable(str(error.field)),
            "reason": error.cause.value,
            "message": error.text(),
        }
        if error.rule:
            entry["rule"] = error.rule
        yield entry
