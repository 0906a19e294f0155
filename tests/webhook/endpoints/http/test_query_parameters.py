"""Lists in pages and in parts, and what an unchanged answer costs."""

import gzip
import json

import pytest

from tests.webhook.endpoints.asking import assert_problem, get

NAMES = ["bravelion", "jumpingcat", "oslo", "smartfish", "zeebrugge"]


async def pages(port, path):
    """Return the names on every page."""
    found, token = [], ""
    while True:
        answer = (await get(port, f"{path}&continue={token}")).json
        found.append([item.get("name") or item["ref"] for item in answer["items"]])
        token = answer["continue"]
        if not token:
            return found


async def test_pages_follow_one_another(port):
    assert await pages(port, "/v1/clusters?limit=2") == [NAMES[:2], NAMES[2:4], NAMES[4:]]
    assert await pages(port, "/v1/placements?limit=1") == [["crp/payments"], ["rp/shop/cart"]]


async def test_a_page_goes_on_where_the_last_one_ended_whatever_has_gone(port):
    token = (await get(port, "/v1/clusters?limit=2")).json["continue"]
    port.harbour.scores.pop("jumpingcat")
    answer = (await get(port, f"/v1/clusters?limit=9&continue={token}")).json
    assert [item["name"] for item in answer["items"]] == NAMES[2:]


@pytest.mark.parametrize(
    ("path", "found"),
    [
        pytest.param("/v1/clusters?name=oslo&name=nobody&name=bravelion", ["bravelion", "oslo"], id="clusters"),
        pytest.param("/v1/placements?ref=rp/shop/cart&ref=crp/gone", ["rp/shop/cart"], id="placements"),
    ],
)
async def test_only_what_is_named_is_answered(port, path, found):
    answer = (await get(port, path)).json
    assert [item.get("name") or item["ref"] for item in answer["items"]] == found
    assert answer["continue"] == ""


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("limit=0", "/limit"),
        ("limit=501", "/limit"),
        ("limit=", "/limit"),
        ("limit=%D9%A1", "/limit"),
        ("limit=1&limit=2", "/limit"),
        ("continue=%C3%A9", "/continue"),
        ("continue=_w", "/continue"),
        ("nmae=oslo", "/nmae"),
        ("name=oslo&limit=1", "/name"),
        ("&".join(f"name=n{number}" for number in range(201)), "/name"),
    ],
)
async def test_a_mistake_in_the_query_is_named(port, query, pointer):
    answer = await get(port, f"/v1/clusters?{query}")
    assert_problem(answer, "validation-failed", 422)
    assert [error["pointer"] for error in answer.json["errors"]] == [pointer]


@pytest.mark.parametrize("path", ["/v1/clusters", "/v1/placements", "/v1/placements/crp/payments"])
async def test_an_answer_holds_until_what_it_says_changes(port, path):
    """The fleet moves on with every heartbeat; what has not changed is not sent again."""
    async with port.dial() as connection:
        first = await connection.get(path)
        port.harbour.revision += 1
        assert (await connection.get(path, If_None_Match=first.headers["ETag"])).status == 304
    if path == "/v1/clusters":
        port.harbour.scores.pop("jumpingcat")
        async with port.dial() as connection:
            assert (await connection.get(path, If_None_Match=first.headers["ETag"])).status == 200


@pytest.mark.parametrize(
    ("coding", "packed"),
    [("gzip, deflate, br", True), ("gzip;q=0", False), ("br", False), ("identity", False), ("GZIP ; q=0.5", True)],
)
async def test_a_large_answer_is_compressed_for_those_who_take_it(port, coding, packed):
    port.harbour.scores = {f"member-{number:04}": 1 for number in range(500)}
    async with port.dial() as connection:
        plain = await connection.get("/v1/clusters")
        answer = await connection.get("/v1/clusters", Accept_Encoding=coding)
        assert (answer.headers.get("Content-Encoding") == "gzip") is packed
        assert answer.headers["Vary"] == "Accept-Encoding"
        text = gzip.decompress(answer.body) if packed else answer.body
        assert json.loads(text) == plain.json
        assert (answer.headers["ETag"] == plain.headers["ETag"]) is not packed
        again = await connection.get("/v1/clusters", Accept_Encoding=coding, If_None_Match=answer.headers["ETag"])
        assert (again.status, again.body) == (304, b"")
