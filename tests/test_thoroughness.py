"""Random tests try what they are told to try, and no failure is made smaller for minutes."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture import engine

from scorer.api.kinds import NAMESPACE
from tests import thoroughness
from tests.docs.pages import ROOT
from tests.thoroughness import DEFAULT_EXAMPLES, SHRINKING_SECONDS, SOAK, delay_writes, examples, seed_of
from tests.webhook.controllers.by_hand import opened
from tests.webhook.kube.still_time import run_in_still_time
from webhook.embedded.storage.store import EmbeddedStore


def test_a_third_of_the_examples_are_tried_but_in_a_soak():
    assert [examples(count) for count in (1, 2, 25, 100)] == ([1, 2, 25, 100] if SOAK else [1, 1, 9, 34])


def test_a_test_that_says_nothing_tries_its_share_of_the_usual_number():
    tried = []

    @given(st.integers())
    def check(number):
        tried.append(number)

    check()
    assert len(tried) == examples(DEFAULT_EXAMPLES)


def test_no_example_has_a_deadline_and_smaller_ones_are_looked_for_only_so_long():
    assert settings().deadline is None
    assert engine.MAX_SHRINKING_SECONDS == SHRINKING_SECONDS


def test_what_goes_on_for_longer_in_a_soak_is_run_by_it():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    found = re.search(r"^SOAK := (.*)$", makefile, re.MULTILINE)
    assert found is not None
    run = {word for word in found[1].split() if word.endswith(".py")}
    files = {path.relative_to(ROOT).as_posix(): path for path in (ROOT / "e2e").glob("*/test_*.py")}
    modules = {
        name: path.read_text(encoding="utf-8") for name, path in files.items() if not name.startswith("e2e/soak/")
    }
    assert modules
    assert {name for name, text in modules.items() if "mark.soak" in text} == run
    assert {name for name, text in modules.items() if re.search(r"\bif SOAK\b", text)} <= run


def test_a_store_takes_no_time_where_time_stands_still(monkeypatch):
    """Otherwise a test that measures by that time would measure the delay."""
    monkeypatch.setattr(EmbeddedStore, "_turn", EmbeddedStore._turn)  # put back in the end
    monkeypatch.setattr(thoroughness, "DELAYED_SHARE", 1.0)
    delay_writes(1)

    async def scenario(loop):
        begun = loop.time()
        with opened() as store:
            await store.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
        assert loop.time() == begun

    run_in_still_time(scenario)


@pytest.mark.parametrize(("text", "seed"), [("", None), ("0", 0), ("28", 28)])
def test_a_seed_is_a_number_or_unset(text, seed):
    assert seed_of(text) == seed


@pytest.mark.parametrize("text", ["x", "-1", "1.5", " 1"])
def test_another_seed_is_refused_by_name_and_value(text):
    with pytest.raises(ValueError, match=re.escape(f"HARBORMASTER_SEED must be a decimal number, not {text!r}")):
        seed_of(text)
