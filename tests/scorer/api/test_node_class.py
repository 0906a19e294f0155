"""Which changes of a node class drift its nodes: nodepool-disruption.md 3.6."""

import pytest

from scorer.api.node_class import (
    AKS_NODE_CLASS,
    EC2_NODE_CLASS,
    EKS_NODE_CLASS,
    GCE_NODE_CLASS,
    HASHED_FIELDS,
    ChangedFields,
    changed_fields,
    migrates_subnet,
)

AKS, EC2, GCE, EKS = (kind.group_kind for kind in (AKS_NODE_CLASS, EC2_NODE_CLASS, GCE_NODE_CLASS, EKS_NODE_CLASS))
SUBNET = "/subscriptions/0/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/v/subnets/"


@pytest.mark.parametrize(
    ("kind", "old", "new", "changed"),
    [
        pytest.param(AKS, {}, {}, ChangedFields(), id="nothing"),
        pytest.param(
            AKS, {"imageFamily": "Ubuntu"}, {"imageFamily": "AzureLinux"}, ChangedFields(("imageFamily",)), id="hashed"
        ),
        pytest.param(AKS, {"imageFamily": "Ubuntu", "osDiskSizeGB": 128}, {}, ChangedFields(), id="default-left-out"),
        pytest.param(
            AKS,
            {"kubelet": {"cpuCFSQuota": True, "podPidsLimit": 9}},
            {"kubelet": {"podPidsLimit": 9}},
            ChangedFields(),
            id="default-of-a-member-left-out",
        ),
        pytest.param(AKS, {"kubelet": None}, {}, ChangedFields(), id="null-is-absent"),
        pytest.param(AKS, {"tags": {"a": "b"}}, {"tags": {"a": "c"}}, ChangedFields(), id="ignored"),
        pytest.param(AKS, {}, {"newField": 1}, ChangedFields(unknown=("newField",)), id="newer-than-the-table"),
        pytest.param(EC2, {"tags": {"a": "b"}}, {}, ChangedFields(("tags",)), id="ec2-hashes-tags"),
        pytest.param(
            EC2,
            {"subnetSelectorTerms": [{"id": "a"}, {"id": "b"}]},
            {"subnetSelectorTerms": [{"id": "b"}, {"id": "a"}]},
            ChangedFields(),
            id="order-of-lists",
        ),
        pytest.param(
            EC2,
            {"subnetSelectorTerms": [{"id": "a"}]},
            {"subnetSelectorTerms": [{"id": "b"}]},
            ChangedFields(resolved=("subnetSelectorTerms",)),
            id="resolved",
        ),
        pytest.param(
            EC2,
            {"amiSelectorTerms": [{"alias": "al2023@latest"}]},
            {"amiSelectorTerms": [{"alias": "al2023@latest"}], "amiFamily": "AL2023"},
            ChangedFields(),
            id="family-of-the-alias-written-out",
        ),
        pytest.param(
            EC2,
            {"amiSelectorTerms": [{"alias": "al2@latest"}]},
            {"amiSelectorTerms": [{"alias": "al2023@latest"}]},
            ChangedFields(("amiFamily",), ("amiSelectorTerms",)),
            id="alias-of-another-family",
        ),
        pytest.param(GCE, {"gpuDriverVersion": "default"}, {}, ChangedFields(), id="gce-default"),
        pytest.param(GCE, {}, {"networkTags": ["a"]}, ChangedFields(("networkTags",)), id="gce-hashed"),
        pytest.param(EKS, {"role": "a"}, {"role": "b"}, ChangedFields(unknown=("role",)), id="no-source"),
    ],
)
def test_changed_fields(kind, old, new, changed):
    assert changed_fields(kind, old, new) == changed


@pytest.mark.parametrize("kind", HASHED_FIELDS, ids="/".join)
def test_a_field_has_one_part_in_drift(kind):
    fields = HASHED_FIELDS[kind]
    parts = (fields.hashed, fields.resolved, fields.ignored)
    assert len(frozenset().union(*parts)) == sum(map(len, parts))


def node_class(subnet=None, ready=None):
    conditions = [] if ready is None else [{"type": "SubnetsReady", "status": ready}]
    return {"spec": {} if subnet is None else {"vnetSubnetID": subnet}, "status": {"conditions": conditions}}


@pytest.mark.parametrize(
    ("old", "new", "migrates"),
    [
        pytest.param(node_class(f"{SUBNET}a"), node_class(f"{SUBNET}b"), True, id="seed-002-between-valid-subnets"),
        pytest.param(node_class(), node_class(f"{SUBNET}b"), True, id="away-from-the-subnet-of-the-cluster"),
        pytest.param(node_class(f"{SUBNET}a"), node_class(f"{SUBNET}a"), False, id="unchanged"),
        pytest.param(node_class("oops"), node_class(f"{SUBNET}b"), False, id="seed-002-repair-of-a-malformed-one"),
        pytest.param(
            node_class(f"{SUBNET}a", "False"), node_class(f"{SUBNET}b"), False, id="seed-002-repair-of-a-missing-one"
        ),
        pytest.param(node_class(f"{SUBNET}a", "True"), node_class(f"{SUBNET}b"), True, id="found-valid"),
    ],
)
def test_migration_between_subnets(old, new, migrates):
    assert migrates_subnet(old, new) is migrates


def test_nested_lists_do_not_multiply_the_work():
    """Comparing texts of nested lists would double their length with each level."""
    deep, other = "a", "b"
    for _ in range(90):
        deep, other = [deep], [other]
    assert changed_fields(EC2, {"tags": deep}, {"tags": deep}).hashed == ()
    assert changed_fields(EC2, {"tags": deep}, {"tags": other}).hashed == ("tags",)
