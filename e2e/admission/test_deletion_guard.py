"""Deletions on a real hub that would cut a member off: refused, with what to do instead."""

import itertools
from collections.abc import Iterator

import pytest

from e2e.controlplane.cluster import ApiError, Cluster, JsonObject
from e2e.fleet.objects import MERGE, Objects, make_namespace
from e2e.fleet.processes import SYSTEM
from e2e.fleet.waiting import wait_until
from scorer.api.names import WORK_CLEANUP

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MEMBERS = "/apis/cluster.kubernetes-fleet.io/v1/memberclusters"
NAMESPACES = "/api/v1/namespaces"
NUMBERS = itertools.count()


def space_of(member: str) -> str:
    return f"fleet-member-{member}"


@pytest.fixture
def member(hub: Cluster) -> Iterator[str]:
    """A member of the hub with its namespace, which stays: there is no one who would empty it."""
    name = f"guarded-{next(NUMBERS)}"
    hub.request("POST", NAMESPACES, {"metadata": {"name": space_of(name)}})
    document: JsonObject = {
        "apiVersion": "cluster.kubernetes-fleet.io/v1",
        "kind": "MemberCluster",
        "metadata": {"name": name},
        "spec": {"identity": {"kind": "User", "name": name}},
    }
    hub.request("POST", MEMBERS, document)
    yield name
    hub.request("DELETE", f"{MEMBERS}/{name}")


def refusal(hub: Cluster, path: str) -> str:
    """What the API server says to a deletion, empty when it would do it."""
    try:
        hub.request("DELETE", f"{path}{'&' if '?' in path else '?'}dryRun=All")
    except ApiError as error:
        return f"{error.code} {error}"
    return ""


@pytest.mark.core
def test_what_holds_the_content_of_members_is_not_deleted_by_mistake(hub, member):
    """Not even by an administrator, one by one or all at once; whoever means it can."""
    instead = f"kubectl delete membercluster {member}"
    space = f"{NAMESPACES}/{space_of(member)}"
    wait_until(
        "the member is known", lambda: "" if instead in refusal(hub, space) else refusal(hub, space) or "deleted"
    )
    for plural in ("memberclusters.cluster", "works.placement"):
        name = f"{plural}.kubernetes-fleet.io"
        wanted = f"kubectl annotate crd {name} harbormaster.dev/allow-deletion=true"
        for path in (f"{DEFINITIONS}/{name}", f"{DEFINITIONS}?fieldSelector=metadata.name={name}"):
            assert wanted in refusal(hub, path), path
    hub.request("POST", NAMESPACES, {"metadata": {"name": "fleet-member-nobody"}})
    assert refusal(hub, f"{NAMESPACES}/fleet-member-nobody") == ""
    meant = {"metadata": {"annotations": {"harbormaster.dev/allow-deletion": "true"}}}
    hub.request("PATCH", space, meant, content_type=MERGE)
    assert refusal(hub, space) == ""


@pytest.mark.core
def test_the_namespace_of_the_installation_is_not_deleted_by_mistake(hub):
    """Its accounts, the loop and the server would be deleted with it."""
    Objects(hub).apply([make_namespace(SYSTEM)])
    path = f"{NAMESPACES}/{SYSTEM}"
    wait_until("the hooks are asked", lambda: "" if "helm uninstall" in refusal(hub, path) else "it would be deleted")
    assert f"kubectl annotate namespace {SYSTEM} harbormaster.dev/allow-deletion=true" in refusal(hub, path)
    for value, refused in (("true", False), (None, True)):
        meant = {"metadata": {"annotations": {"harbormaster.dev/allow-deletion": value}}}
        hub.request("PATCH", path, meant, content_type=MERGE)
        assert bool(refusal(hub, path)) is refused


@pytest.mark.core
def test_works_are_written_by_the_machinery_alone(hub, member):
    """A forged Work would be code on a member: RBAC alone does not let a user write one."""
    works = f"/apis/placement.kubernetes-fleet.io/v1/namespaces/{space_of(member)}/works"
    work: JsonObject = {
        "apiVersion": "placement.kubernetes-fleet.io/v1",
        "kind": "Work",
        "metadata": {"name": "web"},
        "spec": {"workload": {"manifests": []}},
    }
    changed = {"spec": {"workload": {"manifests": [{"apiVersion": "v1", "kind": "Namespace"}]}}}
    hub.request("POST", works, work)  # as an administrator

    def written(username: str, method: str, path: str, body: object = None) -> str:
        groups = ["writers", "system:authenticated"]
        try:
            hub.request(
                method,
                f"{path}?dryRun=All",
                body,
                acting_as={"username": username, "groups": groups},
                content_type=MERGE if method == "PATCH" else "application/json",
            )
        except ApiError as error:
            return f"{error.code} {error}"
        return ""

    def refused(username: str, *request: object) -> bool:
        found = written(username, *request)
        return found.startswith("403") and "denied the request" in found

    held = {"metadata": {"finalizers": [WORK_CLEANUP]}}
    try:
        wait_until("the member is known", lambda: written(member, "PATCH", f"{works}/web", held))
        for username in ("alice", member):
            assert refused(username, "POST", works, {**work, "metadata": {"name": "forged"}})
            assert refused(username, "PATCH", f"{works}/web", changed)
            assert refused(username, "DELETE", f"{works}/web")
    finally:
        hub.request("DELETE", f"{works}/web")
