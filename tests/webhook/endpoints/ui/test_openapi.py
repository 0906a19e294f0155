"""``/v1/openapi.json``: open to everyone, and so bounded for everyone."""

import gzip
from importlib.resources import files

import pytest

from tests.webhook.endpoints.asking import assert_problem, get
from webhook.endpoints.ui import openapi
from webhook.endpoints.ui.openapi import BURST

PATH = "/v1/openapi.json"
DOCUMENT = (files("webhook") / "openapi.json").read_bytes()


async def test_an_address_is_sent_the_whole_description_only_so_often(launch, monkeypatch):
    monkeypatch.setattr(openapi, "PER_SECOND", 0.001)  # else a slow machine earns more while it asks
    async with launch() as port:
        *answers, refused = [await get(port, PATH) for _ in range(BURST + 1)]
    assert {answer.status for answer in answers} == {200}
    body = assert_problem(refused, "rate-limited", 429)
    assert body["detail"] == "rate limit of 127.0.0.1 exceeded"
    assert int(refused.headers["Retry-After"]) >= 1


async def test_whoever_has_the_description_is_never_held_up(port):
    tag = (await get(port, PATH)).headers["ETag"]
    answers = [await get(port, PATH, If_None_Match=tag) for _ in range(BURST + 10)]
    assert {(answer.status, answer.body) for answer in answers} == {(304, b"")}
    assert (await get(port, PATH)).status == 200


@pytest.mark.parametrize(
    ("accepted", "compressed"),
    [
        pytest.param("gzip, deflate, br", True, id="as-browsers-do"),
        pytest.param("br;q=1.0, GZIP;q=0.8", True, id="with-weights"),
        pytest.param("gzip;q=0", False, id="refused"),
        pytest.param("gzip; q=0.000, br", False, id="refused-at-length"),
        pytest.param("gzip;q=0.001", True, id="hardly-wanted"),
        pytest.param("br", False, id="another"),
        pytest.param("", False, id="nothing"),
    ],
)
async def test_who_takes_gzip_is_sent_a_seventh(port, accepted, compressed):
    answer = await get(port, PATH, Accept_Encoding=accepted)
    assert answer.headers.get("Content-Encoding") == ("gzip" if compressed else None)
    assert answer.headers["Vary"] == "Accept-Encoding"
    assert (gzip.decompress(answer.body) if compressed else answer.body) == DOCUMENT
    assert not compressed or len(answer.body) * 7 < len(DOCUMENT)
    again = await get(port, PATH, Accept_Encoding=accepted, If_None_Match=answer.headers["ETag"])
    assert again.status == 304


async def test_the_two_forms_of_the_description_have_tags_of_their_own(port):
    plain, compressed = [await get(port, PATH, Accept_Encoding=accepted) for accepted in ("identity", "gzip")]
    assert plain.headers["ETag"] != compressed.headers["ETag"]
    assert plain.headers["Cache-Control"] == compressed.headers["Cache-Control"] == "no-cache"
