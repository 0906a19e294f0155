"""A placement that only reports differences, over its whole life: its agents write to no object on their members.

The objects exist on the members before. The audit logs of the members tell what the agents write.
"""

from collections.abc import Iterator

import pytest

from e2e.controlplane.cluster import JsonObject
from e2e.fleet.bed import Fleet
from e2e.fleet.objects import CONFIG_MAP, applying, condition_of, make_config_map, make_namespace, make_placement
from e2e.fleet.scene import Scene
from e2e.fleet.settled import assert_settled
from e2e.fleet.waiting import wait_until
from e2e.fleet.writes import Writes, resources
from scorer.api.kinds import APPLIED_WORK, BINDING, EVICTION, MEMBER_CLUSTER, NAMESPACE, PLACEMENT, WORK
from scorer.api.names import PARENT_PLACEMENT, member_namespace

HOME = "e2e-compared"
FIRST, SECOND = "bravelion", "jumpingcat"
LABEL = "e2e-compared"
OWN = {APPLIED_WORK.plural, f"{APPLIED_WORK.plural}/status", "events"}
"""What an agent writes for itself."""


@pytest.fixture
def scene(fleet: Fleet) -> Iterator[Scene]:
    found = Scene(fleet)
    yield found
    found.clear()
    for member in (FIRST, SECOND):
        fleet.on_hub.patch(MEMBER_CLUSTER, member, {"metadata": {"labels": {LABEL: None}}})
    assert_settled(fleet)


def labelled(value: str) -> JsonObject:
    """All members that have the label with this value."""
    terms = {"clusterSelectorTerms": [{"labelSelector": {"matchLabels": {LABEL: value}}}]}
    affinity = {"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    return {"placementType": "PickAll", "affinity": affinity}


def set_label(fleet: Fleet, member: str, value: str | None) -> None:
    fleet.on_hub.patch(MEMBER_CLUSTER, member, {"metadata": {"labels": {LABEL: value}}})


def wait_compared(fleet: Fleet, *members: str) -> None:
    """Wait until exactly these members report their differences, and no other has a Work left."""

    def problem() -> str:
        bindings = [each for each in fleet.on_hub.all(BINDING) if each["metadata"]["labels"][PARENT_PLACEMENT] == HOME]
        reported = {
            each["spec"]["targetCluster"]
            for each in bindings
            if condition_of(each, "DiffReported").get("status") == "True" and each["spec"]["state"] == "Bound"
        }
        left = [each for each in (FIRST, SECOND) if fleet.on_hub.find(WORK, f"{HOME}-work", member_namespace(each))]
        held = [name for name, objects in fleet.clusters.items() if objects.find(APPLIED_WORK, f"{HOME}-work")]
        expected = sorted(members)
        return "" if sorted(reported) == sorted(left) == sorted(held) == expected else f"{reported}, {left}, {held}"

    wait_until(f"{members} are compared", problem)


THERE = ((NAMESPACE, HOME, ""), (CONFIG_MAP, "settings", HOME), (CONFIG_MAP, "local", HOME))


def content(fleet: Fleet) -> list[JsonObject | None]:
    """All that was there before, as it is now."""
    return [fleet.clusters[member].find(*place) for member in (FIRST, SECOND) for place in THERE]


@pytest.mark.parametrize("take_over", ["Always", "IfNoDiff", "Never"])
def test_a_comparison_writes_to_nothing_in_its_whole_life(fleet: Fleet, scene: Scene, take_over: str) -> None:
    for member in (FIRST, SECOND):
        local = make_config_map("local", HOME, kept="yes")
        scene.put(make_namespace(HOME), make_config_map("settings", HOME, a="2"), local, on=fleet.clusters[member])
    scene.home(HOME, a="1")
    set_label(fleet, FIRST, "one")
    set_label(fleet, SECOND, "two")
    before, writes = content(fleet), Writes(fleet)
    strategy = applying(type="ReportDiff", whenToTakeOver=take_over)
    scene.put(make_placement(HOME, labelled("one"), home=HOME, strategy=strategy))
    wait_compared(fleet, FIRST)
    fleet.on_hub.patch(PLACEMENT, HOME, {"spec": {"policy": labelled("two")}})
    wait_compared(fleet, SECOND)
    set_label(fleet, FIRST, "two")
    wait_compared(fleet, FIRST, SECOND)
    set_label(fleet, SECOND, "three")
    spec = {"placementName": HOME, "clusterName": SECOND}
    eviction = {"apiVersion": EVICTION.api_version, "kind": EVICTION.kind, "metadata": {"name": HOME}, "spec": spec}
    scene.put(eviction)
    wait_compared(fleet, FIRST)
    fleet.on_hub.delete(PLACEMENT, HOME)
    wait_compared(fleet)
    assert content(fleet) == before
    assert {resource for each in writes.on_members().values() for resource in resources(each)} <= OWN
