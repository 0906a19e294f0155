import pytest

from scorer.api.values.field_path import FieldPath
from webhook.cli.files.parsing import DocumentSource
from webhook.cli.files.positions import Positions, TextRange

YAML = """\
# comment
---
a: 1
---
kind: List
items:
- spec:
    list:
    - one: x   # why
    - two: "ü"
      more:
      - last
# behind
    flow: [1, {b: 2}]
"""


def place(text, source, *parts):
    return Positions({source.file: text}).place(source, FieldPath.of(*parts))[:2]


@pytest.mark.parametrize(
    ("source", "parts", "found"),
    [
        pytest.param(DocumentSource("f", 1), ("a",), (3, 1), id="key"),
        pytest.param(DocumentSource("f", 1), (), (3, 1), id="document"),
        pytest.param(DocumentSource("f", 2, 0), ("spec",), (7, 3), id="item-of-a-list"),
        pytest.param(DocumentSource("f", 2, 0), ("spec", "list", 1), (10, 7), id="list-position"),
        pytest.param(DocumentSource("f", 2, 0), ("spec", "list", 1, "more", 0), (12, 9), id="deep"),
        pytest.param(DocumentSource("f", 2, 0), ("spec", "list", 5, "x"), (8, 5), id="nearest-of-what-is-not-there"),
        pytest.param(DocumentSource("f", 2, 0), ("spec", "flow", 1, "b"), (14, 16), id="flow"),
        pytest.param(DocumentSource("f", 9), ("spec",), (1, 1), id="no-such-document"),
        pytest.param(DocumentSource("other", 1), ("spec",), (1, 1), id="no-such-file"),
    ],
)
def test_where_a_field_stands(source, parts, found):
    assert Positions({"f": YAML}).place(source, FieldPath.of(*parts))[:2] == found


def test_a_value_ends_before_the_comments_behind_it():
    value = Positions({"f": YAML}).value(DocumentSource("f", 2, 0), FieldPath.of("spec", "list"))
    assert (value.place, value.is_flow, value.is_json) == (TextRange(9, 5, 12, 13), False, False)
    value = Positions({"f": YAML}).value(DocumentSource("f", 2, 0), FieldPath.of("spec", "flow"))
    assert (value.place, value.is_flow, value.is_json) == (TextRange(14, 11, 14, 22), True, False)
    assert Positions({"f": YAML}).value(DocumentSource("f", 2, 0), FieldPath.of("spec", "none")) is None


@pytest.mark.parametrize("name", ["f.json", "f"])
def test_documents_of_json_follow_one_another_without_a_word(name):
    text = '{"a": 1}\n{\n\t"b":\t[1, "\\ud83d\\ude00", 2],\n  "c": 3} {"d": 4}\n'
    assert place(text, DocumentSource(name, 2), "b") == (3, 2)
    assert place(text, DocumentSource(name, 2), "c") == (4, 3)
    assert place(text, DocumentSource(name, 3), "d") == (4, 12)
    assert Positions({name: text}).value(DocumentSource(name, 2), FieldPath.of("b")).is_json


def test_what_begins_like_json_may_be_yaml():
    assert place("{a: 1, b: 2}", DocumentSource("f", 1), "b") == (1, 8)


def test_a_path_is_found_by_how_it_prints():
    text = "metadata:\n  labels: {a/b: x, a: y}\nspec: [{x: 1}]\n"
    positions, source = Positions({"f": text}), DocumentSource("f", 1)
    for path in (FieldPath.of("metadata", "labels", "a/b"), FieldPath.of("spec", 0, "x"), FieldPath.of("spec")):
        assert positions.path(source, str(path)) == path
    assert positions.path(source, "spec[0].y") is None
