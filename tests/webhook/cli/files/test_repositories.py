"""Repositories as they are: ours is judged, what is foreign is skipped in any form, a broken file is a finding."""

import json

import pytest
import yaml

from tests.webhook.cli.files.repository import fill, findings, pool, shut
from tests.webhook.cli.fleets import member, placement, write

CLASSES = [
    pytest.param("karpenter.azure.com/v1beta1", "AKSNodeClass", id="azure"),
    pytest.param("karpenter.k8s.aws/v1", "EC2NodeClass", id="aws"),
    pytest.param("karpenter.k8s.gcp/v1alpha1", "GCENodeClass", id="gcp"),
    pytest.param("eks.amazonaws.com/v1", "NodeClass", id="eks-auto-mode"),
    pytest.param("karpenter.alibabacloud.com/v1alpha1", "ECSNodeClass", id="alibaba"),
    pytest.param("oci.oraclecloud.com/v1beta1", "OCINodeClass", id="oracle"),
    pytest.param("karpenter-ibm.sh/v1alpha1", "IBMNodeClass", id="ibm"),
    pytest.param("karpenter.cluster.x-k8s.io/v1alpha1", "ClusterAPINodeClass", id="cluster-api"),
    pytest.param("karpenter.kwok.sh/v1alpha1", "KWOKNodeClass", id="kwok"),
    pytest.param("karpenter.sh/v1alpha1", "NodeOverlay", id="overlay"),
    pytest.param("karpenter.sh/v1alpha5", "Provisioner", id="provisioner"),
]
KUBECONFIG = "apiVersion: v1\nkind: Config\nclusters: []\ncontexts: []\nusers: []\n"
FOREIGN = [
    pytest.param("mkdocs.yml", "a: !!python/name:material.emoji\n", id="python-tag"),
    pytest.param("stack.yaml", "Resources: {A: !Ref B}\n", id="cloudformation"),
    pytest.param("ha.yaml", "automation: !include automations.yaml\n", id="include"),
    pytest.param("site.yml", "- hosts: all\n  tasks: []\n", id="playbook"),
    pytest.param("patch.yaml", "- {op: remove, path: /spec}\n", id="json-patch"),
    pytest.param("text.yaml", "just text\n", id="text"),
    pytest.param("tsconfig.json", '{\n  // for editors\n  "strict": true,\n}\n', id="json-with-comments"),
    pytest.param("broken.json", "{", id="not-json"),
    pytest.param("list.json", "[1, 2]", id="json-list"),
    pytest.param("twice.json", '{"a": 1, "a": 2}', id="json-duplicate"),
    pytest.param("config.yaml", KUBECONFIG, id="kubeconfig"),
    pytest.param("template.yaml", "{{- if .Values.x }}\nkind: Deployment\n{{- end }}\n", id="go-template"),
    pytest.param("jinja.yaml", "{% for a in b %}\n- {{ a }}\n{% endfor %}\n", id="jinja"),
    pytest.param("tabs.yaml", "a:\n\tb: 1\n", id="tabs"),
    pytest.param("twice.yaml", "a: 1\na: 2\n", id="duplicate-key"),
    pytest.param("latin.yaml", "name: caf\xe9\n".encode("latin-1"), id="latin-1"),
    pytest.param("odd.yaml", b"\xff\xfea", id="truncated-utf-16"),
    pytest.param("binary.json", b"\x00\x01\x02", id="binary"),
    pytest.param("old.yaml", "apiVersion: policy/v1beta1\nkind: PodDisruptionBudget\nmetadata: {name: a}\n", id="old"),
    pytest.param("nameless.yaml", "apiVersion: apps/v1\nkind: Deployment\nspec: {replicas: 3}\n", id="no-metadata"),
    pytest.param("typeless.yaml", "kind: Deployment\nmetadata: {name: a}\n", id="no-version"),
    pytest.param(
        "karmada.yaml", "apiVersion: work.karmada.io/v1\nkind: ResourceBinding\nmetadata: {name: a}\n", id="same-kind"
    ),
    pytest.param("userdata.yaml", "a: !Sub |\n  apiVersion: karpenter.sh/v1\n  kind: NodePool\n", id="embedded"),
    pytest.param("a.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: '${name}'}\n", id="placeholder"),
    pytest.param("items.yaml", "apiVersion: a.io/v1\nkind: ShipList\nitems: {}\n", id="strange-list"),
]


@pytest.mark.parametrize(("name", "content"), FOREIGN)
@pytest.mark.parametrize("words", [("lint",), ("validate", "-f"), ("plan", "-f")], ids=["lint", "validate", "plan"])
def test_foreign_files_are_skipped_and_counted(cli, tmp_path, monkeypatch, words, name, content):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "ours.yaml", pool())
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    result = cli(*words, ".")
    assert result.exit_code == 0, result.output
    (note,) = (line for line in result.stderr.splitlines() if line.startswith("note: "))
    assert note.startswith(f"note: {name}")
    assert ": skipped: " in note


@pytest.mark.parametrize(("name", "content"), FOREIGN)
def test_the_hook_accepts_a_commit_of_foreign_files(cli, tmp_path, name, content):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    result = cli("lint", tmp_path / name)
    assert (result.exit_code, result.stdout) == (0, "0 objects: 0 errors, 0 warnings\n"), result.output


def test_the_hook_passes_over_templates_of_charts(cli, tmp_path):
    chart = tmp_path / "charts" / "web"
    (chart / "templates" / "deep").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: web\nversion: 1.0.0\n")
    files = [chart / "templates" / name for name in ("a.yaml", "deep/b.yaml")]
    for file in files:
        file.write_text("apiVersion: karpenter.sh/v1\n{{- if .Values.x }}\n")
    result = cli("lint", *files)
    assert (result.exit_code, result.stdout) == (0, "0 objects: 0 errors, 0 warnings\n")
    assert result.stderr == f"note: {chart}/templates: 2 files skipped: templates of a Helm chart; " + (
        "`helm template` renders them\n"
    )


BROKEN = [
    pytest.param("apiVersion: karpenter.sh/v1\nkind: [\n", 2, id="yaml"),
    pytest.param("- apiVersion: placement.kubernetes-fleet.io/v1\n  kind: {{ kind }}\n", 2, id="list-and-template"),
    pytest.param("apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: !Ref x\n", 3, id="tag"),
    pytest.param("apiVersion: karpenter.sh/v1\nkind: NodePool\nkind: NodePool\n", 3, id="duplicate-key"),
    pytest.param("apiVersion: karpenter.sh/v1\nkind: NodePool\nmetadata: {}\n", 3, id="no-name"),
    pytest.param("# a pool\napiVersion: karpenter.sh/v2\nkind: NodePool\nmetadata: {name: a}\n", 2, id="version"),
    pytest.param('# a pool\n{"apiVersion": "karpenter.sh/v1", "kind": }\n', 2, id="flow"),
    pytest.param("- {apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: a}}\n", 1, id="list"),
]


@pytest.mark.parametrize(("text", "line"), BROKEN)
@pytest.mark.parametrize("path", ["-f", "path"])
def test_a_broken_file_of_ours_is_a_finding_beside_the_others(cli, tmp_path, monkeypatch, text, line, path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.yaml").write_text(text)
    write(tmp_path / "b.yaml", shut())
    result = cli("lint", "-o", "json", *(["-f", "a.yaml", "-f", "b.yaml"] if path == "-f" else ["."]))
    assert result.exit_code == 1
    assert ("b.yaml", "K-30") in findings(result)
    broken = [item for item in json.loads(result.stdout)["items"] if item["rule"] == "file"]
    assert {(item["file"], item["line"], item["severity"]) for item in broken} == {("a.yaml", line, "error")}
    validated = cli("validate", "-f", ".")
    assert (validated.exit_code, "NodePool general   allowed" in validated.stdout) == (1, True)
    assert validated.stderr.startswith("error: a.yaml: ")


def test_a_broken_file_has_an_annotation_and_a_result(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.yaml").write_text("apiVersion: karpenter.sh/v1\nkind: [\n")
    line = cli("lint", ".", "-o", "github").stdout.splitlines()[0]
    assert line.startswith("::error file=a.yaml,line=2,col=1,title=harbormaster file::line 2: not YAML")
    (result,) = json.loads(cli("lint", ".", "-o", "sarif").stdout)["runs"][0]["results"]
    assert (result["ruleId"], result["level"]) == ("file", "error")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_encodings_of_powershell_are_read(cli, tmp_path, encoding):
    bom = "" if encoding in ("utf-8-sig", "utf-16") else "\ufeff"
    text = bom + "---\n".join(yaml.safe_dump(document) for document in (shut("café"), shut("b")))
    (tmp_path / "a.yaml").write_bytes(text.encode(encoding))
    answer = json.loads(cli("lint", tmp_path, "-o", "json").stdout)
    assert (answer["objects"], {item["name"] for item in answer["items"]} >= {"b"}) == (2, True)
    assert [item["line"] for item in answer["items"] if item["rule"] == "K-30"] == [9, 26]


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        pytest.param("utf-16-le", "", id="utf-16-le"),
        pytest.param("utf-16-be", "", id="utf-16-be"),
        pytest.param("utf-32", "", id="utf-32"),
        pytest.param("utf-16-le", "# \u00e9", id="not-only-ascii"),
        pytest.param("latin-1", "# \u00e9", id="latin-1"),
    ],
)
def test_our_object_in_an_encoding_that_kubectl_does_not_read_is_an_error(cli, tmp_path, encoding, text):
    """The others are examined. A foreign file in such an encoding is skipped."""
    fill(tmp_path, good=[shut()])
    (tmp_path / "odd.yaml").write_bytes(f"{yaml.safe_dump(pool())}{text}\n".encode(encoding))
    (tmp_path / "foreign.yaml").write_bytes(f"a: b\n{text}\n".encode(encoding))
    result = cli("lint", tmp_path, "-o", "json")
    assert (result.exit_code, findings(result)) == (
        1,
        [(f"{tmp_path}/good.yaml", "K-30"), (f"{tmp_path}/odd.yaml", "file")],
    )


def test_utf_16_from_standard_input(cli):
    result = cli("lint", "-f", "-", "-o", "json", text=yaml.safe_dump(shut()).encode("utf-16"))
    assert findings(result) == [("standard input", "K-30")]


def test_one_object_in_two_environments_is_no_error(cli, tmp_path):
    fill(tmp_path, envs__dev__pool=[shut()], envs__prod__pool=[shut()])
    result = cli("lint", tmp_path, "-o", "json")
    assert (result.exit_code, [rule for _, rule in findings(result)]) == (0, ["K-30", "K-30"])
    assert cli("validate", "-f", tmp_path).exit_code == 0
    assert cli("plan", "-f", tmp_path).exit_code == 0


def test_one_hub_has_an_object_with_one_content(cli, tmp_path):
    """Copies are one object. For different ones, the message names the remedy."""
    changed = shut()
    changed["spec"]["weight"] = 7
    fill(tmp_path, envs__dev__pool=[shut()], envs__prod__pool=[changed], envs__test__pool=[shut()])
    planned = cli("plan", "-f", tmp_path)
    place = f"{tmp_path}/envs/dev/pool.yaml: document 1"
    message = f'NodePool "general" is also in {place}. Name the files of one environment with -f\n'
    assert planned.stderr == f"error: {tmp_path}/envs/prod/pool.yaml: document 1: metadata.name: {message}"
    assert (planned.exit_code, cli("plan", "-f", tmp_path / "envs" / "prod").exit_code) == (1, 0)


def test_one_object_twice_in_a_file_is_an_error(cli, tmp_path):
    fill(tmp_path, a=[shut(), shut()])
    result = cli("lint", tmp_path, "-o", "json")
    assert (result.exit_code, [rule for _, rule in findings(result)].count("file")) == (1, 1)


def test_an_environment_is_judged_without_the_others(cli, tmp_path):
    """A budget of dev protects the placement of dev, whatever prod says."""
    budget = {"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacementDisruptionBudget"}
    budget |= {"metadata": {"name": "web"}, "spec": {"maxUnavailable": 1}}
    fixed = placement(placementType="PickFixed", clusterNames=["dover"])
    fill(tmp_path, dev__a=[fixed, budget], prod__a=[placement(), budget], shared__member=[member("dover")])
    answer = json.loads(cli("lint", tmp_path, "-o", "json").stdout)
    assert {item["file"] for item in answer["items"] if item["kind"] == budget["kind"]} == {f"{tmp_path}/prod/a.yaml"}


KUSTOMIZATION = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}


@pytest.mark.parametrize(
    "patches",
    [
        pytest.param({"patches": [{"path": "patch.yaml"}]}, id="patches"),
        pytest.param({"patchesStrategicMerge": ["./patch.yaml"]}, id="strategic-merge"),
        pytest.param({"patchesJson6902": [{"target": {"kind": "NodePool"}, "path": "patch.yaml"}]}, id="json-6902"),
    ],
)
@pytest.mark.parametrize("form", [{}, KUSTOMIZATION], ids=["bare", "with-kind"])
def test_patches_of_a_kustomization_are_no_objects(cli, tmp_path, monkeypatch, patches, form):
    monkeypatch.chdir(tmp_path)
    patch = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "general"}}
    fill(tmp_path, base__pool=[pool()], base__kustomization=[{**form, "resources": ["pool.yaml"]}])
    fill(tmp_path, prod__patch=[{**patch, "spec": {"weight": 9}}])
    fill(tmp_path, prod__kustomization=[{**form, "resources": ["../base"], **patches}])
    result = cli("lint", ".", "--no-render")
    assert result.exit_code == 0, result.output
    assert "note: prod/patch.yaml: document 1: skipped: patch of a kustomization" in result.stderr
    hook = cli("lint", "prod/patch.yaml")
    assert (hook.exit_code, hook.stdout) == (0, "0 objects: 0 errors, 0 warnings\n")


def test_one_object_twice_in_a_kustomization_is_an_error(cli, tmp_path):
    fill(tmp_path, a__pool=[pool()], b__pool=[pool()], b__kustomization=[{"resources": ["pool.yaml"]}])
    fill(tmp_path, kustomization=[{"resources": ["a/pool.yaml", "b"]}])
    result = cli("lint", tmp_path, "-o", "json", "--no-render")
    assert (result.exit_code, findings(result)) == (1, [(f"{tmp_path}/b/pool.yaml", "file")])
    fill(tmp_path, b__kustomization=[{"resources": ["pool.yaml"], "namePrefix": "b-"}])
    assert cli("lint", tmp_path, "--no-render").exit_code == 0


def test_a_job_with_only_generate_name_is_noted(cli, tmp_path):
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"generateName": "nightly-"}, "spec": {}}
    fill(tmp_path, a=[job, job])
    for words in (("lint",), ("validate", "-f"), ("plan", "-f")):
        result = cli(*words, tmp_path)
        assert result.exit_code == 0, result.output
        assert f"note: {tmp_path}/a.yaml: document 1, and 1 more: Job with only generateName" in result.stderr


def test_ours_with_only_generate_name_is_judged(cli, tmp_path):
    document = placement(placementType="PickN")
    document["metadata"] = {"generateName": "web-"}
    fill(tmp_path, a=[document])
    result = cli("lint", tmp_path, "-o", "json")
    assert [(item["name"], item["rule"]) for item in json.loads(result.stdout)["items"]] == [("web-00001", "P-25")]


CLASS_COMMANDS = [
    ("validate", "-f", "pool.yaml"),
    ("lint", "pool.yaml"),
    ("lint", "-f", "pool.yaml"),
    ("plan", "-f", "pool.yaml"),
    ("budgets", "list", "--total", "10", "-f", "pool.yaml"),
    ("budgets", "calendar", "--total", "10", "-f", "pool.yaml"),
    ("gate", "disruption", "general", "--total", "10", "--count", "1", "--reason", "Drifted", "-f", "pool.yaml"),
]


@pytest.mark.parametrize(("version", "kind"), CLASSES)
@pytest.mark.parametrize("command", CLASS_COMMANDS, ids=lambda words: "-".join(words[:2]))
def test_a_class_beside_a_pool_stops_nothing(cli, tmp_path, monkeypatch, command, version, kind):
    monkeypatch.chdir(tmp_path)
    node_class = {"apiVersion": version, "kind": kind, "metadata": {"name": "default"}, "spec": {}}
    write(tmp_path / "pool.yaml", pool(consolidateAfter="1m", budgets=[{"nodes": "3"}]), node_class)
    result = cli(*command)
    assert result.exit_code == 0, result.output
    why = "which is unknown" if kind == "Provisioner" else "which its provider validates"
    assert f"note: pool.yaml: document 2: skipped: {kind} of {version}, {why}" in result.stderr


@pytest.mark.parametrize("words", [("lint",), ("validate", "-f"), ("plan", "-f")], ids=["lint", "validate", "plan"])
@pytest.mark.parametrize("version", ["", "apiVersion: 5\n", "apiVersion: [a]\n"], ids=["none", "number", "list"])
def test_a_node_class_without_a_version_is_skipped_in_a_folder_and_an_error_in_a_named_file(
    cli, tmp_path, words, version
):
    write(tmp_path / "ours.yaml", pool())
    file = tmp_path / "class.yaml"
    file.write_text(f"{version}kind: EC2NodeClass\nmetadata: {{name: default}}\n")
    assert cli(*words, tmp_path).exit_code == 0
    result = cli("lint", "-f", file) if words[0] == "lint" else cli(*words, file)
    assert result.exit_code == 1, result.output
    assert "apiVersion" in result.output


@pytest.mark.parametrize("group", ["placement.kubernetes-fleet.io", "cluster.kubernetes-fleet.io"])
def test_a_typo_that_ends_like_a_node_class_is_no_node_class(cli, tmp_path, group):
    typo = {"apiVersion": f"{group}/v1", "kind": "ClusterResourcePlacementNodeClass", "metadata": {"name": "a"}}
    write(tmp_path / "ours.yaml", pool(), typo)
    result = cli("lint", tmp_path)
    assert result.exit_code == 1, result.output
    assert "ClusterResourcePlacementNodeClass" in result.output


@pytest.mark.parametrize(("version", "kind"), CLASSES[:-1])
@pytest.mark.parametrize("command", ["validate", "lint"])
def test_a_file_of_a_class_alone_is_no_mistake(cli, tmp_path, command, version, kind):
    write(tmp_path / "class.yaml", {"apiVersion": version, "kind": kind, "metadata": {"name": "default"}, "spec": {}})
    result = cli(command, "-f", tmp_path / "class.yaml", "--unknown-kinds=fail")
    assert result.exit_code == 0, result.output


def test_unknown_kinds_on_standard_input(cli):
    ship = {"apiVersion": "a.io/v1", "kind": "Ship", "metadata": {"name": "x"}}
    rendered = yaml.safe_dump_all([shut(), ship])
    assert findings(cli("lint", "-f", "-", "-o", "json", text=rendered)) == [("standard input", "K-30")]
    failed = cli("lint", "-f", "-", "-o", "json", "--unknown-kinds=fail", text=rendered)
    assert (failed.exit_code, findings(failed)) == (1, [("standard input", "K-30"), ("standard input", "file")])
    alone = yaml.safe_dump(ship)
    assert cli("validate", "-f", "-", text=alone).exit_code == 1
    skipped = cli("validate", "-f", "-", "--unknown-kinds=skip", text=alone)
    assert (skipped.exit_code, "skipped: Ship of a.io/v1" in skipped.stderr) == (0, True)


def test_unknown_kinds_fail_in_folders_too(cli, tmp_path):
    fill(tmp_path, a=[pool()], b=[{"apiVersion": "a.io/v1", "kind": "Ship", "metadata": {"name": "x"}}])
    result = cli("validate", "-f", tmp_path, "--unknown-kinds=fail")
    assert (result.exit_code, '"Ship" of "a.io/v1" is not a known kind' in result.stderr) == (1, True)


def test_an_old_version_of_a_kind_is_skipped_as_unknown(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "old.yaml", {"apiVersion": "apps/v1beta1", "kind": "Deployment", "metadata": {"name": "a"}})
    result = cli("lint", ".")
    assert result.exit_code == 0, result.output
    assert result.stderr == "note: old.yaml: document 1: skipped: Deployment of apps/v1beta1, which is unknown\n"
