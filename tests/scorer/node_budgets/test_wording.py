"""Budgets in words."""

import pytest

from scorer.api.node_pool import Budget
from scorer.node_budgets.wording import describe_budget


@pytest.mark.parametrize(
    ("budget", "text"),
    [
        (Budget(nodes="10%"), 'budgets[2] (nodes "10%")'),
        (Budget(nodes="1", reasons=()), 'budgets[2] (nodes "1", reasons none)'),
        (Budget(nodes="1", reasons=("Empty", "Drifted")), 'budgets[2] (nodes "1", reasons Empty, Drifted)'),
        (
            Budget(nodes="0", schedule="0 9 * * 1-5", duration="8h"),
            'budgets[2] (nodes "0", schedule "0 9 * * 1-5", duration 8h)',
        ),
        (Budget(nodes="9" * 80), f'budgets[2] (nodes "{"9" * 61}...")'),
    ],
)
def test_a_budget_in_words(budget, text):
    assert describe_budget(2, budget) == text
