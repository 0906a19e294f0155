"""Suggestions for misspelt names: similar ones first, whatever the names are made of."""

from random import Random

import pytest

from scorer.rollout.overrides.effect import MOST_SUGGESTIONS, nearest_names


@pytest.mark.parametrize(
    ("word", "names", "nearest"),
    [
        pytest.param("webb", ["web", "cart"], ["web", "cart"], id="one-letter-more"),
        pytest.param("paymnets", ["payroll", "payments"], ["payments", "payroll"], id="swapped-letters"),
        pytest.param("eb", ["web", "cart"], ["web", "cart"], id="first-letter-is-missing"),
        pytest.param("x", ["d", "c", "b", "a"], ["a", "b", "c"], id="nothing-in-common"),
        pytest.param("", ["a"], ["a"], id="empty"),
        pytest.param("a", [], [], id="no-names"),
        pytest.param("aa", ["aaa", "aa", "a"], ["aa", "aaa", "a"], id="equal-letters"),
    ],
)
def test_the_most_similar_names_come_first(word, names, nearest):
    assert nearest_names(word, names) == nearest


def test_long_names_of_two_letters_are_compared_in_linear_time():
    """A comparison of all parts takes ten seconds for each word."""
    random = Random(1)
    names = {"".join(random.choices("ab", k=199)) for _ in range(500)}
    for name in sorted(names):
        assert len(nearest_names(f"{name}b", names)) == MOST_SUGGESTIONS
        assert nearest_names(f"{name}b", names)[0] == name
