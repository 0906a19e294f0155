"""Half an hour of everything at once on a fleet of a thousand, after a warm-up: no error, no leak, no large process.

The loop reconciles everything again within ten minutes, and members that joined meanwhile within the next ten. Until
then it has not seen all that it keeps in memory, so the warm-up takes twenty minutes, also where
``HARBORMASTER_LOAD_SECONDS`` chooses another length for the half hour. Tables that fill up later are no leak: their
size is a metric. ``HARBORMASTER_LOAD_MEMBERS`` chooses another size of the fleet, ``HARBORMASTER_LOAD_REVIEWS``
another number of reviews per second.
"""

import asyncio
import os
import threading

import pytest
import uvloop

from e2e.fleet.bed import grant
from e2e.fleet.processes import SYSTEM
from e2e.fleet.settled import assert_settled
from e2e.fleet.waiting import wait_until
from e2e.load import memory, tally
from e2e.load.complaints import complaints
from e2e.load.members import SimulatedMembers
from e2e.load.memory import Memory, Watched
from e2e.load.questions import Questions
from e2e.load.reviews import Reviews
from e2e.load.rollouts import Rollouts
from e2e.load.steady import ask_steadily
from e2e.load.tally import Tally
from webhook.controllers.machinery.loop import RESYNC

pytestmark = pytest.mark.soak

SECONDS = float(os.environ.get("HARBORMASTER_LOAD_SECONDS", "1800"))
WARM_UP_SECONDS, WINDOW_SECONDS = 2 * RESYNC.total_seconds(), SECONDS / 6
ALL_SECONDS = WARM_UP_SECONDS + SECONDS
REVIEWS = float(os.environ.get("HARBORMASTER_LOAD_REVIEWS", "200"))
QUESTIONS, ROLLOUTS = REVIEWS / 4, 0.1
"""Asked for in a second."""
MEMBERS, PERIOD_SECONDS = int(os.environ.get("HARBORMASTER_LOAD_MEMBERS", "1000")), 60
UNJUDGED = ("harbormaster_http_rejected_total", "harbormaster_admission_live_failures")
"""Metrics that count requests without a verdict, the API server's own too, and checks that ended with an exception."""
SHOWN = 20


def test_half_an_hour_of_mixed_load(fleet, start_service, capsys):
    grant(fleet.hub, "serve", "harbormaster-serve")
    kubeconfig = fleet.hub.write_kubeconfig("serve", fleet.hub.token_of(SYSTEM, "harbormaster-serve"))
    service = start_service(fleet.hub, kubeconfig, namespace=SYSTEM)
    service.register()
    members, rollouts = SimulatedMembers(fleet.hub, MEMBERS, PERIOD_SECONDS), Rollouts(fleet)
    loop = fleet.reconcilers[0]
    watched_programs = {
        "serve": Watched(service.program, service.exposition),
        "reconcile": Watched(loop.program, loop.metrics),
    }
    watched_programs |= {
        f"agent {name}": Watched(member.agent.program, member.agent.metrics) for name, member in fleet.members.items()
    }
    programs = {name: each.program for name, each in watched_programs.items()}
    tallies = {
        name: Tally(name, rate)
        for name, rate in {
            "admissions": REVIEWS,
            "scores": QUESTIONS,
            "heartbeats": members.rate,
            "rollouts": ROLLOUTS,
        }.items()
    }

    async def load():
        await members.join()
        await asyncio.to_thread(rollouts.put)
        reviews, questions = Reviews(service).asking(), Questions(service, members).asking()
        watched = Memory(watched_programs, WARM_UP_SECONDS, WINDOW_SECONDS)
        changing = threading.Thread(target=rollouts.change, args=(tallies["rollouts"],))
        changing.start()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(ask_steadily(reviews, tallies["admissions"], ALL_SECONDS))
                tasks.create_task(ask_steadily(questions, tallies["scores"], ALL_SECONDS))
                tasks.create_task(members.beat(tallies["heartbeats"], ALL_SECONDS))
                tasks.create_task(watched.watch(ALL_SECONDS))
        finally:
            rollouts.end()
            await asyncio.to_thread(changing.join)
        return watched

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        watched = runner.run(load())
    with capsys.disabled():
        print(f"\n{ALL_SECONDS:g} s of mixed load on {MEMBERS} members")
        print(tally.HEADING, *(each.row(ALL_SECONDS) for each in tallies.values()), sep="\n")
        print(memory.HEADING, *watched.rows(), sep="\n", flush=True)
    failures = [failure for each in tallies.values() for failure in each.failures]
    failures += complaints(programs)
    problems = [text for each in tallies.values() if (text := each.too_few(ALL_SECONDS))] + watched.problems()
    for metric in UNJUDGED:
        if found := service.metric(metric):
            problems.append(f"{metric} of serve is {found:g}")
    assert not failures + problems, "\n".join([f"{len(failures)} failures", *problems, *failures[:SHOWN]])
    wait_until("the loop has heard of all members", members.behind, pause=1.0)
    assert_settled(fleet)
