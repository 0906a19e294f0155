"""``/v1``: questions, lists, strict bodies, problems, entity tags, paging."""

import pytest

from tests.webhook.endpoints.asking import PAYMENTS, ask, assert_problem, get
from tests.webhook.endpoints.conftest import head

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def port(shared_port):
    """The server of all tests here but those that count, or need other settings."""
    shared_port.renew()
    return shared_port


IDENTITY = {"identity": {"kind": "User", "name": "agent"}}


async def test_clusters_come_ranked_then_rejected_by_name(port):
    answer = await ask(port, "/v1/score", {"placement": PAYMENTS})
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "application/json; charset=utf-8"
    body = answer.json
    assert {key: body[key] for key in ("fleetRevision", "policyHash", "evaluatedAt", "continue")} == {
        "fleetRevision": "12",
        "policyHash": "sha256:00",
        "evaluatedAt": "2026-03-01T10:00:00Z",
        "continue": "",
    }
    assert body["items"][0] == {
        "cluster": "bravelion",
        "eligible": True,
        "selected": True,
        "rank": 1,
        "score": {"topologySpread": -1, "affinity": 20, "total": 19, "normalized": 100},
    }
    assert [(item["cluster"], item["score"]["normalized"]) for item in body["items"][1:3]] == [
        ("jumpingcat", 40),
        ("smartfish", 0),
    ]
    assert body["items"][3:] == [
        {
            "cluster": name,
            "eligible": False,
            "rejection": {
                "plugin": "ClusterAffinity",
                "code": "RequirementNotMet",
                "message": "no node",
                "resolvable": False,
            },
        }
        for name in ("oslo", "zeebrugge")
    ]


@pytest.mark.parametrize(
    ("scores", "normalized"),
    [
        pytest.param([7, 7], [100, 100], id="equal-and-positive"),
        pytest.param([0, 0], [0, 0], id="all-zero"),
        pytest.param([-4, -4], [0, 0], id="equal-and-negative"),
        pytest.param([10, 3, -10], [100, 65, 0], id="mixed"),
        pytest.param([8, 1], [100, 13], id="half-rounds-up"),
    ],
)
async def test_scores_are_stretched_over_all_eligible_candidates(port, scores, normalized):
    port.harbour.scores = {f"c{index}": score for index, score in enumerate(scores)}
    items = (await ask(port, "/v1/score", {"placement": PAYMENTS, "limit": len(scores)})).json["items"]
    assert [item["score"]["normalized"] for item in items] == normalized


async def test_the_same_question_gets_the_same_bytes_under_the_same_tag(port):
    first, second = [await ask(port, "/v1/score", {"placement": PAYMENTS}) for _ in range(2)]
    assert first.body == second.body
    assert first.headers["ETag"] == second.headers["ETag"]
    assert first.headers["ETag"].startswith('"12-')
    port.harbour.revision += 1
    third = await ask(port, "/v1/score", {"placement": PAYMENTS})
    assert third.headers["ETag"].startswith('"13-')


async def test_pages_follow_one_another_without_gap(port):
    seen, token = [], ""
    for _ in range(5):
        body = (await ask(port, "/v1/score", {"placement": PAYMENTS, "limit": 2, "continue": token})).json
        assert len(body["items"]) <= 2
        seen += [item["cluster"] for item in body["items"]]
        token = body["continue"]
        if not token:
            break
    assert seen == ["bravelion", "jumpingcat", "smartfish", "oslo", "zeebrugge"]


async def test_a_page_keeps_the_scale_of_the_whole_list(port):
    whole = (await ask(port, "/v1/score", {"placement": PAYMENTS})).json["items"]
    first = (await ask(port, "/v1/score", {"placement": PAYMENTS, "limit": 1})).json
    second = (await ask(port, "/v1/score", {"placement": PAYMENTS, "limit": 1, "continue": first["continue"]})).json
    assert first["items"] + second["items"] == whole[:2]


@pytest.mark.parametrize("how", ["moved-on", "other-query", "other-limit", "forged", "no-token", "not-ascii"])
async def test_a_token_of_something_else_has_expired(port, how):
    question = {"placement": PAYMENTS, "limit": 2}
    token = (await ask(port, "/v1/score", question)).json["continue"]
    if how == "moved-on":
        port.harbour.revision += 1
    elif how == "other-query":
        question = question | {"candidates": {"names": ["bravelion"]}}
    elif how == "other-limit":
        question = question | {"limit": 3}
    elif how == "forged":
        token = ("B" if token[0] == "A" else "A") + token[1:]
    else:
        token = {"no-token": "x", "not-ascii": "é"}[how]
    assert_problem(await ask(port, "/v1/score", question | {"continue": token}), "continue-expired", 410)


async def test_only_the_candidates_are_ranked(port):
    body = (await ask(port, "/v1/score", {"placement": PAYMENTS, "candidates": {"names": ["smartfish", "oslo"]}})).json
    assert [item["cluster"] for item in body["items"]] == ["smartfish", "oslo"]


async def test_an_explanation_comes_along_when_asked_for(port):
    body = (await ask(port, "/v1/score", {"placement": PAYMENTS, "limit": 2, "explain": True})).json
    assert [item["explanation"]["verdict"] for item in body["items"]] == ["Picked", "ScoreTooLow"]


async def test_the_filter_tells_eligible_from_rejected(port):
    body = (await ask(port, "/v1/filter", {"placement": PAYMENTS})).json
    assert body["eligible"] == ["bravelion", "jumpingcat", "smartfish"]
    assert body["rejected"][0] == {
        "cluster": "oslo",
        "plugin": "ClusterAffinity",
        "code": "RequirementNotMet",
        "message": "no node",
        "resolvable": False,
    }


async def test_the_explanation_of_some_clusters(port):
    body = (await ask(port, "/v1/explain", {"placement": PAYMENTS, "candidates": {"names": ["smartfish"]}})).json
    assert body["items"] == [{"cluster": "smartfish", "verdict": "ScoreTooLow"}]


async def test_a_policy_and_clusters_of_the_callers_own_reach_the_engine(port):
    mine = {
        "metadata": {"name": "mine", "labels": {"env": "prod"}, "managedFields": []},
        "spec": IDENTITY,
        "status": None,
    }
    policy = {"placementType": "PickN", "numberOfClusters": 2, "tolerations": [{"key": "a", "operator": "Exists"}]}
    answer = await ask(port, "/v1/filter", {"placement": {"inline": policy}, "candidates": {"inline": [mine]}})
    assert answer.status == 200
    (question,) = port.harbour.questions
    assert (question.placement.number_of_clusters, question.placement.tolerations[0].key) == (2, "a")
    assert [(cluster.metadata.name, cluster.metadata.labels) for cluster in question.clusters] == [
        ("mine", {"env": "prod"})
    ]
    assert (question.names, question.selector) == (None, None)


async def test_a_label_selector_reaches_the_engine(port):
    selector = {"matchLabels": {"env": "prod"}}
    await ask(port, "/v1/filter", {"placement": PAYMENTS, "candidates": {"labelSelector": selector}})
    (question,) = port.harbour.questions
    assert question.selector.match_labels == {"env": "prod"}
    assert str(question.placement) == "crp/payments"


def labels(count):
    return {f"k{number}": "" for number in range(count)}


@pytest.mark.parametrize(
    ("body", "pointer", "code"),
    [
        pytest.param({}, "/placement", "required", id="no-placement"),
        pytest.param({"placement": PAYMENTS, "lmit": 3}, "/lmit", "unknown", id="unknown-member"),
        pytest.param({"placement": {**PAYMENTS, "x": 1}}, "/placement/x", "unknown", id="unknown-member-below"),
        pytest.param({"placement": PAYMENTS, "limit": "3"}, "/limit", "type", id="text-for-a-number"),
        pytest.param({"placement": PAYMENTS, "limit": 1.0}, "/limit", "type", id="float-for-an-integer"),
        pytest.param({"placement": PAYMENTS, "limit": True}, "/limit", "type", id="bool-for-an-integer"),
        pytest.param({"placement": PAYMENTS, "limit": 0}, "/limit", "invalid", id="limit-0"),
        pytest.param({"placement": PAYMENTS, "limit": 501}, "/limit", "invalid", id="limit-501"),
        pytest.param({"placement": PAYMENTS, "explain": 1}, "/explain", "type", id="number-for-a-bool"),
        pytest.param({"placement": {}}, "/placement", "invalid", id="neither-ref-nor-inline"),
        pytest.param({"placement": {**PAYMENTS, "inline": {}}}, "/placement", "invalid", id="ref-and-inline"),
        pytest.param({"placement": {"ref": {"kind": "Pod", "name": "a"}}}, "/placement/ref/kind", "invalid", id="kind"),
        pytest.param(
            {"placement": {"ref": {"kind": "ResourcePlacement", "name": "a"}}}, "/placement/ref", "invalid", id="no-ns"
        ),
        pytest.param(
            {"placement": {"inline": {"placementType": "PickN", "numberOfCluster": 1}}},
            "/placement/inline/numberOfCluster",
            "unknown",
            id="typo-in-a-policy",
        ),
        pytest.param(
            {"placement": {"inline": {"numberOfClusters": "2"}}},
            "/placement/inline/numberOfClusters",
            "type",
            id="policy",
        ),
        pytest.param(
            {"placement": PAYMENTS, "candidates": {"names": ["a"], "labelSelector": {}}},
            "/candidates",
            "invalid",
            id="two-kinds-of-candidates",
        ),
        pytest.param({"placement": PAYMENTS, "candidates": {}}, "/candidates", "invalid", id="no-candidates"),
        pytest.param(
            {"placement": PAYMENTS, "candidates": {"names": [f"c{n}" for n in range(1001)]}},
            "/candidates/names",
            "too-many",
            id="1001-names",
        ),
        pytest.param(
            {"placement": PAYMENTS, "candidates": {"inline": [{}] * 501}},
            "/candidates/inline",
            "too-many",
            id="501-clusters",
        ),
        pytest.param(
            {
                "placement": PAYMENTS,
                "candidates": {"inline": [{"metadata": {"name": "a", "labels": {"x": 1}}, "spec": IDENTITY}]},
            },
            "/candidates/inline/0/metadata/labels/x",
            "invalid",
            id="inline-cluster-of-wrong-shape",
        ),
        pytest.param(
            {"placement": PAYMENTS, "candidates": {"inline": [{"metadata": {}, "spec": IDENTITY}]}},
            "/candidates/inline/0/metadata/name",
            "required",
            id="inline-cluster-without-name",
        ),
        pytest.param(
            {"placement": PAYMENTS, "explain": True, "limit": 51}, "/limit", "invalid", id="too-many-to-explain"
        ),
        pytest.param(
            {"limit": 51, "placement": PAYMENTS, "explain": True}, "/limit", "invalid", id="too-many-in-any-order"
        ),
        pytest.param(
            {
                "placement": PAYMENTS,
                "candidates": {"labelSelector": {"matchExpressions": [{"key": "env", "operator": "in"}]}},
            },
            "/candidates/labelSelector",
            "invalid",
            id="operator-that-is-none",
        ),
        pytest.param(
            {
                "placement": PAYMENTS,
                "candidates": {"labelSelector": {"matchLabels": labels(501)}},
            },
            "/candidates/labelSelector",
            "invalid",
            id="501-requirements",
        ),
    ],
)
async def test_every_mistake_is_named_with_its_place(port, body, pointer, code):
    problem = assert_problem(await ask(port, "/v1/score", body), "validation-failed", 422)
    assert [(error["pointer"], error["code"]) for error in problem["errors"]] == [(pointer, code)]


async def test_a_list_that_is_too_long_is_told_in_numbers(port):
    body = {"placement": PAYMENTS, "candidates": {"inline": [{}] * 501}}
    problem = assert_problem(await ask(port, "/v1/score", body), "validation-failed", 422)
    assert problem["detail"] == "/candidates/inline: 501 items: must have at most 500"


@pytest.mark.parametrize(
    ("body", "count"),
    [
        pytest.param({f"member-{n}": 1 for n in range(30_000)}, 30_001, id="unknown-members"),
        pytest.param({"placement": {"inline": {"clusterNames": [1] * 200_000}}}, 200_000, id="items-of-a-wrong-type"),
    ],
)
async def test_mistakes_beyond_counting_are_only_counted(port, body, count):
    """To write them all down would hold up everybody else for seconds."""
    problem = assert_problem(await ask(port, "/v1/score", body), "validation-failed", 422)
    assert problem["detail"] == f"the body has {count} errors. They are listed if there are at most 1000"
    assert [mistake["code"] for mistake in problem["errors"]] == ["too-many"]


async def test_all_mistakes_are_named_at_once(port):
    body = {"placement": {"ref": {"name": 7}}, "limit": 0, "surplus": 1}
    problem = assert_problem(await ask(port, "/v1/score", body), "validation-failed", 422)
    assert {error["pointer"] for error in problem["errors"]} == {
        "/placement/ref/kind",
        "/placement/ref/name",
        "/limit",
        "/surplus",
    }


async def test_more_than_50_clusters_are_not_explained_at_once(port):
    body = {"placement": PAYMENTS, "candidates": {"names": [f"c{n}" for n in range(51)]}}
    problem = assert_problem(await ask(port, "/v1/explain", body), "validation-failed", 422)
    assert "51" in problem["detail"]


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff", b'{"limit":NaN}', b"[" * 100_000, b"{}{}", b"\xef\xbb\xbf{}", b'{"a":1e400}', b"[]", b'"x"'],
)
async def test_what_is_no_json_is_malformed(port, body):
    assert_problem(await ask(port, "/v1/score", body), "malformed-request", 400)


async def test_unknown_things_are_not_found(port):
    unknown = {"ref": {"kind": "ClusterResourcePlacement", "name": "nothing"}}
    assert "nothing" in assert_problem(await ask(port, "/v1/score", {"placement": unknown}), "not-found", 404)["detail"]
    body = {"placement": PAYMENTS, "candidates": {"names": ["atlantis"]}}
    assert "atlantis" in assert_problem(await ask(port, "/v1/explain", body), "not-found", 404)["detail"]
    assert_problem(await get(port, "/v1/clusters/atlantis"), "not-found", 404)
    assert_problem(await get(port, "/v1/placements/crp/nothing"), "not-found", 404)
    assert_problem(await get(port, "/v1/placements/payments"), "not-found", 404)
    assert_problem(await get(port, "/v1/nowhere"), "not-found", 404)
    assert_problem(await get(port, "/nowhere"), "not-found", 404)


async def test_a_policy_that_cannot_be_used_is_the_callers_mistake(port):
    unusable = {"ref": {"kind": "ClusterResourcePlacement", "name": "unusable"}}
    problem = assert_problem(await ask(port, "/v1/score", {"placement": unusable}), "validation-failed", 422)
    assert problem["errors"][0]["pointer"] == "/placement/ref"


async def test_our_own_error_tells_nothing_but_an_id(port):
    broken = {"ref": {"kind": "ClusterResourcePlacement", "name": "broken"}}
    answer = await ask(port, "/v1/score", {"placement": broken})
    problem = assert_problem(answer, "internal", 500)
    assert answer.headers["X-Request-Id"] in problem["detail"]
    assert b"secret" not in answer.body


@pytest.mark.parametrize(
    ("path", "method", "allowed"),
    [
        ("/v1/score", "GET", "POST"),
        ("/v1/filter", "DELETE", "POST"),
        ("/v1/explain", "PUT", "POST"),
        ("/v1/clusters", "POST", "GET, HEAD"),
        ("/v1/clusters/bravelion", "DELETE", "GET, HEAD"),
        ("/v1/placements", "PATCH", "GET, HEAD"),
        ("/v1/events", "POST", "GET, HEAD"),
    ],
)
async def test_another_method_is_not_allowed(port, path, method, allowed):
    answer = await get(port, path, method)
    assert_problem(answer, "method-not-allowed", 405)
    assert answer.headers["Allow"] == allowed


async def test_limits_of_the_body(launch):
    async with launch(api_body_bytes=100, body_seconds=0.05) as port:
        assert_problem(await ask(port, "/v1/score", b" " * 101), "payload-too-large", 413)
        assert_problem(
            await ask(port, "/v1/score", b"{}", **{"Content-Type": "text/yaml"}), "unsupported-media-type", 415
        )
        assert_problem(await ask(port, "/v1/score", b"{}", Content_Encoding="gzip"), "unsupported-media-type", 415)
        async with port.dial() as connection:
            members = {"Content-Type": "application/json", "Content-Length": "9", **connection.credentials}
            await connection.send(head("POST", "/v1/score", members) + b"{")
            assert_problem(await connection.answer(), "request-timeout", 408)


async def test_nothing_is_answered_from_empty_caches(launch):
    async with launch(synced=lambda: False) as port:
        answer = await get(port, "/v1/clusters")
        assert assert_problem(answer, "not-ready", 503)["retryAfterSeconds"] == 1
        assert answer.headers["Retry-After"] == "1"


@pytest.mark.parametrize(
    ("path", "key", "value"),
    [
        ("/v1/clusters", "continue", ""),
        ("/v1/clusters/oslo", "state", "silent"),
        ("/v1/placements", "items", [{"ref": "crp/payments"}, {"ref": "rp/shop/cart"}]),
        ("/v1/placements/crp/payments", "kind", "ClusterResourcePlacement"),
        ("/v1/placements/rp/shop/cart", "kind", "ResourcePlacement"),
    ],
)
async def test_lists_and_objects(port, path, key, value):
    answer = await get(port, path)
    assert (answer.status, answer.json[key]) == (200, value)
    again = await get(port, path, If_None_Match=f'"other", {answer.headers["ETag"]}')
    assert (again.status, again.body, again.headers["ETag"]) == (304, b"", answer.headers["ETag"])
    assert (await get(port, path, "HEAD")).status == 200


async def test_there_are_no_cross_origin_headers(port):
    answer = await get(port, "/v1/clusters", Origin="https://evil.example")
    assert not [name for name in answer.headers if name.lower().startswith("access-control")]


async def test_requests_are_counted_by_template(launch):
    async with launch() as port:
        await get(port, "/v1/clusters/oslo")
        await get(port, "/v1/clusters/atlantis")
        counted = [
            port.sample("harbormaster_api_requests_total", route="/v1/clusters/*", code=code) for code in ("200", "404")
        ]
        assert counted == [1, 1]
        assert b"atlantis" not in port.server.metrics.exposition("")[0]


async def test_questions_to_the_engine_are_counted_with_what_each_filter_turned_away(launch):
    async with launch() as port:
        before = port.sample("harbormaster_score_duration_seconds_count")
        assert port.sample("harbormaster_filter_rejections_total", plugin="TaintToleration") == 0
        await ask(port, "/v1/score", {"placement": PAYMENTS})
        await ask(port, "/v1/filter", {"placement": PAYMENTS})
        assert port.sample("harbormaster_score_duration_seconds_count") == before + 2
        assert port.sample("harbormaster_filter_rejections_total", plugin="ClusterAffinity") == 2 * len(
            port.harbour.closed
        )


async def test_the_detail_names_every_mistake(port):
    body = {"placement": {"ref": {"kind": "Placement", "name": ""}}, "limit": "3", "colour": "red"}
    answer = await ask(port, "/v1/score", body)
    assert_problem(answer, "validation-failed", 422)
    assert len(answer.json["errors"]) > 2
    for mistake in answer.json["errors"]:
        assert f"{mistake['pointer']}: {mistake['detail']}" in answer.json["detail"]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/score", {"placement": {"ref": {"kind": "Placement", "name": "web"}}}),
        ("POST", "/v1/gate/rollout", {"placement": {"ref": {"kind": "Placement", "name": "web"}}, "cluster": "a"}),
        ("POST", "/v1/gate/disruption", {"nodePool": "a", "reason": "Boredom", "nodes": ["n"]}),
        ("POST", "/v1/gate/reservations", {"gate": "tollgate", "question": {}, "holder": "me", "ttlSeconds": 60}),
        ("GET", "/v1/budgets?reason=Boredom", None),
        ("GET", "/v1/history?type=rumour", None),
    ],
)
async def test_a_value_that_is_none_of_the_possible_ones_has_one_status(port, method, path, body):
    answer = await (get(port, path) if body is None else ask(port, path, body))
    assert_problem(answer, "validation-failed", 422)
