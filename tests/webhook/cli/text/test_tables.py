"""Every column of every table that has states, verdicts, reasons or rules: each word of it leads to its paragraph."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from scorer.api.upgrade.fields import UpgradeState
from scorer.staged_update.phase import RunPhase
from scorer.staged_update.views.overview import _STAGE_STATES
from tests.docs.pages import ROOT
from webhook.admission.catalogue import catalogue
from webhook.answers.placements import PlacementState
from webhook.answers.upgrade_views import _STATES as WORDS_OF_UPGRADES
from webhook.cli.text.links import _explained, kinds_of_columns, url_of

COMMANDS = ROOT / "webhook" / "cli"
STATEFUL = {"STATE", "PHASE", "STATUS", "VERDICT", "REASON", "RULE", "RESULT"}
"""Headers of columns with words that documents explain."""
RULES = [entry.rule.id for entry in catalogue()]
RUNS = [str(phase).lower() for phase in RunPhase]


def words(kind):
    """Return the documented words of a kind."""
    return [key.removeprefix(f"{kind}: ") for key in _explained() if key.startswith(f"{kind}: ")]


WORDS = {
    ("staged_updates/run_list.py", "RUN", "STATE"): [*RUNS, *WORDS_OF_UPGRADES.values()],
    ("staged_updates/output.py", "STAGE", "STATE"): [
        *_STAGE_STATES.values(),
        "pending",
        "held",
        "updating",
        "done",
        "failed",
    ],
    ("upgrades/output.py", "RUN", "STATE"): [*UpgradeState],
    ("upgrades/output.py", "STAGE", "STATE"): [*UpgradeState],
    ("operating/up.py", "PLACEMENT", "STATE"): list(get_args(PlacementState)),
    ("operating/up.py", "RUN", "STATE"): RUNS,
    ("operating/up.py", "UPGRADE", "STATE"): [*UpgradeState],
    ("objects/history.py", "LAST", "REASON"): words("Event"),
    ("upgrades/plan_output.py", "MEMBER", "REASON"): words("Member"),
    ("planning/explanation.py", "RANK", "VERDICT"): words("Cluster"),
    ("linting/rules.py", "RULE", "RULE"): RULES,
    ("policy_tests/output.py", "RULE", "RULE"): RULES,
}
"""Words of each column, by module and first column of the table."""
BY_INPUT = {
    ("disruption/budgets.py", "POOL", "REASON"): "reasons that the user's budgets name",
    ("disruption/simulate_output.py", "WHEN", "REASON"): "reasons that the user's budgets name",
    ("planning/node_pools.py", "NODEPOOL", "REASON"): "reasons that the user's budgets name",
    ("disruption/gate_drain.py", "POD", "REASON"): "a sentence",
    ("linting/validate.py", "DOCUMENT", "VERDICT"): "the rules are links in WHY",
    ("policy_tests/output.py", "RESULT", "RESULT"): "the result of a test of the user",
}
"""Columns whose words no document explains, with the reason."""


def tables(path: Path) -> Iterator[list[str]]:
    """Yield the headers of each table that a module prints: literals, and the literals that its names are set to."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    called = [
        node.args[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print_table"
    ]
    named = {name.id for argument in called for name in ast.walk(argument) if isinstance(name, ast.Name)}
    found = [argument for argument in called if isinstance(argument, ast.List | ast.Tuple)]
    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        names = {target.id for target in targets if isinstance(target, ast.Name)}
        if names & {*named, "headers"} and isinstance(getattr(node, "value", None), ast.List | ast.Tuple):
            found.append(node.value)
    for literal in found:
        constants = [item.value for item in literal.elts if isinstance(item, ast.Constant)]
        if constants and all(isinstance(constant, str) for constant in constants):
            yield constants


def columns() -> list[tuple[str, str, list[str]]]:
    """Return module, header and table of each column with a header in `STATEFUL`."""
    paths = sorted(COMMANDS.rglob("*.py"))
    all_tables = [(str(path.relative_to(COMMANDS)), table) for path in paths for table in tables(path)]
    return [(module, header, table) for module, table in all_tables for header in table if header in STATEFUL]


@pytest.mark.parametrize(("module", "header", "table"), columns())
def test_every_word_of_a_column_with_states_is_a_link(module, header, table):
    column = (module, table[0], header)
    if column in BY_INPUT:
        return
    assert column in WORDS, "name the words of the column, or why no document explains them"
    kind = kinds_of_columns(table)[table.index(header)]
    assert WORDS[column]
    assert [word for word in WORDS[column] if not url_of(word, kind)] == []


def test_no_column_is_listed_that_does_not_exist():
    found = {(module, table[0], header) for module, header, table in columns()}
    assert {*WORDS, *BY_INPUT} == found


def test_the_states_of_a_stage_are_not_those_of_a_placement():
    stages = kinds_of_columns(("STAGE", "CLUSTER", "STATE"))[2]
    placements = kinds_of_columns(("PLACEMENT", "STATE"))[1]
    assert url_of("pending", stages).endswith("#stage-pending")
    assert url_of("pending", placements).endswith("#state-pending")
