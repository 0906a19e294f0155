"""What holds for every run, whatever its members, its sequence, and what happens meanwhile."""

from hypothesis import given, settings
from hypothesis import strategies as st

from scorer.upgrade.engine import advance
from scorer.upgrade.record import OVER
from scorer.upgrade.step import StartUpgrade
from scorer.upgrade.versions import image_order, parse_version
from scorer.windows.maintenance import standing
from tests.scorer.upgrade.scenarios import daily, event, skip, stage
from tests.thoroughness import examples
from tests.vector_families.upgrade_runs import Scenario, duration, written

GROUPS = ("ga", "gb", "gc", "gd")
CATALOGS = (
    {
        "regions": {
            "default": {"kubernetes": ["1.31.0", "1.31.2"]},
            "r1": {"kubernetes": ["1.31.2"], "images": {"linux": ["100", "110"]}},
        }
    },
    {"regions": {"r1": {"kubernetes": ["1.30.4"]}, "r2": {"images": {"linux": ["100", "105"], "windows": ["9"]}}}},
)
APPROVAL = {"type": "Approval"}
SCHEDULED = {"type": "ScheduledStart", "scheduledStart": {"startDay": "Tuesday", "startTime": "03:00"}}

INSTANTS = st.integers(0, 40).map(lambda steps: f"{steps * 10}m")
NAMES = st.integers(0, 6).map("m{}".format)
OUTCOMES = st.sampled_from(["ok", "fail", {"fail": "10m"}, "hang"])
WINDOWS = st.sampled_from([[], [], [], [daily("00:00")], [daily("03:00")], [daily("20:00"), daily("01:00", 1)]])
GATES = st.sampled_from([[], [], [], [APPROVAL]])
LIMITS = st.sampled_from(["1", "2", "50%", "100%"])
FAILURES = st.sampled_from(["0", "0", "1", "50%"])
TARGETS = st.sampled_from(
    [("Group", each) for each in GROUPS]
    + [("Stage", each) for each in ("s0", "s1", "nowhere")]
    + [("AfterStageWait", "s0"), ("Member", "m1"), ("Member", "m3")]
)


@st.composite
def members(draw):
    return {
        "group": draw(st.sampled_from(GROUPS)),
        "version": draw(st.sampled_from(["1.30.4"] * 6 + ["1.31.2", "1.29.1", "1.32.0"])),
        "region": draw(st.sampled_from(["r1", "r1", "r1", "r2"])),
        "order": draw(st.integers(-1, 1)),
        "duration": draw(st.sampled_from(["10m", "30m", "1h"])),
        "outcomes": draw(st.lists(OUTCOMES, max_size=2)),
        "windows": draw(WINDOWS),
        "pools": draw(
            st.sampled_from([[{"name": "np1"}]] * 3 + [[{"name": "np1"}, {"name": "w", "family": "windows"}]])
        ),
    }


@st.composite
def stages(draw):
    """The groups, divided among up to three stages."""
    cut = sorted(draw(st.sets(st.integers(1, 3), max_size=2)))
    found = []
    for place, (begin, end) in enumerate(zip([0, *cut], [*cut, 4], strict=True)):
        groups = [
            {
                "name": each,
                "maxConcurrency": draw(LIMITS),
                "maxAllowedFailures": draw(FAILURES),
                "beforeGates": draw(GATES),
                "afterGates": draw(GATES),
            }
            for each in GROUPS[begin:end]
        ]
        found.append(
            stage(
                f"s{place}",
                *groups,
                maxConcurrency=draw(LIMITS),
                maxAllowedFailures=draw(FAILURES),
                afterStageWaitSeconds=draw(st.sampled_from([0, 0, 1200])),
                beforeGates=draw(st.sampled_from([[], [], [APPROVAL], [SCHEDULED]])),
                afterGates=draw(GATES),
            )
        )
    return found


@st.composite
def events(draw):
    """What users do and what happens to the fleet."""
    at = draw(INSTANTS)
    match draw(st.integers(0, 8)):
        case 0 | 1:
            return event(at, "start")
        case 2:
            return event(at, "stop")
        case 3 | 4:
            return skip(at, *draw(TARGETS))
        case 5:
            return event(at, "removeMember", name=draw(NAMES))
        case 6:
            return event(at, "catalog", catalog=draw(st.sampled_from(CATALOGS)))
        case 7:
            return event(at, "addMember", member={"name": "late", "group": "ga"})
        case _:
            return event(at, "setMember", name=draw(NAMES), set={"version": "1.31.2"})


@st.composite
def approvals(draw):
    timing, group = draw(st.sampled_from(["Before", "After"])), draw(st.sampled_from([None, *GROUPS]))
    names = st.sampled_from(["s0", "s1", "s2"])
    return event(draw(INSTANTS), "approve", stage=draw(names), group=group, timing=timing)


@st.composite
def scenarios(draw):
    upgrade = draw(
        st.sampled_from(
            [
                {"type": "Full", "kubernetesVersion": "1.31.2"},
                {"type": "Full", "kubernetesVersion": "1.31", "nodeImage": {"selection": "Consistent"}},
                {"type": "ControlPlaneOnly", "kubernetesVersion": "1.31.2"},
                {"type": "NodeImageOnly", "nodeImage": {"selection": "Latest"}},
            ]
        )
    )
    found = {
        "members": [{"name": f"m{place}", **draw(members())} for place in range(draw(st.integers(0, 8)))],
        "strategy": draw(st.one_of(st.none(), stages().map(lambda each: {"stages": each}))),
        "upgrade": upgrade,
        "memberTimeout": "2h",
        "events": [
            event("0s", "start"),
            *draw(st.lists(events(), max_size=6)),
            *draw(st.lists(approvals(), max_size=10)),
        ],
        "until": "3d",
    }
    if upgrade.get("kubernetesVersion") == "1.31" or draw(st.booleans()):
        found["catalog"] = draw(st.sampled_from(CATALOGS))
    return found


def members_of(run):
    return [entry for stage in run.status.stages for group in stage.groups for entry in group.members]


def running(entries):
    return sum(entry.state == "Running" for entry in entries)


def begun(moment):
    return [action.operation for action in moment.step.actions if isinstance(action, StartUpgrade)]


@settings(max_examples=examples(300))
@given(scenarios())
def test_a_second_evaluation_at_the_same_instant_changes_nothing(given):
    scenario = Scenario(given)
    for moment in scenario.moments():
        again = advance(moment.run, scenario.hub.facts(moment.now))
        assert not again.changed
        assert not again.actions
        assert not again.events


@settings(max_examples=examples(300))
@given(scenarios())
def test_limits_hold_at_every_instant(given):
    for moment in Scenario(given).moments():
        for at in moment.run.status.stages:
            assert running(entry for group in at.groups for entry in group.members) <= at.max_concurrency
            for group in at.groups:
                assert running(group.members) <= group.max_concurrency


@settings(max_examples=examples(300))
@given(scenarios())
def test_upgrades_begin_one_after_the_other_on_a_member_and_inside_its_windows(given):
    scenario = Scenario(given)
    before = {}
    for moment in scenario.moments():
        for operation in begun(moment):
            assert before.get(operation.member) not in ("Running", "Completed", "Skipped")
            names = scenario.hub.members[operation.member].windows.names
            windows = [scenario.hub.windows[name].window for name in names]
            assert not windows or standing(windows, moment.now).is_open
        before = {entry.name: entry.state for entry in members_of(moment.run)}


@settings(max_examples=examples(300))
@given(scenarios())
def test_nothing_begins_before_the_stages_in_front_are_over(given):
    for moment in Scenario(given).moments():
        started = {operation.member for operation in begun(moment)}
        over = True
        for at in moment.run.status.stages:
            here = {entry.name for group in at.groups for entry in group.members}
            assert over or not started & here
            over = over and at.state in OVER


@settings(max_examples=examples(300))
@given(scenarios())
def test_versions_never_go_down(given):
    scenario = Scenario(given)
    known = {}
    for _ in scenario.moments():
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
def test_a_refused_command_is_as_if_it_had_not_been_given(given):
    scenario = Scenario(given)
    scenario.play()
    refused = [tuple(each) for each in scenario.rejected]
    orders = [(each["do"], written(duration(each["at"]))) for each in given["events"]]
    kept = [
        each
        for each, order in zip(given["events"], orders, strict=True)
        if order not in refused or orders.count(order) > 1
    ]
    again = Scenario({**given, "events": kept})
    again.play()
    left_out = ("rejected", "runDoneAt", "initialized", "initializedReason", "at")
    wanted, found = scenario.seen(), again.seen()
    assert {key: found[key] for key in found if key not in left_out} == {
        key: wanted[key] for key in wanted if key not in left_out
    }


@settings(max_examples=examples(300))
@given(scenarios(), st.sets(INSTANTS, min_size=1, max_size=4))
def test_crashes_change_nothing(given, instants):
    calm, shaken = (
        Scenario(given),
        Scenario({**given, "events": [*given["events"], *(event(at, "crash") for at in instants)]}),
    )
    calm.play()
    shaken.play()
    assert shaken.seen() == calm.seen()
