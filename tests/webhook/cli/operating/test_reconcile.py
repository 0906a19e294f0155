"""`reconcile` and `serve --reconcile`: what they refuse to begin with, and how they write their log."""

import contextlib
import json
import re
import signal
import subprocess

import pytest
import yaml

from tests.webhook.cli.terminal import SCRIPTS

KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "hub", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "me", "user": {"token": "t"}}],
    "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "me"}}],
    "current-context": "hub",
}


@pytest.fixture
def kubeconfig(tmp_path):
    path = tmp_path / "hub.kubeconfig"
    path.write_text(yaml.safe_dump(KUBECONFIG), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("environment", "words", "complaint"),
    [
        pytest.param({}, [], "no --kubeconfig is given, and the process does not run in a pod", id="no-pod"),
        pytest.param({}, ["--kubeconfig", "none"], "kubeconfig none: no such file or directory", id="no-kubeconfig"),
        pytest.param({}, ["--namespace", "A b"], "namespace: 'A b'", id="namespace"),
        pytest.param({}, ["--http-port", "70000"], "Invalid value for '--http-port'", id="port"),
        pytest.param({"ALLOWED_KINDS": "a/b/c/d"}, [], "HARBORMASTER_ALLOWED_KINDS: 'a/b/c/d'", id="kinds"),
        pytest.param({"FORCE_DELETE_SECONDS": "5"}, [], "HARBORMASTER_FORCE_DELETE_SECONDS: '5'", id="force-delete"),
        pytest.param({}, ["--shards", "0"], "'--shards': 0 is not in the range 1<=x<=64", id="no-shards"),
        pytest.param({}, ["--shards", "65"], "'--shards': 65 is not in the range 1<=x<=64", id="too-many-shards"),
        pytest.param({}, ["--shards", "two"], "'--shards': 'two' is not a valid integer", id="shards-in-words"),
        pytest.param({"SHARDS": "0"}, [], "HARBORMASTER_SHARDS: '0'", id="no-shards-by-variable"),
        pytest.param({"SHARDS": "2.5"}, [], "HARBORMASTER_SHARDS: '2.5'", id="half-a-shard"),
        pytest.param(
            {"BLOCKED_KINDS": "a", "ALLOWED_KINDS": "b"},
            [],
            "must not be set when blocked_kinds is set",
            id="both-lists",
        ),
    ],
)
def test_reconcile_says_what_it_cannot_use(cli, monkeypatch, environment, words, complaint):
    monkeypatch.delenv("KUBECONFIG", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(f"HARBORMASTER_{name}", value)
    done = cli("reconcile", *words)
    assert (done.exit_code, done.stdout) == (1, "")
    assert complaint in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_context_that_is_missing_is_named(cli, kubeconfig):
    done = cli("reconcile", "--kubeconfig", str(kubeconfig), "--context", "elsewhere")
    assert done.exit_code == 1
    assert "elsewhere" in done.stderr


def test_an_identity_goes_with_the_loop(cli):
    done = cli("serve", "--identity", "me")
    assert done.exit_code == 1
    assert "--identity requires --reconcile" in done.stderr


def test_shards_go_with_the_loop_of_a_hub(cli):
    done = cli("serve", "--shards", "2")
    assert done.exit_code == 1
    assert "--shards requires --reconcile" in done.stderr
    done = cli("up", "--shards", "2")
    assert done.exit_code == 1
    assert "No such option '--shards'" in done.stderr


def first_line_of_the_log(*command):
    """Run a command that runs for ever until it has logged something."""
    with subprocess.Popen([SCRIPTS / "harbormaster", *command], stderr=subprocess.PIPE, text=True) as running:
        try:
            return next(line for line in running.stderr if not line.startswith("harbormaster "))
        finally:
            with contextlib.suppress(ProcessLookupError):
                running.send_signal(signal.SIGKILL)


@pytest.mark.parametrize(
    ("command", "words"),
    [pytest.param("reconcile", (), id="json"), pytest.param("agent", ("--log-format", "text"), id="text")],
)
def test_the_log_is_for_machines_or_for_people(kubeconfig, command, words):
    """Their hub does not answer, which is what the log says."""
    agent = ("--cluster", "berlin", "--hub-kubeconfig", str(kubeconfig)) if command == "agent" else ()
    line = first_line_of_the_log(command, "--kubeconfig", str(kubeconfig), "--http-port", "0", *agent, *words)
    if "text" in words:
        assert re.match(r"\d\d:\d\d:\d\d\.\d{3} [A-Z]+ +webhook\.[a-z_.]+: \w", line)
    else:
        assert {"ts", "level", "logger", "msg"} <= json.loads(line).keys()


def test_other_forms_of_the_log_are_refused(cli, kubeconfig):
    done = cli("reconcile", "--kubeconfig", str(kubeconfig), "--log-format", "xml")
    assert done.exit_code == 1
    assert "'xml' is not one of 'json', 'text'" in done.stderr
