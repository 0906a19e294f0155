"""Counts in messages agree with their nouns and verbs."""

import pytest

from scorer.api.values.quoting import format_count, format_share


@pytest.mark.parametrize(("count", "text"), [(0, "0 members"), (1, "1 member"), (2, "2 members")])
def test_counts(count, text):
    assert format_count(count, "member") == text


@pytest.mark.parametrize(
    ("count", "total", "text"),
    [
        (0, 1, "0 of 1 node is"),
        (1, 1, "1 of 1 node is"),
        (0, 3, "0 of 3 nodes are"),
        (1, 3, "1 of 3 nodes is"),
        (3, 3, "3 of 3 nodes are"),
    ],
)
def test_shares(count, total, text):
    assert format_share(count, total, "node") == text
