"""Writes that take content off members, refused by a real API server until they are confirmed (RC-19 to RC-21)."""

import itertools
import json
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from e2e.controlplane.cluster import ApiError, Cluster, JsonObject
from e2e.controlplane.service import HARBORMASTER, Service
from e2e.controlplane.stored import storage_key, with_server_fields
from e2e.fleet.objects import MERGE
from e2e.fleet.waiting import wait_until
from e2e.placements import PLACEMENTS
from scorer.api.kinds import RESOURCE_SNAPSHOT
from scorer.api.meta import format_time
from scorer.api.names import CONFIRM_REMOVAL
from tests.builders.binding import make_binding
from tests.builders.placement import make_placement
from tests.webhook.validation.live_objects import make_member, make_policy_snapshot, pick_n

NAMESPACES = "/api/v1/namespaces"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
MEMBERS = ("leaving-elk", "leaving-emu", "leaving-owl")
NUMBERS = itertools.count()
LABEL = {"placed": "here"}
DIGEST = re.compile(r"digest ([0-9a-f]{20})")


def make_snapshot(home: str, uid: str) -> JsonObject:
    """The resource snapshot of ``shop``: a Namespace with two ConfigMaps."""
    config_maps = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": home}} for name in "ab"
    ]
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": home, "labels": LABEL}}
    labels = {
        "kubernetes-fleet.io/parent-CRP": "shop",
        "kubernetes-fleet.io/is-latest-snapshot": "true",
        "kubernetes-fleet.io/resource-index": "0",
    }
    annotations = {
        "kubernetes-fleet.io/number-of-resource-snapshots": "1",
        "kubernetes-fleet.io/resource-hash": "0",
        "harbormaster.dev/sources": json.dumps([uid, "", ""]),
    }
    return {
        "apiVersion": RESOURCE_SNAPSHOT.api_version,
        "kind": RESOURCE_SNAPSHOT.kind,
        "metadata": {"name": "shop-0-snapshot", "labels": labels, "annotations": annotations},
        "spec": {"selectedResources": [namespace, *config_maps]},
    }


@dataclass(frozen=True)
class Placed:
    """A hub on which a Namespace is placed on three members by ``shop``.

    Args:
        hub: The hub.
        name: Of the Namespace.
    """

    hub: Cluster
    name: str

    @property
    def path(self) -> str:
        """Path of the Namespace."""
        return f"{NAMESPACES}/{self.name}"

    def refusal(self, method: str, path: str, body: object = None, *, user: str = "alice", group: str = "") -> str:
        """Return the refusal of a write, as a dry run; empty when it would be done."""
        groups = [group or "system:masters", "system:authenticated"]
        acting_as = {"username": user, "groups": groups}
        try:
            content_type = MERGE if method == "PATCH" else "application/json"
            self.hub.request(method, f"{path}?dryRun=All", body, content_type=content_type, acting_as=acting_as)
        except ApiError as error:
            assert (error.code, error.status["reason"]) == (403, "Forbidden"), str(error)
            return str(error)
        return ""


@pytest.fixture
def placed(bare_hub: Cluster, start_service: Callable[..., Service]) -> Iterator[Placed]:
    """A placed Namespace, and a replica that asks for confirmation."""
    hub, name = bare_hub, f"removed-{next(NUMBERS)}"
    start_service(hub, removal_confirmation="").register()
    stored, _ = hub.request("POST", NAMESPACES, {"metadata": {"name": name, "labels": LABEL}})
    term = {"group": "", "version": "v1", "kind": "Namespace", "labelSelector": {"matchLabels": LABEL}}
    placement = make_placement("shop", pick_n(3), selectors=[term])
    bindings = [make_binding("shop", member, resourceSnapshotName="shop-0-snapshot") for member in MEMBERS]
    snapshots = [make_policy_snapshot(placement), make_snapshot(name, stored["metadata"]["uid"])]
    documents = [*map(make_member, MEMBERS), placement, *snapshots, *bindings]
    text = json.dumps(documents).replace("2026-01-01T00:00:00Z", format_time(datetime.now(UTC)))
    written = [(storage_key(hub, document), with_server_fields(document)) for document in json.loads(text)]
    for key, document in written:
        hub.etcd.put(key, document)
    found = Placed(hub, name)
    wait_until(
        "the replica knows all", lambda: "" if "3 clusters" in found.refusal("DELETE", found.path) else "not yet"
    )
    yield found
    for key, _ in written:
        hub.etcd.delete(key)
    unlabelled = {"metadata": {"labels": {"placed": None}}}
    hub.request("PATCH", found.path, unlabelled, content_type=MERGE)


def program(hub: Cluster, *words: str) -> subprocess.CompletedProcess[str]:
    command = [str(HARBORMASTER), *words, f"--kubeconfig={hub.kubeconfig}"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.core
def test_a_deleted_namespace_is_refused_confirmed_and_deleted(placed):
    shown = placed.refusal("DELETE", placed.path)
    assert f"crp/shop loses Namespace {placed.name} and 2 objects in it" in shown
    assert "on 3 clusters" in shown
    assert f"To continue: harbormaster confirm namespace/{placed.name}, then repeat the request" in shown
    with pytest.raises(ApiError, match=DIGEST.search(shown)[1]):
        placed.hub.request("DELETE", placed.path, user="alice")
    assert "deletionTimestamp" not in placed.hub.request("GET", placed.path)[0]["metadata"]
    confirmed = program(placed.hub, "confirm", f"namespace/{placed.name}", "--yes")
    assert confirmed.returncode == 0, confirmed.stderr
    assert "crp/shop confirmed until " in confirmed.stdout
    # No wait for the cache of the replica: it reads a placement again before it refuses.
    placed.hub.request("DELETE", placed.path, user="alice")
    assert placed.hub.request("GET", placed.path)[0]["metadata"]["deletionTimestamp"]


def test_labels_placements_and_policies_are_judged_by_their_effect(placed):
    unlabelled = {"metadata": {"labels": {"placed": None}}}
    shown = placed.refusal("PATCH", placed.path, unlabelled)
    assert f"To continue: harbormaster confirm crp/shop --digest {DIGEST.search(shown)[1]}" in shown
    assert placed.refusal("PATCH", placed.path, {"metadata": {"labels": {"tier": "web"}}}) == ""
    path = f"{PLACEMENTS}/shop"
    assert "harbormaster confirm crp/shop, then repeat" in placed.refusal("DELETE", path)
    nowhere = {"spec": {"policy": {"numberOfClusters": 0}}}
    assert "cluster leaving-elk" in placed.refusal("PATCH", path, nowhere)
    assert placed.refusal("PATCH", path, {"spec": {"policy": {"numberOfClusters": 2}}}) == ""
    assert placed.refusal("DELETE", placed.path, user="system:kube-controller-manager") == ""


def test_confirming_needs_a_right_and_reading_another(placed):
    role: JsonObject = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "remover"},
        "rules": [
            {
                "apiGroups": [""],
                "resources": ["namespaces", "namespaces/status", "namespaces/finalize"],
                "verbs": ["create", "get", "delete", "patch", "update"],
            },
            {"apiGroups": ["placement.kubernetes-fleet.io"], "resources": ["*"], "verbs": ["patch"]},
        ],
    }
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "remover"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "remover"}
    binding = {
        "apiVersion": role["apiVersion"],
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "remover"},
        "roleRef": reference,
        "subjects": [subject],
    }
    placed.hub.request("POST", f"{RBAC}/clusterroles", role)
    placed.hub.request("POST", f"{RBAC}/clusterrolebindings", binding)
    digest = DIGEST.search(placed.refusal("DELETE", placed.path))[1]
    until = format_time((datetime.now(UTC) + timedelta(hours=1)).replace(microsecond=0))
    confirmation = {"metadata": {"annotations": {CONFIRM_REMOVAL: f"{digest}@{until}"}}}
    try:
        shown = refused_to(placed, "remover")
        assert "3 objects of 1 placement that you may not read" in shown
        assert not any(word in shown for word in ("crp/shop", digest, *MEMBERS))
        lacking = placed.refusal("PATCH", f"{PLACEMENTS}/shop", confirmation, user="remover", group="removers")
        assert '"remover" may not confirmremoval clusterresourceplacements' in lacking
        exempt = {"metadata": {"labels": {"harbormaster.dev/ephemeral": "true"}}}
        stored, _ = placed.hub.request("GET", placed.path)
        labelled = {**stored, "metadata": {**stored["metadata"], **exempt["metadata"]}}
        for method, subresource, body in (
            ("PATCH", "", exempt),
            ("PATCH", "/status", exempt),
            ("PUT", "/finalize", labelled),
        ):
            path = f"{placed.path}{subresource}"
            refusal = placed.refusal(method, path, body, user="remover", group="removers")
            assert '"remover" may not confirmremoval' in refusal, path
        for metadata in ({"name": "preview", **exempt["metadata"]}, {"generateName": "pr-", **exempt["metadata"]}):
            refusal = placed.refusal("POST", NAMESPACES, {"metadata": metadata}, user="remover", group="removers")
            assert '"remover" may not confirmremoval' in refusal
        unlabelled = {"metadata": {"name": "preview", "labels": {"harbormaster.dev/ephemeral": "false"}}}
        assert placed.refusal("POST", NAMESPACES, unlabelled, user="remover", group="removers") == ""
        assert placed.refusal("POST", NAMESPACES, {"metadata": {"name": "preview", **exempt["metadata"]}}) == ""
        assert placed.refusal("PATCH", f"{PLACEMENTS}/shop", confirmation) == ""
    finally:
        placed.hub.request("DELETE", f"{RBAC}/clusterrolebindings/remover")
        placed.hub.request("DELETE", f"{RBAC}/clusterroles/remover")


def refused_to(placed: Placed, user: str) -> str:
    """Return what the hooks tell a user who deletes the Namespace, once the API server knows the user's rights."""
    found: list[str] = []

    def asked() -> str:
        found[:] = [placed.refusal("DELETE", placed.path, user=user, group="removers")]
        return "" if "admission webhook" in found[0] else found[0] or "allowed"

    wait_until("the role counts", asked)
    return found[0]
