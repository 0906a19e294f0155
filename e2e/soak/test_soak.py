"""Faults with their full counts: ``make soak``; the short forms are in ``e2e/rollouts/test_faults.py``."""

from dataclasses import replace

import pytest

from e2e.fleet import faults

pytestmark = pytest.mark.soak


def test_the_leader_is_killed_twenty_times_in_rollouts_of_a_hundred(fleet, scene):
    faults.kill_the_leader(fleet, scene, placements=100, kills=20)


@pytest.mark.parametrize("time", range(5))
def test_a_leader_that_wakes_up_too_late_writes_nothing(fleet, scene, time):
    faults.pause_the_leader(fleet, scene, placements=40)


def test_the_hub_restarts_again_and_again(fleet, scene):
    faults.restart_the_hub(fleet, scene, placements=50, times=8)


@pytest.mark.parametrize("seed", range(3))
def test_a_third_of_the_requests_fails(fleet, scene, seed):
    """Here hanging requests hang for as long as the client waits."""
    faults.spoil_the_network(
        fleet, scene, placements=30, rounds=4, faults=replace(faults.BAD, seed=seed, hang_seconds=3600)
    )


def test_a_member_is_cut_off_from_the_hub_for_ten_minutes(fleet, scene):
    faults.cut_a_member_off(fleet, scene, seconds=600, placements=20)


def test_an_agent_is_cut_off_from_its_own_cluster(fleet, scene):
    faults.cut_off_from_its_own(fleet, scene, seconds=120)


@pytest.mark.parametrize(
    ("seconds", "name"), [pytest.param(600, "e2e-fast", id="fast"), pytest.param(-600, "e2e-slow", id="slow")]
)
def test_the_clock_of_an_agent_is_off_by_ten_minutes(fleet, scene, seconds, name):
    faults.shift_the_clock(fleet, scene, seconds=seconds, name=name)


@pytest.mark.parametrize("time", range(3))
def test_works_and_members_are_edited_by_hand(fleet, scene, time):
    faults.edit_works(fleet, scene)
    faults.edit_members(fleet, scene)
