"""The table of verdicts on clones of repositories."""

import sys

import pytest

from tests.corpus import main

POOL = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec:
  template: {spec: {nodeClassRef: {group: a, kind: b, name: c}, requirements: []}}
  disruption: {budgets: [{nodes: "50%"}, {nodes: "0"}]}
"""


@pytest.fixture
def clones(tmp_path):
    """Two clones: one of files of others, one with a pool and a broken file of ours."""
    files = {
        "foreign/mkdocs.yml": "a: !x b\n",
        "ours/pool.yaml": POOL,
        "ours/a.yaml": "apiVersion: karpenter.sh/v1\na: [\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_every_run_reports(clones, capsys):
    assert main([str(clones)]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [row[:4] for row in rows[1:6]] == [
        ["foreign", command, "reported", "0"] for command in ("lint", "hook", "validate", "test", "plan")
    ]
    assert [row[:7] for row in rows[6:9]] == [
        ["ours", command, "reported", "1", "1", errors, "1"]
        for command, errors in (("lint", "1"), ("hook", "1"), ("validate", "0"))
    ]


def test_a_program_that_breaks_fails(clones, capsys):
    assert main([str(clones), "--command", "lint", "--program", f"{sys.executable} -c 1/0"]) == 1
    assert "traceback" in capsys.readouterr().out
