"""The leader of an upgrade run is killed twenty times: no member is upgraded twice, and none is left out."""

import pytest

from e2e.fleet.upgrades import SETTINGS, Upgrades, eight_ships, forget_upgrades, kill_leaders, ships

pytestmark = pytest.mark.soak

KILLS = 20


def test_twenty_leaders_are_killed_during_a_run(fleet, scene):
    loop = fleet.add_reconciler("upgrading", **SETTINGS)
    with fleet.other_reconcilers(loop):
        fleet.wait_leader(loop.identity)
        with ships(fleet, eight_ships()):
            kill_leaders(fleet, Upgrades(fleet, scene), "e2e-kills", KILLS)
            scene.clear()
            forget_upgrades(fleet)
