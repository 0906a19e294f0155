"""Staged updates on a fleet: strategies over the regions of its members, runs, approvals, and what became of them.

Each member is in a region of its own: ``jumpingcat`` in europe, ``smartfish`` in west, ``bravelion`` in east.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from e2e.controlplane.cluster import JsonObject
from e2e.controlplane.process import PATIENCE
from e2e.fleet.bed import Fleet
from e2e.fleet.objects import CONFIG_MAP, DEPLOYMENT, Objects, make_deployment, make_placement
from e2e.fleet.scene import Scene
from e2e.fleet.waiting import wait_until
from e2e.fleet.workloads import NEVER_READY, ready_status
from scorer.api.family import Family, family_in
from scorer.api.meta import format_time
from scorer.api.unstructured.documents import conditions_of, dicts_at, generation_of, status_of
from scorer.staged_update.record import condition
from webhook.runtime.clock import utc_now

DONE = {"Initialized": "True UpdateRunInitializedSuccessfully", "Succeeded": "True UpdateRunSucceeded"}
WAITING = {"Progressing": "False UpdateRunWaiting"}
UPDATING = {"Progressing": "True UpdateRunProgressing"}
ABORTED = {"Progressing": "False UpdateRunFailed", "Succeeded": "False UpdateRunFailed"}
NEVER_BEGUN = {"Initialized": "False UpdateRunInitializedFailed"}
APPROVAL = {"type": "Approval"}
EXTERNAL = {"type": "External"}


def make_stage(name: str, region: str = "", **more: Any) -> JsonObject:
    """Make a stage of the members of a region; without one, of all members."""
    selector = {"matchLabels": {"region": region}} if region else {}
    return {"name": name, "labelSelector": selector, **more}


ONE_BY_ONE = (make_stage("europe", "europe"), make_stage("west", "west"), make_stage("east", "east"))
ONE_STAGE = (make_stage("all", maxConcurrency="100%"),)
ASKS_FIRST = (make_stage("europe", "europe", afterStageTasks=[APPROVAL]), *ONE_BY_ONE[1:])


def make_strategy(name: str, *stages: JsonObject, namespace: str = "", **annotations: str) -> JsonObject:
    """Make a strategy; *annotations*: the failure policy, by the last part of its annotations."""
    kind = family_in(namespace).strategy
    marks = {f"harbormaster.dev/{key.replace('_', '-')}": text for key, text in annotations.items()}
    metadata = {"name": name, "annotations": marks, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": {"stages": list(stages)}}


def make_run(
    name: str, placement: str, strategy: str, *, state: str = "Run", index: str = "", namespace: str = ""
) -> JsonObject:
    """Make a run of a placement, which begins at once unless *state* says otherwise."""
    kind = family_in(namespace).run
    spec = {"placementName": placement, "stagedRolloutStrategyName": strategy, "state": state}
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name, **({"namespace": namespace} if namespace else {})},
        "spec": {**spec, **({"resourceSnapshotIndex": index} if index else {})},
    }


class StagedUpdates:
    """Runs of one fleet.

    Args:
        fleet: The fleet.
        scene: Takes away in the end what is put here.
        namespace: Of the runs; empty: they are cluster-scoped.
    """

    def __init__(self, fleet: Fleet, scene: Scene, namespace: str = "") -> None:
        self._fleet = fleet
        self._scene = scene
        self._namespace = namespace

    @property
    def family(self) -> Family:
        """The kinds of its runs."""
        return family_in(self._namespace)

    def place(self, name: str, *stages: JsonObject, policy: JsonObject | None = None, **spec: Any) -> None:
        """Place a namespace with a ConfigMap that says ``colour: green``, by a strategy of the same name."""
        self._scene.home(name, colour="green")
        self._scene.put(make_strategy(name, *stages), make_placement(name, policy, **{"strategy": EXTERNAL, **spec}))

    def place_unready(self, name: str, *stages: JsonObject) -> None:
        """The same with a Deployment in place of the ConfigMap that is ready only where `make_ready` makes it so."""
        web = make_deployment("web", name)
        web["metadata"]["annotations"] = {NEVER_READY: "true"}
        self._scene.home(name, web)
        self._scene.put(make_strategy(name, *stages), make_placement(name, strategy=EXTERNAL))

    def make_ready(self, name: str, *members: str) -> None:
        """Have the Deployment of a placement be ready on members, once it is there."""
        for member in members:
            objects = self._fleet.members[member].objects
            wait_until(f"{member} has it", partial(_missing, objects, name))
            objects.patch_status(DEPLOYMENT, "web", ready_status(objects.get(DEPLOYMENT, "web", name)), name)

    def paint(self, name: str, colour: str) -> None:
        """Change what a placement selects."""
        self._fleet.on_hub.patch(CONFIG_MAP, "settings", {"data": {"colour": colour}}, name)

    def colours(self, name: str) -> dict[str, str]:
        """What the members have of it; those without are left out."""
        found = {member: objects.find(CONFIG_MAP, "settings", name) for member, objects in self._fleet.clusters.items()}
        return {member: item["data"]["colour"] for member, item in found.items() if item is not None}

    def start(self, name: str, placement: str, strategy: str = "", **more: str) -> None:
        """Create a run; the strategy is called as the placement unless said otherwise."""
        self._scene.put(make_run(name, placement, strategy or placement, namespace=self._namespace, **more))

    def set_state(self, name: str, state: str) -> None:
        """Have a run go on or stop."""
        self._fleet.on_hub.patch(self.family.run, name, {"spec": {"state": state}}, self._namespace)

    def get(self, name: str) -> JsonObject:
        """A run as it is stored."""
        return self._fleet.on_hub.get(self.family.run, name, self._namespace)

    def said(self, name: str) -> dict[str, str]:
        """Status and reason of all conditions of a run."""
        return {each["type"]: f"{each['status']} {each['reason']}" for each in conditions_of(self.get(name))}

    def message(self, name: str, kind: str) -> str:
        """The message of a condition of a run."""
        return str(condition(status_of(self.get(name)), kind).get("message", ""))

    def wait(self, name: str, wanted: Mapping[str, str], seconds: float = PATIENCE) -> None:
        """Wait until a run says so."""

        def problem() -> str:
            found = self.said(name)
            if all(found.get(kind) == text for kind, text in wanted.items()):
                return ""
            messages = {kind: self.message(name, kind) for kind in found}
            return f"it says {found}: {messages}; stages: {self.stages(name)}"

        wait_until(f"run {name} is {dict(wanted)}", problem, seconds)

    def wait_message(self, name: str, wanted: str, seconds: float = PATIENCE) -> None:
        """Wait until a run says this of its progress."""

        def problem() -> str:
            found = self.message(name, "Progressing")
            return "" if found == wanted else f"it says {found!r}: {self.said(name)}, stages {self.stages(name)}"

        wait_until(f"run {name} says {wanted!r}", problem, seconds)

    def wait_in_flight(self, name: str, *members: str) -> None:
        """Wait until exactly these members have been started and are not done."""

        def problem() -> str:
            found = sorted(
                entry["clusterName"]
                for stage in dicts_at(status_of(self.get(name)), "stagesStatus")
                for entry in dicts_at(stage, "clusters")
                if condition(entry, "Started").get("status") == "True" and not condition(entry, "Succeeded")
            )
            return "" if found == sorted(members) else f"in flight are {found}: {self.said(name)}"

        wait_until(f"run {name} has {sorted(members)} in flight", problem)

    def stages(self, name: str) -> dict[str, str]:
        """Which stages of a run have which reason."""
        found = status_of(self.get(name))
        stages = [*dicts_at(found, "stagesStatus"), found.get("deletionStageStatus") or {}]
        return {str(stage.get("stageName")): condition(stage, "Progressing").get("reason", "") for stage in stages}

    def approve(self, name: str) -> None:
        """Approve a request, as a person does."""
        request = self._fleet.on_hub.get(self.family.approval_request, name, self._namespace)
        made = {
            "type": "Approved",
            "status": "True",
            "reason": "LooksGood",
            "message": "",
            "observedGeneration": generation_of(request),
            "lastTransitionTime": format_time(utc_now()),
        }
        self._fleet.on_hub.patch_status(self.family.approval_request, name, {"conditions": [made]}, self._namespace)


def _missing(objects: Objects, namespace: str) -> str:
    return "" if objects.find(DEPLOYMENT, "web", namespace) else f"{namespace} has no Deployment web"
