"""What would come of a change."""

import json

import pytest
from pydantic import TypeAdapter, ValidationError

from scorer.api.upgrade.plan_change import PlanChange
from scorer.upgrade.planning.changes import ChangeError, Planned, UnfitChangeError, apply_changes, difference
from scorer.upgrade.planning.forecast import ForecastAssumptions
from scorer.upgrade.planning.plan import plan_of
from scorer.upgrade.simulation.hub import Start
from tests.scorer.upgrade.planning.planned import half_hour
from tests.scorer.upgrade.scenarios import BEGIN, at, daily, member, prepared, stage

STAGES = [stage("one", "a", afterStageWaitSeconds=600), stage("two", "b", beforeGates=[{"type": "Approval"}])]
MEMBERS = [member("a1", "a"), member("a2", "a"), member("b1", "b")]
CHANGES = TypeAdapter(PlanChange)


def planned(*, started=False):
    hub = half_hour(prepared(*MEMBERS, stages=STAGES).hub)
    if started:
        hub.evaluate(BEGIN, [Start()])
    return Planned(hub.run, hub.facts(BEGIN), ForecastAssumptions())


def plan(of):
    return plan_of(of.run, of.facts, (), of.assumed)


def changed(of, *changes):
    return apply_changes(of, [CHANGES.validate_json(json.dumps(each)) for each in changes])


@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize(
    ("change", "eta"),
    [
        pytest.param({"op": "skip", "targets": [{"type": "Member", "name": "a2"}]}, "1h10m", id="skip-member"),
        pytest.param({"op": "skip", "targets": [{"type": "AfterStageWait", "name": "one"}]}, "1h30m", id="skip-wait"),
        pytest.param({"op": "setWait", "stage": "one", "seconds": 3600}, "2h30m", id="wait"),
        pytest.param({"op": "approveAfter", "value": "2h"}, "3h40m", id="approval"),
        pytest.param({"op": "durationFactor", "value": 2.0}, "3h10m", id="factor"),
        pytest.param(
            {"op": "addWindow", "members": ["b1"], "window": {**daily("12:00"), "target": "All"}}, "12h30m", id="window"
        ),
        pytest.param({"op": "fail", "member": "a1", "after": "5m"}, None, id="failure"),
    ],
)
def test_a_change_and_what_comes_of_it(change, eta, started):
    found = plan(changed(planned(started=started), change))
    assert found.eta == (None if eta is None else at(eta))


@pytest.mark.parametrize(
    ("started", "eta"), [pytest.param(False, "1h10m", id="before"), pytest.param(True, "1h10m", id="under-way")]
)
def test_a_group_that_goes_wider(started, eta):
    wide = {"op": "setConcurrency", "stage": "one", "group": "a", "value": "2"}
    assert plan(changed(planned(started=started), wide)).eta == at(eta)


def test_a_start_at_another_time():
    found = changed(planned(), {"op": "startAt", "time": "2025-01-06T08:00:00Z"})
    assert plan(found).eta == at("9h40m")


def test_several_changes_are_made_one_after_the_other():
    found = changed(planned(), {"op": "durationFactor", "value": 2.0}, {"op": "durationFactor", "value": 0.5})
    assert plan(found) == plan(planned())


def test_what_a_change_starts_from_stays_as_it_is():
    before = planned()
    known = (before.run, dict(before.facts.members), dict(before.facts.windows))
    changed(
        before,
        {"op": "addWindow", "members": ["b1"], "window": daily("12:00")},
        {"op": "setWait", "stage": "one", "seconds": 5},
    )
    assert (before.run, dict(before.facts.members), dict(before.facts.windows)) == known


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(
            {"op": "skip", "targets": [{"type": "Member", "name": "a1"}, {"type": "Stage", "name": "a"}]},
            "the run has no Stage 'a'",
            id="skip-of-a-stage",
        ),
        pytest.param(
            {"op": "skip", "targets": [{"type": "Member", "name": "z1"}]}, "the run has no Member 'z1'", id="skip"
        ),
        pytest.param(
            {"op": "setConcurrency", "stage": "one", "value": 51}, "51: a stage takes at most 50", id="stage-too-wide"
        ),
        pytest.param(
            {"op": "setConcurrency", "stage": "one", "group": "a", "value": "51"},
            "51: group a would upgrade 51 members concurrently, but its stage at most 50",
            id="group-wider-than-its-stage",
        ),
        pytest.param(
            {"op": "setConcurrency", "stage": "one", "group": "a", "value": "2147483648"},
            "'2147483648' is neither a count nor a percentage",
            id="no-count",
        ),
        pytest.param({"op": "setWait", "stage": "x", "seconds": 1}, "there is no stage 'x' in the run", id="stage"),
        pytest.param(
            {"op": "setConcurrency", "stage": "one", "group": "b", "value": 1},
            "there is no group 'b' in stage one",
            id="group",
        ),
        pytest.param(
            {"op": "setConcurrency", "stage": "one", "value": "many"},
            "'many' is neither a count nor a percentage",
            id="concurrency",
        ),
        pytest.param({"op": "fail", "member": "zz", "after": "1m"}, "there is no member 'zz'", id="member"),
        pytest.param(
            {"op": "addWindow", "members": ["zz"], "window": daily("12:00")}, "there is no member 'zz'", id="windowless"
        ),
        pytest.param({"op": "approveAfter", "value": "soon"}, "'soon' is not a duration", id="duration"),
    ],
)
def test_a_change_that_cannot_be_made_is_named_with_its_position(change, message):
    with pytest.raises(ChangeError, match=r"^changes\[1\]: ") as error:
        changed(planned(), {"op": "durationFactor", "value": 1.0}, change)
    assert message in str(error.value)


@pytest.mark.parametrize("started", [False, True])
def test_what_is_skipped_is_a_part_of_the_run(started):
    """Members of the hub that the run does not take are none of its parts; its stages, waits and groups are."""
    hub = half_hour(prepared(*MEMBERS, member("c1", "c"), stages=STAGES).hub)
    if started:
        hub.evaluate(BEGIN, [Start()])
    of = Planned(hub.run, hub.facts(BEGIN), ForecastAssumptions())
    parts = [("Stage", "one"), ("AfterStageWait", "two"), ("Group", "b"), ("Member", "a2")]
    targets = [{"type": kind, "name": name} for kind, name in parts]
    assert changed(of, {"op": "skip", "targets": targets}).run.spec.skip_targets
    with pytest.raises(UnfitChangeError, match="the run has no Member 'c1'") as found:
        changed(of, {"op": "skip", "targets": [*targets, {"type": "Member", "name": "c1"}]})
    assert (found.value.position, found.value.at) == (0, ("targets", 4))


def test_factors_together_have_a_bound():
    hundred = {"op": "durationFactor", "value": 100.0}
    with pytest.raises(ChangeError, match=r"^changes\[1\]: 100: .* 10000 times as long, must be at most 100"):
        changed(planned(), hundred, hundred)
    assert changed(planned(), hundred, {"op": "durationFactor", "value": 0.5}, {"op": "durationFactor", "value": 2.0})


def test_a_window_for_other_upgrades_changes_nothing():
    window = {**daily("12:00"), "target": "NodeImage"}
    of = planned()
    assert changed(of, {"op": "addWindow", "members": ["b1"], "window": window}) == of
    full = {**window, "target": "KubernetesVersion"}
    assert plan(changed(planned(), {"op": "addWindow", "members": ["b1"], "window": full})).eta == at("12h30m")


def test_a_group_under_way_goes_no_wider_than_it_is():
    of = changed(planned(started=True), {"op": "setConcurrency", "stage": "one", "group": "a", "value": 40})
    assert of.run.status.stages[0].groups[0].max_concurrency == 2


def test_a_stage_does_not_become_narrower_than_its_groups():
    narrow = {"op": "setConcurrency", "stage": "one", "value": 1}
    wide = {"op": "setConcurrency", "stage": "one", "group": "a", "value": 2}
    with pytest.raises(ChangeError, match="group a would upgrade 2 members concurrently, but its stage at most 1"):
        changed(planned(), wide, narrow)
    assert changed(planned(), {**wide, "value": "100%"}, narrow)


def test_a_run_that_has_started_is_not_started_at_another_time():
    with pytest.raises(ChangeError, match="started at 2025-01-06T00:00:00Z"):
        changed(planned(started=True), {"op": "startAt", "time": "2025-01-06T08:00:00Z"})


@pytest.mark.parametrize(
    "change",
    [
        {"op": "explode"},
        {"op": "durationFactor", "value": 0},
        {"op": "durationFactor", "value": 1e9},
        {"op": "skip", "targets": []},
        {"op": "setWait", "stage": "one", "seconds": -1},
    ],
)
def test_a_change_of_another_shape_is_refused(change):
    with pytest.raises(ValidationError):
        changed(planned(), change)


def test_the_difference_names_what_moves():
    before = plan(planned())
    after = plan(changed(planned(), {"op": "setWait", "stage": "one", "seconds": 1200}))
    assert difference(before, after) == {
        "etaSeconds": 600,
        "exposure": 0,
        "maxConcurrent": 0,
        "members": [
            {
                "name": "b1",
                "before": {
                    "action": "Upgrade",
                    "start": "2025-01-06T01:10:00Z",
                    "end": "2025-01-06T01:40:00Z",
                    "reason": "",
                    "boundBy": "Gate",
                },
                "after": {
                    "action": "Upgrade",
                    "start": "2025-01-06T01:20:00Z",
                    "end": "2025-01-06T01:50:00Z",
                    "reason": "",
                    "boundBy": "Gate",
                },
            }
        ],
    }


def test_a_plan_that_has_no_end_differs_by_no_time():
    assert (
        difference(plan(planned()), plan(changed(planned(), {"op": "fail", "member": "a1", "after": "5m"})))[
            "etaSeconds"
        ]
        is None
    )
