"""Faults in their short forms, on a real fleet; the full counts are in ``e2e/soak``.

A leader that wakes up too late is in ``e2e/replicas/test_leader.py``. Whatever happens, in the end nothing is lost,
doubled or orphaned: see `e2e.fleet.settled`.
"""

from e2e.fleet import faults


def test_the_leader_is_killed_in_the_midst_of_a_rollout(fleet, scene):
    faults.kill_the_leader(fleet, scene, placements=6, kills=1)


def test_the_hub_restarts_and_has_forgotten_the_past(fleet, scene):
    faults.restart_the_hub(fleet, scene, placements=4)


def test_a_third_of_the_requests_fails(fleet, scene):
    faults.spoil_the_network(fleet, scene, placements=3, rounds=1)


def test_a_member_is_cut_off_from_the_hub(fleet, scene):
    faults.cut_a_member_off(fleet, scene, seconds=10)


def test_an_agent_is_cut_off_from_its_own_cluster(fleet, scene):
    faults.cut_off_from_its_own(fleet, scene, seconds=5)


def test_an_agent_reads_the_hub_and_cannot_write_to_it(fleet, scene):
    faults.silence_an_agent(fleet, scene)


def test_the_clock_of_an_agent_is_ten_minutes_slow(fleet, scene):
    faults.shift_the_clock(fleet, scene, seconds=-600, name="e2e-slow")


def test_works_are_edited_by_hand(fleet, scene):
    faults.edit_works(fleet, scene)


def test_resource_snapshots_lose_the_label_of_their_placement(fleet, scene):
    faults.take_snapshot_labels(fleet, scene)


def test_what_is_placed_is_edited_by_hand_on_a_member(fleet, scene):
    faults.edit_members(fleet, scene)


def test_another_client_fights_over_a_placed_object(fleet, scene):
    faults.fight_over_an_object(fleet, scene, writes=300)
