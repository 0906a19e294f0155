"""What holds for every run, whatever its members, its sequence, and what happens meanwhile."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from scorer.upgrade.evaluation.engine import advance
from scorer.upgrade.simulation.hub import Start
from scorer.upgrade.state.operations import occupied_members
from scorer.upgrade.state.record import OVER
from scorer.upgrade.state.step import StartUpgrade
from scorer.upgrade.versions.comparison import image_order, parse_version
from scorer.windows.maintenance import window_state
from tests.scorer.upgrade.random_runs import INSTANTS, made, scenarios
from tests.scorer.upgrade.scenarios import event
from tests.thoroughness import examples
from tests.vector_families.upgrade_runs import duration, written


def members_of(run):
    return [entry for stage in run.status.stages for group in stage.groups for entry in group.members]


def running(entries):
    return sum(entry.state == "Running" for entry in entries)


def begun(moment):
    return [action.operation for action in moment.step.actions if isinstance(action, StartUpgrade)]


def check_second_evaluation(scenario, moment):
    again = advance(moment.run, scenario.hub.facts(moment.now))
    assert not again.changed, "a second evaluation at the same instant writes"
    assert not again.actions, "a second evaluation at the same instant acts"
    assert not again.events, "a second evaluation at the same instant emits events"


def check_limits(status):
    for at in status.stages:
        assert running(entry for group in at.groups for entry in group.members) <= at.max_concurrency
        for group in at.groups:
            assert running(group.members) <= group.max_concurrency


def check_starts(scenario, moment, before):
    """Upgrades start one after the other on a member, inside its windows, and after the stages in front."""
    for operation in begun(moment):
        assert before.get(operation.member) not in ("Running", "Completed", "Skipped")
        names = scenario.hub.members[operation.member].windows.names
        windows = [scenario.hub.windows[name].window for name in names]
        assert not windows or window_state(windows, moment.now).is_open
    started, over = {operation.member for operation in begun(moment)}, True
    for at in moment.run.status.stages:
        here = {entry.name for group in at.groups for entry in group.members}
        assert over or not started & here, "a member starts before an earlier stage is over"
        over = over and at.state in OVER


def check_versions(given, scenario, known):
    """Versions never decrease, except where a member is edited by hand."""
    for name, member in scenario.hub.members.items():
        version = parse_version(member.inventory.version)
        images = [image_order(pool.image) for pool in member.inventory.pools]
        old_version, old_images = known.get(name, (version, images))
        changed_by_hand = any(each.get("name") == name and each["do"] == "setMember" for each in given["events"])
        assert changed_by_hand or version >= old_version
        assert all(new >= old for new, old in zip(images, old_images, strict=True))
        known[name] = version, images


@settings(max_examples=examples(300))
@given(scenarios())
def test_every_instant_of_a_run_keeps_the_rules(given):
    scenario, before, known = made(given), {}, {}
    for moment in scenario.moments():
        check_second_evaluation(scenario, moment)
        check_limits(moment.run.status)
        check_starts(scenario, moment, before)
        check_versions(given, scenario, known)
        before = {entry.name: entry.state for entry in members_of(moment.run)}


@settings(max_examples=examples(150))
@given(scenarios())
def test_a_refused_command_is_as_if_it_had_not_been_given(given):
    scenario = made(given)
    scenario.play()
    refused = [tuple(each) for each in scenario.rejected]
    orders = [(each["do"], written(duration(each["at"]))) for each in given["events"]]
    kept = [
        each
        for each, order in zip(given["events"], orders, strict=True)
        if order not in refused or orders.count(order) > 1
    ]
    again = made({**given, "events": kept})
    again.play()
    left_out = ("rejected", "runDoneAt", "initialized", "initializedReason", "at")
    wanted, found = scenario.seen(), again.seen()
    assert {key: found[key] for key in found if key not in left_out} == {
        key: wanted[key] for key in wanted if key not in left_out
    }


@settings(max_examples=examples(150))
@given(scenarios(), st.sets(INSTANTS, min_size=1, max_size=4))
def test_crashes_change_nothing(given, instants):
    calm, shaken = (
        made(given),
        made({**given, "events": [*given["events"], *(event(at, "crash") for at in instants)]}),
    )
    calm.play()
    shaken.play()
    assert shaken.seen() == calm.seen()


@settings(max_examples=examples(75))
@given(scenarios(), scenarios())
def test_a_member_is_in_upgrade_by_one_run_at_a_time(given, other):
    first, second = made(given), made({**other, "members": given["members"]})
    hubs = first.hub, second.hub
    hubs[1].back_end, hubs[1].members = hubs[0].back_end, hubs[0].members
    hubs[1].run = hubs[1].run.model_copy(
        update={"metadata": hubs[1].run.metadata.model_copy(update={"uid": "other", "name": "other"})}
    )
    hubs[1].windows = hubs[0].windows
    asked = []
    for step in range(60):
        now = first.begin + step * duration("10m")
        for hub, peer in (hubs, hubs[::-1]):
            hub.busy = dict(occupied_members(peer.run))
            asked += begun(hub.evaluate(now, [Start()] if step in (0, 30) else []))
        at_work = Counter(each.member for each in asked if hubs[0].back_end.observe(each.id, now).in_flight)
        assert set(at_work.values()) <= {1}
