"""Availability per kind: one row per rule of the table."""

import pytest

from scorer.rollout.works.availability import AvailabilityReason, availability

YES, NO = AvailabilityReason.AVAILABLE, AvailabilityReason.NOT_YET
UNKNOWN, FAILED = AvailabilityReason.NOT_TRACKABLE, AvailabilityReason.FAILED


def make(api_version, kind, spec=None, status=None, generation=2):
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "x", "generation": generation},
        "spec": spec or {},
        "status": status or {},
    }


def counts(**fields):
    return {"observedGeneration": 2, **fields}


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        pytest.param(
            make("apps/v1", "Deployment", {"replicas": 2}, counts(availableReplicas=2, updatedReplicas=2)),
            YES,
            id="deployment",
        ),
        pytest.param(
            make("apps/v1", "Deployment", {}, counts(availableReplicas=1, updatedReplicas=1)),
            YES,
            id="deployment-default-one",
        ),
        pytest.param(make("apps/v1", "Deployment", {"replicas": 0}, counts()), YES, id="deployment-scaled-to-zero"),
        pytest.param(
            make("apps/v1", "Deployment", {}, {"observedGeneration": 1, "availableReplicas": 1, "updatedReplicas": 1}),
            NO,
            id="deployment-not-observed",
        ),
        pytest.param(
            make(
                "apps/v1",
                "Deployment",
                {"replicas": 2},
                counts(availableReplicas=2, updatedReplicas=2, unavailableReplicas=1),
            ),
            NO,
            id="deployment-one-unavailable",
        ),
        pytest.param(
            make("apps/v1", "Deployment", {"replicas": 2}, counts(availableReplicas=2, updatedReplicas=1)),
            NO,
            id="deployment-rolling",
        ),
        pytest.param(
            make("apps/v1", "Deployment", {"replicas": "2"}, counts()), FAILED, id="deployment-replicas-is-text"
        ),
        pytest.param(make("apps/v1beta1", "Deployment", {}, counts()), UNKNOWN, id="another-version"),
        pytest.param(
            make(
                "apps/v1",
                "StatefulSet",
                {"replicas": 3},
                counts(
                    availableReplicas=3, currentReplicas=3, updatedReplicas=3, currentRevision="a", updateRevision="a"
                ),
            ),
            YES,
            id="stateful-set",
        ),
        pytest.param(
            make(
                "apps/v1",
                "StatefulSet",
                {"replicas": 3},
                counts(
                    availableReplicas=3, currentReplicas=3, updatedReplicas=3, currentRevision="a", updateRevision="b"
                ),
            ),
            NO,
            id="stateful-set-revision",
        ),
        pytest.param(
            make(
                "apps/v1",
                "DaemonSet",
                {},
                counts(numberAvailable=2, desiredNumberScheduled=2, currentNumberScheduled=2, updatedNumberScheduled=2),
            ),
            YES,
            id="daemon-set",
        ),
        pytest.param(
            make("apps/v1", "DaemonSet", {}, counts(numberAvailable=2, desiredNumberScheduled=3)),
            NO,
            id="daemon-set-missing-one",
        ),
        pytest.param(make("v1", "Service", {"clusterIPs": ["10.0.0.1"]}), YES, id="service"),
        pytest.param(make("v1", "Service", {"type": "NodePort", "clusterIPs": [""]}), NO, id="service-without-address"),
        pytest.param(
            make("v1", "Service", {"type": "LoadBalancer"}, {"loadBalancer": {"ingress": [{"hostname": "a.example"}]}}),
            YES,
            id="load-balancer",
        ),
        pytest.param(
            make("v1", "Service", {"type": "LoadBalancer", "clusterIPs": ["10.0.0.1"]}), NO, id="load-balancer-pending"
        ),
        pytest.param(make("v1", "Service", {"type": "ExternalName"}), UNKNOWN, id="external-name"),
        pytest.param(
            make(
                "apiextensions.k8s.io/v1",
                "CustomResourceDefinition",
                {},
                {
                    "conditions": [
                        {"type": "Established", "status": "True"},
                        {"type": "NamesAccepted", "status": "True"},
                    ]
                },
            ),
            YES,
            id="crd",
        ),
        pytest.param(
            make(
                "apiextensions.k8s.io/v1",
                "CustomResourceDefinition",
                {},
                {"conditions": [{"type": "Established", "status": "True"}]},
            ),
            NO,
            id="crd-names-pending",
        ),
        pytest.param(
            make(
                "policy/v1",
                "PodDisruptionBudget",
                {},
                counts(
                    disruptionsAllowed=1,
                    conditions=[{"type": "DisruptionAllowed", "status": "True", "reason": "SufficientPods"}],
                ),
            ),
            YES,
            id="pdb-sufficient",
        ),
        pytest.param(
            make(
                "policy/v1",
                "PodDisruptionBudget",
                {},
                counts(
                    disruptionsAllowed=0,
                    conditions=[{"type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods"}],
                ),
            ),
            YES,
            id="pdb-insufficient-is-settled",
        ),
        pytest.param(
            make(
                "policy/v1",
                "PodDisruptionBudget",
                {},
                counts(
                    disruptionsAllowed=0,
                    conditions=[{"type": "DisruptionAllowed", "status": "True", "reason": "SufficientPods"}],
                ),
            ),
            NO,
            id="pdb-disagrees",
        ),
        pytest.param(make("v1", "ConfigMap"), YES, id="at-once"),
        pytest.param(make("batch/v1", "Job"), UNKNOWN, id="job"),
        pytest.param(make("example.com/v1", "Widget"), UNKNOWN, id="custom-resource"),
        pytest.param(make("apps/v1", "Deployment") | {"status": []}, FAILED, id="status-is-a-list"),
    ],
)
def test_each_kind(document, reason):
    assert availability(document).reason is reason


def test_a_failed_answer_names_the_field():
    found = availability(make("apps/v1", "Deployment", {"replicas": "2"}, counts()))
    assert "spec.replicas is '2'" in found.message
