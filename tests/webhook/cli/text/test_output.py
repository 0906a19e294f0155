"""Tables on terminals of any width: no column disappears and no word is cut."""

import json
import os
import pty
import re
import select
import subprocess
import sys

import pytest

from webhook.cli.objects.output_formats import Format
from webhook.cli.text.output import print_document

ROWS = [
    ["crp/monitoring", "PickAll", "all", "4", "available", ""],
    [
        "crp/reports",
        "PickN",
        "10",
        "8",
        "short",
        "found 8 of 10 clusters needed; 4 of 12 do not qualify: 2 TaintNotTolerated",
    ],
]
HEADERS = ["PLACEMENT", "TYPE", "WANTED", "PICKED", "STATE", "WHY NOT"]
CODE = f"from webhook.cli.text.output import print_table; print_table({HEADERS!r}, {ROWS!r}, colour=False)"


def on_terminal(columns: int, code: str = CODE) -> str:
    """Return what a terminal of so many columns is sent."""
    master, slave = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm", "NO_COLOR": "1"}
    with subprocess.Popen([sys.executable, "-c", code], stdout=slave, env=environment) as process:
        os.close(slave)
        text = b""
        while select.select([master], [], [], 30)[0]:
            try:
                chunk = os.read(master, 65536)
            except OSError:  # the other end is closed
                break
            if not chunk:
                break
            text += chunk
    os.close(master)
    assert process.returncode == 0
    return re.sub(r"\x1b\[[0-9;]*m", "", text.decode()).replace("\r", "")


@pytest.mark.parametrize("columns", [40, 60, 80, 100, 160])
def test_every_word_is_whole(columns):
    shown = on_terminal(columns)
    words = [word for row in (HEADERS, *ROWS) for cell in row for word in cell.split()]
    seen = shown.lower().split()
    assert [word for word in words if word.lower() not in seen and f"{word.lower()}:" not in seen] == []


@pytest.mark.parametrize("columns", [80, 100])
def test_what_does_not_fit_beside_stands_below(columns):
    lines = on_terminal(columns).splitlines()
    assert all(len(line.rstrip()) <= columns for line in lines)
    assert len(lines) <= 8


def test_with_room_it_is_one_line_each():
    assert len(on_terminal(180).splitlines()) == 3


@pytest.mark.parametrize("columns", [80, 100, 160])
def test_a_column_of_long_names_is_not_wrapped(columns):
    name = "HARBORMASTER_RESOURCE_SNAPSHOT_INTERVAL_SECONDS"
    rows = [[name, "how often placed content may change, at most, which takes more than one line of any terminal" * 2]]
    code = (
        f"from webhook.cli.text.output import print_table; print_table(['NAME', 'MEANING'], {rows!r}, whole=('NAME',))"
    )
    assert name in on_terminal(columns, code)


HOSTILE = "a\x1b]0;owned\x07\x9b2J\u202eb"


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(f"print_plain([{HOSTILE!r}], [[{HOSTILE!r}]])", id="plain-columns"),
        pytest.param(f"print_table([{HOSTILE!r}], [[{HOSTILE!r}]], colour=False)", id="table"),
        pytest.param(f"print_document({{'a': {HOSTILE!r}}}, 'json')", id="json"),
        pytest.param(f"Format('jsonpath', '{{.a}}').show({{'a': {HOSTILE!r}}})", id="jsonpath"),
        pytest.param(f"print(title_of(KINDS['rbac.authorization.k8s.io', 'Role'], {HOSTILE!r}))", id="name"),
    ],
)
def test_what_others_wrote_does_not_act_on_a_terminal(code):
    """Headers are of definitions, names of roles may be nearly anything, and messages are anybody's."""
    imports = (
        "from scorer.api.kinds import KINDS",
        "from webhook.cli.files.documents import title_of",
        "from webhook.cli.text.output import print_document, print_plain, print_table",
        "from webhook.cli.objects.output_formats import Format",
    )
    shown = on_terminal(80, "; ".join((*imports, code)))
    assert "owned" in shown
    assert [letter for letter in shown if not letter.isprintable() and letter != "\n"] == []


def test_json_stays_what_it_is_and_jsonpath_for_programs_as_well(capsys):
    print_document({"a": HOSTILE}, "json")
    assert json.loads(capsys.readouterr().out) == {"a": HOSTILE}
    Format("jsonpath", "{.a}").show({"a": HOSTILE})
    assert capsys.readouterr().out == HOSTILE
