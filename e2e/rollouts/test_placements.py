"""Every kind of placement on a real fleet: the state it comes to, on every level, as the tables say.

All placements are made at once; each test looks at one of them.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from e2e.controlplane.cluster import JsonObject
from e2e.fleet.bed import Fleet
from e2e.fleet.cluster_roles import CLUSTER_ROLE, cluster_role
from e2e.fleet.complete import Complete, wait_complete
from e2e.fleet.conditions import rows, rows_of
from e2e.fleet.objects import (
    CONFIG_MAP,
    DEPLOYMENT,
    annotations_of,
    applying,
    labels_of,
    make_config_map,
    make_cron_job,
    make_deployment,
    make_namespace,
    make_placement,
    make_resource_placement,
    pick_fixed,
    pick_n,
    rolling,
    selects,
)
from e2e.fleet.overrides import patching, resource_override
from e2e.fleet.policies import BY_NODES, PRODUCTION
from e2e.fleet.scene import Scene
from e2e.fleet.settled import FLEET, assert_settled
from e2e.fleet.waiting import wait_until
from scorer.api.kinds import KINDS, NAMESPACE, OVERRIDE, PLACEMENT, PLACEMENT_STATUS, RESOURCE_SNAPSHOT, WORK

ALL = ("bravelion", "jumpingcat", "smartfish")


def of(kind: str, name: str, *more: tuple[str, str]) -> list[tuple[str, str]]:
    """A namespace and its settings, in the order in which they are selected."""
    return [("Namespace", name), *([(kind, "settings")] if kind else []), *more]


def envelope(namespace: str) -> JsonObject:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "limits", "namespace": namespace},
        "spec": {"hard": {"pods": "500"}},
    }
    return {
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ResourceEnvelope",
        "metadata": {"name": "limits", "namespace": namespace},
        "data": {"quota.yaml": quota},
    }


def override(name: str, home: str, *rules: JsonObject) -> JsonObject:
    """An override of everything in a namespace."""
    return {
        "apiVersion": OVERRIDE.api_version,
        "kind": OVERRIDE.kind,
        "metadata": {"name": name},
        "spec": {
            "placement": {"name": home},
            "clusterResourceSelectors": [selects(NAMESPACE, home)],
            "policy": {"overrideRules": list(rules)},
        },
    }


def put_overridden(scene: Scene) -> None:
    home = "e2e-overridden"
    scene.home(home, make_config_map("left-out", home, a="1"), where="anywhere")
    where = {"op": "add", "path": "/metadata/labels", "value": {"at": "${MEMBER-CLUSTER-NAME}"}}
    region = {"op": "replace", "path": "/data/where", "value": "${MEMBER-CLUSTER-LABEL-KEY-region}"}
    scene.put(
        override("e2e-labels", home, patching(where, env="prod")),
        resource_override("region", home, "settings", patching(region, env="staging")),
        resource_override(
            "never-in-the-west",
            home,
            "left-out",
            {
                "clusterSelector": {"clusterSelectorTerms": [{"labelSelector": {"matchLabels": {"region": "west"}}}]},
                "overrideType": "Delete",
            },
        ),
        make_placement(home),
    )


def put_compared(fleet: Fleet, scene: Scene) -> None:
    """On one member the namespace and another ConfigMap are there already; on the others nothing is."""
    home = "e2e-compared"
    scene.home(home, colour="blue")
    there = fleet.members["jumpingcat"].objects
    scene.put(make_namespace(home), make_config_map("settings", home, colour="red"), on=there)
    strategy = applying(type="ReportDiff", whenToTakeOver="Never")
    scene.put(make_placement(home, pick_fixed("jumpingcat", "smartfish"), strategy=strategy))


@pytest.fixture(scope="module", autouse=True)
def everything(fleet: Fleet) -> Iterator[Scene]:
    """All placements of this module."""
    scene = Scene(fleet)
    for home in ("all", "two", "fixed", "short", "server-side", "external", "only", "rated"):
        scene.home(f"e2e-{home}", colour="blue")
    scene.put(
        make_placement("e2e-all"),
        make_placement("e2e-two", pick_n(2, affinity=BY_NODES)),
        make_placement("e2e-fixed", pick_fixed("smartfish")),
        make_placement("e2e-short", pick_n(3, affinity=PRODUCTION)),
        make_placement(
            "e2e-server-side",
            strategy=applying(type="ServerSideApply", serverSideApplyConfig={"force": True}),
        ),
        make_placement("e2e-external", strategy={"type": "External"}),
        make_placement("e2e-only", resourceSelectors=[selects(NAMESPACE, "e2e-only", selectionScope="NamespaceOnly")]),
    )
    chosen = make_config_map("chosen", "e2e-some", a="1")
    chosen["metadata"]["labels"] = {"place": "yes"}
    scene.home("e2e-some", chosen, colour="blue")
    scene.put(
        make_placement(
            "e2e-some",
            resourceSelectors=[
                selects(NAMESPACE, "e2e-some", selectionScope="NamespaceWithResourceSelectors"),
                selects(CONFIG_MAP, labelSelector={"matchLabels": {"place": "yes"}}),
            ],
        )
    )
    scene.put(cluster_role("e2e-reader"), cluster_role("e2e-writer"))
    by_label = selects(CLUSTER_ROLE, labelSelector={"matchLabels": {"of": "e2e-roles"}})
    scene.put(make_placement("e2e-roles", resourceSelectors=[by_label]))
    scene.home("e2e-wrapped", envelope("e2e-wrapped"), colour="blue")
    scene.put(make_placement("e2e-wrapped"))
    put_overridden(scene)
    put_compared(fleet, scene)
    scene.home("e2e-accessible", colour="blue")
    accessible = make_placement("e2e-accessible", statusReportingScope="NamespaceAccessible")
    accessible["apiVersion"] = "placement.kubernetes-fleet.io/v1beta1"
    scene.put(accessible)
    scene.home("e2e-jobs", make_cron_job("monthly", "e2e-jobs"))
    scene.put(make_placement("e2e-jobs", strategy=rolling(unavailablePeriodSeconds=1)))
    scene.home("e2e-web", make_deployment("web", "e2e-web"))
    scene.put(make_placement("e2e-web"))
    rates = make_config_map("rates", "e2e-rated", standard="0.19")
    rates["metadata"]["labels"] = {"app": "rates"}
    only = selects(NAMESPACE, "e2e-rated", selectionScope="NamespaceOnly")
    scene.put(rates, make_placement("e2e-rated", pick_fixed("bravelion", "smartfish"), resourceSelectors=[only]))
    scene.put(make_resource_placement("rates", "e2e-rated", policy={"placementType": "PickAll"}))
    yield scene
    scene.clear()
    assert_settled(fleet)


EXPECTED = [
    pytest.param(Complete("e2e-all", ALL, of("ConfigMap", "e2e-all")), id="PickAll", marks=pytest.mark.core),
    pytest.param(
        Complete("e2e-two", ("bravelion", "smartfish"), of("ConfigMap", "e2e-two")), id="PickN", marks=pytest.mark.core
    ),
    pytest.param(
        Complete("e2e-fixed", ("smartfish",), of("ConfigMap", "e2e-fixed")), id="PickFixed", marks=pytest.mark.core
    ),
    pytest.param(
        Complete(
            "e2e-short",
            ("smartfish", "bravelion"),
            of("ConfigMap", "e2e-short"),
            missing=("jumpingcat",),
        ),
        id="PickN-of-more-than-there-are",
    ),
    pytest.param(Complete("e2e-server-side", ALL, of("ConfigMap", "e2e-server-side")), id="ServerSideApply"),
    pytest.param(Complete("e2e-only", ALL, of("", "e2e-only")), id="NamespaceOnly"),
    pytest.param(
        Complete("e2e-some", ALL, [("Namespace", "e2e-some"), ("ConfigMap", "chosen")]),
        id="NamespaceWithResourceSelectors",
    ),
    pytest.param(
        Complete("e2e-roles", ALL, [("ClusterRole", "e2e-reader"), ("ClusterRole", "e2e-writer")]),
        id="cluster-scoped-by-label",
    ),
    pytest.param(
        Complete("e2e-wrapped", ALL, of("ConfigMap", "e2e-wrapped", ("ResourceEnvelope", "limits")), works=2),
        id="envelope",
        marks=pytest.mark.core,
    ),
    pytest.param(
        Complete(
            "e2e-overridden",
            ALL,
            [("Namespace", "e2e-overridden"), ("ConfigMap", "left-out"), ("ConfigMap", "settings")],
            overridden={
                "bravelion": (["e2e-labels-0"], []),
                "jumpingcat": ([], ["e2e-overridden/region-0"]),
                "smartfish": (["e2e-labels-0"], ["e2e-overridden/never-in-the-west-0"]),
            },
        ),
        id="overrides",
        marks=pytest.mark.core,
    ),
    pytest.param(
        Complete(
            "e2e-compared",
            ("jumpingcat", "smartfish"),
            of("ConfigMap", "e2e-compared"),
            report_diff=True,
            lists={"jumpingcat": ["diffedPlacements"], "smartfish": ["diffedPlacements"]},
        ),
        id="ReportDiff",
        marks=pytest.mark.core,
    ),
    pytest.param(
        Complete(
            "e2e-accessible",
            ALL,
            of("ConfigMap", "e2e-accessible"),
            more=[("StatusSynced", "True", "StatusSyncSucceeded")],
        ),
        id="NamespaceAccessible",
    ),
    pytest.param(
        Complete("e2e-jobs", ALL, [("Namespace", "e2e-jobs"), ("CronJob", "monthly")], trackable=False),
        id="untrackable",
    ),
    pytest.param(
        Complete("e2e-web", ALL, [("Namespace", "e2e-web"), ("Deployment", "web")]),
        id="Deployment",
        marks=pytest.mark.core,
    ),
    pytest.param(
        Complete("rates", ("bravelion", "smartfish"), [("ConfigMap", "rates")], "e2e-rated"),
        id="ResourcePlacement",
        marks=pytest.mark.core,
    ),
]


@pytest.mark.parametrize("wanted", EXPECTED)
def test_every_kind_comes_to_the_state_that_the_tables_say(fleet, wanted):
    placement = wait_complete(fleet, wanted)
    if wanted.missing:
        assert "2" in placement["status"]["conditions"][0]["message"]  # how many were found instead


def test_external_stays_scheduled_until_a_run_comes(fleet):
    """Clusters are decided, and nothing else happens: no snapshot of the content, no Works, no verdict beyond."""
    generation = 1

    def problem() -> str:
        placement = fleet.on_hub.get(PLACEMENT, "e2e-external")
        wanted = [
            ("ClusterResourcePlacementScheduled", "True", "SchedulingPolicyFulfilled", generation),
            (
                "ClusterResourcePlacementRolloutStarted",
                "Unknown",
                "RolloutControlledByExternalController",
                generation,
            ),
        ]
        found = rows_of(placement)
        return "" if found == wanted else f"{found}"

    wait_until("External settles", problem)
    status = fleet.on_hub.get(PLACEMENT, "e2e-external")["status"]
    assert status.get("observedResourceIndex", "") == ""
    assert not status.get("selectedResources")
    entries = status["placementStatuses"]
    assert [entry["clusterName"] for entry in entries] == list(ALL)
    for entry in entries:
        assert rows(entry["conditions"])[0] == ("Scheduled", "True", "Scheduled", generation)
        assert entry.get("observedResourceIndex", "") == ""
    parents = [labels_of(item)[f"{FLEET}parent-CRP"] for item in fleet.on_hub.all(RESOURCE_SNAPSHOT)]
    assert "e2e-external" not in parents
    for name, objects in fleet.clusters.items():
        assert objects.find(NAMESPACE, "e2e-external") is None, name


@pytest.mark.core
def test_overrides_are_seen_on_the_members(fleet):
    wait_complete(fleet, next(row.values[0] for row in EXPECTED if row.id == "overrides"))
    found = {name: placed(fleet, name, "e2e-overridden") for name in ALL}
    assert found == {
        "bravelion": {"left-out": ("bravelion", {"a": "1"}), "settings": ("bravelion", {"where": "anywhere"})},
        "jumpingcat": {"left-out": (None, {"a": "1"}), "settings": (None, {"where": "europe"})},
        "smartfish": {"settings": ("smartfish", {"where": "anywhere"})},
    }


def placed(fleet: Fleet, cluster: str, namespace: str) -> dict[str, Any]:
    """ConfigMaps of a namespace on a member, with the label ``at`` and the data of each."""
    items = fleet.members[cluster].objects.all(CONFIG_MAP, namespace)
    return {item["metadata"]["name"]: (labels_of(item).get("at"), item["data"]) for item in items}


def test_an_envelope_is_opened_on_the_members_only(fleet):
    wait_complete(fleet, next(row.values[0] for row in EXPECTED if row.id == "envelope"))
    quota = KINDS["", "ResourceQuota"]
    assert fleet.on_hub.find(quota, "limits", "e2e-wrapped") is None
    for name, objects in fleet.clusters.items():
        assert objects.get(quota, "limits", "e2e-wrapped")["spec"]["hard"] == {"pods": "500"}, name
    entry = fleet.on_hub.get(PLACEMENT, "e2e-wrapped")["status"]["selectedResources"][-1]
    assert (entry["kind"], entry["namespace"], entry["name"]) == ("ResourceEnvelope", "e2e-wrapped", "limits")


def test_differences_are_told_in_full_and_nothing_is_touched(fleet):
    """Where the object differs, the path with both values; where it is missing, the whole of it (rollout.md 11, 14)."""
    placement = wait_complete(fleet, next(row.values[0] for row in EXPECTED if row.id == "ReportDiff"))
    by_cluster = {
        entry["clusterName"]: {item["kind"]: item for item in entry["diffedPlacements"]}
        for entry in placement["status"]["placementStatuses"]
    }
    differing = by_cluster["jumpingcat"]["ConfigMap"]
    assert differing["observedDiffs"] == [{"path": "/data/colour", "valueInMember": "red", "valueInHub": "blue"}]
    assert differing["targetClusterObservedGeneration"] == 0
    assert differing["observationTime"] >= differing["firstDiffedObservedTime"]
    missing = by_cluster["smartfish"]
    assert sorted(missing) == ["ConfigMap", "Namespace"]
    for item in missing.values():
        assert [entry["path"] for entry in item["observedDiffs"]] == ["/"]
        assert "targetClusterObservedGeneration" not in item
    assert fleet.members["smartfish"].objects.find(NAMESPACE, "e2e-compared") is None
    live = fleet.members["jumpingcat"].objects.get(CONFIG_MAP, "settings", "e2e-compared")
    assert live["data"] == {"colour": "red"}
    assert "ownerReferences" not in live["metadata"]


@pytest.mark.core
def test_what_is_applied_says_how(fleet):
    """Client-side: the manifest in an annotation; server-side: the fields of our manager (rollout.md 11.6)."""
    wait_complete(fleet, next(row.values[0] for row in EXPECTED if row.id == "PickAll"))
    wait_complete(fleet, next(row.values[0] for row in EXPECTED if row.id == "ServerSideApply"))
    objects = fleet.members["bravelion"].objects
    client, server = (objects.get(CONFIG_MAP, "settings", f"e2e-{home}") for home in ("all", "server-side"))
    assert f"{FLEET}last-applied-configuration" in annotations_of(client)
    managers = {entry["manager"]: entry["operation"] for entry in server["metadata"]["managedFields"]}
    assert managers.get("work-api-agent") == "Apply"
    owner = client["metadata"]["ownerReferences"]
    assert [(item["kind"], item["name"], item.get("blockOwnerDeletion")) for item in owner] == [
        ("AppliedWork", "e2e-all-work", True)
    ]


def test_a_namespace_accessible_status_is_a_copy_and_comes_back(fleet):
    placement = wait_complete(fleet, next(row.values[0] for row in EXPECTED if row.id == "NamespaceAccessible"))
    wanted = [row for row in rows_of(placement) if not row[0].endswith("StatusSynced")]

    def problem() -> str:
        copy = fleet.on_hub.find(PLACEMENT_STATUS, "e2e-accessible", "e2e-accessible")
        if copy is None:
            return "there is no copy"
        found = rows((copy.get("sourceStatus") or {}).get("conditions"))
        owners = [(item["kind"], item["name"]) for item in copy["metadata"].get("ownerReferences") or ()]
        assert owners == [("ClusterResourcePlacement", "e2e-accessible")]
        return "" if found == wanted and copy["lastUpdatedTime"] else f"the copy says {found}"

    wait_until("the copy", problem)
    fleet.on_hub.delete(PLACEMENT_STATUS, "e2e-accessible", "e2e-accessible")
    wait_until("the copy comes back", problem)


def test_a_workload_that_is_not_ready_is_not_available(fleet, scene):
    """Available is False on every level, the failed objects are named, and it turns when the workload does."""
    broken = make_deployment("web", "e2e-slow")
    broken["metadata"]["annotations"] = {"e2e/never-ready": "true"}
    scene.home("e2e-slow", broken)
    scene.put(make_placement("e2e-slow", pick_fixed("smartfish")))

    def problem() -> str:
        placement = fleet.on_hub.get(PLACEMENT, "e2e-slow")
        generation = placement["metadata"]["generation"]
        last = ("ClusterResourcePlacementAvailable", "False", "ResourceNotAvailableYet", generation)
        found = rows_of(placement)
        return "" if found[-1:] == [last] else f"{found}"

    wait_until("not available", problem)
    entry = fleet.on_hub.get(PLACEMENT, "e2e-slow")["status"]["placementStatuses"][0]
    assert rows(entry["conditions"])[-1][:3] == ("Available", "False", "NotAllWorkAreAvailable")
    failed = entry["failedPlacements"]
    assert [(item["kind"], item["name"], item["namespace"]) for item in failed] == [("Deployment", "web", "e2e-slow")]
    assert (failed[0]["condition"]["type"], failed[0]["condition"]["reason"]) == (
        "Available",
        "ManifestNotAvailableYet",
    )
    work = fleet.on_hub.get(WORK, "e2e-slow-work", "fleet-member-smartfish")
    assert [row[:3] for row in rows_of(work)] == [
        ("Applied", "True", "AllManifestsApplied"),
        ("Available", "False", "SomeManifestsAreNotAvailable"),
    ]
    fleet.on_hub.patch(DEPLOYMENT, "web", {"metadata": {"annotations": {"e2e/never-ready": None}}}, "e2e-slow")
    wait_complete(
        fleet, Complete("e2e-slow", ("smartfish",), [("Namespace", "e2e-slow"), ("Deployment", "web")], index="1")
    )


def test_everything_together_is_settled(fleet):
    assert_settled(
        fleet,
        short={"e2e-short"},
        overridden={"e2e-overridden"},
        unfinished={"e2e-external", "e2e-accessible"},
        absent={"smartfish/left-out"},
        by_hand={"e2e-compared"},
    )
