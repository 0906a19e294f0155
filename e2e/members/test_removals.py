"""Placements that are deleted while a member cannot let their content go: they say so, and nothing hangs unseen.

A finalizer of another controller keeps an object on a member, or the agent of a member is away.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from e2e.fleet.joining import CONFIG_MAP, MEMBER, NAMESPACE, Pair
from e2e.fleet.objects import (
    Objects,
    condition_of,
    make_config_map,
    make_namespace,
    make_placement,
    make_resource_placement,
)
from e2e.fleet.waiting import wait_until
from scorer.api.kinds import BINDING, KINDS, NAMESPACED_BINDING, PLACEMENT, RESOURCE_PLACEMENT, WORK, Kind
from scorer.api.meta import JsonObject
from scorer.api.names import FORGET_WORKS, PARENT_PLACEMENT
from scorer.api.unstructured.documents import labels_of

EVENTS = KINDS["events.k8s.io", "Event"]
FINALIZER = "example.com/hold"
SPACE = f"fleet-member-{MEMBER}"


@pytest.fixture
def joined(pair_with_loop: Pair) -> Pair:
    """The two clusters, one a member of the other, with loop and agent."""
    pair_with_loop.join()
    pair_with_loop.start_agent()
    return pair_with_loop


@pytest.fixture
def held(joined: Pair) -> Iterator[str]:
    """The name of a placement, of its namespace and of that on the member; all are gone at the end."""
    name = "held"
    joined.on_hub.create(make_namespace(name))
    joined.on_hub.create(make_config_map("settings", name, colour="blue"))
    joined.on_hub.create(make_placement(name))
    wait_until("the content is placed", placed(joined, name))
    yield name
    joined.on_hub.delete(PLACEMENT, name)
    wait_until("the placement goes", gone(joined.on_hub, PLACEMENT, name))
    remove_namespaces(joined, name)


@pytest.fixture
def namespaced(joined: Pair) -> Iterator[str]:
    """The name of a namespace with a ResourcePlacement whose content is on the member; gone from both at the end."""
    name = "terminating"
    joined.on_hub.create(make_namespace(name))
    joined.in_member.create(make_namespace(name))
    settings = make_config_map("settings", name, colour="blue")
    joined.on_hub.create({**settings, "metadata": {**settings["metadata"], "labels": {"app": "web"}}})
    joined.on_hub.create(make_resource_placement("web", name))
    wait_until("the content is placed", placed(joined, name))
    yield name
    remove_namespaces(joined, name)


def remove_namespaces(pair: Pair, name: str) -> None:
    for objects in (pair.on_hub, pair.in_member):
        objects.delete(NAMESPACE, name)
        wait_until("the namespace goes", gone(objects, NAMESPACE, name))


def says(pair: Pair, name: str, *words: str) -> Callable[[], str]:
    """A problem until the placement says all words about its removal."""

    def problem() -> str:
        placement = pair.on_hub.find(PLACEMENT, name) or {}
        said = condition_of(placement, "ClusterResourcePlacementRemoved").get("message", "")
        return "" if all(word in said for word in words) else f"it says {said!r}"

    return problem


def gone(objects: Objects, kind: Kind, name: str, namespace: str = "") -> Callable[[], str]:
    """A problem while an object is there."""
    return lambda: "it is there" if objects.find(kind, name, namespace) else ""


def placed(pair: Pair, namespace: str) -> Callable[[], str]:
    """A problem until the member has the ConfigMap."""
    return lambda: "" if pair.in_member.find(CONFIG_MAP, "settings", namespace) else "it is not placed"


def notes(pair: Pair, reason: str, name: str) -> list[str]:
    """The notes of the Events of a reason about an object of a name."""
    events = pair.on_hub.all(EVENTS)
    return [event["note"] for event in events if event["reason"] == reason and event["regarding"]["name"] == name]


@contextmanager
def finalizer(pair: Pair, namespace: str) -> Iterator[None]:
    """Keep the ConfigMap on the member by a finalizer until the block ends."""
    pair.in_member.patch(CONFIG_MAP, "settings", {"metadata": {"finalizers": [FINALIZER]}}, namespace)
    try:
        yield
    finally:
        pair.in_member.patch(CONFIG_MAP, "settings", {"metadata": {"finalizers": None}}, namespace)


@contextmanager
def agent_away(pair: Pair) -> Iterator[None]:
    """Stop the agent of the member until the block ends."""
    pair.stop_agent()
    try:
        yield
    finally:
        pair.start_agent()


def test_a_placement_names_the_finalizer_that_keeps_an_object_on_a_member(joined: Pair, held: str) -> None:
    with finalizer(joined, held):
        joined.on_hub.delete(PLACEMENT, held)
        wait_until("it is reported", says(joined, held, MEMBER, f"ConfigMap {held}/settings", FINALIZER))
        wait_until("an Event says so", lambda: "" if notes(joined, "PlacementNotRemoved", held) else "there is none")
    wait_until("the placement goes", gone(joined.on_hub, PLACEMENT, held))
    assert not joined.in_member.find(CONFIG_MAP, "settings", held)


def test_a_finalizer_of_the_hub_keeps_nothing_on_a_member(joined: Pair) -> None:
    name = "finalized"
    joined.on_hub.create(make_namespace(name))
    settings = make_config_map("settings", name, colour="blue")
    joined.on_hub.create({**settings, "metadata": {**settings["metadata"], "finalizers": [FINALIZER]}})
    joined.on_hub.create(make_placement(name))
    wait_until("the content is placed", placed(joined, name))
    assert "finalizers" not in joined.in_member.get(CONFIG_MAP, "settings", name)["metadata"]
    joined.on_hub.delete(CONFIG_MAP, "settings", name)
    joined.on_hub.patch(CONFIG_MAP, "settings", {"metadata": {"finalizers": None}}, name)
    wait_until("the content goes", gone(joined.in_member, CONFIG_MAP, "settings", name))
    joined.on_hub.delete(PLACEMENT, name)
    wait_until("the placement goes", gone(joined.on_hub, PLACEMENT, name))
    wait_until("its namespace goes", gone(joined.in_member, NAMESPACE, name))
    remove_namespaces(joined, name)


def test_a_placement_waits_for_an_agent_that_is_away(joined: Pair, held: str) -> None:
    with agent_away(joined):
        joined.on_hub.delete(PLACEMENT, held)
        wait_until("it is reported", says(joined, held, MEMBER, f"Work {held}-work"))
        assert joined.in_member.find(CONFIG_MAP, "settings", held)
    wait_until("the placement goes", gone(joined.on_hub, PLACEMENT, held))
    assert not joined.in_member.find(CONFIG_MAP, "settings", held)


def test_a_placement_can_be_told_to_forget_its_works(joined: Pair, held: str) -> None:
    with agent_away(joined):
        joined.on_hub.delete(PLACEMENT, held)
        wait_until("it is reported", says(joined, held, MEMBER))
        joined.on_hub.patch(PLACEMENT, held, {"metadata": {"annotations": {FORGET_WORKS: "true"}}})
        wait_until("the placement goes", gone(joined.on_hub, PLACEMENT, held))
        wait_until("an Event says so", lambda: "" if notes(joined, "PlacementWorksLeft", held) else "there is none")
        assert joined.on_hub.find(WORK, f"{held}-work", SPACE)
    # The order stands on the Work: the agent carries it out when it is back.
    wait_until("the content goes", gone(joined.in_member, CONFIG_MAP, "settings", held))
    wait_until("the Work goes", gone(joined.on_hub, WORK, f"{held}-work", SPACE))


def test_a_namespace_that_is_deleted_does_not_wait_for_members(joined: Pair, namespaced: str) -> None:
    with agent_away(joined):
        joined.on_hub.delete(NAMESPACE, namespaced)
        wait_until("the namespace goes", gone(joined.on_hub, NAMESPACE, namespaced))
        assert not joined.on_hub.all(RESOURCE_PLACEMENT, namespaced)
        assert not joined.on_hub.all(NAMESPACED_BINDING, namespaced)
        (note,) = notes(joined, "PlacementWorksLeft", namespaced)
        assert f"{MEMBER}: Work {namespaced}.web-work" in note
        assert joined.in_member.find(CONFIG_MAP, "settings", namespaced)
    wait_until("the content goes", gone(joined.in_member, CONFIG_MAP, "settings", namespaced))
    wait_until("the Work goes", gone(joined.on_hub, WORK, f"{namespaced}.web-work", SPACE))


def test_a_binding_that_is_unscheduled_by_hand_is_restored_and_its_member_is_not_touched(
    joined: Pair, held: str
) -> None:
    wait_until("the placement is available", available(joined, held))
    before = {kind: joined.in_member.get(kind, *key)["metadata"] for kind, key in contents(held)}
    binding = binding_of(joined, held)
    joined.on_hub.patch(BINDING, binding["metadata"]["name"], {"spec": {"state": "Unscheduled"}})
    wait_until("an Event says so", lambda: "" if notes(joined, "BindingsRestored", held) else "there is none")
    wait_until("the placement is available", available(joined, held))
    restored = binding_of(joined, held)
    assert (restored["metadata"]["uid"], restored["spec"]) == (binding["metadata"]["uid"], binding["spec"])
    after = {kind: joined.in_member.get(kind, *key)["metadata"] for kind, key in contents(held)}
    assert {kind: found["resourceVersion"] for kind, found in after.items()} == {
        kind: found["resourceVersion"] for kind, found in before.items()
    }


def binding_of(pair: Pair, placement: str) -> JsonObject:
    (binding,) = (item for item in pair.on_hub.all(BINDING) if labels_of(item).get(PARENT_PLACEMENT) == placement)
    return binding


def contents(name: str) -> list[tuple[Kind, tuple[str, ...]]]:
    """The objects of the placement on the member."""
    return [(NAMESPACE, (name,)), (CONFIG_MAP, ("settings", name))]


def available(pair: Pair, name: str) -> Callable[[], str]:
    """A problem until the placement is available."""

    def problem() -> str:
        placement = pair.on_hub.get(PLACEMENT, name)
        found = condition_of(placement, "ClusterResourcePlacementAvailable")
        return "" if found.get("status") == "True" else f"it says {found}"

    return problem
