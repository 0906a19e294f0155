"""The extender over HTTPS: what comes before the question is understood, and that nothing whatever breaks it."""

import asyncio
import json
import threading
from io import BytesIO

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from tests.scorer.builders import NOW, cluster_document, modest
from tests.scorer.extender_builders import node, placement, pod
from tests.vector_families.extender import running
from tests.waiting import PATIENCE_SECONDS
from webhook.endpoints.http import bodies
from webhook.endpoints.scheduling import extender
from webhook.endpoints.scheduling.extender import VERBS

pytestmark = pytest.mark.asyncio(loop_scope="module")
CLUSTER = cluster_document("oslo")
PLACEMENT = {"apiVersion": "placement.kubernetes-fleet.io/v1", "kind": "ClusterResourcePlacement", **placement("p")}
FLEET = {
    "now": NOW.isoformat(),
    "memberClusters": [CLUSTER],
    "nodes": [node("n", "oslo"), node("pool", pool="spot")],
    "nodePools": [{"metadata": {"name": "spot"}, "spec": {"weight": 5}}],
    "placements": [PLACEMENT],
}
SOUND = {
    "filter": {"Pod": pod("p"), "NodeNames": ["n"]},
    "prioritize": {"Pod": pod("p"), "NodeNames": ["n"]},
    "preempt": {"Pod": pod("p"), "NodeNameToMetaVictims": {"n": {"Pods": [{"UID": "u"}], "NumPDBViolations": 0}}},
    "bind": {"PodName": "web", "PodNamespace": "shop", "PodUID": "u", "Node": "n"},
}
ANSWERS = {
    "filter": {
        "Nodes": None,
        "NodeNames": ["n"],
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    },
    "prioritize": [{"Host": "n", "Score": 0}],
    "preempt": {"NodeNameToMetaVictims": SOUND["preempt"]["NodeNameToMetaVictims"]},
    "bind": {"Error": "harbormaster: bind is not supported"},
}


@pytest.fixture(autouse=True)
def _patient(monkeypatch):
    """A busy machine takes longer to read megabytes than kube-scheduler waits."""
    monkeypatch.setattr(extender, "BUDGET_SECONDS", 60)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def port():
    """One server for all tests: no question changes anything."""
    async with running(FLEET) as found:
        yield found


async def post(port, verb, body, method="POST", **headers):
    headers = {"Content-Type": "application/json"} | {name.replace("_", "-"): text for name, text in headers.items()}
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with port.session.request(method, port.url(verb), data=BytesIO(data), headers=headers) as answer:
        return answer.status, answer.headers, json.loads(await answer.read() or b"null")


def is_problem(answer, status: int, slug: str) -> None:
    found, headers, document = answer
    assert (found, document["status"], document["type"]) == (status, status, f"urn:harbormaster:problem:{slug}")
    assert headers["Content-Type"] == "application/problem+json"
    assert headers["X-Request-Id"]


@pytest.mark.parametrize("verb", VERBS)
async def test_each_verb_answers(port, verb):
    status, headers, document = await post(port, verb, SOUND[verb])
    assert (status, document) == (200, ANSWERS[verb])
    assert headers["Content-Type"] == "application/json; charset=utf-8"


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
async def test_only_post(port, verb, method):
    answer = await post(port, verb, SOUND[verb], method)
    is_problem(answer, 405, "method-not-allowed")
    assert answer[1]["Allow"] == "POST"


@pytest.mark.parametrize("verb", ["Filter", "score", "filter/", "filter/x", ""])
async def test_other_verbs_are_not_found(port, verb):
    is_problem(await post(port, verb, {}), 404, "not-found")


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({"Content_Type": "text/plain"}, id="text"),
        pytest.param({"Content_Type": "application/json; charset=latin-1"}, id="charset"),
        pytest.param({"Content_Type": "application/yaml"}, id="yaml"),
        pytest.param({"Content_Encoding": "gzip"}, id="compressed"),
    ],
)
async def test_only_plain_json(port, headers):
    is_problem(await post(port, "filter", SOUND["filter"], **headers), 415, "unsupported-media-type")


BROKEN = {
    "empty": b"",
    "null": b"null",
    "list": b"[]",
    "text": b'"x"',
    "truncated": b'{"Pod": {',
    "trailing": b"{} {}",
    "bom": b"\xef\xbb\xbf{}",
    "utf-16": "{}".encode("utf-16"),
    "bad-utf-8": b'{"Pod": "\xff"}',
    "nan": b'{"x": NaN}',
    "too-large-a-number": b'{"x": 1e400}',
    "too-many-digits": b'{"x": ' + b"9" * 5000 + b"}",
    "too-deep": b'{"x": ' + b"[" * 100_000,
    "deep": b'{"x": ' + b"[" * 101 + b"]" * 101 + b"}",
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN)
async def test_what_is_no_json_object_is_malformed(port, verb, body):
    is_problem(await post(port, verb, body), 400, "malformed-request")


@pytest.mark.parametrize(
    ("verb", "body", "detail"),
    [
        pytest.param("filter", {"NodeNames": "n"}, "NodeNames must be a list, not 'n'", id="names-text"),
        pytest.param("prioritize", {"NodeNames": [1]}, "NodeNames[0] must be a string, not 1", id="number-inside"),
        pytest.param("filter", {"Pod": pod(), "Nodes": []}, "Nodes must be an object, not a list", id="nodes-list"),
        pytest.param("prioritize", {}, "Pod must be set", id="prioritize-nothing"),
        pytest.param("prioritize", {"Pod": None, "NodeNames": []}, "Pod must be set", id="prioritize-no-pod"),
        pytest.param("prioritize", {"Pod": {}}, "Nodes or NodeNames must be set", id="prioritize-no-nodes"),
        pytest.param("preempt", {"NodeNameToMetaVictims": {}}, "Pod must be set", id="preempt-no-pod"),
        pytest.param("preempt", {"Pod": {}, "NodeNameToVictims": []}, "must be an object", id="victims-list"),
        pytest.param("filter", {"Pod": "\u202e\x1b[31m"}, r"not '\u202e\x1b[31m'", id="control-characters-are-shown"),
    ],
)
async def test_a_wrong_question_is_malformed_and_the_answer_says_where(port, verb, body, detail):
    answer = await post(port, verb, body)
    is_problem(answer, 400, "malformed-request")
    assert detail in answer[2]["detail"]
    assert answer[2]["detail"].isprintable()


async def test_filter_says_in_band_what_is_missing(port):
    for body in ({}, {"Pod": None, "NodeNames": ["n"]}, {"Pod": pod(), "Nodes": None, "NodeNames": None}):
        status, _, document = await post(port, "filter", body)
        assert status == 200
        assert document["Error"].startswith("extender: ")


async def test_bind_is_refused_whatever_is_asked(port):
    for body in ({}, {"PodName": 5, "Node": []}):
        assert (await post(port, "bind", body))[2] == ANSWERS["bind"]


async def test_before_the_caches_are_filled_nobody_is_told_anything():
    """A 503 to filter would be thrown away; the error ends in the pod's event."""
    async with running(FLEET | {"synced": False}) as port:
        status, _, document = await post(port, "filter", SOUND["filter"])
        assert status == 200
        assert document == ANSWERS["filter"] | {"NodeNames": [], "Error": "harbormaster: caches not synced"}
        for verb in ("prioritize", "preempt"):
            answer = await post(port, verb, SOUND[verb])
            is_problem(answer, 503, "not-ready")
            assert answer[1]["Retry-After"] == "1"
        assert (await post(port, "bind", SOUND["bind"]))[2] == ANSWERS["bind"]


async def test_a_body_has_a_limit_of_its_own():
    names = ["n"] * 400_000
    async with running(FLEET, extender_body_bytes=4_000_000, admission_body_bytes=1000, api_body_bytes=1000) as port:
        status, _, document = await post(port, "filter", {"Pod": pod(), "NodeNames": names})
        assert (status, document["NodeNames"]) == (200, ["n"])
        is_problem(await post(port, "filter", b" " * 4_000_001), 413, "payload-too-large")


async def test_whole_nodes_by_the_megabyte_come_back_as_they_were(port):
    """Read and written beside the event loop; order, spacing inside texts and unknown members survive."""
    images = [{"names": [f"registry/{number}\u2028"], "sizeBytes": number} for number in range(100)]
    items = [node(f"n-{number}", "oslo") | {"status": {"images": images}, "x": None} for number in range(250)]
    body = {"Pod": pod("p"), "Nodes": {"metadata": {}, "items": items}}
    assert len(json.dumps(body)) > bodies.THREAD_BYTES * 4
    status, _, document = await post(port, "filter", body)
    assert status == 200
    assert document["Nodes"] == {"metadata": {}, "items": items}
    assert document["NodeNames"] is None
    scores = (await post(port, "prioritize", body))[2]
    assert [entry["Host"] for entry in scores] == [f"n-{number}" for number in range(250)]


@pytest.mark.parametrize(
    ("verb", "candidates"),
    [
        ("filter", lambda names: {"NodeNames": names}),
        ("prioritize", lambda names: {"NodeNames": names}),
        ("filter", lambda names: {"Nodes": {"items": [{"metadata": {"name": name}} for name in names]}}),
        ("preempt", lambda names: {"NodeNameToMetaVictims": {name: {} for name in names}}),
    ],
    ids=["filter names", "prioritize names", "filter nodes", "preempt"],
)
async def test_more_nodes_than_any_cluster_has_are_not_judged(port, verb, candidates):
    """All are judged at one go: 800,000 victims held everybody up for 1.8 s."""
    names = [f"n-{number}" for number in range(extender.MOST_CANDIDATES + 1)]
    is_problem(await post(port, verb, {"Pod": pod()} | candidates(names)), 413, "payload-too-large")
    assert (await post(port, verb, SOUND[verb]))[0] == 200


async def test_a_body_takes_its_memory_until_it_is_answered(monkeypatch):
    """Else calls that wait for a thread with 32 MiB each would be counted nowhere."""
    begun, go_on, read = threading.Event(), threading.Event(), extender.parse_object

    def parse_object(body):
        if not begun.is_set():
            begun.set()
            go_on.wait(PATIENCE_SECONDS)
        return read(body)

    monkeypatch.setattr(extender, "parse_object", parse_object)
    body = json.dumps(SOUND["filter"]).encode() + b" " * 600_000
    async with running(FLEET, bodies_bytes=1_000_000) as port, asyncio.TaskGroup() as tasks:
        first = tasks.create_task(post(port, "filter", body))
        try:
            await asyncio.to_thread(begun.wait, PATIENCE_SECONDS)
            is_problem(await post(port, "filter", body), 503, "not-ready")
        finally:
            go_on.set()
        assert (await first)[0] == 200
        assert (await post(port, "filter", body))[0] == 200


async def test_a_name_that_utf_8_cannot_carry_comes_back_escaped(port):
    body = json.dumps({"Pod": pod(), "NodeNames": ["\ud800"]}).encode()
    assert (await post(port, "filter", body))[2]["NodeNames"] == ["\ud800"]


@pytest.mark.parametrize("size", [1, bodies.THREAD_BYTES])
async def test_an_answer_that_takes_too_long_is_none(port, monkeypatch, size):
    monkeypatch.setattr(extender, "BUDGET_SECONDS", -1)
    answer = await post(port, "filter", json.dumps(SOUND["filter"]).encode() + b" " * size)
    is_problem(answer, 503, "deadline-exceeded")
    assert answer[1]["Retry-After"] == "1"


async def test_without_credentials_nobody_gets_an_answer():
    async with running(FLEET, extender_allow_anonymous=False) as port:
        for verb in VERBS:
            is_problem(await post(port, verb, SOUND[verb]), 401, "unauthenticated")


async def test_calls_are_counted():
    async with running(FLEET) as port:
        registry = port.server.metrics.registry

        def sample(name, **labels):
            return registry.get_sample_value(f"harbormaster_extender_{name}", labels)

        for verb in VERBS:
            assert [sample("requests_total", verb=verb, result=word) for word in extender.RESULTS] == [0, 0, 0]
            assert sample("duration_seconds_count", verb=verb) == sample("nodes_count", verb=verb) == 0
        await post(port, "filter", {"Pod": pod(), "NodeNames": ["a", "b", "a"]})
        await post(port, "filter", {})
        await post(port, "filter", {"NodeNames": 5})
        await post(port, "preempt", SOUND["preempt"])
        await post(port, "bind", {})
        assert [sample("requests_total", verb="filter", result=word) for word in extender.RESULTS] == [1, 1, 1]
        assert sample("requests_total", verb="preempt", result="answered") == 1
        assert sample("requests_total", verb="bind", result="error") == 1
        assert (sample("nodes_count", verb="filter"), sample("nodes_sum", verb="filter")) == (2, 2)
        assert sample("duration_seconds_count", verb="filter") == 3
        malformed = {"surface": "extender", "reason": "malformed"}
        assert registry.get_sample_value("harbormaster_http_rejected_total", malformed) == 1


@pytest.mark.parametrize(
    ("settings", "fleet", "method", "body", "headers", "code"),
    [
        pytest.param(
            {"extender_allow_anonymous": False}, FLEET, "POST", SOUND["prioritize"], {}, 401, id="credentials"
        ),
        pytest.param({}, FLEET, "GET", SOUND["prioritize"], {}, 405, id="method"),
        pytest.param({}, FLEET, "POST", SOUND["prioritize"], {"Content_Type": "text/plain"}, 415, id="media-type"),
        pytest.param({}, FLEET, "POST", {"NodeNames": 5}, {}, 400, id="malformed"),
        pytest.param({"extender_body_bytes": 10}, FLEET, "POST", SOUND["prioritize"], {}, 413, id="size"),
        pytest.param({}, FLEET | {"synced": False}, "POST", SOUND["prioritize"], {}, 503, id="not-synced"),
    ],
)
async def test_each_refusal_is_counted_by_its_status(settings, fleet, method, body, headers, code):
    async with running(fleet, **settings) as port:
        registry = port.server.metrics.registry

        def samples(name):
            families = (family for family in registry.collect() if family.name == "harbormaster_extender_" + name)
            values = (each for family in families for each in family.samples if not each.name.endswith("_created"))
            return {each.labels["code"]: each.value for each in values}

        assert set(samples("refusals").values()) == set(samples("refusal_timestamp_seconds").values()) == {0}
        assert (await post(port, "filter", SOUND["filter"], "POST"))[0] in {200, code}
        before = samples("refusals")[str(code)]
        assert (await post(port, "prioritize", body, method, **headers))[0] == code
        assert samples("refusals")[str(code)] == before + 1
        assert {each for each, count in samples("refusals").items() if count} == {str(code)}
        assert {each for each, time in samples("refusal_timestamp_seconds").items() if time} == {str(code)}


SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5)
)
NAMES = st.sampled_from(["n", "pool", "ghost", ""])
JSON = st.recursive(
    SCALARS | NAMES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
)


def shaped(*names: str, values=JSON):
    """An object with some of the members that somebody looks at, each of any type."""
    return st.fixed_dictionaries({}, optional=dict.fromkeys(names, values))


METADATA = shaped("name", "namespace", "labels", "annotations", "deletionTimestamp", "uid") | st.just(
    pod("p", mode="Decisions")["metadata"]
)
TOLERATIONS = st.lists(JSON | shaped("key", "operator", "value", "effect", values=st.text(max_size=3)), max_size=3)
PODS = JSON | st.fixed_dictionaries(
    {}, optional={"metadata": METADATA | JSON, "spec": st.fixed_dictionaries({}, optional={"tolerations": TOLERATIONS})}
)
ITEMS = st.fixed_dictionaries({}, optional={"metadata": METADATA | JSON, "spec": shaped("taints") | JSON})
NODES = JSON | st.fixed_dictionaries({}, optional={"items": st.lists(ITEMS | JSON, max_size=3) | JSON})
VICTIM = st.fixed_dictionaries(
    {}, optional={"Pods": st.lists(PODS | shaped("UID"), max_size=2), "NumPDBViolations": JSON}
)
VICTIMS = JSON | st.dictionaries(NAMES, VICTIM | JSON, max_size=3)
MEMBERS = {
    "Pod": PODS,
    "Nodes": NODES,
    "NodeNames": st.lists(NAMES, max_size=4) | JSON,
    "NodeNameToVictims": VICTIMS,
    "NodeNameToMetaVictims": VICTIMS,
    "nodenames": JSON,
}
BODIES = JSON | st.fixed_dictionaries({}, optional=MEMBERS)


@modest(250)
@given(body=BODIES, verb=st.sampled_from(VERBS))
async def test_no_json_whatever_is_our_fault(port, body, verb):
    """Any body gets an answer of the right shape, or is refused as malformed; never a 500."""
    status, _, document = await post(port, verb, body)
    assert status in {200, 400}
    if status == 400:
        assert document["detail"]
    elif verb == "filter":
        assert (document["Nodes"] is None) != (document["NodeNames"] is None)
        assert isinstance(document["FailedNodes"], dict)
        assert isinstance(document["FailedAndUnresolvableNodes"], dict)
        assert isinstance(document["Error"], str)
    elif verb == "prioritize":
        assert all(type(entry["Score"]) is int and 0 <= entry["Score"] <= 10 for entry in document)
    elif verb == "preempt":
        assert all(found["Pods"] for found in document["NodeNameToMetaVictims"].values())
    else:
        assert document == ANSWERS["bind"]
