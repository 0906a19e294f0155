"""`reconcile` and `serve --reconcile`: what they refuse to begin with."""

import pytest
import yaml

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
        pytest.param({}, [], "no --kubeconfig is given and this runs in no pod", id="no-pod"),
        pytest.param({}, ["--kubeconfig", "none"], "kubeconfig none: No such file or directory", id="no-kubeconfig"),
        pytest.param({}, ["--namespace", "A b"], "namespace: 'A b'", id="namespace"),
        pytest.param({}, ["--http-port", "70000"], "Invalid value for '--http-port'", id="port"),
        pytest.param({"ALLOWED_KINDS": "a/b/c/d"}, [], "HARBORMASTER_ALLOWED_KINDS: 'a/b/c/d'", id="kinds"),
        pytest.param({"FORCE_DELETE_SECONDS": "5"}, [], "HARBORMASTER_FORCE_DELETE_SECONDS: '5'", id="force-delete"),
        pytest.param({"BLOCKED_KINDS": "a", "ALLOWED_KINDS": "b"}, [], "exclude each other", id="both-lists"),
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
    assert "--identity goes with --reconcile" in done.stderr
