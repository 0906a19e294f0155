"""YAML means here what it means to kubectl, and what is written reads back the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.runtime.yaml import YamlError, format_yaml, parse_yaml, resolve_plain

BILLION_LAUGHS = "\n".join(["a0: &a0 [lol]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9))])
LONG_TEXT = f"a: &a {'x' * 1000}\nb: [{', '.join(['*a'] * 5000)}]"
DEEP = "\n".join(["a0: &a0 []", *(f"a{n}: &a{n} {'[' * 10}*a{n - 1}{']' * 10}" for n in range(1, 12))])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("a: &x 1\nb: *x", {"a": 1, "b": 1}, id="number"),
        pytest.param("a: &x {c: [yes]}\nb: *x", {"a": {"c": [True]}, "b": {"c": [True]}}, id="object"),
        pytest.param("a: &x 1\nb: &x 2\nc: *x", {"a": 1, "b": 2, "c": 2}, id="the-last-of-a-name"),
        pytest.param(
            "a: &x {b: 1, c: 2}\nd:\n  <<: *x\n  c: 3", {"a": {"b": 1, "c": 2}, "d": {"b": 1, "c": 3}}, id="merge"
        ),
        pytest.param("<<: [{a: 1}, {a: 2, b: 3}]", {"a": 1, "b": 3}, id="the-first-of-several"),
        pytest.param('"<<": 1', {"<<": 1}, id="quoted-it-is-a-key"),
    ],
)
def test_anchors_aliases_and_merge_keys_are_read(text, value):
    assert [parsed.value for parsed in parse_yaml(text)] == [value]


def test_what_an_alias_repeats_is_a_value_of_its_own():
    (parsed,) = parse_yaml("a: &x {b: 1}\nc: *x")
    parsed.value["a"]["b"] = 2
    assert parsed.value["c"] == {"b": 1}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("2026-03-01T10:00:00Z", "2026-03-01T10:00:00Z", id="an-instant-is-text"),
        pytest.param("2026-03-01", "2026-03-01", id="a-date-is-text"),
        pytest.param("1:30", "1:30", id="no-base-60"),
        pytest.param("yes", True, id="yes"),
        pytest.param("Off", False, id="off"),
        pytest.param("n", False, id="n"),
        pytest.param("oN", "oN", id="odd-spelling-is-text"),
        pytest.param("null", None, id="null"),
        pytest.param("", None, id="nothing"),
        pytest.param("0644", 420, id="octal"),
        pytest.param("0o17", 15, id="new-octal"),
        pytest.param("089", 89, id="no-octal"),
        pytest.param("0x1F", 31, id="hexadecimal"),
        pytest.param("-0b11", -3, id="binary"),
        pytest.param("+7", 7, id="sign"),
        pytest.param("1_000", 1000, id="underscores"),
        pytest.param("1e3", 1000, id="whole-float-is-an-integer"),
        pytest.param(".5", 0.5, id="fraction"),
        pytest.param("18446744073709551615", 2**64 - 1, id="largest-exact"),
        pytest.param("18446744073709551616", 2.0**64, id="beyond-64-bits"),
        pytest.param("1e999", "1e999", id="beyond-any-number-is-text"),
        pytest.param("100m", "100m", id="quantity"),
        pytest.param("-", "-", id="dash"),
    ],
)
def test_plain_words_are_read_as_kubectl_reads_them(text, value):
    """Source: kubernetes-sigs/yaml goyaml.v2/resolve.go."""
    found = resolve_plain(text)
    assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("a: 1\nb: 2\na: 3", "line 3: 'a' is given twice, the first time in line 1", id="duplicate-key"),
        pytest.param("a:\n- *x", "line 2: *x: the document has no anchor &x before it", id="alias-of-nothing"),
        pytest.param("a: &x\n- *x", "line 2: *x: the document has no anchor &x before it", id="within-itself"),
        pytest.param("a: &x 1\n---\na: *x", "line 3: *x: the document has no anchor", id="alias-of-another-document"),
        pytest.param("a: &x b\n*x : 1", "line 2: *x: an alias must not be a key", id="alias-as-key"),
        pytest.param("<<: 1", "line 1: << takes an object", id="merge-of-a-number"),
        pytest.param("a: 1\n<<: {a: 2}", "line 2: << also has 'a', which precedes it in line 1", id="late-merge"),
        pytest.param(
            BILLION_LAUGHS, "line 7: *a5: aliases repeat too much, more than 4194304 in total", id="billion-laughs"
        ),
        pytest.param(LONG_TEXT, "line 2: *a: aliases repeat too much", id="long-text-many-times"),
        pytest.param(DEEP, "line 11: nested deeper than 100 levels", id="deeper-by-aliases"),
        pytest.param("a: .nan", "line 1: .nan is not a valid JSON number", id="not-a-number"),
        pytest.param("a: -.inf", "line 1: -.inf is not a valid JSON number", id="infinity"),
        pytest.param("a: !!binary aGk=", "line 1: tag tag:yaml.org,2002:binary is not accepted", id="tag"),
        pytest.param("a: !!python/none x", "line 1: tag tag:yaml.org,2002:python/none", id="python-tag"),
        pytest.param("a: !x {}", "line 1: tag !x is not accepted", id="tag-of-an-object"),
        pytest.param("? [1]\n: 2", "line 1: a key must be text", id="list-as-key"),
        pytest.param("~: 2", "line 1: a key must be text, not null", id="null-as-key"),
        pytest.param("a:\n\t- 1", "line 2: not YAML", id="tab"),
        pytest.param("a: {b: 1", "line 1: not YAML", id="unclosed"),
        pytest.param("a: b: c", "line 1: not YAML: mapping values are not allowed", id="colon"),
        pytest.param("a: \x07", "line 1: not YAML: control characters", id="control-character"),
        pytest.param("- " * 120 + "1", "line 1: nested deeper than 100 levels", id="too-deep"),
    ],
)
def test_what_is_not_accepted_is_named_with_its_line(text, message):
    with pytest.raises(YamlError) as caught:
        parse_yaml(text)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_documents_are_counted_as_written():
    """Comments before the first mark are no document; an empty document is one."""
    found = parse_yaml("# a\n---\na: 1\n---\n---\nb: 2\n")
    assert found == [({"a": 1}, 3), (None, 5), ({"b": 2}, 6)]


def test_keys_stay_as_written():
    assert parse_yaml("on: 1\n8080: 2\n0x10: 3")[0].value == {"on": 1, "8080": 2, "0x10": 3}


def test_quotes_and_text_tag_make_text():
    assert parse_yaml("a: 'yes'\nb: \"1\"\nc: !!str 1\nd: ! 2")[0].value == {"a": "yes", "b": "1", "c": "1", "d": "2"}


_TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc"), exclude_characters="\ufeff\ufffe\uffff"))
_SPECIAL = st.sampled_from(
    ["yes", "y", "1e3", "0644", "null", "~", "1:30", "a\nb\n", " a\n", "2026-01-01", "<<", "-", "#"]
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | _TEXT | _SPECIAL,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT | _SPECIAL, inner, max_size=4),
    max_leaves=12,
)


@given(document=st.dictionaries(_TEXT.filter(bool) | _SPECIAL, _JSON, max_size=4))
def test_what_is_written_reads_back_the_same(document):
    """Whatever was text is quoted when it could be read as something else."""
    assert parse_yaml(format_yaml(document))[0].value == document


@pytest.mark.parametrize("inner", ["{b: 1}", "[{b: 1}]"])
def test_merges_nest_no_deeper_than_anything_else(inner):
    def nested(levels):
        return "a: " + "{<<: " * levels + inner + "}" * levels

    assert parse_yaml(nested(90))[0].value == {"a": {"b": 1}}
    with pytest.raises(YamlError, match="nested deeper than 100 levels"):
        parse_yaml(nested(900))


@pytest.mark.parametrize("text", ["a\u202eb", "a\nb\u2066c\n", "\\\u200f", "a " * 90 + "\u202e"])
def test_the_direction_of_text_is_escaped(text):
    document = {text: [text, "plain"]}
    written = format_yaml(document)
    assert written.isascii()
    assert parse_yaml(written)[0].value == document
