"""The webhook configurations: complete, narrow, and closed where something could slip through."""

from dataclasses import replace

import pytest

from scorer.api import kinds
from scorer.rollout.confirmation.policy import NO_CONFIRMATION, RemovalPolicy
from webhook.admission.registration import WebhookEndpoint, webhook_configurations
from webhook.admission.registry import REGISTRY
from webhook.settings.admission import AdmissionSettings, PlacementAuthorization

SETTINGS = AdmissionSettings()


def hooks(settings=SETTINGS, endpoint=None):
    """Both lists of entries, by name."""
    validating, mutating = webhook_configurations(endpoint or WebhookEndpoint(), settings)
    return tuple({hook["name"]: hook for hook in found["webhooks"]} for found in (validating, mutating))


def test_every_kind_is_registered_for_what_the_registry_says():
    validating, mutating = hooks()
    for entry in REGISTRY.values():
        if entry.kind.built_in:
            continue
        mine = [h for h in validating.values() if entry.kind.plural in h["rules"][0]["resources"]]
        operations = [operation for hook in mine for operation in hook["rules"][0]["operations"]]
        assert sorted(operations) == sorted(entry.operations), entry.kind
        assert (f"{entry.kind.plural}.mutate.harbormaster.dev" in mutating) == (entry.default is not None)
        name = f"{entry.kind.plural}.status.mutate.harbormaster.dev"
        assert (name in mutating) == (entry.default_status is not None)


def test_removals_of_content_are_asked_about_where_they_need_confirmation():
    asked, _ = hooks()
    silent, _ = hooks(replace(SETTINGS, removal=NO_CONFIRMATION))
    added = {
        "namespaces.removal": ["UPDATE", "DELETE"],
        "namespaces.exemption": ["CREATE"],
        "persistentvolumeclaims.removal": ["DELETE"],
        "customresourcedefinitions.removal": ["DELETE"],
        "resourceenvelopes.delete": ["DELETE"],
        "clusterresourceenvelopes.delete": ["DELETE"],
        "resourcesnapshots.delete": ["DELETE"],
        "clusterresourcesnapshots.delete": ["DELETE"],
        "schedulingpolicysnapshots.delete": ["DELETE"],
        "clusterschedulingpolicysnapshots.delete": ["DELETE"],
    }
    assert asked.keys() - silent.keys() == {f"{name}.validate.harbormaster.dev" for name in added}
    for name, operations in added.items():
        hook = asked[f"{name}.validate.harbormaster.dev"]
        assert (hook["failurePolicy"], hook["timeoutSeconds"]) == ("Ignore", 2)
        assert hook["rules"][0]["operations"] == operations
    conditions = [each["name"] for each in asked["namespaces.removal.validate.harbormaster.dev"]["matchConditions"]]
    assert conditions == [
        "not-our-own-controller",
        "not-a-controller",
        "not-deleted-yet",
        "not-reserved",
        "other-labels",
    ]


def test_only_namespaces_that_are_created_exempt_are_asked_about():
    exempt = replace(SETTINGS, removal=RemovalPolicy(exempt=('a"b', "yes")))
    hook = hooks(exempt)[0]["namespaces.exemption.validate.harbormaster.dev"]
    assert hook["rules"][0]["resources"] == ["namespaces"]
    assert hook["matchConditions"][-1] == {
        "name": "exempt",
        "expression": 'has(object.metadata.labels) && "a\\"b" in object.metadata.labels && '
        'object.metadata.labels["a\\"b"] == "yes"',
    }
    never = hooks(replace(SETTINGS, removal=RemovalPolicy(exempt=None)))[0]
    assert "namespaces.exemption.validate.harbormaster.dev" not in never


def test_labels_of_namespaces_are_judged_on_every_subresource_and_during_the_deletion():
    """An update of the status, or of the finalizers, can change labels, too."""
    hook = hooks()[0]["namespaces.removal.validate.harbormaster.dev"]
    assert hook["rules"][0]["resources"] == ["namespaces", "namespaces/finalize", "namespaces/status"]
    [condition] = [each for each in hook["matchConditions"] if each["name"] == "not-deleted-yet"]
    assert condition["expression"] == 'request.operation == "UPDATE" || !has(oldObject.metadata.deletionTimestamp)'


def test_the_guard_rail_leaves_time_to_judge_removals():
    on, _ = hooks(replace(SETTINGS, guard_rail=True))
    seconds = {name.partition(".validate")[0]: hook["timeoutSeconds"] for name, hook in on.items()}
    assert (seconds["namespaces.guard"], seconds["customresourcedefinitions.guard"]) == (2, 2)
    assert "namespaces.exemption" not in seconds
    [rule] = on["namespaces.removal.validate.harbormaster.dev"]["rules"]
    assert (rule["operations"], rule["resources"]) == (["UPDATE"], ["namespaces/finalize", "namespaces/status"])
    off, _ = hooks(replace(SETTINGS, removal=NO_CONFIRMATION, guard_rail=True))
    assert off["namespaces.guard.validate.harbormaster.dev"]["timeoutSeconds"] == 1


def test_names_are_unique_and_entries_narrow():
    for found in webhook_configurations(WebhookEndpoint(), replace(SETTINGS, guard_rail=True, block_workloads=True)):
        names = [hook["name"] for hook in found["webhooks"]]
        assert len(names) == len(set(names))
        for hook in found["webhooks"]:
            [rule] = hook["rules"]
            words = (*rule["apiGroups"], *rule["apiVersions"], *rule["resources"], *rule["operations"])
            assert "*" not in "".join(words)
            assert rule["operations"]
            assert hook["sideEffects"] == "None"
            assert hook["matchPolicy"] == "Equivalent"
            assert hook["admissionReviewVersions"] == ["v1"]


@pytest.mark.parametrize(
    ("name", "policy", "seconds", "operations"),
    [
        pytest.param("clusterresourceplacements", "Fail", 5, ["CREATE", "UPDATE"], id="placements"),
        pytest.param("clusterresourceplacements.delete", "Ignore", 2, ["DELETE"], id="a-deletion-is-never-blocked"),
        pytest.param("memberclusters", "Fail", 5, ["CREATE", "UPDATE", "DELETE"], id="but-that-of-members-is-asked"),
        pytest.param("clusterresourceplacementevictions", "Fail", 5, ["CREATE"], id="evictions"),
        pytest.param("clusterapprovalrequests", "Fail", 5, ["CREATE"], id="approvals"),
        pytest.param("clusterapprovalrequests.status", "Ignore", 2, ["UPDATE"], id="approving-only-warns"),
        pytest.param("clusterresourcebindings", "Ignore", 5, ["CREATE", "UPDATE"], id="machines-write-bindings"),
        pytest.param("clusterresourcesnapshots", "Ignore", 5, ["UPDATE"], id="machines-write-snapshots"),
        pytest.param("works", "Ignore", 1, ["CREATE", "UPDATE", "DELETE"], id="guard-rail-on-works"),
        pytest.param("nodepools", "Fail", 5, ["CREATE", "UPDATE"], id="node-pools"),
        pytest.param("nodepools.delete", "Ignore", 2, ["DELETE"], id="deletions-of-node-pools-only-warn"),
        pytest.param("aksnodeclasses", "Ignore", 2, ["UPDATE"], id="node-classes-of-others-only-warn"),
        pytest.param("clusterupgraderuns", "Fail", 5, ["CREATE", "UPDATE"], id="upgrade-runs"),
        pytest.param("clusterupgradegates", "Fail", 5, ["CREATE", "UPDATE"], id="gates"),
        pytest.param("clusterupgradegates.delete", "Ignore", 2, ["DELETE"], id="gates-go-while-no-replica-answers"),
        pytest.param("clusterupgradegates.status", "Fail", 5, ["UPDATE"], id="late-approvals"),
        pytest.param("clusterupgraderequests.status", "Fail", 5, ["UPDATE"], id="phases-of-requests"),
    ],
)
def test_what_could_slip_through_fails_closed(name, policy, seconds, operations):
    hook = hooks()[0][f"{name}.validate.harbormaster.dev"]
    assert (hook["failurePolicy"], hook["timeoutSeconds"]) == (policy, seconds)
    assert hook["rules"][0]["operations"] == operations


def test_what_is_written_by_hand_into_works_bindings_and_snapshots_fails_closed_where_rights_are_enforced():
    name = "clusterresourcesnapshots.content.validate.harbormaster.dev"
    assert name not in hooks()[0]
    found = hooks(replace(SETTINGS, placement_authorization=PlacementAuthorization.ENFORCE))[0]
    assert (found[name]["failurePolicy"], found[name]["rules"][0]["operations"]) == ("Fail", ["CREATE", "UPDATE"])
    conditions = [condition["name"] for condition in found[name]["matchConditions"]]
    assert conditions == ["not-our-own-controller", "new-content"]  # also while it is being deleted
    assert {hook.partition(".")[0] for hook in found if hook.partition(".")[2].startswith("content.")} == {
        "works",
        "clusterresourcebindings",
        "resourcebindings",
        "clusterschedulingpolicysnapshots",
        "schedulingpolicysnapshots",
        "clusterresourcesnapshots",
        "resourcesnapshots",
        "clusterresourceoverridesnapshots",
        "resourceoverridesnapshots",
    }


def test_defaulting_fails_open_and_sees_what_others_changed():
    for hook in hooks()[1].values():
        assert (hook["failurePolicy"], hook["reinvocationPolicy"]) == ("Ignore", "IfNeeded")
        assert hook["clientConfig"]["service"]["path"].startswith("/mutate/")


@pytest.mark.parametrize(
    ("switch", "plurals"),
    [
        pytest.param({}, set(), id="none"),
        pytest.param({"block_workloads": True}, {"pods", "replicasets"}, id="workloads"),
        pytest.param({"block_pod_disruption_budgets": True}, {"poddisruptionbudgets"}, id="budgets"),
        pytest.param(
            {"guard_rail": True}, {"customresourcedefinitions", "namespaces"}, id="definitions-and-namespaces"
        ),
    ],
)
def test_kinds_of_kubernetes_are_asked_about_only_when_a_guard_rail_is_on(switch, plurals):
    switch = {"protect_deletions": False, "removal": NO_CONFIRMATION, **switch}
    ours = {entry.kind.plural for entry in REGISTRY.values() if not entry.kind.built_in}
    found = hooks(replace(SETTINGS, **switch), WebhookEndpoint(namespace="fleet-system"))[0].values()
    foreign = [hook for hook in found if hook["rules"][0]["resources"][0].partition("/")[0] not in ours]
    assert {hook["rules"][0]["resources"][0] for hook in foreign} == plurals
    for hook in foreign:
        assert (hook["failurePolicy"], hook["timeoutSeconds"]) == ("Ignore", 1)
        [exception] = hook["namespaceSelector"]["matchExpressions"]
        assert exception == {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["fleet-system"]}


def test_deletions_of_namespaces_of_members_and_of_our_definitions_are_asked_about_and_fail_open():
    found = {
        hook["rules"][0]["resources"][0]: hook for name, hook in hooks()[0].items() if ".deletion.validate." in name
    }
    assert set(found) == {"customresourcedefinitions", "namespaces"}
    for hook in found.values():
        assert (hook["failurePolicy"], hook["timeoutSeconds"]) == ("Ignore", 1)
        assert hook["rules"][0]["operations"] == ["DELETE"]
        assert [condition["name"] for condition in hook["matchConditions"]] == [
            "not-our-own-controller",
            "of-the-fleet",
            "not-deleted-yet",
        ]
    off = hooks(replace(SETTINGS, protect_deletions=False))[0]
    assert not [name for name in off if ".deletion.validate." in name]
    rail = hooks(replace(SETTINGS, guard_rail=True))[0]
    [own] = [name for name in rail if ".deletion.validate." in name]
    assert own.startswith("namespaces."), "its entries see all other writes"
    assert rail[own]["matchConditions"][1]["expression"] == 'oldObject.metadata.name == "harbormaster-system"'


@pytest.mark.parametrize("rail", [False, True])
def test_the_deletion_of_our_own_namespace_is_asked_about_by_its_name(rail):
    settings, endpoint = replace(SETTINGS, guard_rail=rail), WebhookEndpoint(namespace="quay", url="https://hub:9443")
    hook = hooks(settings, endpoint)[0]["namespaces.deletion.validate.harbormaster.dev"]
    assert hook["matchConditions"][1]["expression"].endswith('oldObject.metadata.name == "quay"')
    assert "namespaceSelector" not in hook


def test_without_the_protection_of_works_nobody_asks_about_them():
    assert "works.validate.harbormaster.dev" in hooks()[0]
    assert "works.validate.harbormaster.dev" not in hooks(replace(SETTINGS, protect_works=False))[0]


def test_our_own_writes_and_the_end_of_a_deletion_need_nobody():
    hook = hooks(endpoint=WebhookEndpoint(user="system:serviceaccount:a:b"))[0][
        "memberclusters.validate.harbormaster.dev"
    ]
    first, second = hook["matchConditions"]
    assert first["expression"] == 'request.userInfo.username != "system:serviceaccount:a:b"'
    assert second["expression"] == 'request.operation != "UPDATE" || !has(object.metadata.deletionTimestamp)'
    guarded = hooks(replace(SETTINGS, guard_rail=True))[0]["memberclusters.validate.harbormaster.dev"]
    assert [condition["name"] for condition in guarded["matchConditions"]] == ["not-our-own-controller"]


@pytest.mark.parametrize(
    "plural", ["clusterresourceplacements", "resourceplacements", "clusterresourcebindings", "resourcebindings"]
)
def test_who_confirms_the_removal_of_a_deleted_placement_is_reviewed(plural):
    _, condition = hooks()[0][f"{plural}.validate.harbormaster.dev"]["matchConditions"]
    assert condition["name"] == "not-being-deleted"
    assert condition["expression"] == (
        'request.operation != "UPDATE" || !has(object.metadata.deletionTimestamp) || '
        "has(object.metadata.annotations) != has(oldObject.metadata.annotations) || "
        "(has(object.metadata.annotations) && object.metadata.annotations != oldObject.metadata.annotations)"
    )


def test_no_label_of_an_object_keeps_a_rule_from_being_asked():
    """Its author could set it; only budgets look at labels, which the controllers of nodes set."""
    everything = AdmissionSettings(
        placement_authorization=PlacementAuthorization.ENFORCE,
        guard_rail=True,
        block_workloads=True,
        block_pod_disruption_budgets=True,
        enforce_budgets=True,
    )
    validating, mutating = hooks(everything)
    selecting = {name for name, hook in {**validating, **mutating}.items() if "objectSelector" in hook}
    assert selecting == {f"{plural}.disruption.validate.harbormaster.dev" for plural in ("nodeclaims", "nodes")}


def test_all_served_versions_are_listed():
    for name, versions in (("clusterresourceplacements", ["v1", "v1beta1"]), ("nodepools", ["v1"])):
        [rule] = hooks()[0][f"{name}.validate.harbormaster.dev"]["rules"]
        assert rule["apiVersions"] == versions


def test_a_url_and_its_authority_replace_the_service():
    [hook] = [
        hook
        for name, hook in hooks(endpoint=WebhookEndpoint(url="https://10.0.0.7:9443/", ca_pem=b"pem"))[0].items()
        if name == f"{kinds.NODE_POOL.plural}.validate.harbormaster.dev"
    ]
    assert hook["clientConfig"] == {"url": "https://10.0.0.7:9443/validate/karpenter.sh/nodepools", "caBundle": "cGVt"}
    [plain] = [h for n, h in hooks()[0].items() if n == "nodepools.validate.harbormaster.dev"]
    assert plain["clientConfig"] == {
        "service": {
            "namespace": "harbormaster-system",
            "name": "harbormaster",
            "port": 443,
            "path": "/validate/karpenter.sh/nodepools",
        }
    }


def test_deletions_and_drains_of_nodes_are_asked_about_only_when_budgets_are_enforced():
    off, on = hooks()[0], hooks(replace(SETTINGS, enforce_budgets=True))[0]
    found = {name: on[name] for name in on.keys() - off.keys()}
    rules = {name.removesuffix(".validate.harbormaster.dev"): hook["rules"] for name, hook in found.items()}
    assert rules == {
        "nodeclaims.disruption": [rule("DELETE", "karpenter.sh", "nodeclaims", "Cluster")],
        "nodes.disruption": [rule("DELETE", "", "nodes", "Cluster")],
        "pods.eviction.disruption": [rule("CREATE", "", "pods/eviction", "Namespaced")],
    }
    for hook in found.values():
        assert (hook["failurePolicy"], hook["timeoutSeconds"], hook["sideEffects"]) == ("Ignore", 3, "NoneOnDryRun")
        assert hook["clientConfig"]["service"]["path"] == "/validate/disruption"


def rule(operation, group, resource, scope):
    return {
        "operations": [operation],
        "apiGroups": [group],
        "apiVersions": ["v1"],
        "resources": [resource],
        "scope": scope,
    }


def test_who_is_exempt_and_what_is_no_node_of_a_pool_never_waits():
    settings = replace(SETTINGS, enforce_budgets=True, enforcement_exempt_users=frozenset({"b", 'a "q"'}))
    found = hooks(settings, WebhookEndpoint(user="system:serviceaccount:x:y"))[0]
    nodes = found["nodes.disruption.validate.harbormaster.dev"]
    assert [condition["expression"] for condition in nodes["matchConditions"]] == [
        'request.userInfo.username != "system:serviceaccount:x:y"',
        '!(request.userInfo.username in ["a \\"q\\"", "b"])',
        "!has(oldObject.metadata.deletionTimestamp)",
    ]
    assert nodes["objectSelector"] == {"matchExpressions": [{"key": "karpenter.sh/nodepool", "operator": "Exists"}]}
    assert "objectSelector" not in found["pods.eviction.disruption.validate.harbormaster.dev"]


def test_a_loop_of_any_name_is_written_so_that_the_api_server_reads_it():
    hook = hooks(endpoint=WebhookEndpoint(user='hub "a"'))[0]["clusterresourceplacements.validate.harbormaster.dev"]
    assert hook["matchConditions"][0]["expression"] == 'request.userInfo.username != "hub \\"a\\""'
