"""Who may call the hooks of a replica: the real API server, by certificate or by the secret path, and nobody else."""

from e2e.conftest import WEBHOOK_CLIENT, StartService
from e2e.controlplane.cluster import Cluster, JsonObject
from e2e.controlplane.service import Service
from e2e.placements import PLACEMENTS, placement

HOOK = "/validate/placement.kubernetes-fleet.io/clusterresourceplacements"


def review(document: JsonObject) -> JsonObject:
    """What whoever reaches the port can make up: somebody else's write."""
    group, version = document["apiVersion"].split("/")
    request = {
        "uid": "forged",
        "kind": {"group": group, "version": version, "kind": "ClusterResourcePlacement"},
        "resource": {"group": group, "version": version, "resource": "clusterresourceplacements"},
        "operation": "CREATE",
        "name": document["metadata"]["name"],
        "userInfo": {"username": "bob"},
        "object": document,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def test_a_forged_review_asks_nobody_and_learns_nothing(hub: Cluster, service: Service) -> None:
    wanted = placement("forged")
    written = hub.request("POST", f"{PLACEMENTS}?dryRun=All", wanted, user="alice")[1]
    asked = service.metric("harbormaster_auth_reviews_total")
    said = {}
    for path in (HOOK, service.hook(HOOK)):
        answer = service.ask("POST", path, review(wanted))
        assert answer.document["response"]["allowed"], answer.body
        said[path] = " ".join(answer.document["response"].get("warnings", ()))
        if path == HOOK:
            assert service.metric("harbormaster_auth_reviews_total") == asked
    assert "may not get" not in said[HOOK]
    assert '"bob" may not get' in said[service.hook(HOOK)]
    assert not [warning for warning in written if "could not be reviewed" in warning]


def test_where_a_certificate_is_required_the_api_server_gets_in_and_nobody_else(
    twin: Cluster, start_service: StartService
) -> None:
    settings = {"require_client_certificate": "true", "admission_client_names": WEBHOOK_CLIENT}
    guarded = start_service(twin, **settings)
    guarded.register()  # and the API server is answered
    assert guarded.metric("harbormaster_http_rejected_total") == 0
    kubelet = twin.issue_client_certificate("system:node:a", ["system:nodes"])
    ours = twin.issue_client_certificate(WEBHOOK_CLIENT)
    for client, status in ((None, 403), (kubelet, 403), (ours, 200)):
        for path in (HOOK, guarded.hook(HOOK)):
            assert guarded.ask("POST", path, review(placement("forged")), client=client).status == status
