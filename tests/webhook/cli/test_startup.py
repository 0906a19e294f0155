"""What the commands that are typed most load: neither models nor servers, which take longer than the commands."""

import os
import subprocess
import sys

import pytest

from tests.webhook.cli.conftest import kubeconfig

SLOW = {"numpy", "pydantic", "aiohttp", "rich", "kubernetes_asyncio", "cryptography", "prometheus_client"}
CODE = "import sys, atexit; from webhook.cli import main; atexit.register(lambda: print(*sys.modules)); main({!r})"


def loaded(*arguments, **environment):
    """Return the exit code of a command, what it printed, and the modules that were there at its end."""
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **environment},
    )
    *printed, modules = done.stdout.splitlines()
    return done.returncode, printed, set(modules.split())


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["version", "--client"], id="version"),
        pytest.param(["get", "--help"], id="help-of-a-command"),
        pytest.param(["completion", "bash"], id="completion-script"),
        pytest.param(["get", "crp"], id="get-of-the-hub-of-up"),
        pytest.param(["get", "crp", "-o", "yaml"], id="get-as-yaml"),
        pytest.param(["delete", "crp", "none", "--ignore-not-found"], id="delete"),
    ],
)
def test_no_slow_library_is_loaded(hub, command):
    code, printed, modules = loaded(*command)
    assert (code, bool(printed) or command[:2] != ["get", "--help"]) == (0, True)
    assert not modules & SLOW
    assert "scorer.api.crd" not in modules


@pytest.mark.parametrize(
    "complete", [pytest.param("get ", id="kinds"), pytest.param("get ns ", id="names"), pytest.param("", id="commands")]
)
def test_a_tab_loads_none_either(hub, complete):
    words = f"harbormaster {complete}"
    code, printed, modules = loaded(
        _HARBORMASTER_COMPLETE="bash_complete", COMP_WORDS=words, COMP_CWORD=str(len(words.split(" ")) - 1)
    )
    assert code == 0
    assert printed
    assert not modules & SLOW


def test_a_kubeconfig_with_a_token_needs_no_library_to_be_read(hub, tmp_path):
    file = kubeconfig(hub, tmp_path / "config")
    code, printed, modules = loaded("get", "ns", "--kubeconfig", str(file))
    assert (code, printed[0].split()[0]) == (0, "NAME")
    assert not modules & SLOW
