"""The project's English: counted phrases never become more, and the counter finds what it is meant to find."""

import json

import pytest

from tests.contracts.prose import RECORD, RULES, counts, hits_in, paragraphs_of, prose_of


def test_no_count_rises():
    """Reads every module, which takes a few seconds: the record holds for the project as a whole."""
    record = json.loads(RECORD.read_text())
    more = {rule: f"{record[rule]} -> {count}" for rule, count in counts().items() if count > record[rule]}
    assert more == {}, "reword them: python -m tests.contracts.prose RULE lists all hits of a rule"


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        ("what-clause", "What the provider calls us."),
        ("nobody", "None: nobody does"),
        ("say-tell", "Say whether the key is reconciled here."),
        ("look-at", "cannot look again"),
        ("go-stay", "pods may go"),
        ("at-once", "Come back at once"),
        ("call-off", "The run is called off"),
        ("of-which", "the cluster of which it is a part"),
        ("semicolon", "it is kept; the rest is not"),
        ("none-colon", "None: all of them"),
        ("there-is-none", "there is none"),
        ("archaic", "it shall be kept"),
    ],
)
def test_each_rule_finds_its_phrase(rule, sentence):
    docstring = list(prose_of(f'"""{sentence}"""\n'))
    comment = list(prose_of(f"x = 1  # {sentence}\n"))
    for prose in (docstring, comment, list(paragraphs_of(f"{sentence}\n"))):
        assert rule in {hit.rule for hit in hits_in("code", "module.py", iter(prose))}


def test_every_rule_has_a_phrase():
    marks = [mark for mark in test_each_rule_finds_its_phrase.pytestmark if mark.name == "parametrize"]
    assert {rule for rule, _ in marks[0].args[1]} == set(RULES)


def test_code_in_a_document_is_no_prose():
    assert [text for _, text in paragraphs_of("```\nat once\n```\n    at once\n`at once`\n")] == ["`x`"]


def test_a_hit_names_its_line():
    (hit,) = hits_in("code", "module.py", prose_of('x = 1\n"""One\nline, and\nall at once."""\n'))
    assert (hit.rule, hit.place) == ("at-once", "module.py:4")
