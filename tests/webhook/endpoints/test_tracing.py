"""Spans of reviews and of calls of schedulers: what they say, and whose trace they continue."""

import json

import pytest
from opentelemetry.trace import SpanKind, StatusCode

from tests.webhook.spans import Kept, is_continued, traceparent
from webhook.endpoints.admission import hooks

CALL = json.dumps({"Pod": {"metadata": {"name": "p", "namespace": "shop", "uid": "u"}}, "NodeNames": ["n"]}).encode()
SECRET = "s" * 48


@pytest.fixture
def secret_file(tmp_path):
    path = tmp_path / "secret"
    path.write_text(SECRET, encoding="ascii")
    return path


@pytest.mark.parametrize(
    ("path", "name"), [("/validate", "admission.validate"), ("/mutate", "admission.mutate")], ids=["validate", "mutate"]
)
async def test_a_review_is_a_span_in_the_trace_of_the_api_server(launch, review_bytes, path, name):
    kept = Kept()
    async with launch(tracing=kept.tracing) as port, port.dial() as connection:
        answer = await connection.post(path, review_bytes("7b1d0d5e"), traceparent=traceparent())
    assert answer.status == 200
    [span] = kept.spans
    assert (span.name, span.kind, span.status.status_code) == (name, SpanKind.SERVER, StatusCode.UNSET)
    assert is_continued(span)
    assert dict(span.attributes) == {
        "harbormaster.uid": "7b1d0d5e",
        "harbormaster.operation": "CREATE",
        "harbormaster.resource": "clusterresourceplacements",
        "harbormaster.decision": "allowed",
        "http.response.status_code": 200,
    }


async def test_a_refusal_says_so_and_is_no_error(launch, review):
    kept = Kept()
    wrong = review()
    wrong["request"]["object"]["spec"]["policy"] = {"placementType": "PickSome"}
    async with launch(tracing=kept.tracing) as port, port.dial() as connection:
        await connection.post("/validate", json.dumps(wrong).encode())
    [span] = kept.spans
    assert (span.attributes["harbormaster.decision"], span.status.status_code) == ("denied", StatusCode.UNSET)
    assert span.parent is None


async def test_an_error_of_ours_is_a_failed_span(launch, review_bytes, monkeypatch):
    def break_down(*_, **__):
        raise RuntimeError("a secret of the engine")

    monkeypatch.setattr(hooks, "answer", break_down)
    kept = Kept()
    async with launch(tracing=kept.tracing) as port, port.dial() as connection:
        assert (await connection.post("/validate", review_bytes())).status == 500
    [span] = kept.spans
    assert span.status.status_code == StatusCode.ERROR
    assert span.events == ()  # what went wrong is in the log, which is ours


async def test_a_stranger_does_not_decide_what_is_traced(launch, review_bytes, secret_file):
    """Whoever reaches the port could fill the collector, or write into the traces of others."""
    kept = Kept(share=0)
    async with launch(tracing=kept.tracing, webhook_secret_file=secret_file) as port, port.dial() as connection:
        await connection.post("/validate", review_bytes(), traceparent=traceparent())
        assert kept.names == []
        await connection.post(f"/hooks/{SECRET}/validate", review_bytes(), traceparent=traceparent())
    assert kept.names == ["admission.validate"]


async def test_a_caller_that_traces_nothing_is_not_traced(launch, review_bytes):
    kept = Kept()
    async with launch(tracing=kept.tracing) as port, port.dial() as connection:
        await connection.post("/validate", review_bytes(), traceparent=traceparent(sampled=False))
        assert kept.names == []
        await connection.post("/validate", review_bytes(), traceparent="00-nonsense")
    assert kept.names == ["admission.validate"]


@pytest.mark.parametrize("verb", ["filter", "prioritize", "preempt", "bind"])
async def test_a_call_of_a_scheduler_is_a_span(launch, verb):
    kept = Kept()
    async with launch(tracing=kept.tracing) as port, port.dial() as connection:
        await connection.post(f"/extender/v1/{verb}", CALL, traceparent=traceparent())
    [span] = kept.spans
    assert span.name == f"extender.{verb}"
    assert is_continued(span)


async def test_callers_without_credentials_make_no_spans_of_schedulers(launch):
    kept = Kept()
    async with launch(tracing=kept.tracing) as port, port.dial(token="") as connection:
        assert (await connection.post("/extender/v1/filter", CALL, traceparent=traceparent())).status == 401
    assert kept.names == []


async def test_reviews_side_by_side_keep_their_attributes_apart(launch, review_bytes):
    kept = Kept()
    async with launch(tracing=kept.tracing) as port, port.dial() as one, port.dial() as other:
        for connection, uid in ((one, "a"), (other, "b")):
            await connection.post("/validate", review_bytes(uid))
    assert [span.attributes["harbormaster.uid"] for span in kept.spans] == ["a", "b"]
    assert len({span.context.trace_id for span in kept.spans}) == 2
