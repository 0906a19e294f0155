"""The modes of effects, and kinds that hold data."""

import pytest

from scorer.rollout.confirmation.policy import (
    DEFAULT_KINDS,
    NO_CONFIRMATION,
    ConfirmationMode,
    KindPattern,
    RemovalPolicy,
    parse_kind_patterns,
    strictest,
)


@pytest.mark.parametrize(
    ("pattern", "group", "kind", "covers"),
    [
        pytest.param("StatefulSet.apps", "apps", "StatefulSet", True, id="exact"),
        pytest.param("StatefulSet.apps", "apps", "Deployment", False, id="another-kind"),
        pytest.param("Secret", "", "Secret", True, id="core"),
        pytest.param("Secret", "example.com", "Secret", False, id="core-is-no-other-group"),
        pytest.param("*.cluster.x-k8s.io", "cluster.x-k8s.io", "MachinePool", True, id="any-kind"),
        pytest.param("*.cluster.x-k8s.io", "controlplane.cluster.x-k8s.io", "K", False, id="the-very-group"),
        pytest.param("*.*.upbound.io", "s3.aws.upbound.io", "Bucket", True, id="any-group-below"),
        pytest.param("*.*.upbound.io", "upbound.io", "Bucket", False, id="not-the-suffix-itself"),
        pytest.param("*.*.upbound.io", "evilupbound.io", "Bucket", False, id="whole-labels"),
    ],
)
def test_patterns(pattern, group, kind, covers):
    kind_pattern = KindPattern.parse(pattern)
    assert (kind_pattern.covers(group, kind), str(kind_pattern)) == (covers, pattern)


@pytest.mark.parametrize("text", ["", "*", "Stateful Set.apps", "Secret.", ".apps", "*.*", "A.b..c", "A.b c"])
def test_bad_patterns_are_named(text):
    with pytest.raises(ValueError, match="is not one of Kind"):
        KindPattern.parse(text)


@pytest.mark.parametrize(
    ("group", "kind"),
    [
        ("", "Namespace"),
        ("", "PersistentVolumeClaim"),
        ("", "PersistentVolume"),
        ("apiextensions.k8s.io", "CustomResourceDefinition"),
        ("apps", "StatefulSet"),
        ("postgresql.cnpg.io", "Cluster"),
        ("acid.zalan.do", "postgresql"),
        ("kafka.strimzi.io", "KafkaTopic"),
        ("rabbitmq.com", "RabbitmqCluster"),
        ("rds.aws.crossplane.io", "DBInstance"),
        ("s3.aws.upbound.io", "Bucket"),
        ("cluster.x-k8s.io", "Cluster"),
        ("infrastructure.cluster.x-k8s.io", "AWSCluster"),
        ("karpenter.sh", "NodePool"),
        ("karpenter.k8s.aws", "EC2NodeClass"),
    ],
)
def test_kinds_that_hold_data(group, kind):
    assert RemovalPolicy().holds_data(group, kind)


@pytest.mark.parametrize(("group", "kind"), [("", "ConfigMap"), ("apps", "Deployment"), ("batch", "Job")])
def test_kinds_that_do_not(group, kind):
    assert not RemovalPolicy().holds_data(group, kind)


def test_the_defaults_are_those_of_the_table():
    confirm, warn, off = ConfirmationMode.CONFIRM, ConfirmationMode.WARN, ConfirmationMode.OFF
    assert RemovalPolicy().modes == {
        "data": confirm,
        "many_objects": confirm,
        "objects": warn,
        "many_clusters": confirm,
        "clusters": off,
        "placement": confirm,
        "node_pool": confirm,
    }
    assert len(parse_kind_patterns(DEFAULT_KINDS)) == len(set(DEFAULT_KINDS))
    assert NO_CONFIRMATION.is_off
    assert not RemovalPolicy().is_off


def test_built_in_kinds_cannot_be_taken_off():
    assert RemovalPolicy(kinds=()).holds_data("", "Namespace")


def test_the_strictest_mode_wins():
    assert strictest([]) is ConfirmationMode.OFF
    assert (
        strictest([ConfirmationMode.WARN, ConfirmationMode.CONFIRM, ConfirmationMode.OFF]) is ConfirmationMode.CONFIRM
    )
