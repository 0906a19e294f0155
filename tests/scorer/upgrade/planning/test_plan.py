"""What stands in a plan: turns and what binds them, exposure, the critical path, what is missed, touched, warned of."""

from dataclasses import replace
from datetime import timedelta

import pytest

from scorer.api.meta import parse_time
from scorer.api.upgrade.run import SkipTarget, SkipTargetType
from scorer.upgrade.back_ends.interface import Pool
from scorer.upgrade.planning.forecast import ForecastAssumptions
from scorer.upgrade.planning.plan import plan_of
from scorer.upgrade.simulation.hub import Skip, Start, Stop
from scorer.upgrade.state.facts import Estimate
from scorer.upgrade.state.placement_guard import GuardedPlacement
from tests.scorer.upgrade.planning.planned import durations_of, half_hour
from tests.scorer.upgrade.scenarios import BEGIN, at, daily, member, prepared, stage

APPROVAL = {"type": "Approval", "displayName": "healthy?"}
PATCHES = {"regions": {"r1": {"kubernetes": ["1.31.2"]}}}


def planned(*members, now=BEGIN, placements=(), assumed=None, **given):
    """Return the plan of a run that has not started."""
    scenario = prepared(*members, **given)
    hub = durations_of(scenario.hub, members)
    return plan_of(hub.run, hub.facts(now), placements, assumed or ForecastAssumptions())


def turns(plan):
    """Return when each member starts and ends, by its name."""
    return {each.name: (each.start, each.end) for each in plan.members}


def bounds(plan):
    return {each.name: each.bound_by for each in plan.members}


# The first worked timeline of upgrade-runs.md 16.

DEV = [member("dev-1", "dev", duration="20m"), member("dev-2", "dev", duration="40m")]
PROD = [
    member("prod-eu", "eu", duration="1h", windows=[daily("22:00")]),
    *(member(f"prod-us-{each}", "us", duration="1h", windows=[daily("04:00")]) for each in (1, 2)),
]
STAGES = [stage("test", "dev", afterStageWaitSeconds=7200), stage("prod", "eu", "us")]


def test_the_turns_of_the_worked_timeline():
    plan = planned(*DEV, *PROD, stages=STAGES)
    assert turns(plan) == {
        "dev-1": (BEGIN, at("20m")),
        "dev-2": (at("20m"), at("1h")),
        "prod-us-1": (at("4h"), at("5h")),
        "prod-us-2": (at("5h"), at("6h")),
        "prod-eu": (at("22h"), at("23h")),
    }
    assert (plan.eta, plan.computed_at, plan.exposure, plan.max_concurrent) == (at("23h"), BEGIN, 2, 1)
    assert bounds(plan) == {
        "dev-1": "Sequence",
        "dev-2": "Sequence",
        "prod-us-1": "Window",
        "prod-us-2": "Sequence",
        "prod-eu": "Window",
    }
    assert [each.name for each in plan.critical_path] == ["prod-eu"]


def test_a_window_that_has_just_closed_is_missed():
    missed = planned(*DEV, *PROD, stages=STAGES).windows_missed
    assert [(each.name, each.turn, each.lost_seconds) for each in missed] == [("prod-eu", at("3h"), 19 * 3600)]


# What binds, and what the end depends on.


def test_a_gate_and_a_wait_determine_when_the_next_stage_begins():
    stages = [
        stage("one", "a", afterStageWaitSeconds=600),
        stage("two", "b", beforeGates=[APPROVAL]),
        stage("three", "c"),
    ]
    members = [member("a1", "a"), member("b1", "b"), member("c1", "c")]
    plan = planned(*members, stages=stages, assumed=ForecastAssumptions(approve_after=timedelta(hours=1)))
    assert bounds(plan) == {"a1": "Sequence", "b1": "Gate", "c1": "Sequence"}
    path = [(each.type.value, each.start - BEGIN, each.end - BEGIN) for each in plan.critical_path]
    minutes = [(kind, int(start.total_seconds() / 60), int(end.total_seconds() / 60)) for kind, start, end in path]
    assert minutes == [
        ("Member", 0, 30),
        ("Wait", 30, 40),
        ("Gate", 40, 100),
        ("Member", 100, 130),
        ("Member", 130, 160),
    ]


def test_a_wait_alone_determines_when_the_next_stage_begins():
    stages = [stage("one", "a", afterStageWaitSeconds=600), stage("two", "b")]
    assert bounds(planned(member("a1", "a"), member("b1", "b"), stages=stages))["b1"] == "Wait"


def test_a_stage_that_is_full_determines_when_a_member_begins():
    members = [member("a1", "a", duration="10m"), member("b1", "b"), member("b2", "b")]
    plan = planned(*members, stages=[stage("s", "a", "b", maxConcurrency=1)])
    assert bounds(plan) == {"a1": "Sequence", "b1": "StageCeiling", "b2": "Sequence"}


def test_gates_that_are_approved_at_once_take_no_time():
    stages = [stage("one", "a", afterGates=[APPROVAL]), stage("two", "b")]
    plan = planned(member("a1", "a"), member("b1", "b"), stages=stages)
    assert [each.type.value for each in plan.critical_path] == ["Member", "Gate", "Member"]
    assert plan.eta == at("1h")


def test_of_groups_beside_each_other_the_slower_one_is_on_the_critical_path():
    members = [member("a1", "a"), member("a2", "a"), member("b1", "b", duration="1h"), member("b2", "b")]
    plan = planned(*members, stages=[stage("s", "a", "b")])
    assert [each.name for each in plan.critical_path] == ["b1", "b2"]


def test_the_end_of_the_slow_ones_comes_later():
    hub = prepared(member("a"), member("b")).hub
    plan = plan_of(hub.run, half_hour(hub).facts(BEGIN), ())
    assert (plan.eta, plan.eta_p90) == (at("1h"), at("1h30m"))


# What is at risk.


def test_all_that_begins_is_exposed_where_nobody_looks():
    assert planned(member("a"), member("b")).exposure == 2


def test_members_that_begin_as_somebody_looks_are_not_exposed():
    stages = [stage("one", "a", afterGates=[APPROVAL]), stage("two", "b")]
    assert planned(member("a1", "a"), member("a2", "a"), member("b1", "b"), stages=stages).exposure == 2


@pytest.mark.parametrize(("concurrency", "most"), [(1, 1), (2, 2), (3, 3)])
def test_an_upgrade_that_ends_when_another_begins_does_not_overlap_it(concurrency, most):
    stages = [stage("s", {"name": "g", "maxConcurrency": concurrency})]
    assert planned(*(member(f"m{each}") for each in range(6)), stages=stages).max_concurrent == most


def test_what_a_stage_touches():
    hub = prepared(
        *(member(f"m{each}", region=f"r{each % 2}") for each in range(4)),
        stages=[stage("s", {"name": "g", "maxConcurrency": 2})],
    ).hub
    for name, known in hub.members.items():
        hub.members[name] = replace(known, inventory=replace(known.inventory, pools=(Pool("p", "1.30.4", nodes=3),)))
    placements = [
        GuardedPlacement("everywhere", frozenset(hub.members), 1),
        GuardedPlacement("pair", frozenset({"m0", "m1"}), 1, "team-a"),
        GuardedPlacement("elsewhere", frozenset({"other"}), 1),
    ]
    plan = plan_of(hub.run, half_hour(hub).facts(BEGIN), placements)
    (found,) = plan.blast_radius.stages
    assert (found.clusters, found.nodes, found.regions) == (4, 12, ("r0", "r1"))
    assert [(each.namespace, each.name, each.in_upgrade, each.fully_exposed) for each in found.placements] == [
        ("team-a", "pair", 2, True),
        ("", "everywhere", 2, False),
    ]


# What is warned of.


def test_a_run_that_has_not_started_says_so():
    assert planned(member("a")).warnings == ("the run has not been started: the times assume a start now",)


@pytest.mark.parametrize(
    ("stop", "said"), [(False, ()), (True, ("the run is Stopped: the times assume a restart now",))]
)
def test_a_stopped_run_is_planned_as_if_it_were_started_again(stop, said):
    hub = half_hour(prepared(member("a"), member("b", windows=[daily("12:00")])).hub)
    hub.evaluate(BEGIN, [Start()])
    hub.evaluate(at("30m"))
    if stop:
        hub.evaluate(at("40m"), [Stop()])
    plan = plan_of(hub.run, hub.facts(at("50m")), ())
    assert (plan.eta, plan.warnings) == (at("12h30m"), said)
    assert hub.run.status.state == ("Stopped" if stop else "Pending")


def test_a_version_that_is_not_published_blocks_and_is_named():
    plan = planned(member("a"), member("b", region="r2"), catalog={"regions": {"r2": {"kubernetes": ["1.30.4"]}}})
    assert plan.eta is None
    assert [(each.name, each.action.value, each.bound_by) for each in plan.members] == [
        ("a", "Upgrade", "Sequence"),
        ("b", "Blocked", "Version"),
    ]
    assert "KubernetesVersionNotAvailable: Pending at the end: b" in plan.warnings
    assert "the run does not finish within 90 days" in plan.warnings


def test_a_run_that_cannot_start_says_why():
    hub = prepared(member("a"), upgrade={"type": "Full", "kubernetesVersion": "1.31"}).hub
    plan = plan_of(hub.run, half_hour(hub).facts(BEGIN), ())
    assert (plan.eta, [each.action.value for each in plan.members]) == (None, ["NotReached"])
    assert plan.warnings[0].startswith("the run cannot start: VersionNotResolvable: ")


@pytest.mark.parametrize(
    ("given", "warning"),
    [
        pytest.param(
            {"stages": [stage("s", "g", afterStageWaitSeconds=60)]},
            "stage s is the last one, and the run waits for 60 seconds after it",
            id="last-wait",
        ),
        pytest.param(
            {"members": [member("a", version="1.28.1")]}, "UnsupportedVersionJump: Failed at the end: a", id="jump"
        ),
    ],
)
def test_warnings(given, warning):
    members = given.pop("members", [member("a")])
    assert warning in planned(*members, **given).warnings


def test_a_window_that_is_shorter_than_an_upgrade_may_take_is_named():
    hub = prepared(member("a", windows=[daily("12:00", 1)]), member("b"), stages=[stage("s", "g")]).hub
    hub.durations = dict.fromkeys(hub.members, Estimate(timedelta(minutes=50), timedelta(minutes=75)))
    hub.evaluate(BEGIN, [Start()])
    assert plan_of(hub.run, hub.facts(BEGIN), ()).warnings == ("no window is as long as the expected upgrade: a",)


def test_images_that_will_be_too_old_are_named():
    images = {"r1": {"images": {"linux": ["100", "110"]}}}
    hub = prepared(member("a", windows=[daily("12:00")]), stages=[stage("s", "g")], catalog={"regions": images}).hub
    hub.catalog = replace(hub.catalog, published={("linux", "110"): parse_time("2024-10-01T00:00:00Z")})
    plan = plan_of(hub.run, half_hour(hub).facts(BEGIN), ())
    assert "node images will be more than 90 days old at the upgrade of: a" in plan.warnings


def test_the_guard_that_warns_names_what_it_would_protect():
    scenario = prepared(
        member("a"),
        member("b"),
        stages=[stage("s", {"name": "g", "maxConcurrency": 2})],
        spec={"placementGuard": {"mode": "Warn"}},
    )
    pair = GuardedPlacement("web", frozenset({"a", "b"}), 1, "team-a")
    plan = plan_of(scenario.hub.run, half_hour(scenario.hub).facts(BEGIN), [pair])
    assert "placements with too many of their clusters being upgraded concurrently: team-a/web" in plan.warnings


def test_what_the_user_skips_is_no_warning():
    hub = half_hour(prepared(member("a"), member("b")).hub)
    hub.evaluate(BEGIN, [Start(), Skip((SkipTarget(type=SkipTargetType.MEMBER, name="b"),))])
    plan = plan_of(hub.run, hub.facts(at("10m")), ())
    assert [(each.name, each.action.value, each.reason) for each in plan.members] == [
        ("a", "Upgrade", ""),
        ("b", "Skip", "SkippedByUser"),
    ]
    assert (plan.warnings, plan.eta) == ((), at("30m"))
