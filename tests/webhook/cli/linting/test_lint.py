"""``lint``: what is found, where, in which form, and what the exit code is."""

import json
import re

import pytest
import yaml

from scorer.api.node_pool import Budget
from scorer.api.values.quoting import LONGEST_LINE
from scorer.node_budgets.lints import lint_budgets
from tests.webhook.cli.fleets import placement, write

NODE_CLASS = {"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "default"}
WEEKEND = [{"nodes": "50%", "schedule": "0 0 * * 6", "duration": "48h"}, {"nodes": "0"}]
CORRECTED = [{"nodes": "50%"}, {"nodes": "0", "schedule": "0 0 * * 1", "duration": "120h"}]


def pool(name="np", budgets=WEEKEND, **spec):
    template = {"spec": {"nodeClassRef": NODE_CLASS, "requirements": []}}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"template": template, "disruption": {"budgets": budgets}, **spec},
    }


def lines(result):
    return [line for line in result.stdout.splitlines() if not line.startswith(" ")]


def replaced(text, replacement):
    """Do to a file what a fix of SARIF asks for."""
    region = replacement["deletedRegion"]
    rows = text.splitlines(keepends=True)
    start = sum(map(len, rows[: region["startLine"] - 1])) + region["startColumn"] - 1
    end = sum(map(len, rows[: region["endLine"] - 1])) + region["endColumn"] - 1
    return text[:start] + replacement["insertedContent"]["text"] + text[end:]


def test_a_finding_has_file_line_column_rule_and_field(cli, tmp_path):
    file = write(tmp_path / "a.yaml", placement(placementType="PickN", clusterNames=["dover"]), pool(weight=200))
    result = cli("lint", "-f", file)
    assert result.exit_code == 1
    assert [line.split(": ", 3)[:3] for line in lines(result)[:-1]] == [
        [f"{file}:11:3", "error P-25 ClusterResourcePlacement web", "spec.policy.numberOfClusters"],
        [f"{file}:13:5", "error P-25 ClusterResourcePlacement web", "spec.policy.clusterNames"],
        [f"{file}:33:7", "warning K-30 NodePool np", "spec.disruption.budgets[1]"],
        [f"{file}:34:3", "error K-24 NodePool np", "spec.weight"],
    ]
    assert lines(result)[-1] == "2 objects: 3 errors, 1 warning"


def test_corrected_budgets_can_be_pasted(cli, tmp_path):
    result = cli("lint", "-f", write(tmp_path / "a.yaml", pool()))
    first, rest = result.stdout.split("  corrected:\n")
    assert "no disruption is ever allowed" in first
    block = rest[: rest.rindex("1 object")]
    assert yaml.safe_load(block) == {"budgets": CORRECTED}
    assert lint_budgets([Budget.read(document) for document in CORRECTED]) == ()


def test_one_correction_for_several_findings_is_printed_once(cli, tmp_path):
    night = {"schedule": "0 22 * * *", "duration": "8h"}
    budgets = [{"nodes": "1"}, {"nodes": "2", **night}, {"nodes": "3", **night}]
    result = cli("lint", "-f", write(tmp_path / "a.yaml", pool(budgets=budgets)))
    assert [line.split()[2] for line in lines(result)[:-1]].count("K-38") == 2
    assert result.stdout.count("corrected:") <= 1


@pytest.mark.parametrize(
    ("document", "plain", "strict"),
    [
        pytest.param(pool(budgets=CORRECTED), 0, 0, id="nothing"),
        pytest.param(pool(), 0, 1, id="warning"),
        pytest.param(pool(budgets=[{"nodes": "x"}]), 1, 1, id="error"),
    ],
)
def test_exit_codes(cli, tmp_path, document, plain, strict):
    file = write(tmp_path / "a.yaml", document)
    for output in ("text", "json", "sarif"):
        assert cli("lint", "-f", file, "-o", output).exit_code == plain
        assert cli("lint", "-f", file, "-o", output, "--strict").exit_code == strict


def test_json_has_the_same_in_members(cli, tmp_path):
    file = write(tmp_path / "a.yaml", pool())
    answer = json.loads(cli("lint", "-f", file, "-o", "json").stdout)
    (item,) = answer.pop("items")
    assert answer == {"objects": 1, "errors": 0, "warnings": 1}
    assert "no disruption is ever allowed" in item.pop("message")
    assert item == {
        "file": file,
        "document": 1,
        "line": 18,
        "column": 7,
        "severity": "warning",
        "rule": "K-30",
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "namespace": "",
        "name": "np",
        "field": "spec.disruption.budgets[1]",
        "budgets": CORRECTED,
    }


def test_all_warnings_are_shown(cli, tmp_path):
    """An answer to a write stops at ten."""
    budgets = [{"nodes": "1"}, *({"nodes": str(number), "reasons": []} for number in range(2, 22))]
    result = cli("lint", "-f", write(tmp_path / "a.yaml", pool(budgets=budgets)))
    assert lines(result)[-1] == "1 object: 0 errors, 20 warnings"


def test_unknown_fields_and_old_names_have_places_too(cli, tmp_path):
    document = placement()
    document["spec"]["colour"] = "red"
    sorter = {"name": "kubernetes.azure.com/node-count", "sortOrder": "Descending"}
    terms = [{"weight": 1, "preference": {"metricSorter": sorter}}]
    preferred = {"clusterAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}
    document["spec"]["policy"] = {"placementType": "PickN", "numberOfClusters": 1, "affinity": preferred}
    file = write(tmp_path / "a.yaml", document)
    rows = [re.match(r".*?:(\d+):\d+: (\w+) (\S+)", line).groups() for line in lines(cli("lint", "-f", file))[:-1]]
    text = (tmp_path / "a.yaml").read_text().splitlines()
    assert {(severity, rule, text[int(line) - 1].strip()) for line, severity, rule in rows} >= {
        ("error", "unknown-field", "colour: red"),
        ("warning", "X-18", "preferredDuringSchedulingIgnoredDuringExecution:"),
    }
    result = cli("lint", "-f", file, "--validate=warn")
    assert (result.exit_code, "warning unknown-field" in result.stdout) == (0, True)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("a.json", json.dumps(pool(), indent=2), id="json"),
        pytest.param("b.json", json.dumps({"kind": "List", "items": [pool("x", CORRECTED), pool()]}), id="list"),
        pytest.param("a.yaml", yaml.safe_dump(pool(), default_flow_style=True), id="flow"),
        pytest.param(
            "b.yaml",
            "# first\n---\n" + yaml.safe_dump(pool()) + "---\n" + yaml.safe_dump(pool("x", CORRECTED)),
            id="block",
        ),
    ],
)
def test_the_fix_of_sarif_makes_the_file_clean(cli, tmp_path, name, text):
    """Whatever the style of the file, and what stands around the budgets stays."""
    file = tmp_path / name
    file.write_text(text)
    log = json.loads(cli("lint", "-f", file, "-o", "sarif").stdout)
    (result,) = log["runs"][0]["results"]
    (change,) = result["fixes"][0]["artifactChanges"]
    file.write_text(replaced(text, change["replacements"][0]))
    again = cli("lint", "-f", file, "--strict", "-o", "json")
    assert (again.exit_code, json.loads(again.stdout)["warnings"]) == (0, 0)
    assert cli("validate", "-f", file).exit_code == 0


def test_standard_input_and_folders(cli, tmp_path):
    write(tmp_path / "a.yaml", pool())
    (tmp_path / "deep").mkdir()
    write(tmp_path / "deep" / "b.yml", pool("other"))
    text = yaml.safe_dump(pool("third"))
    result = cli("lint", "-f", tmp_path, "-f", "-", text=text)
    places = [line.split(": ")[0] for line in lines(result)[:-1]]
    assert places == [f"{tmp_path}/a.yaml:18:7", f"{tmp_path}/deep/b.yml:18:7", "standard input:11:7"]


def test_in_a_folder_what_is_not_ours_is_skipped_with_a_note(cli, tmp_path):
    ship = {"apiVersion": "a.io/v1", "kind": "Ship", "metadata": {"name": "x"}}
    write(tmp_path / "a.yaml", ship, pool(budgets=CORRECTED), ship)
    write(tmp_path / "values.yaml", {"replicas": 3})
    result = cli("lint", "-f", tmp_path)
    assert (result.exit_code, result.stdout) == (0, "1 object: 0 errors, 0 warnings\n")
    assert result.stderr.splitlines() == [
        f"note: {tmp_path}/a.yaml: document 1, and 1 more: skipped: Ship of a.io/v1, which is unknown",
        f"note: {tmp_path}/values.yaml: document 1: skipped: not a Kubernetes object",
    ]


@pytest.mark.parametrize(
    "meant",
    [
        {"apiVersion": "karpenter.sh/v1", "kind": "NodePol", "metadata": {"name": "x"}},
        {"apiVersion": "karpenter.sh/v2", "kind": "NodePool", "metadata": {"name": "x"}},
        {"apiVersion": "carpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "x"}},
        {"kind": "NodePool", "metadata": {"name": "x"}},
    ],
    ids=["kind", "version", "group", "no-version"],
)
def test_in_a_folder_what_is_meant_to_be_ours_is_not_skipped(cli, tmp_path, meant):
    write(tmp_path / "a.yaml", meant)
    result = cli("lint", "-f", tmp_path)
    assert result.exit_code == 1
    assert result.stdout.startswith(f"{tmp_path}/a.yaml:")
    assert ": error file: " in result.stdout


def test_a_fix_replaces_nothing_that_stands_for_other_places_too(cli, tmp_path):
    text = yaml.safe_dump(pool()) + "---\n" + yaml.safe_dump(pool("other"))
    text = text.replace("budgets:\n", "budgets: &b\n", 1)
    file = tmp_path / "a.yaml"
    file.write_text(text)
    assert "fixes" in json.loads(cli("lint", "-f", file, "-o", "sarif").stdout)["runs"][0]["results"][0]
    file.write_text(text.replace("    weight: 1\n", "").replace("metadata:\n", "x: &c 1\ny: *c\nmetadata:\n", 1))
    assert "fixes" not in json.loads(cli("lint", "-f", file, "-o", "sarif").stdout)["runs"][0]["results"][-1]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        pytest.param("none.yaml", None, "no such file", id="no-file"),
        pytest.param("a.yaml", b"a: [1\n", "not YAML", id="not-yaml"),
        pytest.param("a.json", b"{", "not JSON", id="not-json"),
        pytest.param("a.yaml", b"a: \xff", "not UTF-8", id="not-utf-8"),
        pytest.param("a.yaml", b"\xff\xfe\x00", "not UTF-16", id="not-utf-16"),
        pytest.param("a.yaml", b"5\n", "expected an object", id="no-object"),
        pytest.param("a.yaml", b"apiVersion: a.io/v1\nkind: Ship\nmetadata: {name: x}\n", "Ship", id="unknown-kind"),
    ],
)
def test_a_file_that_cannot_be_used_is_a_finding(cli, tmp_path, name, content, reason):
    file = tmp_path / name
    if content is not None:
        file.write_bytes(content)
    result, validated = cli("lint", "-f", file, "-o", "json"), cli("validate", "-f", file)
    (item,) = json.loads(result.stdout)["items"]
    assert (result.exit_code, validated.exit_code, result.stderr) == (1, 1, "")
    assert (item["file"], item["severity"], item["rule"]) == (str(file), "error", "file")
    assert reason in item["message"]
    assert item["message"] in validated.stderr


@pytest.mark.parametrize("command", [("lint", "-o", "json", "-f"), ("validate", "-f")])
def test_a_file_without_objects_is_told(cli, tmp_path, command):
    file = write(tmp_path / "a.yaml")
    result = cli(*command, file)
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", f"error: no objects in {file}\n")


def test_without_files_the_usage_is_told(cli):
    result = cli("lint")
    assert result.exit_code == 1
    assert "specify what to check: PATH, or -f FILE" in result.stderr


def test_what_could_steer_a_terminal_is_replaced(cli, tmp_path):
    document = pool(budgets=CORRECTED)
    document["spec"]["\x1b[31m"] = 1
    result = cli("lint", "-f", write(tmp_path / "a.yaml", document))
    assert "\x1b" not in result.stdout
    assert result.exit_code == 0


@pytest.mark.parametrize("output", ["text", "github", "sarif"])
def test_a_name_of_several_lines_stays_in_its_line(cli, tmp_path, output):
    """What comes at the start of a line of a job's log may be a command to the runner."""
    file = write(tmp_path / "a.yaml", placement("a\n::add-mask::x\x1b[2J"))
    result = cli("lint", "-f", file, "-o", output)
    assert result.exit_code == 1
    assert not [line for line in result.stdout.splitlines() if line.startswith("::add-mask")]
    assert "\x1b" not in result.stdout


HUGE = "x" * 50_000


def longest(value):
    """Return the length of the longest text in a JSON document."""
    if isinstance(value, dict):
        return max(map(longest, [*value, *value.values()]), default=0)
    return max(map(longest, value), default=0) if isinstance(value, list) else len(str(value))


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(placement(HUGE), id="name"),
        pytest.param({**placement(), "metadata": {"name": "a", "namespace": HUGE}}, id="namespace"),
        pytest.param({**placement(), "metadata": {"name": "a", "labels": {HUGE: HUGE}}}, id="label"),
        pytest.param({**placement(), "kind": HUGE}, id="kind"),
        pytest.param({**placement(), "apiVersion": HUGE}, id="version"),
        pytest.param({**placement(), HUGE: 1}, id="field"),
        pytest.param({**placement(), "spec": {f"{HUGE}{at}": {} for at in range(3)}}, id="several-fields"),
        pytest.param(placement(placementType=HUGE, numberOfClusters=HUGE, clusterNames=[HUGE] * 2), id="policy"),
        pytest.param(pool(budgets=[{"nodes": HUGE, "schedule": HUGE, "duration": HUGE}]), id="budget"),
        pytest.param(pool(budgets=[{"nodes": "1", "reasons": [HUGE]}, *WEEKEND]), id="reason"),
        pytest.param({"kind": "List", "apiVersion": "v1", "items": [HUGE, [HUGE], {"kind": HUGE}]}, id="items"),
        pytest.param(HUGE, id="text"),
    ],
)
@pytest.mark.parametrize("command", ["lint", "plan"])
def test_no_value_is_printed_that_swamps_a_log(cli, tmp_path, command, document):
    file = write(tmp_path / "a.yaml", document)
    formats = ("text", "github", "sarif") if command == "lint" else ("table", "markdown", "sarif")
    for output in formats:
        result = cli(command, "-o", output, "-f", file)
        told = longest(json.loads(result.stdout)) if output == "sarif" else longest(result.stdout.splitlines())
        assert max(told, longest(result.stderr.splitlines())) < 3 * LONGEST_LINE  # escaped for a command of the runner


IGNORE = "harbormaster.dev/ignore-fields"


def placed(*objects, **annotations):
    """Return a placement of a namespace with a Deployment and its autoscaler, and further objects."""
    template = {"spec": {"containers": [{"name": "a", "image": "a"}]}}
    metadata = {"name": "web", "namespace": "shop", "annotations": annotations}
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}},
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": metadata,
            "spec": {"replicas": 2, "selector": {"matchLabels": {}}, "template": template},
        },
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"scaleTargetRef": target, "maxReplicas": 5},
        },
        *objects,
    ]


def of_shop():
    document = placement()
    document["spec"]["resourceSelectors"] = [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}]
    return document


def found(cli, file, rule):
    return [line for line in lines(cli("lint", "-f", file)) if f" {rule} " in line]


def test_replicas_that_an_autoscaler_sets_are_to_be_ignored(cli, tmp_path):
    file = write(tmp_path / "a.yaml", of_shop(), *placed())
    (line,) = found(cli, file, "ignore-fields")
    assert "ignore-fields Deployment shop/web: spec.replicas: HorizontalPodAutoscaler web sets replicas" in line
    assert f"{IGNORE}=/spec/replicas" in line


@pytest.mark.parametrize(
    "documents",
    [
        pytest.param([of_shop(), *placed(**{IGNORE: "/spec/replicas"})], id="they-are"),
        pytest.param(placed(), id="not-placed"),
    ],
)
def test_replicas_are_not_mentioned(cli, tmp_path, documents):
    assert not found(cli, write(tmp_path / "a.yaml", *documents), "ignore-fields")


def test_a_placed_object_is_examined_in_a_namespace_without_others_like_it(cli, tmp_path):
    """The namespace of the selectors is found, although none of the examined objects is in it."""
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "viewer", "annotations": {IGNORE: "rules"}},
    }
    document = placement()
    document["spec"]["resourceSelectors"] = [
        {"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}
        | {"selectionScope": "NamespaceWithResourceSelectors"},
        {"group": "rbac.authorization.k8s.io", "version": "v1", "kind": "ClusterRole", "name": "viewer"},
    ]
    shop = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    (error,) = found(cli, write(tmp_path / "a.yaml", document, shop, role), "ignore-fields")
    assert '"rules" is not a JSON Pointer' in error


def test_autoscalers_are_examined_in_every_placement(cli, tmp_path):
    """By the labels of their namespaces, and once each."""
    documents = []
    for name in ("shop", "bar"):
        namespace, *rest = placed()
        labels = {"team": name}
        documents.append({**namespace, "metadata": {"name": name, "labels": labels}})
        documents += ({**item, "metadata": {**item["metadata"], "namespace": name}} for item in rest)
        for number in (1, 2):
            chosen = placement(f"{name}-{number}")
            selector = {"group": "", "version": "v1", "kind": "Namespace", "labelSelector": {"matchLabels": labels}}
            chosen["spec"]["resourceSelectors"] = [selector]
            documents.append(chosen)
    remarks = found(cli, write(tmp_path / "a.yaml", *documents), "ignore-fields")
    assert [line.split("Deployment ")[1].split(":")[0] for line in remarks] == ["shop/web", "bar/web"]


def test_an_annotation_that_ignores_nothing_is_an_error(cli, tmp_path):
    file = write(tmp_path / "a.yaml", of_shop(), *placed(**{IGNORE: "spec.replicas"}))
    error, warning = found(cli, file, "ignore-fields")
    assert 'metadata.annotations[harbormaster.dev/ignore-fields]: "spec.replicas" is not a JSON Pointer' in error
    assert ": error " in error
    assert ": warning " in warning


def test_a_selected_job_that_runs_once_is_a_warning(cli, tmp_path):
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "migrate", "namespace": "shop"}}
    file = write(tmp_path / "a.yaml", of_shop(), *placed({**job, "spec": {"ttlSecondsAfterFinished": 5}}))
    (line,) = found(cli, file, "X-37")
    assert "spec.resourceSelectors[0]: Job shop/migrate has ttlSecondsAfterFinished" in line


def test_an_override_without_effect_is_a_warning_if_the_objects_are_among_the_files(cli, tmp_path):
    """Rule X-78, at the line of the name."""
    shop = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    rates = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "rates", "namespace": "shop"}}
    hub = write(tmp_path / "hub.yaml", shop, rates, placement())
    override = {
        "apiVersion": "placement.kubernetes-fleet.io/v1",
        "kind": "ResourceOverride",
        "metadata": {"name": "rate", "namespace": "shop"},
        "spec": {
            "placement": {"name": "web"},
            "resourceSelectors": [{"group": "", "version": "v1", "kind": "ConfigMap", "name": "rate"}],
            "policy": {"overrideRules": [{"clusterSelector": {"clusterSelectorTerms": []}, "overrideType": "Delete"}]},
        },
    }
    file = write(tmp_path / "override.yaml", override)
    message = '"rate": "web" places no such ConfigMap in shop yet; nearest: rates'
    where = "warning X-78 ResourceOverride shop/rate: spec.resourceSelectors[0].name"
    assert lines(cli("lint", hub, file))[0] == f"{file}:13:5: {where}: {message}"
    assert lines(cli("lint", file)) == ["1 object: 0 errors, 0 warnings"]
