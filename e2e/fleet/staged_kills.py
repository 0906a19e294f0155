"""``kill -9`` of the leader in the midst of staged updates, at a write that the test chooses.

Whatever was written and not recorded, the next leader recognises: the run ends as it would have ended, nothing is there
twice, and nothing that rests is written again.
"""

import signal
from dataclasses import dataclass

from e2e.controlplane.cluster import JsonObject
from e2e.controlplane.fault_proxy import Faults
from e2e.fleet.bed import MEMBERS, Fleet
from e2e.fleet.changes import live_bindings
from e2e.fleet.objects import DEPLOYMENT, annotations_of, labels_of, make_deployment, pick_fixed
from e2e.fleet.scene import Scene
from e2e.fleet.settled import FLEET
from e2e.fleet.staged import ABORTED, ASKS_FIRST, DONE, ONE_BY_ONE, ONE_STAGE, WAITING, StagedUpdates, make_strategy
from e2e.fleet.waiting import wait_until
from scorer.api.kinds import APPROVAL_REQUEST, PLACEMENT, RESOURCE_SNAPSHOT, STAGED_RUN


@dataclass(frozen=True)
class Strike:
    """A write that takes place, and whose writer is killed before it hears of it.

    Args:
        approved: It comes after the approval; else before.
        methods: Of the request.
        path: An expression for its path; ``RUN`` stands for the name of the run.
    """

    approved: bool
    methods: tuple[str, ...]
    path: str

    def faults(self, run: str) -> Faults:
        """What has the write hang once it has taken place."""
        path = self.path.replace("RUN", run)
        return Faults(share=1.0, faults=("hang",), after=1.0, methods=self.methods, path=f"/{path}(\\?|$)")


WRITES = ("PUT", "PATCH")
STRIKES = {
    "the run is held": Strike(False, WRITES, "clusterstagedupdateruns/RUN"),
    "the content is kept": Strike(False, ("POST",), "clusterresourcesnapshots"),
    "the stages are recorded": Strike(False, WRITES, "clusterstagedupdateruns/RUN/status"),
    "a cluster is given the content": Strike(False, WRITES, "clusterresourcebindings/[^/?]+"),
    "a cluster is told to begin": Strike(False, WRITES, "clusterresourcebindings/[^/?]+/status"),
    "somebody is asked": Strike(False, ("POST",), "clusterapprovalrequests"),
    "the approval is accepted": Strike(True, WRITES, "clusterapprovalrequests/[^/?]+/status"),
    "the progress is recorded": Strike(True, WRITES, "clusterstagedupdateruns/RUN/status"),
    "a later cluster is given the content": Strike(True, WRITES, "clusterresourcebindings/[^/?]+"),
    "a cluster loses the placement": Strike(True, ("DELETE",), "clusterresourcebindings/[^/?]+"),
}


def strike(fleet: Fleet, scene: Scene, place: Strike, name: str) -> None:
    """Roll out, take a cluster away and roll out again; the leader is killed once in the second run."""
    updates = StagedUpdates(fleet, scene)
    proxy = fleet.add_proxy(fleet.hub, f"of-{name}")
    loop = fleet.add_reconciler(f"killed-{name}", proxy.kubeconfig("loop", fleet.loop_token()))
    with fleet.other_reconcilers(loop):
        fleet.wait_leader(loop.identity)
        updates.place(name, *ONE_STAGE, policy=pick_fixed(*MEMBERS))
        scene.put(make_strategy(f"{name}-asks", *ASKS_FIRST))
        updates.start(f"{name}-1", name)
        updates.wait(f"{name}-1", DONE)
        updates.paint(name, "red")
        fleet.on_hub.patch(PLACEMENT, name, {"spec": {"policy": pick_fixed("bravelion", "jumpingcat")}})
        wait_until("the scheduler has seen it", lambda: still_picked(fleet, name))
        run, request = f"{name}-2", f"{name}-2-after-europe"
        if not place.approved:
            proxy.set(place.faults(run))
        updates.start(run, name, f"{name}-asks")
        if place.approved:
            updates.wait(run, WAITING)
            proxy.set(place.faults(run))
            updates.approve(request)
        wait_until("the write takes place", lambda: "" if proxy.counts()["hang after"] else str(updates.said(run)))
        loop.program.stop(number=signal.SIGKILL)
        proxy.heal()
        loop.start(wait=False)
        if not place.approved:
            updates.wait(run, WAITING)
            updates.approve(request)
        updates.wait(run, DONE)
        check_once(fleet, updates, name)


def still_picked(fleet: Fleet, placement: str) -> str:
    """Say that the third cluster has not been given up yet."""
    found = live_bindings(fleet, placement)["smartfish"]["spec"]["state"]
    return "" if found == "Unscheduled" else f"smartfish is {found}"


def check_once(fleet: Fleet, updates: StagedUpdates, name: str) -> None:
    """Check that the second run of `strike` has done everything, and everything once."""
    assert updates.colours(name) == {"bravelion": "red", "jumpingcat": "red"}
    assert set(live_bindings(fleet, name)) == {"bravelion", "jumpingcat"}
    assert sorted(item["metadata"]["name"] for item in of(fleet.on_hub.all(STAGED_RUN), name)) == [
        f"{name}-1",
        f"{name}-2",
    ]
    requests = [item["metadata"]["name"] for item in of(fleet.on_hub.all(APPROVAL_REQUEST), name)]
    assert requests == [f"{name}-2-after-europe"]
    snapshots = [item for item in fleet.on_hub.all(RESOURCE_SNAPSHOT) if labels_of(item)[f"{FLEET}parent-CRP"] == name]
    masters = [item for item in snapshots if f"{FLEET}resource-hash" in annotations_of(item)]
    assert sorted(labels_of(item)[f"{FLEET}resource-index"] for item in masters) == ["0", "1"]


def of(documents: list[JsonObject], name: str) -> list[JsonObject]:
    """Those whose names begin with a name."""
    return [item for item in documents if item["metadata"]["name"].startswith(f"{name}-")]


def strike_rollback(fleet: Fleet, scene: Scene, name: str) -> None:
    """A release fails and is to be taken back; the leader is killed when it has created the run that does that."""
    updates = StagedUpdates(fleet, scene)
    proxy = fleet.add_proxy(fleet.hub, f"of-{name}")
    loop = fleet.add_reconciler(f"killed-{name}", proxy.kubeconfig("loop", fleet.loop_token()))
    with fleet.other_reconcilers(loop):
        fleet.wait_leader(loop.identity)
        updates.place_unready(name, *ONE_STAGE)
        scene.put(make_strategy(f"{name}-careful", *ONE_BY_ONE, on_failure="Rollback", cluster_deadline="10s"))
        updates.start(f"{name}-1", name)
        updates.wait_in_flight(f"{name}-1", *MEMBERS)
        updates.make_ready(name, *MEMBERS)
        updates.wait(f"{name}-1", DONE)
        first = fleet.on_hub.get(DEPLOYMENT, "web", name)["spec"]["template"]
        newer = make_deployment("web", name, "example.com/web:2")["spec"]["template"]
        fleet.on_hub.patch(DEPLOYMENT, "web", {"spec": {"template": newer}}, name)
        proxy.set(Strike(False, ("POST",), "clusterstagedupdateruns").faults(""))
        updates.start(f"{name}-2", name, f"{name}-careful")
        wait_until(
            "it is to be taken back", lambda: "" if proxy.counts()["hang after"] else str(updates.said(f"{name}-2"))
        )
        loop.program.stop(number=signal.SIGKILL)
        proxy.heal()
        loop.start(wait=False)
        updates.wait(f"{name}-2", ABORTED)
        taken_back = fleet.members["jumpingcat"].objects

        def problem() -> str:
            found = taken_back.get(DEPLOYMENT, "web", name)["spec"]["template"]["spec"]["containers"][0]["image"]
            return "" if found == first["spec"]["containers"][0]["image"] else f"it runs {found}"

        wait_until("the first cluster has the old content", problem)
        updates.make_ready(name, "jumpingcat")
        updates.wait(f"{name}-2-rollback", DONE)
        runs = sorted(item["metadata"]["name"] for item in of(fleet.on_hub.all(STAGED_RUN), name))
        assert runs == [f"{name}-1", f"{name}-2", f"{name}-2-rollback"]
        fleet.on_hub.delete(STAGED_RUN, f"{name}-2-rollback")
