"""``harbormaster tree`` over a real hub, by its kubeconfig."""

import contextlib
import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml

from e2e.controlplane.cluster import ApiError, Cluster, JsonObject
from e2e.controlplane.process import PATIENCE
from e2e.controlplane.service import HARBORMASTER
from tests.docs.pages import DOCS, manifests_of
from tests.webhook.placed import condition, entry, make_binding, make_placement, make_snapshot, make_work

GROUP = "/apis/placement.kubernetes-fleet.io/v1beta1"
MEMBER = "fleet-member-dover"
TEAM = "kiosk"
MANY = 600
"""Works of one placement: more than come in one page of a list."""


def put(hub: Cluster, collection: str, document: JsonObject) -> None:
    """Store a new object with its status."""
    path = f"{GROUP}/{collection}"
    stored = hub.request("POST", path, document)[0]
    if "status" in document:
        told = {**stored, "status": document["status"]}
        hub.request("PUT", f"{path}/{stored['metadata']['name']}/status", told)


@pytest.fixture(scope="module")
def space(twin: Cluster) -> Iterator[str]:
    """The namespace of a member."""
    twin.kubectl("create", "namespace", MEMBER)
    yield MEMBER
    twin.request("DELETE", f"/api/v1/namespaces/{MEMBER}")


@pytest.fixture
def placed(twin: Cluster, space: str) -> Iterator[Cluster]:
    """A hub with a placement on one cluster: what the loop and an agent would have made of it."""
    placement = make_placement()
    placement["spec"]["resourceSelectors"] = [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}]
    put(twin, "clusterresourceplacements", placement)
    binding = make_binding("dover")
    binding["spec"]["clusterDecision"] = {"clusterName": "dover", "selected": True, "reason": "picked"}
    put(twin, "clusterresourcebindings", binding)
    snapshot = make_snapshot()
    snapshot["metadata"]["annotations"] = {"kubernetes-fleet.io/resource-hash": "0"}
    put(twin, "clusterresourcesnapshots", snapshot)
    put(twin, f"namespaces/{space}/works", make_work("dover", entry("a"), entry("b", ordinal=1)))
    other = make_work("dover", entry("c"), name="shop.web-work")
    other["metadata"]["labels"]["kubernetes-fleet.io/parent-placement-namespace"] = "shop"
    put(twin, f"namespaces/{space}/works", other)
    yield twin
    for path in (
        "clusterresourcebindings/web-dover",
        "clusterresourcesnapshots/web-1-snapshot",
        "clusterresourceplacements/web",
    ):
        with contextlib.suppress(ApiError):
            twin.request("DELETE", f"{GROUP}/{path}")
    twin.request("DELETE", f"{GROUP}/namespaces/{space}/works")


def tree(hub: Cluster, *words: str) -> subprocess.CompletedProcess[str]:
    return tree_by(hub.kubeconfig, *words)


def tree_by(kubeconfig: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [HARBORMASTER, "tree", *words, "--kubeconfig", str(kubeconfig)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)


def test_everything_is_found_by_its_labels(placed):
    found = json.loads(tree(placed, "crp/web", "-o", "json").stdout)
    (cluster,) = found["clusters"]
    assert (cluster["cluster"], cluster["state"], cluster["healthy"]) == ("dover", "available", True)
    assert [work["name"] for work in cluster["works"]] == ["web-work"]
    assert [each["name"] for each in cluster["works"][0]["objects"]] == ["a", "b"]
    assert found["placement"]["resourceIndex"] == 1


def test_lists_are_read_to_their_last_page(placed):
    """Works of a cluster without a binding: they show up as left over, all of them."""
    for number in range(MANY):
        work = make_work("left", entry("a"), name=f"web-{number}")
        del work["status"]
        placed.request(
            "POST", f"{GROUP}/namespaces/{MEMBER}/works", {**work, "metadata": work["metadata"] | {"namespace": MEMBER}}
        )
    found = json.loads(tree(placed, "crp/web", "-o", "json").stdout)
    assert sum(len(cluster["works"]) for cluster in found["clusters"]) == MANY + 1


def test_what_is_not_there_is_named(placed):
    missing = tree(placed, "crp/nope")
    assert (missing.returncode, missing.stderr) == (1, "error: there is no placement crp/nope\n")


def test_it_follows_until_the_placement_is_gone(placed):
    command = [HARBORMASTER, "tree", "crp/web", "-w", "--kubeconfig", str(placed.kubeconfig)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline().startswith("crp/web  PickN, wants 2")
            path = f"{GROUP}/clusterresourcebindings/web-dover"
            binding = placed.request("GET", path)[0]
            failed = [condition("Overridden", "False", "OverriddenFailed", "no such path")]
            placed.request("PUT", f"{path}/status", {**binding, "status": {"conditions": failed}})
            for line in process.stdout:
                if line.endswith("  dover  failed: no such path\n"):
                    break
            placed.request("DELETE", f"{GROUP}/clusterresourceplacements/web")
            _, complaint = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    assert (process.returncode, complaint) == (0, "crp/web deleted\n")


@pytest.fixture
def team(placed: Cluster) -> Iterator[Mapping[str, Path]]:
    """Kubeconfigs of two ServiceAccounts: one with exactly the Role of docs/teams.md, one of another team."""
    documents = [document for block in manifests_of(DOCS / "teams.md") for document in yaml.safe_load_all(block)]
    role = next(document for document in documents if document["kind"] == "Role")
    placed.kubectl("create", "namespace", TEAM)
    rights = "/apis/rbac.authorization.k8s.io/v1/namespaces/" + TEAM
    placed.request("POST", f"{rights}/roles", role)
    subject = {"kind": "ServiceAccount", "name": "own", "namespace": TEAM}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role["metadata"]["name"]}
    bound = {"metadata": {"name": "own"}, "roleRef": reference, "subjects": [subject]}
    placed.request("POST", f"{rights}/rolebindings", bound)
    placement, binding = make_placement(namespace=TEAM), make_binding("dover", namespace=TEAM)
    placement["spec"]["resourceSelectors"] = [{"group": "apps", "version": "v1", "kind": "Deployment", "name": "web"}]
    binding["spec"]["clusterDecision"] = {"clusterName": "dover", "selected": True, "reason": "picked"}
    put(placed, f"namespaces/{TEAM}/resourceplacements", {**placement, "kind": "ResourcePlacement"})
    put(placed, f"namespaces/{TEAM}/resourcebindings", {**binding, "kind": "ResourceBinding"})
    files = {}
    for name in ("own", "other"):
        accounts = f"/api/v1/namespaces/{TEAM}/serviceaccounts"
        placed.request("POST", accounts, {"metadata": {"name": name}})
        token = placed.request("POST", f"{accounts}/{name}/token", {"spec": {}})[0]["status"]["token"]
        files[name] = placed.write_kubeconfig(f"{TEAM}-{name}", token)
    yield files
    placed.request("DELETE", f"/api/v1/namespaces/{TEAM}")


def test_a_team_sees_its_clusters_and_nothing_of_others(team):
    shown = tree_by(team["own"], f"rp/{TEAM}/web", "-o", "json")
    found = json.loads(shown.stdout)
    assert [cluster["cluster"] for cluster in found["clusters"]] == ["dover"]
    assert (found["clusters"][0]["works"], found["unread"]) == ([], ["works.placement.kubernetes-fleet.io"])
    assert shown.stderr == "the tree omits works.placement.kubernetes-fleet.io: you may not list them\n"
    for who, ref in (("other", f"rp/{TEAM}/web"), ("own", "crp/web")):
        refused = tree_by(team[who], ref)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "Forbidden" in refused.stderr
