"""The program itself: help, names, exit codes, output for people and for machines.

A process is started only for what belongs to one: its name, its streams, its signals, and what it imports.
"""

import json
import os
import signal
import sys

import click
import pytest
import yaml
from click.testing import CliRunner

from tests.docs.pages import ROOT
from tests.webhook.cli.fleets import by_nodes, member, placement, write
from tests.webhook.cli.terminal import SCRIPTS, on_a_terminal, program, run
from webhook.cli.root import SECTIONS, root

ENTRIES = [entry for entries in SECTIONS.values() for entry in entries]
NAMES = [entry.name for entry in ENTRIES]


@pytest.mark.parametrize("name", NAMES)
def test_every_command_has_help_with_examples_and_exit_codes(name):
    result = CliRunner().invoke(root, [name, "--help"], prog_name="harbormaster")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"Usage: harbormaster {name} ")
    assert "Examples:" in result.stdout
    assert "Exit codes:" in result.stdout
    listed = next(entry.help for entries in SECTIONS.values() for entry in entries if entry.name == name)
    assert root.get_command(click.Context(root), name).short_help == listed


def test_help_is_shown_without_importing_the_commands():
    code = "import sys; from webhook.cli import main\ntry: main(['--help'])\nfinally: print(*sys.modules)"
    done = run(sys.executable, "-c", code)
    assert done.returncode == 0
    assert "Start here:" in done.stdout
    loaded = set(done.stdout.splitlines()[-1].split())
    commands = {f"webhook.cli.{entry.module}" for entry in ENTRIES}
    assert not loaded & {"numpy", "pydantic", "aiohttp", "rich", "yaml", *commands}


def test_the_plugin_goes_by_the_name_that_kubectl_users_type():
    done = program("version", "--help", name="kubectl-harbormaster")
    assert done.stdout.startswith("Usage: kubectl harbormaster version ")


def test_under_another_name_a_plugin_is_still_one(tmp_path):
    """Else it would ask another hub than kubectl."""
    (tmp_path / "kubectl-hm").symlink_to(SCRIPTS / "kubectl-harbormaster")
    environment = {name: text for name, text in os.environ.items() if name != "KUBECONFIG"} | {"HOME": str(tmp_path)}
    done = program("get", "crp", name=tmp_path / "kubectl-hm", env=environment)
    missing = tmp_path / ".kube" / "config"
    assert done.stderr == (
        f"error: kubeconfig {missing}: no such file or directory. Give another kubeconfig with --kubeconfig FILE\n"
    )


def test_no_command_is_a_question_for_help(cli):
    done = cli()
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: harbormaster ")


def test_an_error_is_one_line_and_exit_code_1():
    """Of the process; `test_wrong_calls` has a table of errors."""
    done = program("sail")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: No such command 'sail'. (see: harbormaster --help)\n"


def test_what_could_steer_a_terminal_is_replaced(cli, tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text('apiVersion: v1\nkind: "\\e[2JPwned"\nmetadata: {name: a}')
    done = cli("plan", "-f", file)
    assert "\x1b" not in done.stderr
    assert "Pwned" in done.stderr


def test_version_and_definitions(cli):
    assert cli("version", "--client").stdout.split() == [
        "harbormaster",
        json.loads(cli("version", "--client", "-o", "json").stdout)["version"],
    ]
    assert cli("--version").stdout == cli("version", "--client").stdout
    documents = list(yaml.load_all(cli("crds").stdout, yaml.CSafeLoader))
    assert {document["kind"] for document in documents} == {"CustomResourceDefinition"}
    assert json.loads(cli("crds", "-o", "json").stdout)["items"] == documents


def test_definitions_have_the_default_state_of_the_setting(cli, monkeypatch):
    def states():
        items = json.loads(cli("crds", "-o", "json").stdout)["items"]
        return {
            version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["state"]["default"]
            for item in items
            if item["spec"]["names"]["kind"] in ("ClusterStagedUpdateRun", "StagedUpdateRun")
            for version in item["spec"]["versions"]
        }

    assert states() == {"Initialize"}
    monkeypatch.setenv("HARBORMASTER_STAGED_RUNS_DEFAULT_STATE", "Run")
    assert states() == {"Run"}
    monkeypatch.setenv("HARBORMASTER_STAGED_RUNS_DEFAULT_STATE", "Sometimes")
    done = cli("crds")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("error: HARBORMASTER_STAGED_RUNS_DEFAULT_STATE: 'Sometimes'")


def test_json_schemas_are_written_where_editors_find_them(cli, tmp_path):
    folder = tmp_path / "new" / "schemas"
    done = cli("crds", "--json-schemas", folder)
    assert done.stdout == f"{len(list(folder.rglob('*.json')))} schemas written to {folder}\n"
    schema = json.loads((folder / "karpenter.sh" / "nodepool_v1.json").read_text())
    assert schema["properties"]["kind"]["const"] == "NodePool"
    assert cli("crds", "--json-schemas", folder).exit_code == 0


@pytest.mark.parametrize("place", [pytest.param("file", id="a-file"), pytest.param("file/below", id="below-a-file")])
def test_json_schemas_where_there_can_be_no_folder(cli, tmp_path, place):
    (tmp_path / "file").touch()
    done = cli("crds", "--json-schemas", tmp_path / place)
    assert (done.exit_code, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)
    assert str(tmp_path / "file") in done.stderr


def test_help_is_that_of_the_command(cli):
    assert cli("help", "run", "start").stdout == cli("run", "start", "--help").stdout
    assert cli("help").stdout == cli("--help").stdout
    assert "No such command 'strat'" in cli("help", "run", "strat").stderr
    assert "No such command 'gett'" in cli("help", "gett").stderr


@pytest.mark.parametrize("words", [["--help"], ["status", "--help"], ["run", "start", "--help"], ["help", "run"]])
def test_examples_begin_with_the_name_of_the_program(cli, words):
    examples = cli(*words, called="kubectl harbormaster").stdout
    assert "\n    kubectl harbormaster " in examples
    assert "\n    harbormaster " not in examples
    assert "kubectl harbormaster" not in cli(*words).stdout.partition("Exit codes")[0].replace("`kubectl", "")


def test_the_program_has_the_name_of_its_file(tmp_path):
    (tmp_path / "hm").symlink_to(SCRIPTS / "harbormaster")
    assert run(tmp_path / "hm", "run", "--help").stdout.startswith("Usage: hm run ")
    assert "(see: hm --help)" in run(tmp_path / "hm", "gett").stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_that_asks_us(cli, shell):
    assert "_HARBORMASTER_COMPLETE" in cli("completion", shell).stdout


def test_completion_completes():
    environment = {
        **os.environ,
        "_HARBORMASTER_COMPLETE": "bash_complete",
        "COMP_WORDS": "harbormaster val",
        "COMP_CWORD": "1",
    }
    assert program(env=environment).stdout.split() == ["plain,validate"]


def test_a_reader_that_goes_away_is_no_error(tmp_path):
    file = write(tmp_path / "a.yaml", *(member(f"m{number}") for number in range(300)), placement())
    command = f"{SCRIPTS}/harbormaster plan -f {file} -o json | head -1"
    done = run("bash", "-c", command)
    assert (done.stdout, done.stderr) == ("{\n", "")


def test_colours_are_for_terminals_and_can_be_turned_off(cli, tmp_path):
    policy = {"placementType": "PickN", "numberOfClusters": 1, "affinity": by_nodes()}
    file = write(tmp_path / "a.yaml", member("dover"), placement(**policy))
    arguments = ("explain", "-f", file, "crp/web")
    assert "\x1b[32mPicked" in on_a_terminal(*arguments, NO_COLOR=None)
    assert "\x1b[32m" not in on_a_terminal(*arguments, NO_COLOR="1")
    assert "\x1b[" not in on_a_terminal(*arguments, TERM="dumb")
    assert "\x1b[" not in cli(*arguments).stdout


def test_a_terminal_that_lacks_a_letter_is_no_error(tmp_path):
    policy = {"placementType": "PickFixed", "clusterNames": ["dover"]}
    file = write(tmp_path / "a.yaml", member("dover", labels={"a": "b"}), placement(**policy))
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    assert program("get", "é", "--data", file, env=environment).returncode == 1
    assert program("explain", "-f", file, "crp/web", "dover", env=environment).returncode == 0


INTERRUPTED_WHILE_IMPORTING = """
import os, sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            os.kill(os.getpid(), int(sys.argv[2]))
sys.meta_path.insert(0, Interrupting())
from webhook.cli import main
main(sys.argv[3:])
"""


@pytest.mark.parametrize(
    ("number", "module", "words"),
    [
        (signal.SIGINT, "webhook.cli.process", ["version"]),
        (signal.SIGINT, "webhook.processes.garbage", ["version"]),
        (signal.SIGINT, "click", ["version"]),
        (signal.SIGTERM, "click", ["version"]),
        (signal.SIGINT, "webhook.cli.planning.plan", ["plan", "-f", "a.yaml"]),
        (signal.SIGINT, "numpy", ["plan", "-f", str(ROOT / "examples" / "fleet")]),
        (signal.SIGINT, "orjson", ["get", "crp"]),
        (signal.SIGINT, "webhook.processes.up", ["up"]),
        (signal.SIGTERM, "webhook.processes.serve", ["serve", "--tls-cert", "a", "--tls-key", "b"]),
        (signal.SIGTERM, "webhook.processes.reconcile", ["reconcile"]),
        (signal.SIGTERM, "webhook.processes.agent", ["agent", "--cluster", "dover", "--hub-kubeconfig", "a"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_signal_while_anything_is_imported_ends_it_without_a_word(number, module, words, tmp_path):
    """SIGTERM has a handler from the start: it is how the first process of a container hears of it at all."""
    environment = {name: text for name, text in os.environ.items() if name != "KUBECONFIG"}
    done = run(
        *(sys.executable, "-c", INTERRUPTED_WHILE_IMPORTING, module, int(number), *words),
        cwd=tmp_path,
        env=environment,
    )
    assert (done.returncode, done.stdout, done.stderr) == (128 + number, "", "")
