"""Which hub ``harbormaster unregister`` uses. What it does there: ``tests/webhook/processes/test_unregister.py``."""

from pathlib import Path

import pytest

from tests.webhook.cli.conftest import kubeconfig


@pytest.fixture
def usual(cli, hub, monkeypatch):
    """A hub in ``~/.kube/config``; no variable names a kubeconfig, and this is no pod."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    folder = Path.home() / ".kube"
    folder.mkdir(parents=True)
    kubeconfig(hub, folder / "config")
    return cli


@pytest.mark.parametrize("words", [(), ("--context", "here")], ids=["current-context", "context"])
def test_the_usual_kubeconfig_is_read(usual, words):
    result = usual("unregister", *words)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "ValidatingWebhookConfiguration/harbormaster not found" in result.stdout


def test_all_files_of_the_variable_are_searched_for_a_context(usual, monkeypatch, tmp_path):
    other = tmp_path / "other"
    other.write_text("apiVersion: v1\nkind: Config\n")
    monkeypatch.setenv("KUBECONFIG", f"{other}:{Path.home() / '.kube' / 'config'}")
    result = usual("unregister", "--context", "here")
    assert (result.exit_code, result.stderr) == (0, "")


def test_a_context_selects_a_kubeconfig_in_a_pod(usual, monkeypatch):
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    assert usual("unregister", "--context", "here").exit_code == 0


def test_a_pod_uses_its_account(usual, monkeypatch):
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    result = usual("unregister")
    assert result.exit_code == 1
    assert "does not run in a pod" in result.stderr  # it lacks the files of an account


def test_an_unknown_context_is_refused_with_those_that_exist(usual):
    result = usual("unregister", "--context", "there")
    assert result.exit_code == 1
    assert result.stderr.endswith(f"kubeconfig {Path.home()}/.kube/config: has no context 'there', available: here\n")
