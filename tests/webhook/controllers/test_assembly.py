"""The controllers of a hub: what they have in common, and what is known before they begin."""

import pytest

from scorer.api.family import FAMILIES
from scorer.api.kinds import (
    KINDS,
    MAINTENANCE_WINDOW,
    NAMESPACED_OVERRIDE_SNAPSHOT,
    NODE,
    OVERRIDE_SNAPSHOT,
    UPGRADE_GATE,
    UPGRADE_REQUEST,
    UPGRADE_RUN,
    WORK,
)
from scorer.member_gate.holds import MemberDisruption
from scorer.rollout.selection.exclusions import SelectionSettings
from tests.virtual_time import loop_now
from tests.webhook.controllers.by_hand import Served
from webhook.controllers.assembly import CONTROLLERS, REQUIRED, make_loop, required
from webhook.controllers.machinery.wiring import Watch
from webhook.controllers.placements.resource_watches import Selectables
from webhook.embedded.storage.store import EmbeddedStore
from webhook.gate.holds import seen_in
from webhook.gate.reservations import LeaseReservations
from webhook.kube.cache.hub import Hub
from webhook.kube.cache.informer import Cache
from webhook.settings.analysis import AnalysisOptions
from webhook.settings.gate import NodeDisruptionMode, NodeDisruptionOptions
from webhook.settings.loop import LoopSettings

ADVISING = NodeDisruptionOptions(NodeDisruptionMode.ADVISE)


@pytest.fixture
def make():
    """Return what makes a loop by some settings."""
    store = EmbeddedStore.open(None)

    def made(**settings):
        cache, how = Cache(store), LoopSettings(**settings)
        selectables = Selectables(cache, Served(*KINDS.values()), how.selection)
        return make_loop(Hub(store, cache), loop_now, selectables, how)

    yield made
    store.close()


async def test_the_queues_are_called_as_the_metrics_call_them(make):
    everything = AnalysisOptions(kinds=frozenset({"jobs.batch"}))
    assert tuple(make(analysis=everything, node_disruption=ADVISING).queues) == CONTROLLERS


async def test_nothing_is_analysed_where_the_settings_name_nothing_to_look_at(make):
    assert set(CONTROLLERS) - set(make(node_disruption=ADVISING).queues) == {"analysis"}


async def test_where_nodes_are_nobodys_business_nobody_looks_at_them(make):
    assert set(CONTROLLERS) - set(make().queues) == {"analysis", "node_disruption"}


async def test_where_placements_select_nodes_nobody_looks_at_pools(make):
    found = make(selection=SelectionSettings.of(allowed="v1/Node"))
    assert set(CONTROLLERS) - set(found.queues) == {"analysis", "node_pool", "node_disruption"}
    assert not found._hub.cache.watches(NODE)


async def test_all_that_wakes_a_controller_is_known_before_it_begins(make):
    watches = [watch for controller in make().controllers for watch in controller.watches]
    read_once = {family.strategy for family in FAMILIES}  # by a run that begins; later ones are nothing to it
    told_of = {MAINTENANCE_WINDOW}  # by a signal
    assert {watch.kind for watch in watches if isinstance(watch, Watch)} == set(REQUIRED) - read_once - told_of
    assert required(LoopSettings()) == REQUIRED


@pytest.mark.parametrize(
    ("gated", "seen"),
    [
        pytest.param(tuple(MemberDisruption), seen_in(tuple(MemberDisruption)), id="all"),
        pytest.param((MemberDisruption.EVICTION, MemberDisruption.UPGRADE), (UPGRADE_RUN,), id="some"),
        pytest.param((MemberDisruption.UPGRADE,), (UPGRADE_RUN,), id="upgrades"),
        pytest.param((), (), id="none"),
    ],
)
def test_what_may_hold_a_member_is_known_before_anybody_waits_for_that(gated, seen):
    assert set(required(LoopSettings(gate_members=gated))) == {*REQUIRED, *seen}


async def test_nothing_of_which_there_may_be_only_one_is_made_before_it_is_listed(make):
    makes = {kind for controller in make().controllers for kind in controller.makes}
    ours = {kind for each in FAMILIES for kind in (each.policy_snapshot, each.resource_snapshot, each.binding)}
    assert makes == {*ours, OVERRIDE_SNAPSHOT, NAMESPACED_OVERRIDE_SNAPSHOT, WORK, UPGRADE_GATE, UPGRADE_REQUEST}


@pytest.mark.parametrize(
    ("gated", "times"),
    [
        pytest.param(tuple(MemberDisruption), 1, id="evictions-and-rollouts"),
        pytest.param((MemberDisruption.ROLLOUT, MemberDisruption.UPGRADE), 1, id="rollouts"),
        pytest.param((MemberDisruption.UPGRADE,), 1, id="upgrades"),
        pytest.param((), 0, id="none"),
    ],
)
async def test_reservations_are_followed_once_by_those_who_take_turns(make, gated, times):
    controllers = make(gate_members=gated).controllers
    runs = {run for controller in controllers for run in controller.background}
    assert sum(isinstance(run.__self__, LeaseReservations) for run in runs) == times


async def test_evictions_are_decided_one_after_another(make):
    alone = {each.name: each.workers for each in make().controllers if each.workers is not None}
    assert alone == {"eviction": 1, "upgrade_plan": 1}


async def test_only_members_report(make):
    assert [each.name for each in make().controllers if each.takes_reports] == ["member"]
