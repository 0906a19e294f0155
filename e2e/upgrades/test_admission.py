"""Upgrade kinds before a real API server: its schema, its own rules and both hooks together."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.controlplane.cluster import ApiError, Cluster, JsonObject
from e2e.controlplane.refusals import causes_of
from e2e.controlplane.stored import storage_key, with_server_fields
from e2e.fleet.waiting import wait_until
from scorer.api.kinds import KINDS, UPGRADE_GATE, UPGRADE_REQUEST, UPGRADE_RUN, Kind, group_kind
from tests.webhook.validation.upgrade_mistakes import PROFILES, RUNS, SEQUENCES, WINDOWS
from tests.webhook.validation.upgrade_objects import (
    FULL,
    make,
    make_gate,
    make_request,
    make_run,
    make_stage,
    make_strategy,
    make_window,
)

ROOT = "/apis/upgrade.harbormaster.dev/v1alpha1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def path_of(kind: Kind, name: str = "", subresource: str = "") -> str:
    return "/".join(filter(None, (ROOT, kind.plural, name, subresource)))


def told(hub: Cluster, document: JsonObject) -> set[str]:
    """Return the fields for which a hub refuses to make an object."""
    with pytest.raises(ApiError) as refused:
        hub.request("POST", f"{path_of(KINDS[group_kind(document)])}?dryRun=All", document)
    assert refused.value.code == 422
    return {field for field, _ in causes_of(refused.value)}


BY_THE_API_SERVER = {
    "stage-name-twice": "spec.stages",
    "group-twice": "spec.stages[0].groups",
    "no-upgrade": "spec.upgrade",
    "family-twice": "spec.upgrade.nodeImage.customVersions[1]",
    "51-ranges": "spec.notAllowedDates",
}
"""Where the API server finds the mistake itself, and names the list or object that it is in."""


def cases(table: list[Any], make_object: Any) -> Iterator[Any]:
    for row in table:
        first, _, field = row.values
        yield pytest.param(make_object(first), BY_THE_API_SERVER.get(row.id, f"spec.{field}"), id=row.id)


@pytest.mark.parametrize(
    ("document", "field"),
    [
        *cases(SEQUENCES, lambda stages: make_strategy(*stages)),
        *cases(RUNS, lambda spec: make_run(**spec)),
        *cases(PROFILES, lambda spec: make("ClusterUpgradeProfile", {"channel": "Stable", **spec})),
        *cases(WINDOWS, lambda spec: make_window(**spec)),
    ],
)
def test_the_field_that_is_wrong_is_named(hub, document, field):
    assert field in told(hub, document)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (make_strategy(make_stage(maxConcurrency="51")), "51: must be at most 50, or 1% to 100%"),
        (
            make_run(upgrade={"type": "NodeImageOnly", "kubernetesVersion": "1.31.2"}),
            "1.31.2: must not be set when type is NodeImageOnly",
        ),
        (make_run(upgrade={"type": "Full"}), "must be set when type is Full"),
        (
            make("ClusterUpgradeProfile", {"channel": "Stable", "targetKubernetesVersion": "1.31"}),
            "1.31: must not be set when channel is Stable",
        ),
        (
            make("ClusterUpgradeProfile", {"channel": "NodeImage", "nodeImage": {"selection": "Latest"}}),
            "Latest: must be Consistent when channel is NodeImage",
        ),
    ],
)
def test_the_rules_of_the_api_server_tell_the_value(hub, document, said):
    with pytest.raises(ApiError, match=re.escape(said)):
        hub.request("POST", f"{path_of(KINDS[group_kind(document)])}?dryRun=All", document)


@pytest.fixture
def stored(hub: Cluster) -> Iterator[Any]:
    """Write objects with their statuses past the API server; returns what does so."""
    keys = []

    def store(document: JsonObject) -> JsonObject:
        key = storage_key(hub, document)
        keys.append(key)
        hub.etcd.put(key, with_server_fields(document))
        kind, name = KINDS[group_kind(document)], document["metadata"]["name"]
        found, _ = hub.request("GET", path_of(kind, name))
        return found

    yield store
    for key in keys:
        hub.etcd.delete(key)


def put(hub: Cluster, document: JsonObject, subresource: str = "", **changes: Any) -> JsonObject:
    kind = KINDS[group_kind(document)]
    where = "status" if subresource else "spec"
    path = path_of(kind, document["metadata"]["name"], subresource)
    body = {**document, where: {**document[where], **changes}}
    return hub.request("PUT", f"{path}?dryRun=All", body, user="alice")[0]


def refused(hub: Cluster, document: JsonObject, subresource: str = "", **changes: Any) -> set[str]:
    with pytest.raises(ApiError) as error:
        put(hub, document, subresource, **changes)
    return {field for field, _ in causes_of(error.value)}


@pytest.mark.core
def test_a_run_is_stored_with_its_defaults(hub):
    run = make_run(upgrade={**FULL, "kubernetesVersion": "v1.31.2"})
    found, _ = hub.request("POST", f"{path_of(UPGRADE_RUN)}?dryRun=All", run)
    assert found["spec"]["upgrade"] == {**FULL, "nodeImage": {"selection": "Latest"}}
    assert found["spec"]["state"] == "Initialize"
    assert found["spec"]["timeouts"]["memberUpgradeSeconds"] == 14400


def test_a_window_with_a_rhythm_is_stored_with_its_first_day(hub):
    window = make_window(schedule={"daily": {"intervalDays": 2}})
    found, _ = hub.request("POST", f"{ROOT}/clustermaintenancewindows?dryRun=All", window)
    assert len(found["spec"]["startDate"]) == len("2025-01-06")


@pytest.mark.core
def test_what_the_state_of_a_run_forbids(hub, stored):
    run = stored(make_run("Running", state="Run", skipTargets=[{"type": "Member", "name": "a"}]))
    assert refused(hub, run, upgrade={**FULL, "kubernetesVersion": "1.31.3"}) == {"spec.upgrade"}
    assert refused(hub, run, memberSelector={}) == {"spec.memberSelector"}
    assert refused(hub, run, state="Initialize") == {"spec.state"}
    with pytest.raises(ApiError, match="Initialize: cannot follow Run"):
        put(hub, run, state="Initialize")
    assert refused(hub, run, restartToken="again") == {"spec.restartToken"}
    assert refused(hub, run, skipTargets=[]) == {"spec.skipTargets"}
    assert refused(hub, run, skipTargets=[{"type": "Member", "name": "b"}]) == {"spec.skipTargets"}
    assert put(hub, run, state="Stop")["spec"]["state"] == "Stop"


def test_a_run_is_started_again_with_a_token_of_its_own(hub, stored):
    stopping = stored(make_run("Stopping", state="Stop"))
    assert refused(hub, stopping, state="Run") == {"spec.state"}
    stopped = stored(make_run("Stopped", state="Stop"))
    assert len(put(hub, stopped, state="Run")["spec"]["restartToken"]) == 36
    assert put(hub, stopped, state="Run", restartToken="mine")["spec"]["restartToken"] == "mine"


def test_of_a_finished_run_only_the_retention_changes(hub, stored):
    run = stored(make_run("Completed", state="Run"))
    assert refused(hub, run, state="Stop") == {"spec"}
    assert put(hub, run, ttlSecondsAfterFinished=60)["spec"]["ttlSecondsAfterFinished"] == 60


def approved(status: str) -> list[JsonObject]:
    when = "2025-01-06T00:00:00Z"
    return [{"type": "Approved", "status": status, "reason": "Said", "message": "", "lastTransitionTime": when}]


@pytest.mark.core
def test_gates_are_made_by_harbormaster_answered_by_people_and_deleted_with_their_run(hub, stored):
    with pytest.raises(ApiError, match="only harbormaster may create gates"):
        hub.request("POST", f"{path_of(UPGRADE_GATE)}?dryRun=All", make_gate(), user="alice")
    gate = stored(make_gate("Pending"))
    assert put(hub, gate, "status", conditions=approved("True"))["status"]["conditions"][0]["status"] == "True"
    assert refused(hub, gate, stage="other") == {"spec"}
    with pytest.raises(ApiError, match="delete the run instead"):
        hub.request("DELETE", f"{path_of(UPGRADE_GATE, 'x')}?dryRun=All", user="alice")
    over = stored(make_gate("Completed"))
    assert refused(hub, over, "status", conditions=approved("False")) == {"status.state"}


def test_the_phase_of_a_request_only_goes_forward(hub, stored):
    request = stored(make_request("InProgress"))
    assert refused(hub, request, "status", phase="Accepted") == {"status.phase"}
    with pytest.raises(ApiError, match="Accepted: cannot follow InProgress"):
        put(hub, request, "status", phase="Accepted")
    assert put(hub, request, "status", phase="Failed")["status"]["phase"] == "Failed"
    assert refused(hub, request, memberName="d") == {"spec"}
    assert put(hub, request, cancelRequested=True)["spec"]["cancelRequested"]
    assert request["kind"] == UPGRADE_REQUEST.kind


@pytest.fixture
def bob(bare_hub: Cluster) -> Iterator[str]:
    """Somebody who may write upgrade runs, by a role to which a test may add."""
    about = {"metadata": {"name": "upgrader"}}
    rule = {"apiGroups": ["upgrade.harbormaster.dev"], "resources": ["clusterupgraderuns"], "verbs": ["create"]}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "upgrader"}
    bare_hub.request("POST", f"{RBAC}/clusterroles", {**about, "rules": [rule]})
    bare_hub.request("POST", f"{RBAC}/clusterrolebindings", {**about, "roleRef": role, "subjects": [subject]})
    yield "bob"
    bare_hub.request("DELETE", f"{RBAC}/clusterrolebindings/upgrader")
    bare_hub.request("DELETE", f"{RBAC}/clusterroles/upgrader")


@pytest.mark.core
def test_whoever_ignores_maintenance_windows_needs_the_right(hub, bob):
    run, ignoring = make_run(), make_run(windowPolicy={"mode": "Ignore"})
    path = f"{path_of(UPGRADE_RUN)}?dryRun=All"
    wait_until("the new role counts", lambda: hub.request("POST", path, run, user=bob) and "")
    with pytest.raises(ApiError, match='"bob" may not ignorewindows clusterupgraderuns') as error:
        hub.request("POST", path, ignoring, user=bob)
    assert error.value.code == 403
    hub.request("POST", path, ignoring, user="alice")
