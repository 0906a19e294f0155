"""Clients in front of a hub that asks us: everything works as it does without a webhook, except for the rules."""

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from e2e.controlplane.cluster import ApiError, Cluster, JsonObject
from e2e.controlplane.process import PATIENCE
from e2e.controlplane.service import HARBORMASTER
from e2e.fleet.objects import MERGE
from e2e.placements import FLEET, PLACEMENTS, placement
from scorer.api.kinds import APPROVAL_REQUEST
from webhook.processes.hub_kubeconfig import hub_kubeconfig
from webhook.settings.admission import OWN_CONTROLLER

APPLY = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"


@pytest.fixture(autouse=True)
def _clean(hub: Cluster) -> Iterator[None]:
    yield
    delete_placements(hub)


def delete_placements(cluster: Cluster) -> None:
    """Delete all placements, also those that finalizers hold."""
    for item in cluster.request("GET", PLACEMENTS)[0]["items"]:
        if item["metadata"].get("finalizers"):
            path = f"{PLACEMENTS}/{item['metadata']['name']}"
            cluster.request("PATCH", path, {"metadata": {"finalizers": None}}, content_type=MERGE)
    cluster.request("DELETE", PLACEMENTS)


@pytest.fixture
def alike(hub: Cluster, twin: Cluster) -> Iterator[Callable[..., CompletedProcess[str]]]:
    """Run kubectl on a hub with our webhooks and on one without; but for warnings, users must not see a difference."""

    def run(*words: str, given: object = None, editor: str = "") -> CompletedProcess[str]:
        ours, theirs = (
            cluster.kubectl(*words, given=given, check=False, environment={"KUBE_EDITOR": editor})
            for cluster in (hub, twin)
        )
        assert (ours.returncode, ours.stdout) == (theirs.returncode, theirs.stdout)
        assert [line for line in ours.stderr.splitlines() if not line.startswith("Warning: ")] == (
            theirs.stderr.splitlines()
        )
        return ours

    yield run
    delete_placements(twin)


def read(hub: Cluster, name: str, version: str = "v1") -> JsonObject:
    return hub.request("GET", f"{FLEET}/{version}/clusterresourceplacements/{name}")[0]


def refused(error: "pytest.ExceptionInfo[ApiError]", *fields: str) -> None:
    assert error.value.code == 422
    assert [cause["field"] for cause in error.value.causes] == list(fields)


def plugin(cluster: Cluster, data: Path, *words: str, given: object = None, user: str = "admin") -> JsonObject | str:
    """Run ``kubectl harbormaster`` with a kubeconfig; what was printed, as a document when it is one."""
    environment = {
        **os.environ,
        "PATH": f"{Path(HARBORMASTER).parent}{os.pathsep}{os.environ['PATH']}",
        "KUBECONFIG": str(cluster.kubeconfigs[user]),
        "HARBORMASTER_DATA": str(data),
    }
    command = [str(cluster.kubectl_program), "harbormaster", *words]
    text = None if given is None else json.dumps(given)
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, env=environment, check=False, timeout=PATIENCE
    )
    said = done.stdout + done.stderr
    return json.loads(done.stdout) if "json" in words and done.stdout.startswith("{") else said


def test_the_kubectl_plugin_works_on_the_hub_of_the_kubeconfig_and_no_other(hub, tmp_path):
    """A data folder of a hub that is gone lies about; nothing asks it."""
    (tmp_path / "kubeconfig").write_text(hub_kubeconfig("https://127.0.0.1:1", "x", tmp_path / "ca.crt", ""))
    created = plugin(hub, tmp_path, "apply", "-f", "-", given=placement("web"))
    assert "web created" in created
    assert f"using {hub.url} (context " in created
    assert "For the hub of harbormaster up: --data" in created
    assert plugin(hub, tmp_path, "get", "crp", "web", "-o", "json")["spec"]["policy"]["numberOfClusters"] == 2
    explained = plugin(hub, tmp_path, "explain", "crp/web", "-o", "json")
    assert (explained["wanted"], explained["found"]) == (2, 0)
    bigger = tmp_path / "bigger.json"
    bigger.write_text(json.dumps(placement("web", numberOfClusters=3)))
    planned = plugin(hub, tmp_path, "plan", "--hub", "-f", str(bigger), "-o", "json")
    assert [(each["name"], each["wanted"]) for each in planned["placements"]] == [("web", 3)]
    assert "there is no member cluster 'dover'" in plugin(hub, tmp_path, "gate", "cluster-update", "dover")
    refused = plugin(hub, tmp_path, "explain", "crp/web", user="bob")
    assert "is forbidden" in refused
    assert "Traceback" not in refused
    assert "web deleted" in plugin(hub, tmp_path, "delete", "crp/web")
    with pytest.raises(ApiError, match="NotFound"):
        read(hub, "web")


@pytest.mark.core
def test_kubectl_apply_tells_every_mistake_at_once(hub):
    wrong = placement(
        "web",
        tolerations=[{"key": "a b", "operator": "Exists"}],
        topologySpreadConstraints=[{"topologyKey": "zone"}, {"topologyKey": "zone"}],
    )
    wrong["spec"]["resourceSelectors"][0]["name"] = "kube-system"
    done = hub.kubectl("apply", "-f", "-", given=wrong, check=False)
    assert done.returncode == 1
    first, *causes = done.stderr.splitlines()
    assert first == 'The ClusterResourcePlacement "web" is invalid: '
    assert [cause.partition(": ")[0] for cause in causes] == [
        "* spec.policy.tolerations[0].key",
        "* spec.policy.topologySpreadConstraints[1]",
        "* spec.resourceSelectors[0].name",
    ]
    assert '"kube-system"' in causes[2]


def test_client_side_apply_twice_changes_nothing_and_an_edit_is_judged(hub, alike):
    wanted = placement("web")
    assert alike("apply", "-f", "-", given=wanted).stdout.endswith("created\n")
    before = read(hub, "web")
    alike("apply", "-f", "-", given=wanted)
    assert read(hub, "web")["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    wanted["spec"]["policy"]["numberOfClusters"] = 3
    assert alike("apply", "-f", "-", given=wanted).stdout.endswith("configured\n")
    wanted["spec"]["policy"] = {"placementType": "PickAll"}
    done = hub.kubectl("apply", "-f", "-", given=wanted, check=False)
    assert done.returncode == 1
    assert "spec.policy.placementType: Invalid value: field is immutable" in done.stderr
    assert read(hub, "web")["spec"]["policy"]["numberOfClusters"] == 3


@pytest.mark.core
def test_what_the_hook_fills_in_is_stored_once(hub):
    hub.request("POST", PLACEMENTS, placement("web"))
    stored = read(hub, "web")
    assert stored["spec"]["revisionHistoryLimit"] == 10
    assert stored["spec"]["strategy"]["type"] == "RollingUpdate"
    assert stored["spec"]["strategy"]["rollingUpdate"] == {
        "maxSurge": "25%",
        "maxUnavailable": "25%",
        "unavailablePeriodSeconds": 60,
    }
    again, _ = hub.request("PUT", f"{PLACEMENTS}/web", stored)
    assert again["metadata"]["generation"] == 1
    assert again["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"]


def test_server_side_apply_keeps_what_two_managers_own_apart(hub):
    mine = placement("web")
    hub.request("PATCH", f"{PLACEMENTS}/web?fieldManager=me", mine, content_type=APPLY)
    theirs = {**mine, "spec": {"policy": {"tolerations": [{"key": "gpu", "operator": "Exists"}]}}}
    stored, _ = hub.request("PATCH", f"{PLACEMENTS}/web?fieldManager=them", theirs, content_type=APPLY)
    assert stored["spec"]["policy"]["numberOfClusters"] == 2
    assert stored["spec"]["policy"]["tolerations"] == [{"key": "gpu", "operator": "Exists"}]
    mine["spec"]["policy"]["numberOfClusters"] = 5
    stored, _ = hub.request("PATCH", f"{PLACEMENTS}/web?fieldManager=me", mine, content_type=APPLY)
    assert stored["spec"]["policy"]["numberOfClusters"] == 5
    assert stored["spec"]["policy"]["tolerations"] == [{"key": "gpu", "operator": "Exists"}]
    theirs["spec"]["policy"]["numberOfClusters"] = 7
    with pytest.raises(ApiError, match="conflict"):
        hub.request("PATCH", f"{PLACEMENTS}/web?fieldManager=them", theirs, content_type=APPLY)
    del theirs["spec"]["policy"]["numberOfClusters"]
    theirs["spec"]["policy"]["tolerations"] = [{"key": "", "operator": "Equal"}]
    with pytest.raises(ApiError) as error:
        hub.request("PATCH", f"{PLACEMENTS}/web?fieldManager=them", theirs, content_type=APPLY)
    assert error.value.code == 422


@pytest.mark.core
def test_patches_of_every_kind_are_judged_by_their_result(hub):
    hub.request("POST", PLACEMENTS, placement("web"))
    hub.request("PATCH", f"{PLACEMENTS}/web", {"spec": {"policy": {"numberOfClusters": 4}}}, content_type=MERGE)
    change = [{"op": "replace", "path": "/spec/policy/numberOfClusters", "value": 5}]
    hub.request("PATCH", f"{PLACEMENTS}/web", change, content_type=JSON_PATCH)
    assert read(hub, "web")["spec"]["policy"]["numberOfClusters"] == 5
    with pytest.raises(ApiError) as error:
        hub.request("PATCH", f"{PLACEMENTS}/web", {"spec": {"policy": {"clusterNames": ["a"]}}}, content_type=MERGE)
    assert error.value.code == 422
    with pytest.raises(ApiError) as error:
        hub.request("PATCH", f"{PLACEMENTS}/web", [{"op": "remove", "path": "/spec/policy"}], content_type=JSON_PATCH)
    assert error.value.code == 422
    assert hub.kubectl("patch", "crp", "web", "--type=merge", "-p", '{"metadata":{"labels":{"a":"b"}}}').returncode == 0


def test_kubectl_edit_and_replace(hub, alike, tmp_path):
    alike("create", "-f", "-", given=placement("web"))
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/numberOfClusters: 2/numberOfClusters: 6/' \"$1\"\n", encoding="utf-8")
    editor.chmod(0o700)
    assert alike("edit", "crp", "web", editor=str(editor)).returncode == 0
    assert read(hub, "web")["spec"]["policy"]["numberOfClusters"] == 6
    whole = read(hub, "web")
    whole["spec"]["policy"]["numberOfClusters"] = 1
    assert hub.kubectl("replace", "-f", "-", given=whole).returncode == 0
    whole = read(hub, "web")
    whole["spec"]["policy"]["numberOfClusters"] = -1
    done = hub.kubectl("replace", "-f", "-", given=whole, check=False)
    assert done.returncode == 1
    assert "numberOfClusters" in done.stderr


def test_the_rest_of_kubectl_says_what_it_says_without_a_webhook(alike):
    """None of our kinds has a scale subresource: the API server answers that by itself."""
    alike("create", "-f", "-", given=placement("web"))
    assert alike("scale", "crp/web", "--replicas=3").returncode == 1
    assert alike("label", "crp/web", "team=shop").returncode == 0
    assert alike("annotate", "crp/web", "note=x").returncode == 0
    assert alike("patch", "crp/web", "--type=json", "-p", '[{"op":"remove","path":"/nowhere"}]').returncode == 1
    assert alike("apply", "--server-side", "--field-manager=me", "-f", "-", given=placement("web")).returncode == 1
    assert alike("create", "-f", "-", given=placement("web")).returncode == 1
    assert alike("create", "--dry-run=server", "-f", "-", given=placement("other")).returncode == 0
    assert alike("delete", "crp", "web", "--dry-run=server").returncode == 0
    assert '"web" deleted' in alike("delete", "crp", "--selector=team=shop").stdout  # others may have left some
    assert alike("get", "crp").stdout == ""


def test_a_dry_run_gets_the_same_verdict_and_leaves_nothing(hub):
    done = hub.kubectl("create", "--dry-run=server", "-f", "-", given=placement("ghost"))
    assert "created (server dry run)" in done.stdout
    done = hub.kubectl(
        "create", "--dry-run=server", "-f", "-", given=placement("ghost", clusterNames=["a"]), check=False
    )
    assert done.returncode == 1
    with pytest.raises(ApiError, match="not found"):
        read(hub, "ghost")


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_both_versions_are_written_and_judged_alike(hub, version):
    path = f"{FLEET}/{version}/clusterresourceplacements"
    hub.request("POST", path, placement("web", version=version))
    for other in ("v1", "v1beta1"):
        stored = read(hub, "web", other)
        assert stored["apiVersion"].endswith(f"/{other}")
        assert stored["spec"]["policy"]["numberOfClusters"] == 2
    with pytest.raises(ApiError) as error:
        hub.request(
            "POST", path, placement("other", version=version, topologySpreadConstraints=[{"topologyKey": "a b"}])
        )
    refused(error, "spec.policy.topologySpreadConstraints[0].topologyKey")


def test_generated_names_are_admitted_and_long_ones_refused(hub):
    document = placement("")
    document["metadata"] = {"generateName": "web-"}
    stored, _ = hub.request("POST", PLACEMENTS, document)
    assert stored["metadata"]["name"].startswith("web-")
    with pytest.raises(ApiError) as error:
        hub.request("POST", PLACEMENTS, placement("a" * 64))
    assert error.value.code == 422


def test_an_old_name_is_rewritten_with_a_warning(hub):
    preference = {"metricSorter": {"name": "kubernetes-fleet.io/node-count", "sortOrder": "Descending"}}
    term = {"weight": 20, "preference": preference}
    affinity = {"clusterAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    stored, warnings = hub.request("POST", PLACEMENTS, placement("web", affinity=affinity))
    preferred = stored["spec"]["policy"]["affinity"]["clusterAffinity"][
        "preferredDuringSchedulingIgnoredDuringExecution"
    ]
    assert preferred[0]["preference"] == {"propertySorter": preference["metricSorter"]}
    assert any("metricSorter" in warning for warning in warnings)


def test_finalizers_are_removed_from_an_object_that_today_would_be_refused(hub):
    """Stored before the rules were: its deletion is finished all the same, and labels can be changed until then."""
    document = placement("old", numberOfClusters=None, clusterNames=["a"])
    del document["spec"]["policy"]["numberOfClusters"]
    document["metadata"] |= {
        "uid": "00000000-0000-4000-8000-00000000abcd",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "generation": 1,
        "finalizers": ["example.com/hold"],
    }
    hub.etcd.put(f"/{hub.name}/placement.kubernetes-fleet.io/clusterresourceplacements/old", document)
    wait_for(lambda: read(hub, "old"))
    hub.request("PATCH", f"{PLACEMENTS}/old", {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
    hub.request("DELETE", f"{PLACEMENTS}/old")
    assert read(hub, "old")["metadata"]["deletionTimestamp"]
    hub.request("PATCH", f"{PLACEMENTS}/old", {"metadata": {"finalizers": None}}, content_type=MERGE)
    with pytest.raises(ApiError, match="not found"):
        read(hub, "old")


def test_status_is_written_by_whoever_may_and_not_judged(hub):
    hub.request("POST", PLACEMENTS, placement("web"))
    stored = read(hub, "web")
    condition = {
        "type": "ClusterResourcePlacementScheduled",
        "status": "True",
        "reason": "Scheduled",
        "message": "found all",
        "lastTransitionTime": "2026-03-01T00:00:00Z",
        "observedGeneration": 1,
    }
    stored["status"] = {"conditions": [condition], "selectedResources": []}
    written, _ = hub.request("PUT", f"{PLACEMENTS}/web/status", stored)
    assert written["status"]["conditions"] == [condition]
    assert written["metadata"]["generation"] == 1


def test_an_approval_for_another_generation_comes_with_a_warning(hub):
    """It is ignored silently by whoever waits for it, so the user hears of it when it is written (X-51)."""
    request = {
        "apiVersion": "placement.kubernetes-fleet.io/v1",
        "kind": "ClusterApprovalRequest",
        "metadata": {"name": "run-after-canary", "generation": 1},
        "spec": {"parentStageRollout": "run", "targetStage": "canary"},
    }
    path = f"{FLEET}/v1/clusterapprovalrequests"
    with pytest.raises(ApiError, match="Approve the one that it creates"):
        hub.request("POST", path, request, user="alice")
    ours = {"username": "system:serviceaccount:harbormaster-system:harbormaster-reconcile", "groups": ["writers"]}
    stored, _ = hub.request("POST", path, request, acting_as=ours)
    try:
        approved = {
            "type": "Approved",
            "status": "True",
            "reason": "lgtm",
            "message": "go",
            "lastTransitionTime": "2026-03-01T00:00:00Z",
            "observedGeneration": 7,
        }
        _, warnings = hub.request(
            "PUT", f"{path}/run-after-canary/status", {**stored, "status": {"conditions": [approved]}}, user="alice"
        )
        assert any("observedGeneration" in warning for warning in warnings), warnings
    finally:
        hub.request("DELETE", f"{path}/run-after-canary")


def test_collections_are_deleted_as_ever(hub):
    for name in ("a", "b", "c"):
        hub.request("POST", PLACEMENTS, placement(name))
    hub.request("DELETE", PLACEMENTS)
    wait_for(lambda: not hub.request("GET", PLACEMENTS)[0]["items"])


def test_a_member_cluster_with_exported_services_stays_only_where_that_is_switched_on(hub):
    """Without the switch its deletion is nobody's business."""
    member = {
        "apiVersion": "cluster.kubernetes-fleet.io/v1",
        "kind": "MemberCluster",
        "metadata": {"name": "bravelion"},
        "spec": {"identity": {"kind": "User", "name": "bravelion-agent"}},
    }
    path = "/apis/cluster.kubernetes-fleet.io/v1/memberclusters"
    hub.request("POST", path, member)
    hub.request("DELETE", f"{path}/bravelion")


def test_other_kinds_never_reach_us(hub, service):
    before = service.reviews()
    for name in ("one", "two"):
        hub.request(
            "POST",
            "/api/v1/namespaces/default/configmaps?dryRun=All",
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}},
        )
    assert service.reviews() == before


def test_refusals_are_written_to_the_audit_log_with_their_rules(hub):
    document = placement("audited", tolerations=[{"key": "a b", "operator": "Exists"}])
    document["spec"]["resourceSelectors"][0]["name"] = "kube-system"
    with pytest.raises(ApiError):
        hub.request("POST", PLACEMENTS, document)
    entry = next(event for event in reversed(hub.audit()) if event["objectRef"].get("name") == "audited")
    assert entry["responseStatus"]["code"] == 422
    assert entry["annotations"]["clusterresourceplacements.validate.harbormaster.dev/rules"] == "P-41,X-01"


def wait_for(condition, seconds: float = PATIENCE) -> None:
    end = time.monotonic() + seconds
    while True:
        try:
            if condition():
                return
        except ApiError:
            pass
        assert time.monotonic() < end
        time.sleep(0.1)


REQUESTED = {
    "apiVersion": APPROVAL_REQUEST.api_version,
    "kind": APPROVAL_REQUEST.kind,
    "metadata": {"name": "release-after-pilot"},
    "spec": {"parentStageRollout": "release", "targetStage": "pilot"},
}


def test_nobody_but_the_loop_asks_for_the_approval_of_a_stage(hub):
    """Not even an administrator: whoever could create a request could approve it before anybody was asked (X-50)."""
    for user in ("alice", "admin"):
        done = hub.kubectl("create", "-f", "-", given=REQUESTED, user=user, check=False)
        assert done.returncode == 1
        assert "only harbormaster may create approval requests" in done.stderr, done.stderr


def test_an_approval_may_have_a_reason_in_words(hub):
    """As published: the schema refuses it, so the hook moves it to the message, for those who may approve (F-18)."""
    hub.kubectl("create", f"--as={OWN_CONTROLLER}", "--as-group=system:masters", "-f", "-", given=REQUESTED)
    condition = {
        "type": "Approved",
        "status": "True",
        "reason": "tested as OK",
        "message": "lgtm",
        "lastTransitionTime": "2026-03-01T12:00:00Z",
        "observedGeneration": 1,
    }
    analyzed = {**condition, "type": "Analyzed", "status": "False", "reason": "Waiting"}
    words = ("patch", APPROVAL_REQUEST.resource, "release-after-pilot", "--type=merge", "--subresource=status", "-p")
    patch = json.dumps({"status": {"conditions": [analyzed, condition]}})
    assert "Forbidden" in hub.kubectl(*words, patch, user="bob", check=False).stderr
    done = hub.kubectl(*words, patch, user="alice")
    assert done.stdout == "clusterapprovalrequest.placement.kubernetes-fleet.io/release-after-pilot patched\n"
    assert 'Warning: status.conditions[1].reason: "tested as OK" is not one word' in done.stderr
    stored = hub.request("GET", f"{FLEET}/v1/{APPROVAL_REQUEST.plural}/release-after-pilot")[0]
    assert stored["status"]["conditions"] == [
        analyzed,
        {**condition, "reason": "ApprovedByUser", "message": "tested as OK: lgtm"},
    ]
    refused = json.dumps({"status": {"conditions": [{**analyzed, "reason": "too slow"}]}})
    assert "status.conditions[0].reason" in hub.kubectl(*words, refused, user="alice", check=False).stderr
    hub.kubectl("delete", APPROVAL_REQUEST.resource, "release-after-pilot")
