"""This release and the one before it beside each other, in every role: what one has written, the other leaves.

That is how an upgrade runs, and how it is rolled back: replicas of both answer the hub, loops of both lead by turns,
and agents are upgraded before the hub or after it. The definitions and roles on the hub are those of this release.

Source: docs/specifications/serving.md 1.14, version skew.
"""

import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from e2e.controlplane.cluster import JsonObject
from e2e.controlplane.earlier_release import earlier_release
from e2e.controlplane.replicas import CONFIGURATIONS, THIS_RELEASE, Replicas
from e2e.controlplane.steady_writers import SteadyWriters
from e2e.fleet.bed import Fleet
from e2e.fleet.complete import Complete, wait_complete
from e2e.fleet.objects import (
    CONFIG_MAP,
    labels_of,
    make_config_map,
    make_placement,
    make_resource_placement,
    name_of,
    pick_n,
    selects,
)
from e2e.fleet.overrides import patching, resource_override
from e2e.fleet.processes import SYSTEM
from e2e.fleet.scene import Scene
from e2e.fleet.settled import assert_settled
from e2e.fleet.waiting import wait_until
from e2e.nodes.node_pool import pool_of_nodes
from scorer.api.kinds import APPLIED_WORK, KINDS, MEMBER_CLUSTER, NAMESPACE, OUR_KINDS, PLACEMENT, WORK
from webhook.kube.client.paths import path_of

pytestmark = pytest.mark.soak

ROUNDS = 10
ALL = ("bravelion", "jumpingcat", "smartfish")
LASTING, OTHER, CHARTED = "e2e-lasting", "e2e-lasting-two", "e2e-lasting-charted"
PASSING, POOL = "e2e-passing", "e2e-pool"
NEWER = "newerThanBoth"
"""A field that neither release knows, as one that is newer than both would bring it."""
QUIET_SECONDS = 2.0
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
JSON_PATCH = "application/json-patch+json"
RESERVATIONS = "/v1/gate/reservations"


@pytest.fixture(scope="module")
def earlier() -> Path:
    """The programs of the release before this one."""
    return earlier_release()


@pytest.fixture(scope="module", autouse=True)
def lasting(fleet: Fleet) -> Iterator[Scene]:
    """What is there all the time, and is not to be touched by any change of releases."""
    scene = Scene(fleet)
    with newer_definitions(fleet):
        scene.home(LASTING, colour="green")
        change = {"op": "replace", "path": "/data/colour", "value": "blue"}
        scene.put(resource_override("paint", LASTING, "settings", patching(change)))
        scene.put(make_placement(LASTING))
        chart = make_config_map("chart", CHARTED, depth="5")
        chart["metadata"]["labels"] = {"app": "charts"}
        only = selects(NAMESPACE, CHARTED, selectionScope="NamespaceOnly")
        scene.home(CHARTED, chart, make_placement(CHARTED, resourceSelectors=[only]))
        scene.put(make_resource_placement("charts", CHARTED, policy=pick_n(1)))
        scene.home(OTHER, colour="red")
        scene.put(made_newer(make_placement(OTHER, pick_n(2))))
        fleet.on_hub.patch(MEMBER_CLUSTER, "smartfish", {"spec": {NEWER: "kept"}})
        assert_settled(fleet, overridden=[LASTING])
        yield scene
        scene.clear()
    assert_settled(fleet)


class newer_definitions:  # noqa: N801 - used as a function
    """While the block lasts, specs of placements and members may hold a field that no release of ours knows."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def __enter__(self) -> None:
        self._patch("add", {"type": "string"})
        document = made_newer(make_placement("e2e-is-it-kept"))

        def problem() -> str:
            path = f"{path_of(PLACEMENT)}?dryRun=All"
            return "" if NEWER in self._fleet.hub.request("POST", path, document)[0]["spec"] else "the field is dropped"

        wait_until("the hub knows the field", problem)
        # A watch that is older than the change still shows objects without the field, for a second or so.
        loop = self._fleet.reconcilers[0]
        loop.stop()
        loop.start()

    def __exit__(self, *_: object) -> None:
        self._patch("remove")

    def _patch(self, operation: str, *value: JsonObject) -> None:
        for kind in (PLACEMENT, MEMBER_CLUSTER):
            path = f"{DEFINITIONS}/{kind.resource}"
            versions = self._fleet.hub.request("GET", path)[0]["spec"]["versions"]
            place = "/spec/versions/{}/schema/openAPIV3Schema/properties/spec/properties/" + NEWER
            changes = [
                {"op": operation, "path": place.format(number), **({"value": value[0]} if value else {})}
                for number in range(len(versions))
            ]
            self._fleet.hub.request("PATCH", path, changes, content_type=JSON_PATCH)


def made_newer(document: JsonObject) -> JsonObject:
    """The document with the field that no release knows."""
    return {**document, "spec": {**document["spec"], NEWER: "kept"}}


def is_lasting(item: JsonObject) -> bool:
    return LASTING in name_of(item) or LASTING in "".join(labels_of(item).values())


def versions(fleet: Fleet) -> dict[str, str]:
    """The version of everything that lasts, on the hub and on the members, and of the rights of agents."""
    found = {
        f"{kind.kind} {name_of(item)}": item["metadata"]["resourceVersion"]
        for kind in OUR_KINDS
        for item in fleet.on_hub.all(kind)
        if is_lasting(item)
    }
    found |= {
        f"{kind.kind} {name_of(item)}": item["metadata"]["resourceVersion"]
        for kind in (KINDS["rbac.authorization.k8s.io", "Role"], KINDS["rbac.authorization.k8s.io", "RoleBinding"])
        for item in fleet.on_hub.all(kind)
        if item["metadata"]["namespace"].startswith("fleet-member-")
    }
    for name, objects in fleet.clusters.items():
        found |= {
            f"{name}: {kind.kind} {name_of(item)}": item["metadata"]["resourceVersion"]
            for kind in (APPLIED_WORK, CONFIG_MAP, NAMESPACE)
            for item in objects.all(kind)
            if is_lasting(item)
        }
    return found


def changed(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """What is another version, or gone, or new."""
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def rollout_of_something_else(fleet: Fleet, scene: Scene, name: str) -> None:
    """Have a placement come, change and go, so that whoever is at work has looked at everything by then."""
    scene.home(name, colour="white")
    scene.put(made_newer(make_placement(name)))
    wait_complete(fleet, Complete(name, ALL))
    fleet.on_hub.patch(CONFIG_MAP, "settings", {"data": {"colour": "black"}}, name)
    wait_complete(fleet, Complete(name, ALL, index="1"))
    assert fleet.on_hub.get(PLACEMENT, name)["spec"][NEWER] == "kept"
    time.sleep(QUIET_SECONDS)  # nothing can be waited for: it is the absence of writes that is looked at


def assert_untouched(fleet: Fleet, before: dict[str, str]) -> None:
    assert_settled(fleet, overridden=[LASTING])
    assert changed(before, versions(fleet)) == []
    assert fleet.on_hub.get(PLACEMENT, OTHER)["spec"][NEWER] == "kept"
    assert fleet.on_hub.get(MEMBER_CLUSTER, "smartfish")["spec"][NEWER] == "kept"


def test_loops_of_both_releases_lead_by_turns_and_write_nothing_anew(fleet, scene, earlier):
    """An upgrade that is rolled back, and done again; what changes meanwhile is carried out by whoever leads."""
    assert any(name.startswith(WORK.kind) for name in versions(fleet))
    loop = fleet.add_reconciler("earlier")
    loop.program.of_release(earlier)
    for number in range(ROUNDS):
        before = versions(fleet)
        with fleet.other_reconcilers(loop):
            fleet.wait_leader("earlier")
            rollout_of_something_else(fleet, scene, f"{PASSING}-down-{number}")
            assert_untouched(fleet, before)
        fleet.wait_leader("first")
        fleet.reconcilers[0].wait_ready()
        rollout_of_something_else(fleet, scene, f"{PASSING}-up-{number}")
        assert_untouched(fleet, before)
        scene.clear()


def test_agents_of_both_releases_take_over_what_the_other_has_applied(fleet, scene, earlier):
    """The hub is upgraded first, as here, or the agents are: the loop of the test before has led agents of today.

    A member stays Joined, and its figures stay, while its agent is of another release than the loop.
    """
    agent = fleet.make_agent("smartfish")
    agent.program.of_release(earlier)

    def beat() -> str:
        status = fleet.on_hub.get(MEMBER_CLUSTER, "smartfish")["status"]
        return str(status["agentStatus"][0]["lastReceivedHeartbeat"])

    for number in range(ROUNDS):
        before = versions(fleet)
        with fleet.other_agent(agent, "smartfish"):
            first = beat()
            rollout_of_something_else(fleet, scene, f"{PASSING}-agent-{number}")
            assert_untouched(fleet, before)
            wait_until("another heartbeat", lambda first=first: "" if beat() != first else "none yet")
            fleet.wait_joined()
        assert_untouched(fleet, before)
        fleet.on_hub.patch(CONFIG_MAP, "settings", {"data": {"colour": "grey"}}, f"{PASSING}-agent-{number}")
        wait_complete(fleet, Complete(f"{PASSING}-agent-{number}", ALL, index="2"))
        assert_untouched(fleet, before)
        scene.clear()


@pytest.fixture(scope="module")
def both(fleet: Fleet, earlier: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    """A replica of each release behind one address, over a pool of three nodes, of which one may be disrupted."""
    folder, releases = tmp_path_factory.mktemp("both"), (earlier, THIS_RELEASE)
    with (
        pool_of_nodes(fleet.hub, POOL, nodes=3, limit=1),
        Replicas(fleet.hub, folder, releases, namespace=SYSTEM) as found,
    ):
        yield found


@pytest.fixture
def root(fleet: Fleet, tmp_path: Path) -> Any:
    """A client that may ask everything."""
    return fleet.hub.issue_client_certificate("root", ("system:masters",), tmp_path)


def test_replicas_of_both_releases_answer_whichever_has_registered_them(fleet, both, earlier):
    """helm registers the hooks last, and takes them back last: for a while they are not those of any replica."""
    placements = f"{path_of(PLACEMENT)}?dryRun=All"
    document = made_newer(make_placement("e2e-newer", pick_n(1)))
    for release in (earlier, THIS_RELEASE):
        both.register(release)
        before = [service.reviews() for service in both.services]
        with SteadyWriters(fleet.hub, seconds=0.1) as writers:

            def problem(before: list[int] = before) -> str:
                answered = [service.reviews() - had for service, had in zip(both.services, before, strict=True)]
                return "" if min(answered) >= 20 else f"they have answered {answered} reviews"

            wait_until("both are asked", problem)
            for _ in range(10):
                assert fleet.hub.request("POST", placements, document)[0]["spec"][NEWER] == "kept"
        writers.check()


@pytest.mark.parametrize("registers", ["earlier", "this"])
def test_a_hook_that_one_release_registers_the_other_answers(both, earlier, registers):
    """A replica that does not know a path would refuse every write of that kind until it is replaced."""
    release, other = (earlier, both.services[1]) if registers == "earlier" else (THIS_RELEASE, both.services[0])
    both.register(release)
    answers = {}
    for path in CONFIGURATIONS:
        for hook in both.cluster.request("GET", path)[0]["webhooks"]:
            for number, asked in enumerate(reviews_of(hook)):
                answer = other.ask("POST", urlsplit(hook["clientConfig"]["url"]).path, asked)
                uid = answer.document["response"]["uid"] if answer.status == 200 else answer.body
                answers[hook["name"], number] = answer.status, uid
    assert len(answers) > 20
    assert {hook: found for hook, found in answers.items() if found != (200, "mixed")} == {}


def reviews_of(hook: JsonObject) -> Iterator[JsonObject]:
    """Yield a review for each operation on each kind that a hook is registered for, with an object of nothing."""
    kinds = {kind.resource: kind for kind in (*OUR_KINDS, *KINDS.values())}
    for rule in hook["rules"]:
        for group, resource, operation in product(rule["apiGroups"], rule["resources"], rule["operations"]):
            plural, _, part = resource.partition("/")
            kind = kinds[f"{plural}.{group}" if group else plural]
            version = rule["apiVersions"][0] if rule["apiVersions"] != ["*"] else kind.versions[0]
            document = {"apiVersion": f"{group}/{version}".lstrip("/"), "kind": kind.kind, "metadata": {"name": "x"}}
            request = {
                "uid": "mixed",
                "kind": {"group": group, "version": version, "kind": kind.kind},
                "resource": {"group": group, "version": version, "resource": plural},
                "operation": operation,
                "name": "x",
                "userInfo": {"username": "bob"},
                **({"subResource": part} if part else {}),
                **({} if operation == "DELETE" else {"object": document}),
                **({} if operation == "CREATE" else {"oldObject": document}),
            }
            yield {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def test_what_one_release_has_answered_the_other_answers_too(both, root):
    """A client finds in every answer of this release what it has found in that of the one before."""
    paths = [
        "/v1/clusters",
        "/v1/clusters/smartfish",
        "/v1/placements",
        f"/v1/placements/crp/{LASTING}",
        f"/v1/placements/crp/{LASTING}/runs",
        f"/v1/placements/rp/{CHARTED}/charts",
        "/v1/budgets",
        RESERVATIONS,
    ]
    for path in paths:
        old, new = both.answers("GET", path, client=root)
        assert (old.status, new.status) == (200, 200), path
        assert list(missing(old.document, new.document, path)) == []
    policy = {"placementType": "PickN", "numberOfClusters": 2}
    old, new = both.answers("POST", "/v1/score", {"placement": {"inline": policy}}, client=root)
    assert (old.status, new.status) == (200, 200), old.body + new.body
    assert list(missing(old.document["items"], new.document["items"], "items")) == []
    assert [item["cluster"] for item in old.document["items"]] == [item["cluster"] for item in new.document["items"]]


def missing(old: Any, new: Any, at: str) -> Iterator[str]:
    """Yield where an answer lacks what another one has, or has it as another type."""
    if type(old) is not type(new):
        yield f"{at}: {old!r} and {new!r}"
    elif isinstance(old, dict):
        for key, value in old.items():
            if key not in new:
                yield f"{at}.{key}"
            else:
                yield from missing(value, new[key], f"{at}.{key}")
    elif isinstance(old, list):
        if len(old) != len(new):
            yield f"{at}: {len(old)} and {len(new)}"
        for number, (one, other) in enumerate(zip(old, new, strict=False)):
            yield from missing(one, other, f"{at}[{number}]")


def test_what_one_release_has_reserved_the_other_holds_and_gives_back(both, root):
    question = {"pool": POOL, "reason": "Drifted", "count": 1}
    wanted = {"gate": "disruption", "question": question, "holder": "e2e", "ttlSeconds": 600}
    for service in both.services:

        def problem(service: Any = service) -> str:
            found = service.ask("POST", "/v1/gate/disruption", question, client=root).document
            return "" if found.get("allowed") else str(found)

        wait_until("it knows the nodes of the pool", problem)
    for one, other in (both.services, both.services[::-1]):
        taken = one.ask("POST", RESERVATIONS, wanted, client=root)
        assert taken.status == 201, taken.body
        refused = other.ask("POST", RESERVATIONS, wanted, client=root)
        assert refused.status == 409, refused.body
        given_back = other.ask("DELETE", f"{RESERVATIONS}/{taken.document['id']}", client=root)
        assert given_back.status == 204, given_back.body


def test_what_is_lasting_is_told_from_what_is_not():
    """Else nothing would be compared."""
    assert is_lasting({"metadata": {"name": f"{LASTING}-0"}})
    assert is_lasting({"metadata": {"name": "a", "labels": {"b": LASTING}}})
    assert not is_lasting({"metadata": {"name": PASSING}})
