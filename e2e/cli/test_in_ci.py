"""The composite action and the hooks of this repository, as a runner of GitHub and pre-commit call them."""

import json
import os
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import jsonschema
import pytest
import yaml

from e2e.controlplane.service import HARBORMASTER
from tests.docs.pages import DOCS, read_page
from tests.thoroughness import SOAK
from tests.webhook.cli.sarif_schema import LOG

REPOSITORY = Path(__file__).parents[2]
ACTION = yaml.safe_load((REPOSITORY / "action.yml").read_text(encoding="utf-8"))
STEPS = ACTION["runs"]["steps"]
AUTHOR = {f"GIT_{who}_{what}": "a@b.io" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
GIT = {**AUTHOR, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
TEST = """\
apiVersion: cli.harbormaster.dev/v1alpha1
kind: Test
name: web
fleet: [members.yaml, web.yaml]
cases:
- name: goes everywhere
  placement: crp/web
  expect: {picked: [dover, faro]}
"""
MEMBERS = """\
apiVersion: cluster.kubernetes-fleet.io/v1
kind: MemberCluster
metadata: {name: dover}
spec: {identity: {kind: User, name: dover}}
---
apiVersion: cluster.kubernetes-fleet.io/v1
kind: MemberCluster
metadata: {name: faro}
spec: {identity: {kind: User, name: faro}}
"""
WEB = """\
apiVersion: placement.kubernetes-fleet.io/v1
kind: ClusterResourcePlacement
metadata: {name: web}
spec:
  resourceSelectors: [{group: "", version: v1, kind: Namespace, name: web}]
"""
FILES = "members.yaml\nweb.yaml"
BROKEN = WEB + "  policy: {placementType: PickN}\n"


@pytest.fixture
def checkout(tmp_path):
    """A repository of a user: two members, a placement, a test, and what is not ours."""
    folder = tmp_path / "work space"
    folder.mkdir()
    files = {"members.yaml": MEMBERS, "web.yaml": WEB, "harbormaster-test.yaml": TEST, "values.yaml": "replicas: 3\n"}
    for name, text in files.items():
        (folder / name).write_text(text)
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "all")
    return folder


def git(folder, *words):
    return subprocess.run(
        ["git", *words], cwd=folder, env={**os.environ, **GIT}, check=True, capture_output=True, text=True
    )


@dataclass
class Job:
    """What a runner of GitHub knows while it carries an action out."""

    checkout: Path
    temp: Path
    inputs: dict
    outputs: dict = field(default_factory=dict)
    uploads: list = field(default_factory=list)
    said: str = ""
    succeeded: bool = True

    def run(self):
        self.temp.mkdir()
        for step in STEPS:
            if not self.holds(step.get("if", "true")):
                continue
            if "uses" in step:
                self.uploads.append({name: self.evaluated(value) for name, value in step["with"].items()})
            elif not self.carried_out(step):
                self.succeeded = False
                break
        return self

    def carried_out(self, step):
        """Run the script as a runner does, with a file for its outputs."""
        script, outputs = self.temp / "script.sh", self.temp / "outputs"
        script.write_text(step["run"])
        outputs.write_text("")
        files = {"GITHUB_OUTPUT": str(outputs), "GITHUB_STEP_SUMMARY": str(self.temp / "summary.md")}
        variables = {name: self.evaluated(value) for name, value in step.get("env", {}).items()}
        assert step["shell"] == "bash"
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", script],
            cwd=self.checkout,
            env={**os.environ, **files, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.said += done.stdout
        self.outputs[step["id"]] = dict(line.split("=", 1) for line in outputs.read_text().splitlines())
        return done.returncode == 0

    def evaluated(self, text):
        return re.sub(r"\$\{\{ (.*?) \}\}", lambda found: self.value(found[1]), text)

    def value(self, expression):
        match expression.split("."):
            case ["inputs", name]:
                return self.inputs.get(name, ACTION["inputs"][name]["default"])
            case ["steps", step, "outputs", name]:
                return self.outputs.get(step, {}).get(name, "")
        return {"github.action_path": str(REPOSITORY), "runner.temp": str(self.temp)}[expression]

    def holds(self, condition):
        if condition == "true":
            return True
        tests = [re.fullmatch(r"(inputs\.[\w-]+) (==|!=) '(\w*)'", part).groups() for part in condition.split(" || ")]
        return any((self.value(name) == expected) is (sign == "==") for name, sign, expected in tests)

    def output(self, name):
        return self.evaluated(ACTION["outputs"][name]["value"])

    @property
    def summary(self):
        return (self.temp / "summary.md").read_text()


@pytest.fixture
def act(checkout, tmp_path):
    """Return what carries the action out in the checkout, with a program that is installed."""

    def carry_out(**inputs):
        given = {name.replace("_", "-"): value for name, value in inputs.items()}
        return Job(checkout, tmp_path / "temp", {"command": str(HARBORMASTER), **given}).run()

    return carry_out


def test_scripts_hold_no_expressions():
    """What a user gives would be run as a part of the script."""
    assert [step["id"] for step in STEPS if "${{" in step.get("run", "")] == []


def test_a_sound_repository_passes_and_its_plan_is_told(act):
    job = act(plan=FILES, upload_sarif="true")
    assert job.succeeded, job.said
    assert (job.output("changes"), "::error" in job.said) == ("true", False)
    comment = Path(job.output("comment")).read_text()
    assert "| `crp/web` | PickAll | all | 2 | `+dover` `+faro` |  |" in comment
    assert comment in job.summary
    assert "    3 objects: 0 errors, 0 warnings\n" in job.summary
    assert "    1 case: 1 passed, 0 failed\n" in job.summary
    assert job.uploads == [{"sarif_file": job.output("sarif"), "category": "harbormaster"}]
    jsonschema.validate(json.loads(Path(job.output("sarif")).read_text()), LOG)
    assert 'tests="1" failures="0"' in Path(job.output("junit")).read_text()


def test_findings_and_failures_are_annotated_and_fail_the_job(act, checkout):
    """What files are called, and hold, gives the runner no commands."""
    (checkout / "web.yaml").write_text(BROKEN)
    (checkout / "::warning::x.yaml").write_text(BROKEN.replace("name: web}\nspec", "name: other}\nspec"))
    job = act(plan=FILES)
    assert not job.succeeded
    assert "::error file=web.yaml,line=6,col=3,title=harbormaster P-25::ClusterResourcePlacement web: " in job.said
    assert (
        "::error file=harbormaster-test.yaml,line=6,col=3,title=harbormaster case-failed::web: goes every" in job.said
    )
    assert job.said.splitlines()[-3:] == [
        "::error::harbormaster lint found errors",
        "::error::harbormaster test: not all cases passed",
        "::error::harbormaster plan failed",
    ]
    results = json.loads(Path(job.output("sarif")).read_text())["runs"][0]["results"]
    assert [result["ruleId"] for result in results] == ["P-25", "P-25"]
    assert 'failures="1"' in Path(job.output("junit")).read_text()
    assert (
        "web.yaml: document 1: spec.policy.numberOfClusters: Required value" in Path(job.output("comment")).read_text()
    )


@pytest.fixture
def calls(tmp_path):
    """Return an installed program that ends with the code of its verb, and what reads how it was called."""
    program, noted = tmp_path / "harbormaster", tmp_path / "calls"
    noted.mkdir()

    def install(**codes):
        cases = "".join(f"{verb}) exit {code};;\n" for verb, code in codes.items())
        note = f'printf "%s\\0" "$@" > {noted}/$1\n'
        program.write_text(f"#!/bin/sh\n{note}case $1 in\n{cases}esac\n")
        program.chmod(0o755)
        return str(program)

    def read():
        return {each.name: each.read_text().split("\0")[1:-1] for each in noted.iterdir()}

    return install, read


PLANNED = ["-f", "members.yaml", "-f", "web.yaml", "-o", "markdown"]


@pytest.mark.parametrize(
    ("inputs", "codes", "succeeded", "called"),
    [
        pytest.param({"plan": FILES, "fail_on_changes": "true"}, {"plan": 2}, False, {"plan": PLANNED}, id="changes"),
        pytest.param({"plan": FILES}, {"plan": 2}, True, {"plan": PLANNED}, id="changes-are-no-failure"),
        pytest.param({"plan": FILES}, {"plan": 1}, False, {"plan": PLANNED}, id="no-plan"),
        pytest.param({"lint": "true", "strict": "true"}, {"lint": 2}, False, {"lint": ["--strict"]}, id="findings"),
        pytest.param(
            {"test": "true", "coverage_minimum": "80"}, {}, True, {"test": ["--coverage-minimum", "80"]}, id="ok"
        ),
        pytest.param(
            {"test": "true", "ignore": "*-test.yaml\nx y"},
            {"test": 2},
            False,
            {"test": ["--ignore", "*-test.yaml", "--ignore", "x y"]},
            id="tests-fail",
        ),
        pytest.param({"lint": "true", "paths": "a b\nc"}, {"lint": 1}, False, {"lint": ["--", "a b", "c"]}, id="paths"),
    ],
)
def test_inputs_decide_how_the_program_is_called_and_what_fails(act, calls, inputs, codes, succeeded, called):
    """What the program itself does with such words is tested without an action."""
    install, read = calls
    job = act(summary="false", command=install(**codes), **{"lint": "false", "test": "false", **inputs})
    assert job.succeeded is succeeded, job.said
    assert not (job.temp / "summary.md").exists()
    (verb,) = called
    assert read().keys() - {"version"} == {verb}
    assert [word for word in read()[verb] if word in called[verb]] == called[verb]


def test_what_users_give_is_not_run(act, calls, checkout):
    """It reaches the program as it is, a line a word."""
    install, read = calls
    given = "$(touch ran)\n`touch ran`\n'; touch ran; '\n\"; touch ran; \"\n--help"
    job = act(command=install(), **dict.fromkeys(("paths", "ignore", "plan", "plan-on"), given))
    assert (job.succeeded, list(checkout.rglob("ran"))) == (True, [])
    lines = given.splitlines()
    assert read()["lint"][-len(lines) :] == lines
    assert read()["plan"] == [
        *(word for line in lines for word in ("--ignore", line)),
        *(word for line in lines for word in ("-f", line)),
        *(word for line in lines for word in ("--on", line)),
        *("-o", "markdown"),
    ]


HOOKS = yaml.safe_load((REPOSITORY / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))


def offered(folder, *files):
    """Make a repository with the hooks and some of our *files*; return its path and revision."""
    folder.mkdir()
    for name in (".pre-commit-hooks.yaml", *files):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((REPOSITORY / name).read_bytes())
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "hooks")
    return folder, git(folder, "rev-parse", "HEAD").stdout.strip()


def pre_commit(checkout, home, offer, **changes):
    """Run all hooks on all files, with what a user may change about them."""
    folder, revision = offer
    hooks = [{"id": hook["id"], **changes} for hook in HOOKS]
    config = {"repos": [{"repo": str(folder), "rev": revision, "hooks": hooks}]}
    (checkout / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
    git(checkout, "add", ".")
    path = f"{Path(HARBORMASTER).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["pre-commit", "run", "--all-files", "--verbose", "--color=never"],
        cwd=checkout,
        env={**os.environ, **GIT, "PATH": path, "PRE_COMMIT_HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_hooks_pass_a_sound_repository_and_stop_a_broken_one(checkout, tmp_path):
    """With a program that is installed already, which a user may choose as well."""
    offer = offered(tmp_path / "offer")
    sound = pre_commit(checkout, tmp_path / "home", offer, language="unsupported")
    assert sound.returncode == 0, sound.stdout
    assert "3 objects: 0 errors, 0 warnings" in sound.stdout
    assert "1 case: 1 passed, 0 failed" in sound.stdout
    (checkout / "web.yaml").write_text(BROKEN)
    broken = pre_commit(checkout, tmp_path / "home", offer, language="unsupported")
    assert broken.returncode == 1
    assert "web.yaml:6:3: error P-25 ClusterResourcePlacement web: spec.policy.numberOfClusters" in broken.stdout
    assert re.search(r"^- exit code: 2$", broken.stdout, re.MULTILINE)


@pytest.mark.soak
@pytest.mark.skipif(not SOAK, reason="installs all that the program needs, which takes a minute")
def test_hooks_and_action_install_the_program_by_themselves(checkout, tmp_path):
    packaged = ("webhook", "scorer", "certs", "examples/fleet", "docs/man", "pyproject.toml", "README.md", "LICENSE")
    names = git(REPOSITORY, "ls-files", *packaged).stdout
    sound = pre_commit(checkout, tmp_path / "home", offered(tmp_path / "offer", *names.split()))
    assert sound.returncode == 0, sound.stdout
    assert "1 case: 1 passed, 0 failed" in sound.stdout
    job = Job(checkout, tmp_path / "temp", {}).run()
    assert job.succeeded, job.said
    assert job.outputs["install"]["command"] == str(
        tmp_path / "temp" / "harbormaster" / "venv" / "bin" / "harbormaster"
    )


CONTENT = """\
apiVersion: v1
kind: Namespace
metadata: {name: web}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: rates, namespace: web}
data: {a: "1"}
"""


def test_two_revisions_show_what_is_deleted(tmp_path):
    """The commands of the page, in a clone whose branch deletes an object and a placement."""
    (block,) = (each for each in read_page(DOCS / "in-ci.md").blocks if "git worktree" in each)
    origin, clone = tmp_path / "origin", tmp_path / "clone"
    (origin / "fleet").mkdir(parents=True)
    pages = {"members": MEMBERS, "web": WEB, "other": WEB.replace("{name: web}\nspec", "{name: other}\nspec")}
    for name, text in {**pages, "content": CONTENT}.items():
        (origin / "fleet" / f"{name}.yaml").write_text(text)
    git(origin, "init", "--quiet", "--initial-branch=main")
    git(origin, "add", ".")
    git(origin, "commit", "--quiet", "--message", "all")
    git(tmp_path, "clone", "--quiet", str(origin), str(clone))
    (clone / "fleet" / "content.yaml").write_text(CONTENT.partition("---\n")[0])
    (clone / "fleet" / "other.yaml").unlink()
    environment = {**os.environ, **GIT, "PATH": f"{Path(HARBORMASTER).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(["sh", "-ec", block], cwd=clone, env=environment, capture_output=True, text=True)
    assert done.returncode == 2, done.stderr
    for line in ("# crp/other on dover faro", "# crp/web on dover faro", "--- base/ConfigMap/web/rates"):
        assert line in done.stdout.splitlines()
