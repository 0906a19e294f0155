"""Objects with more mistakes than anyone reads: what is reported, and what rules may still say."""

import pytest

from scorer.api.node_pool import NodePool
from scorer.api.values.field_path import FieldPath
from webhook.validation.framework.field import Cause, FieldError
from webhook.validation.framework.reading import read_object

BUDGETS = FieldPath.of("spec", "disruption", "budgets")


def read_budgets(*budgets):
    return read_object(NodePool, {"metadata": {"name": "a"}, "spec": {"disruption": {"budgets": list(budgets)}}})


@pytest.mark.parametrize("item", [{}, {"nodes": []}, 1], ids=["sound", "broken", "no-object"])
def test_a_very_long_list_is_one_mistake(item):
    reading = read_budgets(*[item] * 100_000)
    assert [(error.field, str(error)) for error in reading.errors if error.field == BUDGETS] == [
        (BUDGETS, "spec.disruption.budgets: Too many: 100000: must have at most 50 items")
    ]
    assert not [error for error in reading.errors if len(error.field) > len(BUDGETS)]


def test_a_list_that_is_too_long_is_cut_before_the_model_sees_it(monkeypatch):
    seen, read = [], NodePool.read

    def note(_cls, document):
        seen.append(len(document["spec"]["disruption"]["budgets"]))
        return read(document)

    monkeypatch.setattr(NodePool, "read", classmethod(note))
    read_budgets(*[{"nodes": []}] * 100_000)
    assert seen
    assert max(seen) == 50


def test_each_of_many_broken_items_silences_rules_about_itself_and_what_is_around_it_only():
    reading = read_budgets({"nodes": "1", "schedule": None}, *[{"nodes": []}] * 40)
    sound, broken = BUDGETS / 0 / "nodes", BUDGETS / 7 / "nodes"
    said = [FieldError(field, Cause.INVALID, "x") for field in (sound, broken, broken / "a", BUDGETS / 7, BUDGETS)]
    forbidden = FieldError(BUDGETS, Cause.FORBIDDEN, "x")
    assert list(reading.trusted([*said, forbidden])) == [said[0], forbidden]
