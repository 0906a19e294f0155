"""`agent`: what it refuses to begin with."""

import json
import socket

import pytest


@pytest.fixture
def kubeconfig(tmp_path):
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        pytest.param([], "Missing option '--cluster'", id="no-cluster"),
        pytest.param(
            ["--cluster", "Berlin"], "--cluster: 'Berlin' is not the name of a MemberCluster", id="capital-letters"
        ),
        pytest.param(["--cluster", "a.b"], "--cluster: 'a.b' is not the name of a MemberCluster", id="a-dot"),
        pytest.param(["--cluster", "a" * 51], "has 51 characters, at most 50 are allowed", id="too-long"),
        pytest.param(
            ["--cluster", "a", "--provider-command", "say 'hello"],
            '--provider-command: "say \'hello": no closing quotation',
            id="open-quotes",
        ),
        pytest.param(["--cluster", "a", "--http-port", "70000"], "--http-port", id="no-port"),
        pytest.param(["--cluster", "a", "--prices", "none.yaml"], "none.yaml: no such file or directory", id="no-file"),
        pytest.param(["--cluster", "a", "--context", "none"], "none", id="no-context"),
    ],
)
def test_what_cannot_be_used_is_named(cli, kubeconfig, words, complaint):
    done = cli("agent", "--hub-kubeconfig", kubeconfig, "--kubeconfig", kubeconfig, *words)
    assert done.exit_code == 1
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr


def test_without_a_kubeconfig_of_the_hub_the_member_is_asked(cli, kubeconfig):
    done = cli("agent", "--cluster", "a", "--kubeconfig", kubeconfig)
    assert done.exit_code == 1
    assert "error: cannot determine the namespace of the agent: http://127.0.0.1:1 does not answer" in done.stderr
    done = cli("agent", "--cluster", "a", "--kubeconfig", kubeconfig, "--hub-context", "x")
    assert "error: --hub-context 'x': requires --hub-kubeconfig FILE" in done.stderr


def test_a_missing_kubeconfig_is_named(cli, tmp_path, kubeconfig, monkeypatch):
    done = cli("agent", "--cluster", "a", "--hub-kubeconfig", tmp_path / "none", "--kubeconfig", kubeconfig)
    assert done.exit_code == 1
    assert f"kubeconfig {tmp_path / 'none'}: no such file or directory" in done.stderr
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    done = cli("agent", "--cluster", "a", "--hub-kubeconfig", kubeconfig)
    assert done.exit_code == 1
    assert "no --kubeconfig is given, and the process does not run in a pod" in done.stderr


def test_a_mistake_in_the_price_list_is_named(cli, tmp_path, kubeconfig):
    prices = tmp_path / "prices.yaml"
    prices.write_text("prices:\n  small: cheap\n", encoding="utf-8")
    files = ["--hub-kubeconfig", kubeconfig, "--kubeconfig", kubeconfig, "--prices", prices]
    done = cli("agent", "--cluster", "a", *files)
    assert done.exit_code == 1
    message = f'{prices}: line 2: prices.small: "cheap" is not a price per hour'
    assert message in done.stderr


def test_a_port_that_is_taken_is_named(cli, kubeconfig):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        files = ["--hub-kubeconfig", kubeconfig, "--kubeconfig", kubeconfig]
        done = cli("agent", "--cluster", "a", *files, "--http-port", port)
    assert done.exit_code == 1
    assert f"cannot listen on 127.0.0.1:{port}: " in done.stderr
    assert "--http-port" in done.stderr
