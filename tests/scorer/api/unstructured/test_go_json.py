"""JSON as Go writes it. The digests of real Go programs are in tests/vectors/resource_hash.jsonl."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scorer.api.meta import dump_json
from scorer.api.unstructured.go_json import go_json
from scorer.rollout.object_size import etcd_bytes
from tests.builders.go_texts import GO_TEXTS
from tests.thoroughness import examples

_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**66), 2**66),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([-0.0, 1e21, 1e20, 1e-6, 1e-7, 2.0**63]),
    GO_TEXTS,
)
_VALUES = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(GO_TEXTS, inner, max_size=4), max_leaves=12
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param("<>&\u2028\u2029", b'"\\u003c\\u003e\\u0026\\u2028\\u2029"', id="escaped"),
        pytest.param({"<": 1, "é": 2}, '{"\\u003c":1,"é":2}'.encode(), id="keys"),
        pytest.param({"b": 1, "a": 2}, b'{"a":2,"b":1}', id="sorted"),
        pytest.param("\ud800", '"\N{REPLACEMENT CHARACTER}"'.encode(), id="lone-surrogate"),
        pytest.param(-0.0, b"-0", id="negative-zero"),
        pytest.param([1.0, 1e20, 1e21, 1e-6, 1e-7], b"[1,100000000000000000000,1e+21,0.000001,1e-7]", id="floats"),
        pytest.param([2**63 - 1, 2**63], b"[9223372036854775807,9223372036854776000]", id="beyond-64-bits"),
        pytest.param({"a": [True, None, "1.0,"]}, b'{"a":[true,null,"1.0,"]}', id="no-number"),
        pytest.param(float("nan"), b"null", id="not-a-number"),
    ],
)
def test_values_are_written_as_go_writes_them(value, text):
    assert go_json(value) == text


@given(_VALUES)
@settings(max_examples=examples(200))
def test_what_is_written_reads_back(value):
    assert _as_floats(json.loads(go_json(value))) == _as_floats(json.loads(dump_json(value)))


@given(st.dictionaries(GO_TEXTS, GO_TEXTS))
@settings(max_examples=examples(100))
def test_text_has_the_size_that_it_has_in_etcd(value):
    assert len(go_json(value)) == etcd_bytes(dump_json(value))


def _as_floats(value):
    """Go writes a float without a fraction as an integer."""
    if isinstance(value, dict):
        return {key: _as_floats(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_floats(item) for item in value]
    return float(value) if type(value) is int else value
