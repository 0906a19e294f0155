"""``/v1/validate`` and ``/v1/default`` over HTTP: strict questions, every mistake, and never a write."""

import json

import pytest

from tests.webhook.services import admit, make_server, make_services
from webhook.access.rights import Reviewed
from webhook.access.user import UserInfo
from webhook.admission.patch import apply_patch
from webhook.settings.admission import AdmissionSettings, PlacementAuthorization
from webhook.validation.framework.context import Context

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def port(shared_port):
    """The server of all tests here but those that need other settings."""
    shared_port.renew()
    return shared_port


PLACEMENT = {
    "apiVersion": "placement.kubernetes-fleet.io/v1",
    "kind": "ClusterResourcePlacement",
    "metadata": {"name": "payments"},
    "spec": {
        "resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}],
        "policy": {"placementType": "PickN", "numberOfClusters": 2},
    },
}
BROKEN = PLACEMENT | {"spec": {"resourceSelectors": [], "policy": {"placementType": "PickN"}}}
PATHS = ("/v1/validate", "/v1/default")


async def ask(port, path, body):
    async with port.dial() as connection:
        return await connection.post(path, body if isinstance(body, bytes) else json.dumps(body).encode())


async def test_a_sound_object(port):
    answer = await ask(port, "/v1/validate", {"object": PLACEMENT})
    assert (answer.status, answer.json) == (200, {"allowed": True, "errors": [], "warnings": []})
    assert answer.headers["Cache-Control"] == "no-store"


async def test_every_mistake_is_listed_by_path(port):
    answer = await ask(port, "/v1/validate", {"object": BROKEN})
    assert answer.status == 200
    assert answer.json["allowed"] is False
    assert [(error["field"], error["reason"]) for error in answer.json["errors"]] == [
        ("spec.policy.numberOfClusters", "FieldValueRequired"),
        ("spec.resourceSelectors", "FieldValueRequired"),
    ]
    assert answer.json["errors"][0]["rule"] == "P-25"


async def test_a_refusal_that_blames_no_field(launch):
    """A guard rail forbids the whole write."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "shop"}}
    settings = AdmissionSettings(block_workloads=True)
    async with launch(context=lambda: Context(settings=settings)) as port:
        answer = await ask(port, "/v1/validate", {"object": pod})
    assert answer.json["allowed"] is False
    assert [(error["field"], error["reason"]) for error in answer.json["errors"]] == [("", "Forbidden")]


@pytest.mark.parametrize("operation", [{}, {"operation": "UPDATE"}])
async def test_an_old_object_makes_it_an_update(port, operation):
    """What was broken before and is left alone is no reason to refuse."""
    changed = BROKEN | {"metadata": {"name": "payments", "labels": {"team": "a"}}}
    answer = await ask(port, "/v1/validate", {"object": changed, "oldObject": BROKEN, **operation})
    assert answer.json["allowed"] is True
    assert answer.json["warnings"]


async def test_defaults_and_the_patch_that_leads_there(port):
    answer = await ask(port, "/v1/default", {"object": PLACEMENT})
    assert answer.status == 200
    assert answer.json["object"] == apply_patch(PLACEMENT, answer.json["patch"])
    assert answer.json["object"]["spec"]["revisionHistoryLimit"] == 10


async def test_defaults_of_a_kind_without_rules(port):
    chart = {"apiVersion": "example.com/v1", "kind": "Chart", "metadata": {"name": "a"}}
    answer = await ask(port, "/v1/default", {"object": chart})
    assert (answer.json["object"], answer.json["patch"]) == (chart, [])
    assert answer.json["warnings"] == ["harbormaster has no rules for Chart of example.com/v1"]
    assert (await ask(port, "/v1/validate", {"object": chart})).json["allowed"] is True


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("body", "pointer", "code"),
    [
        pytest.param({}, "/object", "required", id="nothing"),
        pytest.param({"object": None}, "/object", "required", id="null"),
        pytest.param({"object": [PLACEMENT]}, "/object", "type", id="list"),
        pytest.param({"object": "x"}, "/object", "type", id="text"),
        pytest.param({"object": PLACEMENT, "kind": "x"}, "/kind", "unknown", id="unknown-member"),
        pytest.param({"object": {}}, "/object/apiVersion", "required", id="no-type"),
        pytest.param({"object": PLACEMENT | {"kind": 7}}, "/object/kind", "type", id="kind-a-number"),
        pytest.param({"object": PLACEMENT | {"apiVersion": ""}}, "/object/apiVersion", "invalid", id="empty-version"),
        pytest.param({"object": PLACEMENT, "operation": "DELETE"}, "/operation", "invalid", id="unknown-operation"),
        pytest.param({"object": PLACEMENT, "operation": "UPDATE"}, "/oldObject", "required", id="update-of-nothing"),
        pytest.param(
            {"object": PLACEMENT, "oldObject": PLACEMENT, "operation": "CREATE"},
            "/operation",
            "invalid",
            id="creation-of-what-is-there",
        ),
        pytest.param(
            {"object": PLACEMENT, "oldObject": PLACEMENT | {"kind": "ResourcePlacement"}},
            "/oldObject/kind",
            "invalid",
            id="old-object-of-another-kind",
        ),
        pytest.param(
            {"object": PLACEMENT, "oldObject": PLACEMENT | {"metadata": {"name": "other"}}},
            "/oldObject/metadata/name",
            "invalid",
            id="another-old-object",
        ),
    ],
)
async def test_mistakes_in_the_question(port, path, body, pointer, code):
    answer = await ask(port, path, body)
    assert answer.status == 422
    assert answer.json["type"] == "urn:harbormaster:problem:validation-failed"
    assert (pointer, code) in [(error["pointer"], error["code"]) for error in answer.json["errors"]]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("body", "status"),
    [
        pytest.param(b"", 400, id="empty"),
        pytest.param(b"null", 400, id="null"),
        pytest.param(b"[]", 400, id="list"),
        pytest.param(b'{"object": {}', 400, id="truncated"),
        pytest.param(b'{"object": {}} x', 400, id="trailing"),
        pytest.param(b'{"object": {"spec": NaN}}', 400, id="nan"),
        pytest.param(b"\xff\xfe{", 400, id="no-utf-8"),
        pytest.param(b'{"object": ' + b'{"a":' * 200 + b"1" + b"}" * 201, 400, id="too-deep"),
        pytest.param(b" " * (1024 * 1024 + 1), 413, id="too-large"),
    ],
)
async def test_bodies_that_are_no_question(port, path, body, status):
    assert (await ask(port, path, body)).status == status


@pytest.mark.parametrize("path", PATHS)
async def test_other_types_and_methods(port, path):
    async with port.dial() as connection:
        assert (await connection.post(path, b"{}", **{"Content-Type": "application/yaml"})).status == 415
        assert (await connection.post(path, b"{}", Content_Encoding="gzip")).status == 415
    async with port.dial() as connection:
        answer = await connection.get(path)
        assert (answer.status, answer.headers["Allow"]) == (405, "POST")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('"\\ud800"', id="lone-surrogate"),
        pytest.param('"a\\nb\\u001b[31m"', id="escape-sequence"),
        pytest.param('"\\u202e"', id="text-direction"),
    ],
)
async def test_strange_text_is_judged_and_not_repeated(port, text):
    """A name that could steer a terminal is refused in words that cannot."""
    body = json.dumps({"object": PLACEMENT | {"metadata": {"name": "?"}}}).replace('"?"', text)
    answer = await ask(port, "/v1/validate", body.encode())
    assert (answer.status, answer.json["allowed"]) == (200, False)
    assert all(error["message"].isprintable() for error in answer.json["errors"])


class Silent:
    """An API server that does not say what anybody may do."""

    async def review(self, user, wanted):
        return Reviewed((), "the API server did not answer")


class Ann:
    """Everybody is Ann, who is no superuser."""

    audience = ""

    def cached(self, token):
        return UserInfo("ann")


@pytest.mark.parametrize(
    ("mode", "status"), [(PlacementAuthorization.WARN, 200), (PlacementAuthorization.ENFORCE, 503)]
)
async def test_rights_that_cannot_be_had(port, mode, status):
    """As for the hook: a warning under Warn; under Enforce nobody is told that it is allowed."""
    context = Context(settings=AdmissionSettings(placement_authorization=mode))
    services = make_services(
        advisor=port.harbour,
        changes=port.harbour,
        synced=lambda: True,
        admission=lambda: context,
        admittance=admit(Ann(), access=Silent()),
    )
    async with make_server(services, port.server.settings) as server:
        answer = await ask(type(port)(server, port.harbour, port.clock), "/v1/validate", {"object": PLACEMENT})
    assert answer.status == status
    if status == 503:
        assert answer.headers["Retry-After"] == "1"
    else:
        assert any("could not be reviewed" in warning for warning in answer.json["warnings"])
