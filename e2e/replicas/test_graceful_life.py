"""Processes that are asked to end, while others write, lead or apply: nothing fails, nothing is lost, nobody waits.

Source: docs/specifications/serving.md 1.14 and 7, own elector.
"""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.controlplane.process import PATIENCE
from e2e.controlplane.replicas import THIS_RELEASE, Replicas
from e2e.controlplane.service import HARBORMASTER
from e2e.controlplane.steady_writers import SteadyWriters
from e2e.fleet.bed import LEASES, LOOP_USER, SECOND_ACCOUNT, SECOND_LOOP_USER, Fleet
from e2e.fleet.ledger import Ledger
from e2e.fleet.objects import CONFIG_MAP, make_config_map, make_placement, pick_fixed
from e2e.fleet.processes import LEASE, SYSTEM
from e2e.fleet.scene import Scene
from e2e.fleet.settled import assert_settled
from e2e.fleet.waiting import wait_until
from tests.thoroughness import SOAK

ROUNDS = 10 if SOAK else 1
PAUSE_SECONDS = 0.02 if SOAK else 0.2
"""Of each of the writers: by the shorter one, they take all of the processor that the replicas leave."""
MANY = (120, 240, 480)
"""Objects of one Work: so many that an agent is stopped between two of them; more, where it was too fast for that."""
WHOLE_DRAIN = {"drain_seconds": 5, "drain_limit_seconds": 100}
"""As in an installation, with a shorter first phase: the door polls readiness three times a second."""


@pytest.fixture(scope="module")
def replicas(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    """Two replicas that the hub asks, which let the second loop of the fleet write Works, too."""
    folder = tmp_path_factory.mktemp("graceful")
    settings = {**WHOLE_DRAIN, "namespace": SYSTEM, "allowed_users": SECOND_LOOP_USER}
    with Replicas(fleet.hub, folder, (THIS_RELEASE,) * 2, **settings) as found:
        found.register()
        yield found


@pytest.mark.soak
def test_a_rolling_restart_fails_no_write(fleet, replicas):
    """Each replica ends by itself, with all connections closed by those who had opened them, and comes back."""
    with SteadyWriters(fleet.hub, writers=8, seconds=PAUSE_SECONDS) as writers:
        for _ in range(ROUNDS):
            for service in replicas.services:
                asked_before = service.reviews()
                wait_until("it is asked", lambda s=service, n=asked_before: "" if s.reviews() > n else "not yet")
                assert service.program.stop(seconds=PATIENCE) == 0
                assert "stopped" in service.program.last_words()
                service.start()
    writers.check()


@pytest.mark.soak
def test_a_leader_that_is_asked_to_end_hands_over_to_one_that_waits(fleet, scene):
    """In the midst of a rollout: no write of the one comes after the first write of the other, and nothing is lost."""
    kubeconfig = fleet.hub.write_kubeconfig("second-loop", fleet.loop_token(SECOND_ACCOUNT))
    usual, second = fleet.reconcilers[0], fleet.add_reconciler("heir", kubeconfig)
    try:
        second.start()
        fleet.wait_leader(usual.identity)
        for number in range(ROUNDS):
            names = [f"e2e-heir-{number}-{each}" for each in range(4)]
            mark, before = fleet.hub.audit_mark(), transitions(fleet)
            for name in names:
                scene.home(name, colour="green")
                scene.put(make_placement(name))
            wait_until("it works", lambda since=mark: "" if writes(fleet, since, LOOP_USER) else "nothing is written")
            assert usual.program.stop(seconds=PATIENCE) == 0
            assert not fleet.leader().startswith(usual.identity), "it has kept the Lease"
            fleet.wait_leader(second.identity)
            wait_until("they go on", lambda s=mark: "" if writes(fleet, s, SECOND_LOOP_USER) else "nothing is written")
            assert max(writes(fleet, mark, LOOP_USER)) < min(writes(fleet, mark, SECOND_LOOP_USER))
            assert transitions(fleet) == before + 1
            usual.start()
            assert_settled(fleet)
            assert second.program.stop(seconds=PATIENCE) == 0
            fleet.wait_leader(usual.identity)
            second.start()
            scene.clear()
    finally:
        second.stop()
        if not usual.program.running:
            usual.start()
    fleet.wait_leader(usual.identity)


def transitions(fleet: Fleet) -> int:
    """How often the Lease has changed hands."""
    return int(fleet.on_hub.get(LEASES, LEASE, SYSTEM)["spec"]["leaseTransitions"])


def writes(fleet: Fleet, since: int, user: str) -> list[str]:
    """When a user has sent writes, besides those to the Lease, as the hub has noted it."""
    return [
        event["requestReceivedTimestamp"]
        for event in fleet.hub.audit(since)
        if event["user"]["username"] == user and event["objectRef"]["resource"] != "leases"
    ]


@pytest.mark.soak
def test_an_agent_that_is_asked_to_end_in_the_midst_of_a_work_loses_nothing(fleet, scene):
    """What it had applied stays the same object, what it had not follows when it is back."""
    for number in range(ROUNDS):
        caught = any(is_stopped_in_the_midst(fleet, scene, f"e2e-midst-{number}-{many}", many) for many in MANY)
        assert caught, "the agent had applied everything before it was asked to end, however much there was"


def is_stopped_in_the_midst(fleet: Fleet, scene: Scene, name: str, many: int) -> bool:
    """Ask the agent to end once it has begun a Work, and check what is left and what follows; False: it was faster."""
    member, objects = fleet.members["smartfish"], fleet.clusters["smartfish"]
    scene.home(name, *(make_config_map(f"c{each:03}", name, depth="5") for each in range(many)))
    ledger = Ledger(fleet, name)
    scene.put(make_placement(name, pick_fixed("smartfish")))

    def there() -> int:
        return sum(item["metadata"]["namespace"] == name for item in objects.all(CONFIG_MAP))

    wait_until("it has begun", lambda: "" if there() else "nothing is there", pause=0)
    assert member.agent.program.stop(seconds=PATIENCE) == 0
    left = there()
    assert left
    ledger.record()
    member.agent.start()
    wait_until("all of it is there", lambda: "" if there() == many else f"{there()} of {many}")
    assert_settled(fleet)
    assert ledger.losses() == []
    scene.clear()
    return left < many


def test_the_first_process_of_a_container_ends_while_it_starts():
    """It has no handler of the system's: what it does not handle itself, it does not hear of."""
    code = (
        "import os, time, webhook.cli.root as root\n"
        "assert os.getpid() == 1\n"
        # Not signal.pause(): a signal that arrives just before it would not end it.
        "root.root.main = lambda *_: (print('starting', flush=True), [time.sleep(0.01) for _ in iter(int, 1)])\n"
        "from webhook.cli import main\n"
        "main(['serve'])"
    )
    python = HARBORMASTER.with_name("python")
    command = ["unshare", "--user", "--map-root-user", "--fork", "--pid", "--kill-child", str(python), "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "starting\n", process.stderr.read()
            child = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii")
            os.kill(int(child), signal.SIGTERM)
            assert process.wait(PATIENCE) == 128 + signal.SIGTERM
        finally:
            process.kill()
