"""Commit messages: the rules, and the hook as git runs it."""

import os
import subprocess
import sys

import pytest

from tests.contracts.commit_message import problems
from tests.contracts.sources import ROOT

GOOD = "scheduler: keep bindings whose member is unreachable"


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(GOOD, id="subject-alone"),
        pytest.param(
            f"{GOOD}\n\nA member that misses heartbeats used to lose\nits bindings.\n", id="subject-and-reason"
        ),
        pytest.param(f"{GOOD}\n# Please enter the commit message, {'very ' * 20}carefully.\n", id="comments-of-git"),
        pytest.param(f"{GOOD}\n# {'-' * 24} >8 {'-' * 24}\ndiff --git a b\n{'a b ' * 30}\n", id="verbose-diff"),
        pytest.param(f"webhook/kube: {'x' * 58}", id="72-characters"),
        pytest.param(f"{GOOD}\n\nhttps://example.com/{'x' * 80}\n", id="long-address"),
        pytest.param(f"{GOOD}\n\n    {'$ printed as it is ' * 5}\n", id="long-quotation"),
        pytest.param("fixup! whatever", id="fixup-that-a-rebase-folds"),
    ],
)
def test_a_message_in_the_form_of_the_project_is_accepted(message):
    assert list(problems(message)) == []


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        pytest.param("", "the message is empty", id="empty"),
        pytest.param("# only a comment\n", "the message is empty", id="comments-only"),
        pytest.param("Keep bindings", "must be `area: imperative summary`", id="no-area"),
        pytest.param("scheduler:keep bindings", "must be `area: imperative summary`", id="no-space"),
        pytest.param(f"webhook/kube: {'x' * 59}", "has 73 characters: 72 at most", id="73-characters"),
        pytest.param(f"{GOOD}.", "must not end with a full stop", id="full-stop"),
        pytest.param(f"{GOOD}\nA member", "'A member' must be a blank line", id="no-blank-line"),
        pytest.param(f"{GOOD}\n\n{'word ' * 20}\n", "wrap the reason at 72", id="wide-reason"),
        pytest.param("Merge branch 'next'", "rebase instead", id="merge"),
    ],
)
def test_the_broken_rule_is_named(message, problem):
    (found,) = problems(message)
    assert problem in found


def test_git_refuses_a_commit_through_the_hook(tmp_path):
    for name in (".pre-commit-config.yaml", "tests/contracts/commit_message.py"):
        copy = tmp_path / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes((ROOT / name).read_bytes())
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | {
        "PRE_COMMIT_HOME": str(tmp_path / "home"),
        "GIT_CONFIG_GLOBAL": os.devnull,
        **{f"GIT_{who}_{what}": "ann@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }

    def call(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)

    pre_commit = (sys.executable, "-m", "pre_commit", "install", "--hook-type=commit-msg")
    for command in (("git", "init", "--quiet"), pre_commit, ("git", "add", ".pre-commit-config.yaml")):
        done = call(*command)
        assert done.returncode == 0, done.stderr
    refused = call("git", "commit", "--quiet", "--message", "Keep bindings")
    assert refused.returncode == 1
    assert "commit message: 'Keep bindings' must be `area: imperative summary`" in refused.stdout + refused.stderr
    accepted = call("git", "commit", "--quiet", "--message", GOOD)
    assert accepted.returncode == 0, accepted.stdout + accepted.stderr
