"""What the status of a strategy says."""

import pytest

from scorer.api.meta import parse_time
from scorer.upgrade.members.member import GROUP_LABEL, Member
from scorer.upgrade.strategy.status import strategy_status
from tests.scorer.upgrade.scenarios import stage

NOW = parse_time("2026-01-05T00:00:00Z")
LATER = parse_time("2026-01-06T00:00:00Z")


def strategy(*stages, **more):
    return {"metadata": {"name": "s", "generation": 2}, "spec": {"stages": list(stages)}, **more}


def members(**groups):
    return {name: Member(name, labels={GROUP_LABEL: group} if group else {}) for name, group in groups.items()}


def said(document, known):
    return {
        each["type"]: (each["status"], each["reason"]) for each in strategy_status(document, known, NOW)["conditions"]
    }


def test_a_strategy_that_can_be_followed():
    assert said(strategy(stage("one", "a")), members(m="a")) == {
        "Valid": ("True", "Accepted"),
        "Warnings": ("False", "NoWarnings"),
    }


@pytest.mark.parametrize(
    ("document", "message"),
    [
        pytest.param(strategy(), "spec.stages: ", id="shape"),
        pytest.param(strategy(stage("one", {"name": "a", "maxConcurrency": "many"})), "'many' is neither", id="limit"),
        pytest.param(
            strategy(stage("one", "a", memberSelector={"matchExpressions": [{"key": "k", "operator": "Near"}]})),
            "memberSelector",
            id="selector",
        ),
    ],
)
def test_a_strategy_that_cannot_be_followed_says_why(document, message):
    valid, warnings = strategy_status(document, {}, NOW)["conditions"]
    assert (valid["status"], valid["reason"], warnings["status"]) == ("False", "Invalid", "False")
    assert message in valid["message"]


@pytest.mark.parametrize(
    ("document", "known", "reason"),
    [
        pytest.param(strategy(stage("one", "a", afterStageWaitSeconds=5)), {"m": "a"}, "LastStageWait", id="wait"),
        pytest.param(strategy(stage("one", "a", "b")), {"m": "a"}, "EmptyGroups", id="empty"),
        pytest.param(strategy(stage("one", "a")), {"m": "a", "n": "x"}, "UnreachableMembers", id="unreachable"),
        pytest.param(
            strategy(stage("one", memberSelector={}), stage("two", "a")),
            {"m": "a"},
            "MemberInMultipleGroups",
            id="twice",
        ),
    ],
)
def test_warnings(document, known, reason):
    assert said(document, members(**known))["Warnings"] == ("True", reason)


def test_members_without_a_group_are_no_warning():
    assert said(strategy(stage("one", "a")), members(m="a", n=""))["Warnings"] == ("False", "NoWarnings")


def test_the_time_of_a_condition_is_that_of_its_last_change():
    document = strategy(stage("one", "a"))
    first = strategy_status(document, members(m="a"), NOW)
    again = strategy_status({**document, "status": first}, members(m="a"), LATER)
    assert again == first
    changed = strategy_status({**document, "status": first}, {}, LATER)["conditions"]
    assert [each["lastTransitionTime"] for each in changed] == ["2026-01-05T00:00:00Z", "2026-01-06T00:00:00Z"]
