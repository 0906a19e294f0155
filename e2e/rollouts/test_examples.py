"""The example fleet on real clusters: three of its members, all of its content and all of its placements.

Which clusters each placement gets is asked of ``harbormaster plan``, which decides on files and knows no loop.
"""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from e2e.controlplane.cluster import JsonObject
from e2e.controlplane.service import HARBORMASTER
from e2e.fleet.bed import EXAMPLES, MEMBERS, Fleet
from e2e.fleet.conditions import rows_of
from e2e.fleet.objects import name_of
from e2e.fleet.scene import Scene
from e2e.fleet.settled import assert_settled
from e2e.fleet.waiting import wait_until
from scorer.api.kinds import MEMBER_CLUSTER, PLACEMENT, RESOURCE_PLACEMENT
from scorer.api.values.quantity import Quantity, parse_quantity

EXTERNAL = {"flags"}


def documents(*patterns: str) -> list[JsonObject]:
    """The objects of the example files."""
    paths = sorted(path for pattern in patterns for path in EXAMPLES.glob(pattern))
    return [item for path in paths for item in yaml.safe_load_all(path.read_text(encoding="utf-8")) if item]


@pytest.fixture(scope="module", autouse=True)
def examples(fleet: Fleet) -> Iterator[Scene]:
    scene = Scene(fleet)
    content = documents("apps-*.yaml")
    content.sort(key=lambda item: item["kind"] != "Namespace")
    scene.put(*content, *documents("placements-*.yaml"))
    yield scene
    scene.clear(120)
    assert_settled(fleet)


@pytest.fixture(scope="module")
def planned(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> dict[str, JsonObject]:
    """What ``harbormaster plan`` says of the same placements on members that report the same, by placement."""

    def problem() -> str:  # `rates` needs to know which members have its namespace
        members = fleet.on_hub.all(MEMBER_CLUSTER)
        homes = [item["metadata"]["name"] for item in members if "pricing" in (item["status"].get("namespaces") or {})]
        return "" if sorted(homes) == ["bravelion", "smartfish"] else f"namespace pricing is known of {homes}"

    wait_until("members report the namespace pricing", problem)
    folder: Path = tmp_path_factory.mktemp("plan")
    given = [*fleet.on_hub.all(MEMBER_CLUSTER), *documents("apps-*.yaml", "placements-*.yaml", "strategies.yaml")]
    (folder / "fleet.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": given}))
    done = subprocess.run(
        [HARBORMASTER, "plan", "-f", folder, "-o", "json"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2, done.stderr
    placements = json.loads(done.stdout)["placements"]
    return {f"{item['namespace']}/{item['name']}" if item["namespace"] else item["name"]: item for item in placements}


def test_the_agents_report_what_the_examples_say(fleet):
    """Nodes, sizes and prices of the member clusters, counted from their nodes by the agents."""
    for member in fleet.members.values():
        status, wanted = fleet.on_hub.get(MEMBER_CLUSTER, member.name)["status"], member.document["status"]
        found = {name: status["properties"].get(name, {}).get("value") for name in wanted["properties"]}
        assert found == {name: entry["value"] for name, entry in wanted["properties"].items()}, member.name
        assert amounts(status, "capacity") == amounts(wanted, "capacity")
        assert amounts(status, "available") == amounts(status, "allocatable")


def amounts(status: JsonObject, word: str) -> dict[str, Quantity]:
    return {name: parse_quantity(text) for name, text in status["resourceUsage"][word].items()}


def test_every_example_gets_the_clusters_that_plan_names(fleet, planned):
    def problem() -> str:
        wrong = []
        for kind in (PLACEMENT, RESOURCE_PLACEMENT):
            for placement in fleet.on_hub.all(kind):
                entries = (placement.get("status") or {}).get("placementStatuses") or ()
                found = sorted(entry["clusterName"] for entry in entries if entry.get("clusterName"))
                wanted = sorted(picked["cluster"] for picked in planned[name_of(placement)]["picked"])
                if found != wanted:
                    wrong.append(f"{name_of(placement)} has {found}, not {wanted}")
        return "; ".join(wrong)

    assert {cluster for item in planned.values() for cluster in (p["cluster"] for p in item["picked"])} == set(MEMBERS)
    wait_until("the examples are placed", problem)


def test_every_example_comes_to_its_end(fleet, planned):
    """All that was planned is applied and available; what is short says so, External waits for its run."""
    short = {name for name, item in planned.items() if not item["satisfied"]}
    assert "reports" in short
    nowhere = {name for name, item in planned.items() if not item["picked"]}
    assert_settled(fleet, short=short, unfinished={*EXTERNAL, *nowhere})
    for name in nowhere:
        kinds = [row[0] for row in rows_of(fleet.on_hub.get(PLACEMENT, name))]
        assert kinds == ["ClusterResourcePlacementScheduled"], name
