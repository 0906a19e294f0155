"""The example of node disruption: admitted, of the size it says, and what its page says comes of it."""

import re
import textwrap

import pytest
import yaml
from click.testing import CliRunner

from scorer.api.kinds import NODE_POOL, group_kind
from scorer.node_budgets.blockers import BlockReason
from scorer.node_disruption.candidates.refusals import DisruptionBlockReason, DisruptionEventReason, Held
from scorer.node_disruption.simulation.simulator import PASSING
from tests.docs.pages import DOCS, ROOT, read_page
from webhook.admission.judge import judge
from webhook.cli.disruption.cluster_dump import DUMP_LINE
from webhook.cli.disruption.simulate_output import HEADERS, HELD_HEADERS
from webhook.cli.root import root
from webhook.validation.framework.context import Context

WEEK = ROOT / "examples" / "disruption"
PAGE = DOCS / "node-disruption.md"


def documents(path):
    for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
        yield from document["items"] if document["kind"] == "List" else [document]


OBJECTS = [each for path in sorted((WEEK / "dump").glob("*.yaml")) for each in documents(path)]
POOLS = {each["metadata"]["name"]: each for each in OBJECTS if group_kind(each) == NODE_POOL.group_kind}


def run(*words):
    return CliRunner().invoke(root, [str(each) for each in words], prog_name="harbormaster")


def shown_on_the_page():
    """Yield each call of the page with what the page says that it prints."""
    for block in read_page(PAGE).blocks:
        if block.startswith("$ "):
            call, _, output = textwrap.dedent(block).partition("\n")
            yield call.removeprefix("$ harbormaster ").split(), output.strip("\n")


CALLS = list(shown_on_the_page())


@pytest.mark.parametrize(("words", "output"), CALLS, ids=["table", "changed"])
def test_the_page_shows_what_the_command_prints(words, output, monkeypatch):
    monkeypatch.chdir(ROOT)
    result = run(*words)
    assert result.exit_code == 2, result.stderr
    printed = result.stdout.strip("\n")
    if output.startswith("…\n"):
        assert printed.endswith("\n" + output.removeprefix("…\n"))
    else:
        assert printed == output


def test_the_page_has_the_line_that_makes_a_dump():
    assert DUMP_LINE + "\n" in read_page(PAGE).blocks


def test_the_page_explains_every_heading_that_needs_it():
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"`{each}`" in text for each in ("DELAYED BY", "SAVES", "NEW NODES"))
    assert {"DELAYED BY", "SAVES", "NEW NODES"} < set(HEADERS)
    assert "BLOCKED BY" in HELD_HEADERS


def test_the_page_explains_whatever_can_hold_a_node():
    """Of what the planner and the drain can say, as far as a simulation has it: nothing is reserved there."""
    causes = {each for each in DisruptionBlockReason if Held("", "", each, "").event is DisruptionEventReason.BLOCKED}
    words = {*causes, *BlockReason} - {BlockReason.RESERVED, BlockReason.PODS_UNKNOWN, BlockReason.NO_CLAIM} - PASSING
    explained = set(re.findall(r"^\| (\w+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert {each.value for each in words} - explained == set()


@pytest.mark.parametrize("pool", POOLS.values(), ids=POOLS)
def test_the_pools_are_admitted(pool):
    judgement = judge("CREATE", pool, None, Context.of_objects([]))
    assert judgement.errors == ()


@pytest.mark.parametrize(
    ("pool", "published"),
    [
        ("general", "three-budgets"),
        ("office", "typical"),
        ("weekend", "weekend-as-published"),
        ("steps", "step-wise-as-published"),
    ],
)
def test_the_budgets_are_those_that_were_published(pool, published):
    (document,) = documents(ROOT / "examples" / "budgets" / f"{published}.yaml")
    assert POOLS[pool]["spec"]["disruption"]["budgets"] == document["spec"]["disruption"]["budgets"]


def test_the_example_is_small():
    kinds = [each["kind"] for each in OBJECTS]
    assert (kinds.count("Node"), kinds.count("NodeClaim")) == (17, 17)
    assert kinds.count("Pod") <= 62
