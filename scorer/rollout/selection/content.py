"""The part of a hub object that is placed: the object without the fields that belong to the hub alone.

Source: rollout.md 2.5 to 2.7; KubeFleet pkg/controllers/placement/resource_selector.go.
"""

from collections.abc import Mapping
from typing import Any

from scorer.api.kinds import split_api_version
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import labels_of, metadata_of, name_of, namespace_of, spec_of

_HUB_METADATA = frozenset(
    {"resourceVersion", "generation", "uid", "selfLink", "managedFields", "ownerReferences"}
    | {"creationTimestamp", "deletionTimestamp"}
)
_HUB_ANNOTATIONS = frozenset({"kubectl.kubernetes.io/last-applied-configuration", "deployment.kubernetes.io/revision"})
_JOB_LABELS = frozenset({"controller-uid", "batch.kubernetes.io/controller-uid"})


def is_placeable(document: JsonObject, *, workloads_enabled: bool, has_service: bool) -> bool:
    """Say whether an object of a selectable kind is placed; objects that every cluster makes for itself are not.

    Args:
        document: The object on the hub.
        workloads_enabled: The hub runs workloads itself.
        has_service: A Service of the same namespace and name exists; only used for Endpoints.
    """
    match document.get("apiVersion"), document.get("kind"):
        case "apps/v1", "ReplicaSet" | "ControllerRevision":
            return not metadata_of(document).get("ownerReferences")
        case "v1", "ConfigMap":
            return name_of(document) != "kube-root-ca.crt"
        case "v1", "ServiceAccount":
            return name_of(document) != "default"
        case "v1", "Secret":
            return document.get("type") != "kubernetes.io/service-account-token"
        case "v1", "PersistentVolumeClaim":
            return not workloads_enabled
        case "v1", "Endpoints":
            return not has_service
        case "discovery.k8s.io/v1", "EndpointSlice":
            return "endpointslice.kubernetes.io/managed-by" not in labels_of(document)
        case _:
            return True


def stored_content(document: JsonObject) -> JsonObject:
    """Return the object as it is kept in a snapshot."""
    content = {key: value for key, value in document.items() if key != "status"}
    meta = {key: value for key, value in metadata_of(document).items() if key not in _HUB_METADATA}
    if "annotations" in meta:
        annotations = _without(meta.pop("annotations") or {}, _HUB_ANNOTATIONS)
        if annotations:
            meta["annotations"] = annotations
    content["metadata"] = meta
    match document.get("apiVersion"), document.get("kind"):
        case "v1", "Service":
            content["spec"] = _service_spec(spec_of(document))
        case "batch/v1", "Job" if spec_of(document).get("manualSelector") is not True:
            content["spec"] = _job_spec(spec_of(document))
        case _:
            pass
    return content


def _service_spec(spec: Mapping[str, Any]) -> JsonObject:
    addresses = spec.get("clusterIPs") or [""]
    headless = (spec.get("clusterIP") or addresses[0]) == "None"
    gone = {"healthCheckNodePort"} | (set() if headless else {"clusterIP", "clusterIPs"})
    stored_spec = _without(spec, gone)
    if isinstance(ports := spec.get("ports"), list):
        stored_spec["ports"] = [_without(port, {"nodePort"}) for port in ports]
    return stored_spec


def _job_spec(spec: Mapping[str, Any]) -> JsonObject:
    stored_spec = dict(spec)
    selector, template = spec.get("selector") or {}, spec.get("template") or {}
    if selector.get("matchLabels"):
        stored_spec["selector"] = {**selector, "matchLabels": _without(selector["matchLabels"], _JOB_LABELS)}
    if meta := template.get("metadata"):
        meta = _without(meta, {"creationTimestamp"})
        if meta.get("labels"):
            meta["labels"] = _without(meta["labels"], _JOB_LABELS)
        stored_spec["template"] = {**template, "metadata": meta}
    return stored_spec


def _without(mapping: Mapping[str, Any], keys: set[str] | frozenset[str]) -> JsonObject:
    return {key: value for key, value in mapping.items() if key not in keys}


def resource_identifier(document: JsonObject) -> JsonObject:
    """Return how ``status.selectedResources`` names the object; empty fields are left out, except ``version``."""
    group, version = split_api_version(str(document.get("apiVersion")))
    fields = {
        "group": group,
        "version": version,
        "kind": document.get("kind", ""),
        "name": name_of(document),
        "namespace": namespace_of(document),
    }
    return {key: value for key, value in fields.items() if value or key == "version"}
