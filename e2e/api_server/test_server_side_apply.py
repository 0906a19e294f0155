"""Server-side apply on the hub of ``harbormaster up`` beside a real API server: the same requests, the same outcome."""

import json
import random
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any, Final
from urllib.parse import urlencode

import pytest

from e2e.conftest import DEFINITIONS
from e2e.controlplane.cluster import ApiError, Cluster, JsonObject
from e2e.controlplane.process import PATIENCE
from e2e.fleet.waiting import wait_until
from scorer.api.kinds import PLACEMENT
from tests.webhook.cli.conftest import TOKEN, running_hub

APPLY: Final = "application/apply-patch+yaml"
BY_NAME: Final = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "side"]}
TEXT: Final = {"type": "string"}
ROPE: Final = {
    "type": "object",
    "required": ["name", "side"],
    "properties": {"name": TEXT, "side": TEXT, "metres": {"type": "integer"}},
}
SPEC: Final = {
    "type": "object",
    "properties": {
        "sails": {"type": "integer"},
        "flags": {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
        "ropes": {"type": "array", "items": ROPE, **BY_NAME},
        "crew": {"type": "array", "items": TEXT},
        "engine": {"type": "object", "properties": {"fuel": TEXT, "power": {"type": "integer"}}},
        "home": {
            "type": "object",
            "properties": {"port": TEXT, "berth": TEXT},
            "x-kubernetes-map-type": "atomic",
        },
        "notes": {"type": "object", "additionalProperties": TEXT},
        "extra": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}
BOATS: Final = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "boats.harbour.example.com"},
    "spec": {
        "group": "harbour.example.com",
        "scope": "Cluster",
        "names": {"kind": "Boat", "plural": "boats", "singular": "boat", "listKind": "BoatList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": SPEC}}},
            }
        ],
    },
}
WHOLE: Final = frozenset({"sails", "crew", "home"})
"""Fields of a boat that have one owner."""

PATH: Final = "/apis/harbour.example.com/v1/boats"

Ask = Callable[..., tuple[int, JsonObject]]


@pytest.fixture(scope="module")
def sides(twin: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Ask, Ask]]:
    """What asks our hub, and what asks the API server; both serve boats."""
    with running_hub(tmp_path_factory.mktemp("up") / "hub") as hub:
        trust = ssl.create_default_context(cafile=str(hub.data / "ca.crt"))

        def ours(method: str, path: str, body: object = None, content_type: str = "application/json") -> Any:
            headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": content_type}
            content = None if body is None else json.dumps(body).encode()
            request = urllib.request.Request(hub.url + path, content, headers, method=method)
            try:
                with urllib.request.urlopen(request, context=trust, timeout=PATIENCE) as answer:
                    return answer.status, json.load(answer)
            except urllib.error.HTTPError as error:
                return error.code, json.load(error)

        def theirs(method: str, path: str, body: object = None, content_type: str = "application/json") -> Any:
            try:
                return 200, twin.request(method, path, body, content_type=content_type)[0]
            except ApiError as error:
                return error.code, error.status

        for ask in (ours, theirs):
            assert ask("POST", DEFINITIONS, BOATS)[0] < 300
            wait_until("boats are served", lambda ask=ask: "" if ask("GET", PATH)[0] == 200 else "not yet")
        yield ours, theirs
        theirs("DELETE", f"{DEFINITIONS}/boats.harbour.example.com")


def apply(ask: Ask, manager: str, document: JsonObject, *, force: bool = False, path: str = PATH) -> Any:
    query = urlencode({"fieldManager": manager, "force": str(force).lower()})
    return ask("PATCH", f"{path}/{document['metadata']['name']}?{query}", document, APPLY)


def boat(name: str, spec: JsonObject, **metadata: object) -> JsonObject:
    return {
        "apiVersion": "harbour.example.com/v1",
        "kind": "Boat",
        "metadata": {"name": name, **metadata},
        "spec": spec,
    }


def seen(answer: tuple[int, JsonObject]) -> tuple[Any, ...]:
    """What is the same on both sides: content, owners, conflicts; not times, versions and uids."""
    code, document = answer
    if code >= 300:
        found = {(cause["message"].partition(" at ")[0], cause["field"]) for cause in causes(document)}
        return code, document["reason"], found
    metadata = document["metadata"]
    owners = [
        (entry["manager"], entry["operation"], json.dumps(entry["fieldsV1"], sort_keys=True))
        for entry in metadata.get("managedFields", ())
    ]
    kept = {name: metadata.get(name) for name in ("labels", "annotations", "finalizers")}
    return "done", document.get("spec", document.get("data")), kept, sorted(owners)


def causes(document: JsonObject) -> list[JsonObject]:
    return list((document.get("details") or {}).get("causes") or ())


def config_map(labels: JsonObject, **data: str) -> JsonObject:
    metadata = {"name": "boat", "namespace": "default", "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def placement(name: str, **policy: object) -> JsonObject:
    selectors = [{"group": "", "version": "v1", "kind": "Namespace", "name": name}]
    head = {"apiVersion": f"{PLACEMENT.group}/v1", "kind": PLACEMENT.kind, "metadata": {"name": name}}
    return {**head, "spec": {"resourceSelectors": selectors, "policy": policy}}


def test_kinds_of_kubernetes_and_ours_are_divided_alike(sides: tuple[Ask, Ask]) -> None:
    """Data of a ConfigMap by its keys, a placement by its published schema: its lists are each one value."""
    maps, placements = "/api/v1/namespaces/default/configmaps", f"/apis/{PLACEMENT.group}/v1/{PLACEMENT.plural}"
    steps = [
        (maps, "ann", config_map({"a": "1"}, k="1", l="1"), False),
        (maps, "bob", config_map({"b": "1"}, k="2", l="1"), False),
        (maps, "bob", config_map({"b": "1"}, k="2", l="1"), True),
        (maps, "ann", config_map({}, l="1"), False),
        (maps, "bob", config_map({}), False),
        (placements, "ann", placement("web", placementType="PickN", numberOfClusters=1), False),
        (placements, "bob", placement("web", placementType="PickN", numberOfClusters=2), False),
        (placements, "bob", placement("web", numberOfClusters=2), True),
        (placements, "ann", placement("web", placementType="PickN"), False),
    ]
    for number, (path, manager, document, force) in enumerate(steps):
        ours, theirs = (apply(ask, manager, document, force=force, path=path) for ask in sides)
        (code, *found), (wanted_code, *wanted) = seen(ours), seen(theirs)
        if path == placements and code == wanted_code == "done":  # there, nobody fills in what our webhook does
            found, wanted = found[2:], wanted[2:]
            assert ours[1]["spec"]["policy"]["numberOfClusters"] == theirs[1]["spec"]["policy"]["numberOfClusters"]
        assert (code, found) == (wanted_code, wanted), number
    for path in (f"{placements}/web", f"{maps}/boat"):
        sides[1]("DELETE", path)


def test_ports_are_told_apart_by_their_protocols(sides: tuple[Ask, Ask]) -> None:
    ports = [{"name": "udp", "port": 53, "protocol": "UDP"}, {"name": "tcp", "port": 53}]
    head = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "dns", "namespace": "default"}}
    service = {**head, "spec": {"ports": ports}}
    path = "/api/v1/namespaces/default/services"
    ours, theirs = (seen(apply(ask, "ann", service, path=path)) for ask in sides)
    assert (ours[0], ours[-1]) == (theirs[0], theirs[-1])
    sides[1]("DELETE", f"{path}/dns")


@pytest.mark.parametrize(
    ("manager", "metadata"),
    [
        pytest.param("m" * 129, {}, id="long-manager"),
        pytest.param("m\x1b", {}, id="unprintable-manager"),
        pytest.param("ann", {"uid": "of-another"}, id="object-is-gone"),
    ],
)
def test_what_is_refused(sides: tuple[Ask, Ask], manager: str, metadata: JsonObject) -> None:
    ours, theirs = (apply(ask, manager, boat("refused", {"sails": 1}, **metadata)) for ask in sides)
    assert (ours[0], ours[1]["reason"]) == (theirs[0], theirs[1]["reason"])


def test_many_who_update(sides: tuple[Ask, Ask]) -> None:
    outcomes = []
    for ask in sides:
        apply(ask, "ann", boat("busy", {"sails": 1}))
        for number in range(14):
            query = urlencode({"fieldManager": f"m{number:02}"})
            patch = {"spec": {"notes": {f"n{number}": "1"}}}
            answer = ask("PATCH", f"{PATH}/busy?{query}", patch, "application/merge-patch+json")
        outcomes.append(seen(answer))
    assert outcomes[0] == outcomes[1]


def wish(dice: random.Random) -> JsonObject:
    """A boat as somebody may want it; few values, so that wishes meet."""
    rope = {"name": dice.choice("ab"), "side": "port", "metres": dice.randint(1, 2)}
    parts = {
        "sails": dice.randint(1, 2),
        "flags": dice.sample("xyz", dice.randint(1, 3)),
        "ropes": [rope, {"name": "c", "side": "starboard", "metres": dice.randint(1, 2)}][: dice.randint(1, 2)],
        "crew": dice.sample("mno", 2),
        "engine": {"fuel": dice.choice(("oil", "sun")), "power": dice.randint(1, 2)},
        "home": {"port": dice.choice(("dover", "faro"))},
        "notes": {dice.choice("uv"): dice.choice("12")},
        "extra": {dice.choice("kl"): dice.choice(({"deep": 1}, {"deep": 2, "more": [1]}, "flat"))},
    }
    labels = {dice.choice("pq"): dice.choice("12")} if dice.random() < 0.5 else {}
    spec = {name: parts[name] for name in dice.sample(list(parts), dice.randint(1, 5))}
    return {"spec": spec, "metadata": {"labels": labels} if labels else {}}


@pytest.mark.parametrize("seed", range(6))
def test_any_wishes_of_three_managers_have_the_outcome_of_an_api_server(sides: tuple[Ask, Ask], seed: int) -> None:
    """Applied in turn, some by force, some as ordinary updates between them."""
    dice = random.Random(seed)
    name = f"boat-{seed}"
    for step in range(25):
        wanted, manager, force = wish(dice), dice.choice(("ann", "bob", "cat")), dice.random() < 0.5
        if step and dice.random() < 0.2:
            # An API server makes null, which it then refuses, of a map or a list that an update has made, whose parts
            # somebody else has taken and dropped: updates leave those alone.
            wanted["spec"] = {field: wanted["spec"][field] for field in WHOLE & wanted["spec"].keys()}
            patch = {"spec": wanted["spec"], "metadata": wanted["metadata"]}
            query = urlencode({"fieldManager": manager})
            ours, theirs = (
                seen(ask("PATCH", f"{PATH}/{name}?{query}", patch, "application/merge-patch+json")) for ask in sides
            )
        else:
            document = boat(name, wanted["spec"], **wanted["metadata"])
            ours, theirs = (seen(apply(ask, manager, document, force=force)) for ask in sides)
        assert ours == theirs, (step, wanted, manager, force)
