"""Which files commands read: what --ignore means, what is foreign, and that nothing is passed over in silence."""

from pathlib import Path

import pytest
import yaml

from tests.webhook.cli.fleets import member, write
from webhook.cli.files.search import is_ignored

SHIP = {"apiVersion": "a.io/v1", "kind": "Ship", "metadata": {"name": "x"}}
TEMPLATE = "metadata:\n  name: {{ .Release.Name }}\n{{- if .Values.x }}\n"


@pytest.mark.parametrize(
    ("pattern", "path", "below", "ignored"),
    [
        pytest.param("a.yaml", "deploy/x/a.yaml", "x/a.yaml", True, id="name"),
        pytest.param("*.yaml", "deploy/x/a.yaml", "x/a.yaml", True, id="star"),
        pytest.param("*.yaml", "deploy/x/a.yml", "x/a.yml", False, id="star-of-another-suffix"),
        pytest.param("?.yaml", "deploy/ab.yaml", "ab.yaml", False, id="one-letter"),
        pytest.param("x", "deploy/x", "x", True, id="folder"),
        pytest.param("x/", "deploy/x", "x", True, id="folder-with-a-slash"),
        pytest.param("x/a.yaml", "deploy/x/a.yaml", "x/a.yaml", True, id="path-from-the-folder"),
        pytest.param("deploy/*/a.yaml", "deploy/x/a.yaml", "x/a.yaml", True, id="path-as-shown"),
        pytest.param("deploy/*.yaml", "deploy/x/a.yaml", "x/a.yaml", False, id="star-stops-at-a-slash"),
        pytest.param("**/a.yaml", "deploy/x/y/a.yaml", "x/y/a.yaml", True, id="any-folders"),
        pytest.param("**/a.yaml", "a.yaml", "", True, id="no-folders"),
        pytest.param("x/**", "deploy/x/y/a.yaml", "x/y/a.yaml", True, id="everything-below"),
        pytest.param("./x/a.yaml", "x/a.yaml", "a.yaml", True, id="from-here"),
        pytest.param("/srv/x/*.yaml", "/srv/x/a.yaml", "a.yaml", True, id="absolute"),
        pytest.param("a[1].yaml", "a1.yaml", "", False, id="brackets-are-letters"),
        pytest.param("A.yaml", "a.yaml", "", False, id="case-counts"),
    ],
)
def test_what_a_pattern_means(pattern, path, below, ignored):
    assert is_ignored(path, below, [pattern]) is ignored


def test_many_stars_take_no_time():
    assert not is_ignored("a" * 255 + "/a" * 2000, "", ["*a" * 20 + "b", "**/" * 20 + "*a" * 20 + "b"])


READERS = [
    pytest.param(("plan", "--now", "2026-03-01T12:00:00Z"), id="plan"),
    pytest.param(("explain", "crp/web"), id="explain"),
    pytest.param(("validate",), id="validate"),
    pytest.param(("lint",), id="lint"),
    pytest.param(("budgets", "list", "--total", "10"), id="budgets-list"),
    pytest.param(("budgets", "calendar", "--total", "10"), id="budgets-calendar"),
    pytest.param(("gate", "disruption", "p", "--reason", "Empty", "--count", "0", "--total", "9"), id="gate"),
]


@pytest.fixture
def folder(tmp_path):
    """A repository as they are: ours among what others read."""
    pool = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "p"}, "spec": {}}
    pool["spec"]["template"] = {
        "spec": {"requirements": [], "nodeClassRef": dict.fromkeys(("group", "kind", "name"), "a")}
    }
    web = {
        "apiVersion": "placement.kubernetes-fleet.io/v1",
        "kind": "ClusterResourcePlacement",
        "metadata": {"name": "web"},
    }
    web["spec"] = {"resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "web"}]}
    write(tmp_path / "ours.yaml", member("dover", 10), pool, web)
    write(tmp_path / "ship.yaml", SHIP, SHIP)
    write(tmp_path / "values.yaml", {"replicas": 3})
    write(tmp_path / "harbormaster-test.yaml", {"apiVersion": "cli.harbormaster.dev/v1alpha1", "kind": "Test"})
    (tmp_path / "chart" / "templates" / "tests").mkdir(parents=True)
    write(tmp_path / "chart" / "Chart.yaml", {"apiVersion": "v2", "name": "chart", "version": "1.0.0"})
    for name in ("one.yaml", "tests/two.yaml"):
        (tmp_path / "chart" / "templates" / name).write_text(TEMPLATE)
    return tmp_path


@pytest.mark.parametrize("command", READERS)
def test_what_is_foreign_is_skipped_and_counted(cli, folder, command):
    result = cli(*command, "-f", folder)
    assert result.exit_code in (0, 2), result.stderr
    notes = [line for line in result.stderr.splitlines() if line.startswith("note: ")]
    assert notes == [
        f"note: {folder}/chart/templates: 2 files skipped: templates of a Helm chart; `helm template` renders them",
        f"note: {folder}/ship.yaml: document 1, and 1 more: skipped: Ship of a.io/v1, which is unknown",
        f"note: {folder}/values.yaml: document 1, and 1 more: skipped: not a Kubernetes object",
    ]


@pytest.mark.parametrize("command", READERS)
def test_what_is_ignored_is_not_read(cli, folder, command):
    (folder / "broken.yaml").write_text("a: [")
    ignored = [word for name in ("broken.yaml", "ship.yaml", "values.*", "chart") for word in ("--ignore", name)]
    result = cli(*command, "-f", folder, *ignored)
    assert (result.exit_code in (0, 2), result.stderr) == (True, "")


def test_a_template_of_ours_outside_of_a_chart_is_an_error_at_its_place(cli, folder):
    (folder / "one.yaml").write_text("apiVersion: placement.kubernetes-fleet.io/v1\n" + TEMPLATE)
    result = cli("lint", folder)
    assert result.exit_code == 1
    assert f"{folder}/one.yaml:3:1: error file: line 3: a key must be text" in result.stdout


def test_a_file_that_is_named_has_to_be_ours(cli, folder):
    result = cli("validate", "-f", folder / "ship.yaml")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(
        f'error: {folder}/ship.yaml: document 1: kind: "Ship" of "a.io/v1" is not a known kind'
    )


def test_files_that_are_searched_may_hold_nothing_of_ours(cli, folder):
    """As when a hook passes the files of a commit."""
    result = cli("lint", folder / "ship.yaml", folder / "values.yaml")
    assert (result.exit_code, result.stdout) == (0, "0 objects: 0 errors, 0 warnings\n")


def test_ignoring_everything_leaves_nothing_to_plan(cli, folder):
    result = cli("plan", "-f", folder, "--ignore", "**")
    assert (result.exit_code, result.stderr) == (1, f"error: no objects in {folder} that are not ignored\n")


def test_lint_annotates_for_github(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    web = {
        "apiVersion": "placement.kubernetes-fleet.io/v1",
        "kind": "ClusterResourcePlacement",
        "metadata": {"name": "a"},
    }
    web["spec"] = {
        "policy": {"placementType": "PickN"},
        "resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "100%"}],
    }
    (tmp_path / "a,b.yaml").write_text(yaml.safe_dump(web))
    result = cli("lint", ".", "-o", "github")
    assert result.exit_code == 1
    number = next(line for line in result.stdout.splitlines() if "numberOfClusters" in line)
    assert number == (
        "::error file=a%2Cb.yaml,line=6,col=3,title=harbormaster P-25::ClusterResourcePlacement a: "
        "spec.policy.numberOfClusters: Required value: must be set when placementType is PickN"
    )
    assert not any("100%:" in line for line in result.stdout.splitlines())


CANARY = "hunter2swordfish"
CASE = {"name": "c", "admission": {"object": "crp/web"}, "expect": {"allowed": True}}
SECRETS = [
    pytest.param(f"{CANARY}\n", id="text"),
    pytest.param(f"- {CANARY}\n", id="list"),
    pytest.param(f"{CANARY}: 1\n{CANARY}: 2\n", id="key-given-twice"),
    pytest.param(f"a: !{CANARY} 1\n", id="tag"),
    pytest.param(f"a: *{CANARY}\n", id="alias"),
    pytest.param(f"a: [{CANARY}\n", id="not-yaml"),
    pytest.param(f'{{"{CANARY}": 1, "{CANARY}": 2}}', id="json-twice"),
    pytest.param(f"apiVersion: {CANARY}/v1\nkind: {CANARY}\nmetadata: {{name: {CANARY}}}\n", id="unknown-object"),
    pytest.param(f"apiVersion: [{CANARY}]\nkind: {{a: {CANARY}}}\nmetadata: {CANARY}\n", id="wrong-types"),
    pytest.param(f"apiVersion: v1\nkind: List\nitems: [{CANARY}]\n", id="items"),
    pytest.param(f"apiVersion: v1\nkind: List\nitems: {CANARY}\n", id="no-items"),
]


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """The working directory of a job, beside a file of the machine."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    monkeypatch.chdir(folder)
    write(folder / "fleet.yaml", member("dover"))
    return folder


def linked(checkout, name, target):
    (checkout / name).symlink_to(target)


CI = [
    pytest.param(("lint", "."), "a.yaml", id="lint-folder"),
    pytest.param(("lint", "a.yaml"), "a.yaml", id="lint"),
    pytest.param(("lint", "-o", "github", "-f", "a.yaml"), "a.yaml", id="lint-github"),
    pytest.param(("lint", "--report", "sarif=/dev/stderr", "."), "a.yaml", id="lint-sarif"),
    pytest.param(("validate", "-f", "."), "a.yaml", id="validate"),
    pytest.param(("plan", "-f", "."), "a.yaml", id="plan-folder"),
    pytest.param(("plan", "-o", "markdown", "-f", "a.yaml"), "a.yaml", id="plan"),
    pytest.param(("plan", "--on", "a.yaml", "-f", "fleet.yaml"), "a.yaml", id="plan-on"),
    pytest.param(("plan", "-f", "fleet.yaml", "-f", "deep/b.yaml"), "deep", id="linked-folder"),
    pytest.param(("test", "."), "harbormaster-test.yaml", id="test-folder"),
    pytest.param(("test", "harbormaster-test.yaml"), "harbormaster-test.yaml", id="test"),
]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize(("words", "name"), CI)
@pytest.mark.parametrize("hidden", [False, True], ids=["outside", "hidden"])
def test_nothing_is_printed_of_a_file_that_a_link_leads_to(cli, tmp_path, checkout, words, name, hidden, secret):
    home = checkout / ".git" if hidden else tmp_path / "home"
    home.mkdir()
    (home / "b.yaml").write_text(secret)
    linked(checkout, name, home if name == "deep" else home / "b.yaml")
    result = cli(*words)
    assert result.exit_code in (0, 1), result.output  # 0: an object of an unknown kind is skipped with a note
    assert CANARY not in result.output


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("member_of", ["fleet", "objects", "object"])
@pytest.mark.parametrize("place", ["../home/b.yaml", "/absolute", ".git/b.yaml", "link.yaml"])
def test_nothing_is_printed_of_a_file_that_a_test_names(cli, tmp_path, checkout, secret, member_of, place):
    home = checkout / ".git" if place.startswith(".git") else tmp_path / "home"
    home.mkdir()
    (home / "b.yaml").write_text(secret)
    linked(checkout, "link.yaml", home / "b.yaml")
    path = str(home / "b.yaml") if place == "/absolute" else place
    case = {**CASE, "admission": {"object": path if member_of == "object" else "crp/web"}}
    files = {member_of: [path]} if member_of != "object" else {}
    test = {"apiVersion": "cli.harbormaster.dev/v1alpha1", "kind": "Test", "fleet": ["fleet.yaml"], "cases": [case]}
    write(checkout / "harbormaster-test.yaml", {**test, **files})
    result = cli("test", "harbormaster-test.yaml")
    assert result.exit_code != 0, result.output
    assert Path(path).name in result.output
    assert CANARY not in result.output


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize(
    "place", ["out/../b.yaml", "./out/../b.yaml", "sub/../out/../b.yaml", "here/../out/../b.yaml", "chain/../b.yaml"]
)
@pytest.mark.parametrize(
    "words", [("test", "."), ("lint", "PLACE"), ("validate", "-f", "PLACE"), ("plan", "-f", "PLACE")]
)
def test_nothing_is_printed_of_a_file_beside_the_target_of_a_link(cli, tmp_path, checkout, secret, place, words):
    """The system follows a link before it takes the way up: ``out/..`` is not the folder of ``out``."""
    (tmp_path / "home" / "deep").mkdir(parents=True)
    (tmp_path / "home" / "b.yaml").write_text(secret)
    (checkout / "sub").mkdir()
    linked(checkout, "out", tmp_path / "home" / "deep")
    linked(checkout, "here", "sub")
    linked(checkout, "chain", "out")
    test = {"apiVersion": "cli.harbormaster.dev/v1alpha1", "kind": "Test", "fleet": [place], "cases": [CASE]}
    if words[0] == "test":
        write(checkout / "harbormaster-test.yaml", test)
    result = cli(*(place if word == "PLACE" else word for word in words))
    assert result.exit_code in (0, 1), result.output
    assert CANARY not in result.output


@pytest.mark.parametrize("secret", SECRETS)
def test_nothing_is_printed_of_a_file_outside_of_the_folder_of_a_test_in_a_container(
    cli, tmp_path, checkout, monkeypatch, secret
):
    """There the working directory is the root, and everything is below it."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "b.yaml").write_text(secret)
    test = {"apiVersion": "cli.harbormaster.dev/v1alpha1", "kind": "Test", "fleet": ["../home/b.yaml"], "cases": [CASE]}
    file = write(checkout / "harbormaster-test.yaml", test)
    monkeypatch.chdir("/")
    result = cli("test", file)
    assert result.exit_code != 0, result.output
    assert "home/b.yaml" in result.output
    assert CANARY not in result.output


@pytest.mark.parametrize("place", ["/proc/self/environ", "/proc/self/fd/0", "/dev/stdin", "/dev/zero", "..", "/"])
def test_nothing_is_printed_of_what_is_no_file_that_a_test_names(cli, checkout, monkeypatch, place):
    monkeypatch.setenv("TOKEN", CANARY)
    test = {"apiVersion": "cli.harbormaster.dev/v1alpha1", "kind": "Test", "fleet": [place], "cases": [CASE]}
    write(checkout / "harbormaster-test.yaml", test)
    result = cli("test", ".")
    assert result.exit_code != 0, result.output
    assert CANARY not in result.output


def test_a_folder_has_no_links_out_of_it(cli, tmp_path, checkout):
    write(tmp_path / "b.yaml", member("essen"))
    linked(checkout, "a.yaml", tmp_path / "b.yaml")
    result = cli("validate", "-f", checkout)
    problem = f"is a link to a file outside of {checkout}. To read it, give the path of the file itself"
    said = f"error: {checkout}/a.yaml: {problem}\n"
    assert (result.exit_code, result.stderr) == (1, said)
    assert cli("validate", "-f", checkout / "a.yaml").exit_code == 0


def test_links_within_a_folder_are_followed(cli, checkout):
    """As those of a ConfigMap that is mounted."""
    (checkout / "..data").mkdir()
    write(checkout / "..data" / "b.yaml", member("essen"))
    linked(checkout, "b.yaml", "..data/b.yaml")
    result = cli("validate", "-f", ".", "-o", "json")
    assert (result.exit_code, '"essen"' in result.stdout) == (0, True), result.output


def test_a_value_that_is_no_object_is_named_by_its_type(cli, checkout):
    (checkout / "a.yaml").write_text("text of mine\n")
    result = cli("lint", "-f", "a.yaml")
    assert result.stdout.startswith("a.yaml:1:1: error file: is text, expected an object\n")
