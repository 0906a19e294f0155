"""Random tests try what they are told to try, and no failure is made smaller for minutes."""

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture import engine

from tests.thoroughness import DEFAULT_EXAMPLES, SHRINKING_SECONDS, SOAK, examples


def test_a_third_of_the_examples_are_tried_but_in_a_soak():
    assert [examples(count) for count in (1, 2, 25, 100)] == ([1, 2, 25, 100] if SOAK else [1, 1, 9, 34])


def test_a_test_that_says_nothing_tries_its_share_of_the_usual_number():
    tried = []

    @given(st.integers())
    def check(number):
        tried.append(number)

    check()
    assert len(tried) == examples(DEFAULT_EXAMPLES)


def test_no_example_has_a_deadline_and_smaller_ones_are_looked_for_only_so_long():
    assert settings().deadline is None
    assert engine.MAX_SHRINKING_SECONDS == SHRINKING_SECONDS
