"""When a Work is looked at again."""

from dataclasses import replace

import pytest

from webhook.member.works.backoff import WorkOutcome, next_pace


def delays(outcomes):
    pace, found = None, []
    for outcome in outcomes:
        pace = next_pace(pace, outcome)
        found.append(round(pace.delay.total_seconds(), 3))
    return found


WAITING = WorkOutcome(1, "waiting")
DONE = WorkOutcome(1, "done", settled=True)


def test_unsettled_grows_slowly_then_fast_up_to_a_quarter_of_an_hour():
    found = delays([WAITING] * 26)
    assert found[:5] == [5, 2, 2.4, 2.88, 3.456]
    slow = found[1 : found.index(15) + 1]
    assert slow == pytest.approx([*(2 * 1.2**n for n in range(len(slow) - 1)), 15], abs=0.001)
    assert found[found.index(15) + 1] == 22.5
    assert found[-1] == 900
    assert max(found) == 900


def test_settled_grows_fast_at_once():
    assert delays([DONE] * 4) == [5, 7.5, 11.25, 16.875]
    assert delays([DONE] * 30)[-1] == 900


@pytest.mark.parametrize("changed", [replace(WAITING, generation=2), replace(WAITING, digest="other"), DONE])
def test_another_generation_or_result_starts_anew(changed):
    assert delays([*[WAITING] * 9, changed])[-1] == 5
