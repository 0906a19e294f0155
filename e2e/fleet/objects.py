"""Objects of one cluster by kind, and small objects to put there."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from e2e.controlplane.cluster import ADMIN, ApiError, Cluster, JsonObject
from e2e.fleet.waiting import wait_until
from scorer.api.kinds import KINDS, NAMESPACE, PLACEMENT, RESOURCE_PLACEMENT, Kind
from webhook.kube.client.paths import path_of

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
CONFIG_MAP = KINDS["", "ConfigMap"]
DEPLOYMENT = KINDS["apps", "Deployment"]


class Objects:
    """What a cluster holds, asked and changed by somebody who may do everything unless another user is named."""

    def __init__(self, cluster: Cluster, user: str = ADMIN) -> None:
        self.cluster = cluster
        self.user = user

    def all(self, kind: Kind, namespace: str = "") -> list[JsonObject]:
        """All objects of a kind, with their type; none when the cluster does not know the kind."""
        try:
            listing, _ = self.cluster.request("GET", path_of(kind, namespace), user=self.user)
        except ApiError as error:
            if error.code != 404:
                raise
            return []
        return [{"apiVersion": kind.api_version, "kind": kind.kind, **item} for item in listing["items"]]

    def find(self, kind: Kind, name: str, namespace: str = "") -> JsonObject | None:
        """The object, None when it is not there."""
        try:
            return self.get(kind, name, namespace)
        except ApiError as error:
            if error.code != 404:
                raise
            return None

    def get(self, kind: Kind, name: str, namespace: str = "") -> JsonObject:
        """The object."""
        return self.cluster.request("GET", path_of(kind, namespace, name), user=self.user)[0]

    def create(self, document: JsonObject) -> JsonObject:
        """Create an object, once none of its name is on its way out; its status, if it has one, is written after it."""
        kind = kind_of(document)
        metadata = document["metadata"]
        path = path_of(kind, metadata.get("namespace", ""))
        wait_until(f"the old {metadata['name']} is gone", lambda: self._still_leaving(kind, metadata))
        made, _ = self.cluster.request("POST", path, document, user=self.user)
        if "status" in document and kind.has_status:
            return self.patch_status(kind, metadata["name"], document["status"], metadata.get("namespace", ""))
        return made

    def _still_leaving(self, kind: Kind, metadata: JsonObject) -> str:
        found = self.find(kind, metadata["name"], metadata.get("namespace", ""))
        return "it has a deletion mark" if found and "deletionTimestamp" in found["metadata"] else ""

    def patch(self, kind: Kind, name: str, change: JsonObject, namespace: str = "", *, manager: str = "") -> JsonObject:
        """Merge *change* into an object, as a field manager if one is named."""
        path = f"{path_of(kind, namespace, name)}{f'?fieldManager={manager}' if manager else ''}"
        return self.cluster.request("PATCH", path, change, user=self.user, content_type=MERGE)[0]

    def patch_status(self, kind: Kind, name: str, status: JsonObject, namespace: str = "") -> JsonObject:
        """Merge *status* into an object's, as its controller would."""
        path = f"{path_of(kind, namespace, name)}/status"
        return self.cluster.request("PATCH", path, {"status": status}, user=self.user, content_type=MERGE)[0]

    def delete(self, kind: Kind, name: str, namespace: str = "") -> None:
        """Delete an object; one that is gone already is fine."""
        try:
            self.cluster.request("DELETE", path_of(kind, namespace, name), user=self.user)
        except ApiError as error:
            if error.code != 404:
                raise

    def apply(self, documents: list[JsonObject]) -> None:
        """Apply documents on the server's side, as ``kubectl apply --server-side --force-conflicts`` does."""
        for document in documents:
            metadata = document["metadata"]
            path = path_of(kind_of(document), metadata.get("namespace", ""), metadata["name"])
            query = "fieldManager=kubectl&force=true"
            self.cluster.request("PATCH", f"{path}?{query}", document, content_type=APPLY, user=self.user)


def kind_of(document: JsonObject) -> Kind:
    """The kind of an object, its first version the one that the object is written in."""
    group, _, version = document["apiVersion"].rpartition("/")
    kind = KINDS[group, document["kind"]]
    assert version in kind.versions, f"{document['apiVersion']} is not in {kind.versions}"
    return replace(kind, versions=(version,))


def make_namespace(name: str, **labels: str) -> JsonObject:
    """Make a Namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def make_config_map(name: str, namespace: str, **data: str) -> JsonObject:
    """Make a ConfigMap."""
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def make_deployment(name: str, namespace: str, image: str = "example.com/web:1") -> JsonObject:
    """Make a Deployment of one replica."""
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": name, "image": image}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": template},
    }


def make_cron_job(name: str, namespace: str) -> JsonObject:
    """Make a CronJob, which nobody can say of whether it is available."""
    pod = {"restartPolicy": "OnFailure", "containers": [{"name": name, "image": "example.com/job:1"}]}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"schedule": "0 3 1 * *", "jobTemplate": {"spec": {"template": {"spec": pod}}}},
    }


def selects(kind: Kind, name: str = "", **more: Any) -> JsonObject:
    """Make a term that selects by name, or as *more* says."""
    named = {"name": name} if name else {}
    return {"group": kind.group, "version": kind.versions[0], "kind": kind.kind, **named, **more}


def make_placement(name: str, policy: JsonObject | None = None, *, home: str = "", **spec: Any) -> JsonObject:
    """Make a ClusterResourcePlacement of the namespace *home*, which is called like it unless said otherwise."""
    made = {
        "resourceSelectors": [selects(NAMESPACE, home or name)],
        **({"policy": policy} if policy else {}),
        **spec,
    }
    return {
        "apiVersion": PLACEMENT.api_version,
        "kind": PLACEMENT.kind,
        "metadata": {"name": name},
        "spec": made,
    }


def make_resource_placement(name: str, namespace: str, **spec: Any) -> JsonObject:
    """Make a ResourcePlacement of the ConfigMaps labelled ``app=<name>``."""
    labelled = selects(CONFIG_MAP, labelSelector={"matchLabels": {"app": name}})
    return {
        "apiVersion": RESOURCE_PLACEMENT.api_version,
        "kind": RESOURCE_PLACEMENT.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"resourceSelectors": [labelled], **spec},
    }


def pick_n(number: int, **policy: Any) -> JsonObject:
    """Make a PickN policy."""
    return {"placementType": "PickN", "numberOfClusters": number, **policy}


def pick_fixed(*names: str) -> JsonObject:
    """Make a PickFixed policy."""
    return {"placementType": "PickFixed", "clusterNames": list(names)}


def rolling(**parameters: Any) -> JsonObject:
    """Make a RollingUpdate strategy."""
    return {"type": "RollingUpdate", "rollingUpdate": parameters}


def applying(**strategy: Any) -> JsonObject:
    """Make a RollingUpdate strategy with an apply strategy."""
    return {"type": "RollingUpdate", "applyStrategy": strategy}


def is_deleting(document: JsonObject) -> bool:
    """Whether an object waits for its finalizers."""
    return "deletionTimestamp" in document["metadata"]


def name_of(document: JsonObject) -> str:
    """Namespace and name."""
    metadata = document["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else str(metadata["name"])


def labels_of(document: JsonObject) -> Mapping[str, str]:
    """The labels of an object."""
    return document["metadata"].get("labels") or {}


def annotations_of(document: JsonObject) -> Mapping[str, str]:
    """The annotations of an object."""
    return document["metadata"].get("annotations") or {}


def condition_of(document: JsonObject, type_: str) -> JsonObject:
    """A condition by its type, empty when there is none."""
    found = (document.get("status") or {}).get("conditions") or ()
    return next((condition for condition in found if condition["type"] == type_), {})
