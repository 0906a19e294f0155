"""Objects that the controllers of a cluster create: every cluster has its own, so a placement selects none.

An object counts as created by a controller if it has an owner of a built-in kind that creates such objects, or if it is
one of the objects that a control plane, a service mesh or OpenShift puts into every namespace. Objects owned by custom
resources are selected: nothing recreates a Secret of External Secrets on a member that does not run the operator.

Example: CronJob ``backup`` creates Job ``backup-29401``. Only the CronJob is placed. The member's own CronJob
controller creates the Jobs there. With the hub's Jobs, each would run twice.

Source: docs/specifications/rollout.md 2.5; KubeFleet pkg/utils/common.go, ShouldPropagateObj.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from scorer.api.kinds import KINDS, Kind, group_kind, split_api_version
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import dicts_at, labels_of, name_of, namespace_of, text_at

OWNERS: Final[Mapping[tuple[str, str], frozenset[tuple[str, str]]]] = {
    ("apps", "ReplicaSet"): frozenset({("apps", "Deployment")}),
    ("apps", "ControllerRevision"): frozenset({("apps", "StatefulSet"), ("apps", "DaemonSet")}),
    ("batch", "Job"): frozenset({("batch", "CronJob")}),
    ("discovery.k8s.io", "EndpointSlice"): frozenset({("", "Service"), ("", "Endpoints")}),
    ("", "Endpoints"): frozenset({("", "Service")}),
    ("", "PersistentVolumeClaim"): frozenset({("apps", "StatefulSet"), ("", "Pod")}),
    ("", "Secret"): frozenset({("", "ServiceAccount")}),
}
"""Kinds of objects, with the kinds of their owners whose built-in controllers create them."""

_NEVER_BY_HAND: Final = frozenset({("apps", "ReplicaSet"), ("apps", "ControllerRevision")})
"""Kinds whose objects were created by a controller if they have any owner: Argo Rollouts creates ReplicaSets."""

_CA_CONFIG_MAPS: Final = {
    "kube-root-ca.crt": "CA ConfigMaps of the control plane",
    "istio-ca-root-cert": "CA ConfigMaps of Istio",
    "istio-ca-crl": "CA ConfigMaps of Istio",
    "openshift-service-ca.crt": "CA ConfigMaps of OpenShift",
}
"""ConfigMaps that a controller writes into every namespace, with the CA of the cluster."""

_SERVICE_ACCOUNT_TYPE: Final = "kubernetes.io/service-account-token"
_MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
_ORDINAL: Final = re.compile(r"0|[1-9][0-9]*", re.ASCII)

_SERVICE: Final = KINDS["", "Service"]
_STATEFUL_SET: Final = KINDS["apps", "StatefulSet"]

EVIDENCE: Final[Mapping[tuple[str, str], Kind]] = {
    ("", "Endpoints"): _SERVICE,
    ("", "PersistentVolumeClaim"): _STATEFUL_SET,
}
"""Kinds of objects whose origin is only visible in objects of another kind, such as the StatefulSet of a claim. Both
kinds must be read."""


class ObjectLister(Protocol):
    """The objects on the hub."""

    def list(self, kind: Kind, namespace: str = "") -> Sequence[JsonObject]:
        """Return the objects of *kind*, of *namespace* only if it is given, in a stable order."""
        ...

    def get(self, kind: Kind, name: str, namespace: str = "") -> JsonObject | None:
        """Return one object. None if it does not exist."""
        ...


class ClusterObjects:
    """Recognizes the objects of one hub that belong to the cluster, at one moment.

    Args:
        hub: The other objects on the hub.
        workloads_enabled: Whether the hub runs workloads itself: no PersistentVolumeClaim is then placed.
    """

    def __init__(self, hub: ObjectLister, *, workloads_enabled: bool = False) -> None:
        self._hub = hub
        self._workloads_enabled = workloads_enabled
        self._claims: dict[str, frozenset[str]] = {}

    def origin(self, document: JsonObject) -> str:
        """Return the class of controller-created objects that an object belongs to, in plural ("Jobs of CronJobs").

        Empty: an author may have created it.
        """
        kind = group_kind(document)
        if owner := owning_controller(document):
            return f"{_plural(kind[1])} of {_plural(owner)}"
        match kind:
            case "", "ConfigMap":
                return _CA_CONFIG_MAPS.get(name_of(document), "")
            case "", "ServiceAccount" if name_of(document) == "default":
                return "default ServiceAccounts"
            case "", "Secret" if document.get("type") == _SERVICE_ACCOUNT_TYPE:
                return "tokens of ServiceAccounts"
            case "", "PersistentVolumeClaim" if self._workloads_enabled:
                return "PersistentVolumeClaims of workloads on the hub"
            case "", "PersistentVolumeClaim" if self._is_claim_of_stateful_set(document):
                return "PersistentVolumeClaims of StatefulSets"
            case "", "Endpoints" if self._hub.get(_SERVICE, name_of(document), namespace_of(document)) is not None:
                return "Endpoints of Services"
            case "discovery.k8s.io", "EndpointSlice" if _MANAGED_BY in labels_of(document):
                return "EndpointSlices of Services"
        return ""

    def _is_claim_of_stateful_set(self, claim: JsonObject) -> bool:
        """Return whether a claim has the name that a StatefulSet gives to its claims: ``data-web-0``.

        By default such a claim has no owner reference, so that it outlives its StatefulSet.
        """
        namespace = namespace_of(claim)
        prefix, _, ordinal = name_of(claim).rpartition("-")
        if not _ORDINAL.fullmatch(ordinal):
            return False
        if namespace not in self._claims:
            self._claims[namespace] = frozenset(
                f"{text_at(template, 'metadata', 'name')}-{name_of(stateful_set)}"
                for stateful_set in self._hub.list(_STATEFUL_SET, namespace)
                for template in dicts_at(stateful_set, "spec", "volumeClaimTemplates")
            )
        return prefix in self._claims[namespace]


def owning_controller(document: Mapping[str, Any]) -> str:
    """Return the kind of the owner whose controller created an object. Empty: it has no such owner.

    For a ReplicaSet or ControllerRevision with any other owner, it is ``controller``.
    """
    kind = group_kind(document)
    if (creators := OWNERS.get(kind)) is None:
        return ""
    references = dicts_at(document, "metadata", "ownerReferences")
    owners = [(split_api_version(text_at(owner, "apiVersion"))[0], text_at(owner, "kind")) for owner in references]
    by_controller = next((name for group, name in owners if (group, name) in creators), "")
    return by_controller or ("controller" if owners and kind in _NEVER_BY_HAND else "")


def _plural(kind: str) -> str:
    return kind if kind.endswith("s") else f"{kind}s"
