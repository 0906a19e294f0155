"""Who may call the hooks of a replica: the real API server, by certificate or by the secret path, and nobody else."""

import json
import re

import pytest

from e2e.conftest import WEBHOOK_CLIENT, StartService
from e2e.controlplane.cluster import Cluster
from e2e.controlplane.service import REGISTRATIONS, Service
from e2e.controlplane.steady_writers import Authors
from e2e.fleet.waiting import wait_until
from e2e.placements import PLACEMENTS, placement, review

HOOK = "/validate/placement.kubernetes-fleet.io/clusterresourceplacements"


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


def call_below(replica: Service, prefix: str) -> None:
    """Have the API server call the hooks of a replica below another prefix, in one write for each configuration."""
    for document in replica.configurations():
        text = re.sub(r"/hooks/[^/]+/", f"{prefix}/", json.dumps(document))
        path = f"{REGISTRATIONS}/{document['kind'].lower()}s/{document['metadata']['name']}"
        replica.cluster.request(
            "PATCH",
            f"{path}?fieldManager=operator&force=true",
            json.loads(text),
            content_type="application/apply-patch+yaml",
        )


@pytest.mark.parametrize("rights", ["Warn", "Enforce"])
def test_no_write_fails_while_the_path_of_the_hooks_changes(
    twin: Cluster, start_service: StartService, rights: str
) -> None:
    """As it is introduced, changed to one that only the hub knows, rolled back and introduced again."""
    replica = start_service(twin, placement_authorization=rights)
    call_below(replica, "")
    replica.wait_asked()

    def is_trusted() -> bool:
        before = replica.metric("harbormaster_auth_reviews_total")
        replica.ask("POST", HOOK, review(placement("forged")))
        return replica.metric("harbormaster_auth_reviews_total") > before

    assert is_trusted()
    with Authors(twin, writers=3, seconds=0.02) as authors:
        for prefix in (f"/hooks/{replica.secret}", f"/hooks/{'o' * 32}", "", f"/hooks/{replica.secret}"):
            call_below(replica, prefix)
            end = authors.results.total() + 50
            wait_until("writes go on", lambda end=end: "" if authors.results.total() >= end else "too few")
    authors.check()
    wait_until("the plain path is closed", lambda: "still trusted" if is_trusted() else "")
    assert replica.ask("POST", replica.hook(HOOK), review(placement("forged"))).status == 200
