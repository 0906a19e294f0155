"""What the aggregated API answers to a team, and attempts to see more than that, on a hub with two teams."""

import json
import ssl
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest
import pytest_asyncio

from certs.authority import Authority
from certs.client_authorities import AuthorityFile
from e2e.controlplane.client_certificate import issue_client_certificate
from scorer.api.kinds import NAMESPACED_OVERRIDE, OVERRIDE, OVERRIDE_SNAPSHOT, RESOURCE_PLACEMENT
from tests.builders.placement import make_placement
from tests.waiting import until
from tests.webhook.controllers.world import make_config_map, make_member, pick_n, running
from tests.webhook.endpoints.asking import assert_status
from tests.webhook.endpoints.world_server import serving
from tests.webhook.services import Unread
from webhook.access.front_proxy import RESOURCES, FrontProxy
from webhook.access.rights import Access
from webhook.history.entry import EntryType, InvolvedObject
from webhook.history.record import RecordSource
from webhook.history.service import history_of
from webhook.runtime.clock import utc_now
from webhook.settings.programs import ServerSettings

pytestmark = pytest.mark.asyncio(loop_scope="module")

GROUP = "answers.harbormaster.dev"
FLEET = ("resourceplacements", "resourceoverrides", "stagedupdateruns", "stagedupdatestrategies", "approvalrequests")
SNAPSHOTS = ("resourcesnapshots", "resourcebindings")
PATCHED = "a-value-that-only-the-platform-knows"


class Team:
    """The rights of docs/teams.md in the namespaces of a team, as RBAC grants them; *more*: (verb, resource) pairs."""

    def __init__(self, *namespaces, without=(), more=()):
        self.namespaces = namespaces
        self.without = set(without)
        self.more = set(more)
        self.asked = []

    async def may(self, user, wanted):
        assert user.username == "tina"
        self.asked.append(wanted)
        if not isinstance(wanted, Access) or wanted.namespace not in self.namespaces:
            return False
        if (wanted.verb, wanted.resource) in self.more:
            return True
        if wanted.resource in self.without:
            return False
        if wanted.group == GROUP:
            return wanted.verb == "create"
        return wanted.resource in (*FLEET, *SNAPSHOTS, "configmaps", "deployments", "services")

    async def review(self, user, wanted):
        raise AssertionError("authors have all rights here")


def override(name, kind, namespace, placement):
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    rule = {
        "clusterSelector": {"clusterSelectorTerms": []},
        "jsonPatchOverrides": [{"op": "add", "path": "/data/patched", "value": PATCHED}],
    }
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": metadata,
        "spec": {
            "placement": placement,
            "resourceSelectors": [{"group": "", "version": "v1", "kind": "ConfigMap", "name": "rates"}],
            "policy": {"overrideRules": [rule]},
        },
    }


RATES = [{"group": "", "version": "v1", "kind": "ConfigMap", "name": "rates"}]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def world():
    """Three members, and the placements of two teams and of the platform."""
    async with running() as found:
        members = (make_member(f"m{at}", nodes=at + 1) for at in range(3))
        await found.add(*members, make_config_map("rates", "dock", value="2"))
        await found.until(lambda: all(member.status.agent_status for member in found.cache.fleet.members))
        namespaces = make_placement(
            "spread",
            {"placementType": "PickAll"},
            selectors=[
                {"group": "", "version": "v1", "kind": "Namespace", "name": name, "selectionScope": "NamespaceOnly"}
                for name in ("shop", "dock")
            ],
        )
        await found.add(namespaces)
        await found.until(lambda: found.view("spread")["state"] == "available")
        await found.add(override("platform", NAMESPACED_OVERRIDE, "dock", {"name": "web", "scope": "Namespaced"}))
        for home in ("shop", "dock"):
            await found.add(make_placement("web", pick_n(1), namespace=home, selectors=RATES))
            await found.until(lambda home=home: found.view("web", home)["state"] == "available")
        yield found


@pytest.fixture(scope="module")
def authorities(tmp_path_factory):
    """The authority of users, that of the front proxy, and a certificate of the latter."""
    folder = tmp_path_factory.mktemp("authorities")
    users, proxies = (Authority.new(datetime.now(UTC)) for _ in range(2))
    for name, authority in (("users", users), ("proxies", proxies)):
        (folder / f"{name}.crt").write_bytes(authority.pem)
    return folder, issue_client_certificate(proxies, folder, "proxy")


@pytest.fixture
def serve(world, authorities):
    """Run a server over the world, for a team; yields a function that asks."""
    folder, shown = authorities

    @asynccontextmanager
    async def start(team, **more):
        sources = {
            "client_authorities": AuthorityFile(folder / "users.crt", 3600),
            "proxy_authorities": AuthorityFile(folder / "proxies.crt", 3600),
        }
        proxy = FrontProxy(frozenset({"proxy"}))
        async with serving(world, authorizer=team, front_proxy=proxy, **sources, **more) as port:
            trust = ssl.create_default_context(cadata=port.server.certificates.trust_pem.decode())
            port.trust = shown.show(trust)

            async def ask(resource, namespace="shop", **body):
                path = f"/apis/{GROUP}/v1/namespaces/{namespace}/{resource}"
                async with port.dial(token="") as connection:
                    return await connection.post(path, json.dumps(body).encode(), **{"X-Remote-User": "tina"})

            yield ask

    return start


def ref(name="web", namespace="shop", kind=RESOURCE_PLACEMENT.kind):
    return {"kind": kind, "name": name} | ({"namespace": namespace} if namespace else {})


async def test_a_team_plans_a_change_of_its_placement(world, serve):
    async with serve(Team("shop")) as ask:
        answer = await ask(
            "placementplans", objects=[make_placement("web", pick_n(2), namespace="shop", selectors=RATES)]
        )
        assert answer.status == 200, answer.body
        plan = answer.json
        (entry,) = plan["placements"]
        assert (entry["namespace"], entry["name"], entry["moves"]["gained"]) == ("shop", "web", ["m1"])
        assert (plan["complete"], plan["unread"], plan["hidden"]) == (True, [], [])
        assert plan["admission"][0]["operation"] == "UPDATE"
    assert world.view("web", "shop")["wanted"] == 1


async def test_a_team_plans_a_change_of_its_content(serve):
    async with serve(Team("shop")) as ask:
        plan = (await ask("placementplans", objects=[make_config_map("rates", value="9")])).json
        (entry,) = plan["placements"]
        assert entry["changed"]
        assert [step["update"] for step in entry["rollout"]["steps"]] == [["m2"]]
        same = (await ask("placementplans", objects=[make_config_map("rates", value="1")])).json
        assert [each["changed"] for each in same["placements"]] == [False]


async def test_a_team_renders_its_placement(serve):
    async with serve(Team("dock", without=("resourceoverridesnapshots",))) as ask:
        answer = await ask("renderings", "dock", objects=[make_config_map("rates", "dock", value="9")])
        (entry,) = answer.json["placements"]
        assert (entry["namespace"], entry["hidden"], entry["message"]) == ("dock", False, "")
        (group,) = entry["groups"]
        assert group["objects"][0]["manifest"]["data"] == {"value": "9", "patched": PATCHED}, (
            "a team may list overrides"
        )
        assert b"shop" not in answer.body
        assert b"spread" not in answer.body


async def test_values_of_overrides_that_the_team_may_not_list_are_hidden(serve):
    async with serve(Team("dock", without=("resourceoverrides",))) as ask:
        answer = await ask("renderings", "dock", unchanged=True)
        (entry,) = answer.json["placements"]
        assert (entry["hidden"], entry["groups"], PATCHED.encode() in answer.body) == (True, [], False)
        assert (
            "values from ResourceOverrides, which you may not list. Users with rights in the whole" in entry["message"]
        )


async def test_labels_of_members_are_not_revealed_by_a_variable(serve):
    probe = override("platform", NAMESPACED_OVERRIDE, "dock", {"name": "web", "scope": "Namespaced"})
    (rule,) = probe["spec"]["policy"]["overrideRules"]
    rule["jsonPatchOverrides"][0] |= {"path": "/data/probe", "value": "${MEMBER-CLUSTER-LABEL-KEY-env}"}
    async with serve(Team("dock")) as ask:
        answer = await ask("renderings", "dock", objects=[probe])
        (entry,) = answer.json["placements"]
        assert (entry["hidden"], entry["groups"]) == (True, []), answer.json["admission"]
        assert "labels of member clusters" in entry["message"]


async def test_an_override_of_the_platform_decides_without_being_shown(world, serve):
    """Without it, the plan would show a rollout that takes it back."""
    await world.add(override("wide", OVERRIDE, "", {"name": "web", "scope": "Namespaced"}))
    await world.until(lambda: world.store.objects(OVERRIDE_SNAPSHOT))
    await world.until(lambda: world.view("web", "shop")["state"] == "available")
    async with serve(Team("shop")) as ask:
        answer = await ask("placementplans", objects=[])
        assert [each["changed"] for each in answer.json["placements"]] == [False]
        assert b"wide" not in answer.body
        assert PATCHED.encode() not in answer.body
    namespace = override("of-the-namespace", OVERRIDE, "", {"name": "web", "scope": "Namespaced"})
    del namespace["spec"]["placement"]  # of any placement
    del namespace["spec"]["resourceSelectors"]
    namespace["spec"]["clusterResourceSelectors"] = [
        {"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}
    ]
    (rule,) = namespace["spec"]["policy"]["overrideRules"]  # fits the Namespace and the ConfigMap in it
    rule["jsonPatchOverrides"][0] |= {"path": "/metadata/annotations", "value": {"example.com/patched": PATCHED}}
    await world.add(namespace)
    async with serve(Team("shop", more={("list", "clusterresourceoverridesnapshots")})) as ask:
        answers = []

        async def hidden():
            answers[:] = [await ask("renderings", unchanged=True)]
            return answers[0].status == 200 and answers[0].json["placements"][0]["hidden"]

        await until(hidden)
        (answer,) = answers
        (entry,) = answer.json["placements"]
        assert (entry["groups"], PATCHED.encode() in answer.body) == ([], False)
        assert "values from ClusterResourceOverrides. Users with rights in the whole hub" in entry["message"]


FOREIGN = [
    pytest.param(
        {"objects": [make_config_map("rates", "dock")]}, 'ConfigMap "rates" is in namespace "dock"', id="object"
    ),
    pytest.param(
        {"objects": [make_placement("web", namespace="dock")]},
        'ResourcePlacement "web" is in namespace "dock"',
        id="placement",
    ),
    pytest.param(
        {"objects": [make_placement("spread")]}, 'ClusterResourcePlacement "spread" is cluster-scoped', id="crp"
    ),
    pytest.param({"objects": [make_member("m0")]}, 'MemberCluster "m0" is cluster-scoped', id="member"),
    pytest.param(
        {"objects": [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}]},
        'Namespace "shop" is cluster-scoped',
        id="namespace",
    ),
    pytest.param({"objects": [make_config_map("rates", "")]}, 'ConfigMap "rates" has no namespace', id="none"),
    pytest.param(
        {"deleted": [{"kind": "ResourcePlacement", "name": "web", "namespace": "dock"}]},
        'ResourcePlacement "web" is in namespace "dock"',
        id="deleted",
    ),
    pytest.param(
        {"deleted": [{"kind": "ClusterResourcePlacement", "name": "spread"}]},
        'ClusterResourcePlacement "spread" has no namespace',
        id="deleted-crp",
    ),
    pytest.param(
        {"deleted": [{"kind": "MemberCluster", "name": "m0", "namespace": "shop"}]},
        'MemberCluster "m0" is in namespace "shop"',
        id="deleted-member",
    ),
    pytest.param({"placements": [ref(namespace="dock")]}, '"web" is in namespace "dock"', id="asked"),
    pytest.param({"placements": [ref("spread", "", "ClusterResourcePlacement")]}, '"spread" has no', id="asked-crp"),
    pytest.param({"runs": [{"name": "r"}]}, 'staged update run "r" has no namespace', id="run"),
    pytest.param({"drained": ["m0"]}, 'member cluster "m0" must not be drained', id="drained"),
]


@pytest.mark.parametrize(("body", "named"), FOREIGN)
async def test_a_plan_about_anything_else_is_refused_and_names_it(serve, body, named):
    """Even for a user with the same rights in the other namespace, and with all rights on cluster-scoped objects."""
    async with serve(Team("shop", "dock", "")) as ask:
        answer = await ask("placementplans", **body)
        assert_status(answer, 422, "Invalid")
        assert named in answer.json["message"]
        assert answer.json["errors"][0]["detail"] == answer.json["message"].partition(": ")[2]


RENDERED_RUNS = [
    pytest.param({"run": {"name": "r"}}, 'staged update run "r" has no namespace', id="its-run"),
    pytest.param({"run": {"name": "r", "namespace": "dock"}}, '"r" is in namespace "dock"', id="run-elsewhere"),
]


@pytest.mark.parametrize(
    ("body", "named"), [*(each for each in FOREIGN if each.id not in {"run", "drained"}), *RENDERED_RUNS]
)
async def test_a_rendering_of_anything_else_is_refused_and_names_it(serve, body, named):
    async with serve(Team("shop", "dock", "")) as ask:
        answer = await ask("renderings", **body)
        assert_status(answer, 422, "Invalid")
        assert named in answer.json["message"]


async def test_no_answer_has_objects_of_another_namespace(serve):
    team = Team("shop", "dock", "")
    async with serve(team) as ask:
        plan = await ask(
            "placementplans", objects=[make_placement("web", pick_n(3), namespace="shop", selectors=RATES)]
        )
        assert [(each["namespace"], each["name"]) for each in plan.json["placements"]] == [("shop", "web")]
        assert b"dock" not in plan.body
        assert b"spread" not in plan.body
    lists = [each for each in team.asked if each.verb == "list"]
    assert lists
    assert {each.namespace for each in lists} == {"shop"}, "a right in all namespaces counts for nothing here"


async def test_rights_on_cluster_scoped_kinds_in_the_namespace_count_for_nothing(serve):
    """RBAC reviews such a question by the Role, which grants nothing on the API server."""
    kinds = ("clusterresourceplacements", "clusterresourcesnapshots", "clusterresourceoverrides", "secrets")
    async with serve(Team("shop", more={("list", kind) for kind in kinds})) as ask:
        answer = await ask(
            "placementplans", objects=[make_placement("web", pick_n(2), namespace="shop", selectors=RATES)]
        )
        assert answer.status == 200
        assert b"spread" not in answer.body
        assert b"ClusterResource" not in answer.body


async def test_what_the_team_may_not_list_is_hidden_there_too(serve):
    async with serve(Team("shop", without=("resourcesnapshots",))) as ask:
        plan = (await ask("placementplans", objects=[make_config_map("rates", value="9")])).json
        assert [each["kind"] for each in plan["hidden"]] == ["ConfigMap"]
        assert (plan["complete"], plan["placements"][0]["rollout"]["contentHash"]) == (False, "")
    async with serve(Team("shop", without=("resourceplacements",))) as ask:
        plan = (await ask("placementplans")).json
        assert plan["placements"] == []
        assert "resourceplacements.placement.kubernetes-fleet.io" in plan["unread"]


async def test_a_secret_of_the_namespace_is_no_part_of_a_plan(serve):
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "namespace": "shop"},
        "data": {"k": "eA=="},
    }
    async with serve(Team("shop", more={("list", "secrets")})) as ask:
        plan = (await ask("placementplans", objects=[secret])).json
        assert [each["kind"] for each in plan["hidden"]] == ["Secret"]
        gone = await ask("placementplans", deleted=[{"kind": "Secret", "name": "s", "namespace": "shop"}])
        assert_status(gone, 422, "Invalid")


async def test_a_placement_is_explained_to_those_who_may_get_it(serve):
    async with serve(Team("shop")) as ask:
        answer = (await ask("explanations", placement={"ref": ref()})).json
        assert [item["cluster"] for item in answer["items"]] == ["m2", "m1", "m0"]
        runs = (await ask("pastdecisions", placement={"ref": ref()})).json
        assert (runs["placement"], runs["items"][0]["picked"] != []) == ("rp/shop/web", True)


@pytest.mark.parametrize("resource", ["explanations", "pastdecisions"])
async def test_placements_elsewhere_do_not_exist(serve, resource):
    async with serve(Team("shop", "dock", "")) as ask:
        for other in (ref(namespace="dock"), ref("spread", "", "ClusterResourcePlacement"), ref("none")):
            answer = await ask(resource, placement={"ref": other})
            assert_status(answer, 404, "NotFound")
            assert answer.json["message"].startswith("there is no placement ")
        inline = await ask(resource, placement={"inline": {"placementType": "PickAll"}})
        assert_status(inline, 422, "Invalid")


async def test_the_namespace_of_the_path_decides(serve):
    async with serve(Team("shop")) as ask:
        for resource in RESOURCES:
            assert_status(await ask(resource, "dock"), 403, "Forbidden")


@pytest.fixture
def recorded():
    """A history about both teams and the platform."""
    settings = ServerSettings()
    history = history_of(Unread(), settings.namespace, settings, RecordSource.SERVER, "test", utc_now)
    noted = [
        (EntryType.DECISION, InvolvedObject("ResourcePlacement", "web", "shop"), "ours"),
        (EntryType.REFUSAL, InvolvedObject("ResourceOverride", "o", "shop"), "ours too"),
        (EntryType.DECISION, InvolvedObject("ResourcePlacement", "web", "dock"), "of dock"),
        (EntryType.DECISION, InvolvedObject("ClusterResourcePlacement", "spread", ""), "of the platform"),
        (EntryType.GATE, InvolvedObject("MemberCluster", "m0", ""), "gate"),
        (EntryType.REFUSAL, InvolvedObject("Secret", "s", "shop"), "a Secret"),
        (EntryType.REFUSAL, InvolvedObject("ResourceEnvelope", "e", "shop"), "of a kind that teams may not list"),
    ]
    for at, (kind, about, message) in enumerate(noted):
        history.note(kind, about, f"R{at}", message, "jane")
    return history


async def test_the_history_is_that_of_the_namespace(serve, recorded, monkeypatch):
    async def nothing_stored(*_):
        return type("Listing", (), {"items": []})()

    monkeypatch.setattr(Unread, "list", nothing_stored)
    async with serve(Team("shop", "dock", "", more={("list", "configmaps")}), recorded=recorded) as ask:
        found = (await ask("histories")).json
        assert {each["message"] for each in found["items"]} == {"ours", "ours too"}
        assert found["kept"]
        one = (await ask("histories", type=["Decision"], limit=1)).json
        assert ([each["message"] for each in one["items"]], one["more"]) == (["ours"], False)
        assert [each["message"] for each in (await ask("histories", kind="ResourceOverride")).json["items"]] == [
            "ours too"
        ]
        assert [each["message"] for each in (await ask("histories", q="jane TOO")).json["items"]] == ["ours too"]
        for wrong in ({"type": ["Nonsense"]}, {"since": "yesterday"}, {"continue": "x"}, {"namespaces": ["dock"]}):
            assert_status(await ask("histories", **wrong), 422, "Invalid")
