"""Commands of a team on a hub that lets it read its own placements: with the aggregated API, and without it."""

import asyncio
import json

import pytest
from aiohttp import web

from e2e.controlplane.printed import called_with
from tests.loopback import on_loopback

GROUP = "answers.harbormaster.dev"
PLACEMENT = """
apiVersion: placement.kubernetes-fleet.io/v1
kind: ResourcePlacement
metadata: {name: web, namespace: NAMESPACE}
spec:
  resourceSelectors: [{group: apps, version: v1, kind: Deployment, name: web}]
"""
PLAN = {
    "placements": [],
    "runs": [],
    "upgrades": [],
    "admission": [],
    "outcomes": [],
    "fleet": {"gained": [], "changed": [], "lost": [], "drained": []},
    "complete": True,
    "notJudged": [],
    "hidden": [],
    "unread": [],
    "assumed": [],
    "evaluatedAt": "2026-03-01T10:00:00Z",
    "fleetRevision": "1",
}
ENTRY = {
    "id": "a",
    "time": "2026-03-01T10:00:00Z",
    "type": "Decision",
    "object": {"kind": "ResourcePlacement", "name": "web", "namespace": "kiosk"},
    "reason": "ClustersPicked",
    "message": "picked bravelion",
}
RENDER = {
    "placements": [
        {
            "name": "web",
            "namespace": "kiosk",
            "message": "its objects contain values from ClusterResourceOverrides. Ask the platform team",
            "hidden": True,
            "uncertain": False,
            "groups": [],
            "failures": [],
            "unknown": [],
        }
    ],
    "admission": [],
    "complete": True,
    "notJudged": [],
    "hidden": [],
    "unread": [],
    "assumed": [],
    "evaluatedAt": "2026-03-01T10:00:00Z",
    "fleetRevision": "1",
}
ANSWERS = {
    "placementplans": PLAN,
    "renderings": RENDER,
    "histories": {"items": [ENTRY], "more": True, "unreadable": 0, "kept": True},
}


def refusal(code, reason, group="cluster.kubernetes-fleet.io", message="no"):
    details = {"group": group, "kind": "memberclusters"}
    body = {"kind": "Status", "status": "Failure", "message": message, "reason": reason, "details": details}
    return web.json_response({**body, "code": code}, status=code)


class Hub:
    """An API server that forbids every read; *answer*: how it answers questions about a namespace."""

    def __init__(self, answer):
        self.answer = answer
        self.questions = []
        self.app = web.Application()
        self.app.router.add_route("*", "/{path:.*}", self.handle)

    def read(self, request):
        """Answer a read of an object or a list."""
        return refusal(403, "Forbidden", message=f"cannot list {request.path}")

    async def handle(self, request):
        if not request.path.startswith(f"/apis/{GROUP}/"):
            return self.read(request)
        *_, namespace, resource = request.path.split("/")
        self.questions.append((namespace, resource, await request.json()))
        return self.answer(resource)


def kubeconfig_of(folder, address):
    context = {"cluster": "hub", "user": "tina", "namespace": "kiosk"}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "hub", "cluster": {"server": address}}],
        "users": [{"name": "tina", "user": {"token": "t"}}],
        "contexts": [{"name": "hub", "context": context}],
        "current-context": "hub",
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


@pytest.fixture
def call(tmp_path):
    """Call a command on a hub; yields what it printed."""

    async def run(hub, *words):
        async with on_loopback(hub.app) as address:
            options = ("--kubeconfig", kubeconfig_of(tmp_path, address))
            return await asyncio.to_thread(called_with, {}, *words, *options)

    return run


def placement(folder, namespace="kiosk"):
    file = folder / f"{namespace}.yaml"
    file.write_text(PLACEMENT.replace("NAMESPACE", namespace), encoding="utf-8")
    return str(file)


def served(resource):
    return web.json_response(ANSWERS[resource])


async def test_a_plan_is_asked_for_the_namespace_of_its_objects(call, tmp_path):
    hub = Hub(served)
    done = await call(hub, "plan", "-f", placement(tmp_path, "other"), "-o", "json")
    assert done.exit_code == 0, done.output
    ((namespace, resource, question),) = hub.questions
    assert (namespace, resource, len(question["objects"])) == ("other", "placementplans", 1)
    assert "note: answered by harbormaster serve for namespace other: you may not read the rest" in done.stderr
    await call(hub, "plan", "--lost", "bravelion")
    assert hub.questions[1][0] == "kiosk", "that of the context, as there are no objects"


async def test_a_plan_of_two_namespaces_cannot_be_asked_for(call, tmp_path):
    hub = Hub(served)
    done = await call(hub, "plan", "-f", placement(tmp_path), "-f", placement(tmp_path, "other"))
    assert (done.exit_code, hub.questions) == (1, [])
    assert "The server plans for one namespace at a time: kiosk, other" in done.stderr


async def test_a_rendering_is_asked_for_the_namespace_of_its_placements(call):
    hub = Hub(served)
    done = await call(hub, "render", "--hub", "--placement", "rp/other/web", "-o", "diff")
    ((namespace, resource, question),) = hub.questions
    assert (namespace, resource, question["placements"][0]["name"]) == ("other", "renderings", "web")
    assert "note: answered by harbormaster serve for namespace other" in done.stderr
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert (done.exit_code, errors) == (1, [f"error: rp/kiosk/web: {RENDER['placements'][0]['message']}"])


async def test_the_history_is_that_of_the_namespace(call):
    hub = Hub(served)
    done = await call(hub, "history", "--type", "decision", "--limit", "1")
    assert done.exit_code == 0, done.output
    assert hub.questions == [
        ("kiosk", "histories", {"type": ["Decision"], "reason": "", "by": "", "limit": 1}),
    ]
    assert "ResourcePlacement kiosk/web" in done.stdout
    assert "older entries exist" in done.stderr
    printed = await call(hub, "history", "-n", "other", "-q", "canary", "-o", "json")
    assert json.loads(printed.stdout)["items"] == [ENTRY]
    assert (hub.questions[1][0], hub.questions[1][2]["q"]) == ("other", "canary")


@pytest.mark.parametrize("words", [("explain", "rp/kiosk/web"), ("history",), ("explain", "rp/kiosk/web", "--runs")])
@pytest.mark.parametrize(
    ("answer", "told"),
    [
        pytest.param(
            lambda _: web.Response(status=404, text="404 page not found"),
            "the platform team sets settings.teamAnswers=true in the chart of the hub",
            id="not-served",
        ),
        pytest.param(lambda _: refusal(403, "Forbidden", GROUP), "but you may not create ", id="forbidden"),
    ],
)
async def test_without_the_api_the_error_names_what_is_missing(call, words, answer, told):
    done = await call(Hub(answer), *words)
    assert done.exit_code == 1
    assert "cannot list /api" in done.stderr, "what the user may not read"
    assert told in done.stderr


async def test_a_refusal_of_the_server_is_that_of_the_command(call):
    def missing(_):
        return refusal(404, "NotFound", GROUP, "there is no placement rp/kiosk/web")

    done = await call(Hub(missing), "explain", "rp/kiosk/web")
    assert (done.exit_code, done.stderr.strip()) == (1, "error: there is no placement rp/kiosk/web")
    done = await call(Hub(lambda _: refusal(503, "ServiceUnavailable", "", "no endpoints")), "explain", "rp/kiosk/web")
    assert (done.exit_code, "no endpoints" in done.stderr) == (1, True)


async def test_a_hub_that_does_not_answer_in_time_is_not_asked_as_a_team(call, tmp_path, monkeypatch):
    """The user may be an administrator, who would take the narrower answer for one about the whole hub."""
    monkeypatch.setattr("webhook.processes.hub_reading.READ_SECONDS", 1.0)
    hub = Hub(served)
    hub.read = lambda _: web.json_response({"kind": "Status", "code": 500, "message": "overloaded"}, status=500)
    result = await call(hub, "plan", "-f", placement(tmp_path))
    assert (result.exit_code, hub.questions) == (1, [])
    assert "not read within 1 s" in result.stderr
    assert "platform team" not in result.stderr


async def test_a_placement_without_a_namespace_is_nothing_to_ask_a_namespace_about(call):
    hub = Hub(served)
    done = await call(hub, "explain", "crp/web")
    assert (done.exit_code, hub.questions) == (1, [])


class Rights:
    """Reads of a user who may list and watch *resources* in namespace kiosk, and nothing else."""

    def __init__(self, *resources, **documents):
        self.resources = resources
        self.documents = documents
        self.refused = []

    def read(self, request):
        *_, place, namespace, resource = request.path.split("/")
        if (place, namespace) != ("namespaces", "kiosk") or resource not in self.resources:
            self.refused.append(request.path)
            return refusal(403, "Forbidden", message=f"cannot list {request.path}")
        if "watch" in request.query:
            return web.Response()
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": self.documents.get(resource, [])})


ROLE = ("resourceplacements", "stagedupdateruns", "approvalrequests", "resourcebindings")
WEB = {
    "metadata": {"name": "web", "namespace": "kiosk", "uid": "u", "resourceVersion": "1", "generation": 1},
    "spec": {"resourceSelectors": [{"group": "apps", "version": "v1", "kind": "Deployment", "name": "web"}]},
}


async def test_rights_in_one_namespace_are_enough_for_its_status(call):
    hub, rights = Hub(served), Rights(*ROLE, resourceplacements=[WEB])
    hub.read = rights.read
    done = await call(hub, "status", "-n", "kiosk")
    assert (done.exit_code, done.stderr) == (0, ""), done.output
    assert done.stdout.startswith("1 placement: 1 ")
    assert not [path for path in rights.refused if path.rpartition("/")[2] in ROLE], "of other namespaces"


async def test_the_status_of_a_namespace_names_what_it_omits(call):
    hub, rights = Hub(served), Rights(*ROLE[:2], resourceplacements=[WEB])
    hub.read = rights.read
    done = await call(hub, "status", "-n", "kiosk")
    assert (done.exit_code, done.stdout.partition(":")[0]) == (0, "1 placement")
    assert done.stderr.startswith(
        "note: not including approvalrequests.placement.kubernetes-fleet.io, "
        "resourcebindings.placement.kubernetes-fleet.io, which you may not read"
    )


async def test_rights_in_one_namespace_are_enough_for_its_removals(call):
    hub, rights = Hub(served), Rights("resourceplacements", "resourcesnapshots", "resourcebindings")
    rights.documents = {"resourceplacements": [WEB]}
    hub.read = rights.read
    done = await call(hub, "removals", "-n", "kiosk")
    assert (done.exit_code, done.stdout) == (0, ""), done.output
    assert "No pending removals in kiosk namespace" in done.stderr
    assert "not including orphaned content and counts on members: you may not list memberclusters" in done.stderr
    default = await call(hub, "removals")
    assert (default.exit_code, default.stdout) == (0, "")
    assert "note: only removals of namespace kiosk: cannot list " in default.stderr
    elsewhere = await call(hub, "removals", "-n", "other")
    assert (elsewhere.exit_code, elsewhere.stdout) == (1, "")


async def test_removals_without_any_right_name_the_option(call):
    done = await call(Hub(served), "removals")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "With rights in one namespace only, name it: -n NAMESPACE" in done.stderr


@pytest.mark.parametrize(
    ("failing", "words"),
    [
        pytest.param("memberclusters", ["-n", "kiosk"], id="members"),
        pytest.param("namespaces/kiosk/resourceplacements", [], id="default-namespace"),
    ],
)
async def test_a_failing_hub_is_not_reported_as_a_missing_right(call, failing, words):
    hub, rights = Hub(served), Rights("resourceplacements", "resourcesnapshots", "resourcebindings")

    def read(request):
        if request.path.endswith(f"/{failing}"):
            return refusal(500, "InternalError", message="etcdserver: leader changed")
        return rights.read(request)

    hub.read = read
    done = await call(hub, "removals", *words)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "etcdserver: leader changed" in done.stderr
    assert "may not" not in done.stderr
    assert "rights" not in done.stderr


async def test_a_status_without_the_right_to_list_placements_is_an_error(call):
    hub = Hub(served)
    hub.read = Rights("approvalrequests").read
    done = await call(hub, "status", "-n", "kiosk")
    assert (done.exit_code, done.stdout) == (1, "")
    (told,) = done.stderr.splitlines()
    assert told.endswith("/namespaces/kiosk/resourceplacements"), "not those of kinds without a namespace"
