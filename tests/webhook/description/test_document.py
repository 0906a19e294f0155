"""The document is OpenAPI 3.1, is made from the types of requests and answers, and describes every route."""

import ast
import json
import re
from functools import cache
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator

from tests.webhook.description.contract import Contract
from tests.webhook.description.questions import EXAMPLES
from tests.webhook.services import LISTENERS
from webhook.description import document as description
from webhook.description.document import text
from webhook.description.operations.table import OPERATIONS
from webhook.endpoints.http.problems import Problem
from webhook.endpoints.http.request_models import _CODES
from webhook.processes.up import Up
from webhook.server.app import AppDependencies, make_app
from webhook.settings.programs import UpSettings
from webhook.telemetry.metrics import API_ROUTES

COMMITTED = Path(__file__).parents[3] / "webhook" / "openapi.json"
AGAIN = "webhook/openapi.json is not what the models make: run `make openapi` and look at the difference"
PARAMETER = re.compile(r"{\w+}")
document = cache(description.document)
"""The same document for all tests, none of which changes it."""


def test_the_committed_file_is_what_the_models_make():
    assert COMMITTED.read_text(encoding="utf-8") == text(), AGAIN


def test_it_is_a_valid_document_of_openapi_3_1():
    assert [str(error) for error in OpenAPIV31SpecValidator(document()).iter_errors()] == []


def test_every_schema_is_a_schema():
    for schema in document()["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


async def test_every_route_is_described_and_every_described_path_is_a_route(tmp_path):
    """Paths of the application, parameters and all, are those of the document."""
    async with Up(UpSettings(**LISTENERS, page_actions=True), tmp_path) as up:
        app = make_app(AppDependencies(up.services, up.settings))
    routes = {resource.canonical for resource in app.router.resources()}
    ours = {route for route in routes if route.startswith(("/v1/", "/extender/"))}
    assert ours == set(document()["paths"])


def test_requests_to_every_route_are_counted():
    routes = [re.compile(re.escape(route).replace(r"\*", ".+")) for route in API_ROUTES]
    assert [
        operation.path
        for operation in OPERATIONS
        if operation.path.startswith("/v1/") and not any(route.fullmatch(operation.path) for route in routes)
    ] == []


def test_everything_described_is_used():
    """No schema, parameter, header or response is left over."""
    whole = document()
    words = json.dumps(whole)
    for family, members in whole["components"].items():
        if family == "securitySchemes":
            continue
        unused = {name for name in members if f'"#/components/{family}/{name}"' not in words}
        assert unused == set(), family


def test_every_operation_and_every_member_of_a_question_is_told_in_words():
    whole = document()
    for methods in whole["paths"].values():
        for operation in methods.values():
            assert operation["summary"]
            assert operation["description"].endswith(".")
    for name, schema in whole["components"]["schemas"].items():
        assert schema.get("description"), name
        assert "``" not in json.dumps(schema), name


def test_requests_are_closed_and_answers_are_open():
    schemas = document()["components"]["schemas"]
    for operation in OPERATIONS:
        if operation.tag == "Extender" or operation.answer is None:
            continue
        assert "additionalProperties" not in schemas[operation.answer.__name__]
    for name in ("ScoreRequest", "Candidates", "PlacementPolicy", "Toleration", "RehearsalRequest", "PlanRequest"):
        assert schemas[name]["additionalProperties"] is False


def test_every_problem_is_described():
    """Those that some operation of ``/v1`` can end in, and 405, which only other methods end in."""
    described = document()["components"]["schemas"]["ProblemDetails"]["properties"]["type"]["enum"]
    operations = {problem for operation in OPERATIONS for problem in operation.every_problem}
    possible = {f"urn:harbormaster:problem:{problem.slug}" for problem in operations | {Problem.METHOD_NOT_ALLOWED}}
    assert set(described) == possible


def test_every_kind_of_mistake_is_described():
    """All that the sources name, wherever a request is looked at."""
    described = document()["components"]["schemas"]["RequestMistake"]["properties"]["code"]["enum"]
    assert set(described) == {*_CODES.values(), "type", "invalid", *_codes_in(COMMITTED.parent)}


def _codes_in(folder):
    """Yield what calls of ``Mistake`` and ``Misfit`` say as their second argument, where it is written out."""
    for path in folder.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)) if "Mistake(" in source or "Misfit(" in source else ():
            match node:
                case ast.Call(func=ast.Name(id="Mistake" | "Misfit"), args=[_, ast.Constant(value=str(code)), *_]):
                    yield code


def test_unions_are_told_apart_by_a_constant():
    """Each choice has a constant of its own in the member that tells, and the mapping leads to it."""
    whole = document()
    found = [union for union in _unions(whole["components"]["schemas"]) if "discriminator" in union]
    assert len(found) == 3
    for union in found:
        told = union["discriminator"]
        assert {choice["$ref"] for choice in union["oneOf"]} == set(told["mapping"].values())
        for word, at in told["mapping"].items():
            schema = whole["components"]["schemas"][at.rpartition("/")[2]]
            assert schema["properties"][told["propertyName"]]["const"] == {"true": True, "false": False}.get(word, word)
            assert told["propertyName"] in schema["required"]


def _unions(schema):
    if isinstance(schema, dict):
        if "oneOf" in schema:
            yield schema
        schema = list(schema.values())
    if isinstance(schema, list):
        for inner in schema:
            yield from _unions(inner)


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_are_of_their_schemas(name):
    contract = Contract(document())
    operation = next(operation for operation in OPERATIONS if operation.name == name)
    described = contract.document["paths"][operation.path][operation.method]
    answer = described["responses"]["200"]["content"]["application/json"]
    contract.fits(answer["example"], answer["schema"], f"answer of {name}")
    if operation.request is not None:
        question = described["requestBody"]["content"]["application/json"]
        contract.fits(question["example"], question["schema"], f"question of {name}")


def test_examples_of_problems_are_problems():
    contract = Contract(document())
    shown = 0
    for response in contract.document["components"]["responses"].values():
        media = response["content"]["application/problem+json"]
        for slug, example in media.get("examples", {}).items():
            contract.fits(example["value"], media["schema"], slug)
            assert example["value"]["type"].endswith(f":{slug}")
            shown += 1
    assert shown >= 7
