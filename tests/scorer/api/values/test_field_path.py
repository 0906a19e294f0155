"""Field paths as kubectl and as JSON Patch write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.api.values.field_path import FieldPath, json_pointer

parts = st.lists(st.text(max_size=6) | st.integers(0, 50), max_size=5)


@pytest.mark.parametrize(
    ("path", "text", "pointer"),
    [
        pytest.param(FieldPath(), "", "", id="root"),
        pytest.param(
            FieldPath.of("spec") / "taints" / 2 / "key", "spec.taints[2].key", "/spec/taints/2/key", id="list"
        ),
        pytest.param(
            FieldPath.of("metadata", "labels", "a/b"), "metadata.labels[a/b]", "/metadata/labels/a~1b", id="label"
        ),
        pytest.param(FieldPath.of("data", "x.yaml"), "data[x.yaml]", "/data/x.yaml", id="dotted-key"),
        pytest.param(FieldPath.of("a~b"), "[a~b]", "/a~0b", id="tilde"),
    ],
)
def test_spelling(path, text, pointer):
    assert str(path) == text
    assert path.pointer() == pointer


@given(st.builds(tuple, parts), st.builds(tuple, parts))
def test_what_lies_below(above, below):
    path = FieldPath(above)
    for part in below:
        path /= part
    found = FieldPath(above).below(*below)
    assert found == path
    assert isinstance(found, FieldPath)


@given(parts)
def test_a_pointer_can_be_taken_apart_again(path):
    tokens = json_pointer(path).split("/")[1:] if path else []
    assert [token.replace("~1", "/").replace("~0", "~") for token in tokens] == [str(part) for part in path]


@given(path=parts, more=parts)
def test_a_longer_path_starts_with_the_shorter(path, more):
    assert FieldPath.of(*path, *more).starts_with(FieldPath.of(*path))
    assert not FieldPath.of(*path).starts_with(FieldPath.of(*path, "one more"))
