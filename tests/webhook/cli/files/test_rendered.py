"""Kustomizations and charts of ours are rendered by the programs on the PATH, and the output says by which."""

import json
import shutil
from pathlib import Path

import pytest
import yaml

from tests.webhook.cli.files.repository import fill, findings, pool, shut
from tests.webhook.cli.fleets import write

PATCH = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "general"}, "spec": {"weight": 500}}


@pytest.fixture
def path(tmp_path, monkeypatch):
    """Return a function that puts a program on an otherwise empty PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    shell, cat = (shutil.which(word, path="/bin:/usr/bin") for word in ("sh", "cat"))

    def install(name, output, code=0):
        (folder / f"{name}.out").write_text(output)
        stream = ">&2" if code else ""
        (folder / name).write_text(
            f'#!{shell}\necho "$@" >> {folder}/calls\n{cat} {folder}/{name}.out {stream}\nexit {code}\n'
        )
        (folder / name).chmod(0o755)

    install.calls = folder / "calls"
    return install


@pytest.fixture
def overlay(tmp_path, monkeypatch):
    """A base, and an overlay of it with a patch."""
    place = tmp_path / "tree"
    place.mkdir()
    monkeypatch.chdir(place)
    fill(place, base__pool=[pool()], base__kustomization=[{"resources": ["pool.yaml"]}])
    fill(place, prod__patch=[PATCH])
    fill(place, prod__kustomization=[{"resources": ["../base"], "patches": [{"path": "patch.yaml"}]}])
    return place


WEEKEND = [{"nodes": "50%", "schedule": "0 0 * * 6", "duration": "48h"}, {"nodes": "0"}]
RENDERED = yaml.safe_dump({**pool(), "spec": {**pool(budgets=WEEKEND)["spec"], "weight": 500}})


@pytest.mark.parametrize(("program", "name"), [("kustomize", "kustomize build"), ("kubectl", "kubectl kustomize")])
def test_a_kustomization_of_ours_is_rendered(cli, overlay, path, program, name):
    path(program, RENDERED)
    result = cli("lint", ".", "-o", "json")
    assert f"note: rendered by `{name}`: prod\n" in result.stderr
    answer = json.loads(result.stdout)
    assert (result.exit_code, answer["objects"]) == (1, 1)
    assert {(item["file"], item["rule"]) for item in answer["items"]} == {
        ("base/pool.yaml", "K-24"),
        ("base/pool.yaml", "K-30"),
    }
    assert "budgets" in next(item for item in answer["items"] if item["rule"] == "K-30")
    assert "NodePool general of prod" in cli("lint", ".").stdout
    assert path.calls.read_text().splitlines()[0] == f"{name.split()[1]} -- prod"


def test_what_is_rendered_has_no_fix_for_the_file(cli, overlay, path):
    """A patch may have written it."""
    path("kustomize", RENDERED)
    results = json.loads(cli("lint", ".", "-o", "sarif").stdout)["runs"][0]["results"]
    assert not [result for result in results if "fixes" in result]


@pytest.mark.parametrize("member", ["resources", "generators", "components"])
def test_within_a_folder_nothing_that_leads_out_of_it_is_rendered(cli, overlay, path, member):
    """Assistants may read one folder. A kustomization in it, also an included one, may name a folder elsewhere."""
    path("kustomize", RENDERED)
    fill(overlay, prod__more__kustomization=[{"resources": ["../../base"]}])
    included = {"resources": ["pool.yaml"]} | {member: ["pool.yaml", "more"] if member == "resources" else ["more"]}
    fill(overlay, prod__pool=[pool("other")], prod__kustomization=[included])
    result = cli("lint", "prod", "--render", "--within", "prod")
    assert "note: prod: not rendered: base is outside of prod\n" in result.stderr
    assert not path.calls.exists()
    assert "note: rendered by `kustomize build`: prod" in cli("lint", "prod", "--render").stderr


def test_within_a_folder_no_hidden_file_is_rendered(cli, overlay, path):
    path("kustomize", RENDERED)
    (overlay / "prod" / ".hidden").mkdir()
    fill(overlay, prod__pool=[pool("other")], prod__kustomization=[{"resources": ["pool.yaml", ".hidden/a.yaml"]}])
    result = cli("lint", "prod", "--render", "--within", "prod")
    assert "note: prod: not rendered: prod/.hidden/a.yaml is hidden\n" in result.stderr
    assert not path.calls.exists()


def test_validate_and_plan_render_too(cli, overlay, path):
    path("kustomize", RENDERED)
    result = cli("validate", "-f", "prod")
    assert (result.exit_code, "document 1 of `kustomize build`" in result.stdout) == (1, True)
    planned = cli("plan", "-f", ".")
    assert "note: rendered by `kustomize build`: prod" in planned.stderr


def test_without_a_program_the_files_are_judged(cli, overlay, path):
    result = cli("lint", ".")
    assert (result.exit_code, result.stdout) == (0, "1 object: 0 errors, 0 warnings\n")
    assert "note: prod: not rendered: neither kustomize nor kubectl is on the PATH" in result.stderr
    assert not path.calls.exists()
    planned = cli("plan", "-f", ".", "--require-complete", "--now", "2026-06-10T12:00:00Z")
    assert (planned.exit_code, "not complete: not judged: Kustomization (1)" in planned.stderr) == (1, True)


@pytest.mark.parametrize(
    ("words", "resources"),
    [
        pytest.param(("lint", ".", "--no-render"), ["../base"], id="not-asked-for"),
        pytest.param(("lint", "."), ["../base", "https://a.io/b"], id="address"),
        pytest.param(("lint", "."), ["../base", "github.com/a/b?ref=v1"], id="repository"),
        pytest.param(("lint", "prod/kustomization.yaml"), ["../base"], id="single-file"),
        pytest.param(("lint", "."), ["../base", "../.hidden"], id="folder-that-is-not-read"),
    ],
)
def test_what_is_not_rendered(cli, overlay, path, words, resources):
    path("kustomize", RENDERED)
    fill(overlay, prod__kustomization=[{"resources": resources, "patches": [{"path": "patch.yaml"}]}])
    (overlay / ".hidden").mkdir()
    result = cli(*words)
    assert (result.exit_code, path.calls.exists()) == (0, False), result.output


@pytest.mark.parametrize(
    "members",
    [
        pytest.param({"patches": [{"path": "https://a.io/p.yaml"}]}, id="patch"),
        pytest.param({"configMapGenerator": [{"name": "a", "files": ["a=https://a.io/f"]}]}, id="generator"),
        pytest.param({"transformers": ["https://a.io/t"]}, id="transformer"),
    ],
)
def test_nothing_is_fetched(cli, overlay, path, members):
    path("kustomize", RENDERED)
    fill(overlay, prod__patch=[], prod__kustomization=[{"resources": ["../base"], **members}])
    result = cli("lint", ".")
    assert (result.exit_code, path.calls.exists()) == (0, False), result.output
    assert "note: prod: not rendered: it refers to remote resources" in result.stderr


def test_a_foreign_kustomization_is_not_rendered(cli, tmp_path, path):
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}
    fill(tmp_path / "tree", a__deployment=[deployment], a__kustomization=[{"resources": ["deployment.yaml"]}])
    path("kustomize", RENDERED)
    assert (cli("lint", tmp_path / "tree").exit_code, path.calls.exists()) == (0, False)


def test_a_failure_is_noted_and_the_files_are_judged(cli, overlay, path):
    path("kustomize", "Error: accumulating resources: no such file\n", 1)
    write(overlay / "base" / "pool.yaml", shut())
    result = cli("lint", ".", "-o", "json")
    assert (result.exit_code, findings(result)) == (0, [("base/pool.yaml", "K-30")])
    assert "note: prod: not rendered: kustomize build: accumulating resources: no such file" in result.stderr


def test_a_link_out_of_the_repository_is_not_rendered(cli, tmp_path, overlay, path):
    (tmp_path / "secret.yaml").write_text("hunter2: 1\n")
    (overlay / "base" / "pool.yaml").rename(overlay / "base" / "own.yaml")
    (overlay / "base" / "pool.yaml").symlink_to(tmp_path / "secret.yaml")
    fill(overlay, base__kustomization=[{"resources": ["pool.yaml", "own.yaml"]}])
    path("kustomize", RENDERED)
    result = cli("lint", ".")
    assert ("hunter2" in result.output, path.calls.exists()) == (False, False)


@pytest.fixture
def chart(overlay):
    """A chart of a pool."""
    folder = Path("charts/pools")
    (folder / "templates").mkdir(parents=True)
    write(folder / "Chart.yaml", {"apiVersion": "v2", "name": "pools", "version": "1.0.0"})
    (folder / "templates" / "pool.yaml").write_text("apiVersion: karpenter.sh/v1\n{{- if true }}\n{{- end }}\n")
    return folder


def test_a_chart_of_ours_is_rendered(cli, chart, path):
    path("helm", f"---\n# Source: pools/templates/pool.yaml\n{RENDERED}")
    result = cli("lint", "charts", "-o", "json")
    assert (result.exit_code, set(findings(result))) == (
        1,
        {("charts/pools/templates/pool.yaml", "K-24"), ("charts/pools/templates/pool.yaml", "K-30")},
    )
    assert "note: rendered by `helm template`: charts/pools\n" in result.stderr
    assert "templates of a Helm chart" not in result.stderr


@pytest.mark.parametrize("reason", ["foreign", "link", "no-helm"])
def test_a_chart_that_is_not_rendered_is_skipped(cli, chart, path, reason):
    if reason != "no-helm":
        path("helm", RENDERED)
    if reason == "foreign":
        (chart / "templates" / "pool.yaml").write_text("apiVersion: v1\n{{- end }}\n")
    if reason == "link":
        (chart / "templates" / "link.yaml").symlink_to("/etc/hostname")
    result = cli("lint", "charts")
    assert (result.exit_code, path.calls.exists()) == (0, False), result.output
    assert "skipped: templates of a Helm chart; `helm template` renders them" in result.stderr


def test_a_plan_without_the_objects_of_a_chart_is_not_complete(cli, chart, path):
    write(Path("charts/namespace.yaml"), {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    result = cli("plan", "-f", "charts", "--require-complete")
    assert (result.exit_code, "not complete: not judged: Helm chart (1)" in result.stderr) == (1, True)
