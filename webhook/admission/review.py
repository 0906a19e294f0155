"""AdmissionReview in, AdmissionReview out.

A body without a valid ``uid`` causes an HTTP error (`InvalidReviewError`). With a uid, every refusal is a review.

Source: docs/specifications/serving.md 1.4 to 1.8; Kubernetes ``admission.k8s.io/v1``.
"""

import json
import sys
from base64 import b64encode
from collections.abc import Iterable
from math import inf
from typing import Any, Final, NoReturn

import orjson

from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import text_at
from scorer.api.values.quoting import printable, quote
from webhook.access.rights import UNDISPUTED, Reviewed
from webhook.access.user import UserInfo
from webhook.admission.authorization import authorized
from webhook.admission.judge import MOST_CAUSES, AdmissionRequest, Hook, Judgement, decide
from webhook.admission.removals import NOTHING_REMOVED, RemovalVerdict
from webhook.kube.transport.serialization import encode
from webhook.validation.framework.context import Context
from webhook.validation.framework.field import LONGEST_WARNING
from webhook.validation.framework.reading import DEEPEST, is_deeper

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"
LONGEST_UID: Final = 256
LONGEST_ANNOTATION: Final = 256
MOST_DIGITS: Final = 4300
MOST_VALUES: Final = 300_000
"""Maximum number of JSON values in a body: enough for the largest object that an API server stores, twice."""
LARGE_BYTES: Final = 256 * 1024
"""A longer body is refused unless the fast parser accepts it, as it accepts every body of an API server."""
LONGEST_NAME: Final = 253
"""Maximum length of a name, a group or a kind in an answer."""
_SHORTEST_TAIL: Final = 24
"""Minimum room for a path in characters, regardless of the length of the message."""
_LARGEST_EXACT: Final = 2**64


class InvalidReviewError(ValueError):
    """The body is not a review that can be answered.

    Args:
        code: HTTP status of the answer.
        message: Text for the user, without control characters.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = printable(message)


def parse_review(body: bytes) -> JsonObject:
    """Parse the body of a request as strictly as serving.md 1.8 part A requires.

    Returns:
        The review. ``request`` is an object, and ``request.uid`` a valid string.

    Raises:
        InvalidReviewError: The body is anything else.
    """
    review = parse_object(body, MOST_VALUES)
    if review.get("kind") != KIND or review.get("apiVersion") != API_VERSION:
        review_kind = f"{quote(review.get('apiVersion'))}, {quote(review.get('kind'))}"
        raise InvalidReviewError(400, f"the body must be {API_VERSION}, {KIND}, not {review_kind}")
    request = review.get("request")
    if not isinstance(request, dict):
        raise InvalidReviewError(400, f"request must be an object, not {quote(request)}")
    uid = request.get("uid")
    if not isinstance(uid, str) or not 0 < len(uid) <= LONGEST_UID:
        raise InvalidReviewError(
            400, f"request.uid must be a string of 1 to {LONGEST_UID} characters, not {quote(uid)}"
        )
    if not uid.isprintable() and any(character < " " or "\x7f" <= character <= "\x9f" for character in uid):
        raise InvalidReviewError(400, f"request.uid must not have control characters: {quote(uid)}")
    return review


def parse_object(body: bytes, most_values: int | None = None) -> JsonObject:
    """Parse one JSON object, as `parse_json`. Raises `InvalidReviewError` for any other value, too."""
    value = parse_json(body, most_values)
    if not isinstance(value, dict):
        raise InvalidReviewError(400, f"the body must be a JSON object, not {quote(value)}")
    return value


def parse_json(body: bytes, most_values: int | None = None) -> Any:
    """Parse one JSON value.

    The fast parser runs first. It refuses lone surrogates and integers outside the range of a double. JSON allows both.
    If it refuses, the standard library decides, with the hooks below.

    Args:
        body: The body as received.
        most_values: A body with more JSON values is refused before it is parsed. None: unlimited.

    Raises:
        InvalidReviewError: The body is empty, not UTF-8 or not one JSON text, has numbers that are too large, is nested
            deeper than `DEEPEST` levels, or is longer than `LARGE_BYTES` and refused by the fast parser. With code 413,
            it has too many values.
    """
    if most_values is not None and len(body) > most_values and _has_more_values(body, most_values):
        raise InvalidReviewError(413, f"the body has more than {most_values} JSON values")
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        value = _parse_slowly(body)
        if len(body) > LARGE_BYTES:
            reason = "lone surrogates, or integers outside the range of a double"
            raise InvalidReviewError(400, f"a body of more than {LARGE_BYTES} bytes must not have {reason}") from None
    if _may_be_deeper(body) and is_deeper(value, DEEPEST):
        raise InvalidReviewError(400, f"the body is nested deeper than {DEEPEST} levels")
    return value


def _has_more_values(body: bytes, most: int) -> bool:
    """Return whether *body* has more than *most* values. Runs before the parser, which blocks the event loop.

    Values are counted by the characters that separate and open them, so an empty list or object counts twice. Strings
    may contain the same characters. If that could change the result, strings are dropped, unless they alone are too
    many. Each step is linear in the body, even if a string is not closed. A regular expression for strings would not
    be.

    Example: ``{"data": {"a": ",,,,,,"}}`` has 3 values, but 6 commas in a string and 2 braces.
    """
    if _separators(body) < most:
        return False
    bare = body.replace(rb"\\", b"").replace(rb"\"", b"")  # every remaining quote opens or closes a string
    if bare.count(b'"') > 4 * most:  # two per string, and at most every other string is a key
        return True
    return _separators(b"".join(bare.split(b'"')[::2])) >= most


def _separators(body: bytes) -> int:
    return body.count(b",") + body.count(b"[") + body.count(b"{")


def _may_be_deeper(body: bytes) -> bool:
    """Return whether *body* has enough brackets to nest too deeply. A path has at most one empty container."""
    openings = body.count(b"{") + body.count(b"[")
    return openings > DEEPEST and openings - body.count(b"{}") - body.count(b"[]") >= DEEPEST


def _parse_slowly(body: bytes) -> Any:
    if not body:
        raise InvalidReviewError(400, "the body is empty")
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidReviewError(400, f"the body is not UTF-8 at byte {error.start}") from None
    if text.startswith("\ufeff"):
        raise InvalidReviewError(400, "the body starts with a byte order mark")
    try:
        return json.loads(text, parse_constant=_refuse_constant, parse_float=_finite, parse_int=_integer)
    except RecursionError:
        raise InvalidReviewError(400, f"the body is nested deeper than {DEEPEST} levels") from None
    except json.JSONDecodeError as error:
        raise InvalidReviewError(400, f"the body is not JSON: {error.msg} at character {error.pos}") from None
    except ValueError as error:
        raise InvalidReviewError(400, f"the body is not JSON: {error}") from None


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a number")


def _finite(text: str) -> float:
    number = float(text)
    if number in {float("inf"), float("-inf")}:
        raise ValueError(f"the number {text[:32]} is too large")
    return number


def _integer(text: str) -> int | float:
    """Parse an integer like the fast parser: exact up to 64 bits, otherwise a double, at most the largest one.

    Raises:
        ValueError: *text* has more than `MOST_DIGITS` digits.
    """
    if len(text) > MOST_DIGITS + text.startswith("-"):
        raise ValueError(f"an integer of {len(text)} characters is too long")
    number = int(text)
    if -(2**63) <= number < _LARGEST_EXACT:
        return number
    try:
        return float(number)
    except OverflowError:
        return sys.float_info.max if number > 0 else -sys.float_info.max


def answer(
    review: JsonObject,
    hook: Hook,
    context: Context,
    user: UserInfo | None = None,
    reviewed: Reviewed = UNDISPUTED,
    *,
    removals: RemovalVerdict = NOTHING_REMOVED,
    size: float = inf,
) -> JsonObject:
    """Return the complete answer to a review that `parse_review` returned.

    Args:
        review: The parsed body.
        hook: The called hook.
        context: The hub and the settings. Defaults do not depend on them.
        user: The author. None means that the user in the review counts.
        reviewed: The review of the user's rights.
        removals: Content that the write removes from clusters.
        size: Size of the body in bytes, infinite if unknown.
    """
    request = review["request"]
    if hook == "validate":
        context = context.with_user(user or UserInfo.read(request.get("userInfo")))
    question = AdmissionRequest(
        hook=hook,
        operation=request.get("operation"),
        kind=request.get("kind"),
        resource=request.get("resource"),
        document=request.get("object"),
        old=request.get("oldObject"),
        subresource=request.get("subResource"),
        context=context,
        uid=request["uid"],
        size=size,
    )
    judgement = authorized(decide(question), reviewed, context.user, context.settings.placement_authorization)
    return respond(removals.applied_to(judgement), request)


def respond(judgement: Judgement, request: JsonObject) -> JsonObject:
    """Return a verdict as the AdmissionReview that responds to *request*."""
    response: JsonObject = {"uid": request["uid"], "allowed": judgement.allowed}
    if not judgement.allowed:
        response["status"] = status_of(judgement, request)
        if rules := judgement.rules:
            response["auditAnnotations"] = {"rules": rules[:LONGEST_ANNOTATION]}
    if judgement.warnings:
        response["warnings"] = for_headers(judgement.warnings)
    if judgement.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = b64encode(encode(judgement.patch)).decode("ascii")
    return {"apiVersion": API_VERSION, "kind": KIND, "response": response}


def status_of(judgement: Judgement, request: JsonObject) -> JsonObject:
    """Return a refusal as the ``Status`` that kubectl prints. If it is Invalid, kubectl only prints the causes."""
    status: JsonObject = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "code": judgement.code,
        "reason": judgement.reason,
        "message": judgement.message,
    }
    if judgement.code == 400:
        return status
    document = request.get("object") or request.get("oldObject")
    details: JsonObject = {
        "name": _short(text_at(document, "metadata", "name")),
        "group": _short(text_at(request, "kind", "group")),
        "kind": _short(text_at(request, "kind", "kind")),
    }
    if judgement.errors:
        details["causes"] = [
            {"reason": error.cause.value, "message": error.text(), "field": printable(str(error.field))}
            for error in judgement.errors[:MOST_CAUSES]
        ]
    if judgement.removals:
        details["causes"] = list(judgement.removals[:MOST_CAUSES])
    if judgement.retry_after_seconds:
        details["retryAfterSeconds"] = judgement.retry_after_seconds
    status["details"] = details
    return status


def for_headers(warnings: Iterable[str]) -> list[str]:
    """Return warnings that are short enough for a header. The path of the field is shortened first, from its start."""
    return [_fitted(text) for text in warnings]


def _fitted(text: str) -> str:
    if len(text) <= LONGEST_WARNING:
        return text
    path, colon, message = text.partition(": ")
    if colon and " " not in path:
        text = f"{_tail(path, max(LONGEST_WARNING - len(message) - len(colon), _SHORTEST_TAIL))}: {message}"
    return text if len(text) <= LONGEST_WARNING else text[: LONGEST_WARNING - 3] + "..."


def _tail(path: str, room: int) -> str:
    """Return *path*, or an ellipsis and as many of its last parts as fit into *room* characters."""
    if len(path) <= room:
        return path
    end = path[3 - room :]
    return f"...{end.partition('.')[2] or end}"


def _short(name: str) -> str:
    """Return a name for an answer, truncated if it is too long for any object."""
    return printable(name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 3] + "...")
