"""A hub that KubeFleet has been running becomes ours, as ``docs/moving-from-kubefleet.md`` says: what stays as it is.

The definitions are those that KubeFleet publishes, and so are the examples; what its controllers would have written
beside them is written here, in the form of that release. No member runs: what one would get is what its Work says.
"""

import contextlib
import json
import subprocess
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from e2e.conftest import DEFINITIONS, install_definitions, remove_ours, wait_served
from e2e.controlplane.cluster import ApiError, Cluster, JsonObject
from e2e.controlplane.service import HARBORMASTER
from e2e.fleet.objects import Objects, condition_of, make_config_map, make_namespace, name_of
from e2e.fleet.processes import SYSTEM, Reconciler
from e2e.fleet.waiting import wait_until
from e2e.karpenter.module_files import Module, read_files
from scorer.api.kinds import (
    BINDING,
    INTERNAL_MEMBER_CLUSTER,
    KINDS,
    NAMESPACE,
    NAMESPACED_OVERRIDE,
    NAMESPACED_OVERRIDE_SNAPSHOT,
    OUR_KINDS,
    OVERRIDE,
    OVERRIDE_SNAPSHOT,
    PLACEMENT,
    POLICY_SNAPSHOT,
    RESOURCE_SNAPSHOT,
    WORK,
    Kind,
)
from tests.docs.pages import DOCS, read_page

KUBEFLEET: Final = Module("go.goms.io/fleet", "v0.14.0", "h1:eqUBZ4VFS1JrxnW6J3Hxzo7cchC3+RM1qW483OHX0HY=")
GROUPS: Final = ("cluster.kubernetes-fleet.io", "placement.kubernetes-fleet.io")
PLURALS: Final = (
    *(f"{GROUPS[0]}_{plural}" for plural in ("internalmemberclusters", "memberclusters")),
    *(
        f"{GROUPS[1]}_{plural}"
        for plural in (
            "appliedworks",
            "clusterapprovalrequests",
            "clusterresourcebindings",
            "clusterresourceoverrides",
            "clusterresourceoverridesnapshots",
            "clusterresourceplacementdisruptionbudgets",
            "clusterresourceplacementevictions",
            "clusterresourceplacements",
            "clusterresourcesnapshots",
            "clusterschedulingpolicysnapshots",
            "clusterstagedupdateruns",
            "clusterstagedupdatestrategies",
            "resourceoverrides",
            "resourceoverridesnapshots",
            "works",
        )
    ),
)
PLACEMENTS: Final = [f"examples/test-crp{number}.yaml" for number in range(1, 9)]
"""Among the examples."""
ALPHA_OVERRIDES: Final = f"/apis/{GROUPS[1]}/v1alpha1/clusterresourceoverrides"
GOLD: Final = {"labelSelector": {"matchLabels": {"tier": "gold"}}}
POLICIES: Final[dict[str, JsonObject]] = {
    "plain": {"placementType": "PickN"},
    "picky": {
        "placementType": "PickN",
        "affinity": {
            "clusterAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 20, "preference": GOLD}],
            }
        },
    },
}
"""By placement, without the number of clusters; today the second would be picked elsewhere."""
PAGE: Final = DOCS / "moving-from-kubefleet.md"
OVERRIDES: Final = (OVERRIDE, NAMESPACED_OVERRIDE, OVERRIDE_SNAPSHOT, NAMESPACED_OVERRIDE_SNAPSHOT)
DATA: Final = {"colour": "blue", "page": "<a href='?b=1&c'>\u2028\u2029</a>"}
"""Of every placement, with the characters that Go escapes."""
MEMBER: Final = "kind-cluster-1"
BETTER: Final = "better"
SPACE: Final = f"fleet-member-{MEMBER}"
OURS: Final = "harbormaster.dev/"
FLEET: Final = "kubernetes-fleet.io/"


def documents(names: list[str]) -> list[JsonObject]:
    return [each for each in yaml.safe_load_all(read_files(KUBEFLEET, names)) if each]


@pytest.fixture
def kubefleet(own_hub: Cluster) -> Iterator[Cluster]:
    """The hub with KubeFleet's definitions in the place of ours, as its chart and its agent would write them."""
    theirs = documents([f"config/crd/bases/{name}.yaml" for name in PLURALS])
    names = [kind for kind in OUR_KINDS if kind.group in GROUPS]
    objects = Objects(own_hub)
    for kind in names:
        own_hub.request("DELETE", f"{DEFINITIONS}/{kind.plural}.{kind.group}")
    wait_until("our definitions go", lambda: left(own_hub))
    for definition in theirs:
        own_hub.request("POST", f"{DEFINITIONS}?fieldManager=helm", definition)
    for definition in theirs:
        spec = definition["spec"]
        versions = tuple(each["name"] for each in spec["versions"])[-1:]
        wait_served(own_hub, replace(KINDS[spec["group"], spec["names"]["kind"]], versions=versions))
    yield own_hub
    remove_ours(own_hub)
    for name in (SPACE, f"fleet-member-{BETTER}", *POLICIES):
        objects.delete(NAMESPACE, name)
    for kind in OVERRIDES:
        with contextlib.suppress(ApiError):
            own_hub.request("DELETE", f"{DEFINITIONS}/{kind.plural}.{kind.group}")
    wait_until("the definitions of overrides go", lambda: left(own_hub, "override"))
    install_definitions(own_hub)


def left(hub: Cluster, word: str = "") -> str:
    names = (each["metadata"]["name"] for each in hub.request("GET", DEFINITIONS)[0]["items"])
    return ", ".join(name for name in names if name.partition(".")[2] in GROUPS and word in name)


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def said(kind: str, reason: str) -> JsonObject:
    at = {"observedGeneration": 1, "lastTransitionTime": now()}
    return {"type": kind, "status": "True", "reason": reason, "message": "", **at}


def made(kind: Kind, name: str, namespace: str = "", /, **metadata: Any) -> JsonObject:
    """Return the head of an object."""
    where = {"namespace": namespace} if namespace else {}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name, **where, **metadata}}


def hashed(policy: JsonObject) -> str:
    """Return the hash that KubeFleet keeps beside a policy; fields are in the order of *policy*."""
    return sha256(json.dumps(policy, separators=(",", ":")).encode()).hexdigest()


def hashed_content(program: Path, content: list[JsonObject]) -> str:
    """Return the hash that KubeFleet keeps beside content, from a program that takes the steps of KubeFleet."""
    given = json.dumps(content)
    return subprocess.run([program], input=given, capture_output=True, text=True, check=True).stdout.strip()


def content_of(name: str) -> list[JsonObject]:
    """Return what a namespace with its one ConfigMap comes to, with fields in the order that KubeFleet writes."""
    namespace = {"labels": {"kubernetes.io/metadata.name": name}, "name": name}
    settings = {"name": "settings", "namespace": name}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": namespace, "spec": {"finalizers": ["kubernetes"]}},
        {"apiVersion": "v1", "data": DATA, "kind": "ConfigMap", "metadata": settings},
    ]


def put_members(objects: Objects) -> None:
    """KubeFleet's example, and a second member that is better for every placement here."""
    (first,) = documents(["examples/fleet_v1beta1_membercluster.yaml"])
    metadata = {"name": BETTER, "labels": {"tier": "gold"}}
    for member in (first, {**first, "metadata": metadata}):
        name = member["metadata"]["name"]
        objects.create(member)
        objects.create(make_namespace(f"fleet-member-{name}"))
        spec = {"state": "Join", "heartbeatPeriodSeconds": 60}
        objects.create({**made(INTERNAL_MEMBER_CLUSTER, name, f"fleet-member-{name}"), "spec": spec})
        report(objects, name)


def report(objects: Objects, name: str) -> None:
    """Report as the agent of a member does."""
    conditions = [said("Joined", "InternalMemberClusterJoined"), said("Healthy", "InternalMemberClusterHealthy")]
    agent = {"type": "MemberAgent", "lastReceivedHeartbeat": now(), "conditions": conditions}
    objects.patch_status(INTERNAL_MEMBER_CLUSTER, name, {"agentStatus": [agent]}, f"fleet-member-{name}")


def put_placed(objects: Objects, name: str, policy: JsonObject, program: Path) -> None:
    """A placement of a namespace that KubeFleet has scheduled, rolled out and applied on `MEMBER`.

    Args:
        objects: Of the hub.
        name: Of the placement and of the namespace.
        policy: Without the number of clusters, with fields in the order of KubeFleet's type.
        program: Hashes content.
    """
    objects.create(make_namespace(name))
    objects.create(make_config_map("settings", name, **DATA))
    selector = {"group": "", "version": "v1", "kind": "Namespace", "name": name}
    placement = objects.create(
        {
            **made(PLACEMENT, name, finalizers=[f"{FLEET}crp-cleanup", f"{FLEET}scheduler-cleanup"]),
            "spec": {
                "resourceSelectors": [selector],
                "policy": {**policy, "numberOfClusters": 1},
                "strategy": {"type": "RollingUpdate"},
            },
        }
    )
    owner = {
        "apiVersion": PLACEMENT.api_version,
        "kind": PLACEMENT.kind,
        "name": name,
        "uid": placement["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    child = {f"{FLEET}parent-CRP": name}
    latest = {**child, f"{FLEET}is-latest-snapshot": "true"}
    decision = {"clusterName": MEMBER, "selected": True, "reason": "picked by scheduling policy"}
    objects.create(
        {
            **made(
                POLICY_SNAPSHOT,
                f"{name}-0",
                labels={**latest, f"{FLEET}policy-index": "0"},
                annotations={f"{FLEET}CRP-generation": "1", f"{FLEET}number-of-clusters": "1"},
                ownerReferences=[owner],
            ),
            "spec": {"policy": policy, "policyHash": b64encode(hashed(policy).encode()).decode()},
            "status": {
                "observedCRPGeneration": 1,
                "conditions": [said("Scheduled", "SchedulingPolicyFulfilled")],
                "targetClusters": [decision],
            },
        }
    )
    content = content_of(name)
    annotations = {
        f"{FLEET}resource-hash": hashed_content(program, content),
        f"{FLEET}number-of-enveloped-object": "0",
        f"{FLEET}number-of-resource-snapshots": "1",
    }
    snapshot, binding = f"{name}-0-snapshot", f"{name}-{MEMBER}-8a1b2c3d"
    objects.create(
        {
            **made(
                RESOURCE_SNAPSHOT,
                snapshot,
                labels={**latest, f"{FLEET}resource-index": "0"},
                annotations=annotations,
                ownerReferences=[owner],
            ),
            "spec": {"selectedResources": content},
        }
    )
    rolled_out = (
        ("RolloutStarted", "RolloutStarted"),
        ("Overridden", "NoOverrideSpecified"),
        ("WorkSynchronized", "AllWorkSynced"),
        ("Applied", "AllWorkHaveBeenApplied"),
        ("Available", "AllWorkAreAvailable"),
    )
    objects.create(
        {
            **made(BINDING, binding, labels=child, finalizers=[f"{FLEET}scheduler-crb-cleanup"]),
            "spec": {
                "state": "Bound",
                "resourceSnapshotName": snapshot,
                "schedulingPolicySnapshotName": f"{name}-0",
                "targetCluster": MEMBER,
                "clusterDecision": decision,
            },
            "status": {"conditions": [said(kind, reason) for kind, reason in rolled_out]},
        }
    )
    labels = {**child, f"{FLEET}parent-resource-binding": binding, f"{FLEET}parent-resource-snapshot-index": "0"}
    objects.create(
        {
            **made(
                WORK,
                f"{name}-work",
                SPACE,
                labels=labels,
                annotations={f"{FLEET}parent-resource-snapshot-name": snapshot},
                finalizers=[f"{FLEET}work-cleanup"],
            ),
            "spec": {"workload": {"manifests": content}},
            "status": {
                "conditions": [said("Applied", "AllManifestsApplied"), said("Available", "AllManifestsAvailable")]
            },
        }
    )


def blocks_of(heading: str) -> list[str]:
    """Return the blocks of a section of the page, as somebody types them."""
    return list(read_page(PAGE).sections[heading])


def type_in(hub: Cluster, folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    """Run what the page shows in a shell whose kubectl is for the hub."""
    program = folder / "kubectl"
    program.write_text(f'#!/bin/sh\nexec "{hub.kubectl_program}" "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    path = f"{folder}:{Path(HARBORMASTER).parent}:/usr/bin:/bin"
    environment = {"PATH": path, "KUBECONFIG": str(hub.kubeconfigs["admin"]), "HOME": str(folder)}
    return subprocess.run(["sh", "-c", line], env=environment, capture_output=True, text=True, check=False, timeout=300)


def stored(objects: Objects) -> dict[tuple[str, str], JsonObject]:
    """Return everything of KubeFleet's groups, by kind and name."""
    kinds = [kind for kind in OUR_KINDS if kind.group in GROUPS]
    return {(kind.kind, each["metadata"]["name"]): each for kind in kinds for each in objects.all(kind)}


def essence(document: JsonObject) -> JsonObject:
    """Return what makes an object the same one with the same content."""
    return {"uid": document["metadata"]["uid"], "spec": document["spec"]}


def of(placement: str, found: dict[tuple[str, str], JsonObject]) -> list[tuple[str, str]]:
    """Return which snapshots, bindings and Works of a placement there are."""
    kinds = (BINDING.kind, POLICY_SNAPSHOT.kind, RESOURCE_SNAPSHOT.kind, WORK.kind)
    return sorted(key for key in found if key[0] in kinds and key[1].startswith(placement))


def untouched(objects: Objects) -> str:
    """Say what the loop has not been through yet: Works that it has not written, placements without its status."""
    works = [objects.get(WORK, f"{name}-work", SPACE) for name in POLICIES]
    left = [name_of(work) for work in works if f"{OURS}written" not in work["metadata"].get("annotations", {})]
    for name in POLICIES:
        placement = objects.get(PLACEMENT, name)
        if not condition_of(placement, f"{PLACEMENT.kind}WorkSynchronized"):
            left.append(name)
    return ", ".join(left)


def test_a_hub_that_kubefleet_has_run_is_taken_over_without_moving_anything(
    kubefleet: Cluster, programs: Mapping[str, Path], folder: Path, tmp_path: Path
) -> None:
    objects = Objects(kubefleet)
    put_members(objects)
    for name, policy in POLICIES.items():
        put_placed(objects, name, policy, programs["snapshot-hash"])
    for example in documents(PLACEMENTS):
        objects.create(example)
    (override,) = documents(["examples/test-cro1.yaml"])
    kubefleet.request("POST", ALPHA_OVERRIDES, override)
    before = stored(objects)

    apply, store = blocks_of("Take over the definitions")
    refused = type_in(kubefleet, tmp_path, apply)
    assert refused.returncode == 1
    assert refused.stderr.count("missing from spec.versions") == len(OVERRIDES)
    assert "conflict" not in refused.stderr
    done = type_in(kubefleet, tmp_path, store)
    assert done.returncode == 0, done.stderr
    done = type_in(kubefleet, tmp_path, apply)
    assert done.returncode == 0, done.stderr
    found = stored(objects)
    assert before.keys() <= found.keys()
    (rule,) = found[OVERRIDE.kind, "cro-1"]["spec"]["policy"]["overrideRules"]
    assert rule == {**override["spec"]["policy"]["overrideRules"][0], "overrideType": "JSONPatch"}

    for name in (MEMBER, BETTER):
        report(objects, name)
    objects.apply([make_namespace(SYSTEM)])
    loop = Reconciler(kubefleet.kubeconfigs["loop-a"], folder / "from-kubefleet", "first", {})
    try:
        loop.start()
        wait_until("the loop has been through", lambda: untouched(objects))
    finally:
        loop.stop()
    after = stored(objects)
    assert before.keys() <= after.keys()
    for name in POLICIES:
        assert of(name, after) == of(name, before)
        for key in ((POLICY_SNAPSHOT.kind, f"{name}-0"), (RESOURCE_SNAPSHOT.kind, f"{name}-0-snapshot")):
            assert essence(after[key]) == essence(before[key])
        masters = (each[RESOURCE_SNAPSHOT.kind, f"{name}-0-snapshot"] for each in (after, before))
        assert len({master["metadata"]["annotations"][f"{FLEET}resource-hash"] for master in masters}) == 1
        work, was = after[WORK.kind, f"{name}-work"], before[WORK.kind, f"{name}-work"]
        assert work["metadata"]["uid"] == was["metadata"]["uid"]
        assert work["spec"]["workload"] == was["spec"]["workload"]
        binding, was = (each[BINDING.kind, f"{name}-{MEMBER}-8a1b2c3d"] for each in (after, before))
        assert binding["metadata"]["uid"] == was["metadata"]["uid"]
        kept = ("state", "targetCluster", "resourceSnapshotName", "schedulingPolicySnapshotName")
        assert {field: binding["spec"][field] for field in kept} == {field: was["spec"][field] for field in kept}
