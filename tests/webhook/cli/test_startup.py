"""What the commands that are typed most load: neither models nor servers, which take longer than the commands."""

import json
import os
import sys

import pytest

from tests.webhook.cli.conftest import kubeconfig, running_hub
from tests.webhook.cli.terminal import run

SLOW = {"numpy", "pydantic", "aiohttp", "rich", "kubernetes_asyncio", "cryptography", "prometheus_client"}
SLOW |= {"scorer.api.crd.definitions"}
CODE = """
import io, json, os, sys
from contextlib import redirect_stdout
from webhook.cli import main
for name, (command, environment) in json.loads(sys.argv[1]).items():
    before, printed, code = set(sys.modules), io.TextIOWrapper(io.BytesIO()), 0
    os.environ |= environment
    try:
        with redirect_stdout(printed):
            main(command)
    except SystemExit as end:
        code = end.code
    printed.flush()
    text = printed.buffer.getvalue().decode()
    print(json.dumps([name, code, text, sorted(set(sys.modules) - before)]))
    for name in environment:
        del os.environ[name]
"""


def tab(words):
    """Return a call by which bash asks what can follow *words*."""
    count = str(len(words.split(" ")) - 1)
    return [], {"_HARBORMASTER_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": count}


CALLS = {
    "version": (["version", "--client"], {}),
    "help-of-a-command": (["get", "--help"], {}),
    "completion-script": (["completion", "bash"], {}),
    "get-of-the-hub-of-up": (["get", "ns"], {}),
    "get-as-yaml": (["get", "ns", "-o", "yaml"], {}),
    "get-by-a-kubeconfig": (["get", "ns", "--kubeconfig", "config"], {}),
    "delete": (["delete", "crp", "none", "--ignore-not-found"], {}),
    "help-of-explain": (["explain", "--help"], {}),
    "help-of-plan": (["plan", "--help"], {}),
    "help-of-gate": (["gate", "--help"], {}),
    "help-of-lint": (["lint", "--help"], {}),
    "gate-of-the-hub-of-up": (["gate", "list"], {}),
    "explain-of-the-hub-of-up": (["explain", "crp/none"], {}),
    "plan-of-the-hub-of-up": (["plan", "--lost", "none"], {}),
    "tab-options-of-plan": tab("harbormaster plan --"),
    "tab-options-of-lint": tab("harbormaster lint --"),
    "tab-kinds": tab("harbormaster get "),
    "tab-names": tab("harbormaster get ns "),
    "tab-commands": tab("harbormaster "),
}


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    """Make all calls in one process; return the code of each, what it printed, and the modules that it has loaded."""
    folder = tmp_path_factory.mktemp("startup")
    with running_hub(folder / "hub") as hub:
        kubeconfig(hub, folder / "config")
        environment = {**os.environ, "HARBORMASTER_DATA": str(hub.data)}
        done = run(sys.executable, "-c", CODE, json.dumps(CALLS), env=environment, cwd=folder)
    assert done.returncode == 0, done.stderr
    return {name: rest for name, *rest in map(json.loads, done.stdout.splitlines())}


UNANSWERED = {"gate-of-the-hub-of-up", "explain-of-the-hub-of-up", "plan-of-the-hub-of-up"}
"""The hub of these tests has no ``/v1``."""
CONNECTING = {"asyncio", "ssl", "urllib3", "aiohttp", "kubernetes_asyncio"}
OF_RUNS = {"scorer.staged_update.phase", "scorer.upgrade.evaluation"}
STRATEGIES = """
apiVersion: placement.kubernetes-fleet.io/v1
kind: ClusterStagedUpdateStrategy
metadata: {name: web}
spec: {stages: [{name: all}]}
---
apiVersion: upgrade.harbormaster.dev/v1alpha1
kind: ClusterUpgradeStrategy
metadata: {name: web}
spec: {stages: [{name: all, groups: [{name: all}]}]}
"""
OF_PLANS = {"webhook.answers.proposal", "scorer.what_if", "scorer.staged_update", "scorer.upgrade", "croniter"}
PLACEMENT = """
apiVersion: placement.kubernetes-fleet.io/v1
kind: ClusterResourcePlacement
metadata: {name: web}
spec:
  resourceSelectors: [{group: "", version: v1, kind: Namespace, name: web}]
  policy: {placementType: PickAll}
"""


@pytest.mark.parametrize(
    ("words", "unused"),
    [
        pytest.param(["explain", "-f", "web.yaml", "crp/web"], CONNECTING | OF_PLANS, id="explain"),
        pytest.param(["lint", "web.yaml"], CONNECTING | OF_PLANS, id="lint"),
        pytest.param(["plan", "-f", "web.yaml"], CONNECTING, id="plan"),
    ],
)
def test_a_command_on_files_loads_only_what_their_kinds_need(words, unused, tmp_path):
    (tmp_path / "web.yaml").write_text(PLACEMENT)
    done = run(sys.executable, "-c", CODE, json.dumps({"it": (words, {})}), cwd=tmp_path)
    _, code, _, modules = json.loads(done.stdout)
    assert code in (0, 2), done.stderr
    assert not (unused | {"scorer.api.crd.definitions"}) & set(modules)


def test_lint_of_strategies_does_not_load_the_evaluation_of_runs(tmp_path):
    (tmp_path / "all.yaml").write_text(f"{PLACEMENT}---{STRATEGIES}")
    done = run(sys.executable, "-c", CODE, json.dumps({"it": (["lint", "all.yaml"], {})}), cwd=tmp_path)
    _, code, printed, modules = json.loads(done.stdout)
    assert code == 0, printed
    assert {"webhook.validation.live.upgrade", "webhook.defaulting.approval_request"} <= set(modules)
    assert not OF_RUNS & set(modules)


BUILT = """
import sys
from contextlib import suppress
from webhook.cli import main
with suppress(SystemExit):
    main(sys.argv[1:])
from pydantic import BaseModel
from scorer.staged_update.approval import analysis
models = BaseModel.__subclasses__()
for model in models:
    models += model.__subclasses__()
print(*(model.__name__ for model in models if model.__pydantic_complete__), analysis._STAGES.pydantic_complete)
"""


def test_lint_builds_no_validators_of_defaults(tmp_path):
    (tmp_path / "all.yaml").write_text(f"{PLACEMENT}---{STRATEGIES}")
    done = run(sys.executable, "-c", BUILT, "lint", "all.yaml", cwd=tmp_path)
    *models, is_analysis_built = done.stdout.splitlines()[-1].split()
    assert "ClusterUpgradeStrategy" in models, done.stderr
    assert not [name for name in models if name.endswith("Status") or name in {"Budget", "ObjectMeta"}]
    assert is_analysis_built == "False"


@pytest.mark.parametrize("name", CALLS)
def test_no_slow_library_is_loaded(ended, name):
    code, printed, modules = ended[name]
    assert (code, bool(printed)) == (1 if name in UNANSWERED else 0, name not in {"delete", *UNANSWERED})
    assert not SLOW & set(modules)
