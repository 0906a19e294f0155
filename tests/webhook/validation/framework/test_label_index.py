"""The index of labels finds what a scan of all objects finds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.api.values.label_selector import LabelSelector
from webhook.validation.framework.label_index import LabelIndex

KEYS, VALUES = st.sampled_from("abc"), st.sampled_from("xyz")
LABELS = st.dictionaries(KEYS, VALUES)
EXPRESSIONS = st.one_of(
    st.builds(
        lambda key, operator, values: {"key": key, "operator": operator, "values": values},
        KEYS,
        st.sampled_from(["In", "NotIn"]),
        st.lists(VALUES, min_size=1),
    ),
    st.builds(
        lambda key, operator: {"key": key, "operator": operator}, KEYS, st.sampled_from(["Exists", "DoesNotExist"])
    ),
)


def make_objects(labels):
    return [{"metadata": {"name": str(i), "labels": each}} for i, each in enumerate(labels)]


@given(st.lists(LABELS, max_size=8), LABELS, st.lists(EXPRESSIONS, max_size=3))
def test_no_match_is_missed_and_none_is_twice(labels, match_labels, expressions):
    objects = make_objects(labels)
    selector = LabelSelector.read({"matchLabels": match_labels, "matchExpressions": expressions})
    matches = [item for item in objects if selector.matches(item["metadata"]["labels"])]
    candidates = LabelIndex(objects).candidates(selector)
    matching = [item for item in candidates if selector.matches(item["metadata"]["labels"])]
    assert sorted(map(str, matching)) == sorted(map(str, matches))
    assert len({item["metadata"]["name"] for item in candidates}) == len(candidates)


@pytest.mark.parametrize(
    ("selector", "count"),
    [
        pytest.param({"matchLabels": {"team": "a"}}, 10, id="value"),
        pytest.param({"matchLabels": {"team": "a", "name": "n3"}}, 1, id="the-most-selective"),
        pytest.param({"matchExpressions": [{"key": "name", "operator": "In", "values": ["n1", "n2"]}]}, 2, id="in"),
        pytest.param({"matchExpressions": [{"key": "odd", "operator": "Exists"}]}, 5, id="exists"),
        pytest.param({"matchExpressions": [{"key": "none", "operator": "Exists"}]}, 0, id="missing"),
        pytest.param({"matchExpressions": [{"key": "odd", "operator": "DoesNotExist"}]}, 10, id="absence"),
        pytest.param({}, 10, id="everything"),
    ],
)
def test_few_candidates_for_a_selective_selector(selector, count):
    labels = [{"team": "a", "name": f"n{i}", **({"odd": ""} if i % 2 else {})} for i in range(10)]
    assert len(LabelIndex(make_objects(labels)).candidates(LabelSelector.read(selector))) == count
