"""Links from words of the output to the documents: which words, when, and that no text from an object makes one."""

import re
import tomllib

import pytest

from tests.docs.pages import ROOT
from tests.webhook.cli.fleets import member, placement, write
from tests.webhook.cli.terminal import on_a_terminal
from webhook.cli.text.links import CLUSTER, STATE, linked, links_in, url_of
from webhook.cli.text.output import print_line, print_table
from webhook.runtime.distribution import HOMEPAGE

LINK = re.compile(r"\x1b\]8;[^;]*;([^\x1b\x07]*)(?:\x1b\\|\x07)")
EVIL = "web\x1b]8;;https://evil.example\x1b\\\x1b[2Jname\x07"


@pytest.fixture(autouse=True)
def shown(monkeypatch):
    """Show links although standard output is no terminal."""
    monkeypatch.setenv("FORCE_HYPERLINK", "1")


def test_the_site_is_that_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["urls"]["Homepage"] == HOMEPAGE


@pytest.mark.parametrize(
    ("word", "kind", "place"),
    [
        pytest.param("P-25", "", "reference/rules.html#p-25", id="rule"),
        pytest.param("TaintNotTolerated", CLUSTER, "reference/refusals.html#cluster-taintnottolerated", id="category"),
        pytest.param("Picked", CLUSTER, "reference/refusals.html#cluster-picked", id="verdict"),
        pytest.param("rolling out", STATE, "reference/conditions.html#state-rolling-out", id="state"),
        pytest.param("Scheduled", "", "troubleshooting.html#scheduled", id="type"),
        pytest.param("SchedulePending", "", "troubleshooting.html#scheduled-schedulepending", id="reason"),
        pytest.param("Failed", "Available", "troubleshooting.html#available-failed", id="reason-of-a-type"),
    ],
)
def test_a_word_leads_to_its_paragraph(word, kind, place):
    assert url_of(word, kind) == f"{HOMEPAGE}/docs/{place}"


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        pytest.param("Failed", "", id="reason-of-several-types"),
        pytest.param("pending", "", id="state-in-a-sentence"),
        pytest.param("Z-99", "", id="no-rule"),
        pytest.param("https://evil.example", "", id="url"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_other_words_lead_nowhere(word, kind):
    assert url_of(word, kind) == ""


def test_in_a_sentence_only_identifiers_are_links():
    text = (
        "Scheduled: dover has SchedulingPolicyUnfulfilled (P-25), not Failed or XP-25x, harbormaster.dev/RolloutFailed"
    )
    words = [text[link.start : link.end] for link in links_in(text)]
    assert words == ["SchedulingPolicyUnfulfilled", "P-25", "harbormaster.dev/RolloutFailed"]


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        pytest.param({"FORCE_HYPERLINK": "0"}, False, id="forbidden"),
        pytest.param({"FORCE_HYPERLINK": "1", "NO_COLOR": "1", "TERM": "dumb"}, True, id="forced"),
        pytest.param({"FORCE_HYPERLINK": ""}, False, id="no-terminal"),
    ],
)
def test_the_environment_decides_first(monkeypatch, variables, expected):
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    assert ("\x1b]8;" in linked("P-25")) is expected


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        pytest.param({"NO_COLOR": None}, True, id="terminal"),
        pytest.param({"NO_COLOR": "1"}, False, id="no-color"),
        pytest.param({"NO_COLOR": None, "TERM": "dumb"}, False, id="dumb"),
        pytest.param({"NO_COLOR": None, "FORCE_HYPERLINK": "0"}, False, id="forbidden"),
    ],
)
def test_a_terminal_gets_links(tmp_path, environment, expected):
    files = write(tmp_path / "a.yaml", member("dover"), placement("web", placementType="PickAll"))
    shown = on_a_terminal("explain", "-f", files, "crp/web", **{"FORCE_HYPERLINK": None, **environment})
    assert "Picked" in shown
    assert (f"{HOMEPAGE}/docs/reference/refusals.html#cluster-picked" in LINK.findall(shown)) is expected


def test_texts_of_objects_determine_no_links(capsys):
    print_table(("NAME", "VERDICT", "WHY"), [(EVIL, "Picked", f"P-25 {EVIL}")])
    print_line(f"{EVIL}: P-25")
    written = capsys.readouterr().out
    assert {*LINK.findall(written)} == {"", url_of("P-25"), url_of("Picked", CLUSTER)}
    assert LINK.sub("", written).replace("\n", "").isprintable()


def test_columns_are_aligned_as_without_links(capsys, monkeypatch):
    rows = [("web", "Picked", "P-25"), ("longer", "TaintNotTolerated", "x")]
    print_table(("NAME", "VERDICT", "WHY"), rows)
    with_links = capsys.readouterr().out
    monkeypatch.setenv("FORCE_HYPERLINK", "0")
    print_table(("NAME", "VERDICT", "WHY"), rows)
    assert LINK.sub("", with_links) == capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "url"),
    [
        pytest.param(("explain", "crp/web"), "refusals.html#cluster-picked", id="explain"),
        pytest.param(("explain", "crp/web", "dover"), "refusals.html#cluster-picked", id="explain-cluster"),
        pytest.param(("lint",), "rules.html#k-22", id="lint"),
        pytest.param(
            ("gate", "disruption", "web", "--reason", "Drifted", "--count", "0", "--total", "3"),
            "refusals.html#node-",
            id="gate",
        ),
    ],
)
def test_wide_output_has_urls(cli, tmp_path, monkeypatch, words, url):
    monkeypatch.setenv("FORCE_HYPERLINK", "0")
    pool = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "web"}}
    budgets = [{"nodes": "10%"}, *([{"nodes": "1", "schedule": "0 9 * * *"}] if words == ("lint",) else [])]
    pool["spec"] = {"disruption": {"consolidateAfter": "0s", "budgets": budgets}, "template": {"spec": {}}}
    files = write(tmp_path / "a.yaml", member("dover"), placement("web", placementType="PickAll"), pool)
    shown = cli(*words, "-f", files, "-o", "wide")
    assert f"{HOMEPAGE}/docs/reference/{url}" in shown.stdout, shown.output
