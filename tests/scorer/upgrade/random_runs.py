"""Random upgrade runs: their members, sequences, options, and what happens meanwhile."""

from hypothesis import strategies as st

from scorer.upgrade.state.facts import Estimate
from tests.scorer.upgrade.scenarios import daily, event, skip, stage, with_spec
from tests.vector_families.upgrade_runs import Scenario, duration

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
TIMEOUTS = st.fixed_dictionaries(
    {
        "memberUpgradeSeconds": st.just(7200),
        "pendingSeconds": st.sampled_from([0, 0, 3600]),
        "onPendingTimeout": st.sampled_from(["Wait", "Skip", "Fail"]),
        "gateSeconds": st.sampled_from([0, 0, 0, 5400]),
        "cancelOnTimeout": st.booleans(),
    }
)
WINDOW_POLICIES = st.fixed_dictionaries(
    {
        "reservation": st.sampled_from(["None", "Strict"]),
        "tieBreak": st.sampled_from(["Name", "ClosingSoonest"]),
        "requireFit": st.booleans(),
    }
)
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
        "spec": {"timeouts": draw(TIMEOUTS), "windowPolicy": draw(WINDOW_POLICIES)},
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


def made(given):
    """Return the scenario, whose run has the spec that is given besides."""
    scenario = with_spec(Scenario({key: value for key, value in given.items() if key != "spec"}), given["spec"])
    for each in given["members"]:
        length = duration(each["duration"])
        scenario.hub.durations[each["name"]] = Estimate(length, length * 2)
    return scenario
