"""A real server answers the questions of the examples as the document says, and serves that document.

mypy checks the functions that build answers. It cannot check what they take over from objects of users.
"""

import re

import pytest

from tests.webhook.description.conftest import COMMITTED
from tests.webhook.description.mistakes import MISTAKES
from tests.webhook.description.questions import EXAMPLES

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize("name", EXAMPLES)
async def test_an_example_is_answered_as_described(caller, contract, name):
    method, path, body = EXAMPLES[name]
    answer = await caller.ask(method, path, body)
    assert answer.status == 200, answer.body
    contract.check(method, path, answer)


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.slug)
async def test_a_mistake_is_answered_as_described(caller, contract, mistake):
    answer = await mistake.make(caller)
    assert answer.json["type"] == f"urn:harbormaster:problem:{mistake.slug}"
    assert answer.json["instance"] == f"urn:uuid:{answer.headers['X-Request-Id']}"
    if mistake.slug == "method-not-allowed":  # no operation can end in it
        contract.fits(answer.json, {"$ref": "#/components/schemas/ProblemDetails"}, mistake.slug)
    else:
        contract.check(mistake.method, mistake.path, answer)


async def test_the_description_is_the_committed_file(caller, contract):
    answer = await caller.anonymous().ask("GET", "/v1/openapi.json")
    assert (answer.status, answer.body) == (200, COMMITTED.read_bytes())
    contract.check("GET", "/v1/openapi.json", answer)


async def test_every_method_is_described(caller, contract):
    """Each path answers to the methods it is described with, and names them to a caller who tries another."""
    for path, methods in contract.document["paths"].items():
        answer = await caller.ask("PATCH", re.sub(r"{\w+}", "x", path))
        assert answer.status == 405, path
        allowed = {method.strip() for method in answer.headers["Allow"].split(",")}
        assert allowed - {"HEAD"} == {method.upper() for method in methods}, path
