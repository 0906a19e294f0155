"""Objects that the controllers of a cluster create are recognized; those of authors and of custom resources are not."""

import pytest

from scorer.rollout.ownership.objects import ClusterObjects
from scorer.rollout.selection.selector import DocumentInventory


def make(api_version, kind, name, owner=None, **more):
    metadata = {"name": name, "namespace": "shop", **more.pop("metadata", {})}
    metadata |= {"ownerReferences": [owner]} if owner else {}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **more}


def owner(api_version, kind, name="x"):
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": "u"}


def claims_of(*names):
    return {"volumeClaimTemplates": [{"metadata": {"name": name}} for name in names]}


HUB = DocumentInventory(
    [
        make("v1", "Service", "web"),
        make("apps/v1", "StatefulSet", "db", spec=claims_of("data", "write-log")),
        make("apps/v1", "StatefulSet", "cache", spec={}),
    ]
)


@pytest.mark.parametrize(
    ("document", "origin"),
    [
        pytest.param(make("batch/v1", "Job", "j", owner("batch/v1", "CronJob")), "Jobs of CronJobs", id="cron-job"),
        pytest.param(make("batch/v1", "Job", "j", owner("batch/v1beta1", "CronJob")), "Jobs of CronJobs", id="version"),
        pytest.param(make("batch/v1", "Job", "j"), "", id="job-of-an-author"),
        pytest.param(make("batch/v1", "Job", "j", owner("argoproj.io/v1", "CronJob")), "", id="another-group"),
        pytest.param(make("batch/v1", "Job", "j", owner("example.com/v1", "Flow")), "", id="job-of-a-custom-resource"),
        pytest.param(
            make("apps/v1", "ReplicaSet", "r", owner("apps/v1", "Deployment")), "ReplicaSets of Deployments", id="rs"
        ),
        pytest.param(
            make("apps/v1", "ReplicaSet", "r", owner("argoproj.io/v1alpha1", "Rollout")),
            "ReplicaSets of controllers",
            id="replica-set-of-a-custom-resource-as-in-the-reference",
        ),
        pytest.param(make("apps/v1", "ReplicaSet", "r"), "", id="replica-set-of-an-author"),
        pytest.param(
            make("apps/v1", "ControllerRevision", "r", owner("apps/v1", "DaemonSet")),
            "ControllerRevisions of DaemonSets",
            id="controller-revision",
        ),
        pytest.param(
            make("discovery.k8s.io/v1", "EndpointSlice", "e", owner("v1", "Service")),
            "EndpointSlices of Services",
            id="endpoint-slice",
        ),
        pytest.param(
            make(
                "discovery.k8s.io/v1",
                "EndpointSlice",
                "e",
                metadata={"labels": {"endpointslice.kubernetes.io/managed-by": "c"}},
            ),
            "EndpointSlices of Services",
            id="endpoint-slice-by-label",
        ),
        pytest.param(make("discovery.k8s.io/v1", "EndpointSlice", "e"), "", id="endpoint-slice-of-an-author"),
        pytest.param(make("v1", "Endpoints", "web"), "Endpoints of Services", id="endpoints"),
        pytest.param(make("v1", "Endpoints", "external"), "", id="endpoints-without-service"),
        pytest.param(
            make("v1", "PersistentVolumeClaim", "data-db-0"), "PersistentVolumeClaims of StatefulSets", id="claim"
        ),
        pytest.param(
            make("v1", "PersistentVolumeClaim", "write-log-db-12"),
            "PersistentVolumeClaims of StatefulSets",
            id="claim-with-dashes",
        ),
        pytest.param(make("v1", "PersistentVolumeClaim", "data-db-00"), "", id="no-ordinal"),
        pytest.param(make("v1", "PersistentVolumeClaim", "data-db-x"), "", id="no-number"),
        pytest.param(make("v1", "PersistentVolumeClaim", "data-db"), "", id="no-ordinal-at-all"),
        pytest.param(make("v1", "PersistentVolumeClaim", "data-cache-0"), "", id="another-stateful-set"),
        pytest.param(
            make("v1", "PersistentVolumeClaim", "data-db-0", metadata={"namespace": "bank"}), "", id="namespace"
        ),
        pytest.param(
            make("v1", "PersistentVolumeClaim", "scratch", owner("v1", "Pod")),
            "PersistentVolumeClaims of Pods",
            id="ephemeral-volume",
        ),
        pytest.param(make("v1", "ConfigMap", "kube-root-ca.crt"), "CA ConfigMaps of the control plane", id="root-ca"),
        pytest.param(make("v1", "ConfigMap", "istio-ca-root-cert"), "CA ConfigMaps of Istio", id="istio"),
        pytest.param(make("v1", "ConfigMap", "openshift-service-ca.crt"), "CA ConfigMaps of OpenShift", id="openshift"),
        pytest.param(make("v1", "ConfigMap", "root-ca.crt"), "", id="config-map-of-an-author"),
        pytest.param(
            make("v1", "Secret", "t", type="kubernetes.io/service-account-token"),
            "tokens of ServiceAccounts",
            id="token",
        ),
        pytest.param(
            make("v1", "Secret", "d", owner("v1", "ServiceAccount")), "Secrets of ServiceAccounts", id="dockercfg"
        ),
        pytest.param(
            make("v1", "Secret", "s", owner("external-secrets.io/v1", "ExternalSecret")), "", id="external-secret"
        ),
        pytest.param(make("v1", "Secret", "s", owner("bitnami.com/v1alpha1", "SealedSecret")), "", id="sealed-secret"),
        pytest.param(make("v1", "ServiceAccount", "default"), "default ServiceAccounts", id="default-account"),
        pytest.param(make("v1", "ServiceAccount", "robot"), "", id="account-of-an-author"),
        pytest.param({"kind": "Job", "metadata": {"ownerReferences": "x"}}, "", id="malformed"),
    ],
)
def test_origin(document, origin):
    assert ClusterObjects(HUB).origin(document) == origin


def test_no_claim_is_an_authors_while_the_hub_runs_workloads():
    claim = make("v1", "PersistentVolumeClaim", "disk")
    assert not ClusterObjects(HUB).origin(claim)
    assert "workloads" in ClusterObjects(HUB, workloads_enabled=True).origin(claim)
