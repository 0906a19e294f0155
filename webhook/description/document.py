"""Assembly of the OpenAPI document.

Source: docs/specifications/serving.md 3.1; OpenAPI 3.1.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from importlib.resources import files
from typing import Any, Final

import orjson

from scorer.api.cluster.member_cluster import MemberCluster
from scorer.api.meta import JsonObject
from scorer.api.node_pool import DisruptionReason
from scorer.node_budgets.documents import LONGEST_DAYS
from webhook.description.operations.operation import OpenApiOperation
from webhook.description.operations.table import GATE_QUESTIONS, NAMES, OPERATIONS, TAGS
from webhook.description.schemas import named, reference, references, schemas_of
from webhook.endpoints.fleet.budgets import USUAL_DAYS
from webhook.endpoints.fleet.placements import OLDER_THAN, OLDEST
from webhook.endpoints.http.problems import PROBLEM_JSON, Problem, ProblemDetails
from webhook.endpoints.http.query_parameters import LONGEST_PAGE, MOST_NAMES
from webhook.endpoints.http.request_models import KubernetesObject
from webhook.history.entry import EntryType
from webhook.history.query import MOST_ITEMS, USUAL_ITEMS

VERSION: Final = "3.1.1"
EVENT_STREAM: Final = "text/event-stream"
PROBLEM_TYPE: Final = "urn:harbormaster:problem:"

ABOUT: Final = (
    "Placement decisions, disruption gates and admission checks, for other controllers, CI and users "
    "of harbormaster.\n"
    "\n"
    "Queries with a body are POST requests and change nothing. Requests are parsed strictly: unknown fields are "
    "refused, and values are not coerced. A null counts as absent. Responses may gain fields. Clients must ignore "
    "unknown ones.\n"
    "\n"
    "Every GET also works as HEAD. Errors are problem details (RFC 9457). The `type` is one of those listed with "
    "each response. Two types are listed with no operation, because every operation can return them: 405, "
    "`method-not-allowed`, and 404, `not-found`, for an unknown path.\n"
    "\n"
    "`fleetRevision` identifies the state that an answer was computed from: `<fleet>/<step>`, where the step is "
    "the ten-second interval in which ages were measured. A plan is computed for a time of its own, so its revision "
    "is only `<fleet>`. All replicas with the same members in the same state return the same revision.\n"
    "\n"
    "A GET with `If-None-Match` returns 304 if the `ETag` is still the same. Responses to `/v1/score`, `/v1/filter` "
    "and `/v1/explain` also have an `ETag`, which starts with the `fleetRevision`, but a POST never returns 304. Every "
    "other `ETag` is opaque. `continue` is opaque, too, and empty on the last page."
)

_HEADERS: Final[JsonObject] = {
    "X-Request-Id": {
        "description": "ID of the request, as in the server's log.",
        "schema": {"type": "string"},
        "example": "0f3d5c1e-6f5b-4b7e-a3a1-9f1c2d3e4f50",
    },
    "ETag": {
        "description": "Entity tag of the response, in quotes. For `/v1/score`, `/v1/filter` and `/v1/explain`, it "
        "starts with the `fleetRevision`. Otherwise, it is opaque.",
        "schema": {"type": "string"},
        "example": '"1785/42-0f3d5c1e6f5b4b7e"',
    },
    "Retry-After": {"description": "Seconds to wait before a retry.", "schema": {"type": "integer", "minimum": 1}},
    "WWW-Authenticate": {
        "description": "Required authentication.",
        "schema": {"type": "string"},
        "example": 'Bearer realm="harbormaster"',
    },
}

_PARAMETERS: Final[JsonObject] = {
    "RequestId": {
        "name": "X-Request-Id",
        "in": "header",
        "description": "Request ID chosen by the caller. Replaced by the server if it does not match the pattern.",
        "schema": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$"},
    },
    "IfNoneMatch": {
        "name": "If-None-Match",
        "in": "header",
        "description": "`ETag` of a previous response. If it is still valid, the response is 304 without a body.",
        "schema": {"type": "string"},
    },
    "name": {
        "name": "name",
        "in": "path",
        "required": True,
        "description": "Name of the object.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 253},
    },
    **{
        part: {
            "name": part,
            "in": "path",
            "required": True,
            "description": f"{words} of the operation.",
            "schema": {"type": "string", "minLength": 1, "maxLength": 253},
        }
        for part, words in (("run", "UID of the run"), ("member", "The member"), ("attempt", "The attempt"))
    },
    "cluster": {
        "name": "cluster",
        "in": "path",
        "required": True,
        "description": "Name of a member cluster.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 253},
    },
    "id": {
        "name": "id",
        "in": "path",
        "required": True,
        "description": "ID of the reservation.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 100},
    },
    "pool": {
        "name": "pool",
        "in": "query",
        "description": "Filter by NodePool. May be repeated.",
        "schema": {"type": "array", "items": {"type": "string"}},
    },
    "reason": {
        "name": "reason",
        "in": "query",
        "description": "Filter by reason. May be repeated.",
        "schema": {"type": "array", "items": {"type": "string", "enum": [str(reason) for reason in DisruptionReason]}},
    },
    "at": {
        "name": "at",
        "in": "query",
        "description": "Time to evaluate the budgets at, with a UTC offset. Absent: now.",
        "schema": {"type": "string", "format": "date-time"},
    },
    "days": {
        "name": "days",
        "in": "query",
        "description": f"Number of days. Absent: {USUAL_DAYS}.",
        "schema": {"type": "integer", "minimum": 1, "maximum": LONGEST_DAYS},
    },
    "from": {
        "name": "from",
        "in": "query",
        "description": "Start of the calendar, with an offset. Absent: now.",
        "schema": {"type": "string", "format": "date-time"},
    },
    "tz": {
        "name": "tz",
        "in": "query",
        "description": "Additional time zone for instants, such as `Europe/Berlin`.",
        "schema": {"type": "string"},
    },
    **{
        key: {
            "name": name,
            "in": "query",
            "description": f"Filter by {what}. May be repeated up to {MOST_NAMES} times. Those that do not exist "
            "are left out.",
            "schema": {"type": "array", "items": {"type": "string"}, "maxItems": MOST_NAMES},
        }
        for key, name, what in (("clusterNames", "name", "cluster"), ("placementRefs", "ref", "placement"))
    },
    OLDER_THAN: {
        "name": OLDER_THAN,
        "in": "query",
        "description": "Minimum time that removals have waited, in seconds.",
        "schema": {"type": "integer", "minimum": 1, "maximum": OLDEST},
    },
    "limit": {
        "name": "limit",
        "in": "query",
        "description": f"Number of items per page, from 1 to {LONGEST_PAGE}. Absent: all.",
        "schema": {"type": "integer", "minimum": 1, "maximum": LONGEST_PAGE},
    },
    "continue": {
        "name": "continue",
        "in": "query",
        "description": "`continue` of the previous page.",
        "schema": {"type": "string"},
    },
    "type": {
        "name": "type",
        "in": "query",
        "description": "Filter by type. May be repeated.",
        "schema": {"type": "array", "items": {"enum": list(EntryType)}},
    },
    **{
        key: {"name": name, "in": "query", "description": about, "schema": {"type": "string"}}
        for key, name, about in (
            ("ofKind", "kind", "Filter by the kind of the object."),
            ("ofNamespace", "namespace", "Filter by the namespace of the object."),
            ("ofName", "name", "Filter by the name of the object."),
            ("ruleOrReason", "reason", "Filter by reason or by rule of admission."),
            ("by", "by", "Filter by the user who caused the entry."),
            ("entryId", "id", "Filter by the id of the entry."),
            ("words", "q", "Filter by words. The entry contains all of them."),
        )
    },
    **{
        name: {"name": name, "in": "query", "description": about, "schema": {"type": "string", "format": "date-time"}}
        for name, about in (("since", "Start of the period. Inclusive."), ("before", "End of the period. Exclusive."))
    },
    "atMost": {
        "name": "limit",
        "in": "query",
        "description": f"Maximum number of entries. The latest ones are returned. Absent: {USUAL_ITEMS}.",
        "schema": {"type": "integer", "minimum": 1, "maximum": MOST_ITEMS},
    },
    "namespace": {
        "name": "namespace",
        "in": "path",
        "required": True,
        "description": "Namespace of the object.",
        "schema": {"type": "string", "minLength": 1, "maxLength": 63},
    },
}

_SECURITY: Final[JsonObject] = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "Token of the hub for the audience of harbormaster, by default "
        "`harbormaster.<namespace>.svc`: `kubectl create token <serviceaccount> --audience <audience>`. "
        "ClusterRoles grant its user access by `nonResourceURLs`: path `/v1/score`, verb `post`.",
    },
    "clientCertificate": {
        "type": "mutualTLS",
        "description": "Client certificate of an authority that harbormaster trusts. Its common name is the user, "
        "and its organizations are the groups, as in Kubernetes.",
    },
}


def document() -> JsonObject:
    """Return the OpenAPI document of all operations."""
    examples: JsonObject = orjson.loads((files("webhook.description") / "examples.json").read_bytes())
    paths: dict[str, JsonObject] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method] = _operation(operation, examples)
    schemas = _schemas()
    problems = {problem for operation in OPERATIONS for problem in operation.every_problem}
    return {
        "openapi": VERSION,
        "info": {
            "title": "harbormaster",
            "version": "v1",
            "summary": "Placement decisions, disruption gates and admission checks",
            "description": ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/", "description": "The server that serves this document."}],
        "security": [{"bearer": []}, {"clientCertificate": []}],
        "tags": [{"name": name, "description": text} for name, text in TAGS.items()],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(schemas.items())),
            "responses": _problem_responses(problems, examples["problems"]),
            "headers": _HEADERS,
            "parameters": _PARAMETERS,
            "securitySchemes": _SECURITY,
        },
    }


def text() -> str:
    """Return the document as it is stored and served."""
    return json.dumps(document(), indent=1, ensure_ascii=False) + "\n"


def _schemas() -> dict[str, JsonObject]:
    requests = [model for operation in OPERATIONS for model in operation.requests]
    answers = [model for operation in OPERATIONS for model in operation.answers]
    request_schemas = schemas_of(requests, "request", NAMES)
    open_ = schemas_of([*answers, ProblemDetails, KubernetesObject, MemberCluster], "answer", NAMES)
    request_schemas["Candidates"]["properties"]["inline"]["items"] = reference("MemberCluster")
    request_schemas["PlanRequest"]["properties"]["objects"]["items"] = reference("KubernetesObject")
    for member in ("object", "oldObject"):
        described_schema = request_schemas["RehearsalRequest"]["properties"][member]
        request_schemas["RehearsalRequest"]["properties"][member] = {
            **reference("KubernetesObject"),
            "description": described_schema["description"],
        }
    described_schema = request_schemas["DisruptionQuestion"]["properties"]["nodePool"]
    request_schemas["DisruptionQuestion"]["properties"]["nodePool"] = {
        **reference("KubernetesObject"),
        "description": described_schema["description"],
    }
    described_schema = request_schemas["ReservationRequest"]["properties"]["question"]
    request_schemas["ReservationRequest"]["properties"]["question"] = {
        "oneOf": [reference(name) for name in GATE_QUESTIONS],
        "description": described_schema["description"],
    }
    kinds = [PROBLEM_TYPE + problem.slug for problem in Problem]
    open_["ProblemDetails"]["properties"]["type"]["enum"] = kinds
    extender = {
        name for operation in OPERATIONS if operation.tag == "Extender" for name in _parts(operation, request_schemas)
    }
    for name in extender:  # newer schedulers may send unknown fields
        if request_schemas[name].get("additionalProperties") is False:
            del request_schemas[name]["additionalProperties"]
    return {**open_, **request_schemas}


def _parts(operation: OpenApiOperation, schemas: Mapping[str, JsonObject]) -> set[str]:
    """Return the names of all schemas that a request consists of."""
    assert operation.request is not None
    parts: set[str] = set()
    ahead = [named(operation.request, NAMES)]
    while ahead:
        name = ahead.pop()
        if name not in parts:
            parts.add(name)
            ahead += references(schemas[name])
    return parts


def _operation(operation: OpenApiOperation, examples: JsonObject) -> JsonObject:
    operation_document: JsonObject = {
        "operationId": operation.name,
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": operation.description,
    }
    if operation.open_to_all:
        operation_document["security"] = []
    parameters = [*re.findall(r"{(\w+)}", operation.path), *operation.query, "RequestId"]
    if operation.tagged and operation.method == "get":
        parameters.append("IfNoneMatch")
    operation_document["parameters"] = [{"$ref": f"#/components/parameters/{name}"} for name in parameters]
    example = examples["operations"].get(operation.name, {})
    if operation.request is not None:
        media: JsonObject = {"schema": _one_of(operation.requests)}
        if "request" in example:
            media["example"] = example["request"]
        operation_document["requestBody"] = {
            "required": not operation.body_optional,
            "content": {"application/json": media},
        }
    operation_document["responses"] = {str(operation.status): _answer(operation, example)}
    if operation.tagged and operation.method == "get":
        operation_document["responses"]["304"] = {
            "description": "The previous answer is still valid.",
            "headers": _header_references(["X-Request-Id", "ETag"]),
        }
    for problem in operation.every_problem:
        name = _name_of(problem.status)
        operation_document["responses"][str(int(problem.status))] = {"$ref": f"#/components/responses/{name}"}
    return operation_document


def _answer(operation: OpenApiOperation, example: JsonObject) -> JsonObject:
    schema: JsonObject = {"type": "object"}
    if operation.media == EVENT_STREAM:
        schema = _stream(operation)
    elif operation.answer is not None:
        schema = _one_of(operation.answers)
    if operation.many:
        schema = {"type": "array", "items": schema}
    media: JsonObject = {"schema": schema}
    if "answer" in example:
        media["example"] = example["answer"]
    headers = ["X-Request-Id", *(["ETag"] if operation.tagged else [])]
    if operation.status == 204:
        return {"description": "Success.", "headers": _header_references(headers)}
    return {
        "description": "The answer.",
        "headers": _header_references(headers),
        "content": {operation.media: media},
    }


def _one_of(models: Sequence[type]) -> JsonObject:
    references = [reference(named(model, NAMES)) for model in models]
    return references[0] if len(references) == 1 else {"oneOf": references}


def _stream(operation: OpenApiOperation) -> JsonObject:
    """Return the schema of server-sent events: the fields of one event, with its data as JSON."""
    assert operation.answer is not None
    data = {
        "type": "string",
        "description": "The change, as JSON.",
        "contentMediaType": "application/json",
        "contentSchema": reference(named(operation.answer, NAMES)),
    }
    event = {
        "type": "object",
        "properties": {"event": {"const": "change"}, "data": data},
        "required": ["event", "data"],
    }
    return {
        "type": "string",
        "description": "Stream of events. Lines that start with a colon are comments.",
        "contentMediaType": EVENT_STREAM,
        "contentSchema": event,
    }


def _header_references(names: Iterable[str]) -> JsonObject:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


_RENAMED: Final[Mapping[HTTPStatus, str]] = {
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "RequestEntityTooLarge",
    HTTPStatus.UNPROCESSABLE_ENTITY: "UnprocessableEntity",
}
"""Statuses that Python 3.13 renamed. With this table, the document is the same for every version of Python."""


def _name_of(status: HTTPStatus) -> str:
    return _RENAMED.get(status) or "".join(word.capitalize() for word in status.name.split("_"))


def _problem_responses(problems: Iterable[Problem], examples: Mapping[str, Any]) -> JsonObject:
    by_status: dict[HTTPStatus, list[Problem]] = {}
    for problem in sorted(problems, key=lambda found: (found.status, found.slug)):
        by_status.setdefault(problem.status, []).append(problem)
    return {
        _name_of(status): _problem_response(status, problems_of_status, examples)
        for status, problems_of_status in by_status.items()
    }


def _problem_response(status: HTTPStatus, problems: list[Problem], examples: Mapping[str, Any]) -> JsonObject:
    headers = ["X-Request-Id"]
    if status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
        headers.append("Retry-After")
    if status is HTTPStatus.UNAUTHORIZED:
        headers.append("WWW-Authenticate")
    media: JsonObject = {"schema": reference("ProblemDetails")}
    shown_examples = {
        problem.slug: {"value": examples[problem.slug]} for problem in problems if problem.slug in examples
    }
    if shown_examples:
        media["examples"] = shown_examples
    return {
        "description": "; ".join(f"`{problem.slug}`: {problem.title}" for problem in problems) + ".",
        "headers": _header_references(headers),
        "content": {PROBLEM_JSON: media},
    }
