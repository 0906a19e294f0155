"""Objects that etcd does not take, on a real fleet: they are named, keep what they were, and hold nothing else up.

Source: docs/specifications/rollout.md 3.8.
"""

from collections.abc import Callable, Iterator

import pytest

from e2e.controlplane.cluster import JsonObject
from e2e.fleet.bed import Fleet
from e2e.fleet.objects import CONFIG_MAP, Objects, condition_of, labels_of, make_config_map, make_placement
from e2e.fleet.overrides import patching, resource_override
from e2e.fleet.scene import Scene
from e2e.fleet.waiting import wait_until
from scorer.api.kinds import BINDING, NAMESPACED_OVERRIDE, PLACEMENT, RESOURCE_SNAPSHOT
from scorer.api.names import (
    IS_LATEST_SNAPSHOT,
    NUMBER_OF_RESOURCE_SNAPSHOTS,
    PARENT_PLACEMENT,
    RESOURCE_HASH,
    RESOURCE_INDEX,
)

PAGE = "<td></td>" * 60_000
"""540 KB, and 1.7 MB in etcd, where < and > take six bytes each."""
FILLER = "x" * 800_000
TOO_LARGE = "ClusterResourcePlacementObjectsTooLarge"


@pytest.fixture(autouse=True)
def emptied(scene: Scene) -> Iterator[None]:
    yield
    scene.clear()


def data_on(objects: Objects, name: str, home: str) -> JsonObject | None:
    """The data of a ConfigMap; None when there is none."""
    found = objects.find(CONFIG_MAP, name, home)
    return None if found is None else found.get("data") or {}


def wait_everywhere(fleet: Fleet, home: str, wanted: dict[str, Callable[[JsonObject | None], bool]]) -> None:
    """Wait until the ConfigMaps of a namespace are on every member as wanted."""

    def problem() -> str:
        for member, objects in fleet.clusters.items():
            for name, good in wanted.items():
                if not good(found := data_on(objects, name, home)):
                    shown = None if found is None else {key: value[:40] for key, value in found.items()}
                    status = fleet.on_hub.get(PLACEMENT, home).get("status")
                    return f"{name} on {member} is {shown}; {str(status)[:1500]}; {fleet.last_words()}"
        return ""

    wait_until(f"content of {home}", problem)


def has(**data: str) -> Callable[[JsonObject | None], bool]:
    return lambda found: found == data


def is_absent(found: JsonObject | None) -> bool:
    return found is None


def wait_named(fleet: Fleet, home: str, *names: str) -> None:
    """Wait until the placement names these objects as too large, and no others."""

    def problem() -> str:
        document = fleet.on_hub.get(PLACEMENT, home)
        message = condition_of(document, TOO_LARGE).get("message", "")
        good = all(f"{home}/{name} " in message for name in names) and bool(names) == bool(message)
        return "" if good else f"{TOO_LARGE} says {message!r}: {str(document.get('status'))[:1500]}"

    wait_until(f"what is too large of {home}", problem)


def notes(fleet: Fleet, home: str) -> str:
    listing, _ = fleet.hub.request("GET", "/apis/events.k8s.io/v1/events")
    about = (item for item in listing["items"] if item.get("regarding", {}).get("name") == home)
    return "\n".join(item["note"] for item in about if item["reason"] == "PlacementObjectsTooLarge")


def test_an_object_that_etcd_does_not_take_is_named_and_the_rest_is_carried(fleet, scene):
    home = "e2e-large-page"
    scene.home(home, make_config_map("filler", home, data=FILLER), make_config_map("page", home, html="small"), n="1")
    scene.put(make_placement(home))
    wait_everywhere(fleet, home, {"settings": has(n="1"), "page": has(html="small")})

    fleet.on_hub.patch(CONFIG_MAP, "page", {"data": {"html": PAGE}}, home)
    scene.put(make_config_map("new", home, html=PAGE))
    fleet.on_hub.patch(CONFIG_MAP, "settings", {"data": {"n": "2"}}, home)
    wait_everywhere(fleet, home, {"settings": has(n="2"), "page": has(html="small"), "new": is_absent})
    wait_named(fleet, home, "page", "new")
    wait_until("an Event", lambda: "" if f"{home}/page " in notes(fleet, home) else "there is none")

    for snapshot in fleet.on_hub.all(RESOURCE_SNAPSHOT):
        if labels_of(snapshot).get(PARENT_PLACEMENT) == home:
            fleet.on_hub.delete(RESOURCE_SNAPSHOT, snapshot["metadata"]["name"])
    fleet.on_hub.patch(CONFIG_MAP, "settings", {"data": {"n": "3"}}, home)
    wait_everywhere(fleet, home, {"settings": has(n="3"), "page": has(html="small")})

    fleet.on_hub.patch(CONFIG_MAP, "new", {"data": {"html": "fits"}}, home)
    wait_everywhere(fleet, home, {"new": has(html="fits"), "page": has(html="small")})
    wait_named(fleet, home, "page")
    fleet.on_hub.delete(CONFIG_MAP, "page", home)
    wait_everywhere(fleet, home, {"page": is_absent, "settings": has(n="3"), "filler": has(data=FILLER)})
    wait_named(fleet, home)


def test_a_binding_on_an_incomplete_snapshot_group_gets_newer_content(fleet, scene):
    """Releases that wrote the master first left bindings on such groups, and nothing moved them any more."""
    home = "e2e-large-torn"
    scene.home(home, n="1")
    scene.put(make_placement(home))
    wait_everywhere(fleet, home, {"settings": has(n="1")})

    loop = fleet.reconcilers[0]
    loop.stop()
    try:
        master = fleet.on_hub.get(RESOURCE_SNAPSHOT, f"{home}-0-snapshot")
        labels, owners = master["metadata"]["labels"], master["metadata"]["ownerReferences"]
        fleet.on_hub.patch(
            RESOURCE_SNAPSHOT, f"{home}-0-snapshot", {"metadata": {"labels": {IS_LATEST_SNAPSHOT: "false"}}}
        )
        torn = {
            "apiVersion": RESOURCE_SNAPSHOT.api_version,
            "kind": RESOURCE_SNAPSHOT.kind,
            "metadata": {
                "name": f"{home}-1-snapshot",
                "labels": {**labels, RESOURCE_INDEX: "1", IS_LATEST_SNAPSHOT: "true"},
                "annotations": {
                    **master["metadata"]["annotations"],
                    RESOURCE_HASH: "0" * 64,
                    NUMBER_OF_RESOURCE_SNAPSHOTS: "2",
                },
                "ownerReferences": owners,
            },
            "spec": master["spec"],
        }
        fleet.on_hub.create(torn)
        bindings = [item for item in fleet.on_hub.all(BINDING) if labels_of(item).get(PARENT_PLACEMENT) == home]
        assert len(bindings) == len(fleet.members)
        for binding in bindings:
            fleet.on_hub.patch(
                BINDING, binding["metadata"]["name"], {"spec": {"resourceSnapshotName": f"{home}-1-snapshot"}}
            )
        fleet.on_hub.patch(CONFIG_MAP, "settings", {"data": {"n": "2"}}, home)
    finally:
        loop.start()
    wait_everywhere(fleet, home, {"settings": has(n="2")})


def test_an_object_that_an_override_makes_too_large_keeps_its_content_on_that_cluster(fleet, scene):
    home = "e2e-large-override"
    scene.home(home, make_config_map("filler", home, data=FILLER), n="1")
    scene.put(make_placement(home))
    wait_everywhere(fleet, home, {"settings": has(n="1"), "filler": has(data=FILLER)})

    more = {"op": "add", "path": "/data/more", "value": FILLER}
    late = {"op": "add", "path": "/data/late", "value": "1"}
    scene.put(resource_override("grown", home, "filler", patching(more, env="staging")))
    scene.put(resource_override("same", home, "settings", patching(late, env="staging")))
    grown = [
        name for name, member in fleet.members.items() if member.document["metadata"]["labels"].get("env") == "staging"
    ]
    assert len(grown) == 1

    def problem() -> str:
        document = fleet.on_hub.get(PLACEMENT, home)
        message = condition_of(document, TOO_LARGE).get("message", "")
        if f"on {grown[0]}: ConfigMap {home}/filler (" in message and "keeps its last content" in message:
            return ""
        return f"{TOO_LARGE} says {message!r}: {str(document.get('status'))[:1500]}; {fleet.last_words()}"

    wait_until("the object is named", problem)
    wait_until(
        "the other override is carried",
        lambda: "" if data_on(fleet.clusters[grown[0]], "settings", home) == {"n": "1", "late": "1"} else "not yet",
    )
    wait_everywhere(fleet, home, {"filler": has(data=FILLER)})
    fleet.on_hub.delete(NAMESPACED_OVERRIDE, "grown", home)
    wait_named(fleet, home)
