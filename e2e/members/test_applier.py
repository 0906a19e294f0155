"""Applying Works to a real member: its API server merges, defaults, refuses and collects as API servers do.

The hub is an embedded store: what matters here happens on the member. The agent has a user of its own there, and all
that it writes is in the audit log of the member's API server.
"""

import asyncio
import contextlib
import json
import signal
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta

import pytest

from e2e.controlplane.cluster import ApiError, Cluster
from e2e.controlplane.process import PATIENCE, Program, kill
from e2e.fleet.bed import COLLECTORS
from e2e.members.applying import (
    AGENT,
    CLIENT,
    FULL,
    IF_NOT_DRIFTED,
    REPORT,
    SERVER,
    SPACE,
    Bed,
    JsonObject,
    order_and_delete,
    running_bed,
)
from scorer.api.kinds import APPLIED_WORK, KINDS, WORK
from scorer.api.names import LAST_APPLIED, WORK_CLEANUP
from tests.waiting import until
from webhook.kube.client.api_server import ApiServer
from webhook.kube.client.hub_store import HubStore
from webhook.kube.ports import Key, NotFoundError, StoreError
from webhook.member.apply.contention import Memory
from webhook.member.store.api_server import RemoteMember
from webhook.member.store.ports import MANAGER
from webhook.member.works.reconciler import reconcile_work

LIMITED = "bob"
"""A user of `own_hub` without rights."""
RBAC = "rbac.authorization.k8s.io/v1"
WIDGETS, LIMITED_ROLE = "widgets.t", "limited-t"
"""What the names begin with that tests give to definitions and to roles."""


@pytest.fixture(scope="module")
def cluster(own_hub: Cluster) -> Iterator[Cluster]:
    """A member with our definitions, whose garbage is collected."""
    yield own_hub
    for path in (
        "apiextensions.k8s.io/v1/customresourcedefinitions",
        f"{RBAC}/clusterroles",
        f"{RBAC}/clusterrolebindings",
    ):
        for item in own_hub.request("GET", f"/apis/{path}")[0]["items"]:
            name = item["metadata"]["name"]
            if name.startswith((WIDGETS, LIMITED_ROLE)):
                own_hub.request("DELETE", f"/apis/{path}/{name}")


@pytest.fixture(scope="module")
def controller_manager(cluster: Cluster) -> Iterator[Program]:
    """All controllers but those that run already."""
    found = cluster.start_controller_manager(("*", *(f"-{name}" for name in COLLECTORS)))
    yield found
    kill(found)


@pytest.fixture
async def bed(cluster: Cluster) -> AsyncIterator[Bed]:
    async with running_bed(cluster) as bed:
        yield bed


def owner_names(document: JsonObject | None) -> list[str]:
    assert document is not None
    return [owner["name"] for owner in document["metadata"].get("ownerReferences") or ()]


@pytest.mark.parametrize(
    "strategy",
    [
        pytest.param(CLIENT, id="client-side"),
        pytest.param(SERVER, id="server-side"),
        pytest.param({**SERVER, "serverSideApplyConfig": {"force": True}}, id="forced"),
        pytest.param({**CLIENT, **FULL}, id="client-side-full"),
        pytest.param({**SERVER, **FULL}, id="server-side-full"),
        pytest.param({**CLIENT, **IF_NOT_DRIFTED}, id="client-side-if-not-drifted"),
        pytest.param({**SERVER, **IF_NOT_DRIFTED}, id="server-side-if-not-drifted"),
        pytest.param(REPORT, id="report-diff"),
        pytest.param({**REPORT, "whenToTakeOver": "Never", **FULL}, id="report-diff-full"),
    ],
)
@pytest.mark.usefixtures("controller_manager")
async def test_a_second_pass_writes_nothing(bed, strategy):
    """Also while the controllers of the member report."""
    broken = [{"kind": "x"}, bed.config_map()]
    await bed.place(*bed.many_kinds(), *broken, applyStrategy=strategy)
    await bed.reconcile()
    if strategy["type"] != "ReportDiff":
        assert await bed.reasons() == ["Applied"] * 7 + ["DecodingErred", "Duplicated"]
        await bed.until_settled()
        await bed.reconcile()
    else:
        assert (await bed.reasons())[7:] == ["FailedToReportDiff"] * 2
        assert [(await bed.message(at)).partition(":")[0] for at in (7, 8)] == ["DecodingErred", "Duplicated"]
    await bed.assert_quiet()


@pytest.mark.usefixtures("controller_manager")
@pytest.mark.parametrize("strategy", [CLIENT, SERVER], ids=["client-side", "server-side"])
async def test_an_agent_that_starts_anew_only_asks(bed, strategy):
    await bed.place(*bed.many_kinds(), applyStrategy=strategy)
    await bed.reconcile()
    await bed.until_settled()
    await bed.reconcile()
    bed.memory = Memory()
    await bed.assert_quiet()


@pytest.mark.usefixtures("controller_manager")
@pytest.mark.parametrize(
    "strategy", [FULL, {**CLIENT, **IF_NOT_DRIFTED}, REPORT], ids=["full", "drifted", "report-diff"]
)
async def test_a_second_pass_writes_nothing_to_a_real_hub_either(bed, cluster, strategy):
    """What the hub's API server makes of the status is what was sent: drifts, differences, status, odd manifests."""
    async with await ApiServer.connect(cluster.kubeconfigs[AGENT]) as server:
        hub = HubStore(server)
        space = {**bed.namespace(), "metadata": {"name": f"fleet-member-{bed.space}"}}
        cluster.request("POST", "/api/v1/namespaces", space)
        key = Key(bed.space, f"fleet-member-{bed.space}")
        odd = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "x-", "namespace": bed.space}}]
        missing = [{"apiVersion": "a.example/v1", "kind": "X", "metadata": {"name": "x"}}]
        spec = {
            "workload": {"manifests": [*bed.many_kinds(), bed.config_map(), *odd, *missing]},
            "applyStrategy": strategy,
            "reportBackStrategy": {"type": "Mirror", "destination": "OriginalResource"},
        }
        metadata = {"name": key.name, "namespace": key.namespace}
        await hub.create(WORK, {"apiVersion": WORK.api_version, "kind": "Work", "metadata": metadata, "spec": spec})
        await reconcile_work(key, hub, bed.member, bed.time, bed.memory)
        if strategy is not REPORT:
            bed.patch("configmaps", "settings", data={"level": "debug", "foreign": "f"})
            await bed.until_settled()
            await reconcile_work(key, hub, bed.member, bed.time, bed.memory)
        mark = cluster.audit_mark()
        await reconcile_work(key, hub, bed.member, bed.time + timedelta(minutes=4), bed.memory)
        assert bed.writes(mark) == []
        status = (await hub.get(WORK, key))["status"]
        details = {"driftDetails", "diffDetails"} & {name for entry in status["manifestConditions"] for name in entry}
        assert details == ({"diffDetails"} if strategy is REPORT else {"driftDetails"})
        await order_and_delete(hub, key)
        async with asyncio.timeout(PATIENCE):
            while not (await reconcile_work(key, hub, bed.member, bed.time)).gone:  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.3)
        with pytest.raises(NotFoundError):
            await hub.get(WORK, key)


async def test_quantities_are_not_drifts_unless_everything_is_compared(bed):
    await bed.place(bed.deployment(cpu="1000m"), applyStrategy=IF_NOT_DRIFTED)
    await bed.reconcile()
    await bed.reconcile()
    assert await bed.reasons() == ["Applied"]
    assert bed.live("apps/v1/deployments", "shop")["spec"]["template"]["spec"]["containers"][0]["resources"] == {
        "limits": {"cpu": "1", "memory": "1Gi"}
    }


async def test_requests_go_to_the_version_of_the_manifest(bed):
    scaler = bed.many_kinds()[-1]
    mark = bed.cluster.audit_mark()
    await bed.place(scaler, {**scaler, "apiVersion": "autoscaling/v9"}, {"apiVersion": "a.example/v1", "kind": "X"})
    await bed.reconcile()
    assert [path for _, path in bed.writes(mark) if "autoscaling" in path] == [
        f"/apis/autoscaling/v1/namespaces/{bed.space}/horizontalpodautoscalers?fieldManager=work-api-agent"
    ]
    assert await bed.reasons() == ["Applied", "DecodingErred", "DecodingErred"]
    assert "does not serve version v9 of HorizontalPodAutoscaler.autoscaling, only v2, v1" in await bed.message(1)
    assert "does not serve kind X a.example/v1" in await bed.message(2)
    uid = bed.live("autoscaling/v2/horizontalpodautoscalers", "h")["metadata"]["uid"]
    newer = {"metrics": [], "maxReplicas": 4, "scaleTargetRef": scaler["spec"]["scaleTargetRef"]}
    await bed.place({**scaler, "apiVersion": "autoscaling/v2", "spec": newer})
    await bed.reconcile()
    live = bed.live("autoscaling/v2/horizontalpodautoscalers", "h")
    assert (live["metadata"]["uid"], live["spec"]["maxReplicas"]) == (uid, 4), "another version is the same object"


def definition(group: str, *versions: str) -> JsonObject:
    """A CustomResourceDefinition of Widgets; the last version is stored."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets", "listKind": "WidgetList", "singular": "widget"},
            "versions": [
                {"name": name, "served": True, "storage": name == versions[-1], "schema": {"openAPIV3Schema": schema}}
                for name in versions
            ],
        },
    }


@pytest.mark.parametrize("strategy", [CLIENT, SERVER], ids=["client-side", "server-side"])
async def test_a_definition_travels_with_its_objects(bed, strategy):
    group = f"{bed.space}.example.com"
    widget = {"kind": "Widget", "metadata": {"name": "w", "namespace": bed.space}, "spec": {"size": 1}}
    stored, older = ({**widget, "apiVersion": f"{group}/{version}"} for version in ("v1", "v1alpha1"))
    older = {**older, "metadata": {**older["metadata"], "name": "older"}}
    await bed.place(older, stored, definition(group, "v1alpha1", "v1"), applyStrategy=strategy)
    await bed.reconcile()
    if "DecodingErred" in await bed.reasons():
        pytest.fail(await bed.message(0))
    await bed.until_reasons(["Applied"] * 3)  # discovery precedes the endpoints of the new kind
    assert bed.live(f"{group}/v1/widgets", "older")["spec"] == {"size": 1}
    await bed.reconcile()
    await bed.assert_quiet()
    mark = bed.cluster.audit_mark()
    await bed.place(definition(group, "v1alpha1", "v1"), older, applyStrategy=strategy)
    await bed.reconcile()
    assert bed.writes(mark) == [("delete", f"/apis/{group}/v1/namespaces/{bed.space}/widgets/w")] + [
        ("update", f"/apis/{APPLIED_WORK.api_version}/appliedworks/{bed.space}{end}")
        for end in ("/status", f"?fieldManager={MANAGER}")
    ]
    bed.cluster.request("DELETE", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.{group}")
    await until(lambda: bed.live(f"{group}/v1/widgets", "older") is None)
    await bed.place(older, applyStrategy=strategy)
    await until(lambda: not served(bed, group))
    await bed.reconcile()
    assert await bed.reasons() == ["DecodingErred"], "the definition has gone meanwhile"


def served(bed: Bed, group: str) -> bool:
    groups = bed.cluster.request("GET", "/apis")[0]["groups"]
    return any(entry["name"] == group for entry in groups)


async def test_waves_come_in_order_and_no_failure_stops_the_next(bed):
    rbac = "rbac.authorization.k8s.io/v1"
    place = {"namespace": bed.space}
    subject = {"kind": "User", "name": "x"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
    manifests = [
        {**bed.deployment(), "spec": {}},
        {
            "apiVersion": rbac,
            "kind": "RoleBinding",
            "metadata": {"name": "b", **place},
            "subjects": [subject],
            "roleRef": reference,
        },
        {"apiVersion": rbac, "kind": "Role", "metadata": {"name": "r", **place}, "rules": []},
        {**bed.config_map("Not A Name")},
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", **place}, "spec": {"ports": [{"port": 1}]}},
        bed.config_map(),
    ]
    mark = bed.cluster.audit_mark()
    await bed.place(*manifests)
    await bed.reconcile()
    assert await bed.reasons() == ["ManifestApplyFailed", *["Applied"] * 2, "ManifestApplyFailed", *["Applied"] * 2]
    assert "spec.selector" in await bed.message(0)
    assert "Not A Name" in await bed.message(3)
    plurals = [path.partition("?")[0].rpartition("/")[2] for _, path in bed.writes(mark)]
    assert plurals[0] == "appliedworks"
    assert sorted(plurals[1:3]) == ["configmaps", "configmaps"]
    assert plurals[3:5] == ["roles", "rolebindings"]
    assert sorted(plurals[5:7]) == ["deployments", "services"]
    assert plurals[7:] == ["status", bed.space]


@pytest.mark.parametrize(
    ("strategy", "others", "data", "reason", "level"),
    [
        pytest.param({}, "", {"level": "x"}, "Applied", "info", id="always"),
        pytest.param({"whenToTakeOver": "Never"}, "", {"level": "x"}, "NotTakenOver", "x", id="never"),
        pytest.param({"whenToTakeOver": "IfNoDiff"}, "", {"level": "x"}, "FailedToTakeOver", "x", id="differs"),
        pytest.param({"whenToTakeOver": "IfNoDiff"}, "", {"level": "info", "y": "z"}, "Applied", "info", id="partly"),
        pytest.param(
            {"whenToTakeOver": "IfNoDiff", **FULL},
            "",
            {"level": "info", "y": "z"},
            "FailedToTakeOver",
            "info",
            id="full",
        ),
        pytest.param({}, "ConfigMap", {"level": "x"}, "FailedToTakeOver", "x", id="owned-by-others"),
        pytest.param({"allowCoOwnership": True}, "ConfigMap", {"level": "x"}, "Applied", "info", id="shared"),
        pytest.param(
            {"allowCoOwnership": True}, "AppliedWork", {"level": "x"}, "FailedToTakeOver", "x", id="of-another-work"
        ),
        pytest.param({}, "left-behind", {"level": "x"}, "Applied", "info", id="left-behind-by-another-work"),
        pytest.param(
            {**SERVER, "serverSideApplyConfig": {"force": True}}, "", {"level": "x"}, "Applied", "info", id="force"
        ),
        pytest.param(SERVER, "", {"level": "x"}, "ManifestApplyFailed", "x", id="managed-by-others"),
    ],
)
async def test_taking_over_what_was_there(bed, strategy, others, data, reason, level):
    owner: JsonObject | None = None
    if others == "ConfigMap":
        made = bed.create(bed.config_map("stranger"))
        owner = {"apiVersion": "v1", "kind": "ConfigMap"}
    elif others:
        spec = {"workName": "w", "workNamespace": SPACE}
        name = f"{bed.space}-other"
        document = {
            "apiVersion": APPLIED_WORK.api_version,
            "kind": "AppliedWork",
            "metadata": {"name": name},
            "spec": spec,
        }
        made = bed.cluster.request("POST", f"/apis/{APPLIED_WORK.api_version}/appliedworks", document)[0]
        owner = {"apiVersion": APPLIED_WORK.api_version, "kind": "AppliedWork"}
        if others == "AppliedWork":
            await bed.place(work=name)
    existing = bed.config_map(**data)
    if owner is not None:
        owner |= {"name": made["metadata"]["name"], "uid": made["metadata"]["uid"]}
        existing["metadata"]["ownerReferences"] = [owner]
    bed.create(existing)
    await bed.place(bed.config_map(level="info"), applyStrategy=strategy)
    await bed.reconcile()
    assert await bed.reasons() == [reason]
    live = bed.live("configmaps", "settings")
    assert live["data"]["level"] == level
    (entry,) = await bed.entries()
    assert ("diffDetails" in entry) == (reason == "FailedToTakeOver" and owner is None)
    taken = reason in {"Applied", "ManifestApplyFailed"}
    kept = [owner["name"]] if owner is not None and others != "left-behind" else []
    assert owner_names(live) == [*kept, *([bed.space] if taken else [])]
    if reason != "ManifestApplyFailed":
        await bed.assert_quiet()


async def test_what_can_be_reported_without_touching_anything(bed):
    other_selector = bed.deployment()
    other_selector["spec"]["selector"]["matchLabels"] = {"app": "other"}
    other_selector["spec"]["template"]["metadata"]["labels"] = {"app": "other"}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": bed.space}}
    bed.create(bed.config_map("same", level="info"))
    bed.create(bed.config_map("other", level="debug"))
    bed.create(bed.deployment(), "apps/v1/deployments")
    bed.create({**secret, "stringData": {"password": "on-the-member"}}, "secrets")
    manifests = [
        bed.config_map("same", level="info"),
        bed.config_map("other", level="info"),
        bed.config_map("missing"),
        other_selector,
        {**secret, "stringData": {"password": "on-the-hub"}},
    ]
    mark = bed.cluster.audit_mark()
    await bed.place(*manifests, applyStrategy={**REPORT, "whenToTakeOver": "Never"})
    await bed.reconcile()
    assert [path.partition("?")[0].rpartition("/")[2] for _, path in bed.writes(mark)] == ["appliedworks", bed.space]
    assert await bed.reasons() == ["NoDiffFound", "FoundDiff", "FoundDiff", "FoundDiffInDegradedMode", "FoundDiff"]
    entries = await bed.entries()
    assert entries[1]["diffDetails"]["observedDiffs"] == [
        {"path": "/data/level", "valueInMember": "debug", "valueInHub": "info"}
    ]
    assert [detail["path"] for detail in entries[2]["diffDetails"]["observedDiffs"]] == ["/"]
    paths = {detail["path"] for detail in entries[3]["diffDetails"]["observedDiffs"]}
    assert "/spec/selector/matchLabels/app" in paths
    assert "member" not in json.dumps(entries[4]["diffDetails"]["observedDiffs"]).replace("valueInMember", "")
    work = await bed.hub.get(WORK, Key(bed.space, SPACE))
    assert [(condition["type"], condition["status"]) for condition in work["status"]["conditions"]] == [
        ("DiffReported", "True")
    ]


@pytest.mark.parametrize("when", ["Always", "IfNoDiff", "Never"])
async def test_a_comparison_writes_nothing_in_its_whole_life(bed, cluster, when):
    """With and without a difference: all that the audit log has of the agent are writes to the AppliedWork."""
    bed.create(bed.config_map(level="debug"))
    bed.create(bed.config_map("same", level="info"))
    names = ("settings", "same")
    before, mark = [bed.live("configmaps", name) for name in names], cluster.audit_mark()
    strategy = {**REPORT, "whenToTakeOver": when}
    await bed.place(bed.config_map(level="info"), bed.config_map("same", level="info"), applyStrategy=strategy)
    await bed.reconcile()
    assert await bed.reasons() == ["FoundDiff", "NoDiffFound"]
    await bed.place(bed.config_map(level="trace"), applyStrategy=strategy)
    await bed.reconcile()
    await bed.delete()
    await bed.until_gone()
    assert [bed.live("configmaps", name) for name in names] == before
    written = [event for event in cluster.audit(mark) if event["user"]["username"] == AGENT]
    stored = [event for event in written if "dryRun" not in event["requestURI"]]
    assert {event["objectRef"]["resource"] for event in stored} == {"appliedworks"}


async def test_what_the_agent_may_not_do_is_said_of_the_manifest(bed, cluster):
    """Everything but Secrets can be read, ConfigMaps can be made and not patched."""
    rbac = f"/apis/{RBAC}"
    rules = [
        {"apiGroups": ["placement.kubernetes-fleet.io"], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create"]},
    ]
    name = {"name": f"limited-{bed.space}"}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": name, "rules": rules}
    cluster.request("POST", f"{rbac}/clusterroles", role)
    binding = {
        **role,
        "kind": "ClusterRoleBinding",
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", **name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": LIMITED}],
    }
    binding.pop("rules")
    cluster.request("POST", f"{rbac}/clusterrolebindings", binding)
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": bed.space}}
    async with await ApiServer.connect(cluster.kubeconfigs[LIMITED]) as server:
        member = RemoteMember(server)
        await bed.place(secret, bed.config_map())
        await bed.reconcile(member=member)
        assert await bed.reasons() == ["FailedToFindObjInMemberCluster", "Applied"]
        assert 'cannot get resource "secrets"' in await bed.message(0)
        await bed.place(bed.config_map(level="other"), applyStrategy=REPORT)
        await bed.reconcile(member=member)
        assert await bed.reasons() == ["FailedToReportDiff"]
        assert 'cannot patch resource "configmaps"' in await bed.message(0)
        await bed.place(bed.config_map("another"))
        await bed.reconcile(member=member)
        assert bed.live("configmaps", "settings") is not None, "may not be deleted"
        assert owner_names(bed.live("configmaps", "settings")) == [bed.space]
    await bed.reconcile()
    assert bed.live("configmaps", "settings") is None, "and is not forgotten"


@pytest.mark.parametrize("strategy", [CLIENT, SERVER], ids=["client-side", "server-side"])
async def test_what_is_done_by_hand_is_undone(bed, strategy):
    force = {"serverSideApplyConfig": {"force": True}} if strategy is SERVER else {}
    await bed.place(bed.config_map(level="info"), bed.deployment(), applyStrategy={**strategy, **force})
    await bed.reconcile()
    bed.patch("configmaps", "settings", data={"level": "debug", "foreign": "f"})
    bed.cluster.request("DELETE", bed.path("apps/v1/deployments", "shop"))
    await until(lambda: bed.live("apps/v1/deployments", "shop") is None)
    await bed.reconcile()
    assert bed.live("configmaps", "settings")["data"] == {"level": "info", "foreign": "f"}
    assert bed.live("apps/v1/deployments", "shop") is not None
    assert await bed.reasons() == ["Applied", "Applied"]


@pytest.mark.parametrize("strategy", [CLIENT, SERVER], ids=["client-side", "server-side"])
async def test_drifts_are_left_alone_when_asked_for(bed, strategy):
    drifting = {**strategy, **IF_NOT_DRIFTED}
    await bed.place(bed.config_map(level="info"), bed.config_map("fixed", level="info"), applyStrategy=drifting)
    await bed.reconcile()
    bed.patch("configmaps", "settings", data={"level": "debug"})
    bed.patch("configmaps", "fixed", data={"level": "debug"}, immutable=True)
    await bed.reconcile()
    assert await bed.reasons() == ["FoundDrifts", "FoundDriftsInDegradedMode"]
    assert bed.live("configmaps", "settings")["data"] == {"level": "debug"}
    details = (await bed.entries())[0]["driftDetails"]
    assert details["observedDrifts"] == [{"path": "/data/level", "valueInMember": "debug", "valueInHub": "info"}]
    await bed.assert_quiet()
    bed.time += timedelta(minutes=6)
    await bed.reconcile()
    later = (await bed.entries())[0]["driftDetails"]
    assert later["observationTime"] > details["observationTime"]
    assert later["firstDriftedObservedTime"] == details["firstDriftedObservedTime"]
    force = {"serverSideApplyConfig": {"force": True}} if strategy is SERVER else {}
    await bed.place(bed.config_map(level="warn"), applyStrategy={**drifting, **force})
    await bed.reconcile()
    assert await bed.reasons() == ["Applied"]
    assert bed.live("configmaps", "settings")["data"] == {"level": "warn"}


async def test_full_comparison_shows_what_others_added(bed):
    await bed.place(bed.config_map(level="info"), applyStrategy=FULL)
    await bed.reconcile()
    bed.patch("configmaps", "settings", data={"foreign": "f"})
    await bed.reconcile()
    (entry,) = await bed.entries()
    assert entry["conditions"][0]["reason"] == "Applied"
    assert entry["driftDetails"]["observedDrifts"] == [{"path": "/data/foreign", "valueInMember": "f"}]


async def test_what_cannot_be_compared_is_applied_all_the_same(bed):
    group = f"{bed.space}.example.com"
    widget = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": bed.space}}
    await bed.place(definition(group, "v1"), {**widget, "spec": {"size": 1}}, applyStrategy={**SERVER, **FULL})
    await bed.reconcile()
    await bed.until_reasons(["Applied", "Applied"])  # discovery precedes the endpoints of the new kind
    deep: JsonObject = {}
    for _ in range(400):
        deep = {"d": deep}
    bed.patch(f"{group}/v1/widgets", "w", spec={"deep": deep})
    await bed.reconcile()
    assert await bed.reasons() == ["Applied", "AppliedWithFailedDriftDetection"]
    assert "nested too deeply" in await bed.message(1)
    work = await bed.hub.get(WORK, Key(bed.space, SPACE))
    assert work["status"]["conditions"][0]["reason"] == "AllManifestsApplied"
    await bed.assert_quiet()
    await bed.place(definition(group, "v1"), {**widget, "spec": {"size": 2}})
    await bed.reconcile()
    assert await bed.reasons() == ["Applied", "ManifestApplyFailed"], "the whole object cannot be sent"


async def test_fields_that_others_manage_are_taken_by_force_only(bed):
    await bed.place(bed.config_map(level="info"), applyStrategy=SERVER)
    await bed.reconcile()
    bed.patch("configmaps", "settings", data={"level": "debug"})
    await bed.reconcile()
    assert await bed.reasons() == ["ManifestApplyFailed"]
    assert 'conflict with "by-hand"' in await bed.message()
    assert bed.live("configmaps", "settings")["data"] == {"level": "debug"}
    await bed.place(bed.config_map(level="info"), applyStrategy={**SERVER, "serverSideApplyConfig": {"force": True}})
    await bed.reconcile()
    assert bed.live("configmaps", "settings")["data"] == {"level": "info"}
    assert await bed.reasons() == ["Applied"]


@pytest.mark.usefixtures("controller_manager")
async def test_from_one_way_of_applying_to_the_other_and_back(bed):
    """Nothing is left behind that only an earlier manifest held, whichever way it came and goes."""
    first, second = bed.deployment(image="shop:1"), bed.deployment(image="shop:2")
    ways = [
        (CLIENT, {"a": "1", "b": "1"}, first),
        (SERVER, {"a": "2"}, second),
        (SERVER, {"c": "2"}, first),
        (CLIENT, {"d": "3"}, second),
        (CLIENT, {"d": "4"}, first),
        (SERVER, {"d": "4"}, first),
        (SERVER, {"e": "5"}, second),
    ]
    for strategy, data, deployment in ways:
        await bed.place(bed.config_map(**data), deployment, applyStrategy=strategy)
        await bed.reconcile()
        assert await bed.reasons() == ["Applied", "Applied"], await bed.entries()
        assert bed.live("configmaps", "settings")["data"] == data
        container = bed.live("apps/v1/deployments", "shop")["spec"]["template"]["spec"]["containers"][0]
        assert container["image"] == deployment["spec"]["template"]["spec"]["containers"][0]["image"]
        await bed.until_settled()
        await bed.reconcile()
        await bed.assert_quiet()


async def test_a_manifest_too_large_for_an_annotation_is_left_to_the_server(bed):
    await bed.place(bed.config_map(a="x" * 300_000, b="y"))
    await bed.reconcile()
    live = bed.live("configmaps", "settings")
    assert live["metadata"]["annotations"][LAST_APPLIED] == ""
    managers = [(entry["manager"], entry["operation"]) for entry in live["metadata"]["managedFields"]]
    assert managers == [("work-api-agent", "Apply")]
    await bed.assert_quiet()
    await bed.place(bed.config_map(a="z" * 300_000))
    await bed.reconcile()
    assert set(bed.live("configmaps", "settings")["data"]) == {"a"}
    await bed.place(bed.config_map(a="short"))
    await bed.reconcile()
    assert bed.live("configmaps", "settings")["data"] == {"a": "short"}
    await bed.assert_quiet()


async def test_left_overs_go_and_what_others_own_too_is_let_go(bed):
    stranger = bed.create(bed.config_map("stranger"))
    await bed.place(bed.config_map("own"), bed.config_map("shared"), bed.config_map("freed"))
    await bed.reconcile()
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "stranger", "uid": stranger["metadata"]["uid"]}
    ours = bed.live("configmaps", "shared")["metadata"]["ownerReferences"]
    bed.patch("configmaps", "shared", metadata={"ownerReferences": [*ours, other]})
    bed.patch("configmaps", "freed", metadata={"ownerReferences": []})
    await bed.reconcile()
    assert await bed.reasons() == ["Applied", "ManifestApplyFailed", "Applied"]
    assert "ConfigMap stranger" in await bed.message(1)
    bed.patch("configmaps", "freed", metadata={"ownerReferences": []})
    await bed.place(bed.config_map("another"))
    await bed.reconcile()
    assert bed.live("configmaps", "own") is None
    assert owner_names(bed.live("configmaps", "shared")) == ["stranger"]
    assert owner_names(bed.live("configmaps", "freed")) == []
    await bed.assert_quiet()


@pytest.mark.usefixtures("controller_manager")
async def test_a_deleted_work_takes_its_objects_along(bed):
    group = f"{bed.space}.example.com"
    widget = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": bed.space}}
    stranger = bed.create(bed.config_map("stranger"))
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"{bed.space}-placed"}}
    inside = {**bed.config_map("inside"), "metadata": {"name": "inside", "namespace": f"{bed.space}-placed"}}
    strategy = {"allowCoOwnership": True}
    manifests = [bed.config_map("own"), bed.config_map("shared"), space, inside, definition(group, "v1"), widget]
    await bed.place(*manifests, bed.deployment(), applyStrategy=strategy)
    await bed.reconcile()
    ours = bed.live("configmaps", "shared")["metadata"]["ownerReferences"]
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "stranger", "uid": stranger["metadata"]["uid"]}
    bed.patch("configmaps", "shared", metadata={"ownerReferences": [*ours, other]})
    await bed.delete()
    assert not await bed.reconcile()
    work = await bed.hub.get(WORK, Key(bed.space, SPACE))
    assert work["metadata"]["finalizers"] == [WORK_CLEANUP]
    await bed.until_gone()
    assert bed.live("configmaps", "own") is None
    assert bed.live("apps/v1/deployments", "shop") is None
    assert owner_names(bed.live("configmaps", "shared")) == ["stranger"]
    with pytest.raises(ApiError, match="404"):
        bed.cluster.request("GET", f"/apis/{APPLIED_WORK.api_version}/appliedworks/{bed.space}")
    await until(lambda: not served(bed, group))


@pytest.mark.usefixtures("controller_manager")
async def test_an_applied_work_that_somebody_deletes_takes_nothing_along(bed):
    """The garbage collector would take the placed namespace, and with it what is local in it."""
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"{bed.space}-placed"}}
    local = {**bed.config_map("local"), "metadata": {"name": "local", "namespace": f"{bed.space}-placed"}}
    await bed.place(space, bed.config_map("own"), applyStrategy={"whenToTakeOver": "Never"})
    await bed.reconcile()
    bed.cluster.request("POST", f"/api/v1/namespaces/{bed.space}-placed/configmaps", local)
    uid = bed.live("configmaps", "own")["metadata"]["uid"]
    path = f"/apis/{APPLIED_WORK.api_version}/appliedworks/{bed.space}"
    before = bed.cluster.request("GET", path)[0]["metadata"]["uid"]
    bed.cluster.request("DELETE", path)
    await bed.until_collected()
    await bed.reconcile()
    assert bed.cluster.request("GET", path)[0]["metadata"]["uid"] != before
    await bed.until_collected()
    assert await bed.reasons() == ["Applied", "Applied"]
    assert bed.live("configmaps", "own")["metadata"]["uid"] == uid
    placed, _ = bed.cluster.request("GET", f"/api/v1/namespaces/{bed.space}-placed")
    assert "deletionTimestamp" not in placed["metadata"]
    bed.cluster.request("GET", f"/api/v1/namespaces/{bed.space}-placed/configmaps/local")
    await bed.assert_quiet()


@pytest.mark.usefixtures("controller_manager")
async def test_an_abandoned_work_leaves_its_objects(bed):
    await bed.place(bed.config_map(), bed.deployment())
    await bed.reconcile()
    uid = bed.live("apps/v1/deployments", "shop")["metadata"]["uid"]
    await bed.delete(abandon=True)
    await bed.until_gone()
    await bed.until_collected()
    assert owner_names(bed.live("configmaps", "settings")) == []
    assert bed.live("apps/v1/deployments", "shop")["metadata"]["uid"] == uid


async def test_what_holds_an_applied_work_for_too_long_is_told_not_to(bed, cluster):
    collector = cluster.companions[0]
    stranger = bed.create(bed.config_map("stranger"))
    await bed.place(bed.config_map("own"), bed.config_map("shared"))
    await bed.reconcile()
    ours = bed.live("configmaps", "shared")["metadata"]["ownerReferences"]
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "stranger", "uid": stranger["metadata"]["uid"]}
    bed.patch("configmaps", "shared", metadata={"ownerReferences": [*ours, other]})
    collector.send(signal.SIGSTOP)
    try:
        await bed.delete()
        assert not await bed.reconcile()
        assert not await bed.reconcile()
        assert bed.live("configmaps", "shared")["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] is True
        bed.time += timedelta(minutes=6)
        assert not await bed.reconcile()
        assert bed.live("configmaps", "shared")["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] is False
        assert bed.live("configmaps", "own")["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] is True
        await bed.assert_quiet()
    finally:
        collector.send(signal.SIGCONT)
    await bed.until_gone()


async def test_the_status_of_objects_comes_back(bed, controller_manager):
    assert controller_manager.running
    await bed.place(bed.deployment(), reportBackStrategy={"type": "Mirror", "destination": "OriginalResource"})
    await bed.reconcile()
    await bed.until_settled()
    await bed.reconcile()
    (entry,) = await bed.entries()
    assert entry["backReportedStatus"]["observedStatus"] == bed.live("apps/v1/deployments", "shop")["status"]
    bed.time += timedelta(minutes=1)
    await bed.assert_quiet()


def is_refused(bed: Bed, document: JsonObject) -> bool:
    """Return whether the API server refuses to create an object."""
    try:
        bed.cluster.request("POST", f"{bed.path('secrets', '')[:-1]}?dryRun=All", document)
    except ApiError:
        return True
    return False


async def test_a_failing_webhook_concerns_only_what_it_is_asked_about(bed, cluster):
    hook = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": f"nobody-{bed.space}"},
        "webhooks": [
            {
                "name": "nobody.example.com",
                "clientConfig": {"url": "https://127.0.0.1:1/"},
                "rules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["secrets"], "operations": ["CREATE"]}
                ],
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "timeoutSeconds": 1,
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": bed.space}},
            }
        ],
    }
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    cluster.request("POST", path, hook)
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": bed.space}}
    try:
        await until(lambda: is_refused(bed, secret), PATIENCE)  # the API server reads the configuration with a delay
        await bed.place(secret, bed.config_map())
        await bed.reconcile()
        assert await bed.reasons() == ["ManifestApplyFailed", "Applied"]
        assert "nobody.example.com" in await bed.message(0)
    finally:
        cluster.request("DELETE", f"{path}/nobody-{bed.space}")


async def test_a_member_that_goes_away_in_the_middle_says_nothing_about_objects(bed, cluster):
    await bed.place(*(bed.config_map(f"c{number}") for number in range(300)))
    passing = asyncio.create_task(bed.reconcile())
    await until(lambda: bed.live("configmaps", "c20") is not None)
    cluster.apiserver.stop(number=signal.SIGKILL)
    try:
        with pytest.raises(StoreError):
            await passing
        assert set(await bed.reasons()) == {"PreparingToProcess"}
    finally:
        await asyncio.to_thread(cluster.start)
    await bed.reconcile()
    assert set(await bed.reasons()) == {"Applied"}
    with contextlib.suppress(NotFoundError):
        await bed.member.delete(KINDS["", "Namespace"], Key(bed.space))
