import json

import pytest

from scorer.api.crd.node_pool_cel import NODE_POOL_RULES
from scorer.api.node_pool import Budget, NodePool, parse_duration_or_never


def test_absent_and_empty_lists_of_budgets_and_reasons_differ():
    def budgets(**disruption):
        spec = {
            "template": {"spec": {"requirements": [], "nodeClassRef": {"group": "g", "kind": "K", "name": "n"}}},
            "disruption": disruption,
        }
        return NodePool.read({"spec": spec}).spec.disruption.budgets

    assert budgets() == budgets(budgets=None) == (Budget(nodes="10%"),)
    assert budgets(budgets=[]) == ()
    assert [budget.reasons for budget in budgets(budgets=[{}, {"reasons": None}, {"reasons": []}])] == [None, None, ()]


def test_texts_that_break_their_grammar_can_be_read():
    """The engine must see a broken budget to hold everything back."""
    assert Budget.read({"nodes": "many", "schedule": "x", "reasons": ["y"]}).nodes == "many"


def test_every_cel_rule_is_about_a_field_of_the_schema():
    schema = NodePool.model_json_schema()

    def resolve(part):
        return schema["$defs"][part["$ref"].rpartition("/")[2]] if "$ref" in part else part

    for path in NODE_POOL_RULES:
        here = schema
        for step in path.replace("[]", ".[]").split("."):
            here = resolve(here["items"] if step == "[]" else here["properties"][step])
        assert here["type"] in {"object", "array", "string"}, path


def test_the_schema_carries_the_patterns_that_the_parser_does_not_run():
    text = json.dumps(NodePool.model_json_schema())
    assert r"((.+)\\s(.+)\\s(.+)\\s(.+)\\s(.+))$" in text
    assert "[numkMGTPE]" in text


@pytest.mark.parametrize(("text", "hours"), [("Never", None), ("720h", 720), ("43200m", 720), ("0s", 0)])
def test_durations(text, hours):
    found = parse_duration_or_never(text)
    assert (found.total_seconds() / 3600 if found is not None else None) == hours
