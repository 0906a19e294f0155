"""What documents tell people to type is there: commands, options, variables, targets of make, files."""

import re

import click
import pytest

from tests.docs.calls import calls_in, calls_in_line, calls_to_type, make_targets_in, mistake_in, misuse_in
from tests.docs.pages import DOCUMENTS, REFERENCE, ROOT, read_page
from tests.docs.reference.commands import in_context
from webhook.cli.root import root

NOTES = sorted(ROOT.glob("charts/*/templates/NOTES.txt"))
VARIABLE = re.compile(r"HARBORMASTER_[A-Z_]*[A-Z]")
OF_THE_TESTS = frozenset({"HARBORMASTER_VECTORS", "HARBORMASTER_SOAK", "HARBORMASTER_SEED"})
"""Variables that no program of ours reads."""

documents = pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))


@documents
def test_commands_and_options_exist(path):
    mistakes = {" ".join(call): mistake for call in calls_in(path) if (mistake := mistake_in(call))}
    assert mistakes == {}


@documents
def test_calls_in_blocks_are_whole(path):
    """No argument is missing or too many, and every value is one that its option takes."""
    assert {" ".join(call): misuse for call in calls_to_type(path) if (misuse := misuse_in(call))} == {}


def test_to_look_for_mistakes_leaves_the_help_of_a_command_as_it_is():
    """A command keeps the first option for help that it is asked for; other tests compare it with what is written."""
    command = root.get_command(in_context(root, None, "harbormaster"), "validate")
    assert command is not None
    command._help_option = None
    assert misuse_in(("validate", "--help")) == ""
    assert "-h, --help" in command.get_help(click.Context(command))


@pytest.mark.parametrize("path", NOTES, ids=lambda path: path.parts[-3])
def test_what_helm_says_after_an_installation_can_be_typed(path):
    calls = [call for line in path.read_text(encoding="utf-8").splitlines() for call in calls_in_line(line.strip())]
    assert any(call[0] == "doctor" for call in calls)
    assert [mistake for call in calls if (mistake := mistake_in(call))] == []


@documents
def test_targets_of_make_exist(path):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert [name for name in make_targets_in(path) if not re.search(rf"^{name}:", makefile, re.MULTILINE)] == []


@documents
def test_variables_exist(path):
    """They are among the settings, whose page is made from the code."""
    known = set(VARIABLE.findall((REFERENCE / "settings.md").read_text(encoding="utf-8")))
    assert sorted(set(VARIABLE.findall(path.read_text(encoding="utf-8"))) - known - OF_THE_TESTS) == []


@documents
def test_example_files_exist(path):
    page = read_page(path)
    named = {name for text in (*page.blocks, *page.spans) for name in re.findall(r"examples/[\w./-]*\w", text)}
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


@pytest.mark.parametrize(
    ("line", "calls"),
    [
        pytest.param("harbormaster get crp -w   # follow", [("get", "crp", "-w")], id="comment"),
        pytest.param("$ harbormaster crds | kubectl apply -f -", [("crds",)], id="pipe"),
        pytest.param(
            "HARBORMASTER_X=1 harbormaster serve --host 0.0.0.0", [("serve", "--host", "0.0.0.0")], id="variable"
        ),
        pytest.param("kubectl harbormaster plan --hub", [("plan", "--hub")], id="plugin"),
        pytest.param("kubectl get crp -o yaml | harbormaster plan --on -", [("plan", "--on", "-")], id="after-a-pipe"),
        pytest.param("try:   harbormaster get crp", [], id="what-a-program-prints"),
        pytest.param("kubectl create namespace harbormaster", [], id="a-word-among-others"),
    ],
)
def test_calls_are_found(line, calls):
    assert list(calls_in_line(line)) == calls


@pytest.mark.parametrize(
    ("call", "mistake"),
    [
        pytest.param("rbac agent --apply-rbac", "", id="all-known"),
        pytest.param("COMMAND --help", "", id="stands-for-any"),
        pytest.param("rehearse", "harbormaster has no command rehearse", id="command"),
        pytest.param("plan --hub --rehearse", "harbormaster plan has no option --rehearse", id="option"),
        pytest.param("gate open", "harbormaster gate has no command open", id="command-of-a-group"),
    ],
)
def test_mistakes_in_calls_are_found(call, mistake):
    assert mistake_in(call.split()) == mistake


@pytest.mark.parametrize(
    ("call", "misuse"),
    [
        pytest.param("explain crp/payments busybee", "", id="whole"),
        pytest.param("plan --help", "", id="help-needs-nothing"),
        pytest.param("run status RUN -w", "", id="stands-for-any"),
        pytest.param("explain", "missing PLACEMENT", id="argument"),
        pytest.param("gate list now", "unexpected argument now", id="too-many"),
        pytest.param("gate", "harbormaster gate needs a command", id="command-of-a-group"),
        pytest.param("plan -f", "Option '-f' requires an argument.", id="value"),
        pytest.param(
            "up --https-port 99999",
            "Invalid value for '--https-port': 99999 is not in the range 0<=x<=65535.",
            id="value-out-of-range",
        ),
    ],
)
def test_misuse_of_commands_is_found(call, misuse):
    assert misuse_in(call.split()) == misuse
