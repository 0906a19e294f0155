"""Objects with more mistakes than anyone reads: what is reported, and what rules may still say."""

from scorer.api.field_path import FieldPath
from scorer.api.node_pool import NodePool
from webhook.validation.field import Cause, FieldError
from webhook.validation.reading import read_object

BUDGETS = FieldPath.of("spec", "disruption", "budgets")


def read_budgets(*budgets):
    return read_object(NodePool, {"metadata": {"name": "a"}, "spec": {"disruption": {"budgets": list(budgets)}}})


def test_a_very_long_list_is_one_mistake():
    errors = {error.field: error.cause for error in read_budgets(*[{}] * 100_000).errors}
    assert errors[BUDGETS] is Cause.TOO_MANY


def test_each_of_many_broken_items_silences_rules_about_itself_and_what_is_around_it_only():
    reading = read_budgets({"nodes": "1", "schedule": None}, *[{"nodes": []}] * 40)
    sound, broken = BUDGETS / 0 / "nodes", BUDGETS / 7 / "nodes"
    said = [FieldError(field, Cause.INVALID, "x") for field in (sound, broken, broken / "a", BUDGETS / 7, BUDGETS)]
    forbidden = FieldError(BUDGETS, Cause.FORBIDDEN, "x")
    assert list(reading.trusted([*said, forbidden])) == [said[0], forbidden]
