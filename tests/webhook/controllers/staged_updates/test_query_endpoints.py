"""Questions to query endpoints, over real connections: whatever comes back, at most one number is made of it."""

import asyncio
import gzip
import json
import ssl
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from aiohttp import web

from certs.authority import Authority
from scorer.staged_update.approval.analysis import QueryCheck, ThresholdComparison
from scorer.staged_update.approval.analysis_evaluation import NotSeen, Number
from tests.virtual_time import loop_now
from tests.webhook.controllers.query_server import query_server
from webhook.controllers.staged_updates.query_endpoints import LARGEST_ANSWER_BYTES, QueryEndpoints
from webhook.runtime.clock import utc_now
from webhook.settings.analysis import AnalysisOptions


class OwnTls(NamedTuple):
    """How an endpoint shows itself, and the file of the authority that vouches for it."""

    context: ssl.SSLContext
    authority: Path


@pytest.fixture
def own_tls(tmp_path):
    authority = Authority.new(utc_now())
    leaf = authority.issue(("localhost",), ("127.0.0.1",), utc_now())
    pair = tmp_path / "tls.crt", tmp_path / "tls.key"
    for path, content in zip(pair, (leaf.chain_pem, leaf.key_pem), strict=True):
        path.write_bytes(content)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*pair)
    (tmp_path / "ca.crt").write_bytes(authority.pem)
    return OwnTls(context, tmp_path / "ca.crt")


def check(expression="errors", endpoint="main"):
    return QueryCheck(endpoint, expression, ThresholdComparison.BELOW, 5.0, timedelta(), timedelta(seconds=30))


def endpoints(url, **options):
    return QueryEndpoints(AnalysisOptions(endpoints={"main": url}, **options), loop_now)


async def test_an_endpoint_is_asked_for_one_number_as_it_is_written():
    async with query_server() as server:
        server.value = "0.25"
        expression = 'sum(rate(errors{job="web"}[5m])) / 2 & "#?+ ü"'
        assert await endpoints(server.url).query(check(expression), "") == Number(0.25)
        assert server.asked == [expression]


async def test_only_endpoints_of_the_settings_are_asked():
    async with query_server() as server:
        seen = await endpoints(server.url).query(check(endpoint="other"), "")
        assert (seen.reason, server.asked) == ("EndpointUnknown", [])


@pytest.mark.parametrize(
    ("namespaces", "allowed"),
    [
        pytest.param({}, False, id="by default"),
        pytest.param({"main": frozenset({"dock"})}, False, id="another namespace"),
        pytest.param({"other": frozenset({"*"})}, False, id="another endpoint"),
        pytest.param({"main": frozenset({"dock", "shop"})}, True, id="named"),
        pytest.param({"main": frozenset({"*"})}, True, id="every namespace"),
    ],
)
async def test_a_run_in_a_namespace_asks_only_what_is_open_to_that_namespace(namespaces, allowed):
    async with query_server() as server:
        server.value = "1"
        asking = endpoints(server.url, namespaces=namespaces)
        seen = await asking.query(check(), "shop")
        assert (seen == Number(1)) is allowed
        assert allowed or (seen.reason, server.asked) == ("EndpointNotAllowed", [])
        assert await asking.query(check(), "") == Number(1)


def huge():
    return web.Response(body=b" " * (LARGEST_ANSWER_BYTES + 1))


def endless():
    async def write():
        while True:
            yield b" " * 4096

    return web.Response(body=write())


def zipped():
    answer = {"status": "success", "data": {"resultType": "scalar", "result": [loop_now().timestamp(), "1"]}}
    return web.Response(body=gzip.compress(json.dumps(answer).encode()), headers={"Content-Encoding": "gzip"})


def elsewhere():
    raise web.HTTPFound("/elsewhere")


def refused():
    return web.json_response({"status": "error", "errorType": "bad_data", "error": "parse error"}, status=400)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        pytest.param(huge, "AnswerTooLarge", id="huge"),
        pytest.param(endless, "AnswerTooLarge", id="endless"),
        pytest.param(zipped, "AnswerUnreadable", id="compressed-though-not-asked-for"),
        pytest.param(elsewhere, "Redirected", id="redirected"),
        pytest.param(refused, "QueryFailed", id="refused"),
        pytest.param(lambda: web.Response(text="<html>"), "AnswerUnreadable", id="a-page"),
        pytest.param(lambda: web.Response(text="[" * 5000), "AnswerUnreadable", id="deep"),
        pytest.param(lambda: web.Response(text="[]"), "AnswerUnreadable", id="a-list"),
        pytest.param(lambda: web.Response(body=b"\xff\xfe"), "AnswerUnreadable", id="no-text"),
        pytest.param(lambda: web.json_response({"status": "success"}, status=503), "AnswerUnreadable", id="down"),
    ],
)
async def test_an_answer_that_is_none_is_told_apart(answer, reason):
    async with query_server() as server:
        server.answer = answer
        seen = await endpoints(server.url).query(check(), "")
        assert isinstance(seen, NotSeen)
        assert (seen.reason, seen.failed, server.elsewhere) == (reason, True, 0)


async def test_nobody_waits_for_an_endpoint_that_does_not_answer():
    async with query_server() as server:

        async def never():
            await asyncio.Event().wait()

        server.answer = never
        seen = await endpoints(server.url, seconds=0.2).query(check(), "")
        assert seen.reason == "Timeout"


async def test_an_endpoint_that_is_gone_is_said_to_be_so_without_its_address():
    async with query_server() as server:
        url = server.url
    seen = await endpoints(url).query(check(), "")
    assert seen.reason == "Unreachable"
    assert "127.0.0.1" not in seen.message


async def test_no_token_is_sent_without_tls(tmp_path):
    token = tmp_path / "token"
    token.write_text("secret\n")
    async with query_server() as server:
        await endpoints(server.url, token_file=token).query(check(), "")
        assert "Authorization" not in server.headers[0]


async def test_over_tls_the_token_goes_to_an_endpoint_of_the_named_authority(tmp_path, own_tls):
    token = tmp_path / "token"
    token.write_text("first\n")
    async with query_server(ssl=own_tls.context) as server:
        asking = endpoints(server.url, ca=own_tls.authority, token_file=token)
        assert await asking.query(check(), "") == Number(0)
        token.write_text("second\n")
        await asking.query(check(), "")
        assert [each["Authorization"] for each in server.headers] == ["Bearer first", "Bearer second"]


async def test_an_endpoint_of_another_authority_learns_nothing(tmp_path, own_tls):
    token = tmp_path / "token"
    token.write_text("secret\n")
    async with query_server(ssl=own_tls.context) as server:
        seen = await endpoints(server.url, token_file=token).query(check(), "")
        assert (seen.reason, server.headers) == ("Unreachable", [])


async def test_a_file_that_cannot_be_read_is_told_and_ends_nothing(tmp_path, own_tls):
    async with query_server(ssl=own_tls.context) as server:
        seen = await endpoints(server.url, ca=own_tls.authority, token_file=tmp_path / "none").query(check(), "")
        assert (seen.reason, server.headers) == ("Unreachable", [])
