"""The table of kinds, against placement-api.md 1 and 7.1 and upgrade-runs.md 3."""

import pytest

from scorer.api import kinds
from scorer.api.kinds import (
    BUILT_IN,
    KINDS,
    NODE_CLAIM,
    OUR_KINDS,
    api_version,
    find_kind,
    group_kind,
    split_api_version,
)

BOTH = ("v1beta1", "v1")
BETA = ("v1beta1",)
ALPHA = ("v1alpha1",)
PLACEMENT = "placement.kubernetes-fleet.io"
CLUSTER = "cluster.kubernetes-fleet.io"
UPGRADE = "upgrade.harbormaster.dev"

TABLE = [  # group, kind, versions, namespaced, plural, short names, status subresource
    (PLACEMENT, "ClusterResourcePlacement", BOTH, False, "clusterresourceplacements", ("crp",), True),
    (PLACEMENT, "ResourcePlacement", BOTH, True, "resourceplacements", ("rp",), True),
    (PLACEMENT, "ClusterResourcePlacementStatus", BOTH, True, "clusterresourceplacementstatuses", ("crps",), False),
    (PLACEMENT, "ClusterSchedulingPolicySnapshot", BOTH, False, "clusterschedulingpolicysnapshots", ("csps",), True),
    (PLACEMENT, "SchedulingPolicySnapshot", BETA, True, "schedulingpolicysnapshots", ("sps",), True),
    (PLACEMENT, "ClusterResourceSnapshot", BOTH, False, "clusterresourcesnapshots", ("crs",), True),
    (PLACEMENT, "ResourceSnapshot", BETA, True, "resourcesnapshots", ("rs",), True),
    (PLACEMENT, "ClusterResourceBinding", BOTH, False, "clusterresourcebindings", ("crb",), True),
    (PLACEMENT, "ResourceBinding", BETA, True, "resourcebindings", ("rb",), True),
    (PLACEMENT, "Work", BOTH, True, "works", (), True),
    (PLACEMENT, "AppliedWork", BOTH, False, "appliedworks", (), True),
    (PLACEMENT, "ClusterStagedUpdateStrategy", BOTH, False, "clusterstagedupdatestrategies", ("csus",), True),
    (PLACEMENT, "StagedUpdateStrategy", BOTH, True, "stagedupdatestrategies", ("sus",), False),
    (PLACEMENT, "ClusterStagedUpdateRun", BOTH, False, "clusterstagedupdateruns", ("csur",), True),
    (PLACEMENT, "StagedUpdateRun", BOTH, True, "stagedupdateruns", ("sur",), True),
    (PLACEMENT, "ClusterApprovalRequest", BOTH, False, "clusterapprovalrequests", ("careq",), True),
    (PLACEMENT, "ApprovalRequest", BOTH, True, "approvalrequests", ("areq",), True),
    (PLACEMENT, "ClusterResourceOverride", BOTH, False, "clusterresourceoverrides", (), False),
    (PLACEMENT, "ResourceOverride", BOTH, True, "resourceoverrides", (), False),
    (PLACEMENT, "ClusterResourceOverrideSnapshot", BOTH, False, "clusterresourceoverridesnapshots", (), False),
    (PLACEMENT, "ResourceOverrideSnapshot", BOTH, True, "resourceoverridesnapshots", (), False),
    (PLACEMENT, "ClusterResourceEnvelope", BETA, False, "clusterresourceenvelopes", (), False),
    (PLACEMENT, "ResourceEnvelope", BETA, True, "resourceenvelopes", (), False),
    (PLACEMENT, "ClusterResourcePlacementEviction", BETA, False, "clusterresourceplacementevictions", ("crpe",), True),
    (
        PLACEMENT,
        "ClusterResourcePlacementDisruptionBudget",
        BETA,
        False,
        "clusterresourceplacementdisruptionbudgets",
        ("crpdb",),
        False,
    ),
    (CLUSTER, "MemberCluster", BOTH, False, "memberclusters", ("cluster",), True),
    (CLUSTER, "InternalMemberCluster", BOTH, True, "internalmemberclusters", ("imc",), True),
    ("karpenter.sh", "NodePool", ("v1",), False, "nodepools", (), True),
    (UPGRADE, "ClusterUpgradeStrategy", ALPHA, False, "clusterupgradestrategies", ("cupstrat",), True),
    (UPGRADE, "ClusterUpgradeRun", ALPHA, False, "clusterupgraderuns", ("cuprun",), True),
    (UPGRADE, "ClusterUpgradeGate", ALPHA, False, "clusterupgradegates", ("cupgate",), True),
    (UPGRADE, "ClusterUpgradeProfile", ALPHA, False, "clusterupgradeprofiles", ("cupprof",), True),
    (UPGRADE, "ClusterMaintenanceWindow", ALPHA, False, "clustermaintenancewindows", ("cmwin",), True),
    (UPGRADE, "ClusterVersionCatalog", ALPHA, False, "clusterversioncatalogs", ("cvcat",), True),
    (UPGRADE, "ClusterUpgradeRequest", ALPHA, False, "clusterupgraderequests", ("cupreq",), True),
]


@pytest.mark.parametrize("row", TABLE, ids=[row[1] for row in TABLE])
def test_our_kinds(row):
    group, name, versions, namespaced, plural, short_names, has_status = row
    kind = KINDS[group, name]
    assert (kind.versions, kind.namespaced, kind.plural) == (versions, namespaced, plural)
    assert (kind.short_names, kind.has_status, kind.built_in) == (short_names, has_status, False)
    assert kind.resource == f"{plural}.{group}"


def test_the_table_is_complete():
    assert {kind.group_kind for kind in OUR_KINDS} == {(row[0], row[1]) for row in TABLE}
    assert set(KINDS.values()) == {*OUR_KINDS, *BUILT_IN, NODE_CLAIM}


CLUSTER_SCOPED = """
Namespace Node PersistentVolume
rbac.authorization.k8s.io ClusterRole ClusterRoleBinding
storage.k8s.io StorageClass CSIDriver CSINode VolumeAttachment VolumeAttributesClass
scheduling.k8s.io PriorityClass
networking.k8s.io IngressClass IPAddress ServiceCIDR
node.k8s.io RuntimeClass
resource.k8s.io DeviceClass ResourceSlice
apiextensions.k8s.io CustomResourceDefinition
admissionregistration.k8s.io ValidatingWebhookConfiguration MutatingWebhookConfiguration ValidatingAdmissionPolicy
admissionregistration.k8s.io ValidatingAdmissionPolicyBinding
apiregistration.k8s.io APIService
certificates.k8s.io CertificateSigningRequest
flowcontrol.apiserver.k8s.io FlowSchema PriorityLevelConfiguration
"""


def test_no_word_means_two_of_our_kinds():
    words = [word for kind in OUR_KINDS for word in (kind.plural, kind.kind.lower(), *kind.short_names)]
    assert len(words) == len(set(words))


def test_kinds_of_kubernetes_that_are_cluster_scoped():
    wanted = set()
    for line in CLUSTER_SCOPED.split("\n"):
        words = line.split()
        group = words.pop(0) if words and "." in words[0] else ""
        wanted |= {(group, word) for word in words}
    assert wanted <= {kind.group_kind for kind in BUILT_IN if not kind.namespaced}


@pytest.mark.parametrize(
    ("group", "kind", "plural"),
    [
        ("", "Endpoints", "endpoints"),
        ("", "ConfigMap", "configmaps"),
        ("networking.k8s.io", "Ingress", "ingresses"),
        ("networking.k8s.io", "NetworkPolicy", "networkpolicies"),
        ("networking.k8s.io", "IPAddress", "ipaddresses"),
        ("storage.k8s.io", "CSIStorageCapacity", "csistoragecapacities"),
        ("rbac.authorization.k8s.io", "RoleBinding", "rolebindings"),
        ("apps", "Deployment", "deployments"),
        ("batch", "CronJob", "cronjobs"),
    ],
)
def test_plurals_of_kinds_of_kubernetes(group, kind, plural):
    assert KINDS[group, kind].plural == plural


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("crp", kinds.PLACEMENT),
        ("ClusterResourcePlacement", kinds.PLACEMENT),
        ("clusterresourceplacements.placement.kubernetes-fleet.io", kinds.PLACEMENT),
        ("cluster", kinds.MEMBER_CLUSTER),
        ("cuprun", kinds.UPGRADE_RUN),
        ("clusterupgradestrategies.upgrade.harbormaster.dev", kinds.UPGRADE_STRATEGY),
        ("ns", kinds.NAMESPACE),
        ("deploy", KINDS["apps", "Deployment"]),
        ("deployments.apps", KINDS["apps", "Deployment"]),
        ("deployments.batch", None),
        ("ship", None),
    ],
)
def test_find_kind(word, kind):
    assert find_kind(word) is kind


@pytest.mark.parametrize(("group", "version", "text"), [("", "v1", "v1"), ("apps", "v1", "apps/v1")])
def test_api_version(group, version, text):
    assert api_version(group, version) == text
    assert split_api_version(text) == (group, version)


@pytest.mark.parametrize(
    ("document", "found"),
    [
        ({"apiVersion": "apps/v1", "kind": "Deployment"}, ("apps", "Deployment")),
        ({"apiVersion": "v1", "kind": "Pod"}, ("", "Pod")),
        ({}, ("", "")),
    ],
)
def test_group_kind(document, found):
    assert group_kind(document) == found
