"""How an upgrade run and its plan are shown."""

from datetime import UTC, datetime

import pytest

from scorer.api.meta import format_time
from webhook.cli.upgrades.output import expected_end, print_upgrade
from webhook.cli.upgrades.plan_output import Background, gates_by_name, print_plan

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)


def hour(number):
    return format_time(NOW.replace(hour=number))


def plan(eta):
    return {"eta": eta and hour(eta), "etaP90": None, "command": "harbormaster upgrade plan r"}


@pytest.mark.parametrize(
    ("phase", "eta", "said"),
    [
        pytest.param("Running", 14, f"expected to finish at {hour(14)} (in 2h)", id="goes-on"),
        pytest.param("Running", 11, f"overdue by 1h: it was expected to finish at {hour(11)}", id="overdue"),
        pytest.param("Failed", 14, f"if it were started now, it would finish at {hour(14)} (in 2h)", id="halted"),
        pytest.param("Stopped", 11, "", id="halted-and-the-plan-is-old"),
        pytest.param("Stopping", 14, "", id="is-being-stopped"),
        pytest.param("NotStarted", 14, f"if it were started now, it would finish at {hour(14)} (in 2h)", id="to-start"),
        pytest.param(
            "Pending",
            None,
            "no end time can be predicted. For the reason, run: harbormaster upgrade plan r",
            id="no-end",
        ),
    ],
)
def test_when_a_run_is_over_is_said_of_one_that_goes_on(phase, eta, said):
    assert expected_end(plan(eta), phase, NOW) == said


def test_times_are_not_told_twice_of_members_that_wait_for_windows(capsys):
    wait = {"kind": "Members", "message": "maintenance windows: a until …", "until": hour(14), "since": hour(10)}
    counts = {"completed": 1, "total": 3}
    about = {"name": "r", "phase": "Pending", "type": "Full", "kubernetesVersion": "", "counts": counts, "message": ""}
    document = {"run": about, "stages": [], "plan": None}
    print_upgrade({**document, "waits": [{**wait, "members": ["a"], "command": None}]}, NOW)
    print_upgrade({**document, "waits": [{**wait, "members": ["a", "b"], "command": None}]}, NOW)
    first, second = (line for line in capsys.readouterr().out.splitlines() if line.startswith("waits for"))
    assert first == "waits for maintenance windows: a until … (in 2h)"
    assert second == "waits for maintenance windows: a until … (the first in 2h)"


STRATEGY = {
    "stages": [
        {
            "name": "canary",
            "afterGates": [{"type": "Approval", "displayName": "healthy?"}],
            "groups": [{"name": "eu", "beforeGates": [{"type": "Approval"}]}],
        }
    ]
}


def test_a_plan_tells_what_is_done_from_what_is_to_come(capsys):
    members = [
        {"name": "a", "action": "Upgrade", "start": hour(9), "end": hour(10)},
        {"name": "b", "action": "Upgrade", "start": hour(11), "end": hour(14), "boundBy": "Sequence"},
        {"name": "c", "action": "Fail", "end": hour(10), "reason": "UpgradeFailed"},
    ]
    path = [
        {"type": "Gate", "name": "r-canary-after-0-0123abcd"},
        {"type": "Gate", "name": "r-canary-eu-before-0-0123abcd"},
        {"type": "Wait", "name": "canary"},
        {"type": "Member", "name": "b"},
        {"type": "Gate", "name": "r-other-after-0-0123abcd"},
    ]
    stages = [{"name": "canary", "placements": [{"name": "p", "namespace": "", "clusters": 1, "fullyExposed": True}]}]
    document = {
        "computedAt": hour(12),
        "eta": hour(11),
        "members": members,
        "criticalPath": path,
        "blastRadius": {"stages": stages},
    }
    print_plan(document, "r", NOW, Background(STRATEGY, {"a": "Completed", "b": "NotStarted", "c": "Failed"}))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"r: overdue by 1h, it was expected to finish at {hour(11)}, as of {hour(12)}"
    assert [line.split()[:2] for line in lines[3:6]] == [["a", "Upgraded"], ["b", "Upgrade"], ["c", "Failed"]]
    assert lines[6] == (
        'critical path: gate "healthy?" after stage canary > gate before group eu > wait after canary > '
        "member b > gate r-other-after-0-0123abcd"
    )
    assert lines[7] == "stage canary: the only cluster of placement p is upgraded"


def test_gates_are_known_by_names_that_are_cut():
    stage = {"name": "s" * 50, "afterGates": [{"displayName": "fine?"}], "groups": []}
    found = gates_by_name("r" * 30, {"stages": [stage]})
    assert found == {f"{'r' * 30}-{'s' * 23}": f'gate "fine?" after stage {"s" * 50}'}
