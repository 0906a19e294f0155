"""Deletions on a real hub that would cut a member off: refused, with what to do instead."""

from collections.abc import Iterator

import pytest

from e2e.controlplane.cluster import ApiError, Cluster, JsonObject
from e2e.fleet.objects import MERGE
from e2e.fleet.waiting import wait_until

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MEMBERS = "/apis/cluster.kubernetes-fleet.io/v1/memberclusters"
NAMESPACES = "/api/v1/namespaces"
SPACE = "fleet-member-guarded"


@pytest.fixture
def member(hub: Cluster) -> Iterator[str]:
    """A member of the hub with its namespace."""
    hub.request("POST", NAMESPACES, {"metadata": {"name": SPACE}})
    document: JsonObject = {
        "apiVersion": "cluster.kubernetes-fleet.io/v1",
        "kind": "MemberCluster",
        "metadata": {"name": "guarded"},
        "spec": {"identity": {"kind": "User", "name": "guarded"}},
    }
    hub.request("POST", MEMBERS, document)
    yield "guarded"
    hub.request("DELETE", f"{MEMBERS}/guarded")
    hub.request("DELETE", f"{NAMESPACES}/{SPACE}?dryRun=All")


def refusal(hub: Cluster, path: str) -> str:
    """What the API server says to a deletion, empty when it would do it."""
    try:
        hub.request("DELETE", f"{path}{'&' if '?' in path else '?'}dryRun=All")
    except ApiError as error:
        return f"{error.code} {error}"
    return ""


def test_what_holds_the_content_of_members_is_not_deleted_by_mistake(hub, member):
    """Not even by an administrator, one by one or all at once; whoever means it can."""
    instead = f"kubectl delete membercluster {member}"
    space = f"{NAMESPACES}/{SPACE}"
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
