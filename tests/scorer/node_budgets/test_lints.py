"""Findings about budgets, compared with what the engine allows for the same budgets hour by hour."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from scorer.api.node_pool import Budget
from scorer.node_budgets.budgets import UNLIMITED, NodeCounts, allowance
from scorer.node_budgets.lints import REASONS, block_style, flow_style, lint_budgets
from tests.thoroughness import examples

SUNDAY = datetime(2026, 6, 7, tzinfo=UTC)
HOURS = [SUNDAY + timedelta(hours=hour) for hour in range(7 * 24)]


def budget(nodes, schedule=None, duration=None, reasons=None):
    return Budget(nodes=nodes, schedule=schedule, duration=duration, reasons=reasons)


def read(documents):
    return [Budget.read(document) for document in documents]


def limits(budgets, reason="Drifted", total=200):
    return [allowance(budgets, NodeCounts(total), reason, hour).limit for hour in HOURS]


WEEKEND = [budget("50%", "0 0 * * 6", "48h"), budget("0")]
STEPS = [budget("1", "0 2 * * *", "2h"), budget("3", "0 4 * * *", "4h")]
BUSINESS_HOURS = budget("0", "0 9 * * 1-5", "8h")


@pytest.mark.parametrize(
    ("budgets", "rule", "at", "says", "fix"),
    [
        pytest.param(
            WEEKEND,
            "K-30",
            (1,),
            "allows nothing and has no schedule: no disruption is ever allowed, and budgets[0] never matters",
            '[{nodes: "50%"}, {nodes: "0", schedule: "0 0 * * 1", duration: 120h}]',
            id="seed-002-weekend-only",
        ),
        pytest.param(
            STEPS,
            "K-31",
            (),
            "outside the windows, disruption is unlimited: every budget has a schedule",
            '[{nodes: "1", schedule: "0 2 * * *", duration: 2h}, '
            '{nodes: "3", schedule: "0 4 * * *", duration: 4h}, {nodes: "3"}]',
            id="seed-002-step-wise-increase",
        ),
        pytest.param(
            [BUSINESS_HOURS],
            "K-31",
            (),
            "outside the windows",
            '[{nodes: "10%"}, {nodes: "0", schedule: "0 9 * * 1-5", duration: 8h}]',
            id="seed-002-business-hours-alone-get-the-default",
        ),
        pytest.param(
            [*STEPS, budget("00%")],
            "K-30",
            (2,),
            "no disruption is ever allowed, and budgets[0], budgets[1] never matter",
            '[{nodes: "1", schedule: "0 2 * * *", duration: 2h}, '
            '{nodes: "3", schedule: "0 4 * * *", duration: 4h}, '
            '{nodes: "00%", schedule: "0 8 * * *", duration: 18h}]',
            id="steps-and-a-zero",
        ),
        pytest.param(
            [budget("0"), budget("5", "0 0 * * 6", "24h"), budget("5", "0 0 * * 0", "24h")],
            "K-30",
            (0,),
            "budgets[1], budgets[2] never matter",
            '[{nodes: "0", schedule: "0 0 * * 1", duration: 120h}, {nodes: "5"}]',
            id="a-weekend-in-two-windows",
        ),
        pytest.param(
            [budget("50%", "0 9 * * 1-5", "8h"), budget("0")],
            "K-30",
            (1,),
            "no disruption is ever allowed",
            '[{nodes: "50%"}, {nodes: "0", schedule: "0 17 * * 1-4", duration: 16h}, '
            '{nodes: "0", schedule: "0 17 * * 5", duration: 64h}]',
            id="only-in-business-hours",
        ),
        pytest.param(
            [budget("50%", "@monthly", "48h"), budget("0")],
            "K-30",
            (1,),
            "no disruption is ever allowed",
            None,
            id="the-rest-of-a-month-is-no-window",
        ),
        pytest.param(
            [budget("0"), budget("10%", reasons=("Drifted",))],
            "K-30",
            (0,),
            "no disruption is ever allowed, and budgets[1] never matters",
            '[{nodes: "0", reasons: [Underutilized, Empty, Unhealthy]}, {nodes: "10%", reasons: [Drifted]}]',
            id="zero-for-all-but-one-reason",
        ),
        pytest.param(
            [budget("0", reasons=("Empty", "Drifted")), budget("10%", reasons=("Drifted",)), budget("20%")],
            "K-30",
            (0,),
            "no disruption is ever allowed for Empty, Drifted, and budgets[1] never matters",
            '[{nodes: "0", reasons: [Empty]}, {nodes: "10%", reasons: [Drifted]}, {nodes: "20%"}]',
            id="zero-for-some-reasons",
        ),
        pytest.param(
            [budget("10%"), budget("20%", "0 22 * * *", "8h")],
            "K-38",
            (1,),
            "has no effect: budgets[0] is stricter and always in force",
            '[{nodes: "10%", schedule: "0 6 * * *", duration: 16h}, {nodes: "20%"}]',
            id="more-at-night",
        ),
        pytest.param(
            [budget("10%"), budget("20%", reasons=("Drifted",))],
            "K-38",
            (1,),
            "budgets[0] is stricter",
            '[{nodes: "10%", reasons: [Underutilized, Empty, Unhealthy]}, {nodes: "20%", reasons: [Drifted]}]',
            id="more-for-one-reason",
        ),
        pytest.param(
            [budget("9"), budget("0", "0 8 * * *", "10h"), budget("1", "0 9 * * 1-5", "8h")],
            "K-38",
            (2,),
            "has no effect: budgets[1] is stricter and in force whenever this one is",
            None,
            id="window-inside-of-a-stricter-one",
        ),
        pytest.param(
            [budget("10%"), budget("0", "0 0 20 12 *", "300h"), budget("5%", "0 0 20 12 *", "200h")],
            "K-38",
            (2,),
            "budgets[1] is stricter",
            None,
            id="two-windows-of-one-schedule-in-no-weekly-pattern",
        ),
        pytest.param(
            [
                budget("9"),
                budget("0", "0 8 * * *", "4h"),
                budget("0", "0 12 * * *", "4h"),
                budget("1", "0 9 * * *", "7h"),
            ],
            "K-38",
            (3,),
            "has no effect: budgets[1], budgets[2] are stricter, and one of them is in force whenever this one is",
            None,
            id="window-inside-of-two-stricter-ones",
        ),
        pytest.param(
            [budget("10%"), budget("0", "0 0 * * 1", "120h"), budget("0", "0 0 * * 6", "48h")],
            "K-39",
            (),
            "no disruption is ever allowed: budgets[1], budgets[2] allow nothing and leave no gap between them",
            None,
            id="zeros-without-a-gap",
        ),
        pytest.param(
            [budget("10%"), budget("5", reasons=())],
            "K-34",
            (1, "reasons"),
            "applies to no reason",
            None,
            id="no-reason",
        ),
        pytest.param(
            [budget("10%"), budget("5", "@daily", "0m")],
            "K-33",
            (1, "duration"),
            "is zero: the budget is never in force",
            None,
            id="no-length",
        ),
        pytest.param(
            [budget("10%"), budget("5", "0 0 31 2 *", "1h")], "K-32", (1, "schedule"), "never fires", None, id="never"
        ),
        pytest.param(
            [budget("10%"), budget("5", "0 0 31 2 *", "0m")],
            "K-32",
            (1, "schedule"),
            "never fires",
            None,
            id="not-even-once",
        ),
        pytest.param(
            [budget("10%"), budget("5", "@daily", "24h")],
            "K-32",
            (1, "duration"),
            '"24h" is not shorter than the time to the next window',
            None,
            id="never-closes",
        ),
        pytest.param(
            [budget("10%", "@monthly", "744h")],
            "K-32",
            (0, "duration"),
            '"744h" is not shorter than the time to the next window',
            None,
            id="never-closes-from-month-to-month",
        ),
        pytest.param(
            [budget("10%", "@monthly", "743h")],
            "K-31",
            (),
            "outside the windows",
            '[{nodes: "10%", schedule: "@monthly", duration: 743h}, {nodes: "10%"}]',
            id="closes-for-an-hour-after-long-months",
        ),
    ],
)
def test_one_finding_with_its_correction(budgets, rule, at, says, fix):
    (lint,) = lint_budgets(budgets)
    assert (lint.rule, lint.at) == (rule, at)
    assert says in lint.message
    assert fix == (None if lint.fix is None else flow_style(lint.fix))
    if lint.fix is not None:
        assert lint_budgets(read(lint.fix)) == ()


@pytest.mark.parametrize(
    "budgets",
    [
        pytest.param([], id="none-at-all"),
        pytest.param([budget("0")], id="a-lone-zero"),
        pytest.param([budget("10%"), BUSINESS_HOURS], id="seed-002-typical"),
        pytest.param([budget("20%"), budget("5"), budget("0", "@daily", "10m")], id="seed-002-three-budgets"),
        pytest.param([budget("20%"), budget("5", "@daily", "10m")], id="seed-002-share-and-number"),
        pytest.param([*STEPS, budget("3")], id="seed-002-steps-with-a-cap-as-large-as-one-of-them"),
        pytest.param([budget("10%"), budget("5%", reasons=("Drifted",))], id="less-for-one-reason"),
        pytest.param([budget("10%"), budget("20")], id="share-and-number-cannot-be-compared"),
        pytest.param([budget("9"), budget("0", "@monthly", "9h"), budget("1", "0 9 * * *", "7h")], id="months"),
        pytest.param([budget("1", "0 0 * * *", "12h"), budget("2", "0 12 * * *", "12h")], id="windows-without-a-gap"),
    ],
)
def test_nothing_is_said_of_what_is_plain(budgets):
    assert lint_budgets(budgets) == ()


def test_of_windows_for_some_reasons_only_these_are_unlimited_outside():
    (lint,) = lint_budgets([budget("10%", reasons=("Drifted",)), BUSINESS_HOURS])
    assert (lint.rule, lint.reasons) == ("K-31", ("Underutilized", "Empty", "Unhealthy"))
    wanted = "outside the windows, disruption for Underutilized, Empty, Unhealthy is unlimited: "
    assert lint.message.startswith(wanted)
    assert flow_style(lint.fix).startswith('[{nodes: "10%", reasons: [Underutilized, Empty, Unhealthy]}, ')


@pytest.mark.parametrize(
    ("budgets", "reasons"),
    [
        pytest.param(WEEKEND, REASONS, id="without-reasons-it-is-about-all"),
        pytest.param([budget("1", reasons=())], REASONS, id="no-reason-is-about-what-is-not-limited"),
        pytest.param(
            [budget("1", "@daily", "0m", ("Unhealthy", "Empty")), budget("2")], ("Empty", "Unhealthy"), id="in-order"
        ),
    ],
)
def test_which_reasons_a_finding_is_about(budgets, reasons):
    assert lint_budgets(budgets)[0].reasons == reasons


def test_windows_of_one_number_have_two_readings():
    """A cap of the same number would make the windows pointless."""
    (lint,) = lint_budgets([budget("50%", "0 0 * * 6", "48h", ("Drifted",))])
    assert (lint.rule, [(reading, flow_style(fix[1:])) for reading, fix in lint.readings]) == (
        "K-31",
        [
            (
                "0 outside",
                '[{nodes: "0", reasons: [Drifted], schedule: "0 0 * * 1", duration: 120h}]',
            ),
            (
                "the default of 10% outside",
                '[{nodes: "10%", reasons: [Drifted], schedule: "0 0 * * 1", duration: 120h}]',
            ),
        ],
    )
    assert [lint_budgets(read(fix)) for _, fix in lint.readings] == [(), ()]


def test_beside_a_budget_that_cannot_be_understood_only_single_ones_are_told():
    budgets = [*WEEKEND, budget("1", reasons=()), budget("x")]
    assert [lint.rule for lint in lint_budgets(budgets)] == ["K-34"]


def test_a_correction_is_offered_only_when_it_brings_nothing_new():
    """The cap would be a share beside a number that it cannot be compared with."""
    (lint,) = lint_budgets([budget("1", "0 2 * * *", "2h"), budget("10%", "0 4 * * *", "4h")])
    assert (lint.rule, lint.fix) == ("K-31", None)


def test_a_correction_leaves_what_it_is_not_about():
    """The budget without reasons stays, and so does its finding."""
    found = lint_budgets([budget("7", reasons=()), *WEEKEND])
    assert [lint.rule for lint in found] == ["K-34", "K-30"]
    assert flow_style(found[1].fix) == (
        '[{nodes: "7", reasons: []}, {nodes: "50%"}, {nodes: "0", schedule: "0 0 * * 1", duration: 120h}]'
    )


def test_of_several_stricter_budgets_the_strictest_is_named():
    """To correct only a budget that another one overrules would change nothing."""
    found = lint_budgets([budget("2"), budget("5", "0 0 * * 6", "2h"), budget("1")])
    assert [lint.message.partition(" is ")[0] for lint in found] == ["has no effect: budgets[2]"] * 2
    assert {lint.fix for lint in found} == {None}


def test_fifty_budgets_are_linted_at_once():
    budgets = [budget(str(number + 1), "0 * * * *", "30m") for number in range(49)] + [budget("0")]
    (lint,) = lint_budgets(budgets)
    assert "and 44 more never matter" in lint.message


def test_both_styles_read_back_the_same():
    documents = [
        {"nodes": "0", "reasons": ["Empty", "Drifted"], "schedule": "0 9 * * 1-5", "duration": "8h"},
        {"nodes": "5%", "reasons": []},
        {"nodes": "007", "schedule": "@daily", "duration": "1h30m0s"},
    ]
    assert yaml.safe_load(flow_style(documents)) == documents
    assert yaml.safe_load(f"budgets:\n    {block_style(documents, indent=4)}\n") == {"budgets": documents}


budgets_of_a_week = st.lists(
    st.builds(
        budget,
        st.sampled_from(["0", "1", "3", "10%", "50%", "0%"]),
        st.none(),
        st.none(),
        st.sampled_from([None, None, ("Drifted",), ("Empty", "Drifted")]),
    )
    | st.builds(
        budget,
        st.sampled_from(["0", "1", "3", "10%", "50%"]),
        st.sampled_from(["0 0 * * 6", "0 2 * * *", "0 9 * * 1-5", "0 */6 * * *", "0 0 * * 1", "@daily"]),
        st.sampled_from(["2h", "8h", "16h", "24h", "48h", "120h"]),
        st.sampled_from([None, None, ("Drifted",), ("Empty", "Drifted")]),
    ),
    max_size=4,
)


@given(budgets_of_a_week)
@settings(max_examples=examples(40))
def test_findings_are_true(budgets):
    """What never matters can be dropped, what never opens is shut, and what is not limited is so at some time."""
    found = lint_budgets(budgets)
    for reason in ("Drifted", "Empty", "Unhealthy"):
        now = limits(budgets, reason)
        moot = {lint.at[0] for lint in found if lint.rule == "K-38"}
        assert limits([one for index, one in enumerate(budgets) if index not in moot], reason) == now
        shut = any(lint.rule in {"K-30", "K-39"} and reason in lint.reasons for lint in found)
        assert not shut or set(now) == {0}
        concerned = [one for one in budgets if one.reasons is None or reason in one.reasons]
        unlimited = any(lint.rule == "K-31" and reason in lint.reasons for lint in found)
        assert unlimited == (bool(concerned) and UNLIMITED in now)


@given(budgets_of_a_week)
@settings(max_examples=examples(40))
def test_corrections_leave_fewer_findings(budgets):
    found = lint_budgets(budgets)
    rules = Counter(lint.rule for lint in found)
    for lint in found:
        for _, fix in lint.readings:
            after = Counter(each.rule for each in lint_budgets(read(fix)))
            assert after <= rules - Counter([lint.rule])


@given(
    st.sampled_from(["0", "1"]),
    st.lists(
        st.builds(
            budget,
            st.sampled_from(["2", "5"]),
            st.sampled_from(["0 0 * * 6", "0 2 * * *", "0 9 * * 1-5", "0 */6 * * *", "0 12 * * 0,3"]),
            st.sampled_from(["2h", "5h", "24h", "48h"]),
        ),
        min_size=1,
        max_size=3,
    ),
)
@settings(max_examples=examples(40))
def test_windows_get_what_was_wished_for_them(strict, windows):
    """A strict budget gives way in the windows of the others, and nowhere else."""
    wished = [min(limit, UNLIMITED) if limit != UNLIMITED else int(strict) for limit in limits(windows)]
    for lint in lint_budgets([*windows, budget(strict)]):
        if lint.fix is not None and lint.rule in {"K-30", "K-38"}:
            assert limits(read(lint.fix)) == wished
