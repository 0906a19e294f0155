"""The leader of staged updates is killed right after each kind of write, and a stuck run is left alone by the next."""

import pytest

from e2e.fleet.bed import MEMBERS
from e2e.fleet.staged import DONE, ONE_STAGE, StagedUpdates
from e2e.fleet.staged_kills import STRIKES, strike, strike_rollback
from e2e.fleet.writes import Writes, told
from scorer.staged_update.execution.stage import STUCK_AFTER

pytestmark = pytest.mark.soak


@pytest.mark.parametrize("words", STRIKES)
def test_a_run_ends_the_same_whichever_write_was_the_last_of_its_leader(fleet, scene, words):
    strike(fleet, scene, STRIKES[words], f"e2e-kill-{list(STRIKES).index(words)}")


def test_a_run_that_is_stuck_is_not_written_again_by_the_next_leader(fleet, scene):
    updates = StagedUpdates(fleet, scene)
    updates.place_unready("e2e-stuck", *ONE_STAGE)
    updates.start("e2e-stuck-run", "e2e-stuck")
    stuck = {"Progressing": "False UpdateRunStuck"}
    updates.wait("e2e-stuck-run", stuck, STUCK_AFTER.total_seconds() + 120)
    before = updates.get("e2e-stuck-run")
    since = Writes(fleet)
    fleet.reconcilers[0].stop()
    fleet.reconcilers[0].start()
    fleet.wait_leader(fleet.reconcilers[0].identity)
    updates.wait("e2e-stuck-run", stuck)
    assert not since.of_loop(), told(since.of_loop())
    assert updates.get("e2e-stuck-run") == before
    updates.make_ready("e2e-stuck", *MEMBERS)
    updates.wait("e2e-stuck-run", DONE)


def test_a_release_is_taken_back_once_also_when_the_leader_is_killed_meanwhile(fleet, scene):
    strike_rollback(fleet, scene, "e2e-kill-back")
