"""Karmada's control plane: a kube-apiserver with its definitions, and its karmada-controller-manager.

Three parts of an installation are missing. The test writes what they would: the clusters of a binding as
karmada-scheduler does, ids and finalizers as karmada-webhook does, and the definition of Clusters in place of the
aggregated API server.

Source: Karmada pkg/controllers/execution, pkg/controllers/binding, pkg/controllers/namespace, pkg/detector,
pkg/webhook/propagationpolicy/mutating.go, pkg/webhook/resourcebinding/mutating.go.
"""

import urllib.request
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final
from uuid import uuid4

from e2e.controlplane.cluster import ADMIN, LOOPBACK, ApiError, Cluster, Etcd, JsonObject
from e2e.controlplane.process import PATIENCE, Program, free_port, kill
from e2e.fleet.objects import Objects, condition_of, make_namespace, name_of
from e2e.fleet.waiting import wait_until
from e2e.karmada.definitions import CLUSTER, POLICY, RESOURCE_BINDING, WORK_OF_KARMADA, definitions
from scorer.api.kinds import KINDS, NAMESPACE, Kind
from webhook.kube.client.paths import path_of

MANAGED: Final = "karmada.io/managed"

_KINDS: Final = (CLUSTER, POLICY, RESOURCE_BINDING, WORK_OF_KARMADA)
_SECRET: Final = KINDS["", "Secret"]
_SYSTEM: Final = "karmada-cluster"
_CONTROLLERS: Final = ("cluster", "clusterStatus", "namespace", "binding", "execution", "workStatus")


class Karmada:
    """A control plane, and the clusters that have joined it in mode ``Push``.

    Args:
        programs: Of the control plane.
        folder: For keys and logs.
        etcd: Below its API server.
    """

    def __init__(self, programs: Mapping[str, Path], folder: Path, etcd: Etcd) -> None:
        self.cluster = Cluster(programs, folder, etcd, "karmada")
        self.objects = Objects(self.cluster)
        self._port = free_port()
        self.controllers = Program(
            [
                programs["karmada-controller-manager"],
                f"--kubeconfig={self.cluster.kubeconfig}",
                f"--controllers={','.join(_CONTROLLERS)}",
                "--leader-elect=false",
                "--metrics-bind-address=0",
                f"--health-probe-bind-address={LOOPBACK}:{self._port}",
                "--cluster-status-update-frequency=1s",
                "--enable-cluster-resource-modeling=false",
            ],
            folder / "karmada-controller-manager.log",
        )

    def start(self) -> None:
        """Start the API server with Karmada's definitions, and what collects dependents there."""
        self.cluster.start()
        self.objects.apply(definitions())
        for kind in _KINDS:
            wait_until(f"{kind} is served", partial(self._unserved, kind))
        self.cluster.start_controller_manager(("garbage-collector-controller", "namespace-controller"))
        self.objects.create(make_namespace(_SYSTEM))

    def run(self) -> None:
        """Start Karmada's controllers, and wait until they run."""
        self.controllers.start()
        self.controllers.wait_ready(self._healthy)

    def stop(self) -> None:
        """Stop everything."""
        kill(self.controllers)
        self.cluster.stop()

    def clear(self, *namespaces: str) -> None:
        """Stop the controllers, and remove all members, policies, bindings and Works; the members are not touched."""
        kill(self.controllers)
        spaces = [space_of(each["metadata"]["name"]) for each in self.objects.all(CLUSTER)]
        secrets = [(_SECRET, each["metadata"]["name"], _SYSTEM) for each in self.objects.all(_SECRET, _SYSTEM)]
        held = [
            (kind, each["metadata"]["name"], each["metadata"].get("namespace", ""))
            for kind in _KINDS
            for each in self.objects.all(kind)
        ]
        removed = [*held, *secrets, *((NAMESPACE, name, "") for name in (*namespaces, *spaces))]
        for key in removed:
            self.objects.delete(*key)
        for kind, name, namespace in held:
            try:
                self.objects.patch(kind, name, {"metadata": {"finalizers": None}}, namespace)
            except ApiError as error:
                if error.code != 404:  # it had none
                    raise
        wait_until("Karmada is empty", lambda: "; ".join(f"{key}" for key in removed if self.objects.find(*key)))

    def join(self, name: str, member: Cluster) -> None:
        """Make a cluster a member, as ``karmadactl join`` does, and wait until it is ready."""
        secret: JsonObject = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": _SYSTEM},
            "stringData": {"token": member.users[ADMIN].token, "caBundle": member.authority.pem.decode()},
        }
        self.objects.create(secret)
        spec = {"syncMode": "Push", "apiEndpoint": member.url, "secretRef": {"name": name, "namespace": _SYSTEM}}
        self._create(CLUSTER, {"metadata": {"name": name}, "spec": spec})

        def problem() -> str:
            conditions = (self.objects.get(CLUSTER, name).get("status") or {}).get("conditions") or ()
            ready = [each for each in conditions if each["type"] == "Ready" and each["status"] == "True"]
            return "" if ready else f"conditions {conditions}; {self.controllers.last_words()[-900:]}"

        wait_until(f"{name} has joined Karmada", problem)

    def unjoin(self, name: str) -> None:
        """Remove a cluster, as ``karmadactl unjoin`` does, and wait until its Works and their namespace are deleted."""
        space = space_of(name)
        self.objects.delete(CLUSTER, name)
        wait_until(f"{space} is deleted", lambda: self._remains(NAMESPACE, space))

    def propagate(self, policy: str, namespace: str, templates: Sequence[JsonObject], clusters: Sequence[str]) -> None:
        """Create templates and a policy for them in a namespace, and wait until they are on all *clusters*."""
        for template in templates:
            self.objects.create(template)
        selectors = [
            {
                "apiVersion": each["apiVersion"],
                "kind": each["kind"],
                "name": each["metadata"]["name"],
                "namespace": namespace,
            }
            for each in templates
        ]
        metadata = {
            "name": policy,
            "namespace": namespace,
            "labels": {"propagationpolicy.karmada.io/permanent-id": str(uuid4())},
            "finalizers": ["karmada.io/propagation-policy-controller"],
        }
        placement = {"clusterAffinity": {"clusterNames": list(clusters)}}
        self._create(POLICY, {"metadata": metadata, "spec": {"resourceSelectors": selectors, "placement": placement}})
        for template in templates:
            self._schedule(template, clusters)
        for template in templates:
            key = (template["kind"], name_of(template))
            wait_until(f"Karmada applies {key}", partial(self._unapplied, key, clusters))

    def _create(self, kind: Kind, document: JsonObject) -> None:
        path = path_of(kind, document["metadata"].get("namespace", ""))
        self.cluster.request("POST", path, {"apiVersion": kind.api_version, "kind": kind.kind, **document})

    def _schedule(self, template: JsonObject, clusters: Sequence[str]) -> None:
        """Pick the clusters of a template, as karmada-scheduler does for ``Duplicated`` replicas."""
        name, namespace = template["metadata"]["name"], template["metadata"]["namespace"]
        binding = f"{name}-{template['kind'].lower()}"

        def problem() -> str:
            found = self.objects.find(RESOURCE_BINDING, binding, namespace)
            return "" if found else f"no binding {binding}; {self.controllers.last_words()[-900:]}"

        wait_until(f"the policy selects {binding}", problem)
        replicas = {"replicas": template["spec"]["replicas"]} if "replicas" in template.get("spec", {}) else {}
        change = {
            "metadata": {"labels": {"resourcebinding.karmada.io/permanent-id": str(uuid4())}},
            "spec": {"clusters": [{"name": cluster, **replicas} for cluster in clusters]},
        }
        self.objects.patch(RESOURCE_BINDING, binding, change, namespace)

    def works(self, cluster: str) -> dict[tuple[str, str], JsonObject]:
        """Return the Works of a member by the kind and the name of their object."""
        found = {}
        for work in self.objects.all(WORK_OF_KARMADA, space_of(cluster)):
            (manifest,) = work["spec"]["workload"]["manifests"]
            found[manifest["kind"], name_of(manifest)] = work
        return found

    def _unapplied(self, key: tuple[str, str], clusters: Sequence[str]) -> str:
        for cluster in clusters:
            work = self.works(cluster).get(key)
            if work is None or condition_of(work, "Applied").get("status") != "True":
                return f"{cluster}: {(work or {}).get('status')}; {self.controllers.last_words()[-900:]}"
        return ""

    def _remains(self, kind: Kind, name: str, namespace: str = "") -> str:
        found = self.objects.find(kind, name, namespace)
        return f"{found['metadata']}; {self.controllers.last_words()[-900:]}" if found else ""

    def _unserved(self, kind: Kind) -> str:
        self.cluster.request("GET", path_of(kind))
        return ""

    def _healthy(self) -> bool:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{self._port}/healthz", timeout=PATIENCE) as answer:
            return bool(answer.status == 200)


def space_of(cluster: str) -> str:
    """Return the namespace with the Works of a member."""
    return f"karmada-es-{cluster}"
