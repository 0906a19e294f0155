"""Answers of bounded size."""

import json

import pytest

from webhook.cli.assistants.answers import answer_text, compact_json


@pytest.mark.parametrize(
    ("answer", "left_out"),
    [
        pytest.param({"items": ["x" * 90] * 500}, ["/items: 400 items left out"], id="list"),
        pytest.param({f"a{number}": "x" * 90 for number in range(500)}, ["/: 400 items left out"], id="map"),
        pytest.param({"log": "x" * 20_000}, ["/log: 11,808 characters left out"], id="text"),
        pytest.param(
            {"items": [{"names": ["x" * 90] * 60} for _ in range(60)]},
            ["/items/*/names: 900 items left out", "/items: 30 items left out"],
            id="nested",
        ),
    ],
)
def test_long_answers_are_shortened_where_they_are_long(answer, left_out):
    most = 100_000 if "items" in answer and isinstance(answer["items"][0], dict) else 12_000
    text = answer_text(answer, ["a note"], most)
    assert len(text) <= most
    assert json.loads(text)["leftOut"] == left_out
    assert json.loads(text)["notes"] == ["a note"]


def test_a_short_answer_is_complete():
    assert json.loads(answer_text({"items": [1]}, [])) == {"answer": {"items": [1]}, "notes": []}


def test_an_answer_that_cannot_be_shortened_enough_is_refused():
    nested = {f"a{one}": {f"b{two}": {f"c{three}": 1 for three in range(49)} for two in range(49)} for one in range(49)}
    answer = json.loads(answer_text(nested, []))
    assert answer["answer"] is None
    assert "ask about fewer objects" in answer["leftOut"][0]


def test_notes_are_bounded():
    answer = json.loads(answer_text({}, ["n" * 5000] * 50))
    assert [len(note) for note in answer["notes"]] == [1024] * 20


@pytest.mark.parametrize("letter", ["\x1b", "\x9b", "\u202e", "\u200b", "\U000e0041", "\u2028", "\ud800"])
def test_invisible_characters_are_escaped(letter):
    text = compact_json({letter: [letter, "é日本"]})
    assert text.isprintable()
    assert json.loads(text) == {letter: [letter, "é日本"]}
