"""The controllers and kubelets that the members do not have: workloads become ready because this says so.

Written through the API as a controller would, by somebody else than the agent. A workload whose annotation
``e2e/never-ready`` is ``true`` stays as it is.
"""

import contextlib
import threading

from e2e.controlplane.cluster import ApiError, JsonObject
from e2e.controlplane.process import PATIENCE
from e2e.fleet.objects import Objects, annotations_of, name_of
from scorer.api.kinds import KINDS, Kind

NEVER_READY = "e2e/never-ready"
LOOK_EVERY_S = 1.0


class Workloads(threading.Thread):
    """Keeps the status of all Deployments, StatefulSets and DaemonSets of some clusters, until it is ended."""

    def __init__(self, clusters: list[Objects]) -> None:
        super().__init__(daemon=True, name="workloads")
        self._clusters = clusters
        self._ended = threading.Event()

    def run(self) -> None:
        """Look at everything again and again."""
        while not self._ended.wait(LOOK_EVERY_S):
            for objects in self._clusters:
                for name in ("Deployment", "StatefulSet", "DaemonSet"):
                    with contextlib.suppress(OSError, ApiError):  # gone meanwhile, or the server is: look again
                        self._look(objects, KINDS["apps", name])

    def end(self) -> None:
        """Stop looking."""
        self._ended.set()
        self.join(PATIENCE)

    def _look(self, objects: Objects, kind: Kind) -> None:
        for document in objects.all(kind):
            status = ready_status(document)
            known = document.get("status") or {}
            if annotations_of(document).get(NEVER_READY) == "true":
                continue
            if any(known.get(name) != value for name, value in status.items() if value):
                namespace, _, name = name_of(document).rpartition("/")
                objects.patch_status(kind, name, status, namespace)


def ready_status(document: JsonObject) -> JsonObject:
    """The status of a workload that is wholly up to date and ready."""
    generation = document["metadata"]["generation"]
    replicas = document["spec"].get("replicas", 1)
    counts: tuple[str, ...]
    match document["kind"]:
        case "Deployment":
            counts = ("replicas", "readyReplicas", "availableReplicas", "updatedReplicas")
            return {"observedGeneration": generation, "unavailableReplicas": 0, **dict.fromkeys(counts, replicas)}
        case "StatefulSet":
            counts = ("replicas", "readyReplicas", "availableReplicas", "updatedReplicas", "currentReplicas")
            revision = f"revision-{generation}"
            revisions = {"currentRevision": revision, "updateRevision": revision}
            return {"observedGeneration": generation, **revisions, **dict.fromkeys(counts, replicas)}
        case _:
            counts = (
                "desiredNumberScheduled",
                "currentNumberScheduled",
                "updatedNumberScheduled",
                "numberAvailable",
                "numberReady",
            )
            return {"observedGeneration": generation, "numberMisscheduled": 0, **dict.fromkeys(counts, 1)}
