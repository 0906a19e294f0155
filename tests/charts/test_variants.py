"""Parts of lists stand under exactly the conditions with which the code brings them."""

import pytest

from tests.charts.variants import Part, merge

SWITCHES = {"a": ".A", "b": ".B"}


@pytest.mark.parametrize(
    ("make", "parts"),
    [
        pytest.param(lambda on: [1], [Part(1, "")], id="always"),
        pytest.param(lambda on: [1] if "a" in on else [], [Part(1, ".A")], id="with-a"),
        pytest.param(lambda on: [] if "a" in on else [1], [Part(1, "not .A")], id="without-a"),
        pytest.param(lambda on: [1] if {"a", "b"} <= on else [], [Part(1, "and .A .B")], id="with-both"),
        pytest.param(lambda on: [1] if on == {"b"} else [], [Part(1, "and (not .A) .B")], id="with-b-alone"),
        pytest.param(
            lambda on: [1, *([2] if "a" in on else []), 3], [Part(1, ""), Part(2, ".A"), Part(3, "")], id="in-order"
        ),
        pytest.param(lambda on: ["a" in on], [Part(True, ".A"), Part(False, "not .A")], id="one-or-the-other"),
    ],
)
def test_a_part_has_the_condition_under_which_it_comes(make, parts):
    assert sorted(merge(SWITCHES, make), key=str) == sorted(parts, key=str)


def test_what_no_condition_describes_is_an_error():
    """A or b: two conditions, not one."""
    with pytest.raises(ValueError, match="no condition"):
        merge(SWITCHES, lambda on: [1] if on else [])


def test_the_order_is_that_of_the_code():
    found = merge(SWITCHES, lambda on: [1, *([2] if "a" in on else []), *([3] if "b" in on else []), 4])
    assert [part.content for part in found] == [1, 2, 3, 4]
