"""A plan as a comment: what is in it, that it fits, and that nothing in it is more than text."""

import json
import re

import jsonschema
import pytest
from markdown_it import MarkdownIt

from tests.webhook.cli.fleets import binding, by_nodes, member, placement, write
from tests.webhook.cli.sarif_schema import LOG
from webhook.cli.planning.markdown import LARGEST, MARKER, code, markdown

GFM = MarkdownIt("gfm-like", {"linkify": False})
NOW = "2026-03-01T12:00:00Z"


def entry(name, *, gained=("a",), lost=(), message="found all"):
    picked = [{"cluster": cluster, "rank": at, "score": None} for at, cluster in enumerate(gained, start=1)]
    filtered = [{"cluster": cluster, "plugin": "Taint", "reason": "no"} for cluster in lost]
    rollout = {"type": "RollingUpdate", "evictions": [], "applyStrategy": [], "waits": [], "steps": [], "blocked": None}
    return {
        "name": name,
        "namespace": "",
        "type": "PickN",
        "wanted": 1,
        "picked": picked,
        "filtered": filtered,
        "notPicked": [],
        "dropped": [],
        "satisfied": False,
        "message": message,
        "moves": {"gained": list(gained), "lost": list(lost), "stays": []},
        "rollout": rollout,
        "changed": True,
    }


def comment(*entries, warnings=()):
    fleet = {"gained": [], "changed": [], "drained": [], "lost": []}
    return markdown({"placements": list(entries), "runs": [], "fleet": fleet}, warnings)


@pytest.fixture
def base(tmp_path):
    members = [member(name, nodes) for name, nodes in (("dover", 10), ("faro", 2), ("genoa", 20))]
    web = placement(placementType="PickN", numberOfClusters=1, affinity=by_nodes())
    return write(tmp_path / "hub.yaml", *members, web, binding("web-faro", "web", "faro"))


@pytest.fixture
def more(tmp_path):
    return write(tmp_path / "more.yaml", placement(placementType="PickN", numberOfClusters=2, affinity=by_nodes()))


def test_what_changes_is_in_the_table_and_why_below_it(cli, base, more):
    result = cli("plan", "--on", base, "-f", more, "--now", NOW, "-o", "markdown", "--lost", "faro")
    assert result.exit_code == 2
    first, summary, *rest = result.stdout.splitlines()
    assert (first, summary) == (MARKER, "### 1 placement changes, 2 clusters gained, 1 cluster lost")
    assert "| `crp/web` | PickN | 2 | 2 | `+dover` `+genoa`<br>`-faro` |  |" in rest
    assert "<details><summary>crp/web: +2 -1</summary>" in rest
    assert "- faro: removed: no longer a member of the fleet" in rest


def test_a_plan_that_changes_nothing_says_so(cli, base):
    result = cli("plan", "--on", base, "-f", base, "--now", NOW, "-o", "markdown")
    assert (result.exit_code, result.stdout.splitlines()[1:]) == (
        0,
        [
            "### No placement changes: 1 placement does not change",
            "",
            "Fleet: `changed dover faro genoa`",
            "",
            "`assumed to be rolled out, as the hub has no resource snapshots of them: crp/web`",
        ],
    )


@pytest.mark.parametrize(
    ("entries", "cut"),
    [
        pytest.param(
            [entry(f"p{at}", lost=["b"]) for at in range(2000)],
            r"placements [0-9]+ of 2000; details 0 of 2000",
            id="rows",
        ),
        pytest.param(
            [entry(f"p{at}", gained=[f"c{each}" for each in range(400)]) for at in range(40)],
            r"details [0-9]+ of 40",
            id="details",
        ),
        pytest.param([entry("p", message="\N{SHIP}" * 70_000)], r"placements 0 of 1; details 0 of 1", id="one-row"),
    ],
)
def test_a_comment_fits_and_says_what_was_cut(entries, cut):
    text = comment(*entries, warnings=["w"])
    assert len(text.encode("utf-16-le")) // 2 <= LARGEST
    assert re.search(
        rf"^> Cut to fit into a comment: {cut}[^.]*\. `harbormaster plan` shows all of it\.$", text, re.MULTILINE
    )


EVIL = [
    "@everyone",
    "<img src=x>",
    "[a](http://b)",
    "a|b",
    r"a\|*b*",
    r"a\\|*b*",
    "`",
    "``` x",
    "*a*",
    "</details>",
    "a\nb",
    "\\",
    "\x1b[2J",
]


@pytest.mark.parametrize("text", EVIL)
def test_what_others_wrote_is_only_text(text):
    evil = {**entry("p", message=text), "type": text}  # the type of a policy that cannot be read is as written
    tokens = GFM.parse(comment(evil, warnings=[text]))
    inline = [(child.type, child.content) for token in tokens if token.type == "inline" for child in token.children]
    assert {kind for kind, _ in inline} <= {"text", "code_inline"}
    assert not any("@" in content for kind, content in inline if kind == "text")
    html = [token.content for token in tokens if token.type == "html_block"]
    assert all(
        re.fullmatch(r"<!-- harbormaster plan -->\n?|<details><summary>[^<>`@]*</summary>\n?|</details>\n?", part)
        for part in html
    )
    assert len([token for token in tokens if token.type == "td_open"]) == 6
    assert len([token for token in tokens if token.type == "fence"]) == 2


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("a", "`a`", id="plain"),
        pytest.param("a`b", "`` a`b ``", id="tick"),
        pytest.param("``", "``` `` ```", id="ticks"),
    ],
)
def test_code_holds_ticks(text, shown):
    assert code(text) == shown


def test_sarif_of_a_plan_points_at_what_admission_refuses(cli, base, tmp_path):
    bad = write(tmp_path / "bad.yaml", placement(placementType="PickN", clusterNames=["a"]))
    result = cli("plan", "--on", base, "-f", bad, "-o", "sarif")
    log = json.loads(result.stdout)
    jsonschema.validate(log, LOG)
    found = log["runs"][0]["results"]
    lines = (tmp_path / "bad.yaml").read_text().splitlines()
    places = [each["locations"][0]["physicalLocation"]["region"]["startLine"] for each in found]
    assert result.exit_code == 1
    assert [(each["ruleId"], lines[at - 1].strip()) for each, at in zip(found, places, strict=True)] == [
        ("P-25", "clusterNames:"),
        ("P-25", "policy:"),
    ]


@pytest.mark.parametrize("command", [("plan", "-f"), ("test",)], ids=lambda words: words[0])
def test_sarif_of_a_file_that_cannot_be_read_is_a_log_all_the_same(cli, tmp_path, command):
    (tmp_path / "harbormaster-test.yaml").write_text("a: [")
    result = cli(*command, tmp_path / "harbormaster-test.yaml", "-o", "sarif")
    log = json.loads(result.stdout)
    jsonschema.validate(log, LOG)
    (invocation,) = log["runs"][0]["invocations"]
    assert (result.exit_code, invocation["executionSuccessful"]) == (1, False)
    assert "harbormaster-test.yaml: line " in invocation["toolExecutionNotifications"][0]["message"]["text"]


@pytest.mark.parametrize("command", ["validate", "lint"])
def test_a_file_that_cannot_be_read_is_a_result_of_sarif(cli, tmp_path, command):
    (tmp_path / "a.yaml").write_text("a: [")
    result = cli(command, "-f", tmp_path / "a.yaml", "-o", "sarif")
    log = json.loads(result.stdout)
    jsonschema.validate(log, LOG)
    (finding,) = log["runs"][0]["results"]
    assert (result.exit_code, finding["ruleId"], finding["level"]) == (1, "file", "error")


def test_validate_tells_the_same_in_sarif(cli, tmp_path):
    bad = write(tmp_path / "bad.yaml", placement(placementType="PickN", clusterNames=["a"]))
    judged, linted = (json.loads(cli(word, "-f", bad, "-o", "sarif").stdout) for word in ("validate", "lint"))
    assert judged == linted
    assert len(judged["runs"][0]["results"]) == 2


def test_a_comparison_is_no_comment(cli, more):
    result = cli("plan", "--compare", more, more, "-f", more, "-o", "markdown")
    assert (result.exit_code, "--compare cannot be used with -o markdown" in result.stderr) == (1, True)


def rendered(*groups):
    return {"placements": [{"name": "web", "namespace": "", "groups": list(groups)}]}


def group(clusters, *lines, change="Changed"):
    item = {"group": "", "kind": "ConfigMap", "namespace": "shop", "name": "rates", "change": change}
    return {"clusters": list(clusters), "objects": [{**item, "diff": list(lines)}]}


def with_differences(*groups):
    fleet = {"gained": [], "changed": [], "drained": [], "lost": []}
    plan = {"placements": [entry("web")], "runs": [], "fleet": fleet, "rendered": rendered(*groups)}
    return markdown(plan, ())


def test_differences_of_objects_are_folded_by_group_of_clusters(cli, base, tmp_path):
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    two = placement(placementType="PickN", numberOfClusters=2, affinity=by_nodes())
    result = cli(
        "plan", "--on", base, "-f", write(tmp_path / "two.yaml", two, namespace), "--now", NOW, "-o", "markdown"
    )
    assert result.exit_code == 2, result.stderr
    assert "<details><summary>crp/web: 1 object on 2 clusters</summary>" in result.stdout
    assert "```diff\n# crp/web on faro genoa\n--- /dev/null\n+++ rendered/Namespace/shop\n" in result.stdout


def test_long_differences_are_cut_and_counted():
    text = with_differences(group("ab", *(f"+line {at}" for at in range(1000))))
    assert "+line 297\n# and 702 more lines: harbormaster render -o diff\n" in text
    assert len(text) < LARGEST


def test_differences_that_do_not_fit_are_counted():
    groups = [group([f"c{at}"], *("+" + "x" * 200 for _ in range(250))) for at in range(5)]
    text = with_differences(*groups)
    assert len(text) <= LARGEST
    assert "Cut to fit into a comment: differences 1 of 5." in text


def test_many_clusters_are_named_in_part():
    text = with_differences(group([f"c{at}" for at in range(60)], "+a"))
    assert "# crp/web on " + " ".join(f"c{at}" for at in range(50)) + " and 10 more\n" in text


def test_a_difference_cannot_end_its_block():
    text = with_differences(group("a", "+```", "+</details>"))
    assert "````diff\n" in text
    assert [token.type for token in GFM.parse(text) if token.type == "fence"] == ["fence", "fence"]


def test_objects_that_leave_single_clusters_are_named_with_the_clusters():
    removal = {"kind": "Object", "effect": "ConfigMap shop/rates", "objects": 1, "digest": "d1g3st"}
    affected = entry("web", gained=())
    affected["rollout"]["contentRemovals"] = [
        {**removal, "verdict": "Pending", "clusters": ["dover", "faro"]},
        {**removal, "verdict": "Warned", "clusters": []},
    ]
    text = comment(affected)
    assert "remains until its removal is confirmed: ConfigMap shop/rates on dover faro (digest d1g3st)" in text
    assert "removed without a confirmation: ConfigMap shop/rates\n" in text
