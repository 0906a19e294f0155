"""``harbormaster test``: what a case checks, what is told when it fails, and what makes a file no test."""

import json
import xml.etree.ElementTree as ET

import jsonschema
import pytest
import yaml

from scorer.api.values.quoting import LONGEST_LINE
from tests.webhook.cli.fleets import member, write
from tests.webhook.cli.sarif_schema import LOG

HEAD = {"apiVersion": "cli.harbormaster.dev/v1alpha1", "kind": "Test", "name": "t", "fleet": ["fleet.yaml"]}
NOW = "2026-03-04T12:00:00Z"
SELECTORS = [{"group": "", "version": "v1", "kind": "Namespace", "name": "web"}]
WEB = {
    "apiVersion": "placement.kubernetes-fleet.io/v1",
    "kind": "ClusterResourcePlacement",
    "metadata": {"name": "web"},
    "spec": {
        "resourceSelectors": SELECTORS,
        "policy": {
            "placementType": "PickN",
            "numberOfClusters": 2,
            "affinity": {
                "clusterAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "weight": 20,
                            "preference": {
                                "propertySorter": {"name": "kubernetes-fleet.io/node-count", "sortOrder": "Descending"}
                            },
                        }
                    ]
                }
            },
        },
    },
}
POOL = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "p"},
    "spec": {
        "template": {"spec": {"requirements": [], "nodeClassRef": {"group": "a.io", "kind": "A", "name": "a"}}},
        "disruption": {
            "consolidationPolicy": "WhenEmpty",
            "budgets": [{"nodes": "2"}, {"nodes": "0", "schedule": "0 9 * * *", "duration": "8h"}],
        },
    },
}


@pytest.fixture
def fleet(tmp_path, monkeypatch):
    """Four members, one of them tainted; a placement of the two with most nodes; a pool closed from 9 to 17."""
    monkeypatch.chdir(tmp_path)
    tainted = member("genoa", 40)
    tainted["spec"] = {**tainted.get("spec", {}), "taints": [{"key": "dock", "value": "dry", "effect": "NoSchedule"}]}
    write(tmp_path / "fleet.yaml", member("dover", 10), member("essen", 20), member("faro", 30), tainted, WEB, POOL)
    return tmp_path


def run(cli, folder, *cases, options=(), **head):
    text = yaml.safe_dump({**HEAD, **head, "cases": list(cases)}, sort_keys=False)
    (folder / "harbormaster-test.yaml").write_text(text)
    return cli("test", *options)


PLACED = {"name": "c", "placement": "crp/web"}
WRITTEN = {"name": "c", "admission": {"object": "crp/web"}}
ASKED = {"name": "c", "now": NOW, "gate": {"pool": "p", "reason": "Drifted", "count": 1, "observed": {"total": 9}}}
COUNTED = {"name": "c", "now": NOW, "budget": {"pool": "p", "reason": "Empty", "observed": {"total": 9}}}
UPDATED = {"name": "c", "admission": {"operation": "update", "object": "crp/web", "patch": {"spec": {"policy": None}}}}
MALLORY = {"name": "mallory", "groups": ["system:authenticated"]}
APPROVAL = {
    "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
    "kind": "ClusterApprovalRequest",
    "metadata": {"name": "x"},
    "spec": {"parentStageRollout": "r", "targetStage": "s"},
}
FORGED = {"name": "c", "admission": {"object": APPROVAL, "user": MALLORY}}


@pytest.mark.parametrize(
    ("case", "right", "wrong", "told"),
    [
        pytest.param(
            PLACED, {"picked": ["essen", "faro"]}, {"picked": ["faro"]}, "essen: picked as number 2", id="picked"
        ),
        pytest.param(
            PLACED, {"ranking": ["faro", "essen"]}, {"ranking": ["essen", "faro"]}, "actual   faro essen", id="ranking"
        ),
        pytest.param(PLACED, {"includes": ["faro"]}, {"includes": ["genoa"]}, "TaintNotTolerated", id="includes"),
        pytest.param(
            PLACED,
            {"includes": ["faro"]},
            {"includes": ["dover"]},
            "the last one picked, essen, has",
            id="score-too-low",
        ),
        pytest.param(PLACED, {"includes": ["faro"]}, {"includes": ["oslo"]}, "oslo: is not a member", id="no-member"),
        pytest.param(PLACED, {"count": 2}, {"count": 3}, "actual   2", id="count"),
        pytest.param(PLACED, {"satisfied": True}, {"satisfied": False}, "found all clusters", id="satisfied"),
        pytest.param(PLACED, {"message": "found all"}, {"message": "none"}, "found all clusters", id="message"),
        pytest.param(
            PLACED,
            {
                "notPicked": [
                    {"cluster": "genoa", "plugin": "TaintToleration", "reason": "dock=dry"},
                    {"cluster": "dover"},
                ]
            },
            {"notPicked": [{"cluster": "dover", "plugin": "TaintToleration"}]},
            "filtered out by no plugin",
            id="not-picked",
        ),
        pytest.param(
            {**PLACED, "lost": ["faro"]},
            {"picked": ["dover", "essen"]},
            {"picked": ["essen", "faro"]},
            "faro: is not a member",
            id="lost",
        ),
        pytest.param(
            {**PLACED, "drained": ["faro"]},
            {"notPicked": [{"cluster": "faro"}]},
            {"includes": ["faro"]},
            "TaintNotTolerated",
            id="drained",
        ),
        pytest.param(WRITTEN, {"allowed": True}, {"allowed": False}, "expected refused", id="allowed"),
        pytest.param(WRITTEN, {"errors": []}, {"errors": [{}]}, "expected any", id="no-errors"),
        pytest.param(
            WRITTEN,
            {"stored": {"spec": {"revisionHistoryLimit": 10, "policy": {"clusterNames": None}}}},
            {"stored": {"spec": {"strategy": {"type": "External"}}}},
            'stored.spec.strategy.type:\n    expected "External"\n    actual   "RollingUpdate"',
            id="stored",
        ),
        pytest.param(
            UPDATED,
            {"errors": [{"rule": "U-01", "field": "spec.policy"}]},
            {"errors": []},
            "U-01 spec.policy",
            id="update",
        ),
        pytest.param(
            {**WRITTEN, "admission": {"object": "crp/web", "patch": {"spec": {"x": 1}}}},
            {"warnings": ['unknown field "spec.x"']},
            {"warnings": []},
            "expected nothing else",
            id="warnings",
        ),
        pytest.param(FORGED, {"errors": [{"rule": "X-50", "field": ""}]}, {"allowed": True}, "X-50", id="user"),
        pytest.param(
            {**WRITTEN, "admission": {"object": "crp/web", "operation": "delete"}},
            {"allowed": True},
            {"allowed": False},
            "actual   allowed",
            id="deletion",
        ),
        pytest.param(ASKED, {"allowed": False}, {"allowed": True}, "allows 0 of 9 nodes to be disrupted", id="gate"),
        pytest.param(ASKED, {"verdict": "WindowClosed"}, {"verdict": "InFlight"}, "WindowClosed", id="verdict"),
        pytest.param(ASKED, {"granted": 0}, {"granted": ["a"]}, "actual   0", id="granted"),
        pytest.param(
            ASKED, {"nextOpen": "2026-03-04T17:00:00Z"}, {"nextOpen": None}, "2026-03-04T17:00:00Z", id="opening"
        ),
        pytest.param(
            COUNTED,
            {"limit": 0},
            {"limit": 2},
            'budgets[1] is in force, which sets the limit: {"nodes":"0"',
            id="limit",
        ),
        pytest.param(
            {**COUNTED, "now": "2026-03-04T18:00:00Z"},
            {"remaining": 2},
            {"remaining": "unlimited"},
            "actual   2",
            id="remaining",
        ),
        pytest.param(COUNTED, {"neverOpens": False}, {"neverOpens": True}, "actual   false", id="never-opens"),
    ],
)
def test_a_case_passes_for_what_is_so_and_fails_for_what_is_not(cli, fleet, case, right, wrong, told):
    good, bad = (run(cli, fleet, {**case, "expect": expect}) for expect in (right, wrong))
    assert (good.exit_code, good.stderr) == (0, ""), good.output
    assert (bad.exit_code, bad.stderr) == (2, ""), bad.output
    assert told in bad.stdout


@pytest.mark.parametrize(
    ("expected", "code"),
    [
        pytest.param([{"message": "a"}, {"message": "ab"}], 0, id="vague-first"),
        pytest.param([{"message": "ab"}, {"message": "a"}], 0, id="vague-last"),
        pytest.param([{"message": "ab"}, {"message": "ab"}], 2, id="one-for-two"),
        pytest.param([{"message": "a"}], 2, id="not-all"),
    ],
)
def test_a_list_is_complete_and_a_vague_item_leaves_the_other_its_own(cli, fleet, expected, code):
    case = {"name": "c", "admission": {"object": "crp/web", "patch": {"spec": {"ab": 1, "ac": 2}}}}
    told = [{"message": each["message"].replace("a", "spec.a")} for each in expected]
    assert run(cli, fleet, {**case, "expect": {"warnings": told}}).exit_code == code


def test_objects_are_applied_to_the_fleet(cli, fleet):
    more = {**WEB, "spec": {**WEB["spec"], "policy": {**WEB["spec"]["policy"], "numberOfClusters": 3}}}
    write(fleet / "more.yaml", more)
    result = run(cli, fleet, {**PLACED, "expect": {"ranking": ["faro", "essen", "dover"]}}, objects=["more.yaml"])
    assert result.exit_code == 0, result.output


def test_settings_are_those_of_admission(cli, fleet):
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fleet-x"}}
    case = {"name": "c", "admission": {"object": namespace, "user": MALLORY}, "expect": {"allowed": False}}
    assert [run(cli, fleet, case, settings={"guard_rail": on}).exit_code for on in (True, False)] == [0, 2]


@pytest.mark.parametrize(
    ("case", "mistake"),
    [
        pytest.param({**PLACED, "placement": "crp/wbe"}, "there is no crp/wbe", id="placement"),
        pytest.param({**PLACED, "placement": "pod/web"}, "is not a placement", id="reference"),
        pytest.param({**PLACED, "lost": ["oslo"]}, "--lost oslo: there is no member cluster", id="member"),
        pytest.param({**WRITTEN, "admission": {"object": "crp/wbe"}}, "there is no crp/wbe", id="object"),
        pytest.param({**WRITTEN, "admission": {"object": "x"}}, "neither the path of a file nor KIND/NAME", id="word"),
        pytest.param({**WRITTEN, "admission": {"object": "x.yaml"}}, "x.yaml: no such file", id="file"),
        pytest.param({**WRITTEN, "admission": {"object": "fleet.yaml"}}, "has 6 objects", id="several"),
        pytest.param({**WRITTEN, "admission": {"object": {"kind": "Ship"}}}, "apiVersion: required", id="inline"),
        pytest.param({**ASKED, "gate": {**ASKED["gate"], "pool": "q"}}, "there is no NodePool 'q'", id="pool"),
        pytest.param({key: ASKED[key] for key in ("name", "gate")}, "now: must be set", id="instant"),
        pytest.param(
            {**WRITTEN, "admission": {"operation": "update", "object": {**WEB, "metadata": {"name": "new"}}}},
            "is not in the fleet and cannot be updated",
            id="nothing-to-update",
        ),
    ],
)
def test_a_question_that_cannot_be_asked_is_an_error_of_its_case(cli, fleet, case, mistake):
    expect = {"allowed": True} if "placement" not in case else {"count": 2}
    passing = {**PLACED, "name": "other", "expect": {"count": 2}}
    result = run(cli, fleet, {**case, "expect": expect}, passing)
    assert result.exit_code == 1
    assert mistake in result.stdout
    assert "2 cases: 1 passed, 0 failed, 1 in error" in result.stdout


MISTAKES = """\
apiVersion: cli.harbormaster.dev/v1alpha1
kind: Test
nam: x
settings: {guard_rial: true}
cases:
- name: a
  placement: crp/x
  expect: {pickd: [a], satisfied: "yes"}
- name: b
  gate: {pool: p, reason: Drift, count: 1}
  expect: {}
- name: c
- name: d
  admission: {object: a.yaml}
  expect: {errors: [{rule: P-999}], warnings: [3]}
- name: e
  placement: crp/x
  expect: {notPicked: [{cluser: a}]}
"""


def test_every_mistake_in_a_file_is_told_with_its_place(cli, fleet):
    (fleet / "harbormaster-test.yaml").write_text(MISTAKES)
    result = cli("test")
    assert (result.exit_code, result.stdout) == (1, "")
    assert [line.removeprefix("error: harbormaster-test.yaml:") for line in result.stderr.splitlines()] == [
        "3:1: nam: Forbidden: no such field. Did you mean name?",
        "4:1: settings: Invalid value: guard_rial: unknown setting",
        "8:12: cases[0].expect.pickd: Forbidden: no such field. Did you mean picked?",
        '8:24: cases[0].expect.satisfied: Invalid value: "yes": must be true or false',
        '10:19: cases[1].gate.reason: Unsupported value: "Drift": supported values: "Underutilized", "Empty", '
        '"Drifted", "Unhealthy", "Expired"',
        "11:3: cases[1].expect: Invalid value: {}: must have an expectation",
        "12:3: cases[2]: Invalid value: a case must have a question: give one of placement, admission, gate, budget",
        "15:48: cases[3].expect.warnings[0]: Invalid value: 3: must be an object",
        "18:24: cases[4].expect.notPicked[0].cluster: Required value",
        "18:25: cases[4].expect.notPicked[0].cluser: Forbidden: no such field. Did you mean cluster?",
    ]


@pytest.mark.parametrize(
    ("change", "mistake"),
    [
        pytest.param({"kind": "Tset"}, 'kind: Unsupported value: "Tset"', id="kind"),
        pytest.param({"cases": []}, "cases: Required value", id="no-cases"),
        pytest.param(
            {"cases": [{**PLACED, "expect": {"count": 2}}] * 2}, 'cases[1].name: Duplicate value: "c"', id="twice"
        ),
        pytest.param({"fleet": ["nowhere"]}, "nowhere: no such file or directory", id="no-fleet"),
        pytest.param({"cases": [{**WRITTEN, "expect": {"errors": [{"rule": "P-999"}]}}]}, "no such rule", id="rule"),
        pytest.param({"now": 3}, "now: Invalid value: 3: must be an instant", id="instant"),
    ],
)
def test_a_file_that_is_no_test_is_an_error(cli, fleet, change, mistake):
    document = {**HEAD, "cases": [{**PLACED, "expect": {"count": 2}}], **change}
    write(fleet / "harbormaster-test.yaml", document)
    result = cli("test", ".")
    assert (result.exit_code, result.stdout) == (1, "")
    assert mistake in result.stderr


def test_where_there_is_no_test_nothing_passes(cli, fleet):
    result = cli("test", "--ignore", "x")
    assert (result.exit_code, result.stderr) == (
        1,
        "error: no tests in .: no file is named harbormaster-test.yaml or *.harbormaster-test.yaml\n",
    )


@pytest.mark.parametrize("output", ["table", "json", "junit", "sarif", "github"])
def test_no_test_is_accepted_if_asked_for(cli, fleet, output):
    result = cli("test", "--ignore", "x", "--if-present", "--coverage-minimum", "50", "-o", output)
    assert (result.exit_code, result.stderr) == (0, ""), result.output


BAD, GOOD = ({**PLACED, "name": name, "expect": {"count": count}} for name, count in (("bad", 3), ("good", 2)))


def test_only_cases_of_a_name_are_run(cli, fleet):
    result = run(cli, fleet, BAD, GOOD, options=("--filter", "T: GO"))
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, "1 case: 1 passed, 0 failed")
    assert (
        run(cli, fleet, BAD, options=("--filter", "x")).stderr == "error: --filter 'x': no case has this in its name\n"
    )


def test_fail_fast_runs_no_more(cli, fleet):
    result = run(cli, fleet, BAD, GOOD, options=("--fail-fast",))
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (2, "2 cases: 0 passed, 1 failed, 1 not run")


def test_coverage_counts_the_rules_that_cases_exercised(cli, fleet):
    case = {**UPDATED, "expect": {"allowed": False}}
    coverage = json.loads(run(cli, fleet, case, options=("--coverage", "-o", "json")).stdout)["coverage"]
    assert coverage["kinds"] == ["clusterresourceplacements"]
    assert [item["rule"] for item in coverage["items"] if item["cases"]] == ["U-01"]
    assert coverage["exercised"] == 1 < coverage["rules"]
    assert "1 of " in run(cli, fleet, case, options=("--coverage",)).stdout


@pytest.mark.parametrize(("minimum", "code"), [("0.5", 0), ("99", 2)])
def test_a_minimum_of_coverage_is_demanded(cli, fleet, minimum, code):
    result = run(cli, fleet, {**UPDATED, "expect": {"allowed": False}}, options=("--coverage-minimum", minimum))
    assert result.exit_code == code
    assert (f"required: {minimum} %" in result.stderr) is (code == 2)


def test_junit_tells_failures_errors_and_what_was_not_run(cli, fleet):
    odd = {**BAD, "name": "bad & <\x01>"}
    lost = {**GOOD, "name": "lost", "lost": ["oslo"]}
    root = ET.fromstring(run(cli, fleet, GOOD, odd, lost, options=("-o", "junit")).stdout)
    assert {name: root.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "3",
        "failures": "1",
        "errors": "1",
        "skipped": "0",
    }
    assert [(each.get("name"), [child.tag for child in each]) for each in root.iter("testcase")] == [
        ("good", []),
        ("bad & <\ufffd>", ["failure"]),
        ("lost", ["error"]),
    ]
    assert "expected 3" in root.find(".//failure").text
    stopped = ET.fromstring(run(cli, fleet, BAD, GOOD, options=("-o", "junit", "--fail-fast")).stdout)
    assert stopped.find(".//skipped") is not None


def test_sarif_points_at_the_case(cli, fleet):
    log = json.loads(run(cli, fleet, GOOD, BAD, options=("-o", "sarif")).stdout)
    jsonschema.validate(log, LOG)
    (result,) = log["runs"][0]["results"]
    (location,) = result["locations"]
    assert location["physicalLocation"]["artifactLocation"] == {"uri": "harbormaster-test.yaml"}
    lines = (fleet / "harbormaster-test.yaml").read_text().splitlines()
    assert lines[location["physicalLocation"]["region"]["startLine"] - 1] == "- name: bad"


def test_github_gets_an_annotation_of_one_line(cli, fleet):
    first, last = run(cli, fleet, GOOD, BAD, options=("-o", "github")).stdout.splitlines()
    assert first.startswith(
        "::error file=harbormaster-test.yaml,line=11,col=3,title=harbormaster case-failed::t: bad%0A"
    )
    assert last == "2 cases: 1 passed, 1 failed"


HUGE = "x" * 50_000


@pytest.mark.parametrize("output", ["table", "github", "junit", "sarif"])
@pytest.mark.parametrize(
    "case",
    [
        pytest.param({**PLACED, "name": HUGE, "expect": {"ranking": ["x"]}}, id="name"),
        pytest.param({**PLACED, "expect": {"ranking": [HUGE]}}, id="expected"),
        pytest.param({**PLACED, "placement": f"crp/{HUGE}", "expect": {"ranking": ["x"]}}, id="placement"),
        pytest.param({**WRITTEN, "expect": {"errors": [{"field": HUGE}]}}, id="field"),
    ],
)
def test_no_value_is_printed_that_swamps_a_log(cli, fleet, output, case):
    result = run(cli, fleet, case, options=("-o", output), name=HUGE)
    told = [*result.stdout.splitlines(), *result.stderr.splitlines()]
    assert result.exit_code != 0
    assert max(map(len, told)) < 3 * LONGEST_LINE


def test_one_run_writes_several_forms(cli, fleet):
    reports = ("--report", "junit=r.xml", "--report", "sarif=r.sarif", "--report", "table=r.txt")
    result = run(cli, fleet, GOOD, BAD, options=(*reports, "-o", "github"))
    assert result.stdout.startswith("::error ")
    assert ET.fromstring((fleet / "r.xml").read_text()).get("failures") == "1"
    jsonschema.validate(json.loads((fleet / "r.sarif").read_text()), LOG)
    assert (fleet / "r.txt").read_text().endswith("2 cases: 1 passed, 1 failed\n")


@pytest.mark.parametrize(
    ("report", "mistake"),
    [
        pytest.param("xml=r", "'xml=r' must be FORMAT=FILE; formats: table, json, junit, sarif, github", id="format"),
        pytest.param("junit", "must be FORMAT=FILE", id="no-file"),
        pytest.param("junit=nowhere/r.xml", "error: nowhere/r.xml: No such file or directory", id="no-folder"),
    ],
)
def test_a_report_that_cannot_be_written_is_an_error(cli, fleet, report, mistake):
    result = run(cli, fleet, GOOD, options=("--report", report))
    assert (result.exit_code, mistake in result.stderr) == (1, True), result.stderr
