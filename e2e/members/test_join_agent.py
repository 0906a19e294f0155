"""``harbormaster join`` installs the agent: with helm, or with the Deployment of the chart. ``leave`` is the inverse.

No Pod runs here: e2e/packaging has them.
"""

import json
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from e2e.controlplane.cluster import ApiError
from e2e.fleet.joining import (
    AGENT,
    CLUSTER_ROLE,
    DEPLOYMENT,
    HUB_SECRET,
    MEMBER,
    NOBODY,
    SECRET,
    Pair,
    only_error,
)
from e2e.fleet.objects import make_namespace
from e2e.fleet.processes import SYSTEM
from e2e.fleet.waiting import wait_until
from scorer.api.kinds import KINDS, PLACEMENT
from tests.charts.made import AGENT as CHART

IMAGE = "registry.example.com/harbormaster:1e3"
NEXT_IMAGE = f"registry.example.com/harbormaster@sha256:{'a' * 64}"
AUTO = "--agent=auto"
INSTANCE = "app.kubernetes.io/instance"
SERVE = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "hb-serve", "namespace": SYSTEM, "labels": {"app.kubernetes.io/component": "serve"}},
    "spec": {
        "replicas": 0,
        "selector": {"matchLabels": {"app": "serve"}},
        "template": {
            "metadata": {"labels": {"app": "serve"}},
            "spec": {"containers": [{"name": "serve", "image": IMAGE}, {"name": "proxy", "image": "other:1"}]},
        },
    },
}


@pytest.fixture
def helm(programs: Mapping[str, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The helm that the command finds."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "helm").symlink_to(programs["helm"])
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    for each in ("CACHE", "CONFIG", "DATA"):
        monkeypatch.setenv(f"HELM_{each}_HOME", str(tmp_path / "helm"))
    return programs["helm"]


@pytest.fixture
def no_helm(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without helm."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")


@pytest.fixture
def serve(pair: Pair) -> object:
    """The Deployment of ``serve`` on the hub."""
    pair.on_hub.apply([SERVE])
    yield
    pair.on_hub.delete(DEPLOYMENT, "hb-serve", SYSTEM)


def container(pair: Pair, name: str = AGENT) -> dict[str, object]:
    [found] = pair.in_member.get(DEPLOYMENT, name, SYSTEM)["spec"]["template"]["spec"]["containers"]
    return found


def releases(pair: Pair) -> list[str]:
    names = [secret["metadata"]["name"] for secret in pair.in_member.all(SECRET, SYSTEM)]
    return sorted(name for name in names if name.startswith("sh.helm.release"))


def check_repeated(pair: Pair, *words: str) -> None:
    """A second run changes nothing and says so."""
    before = pair.everything()
    assert f"{MEMBER} is up to date: nothing was changed" in pair.join(*words)
    assert pair.everything() == before


@pytest.mark.usefixtures("helm", "serve")
def test_with_helm_it_is_a_release_with_the_image_of_the_hub(pair: Pair) -> None:
    done = pair.join(AUTO)
    assert f"member: Helm release {SYSTEM}/{AGENT} created" in done
    assert container(pair)["image"] == IMAGE
    assert pair.in_member.get(DEPLOYMENT, AGENT, SYSTEM)["spec"]["template"]["spec"]["serviceAccountName"] == AGENT
    check_repeated(pair, AUTO)
    assert f"member: Helm release {SYSTEM}/{AGENT} changed" in pair.join(AUTO, f"--image={NEXT_IMAGE}", "--take-over")
    assert container(pair)["image"] == NEXT_IMAGE
    assert "--take-over" in container(pair)["args"]
    pair.join(AUTO)
    assert "--take-over" not in container(pair)["args"], "it is for one start only"
    shown = pair.run("leave", "--dry-run")
    assert f"member: Helm release {SYSTEM}/{AGENT} would be removed" in shown.stdout
    assert shown.stderr == ""
    assert releases(pair)
    pair.leave()
    assert not pair.in_member.find(DEPLOYMENT, AGENT, SYSTEM)
    assert releases(pair) == []
    assert not pair.in_member.find(SECRET, HUB_SECRET, SYSTEM)


@pytest.mark.usefixtures("no_helm", "serve")
def test_without_helm_it_is_a_deployment_with_the_image_of_the_hub(pair: Pair) -> None:
    assert f"member: Deployment {SYSTEM}/{AGENT} created" in pair.join(AUTO)
    assert container(pair)["image"] == IMAGE
    check_repeated(pair, AUTO)
    pair.in_member.patch(DEPLOYMENT, AGENT, {"spec": {"replicas": 0}}, SYSTEM)
    assert f"member: Deployment {SYSTEM}/{AGENT} changed" in pair.join(AUTO)
    assert pair.in_member.get(DEPLOYMENT, AGENT, SYSTEM)["spec"]["replicas"] == 1
    pair.leave()
    assert not pair.in_member.find(DEPLOYMENT, AGENT, SYSTEM)


@pytest.mark.usefixtures("no_helm")
def test_an_agent_of_an_earlier_release_gets_the_selector_of_the_chart(pair: Pair) -> None:
    """Selectors are immutable: an update would be refused."""
    pair.join("--agent=manifests", f"--image={IMAGE}")
    earlier = pair.in_member.get(DEPLOYMENT, AGENT, SYSTEM)
    earlier["spec"]["selector"] = {"matchLabels": {"app.kubernetes.io/name": AGENT}}
    earlier["metadata"] = {key: earlier["metadata"][key] for key in ("name", "namespace", "labels")}
    pair.in_member.delete(DEPLOYMENT, AGENT, SYSTEM)
    pair.in_member.create({name: earlier[name] for name in ("apiVersion", "kind", "metadata", "spec")})
    shown = pair.join("--agent=manifests", "--dry-run")
    assert f"member: Deployment {SYSTEM}/{AGENT} would be changed" in shown
    pair.join("--agent=manifests")
    assert len(pair.in_member.get(DEPLOYMENT, AGENT, SYSTEM)["spec"]["selector"]["matchLabels"]) == 3
    check_repeated(pair, "--agent=manifests")


def install_chart(pair: Pair, helm: Path, folder: Path) -> None:
    """Install the agent as users do without ``join``, under another name and with values of their own."""
    values = {
        "cluster": MEMBER,
        "image": {"repository": "old", "tag": "1"},
        "resources": {"limits": {"memory": "1Gi"}},
        "takeOver": True,
        "crds": {"install": False},  # other tests leave the definition in the cluster
    }
    file = folder / "values.json"
    file.write_text(json.dumps(values), encoding="utf-8")
    pair.in_member.apply([make_namespace(SYSTEM)])
    where = (f"--kubeconfig={pair.kubeconfig()}", "--kube-context=member", f"--namespace={SYSTEM}")
    command = [helm, "install", "port", CHART, *where, f"--values={file}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr


def test_an_agent_that_helm_has_installed_is_upgraded_with_its_own_values(pair, helm, tmp_path, serve, monkeypatch):
    install_chart(pair, helm, tmp_path)
    name = f"port-{AGENT}"
    try:
        with monkeypatch.context() as without:
            without.setenv("PATH", "/usr/bin:/bin")
            before = pair.everything()
            said = only_error(pair.run("join", "--timeout=0", AUTO))
            assert f"Deployment {SYSTEM}/{name} belongs to Helm release port, which only helm can upgrade" in said
            assert pair.everything() == before
        assert f"member: Helm release {SYSTEM}/port changed" in pair.join(AUTO)
        assert container(pair, name)["image"] == IMAGE
        assert container(pair, name)["resources"]["limits"] == {"memory": "1Gi"}
        assert container(pair, name)["args"] == [f"--cluster={MEMBER}"]
        instances = [role["metadata"].get("labels", {}).get(INSTANCE) for role in pair.in_member.all(CLUSTER_ROLE)]
        assert "port" in instances
        assert not pair.in_member.find(CLUSTER_ROLE, AGENT), "an account that no agent uses needs no rights"
        assert [item["metadata"]["name"] for item in pair.in_member.all(DEPLOYMENT, SYSTEM)] == [name]
        check_repeated(pair, AUTO)
        done = pair.run("leave")
        assert (
            f"Deployment {SYSTEM}/{name} remains. To remove it: helm uninstall port --namespace {SYSTEM}" in done.stderr
        )
        assert container(pair, name)
    finally:
        where = (f"--kubeconfig={pair.kubeconfig()}", "--kube-context=member", f"--namespace={SYSTEM}")
        subprocess.run([helm, "uninstall", "port", *where], check=True, capture_output=True, timeout=300)


@pytest.mark.usefixtures("serve")
def test_a_release_of_another_chart_with_the_name_of_the_agent_is_left_alone(pair: Pair, helm: Path, tmp_path: Path):
    """An upgrade to the agent's chart would delete its objects."""
    chart = tmp_path / "other"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: other\nversion: 1.0.0\n", encoding="utf-8")
    content = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: theirs\n"
    (chart / "templates" / "content.yaml").write_text(content, encoding="utf-8")
    pair.in_member.apply([make_namespace(SYSTEM)])
    where = (f"--kubeconfig={pair.kubeconfig()}", "--kube-context=member", f"--namespace={SYSTEM}")
    subprocess.run([helm, "install", AGENT, str(chart), *where], check=True, capture_output=True, timeout=300)
    try:
        before = pair.everything()
        said = only_error(pair.run("join", "--timeout=0", AUTO))
        assert f"Helm release {SYSTEM}/{AGENT} is of chart 'other-1.0.0'" in said
        assert pair.everything() == before
    finally:
        subprocess.run([helm, "uninstall", AGENT, *where], check=True, capture_output=True, timeout=300)


@pytest.mark.usefixtures("helm", "serve")
def test_nothing_is_changed_without_a_confirmation(pair: Pair) -> None:
    before = pair.everything()
    words = ["join", MEMBER, "--context=hub", "--member-context=member", f"--kubeconfig={pair.kubeconfig()}"]
    command = [sys.executable, "-m", "webhook.cli", *words, "--timeout=0"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 1
    assert done.stderr == "error: not confirmed: standard input is not a terminal, use --yes\n"
    *lines, helm_line = done.stdout.splitlines()
    assert {line.split(" ", 1)[0] for line in lines} == {"hub:", "member:"}
    assert all(" would be created" in line for line in lines if not line.endswith(" unchanged"))
    assert helm_line.startswith(f"  helm upgrade --install {AGENT} ")
    assert pair.everything() == before


@pytest.mark.usefixtures("helm", "serve")
def test_the_printed_command_installs_the_agent(pair: Pair, helm: Path) -> None:
    pair.join()
    before = pair.everything()
    printed = pair.join(AUTO, "--print")
    assert pair.everything() == before
    program, *words = shlex.split(printed)
    assert program == "helm"
    assert subprocess.run([helm, *words], capture_output=True, check=False, timeout=300).returncode == 0
    assert container(pair)["image"] == IMAGE
    check_repeated(pair, AUTO)


@pytest.mark.usefixtures("no_helm", "serve")
def test_the_printed_deployment_is_the_one_that_join_would_apply(pair: Pair, tmp_path: Path) -> None:
    pair.join()
    printed = tmp_path / "agent.yaml"
    printed.write_text(pair.join(AUTO, "--print"), encoding="utf-8")
    pair.member.kubectl("apply", "--server-side", "--field-manager=harbormaster-join", "-f", str(printed))
    check_repeated(pair, AUTO)


@pytest.mark.usefixtures("helm")
def test_a_release_that_fails_is_one_line_and_the_next_run_goes_on(pair: Pair) -> None:
    """Helm itself is refused by the member, after everything else has been made."""
    words = (AUTO, f"--image={IMAGE}")
    policy = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy"}
    rules = [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]}]
    spec = {"matchConstraints": {"resourceRules": rules}, "validations": [{"expression": "false", "message": "closed"}]}
    binding = {"apiVersion": policy["apiVersion"], "kind": f"{policy['kind']}Binding", "metadata": {"name": "closed"}}
    pair.in_member.apply(
        [
            {**policy, "metadata": {"name": "closed"}, "spec": spec},
            {**binding, "spec": {"policyName": "closed", "validationActions": ["Deny"]}},
        ]
    )
    probe = {**SERVE, "metadata": {"name": "probe", "namespace": "default"}}
    try:

        def refused() -> str:
            try:
                pair.member.request("POST", "/apis/apps/v1/namespaces/default/deployments?dryRun=All", probe)
            except ApiError as error:
                return "" if "closed" in str(error) else str(error)
            return "it is not enforced yet"

        wait_until("the policy is enforced", refused)
        said = only_error(pair.run("join", "--timeout=0", *words))
        assert said.startswith("helm upgrade: ")
        assert "closed" in said
    finally:
        for kind in (f"{policy['kind']}Binding", policy["kind"]):
            pair.in_member.delete(KINDS["admissionregistration.k8s.io", kind], "closed")

    def joined() -> str:
        done = pair.run("join", "--timeout=0", *words)
        return "" if done.returncode == 0 else done.stderr

    wait_until("the policy is gone", joined)
    assert container(pair)["image"] == IMAGE
    check_repeated(pair, *words)


FAKE = """#!{python}
import os, sys
with open({file!r}, "a") as log:
    log.write(repr((sys.argv, dict(os.environ))))
"""


def test_the_token_is_neither_printed_nor_given_to_helm(pair: Pair, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    called = tmp_path / "called"
    program = tmp_path / "bin" / "helm"
    program.parent.mkdir()
    program.write_text(FAKE.format(python=sys.executable, file=str(called)), encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    done = pair.run("join", "--timeout=0", AUTO, f"--image={IMAGE}")
    assert done.returncode == 0, done.stderr
    assert AGENT in called.read_text(encoding="utf-8")
    token = pair.token()
    for text in (
        done.stdout,
        done.stderr,
        called.read_text(encoding="utf-8"),
        pair.join(AUTO, f"--image={IMAGE}", "--print"),
    ):
        assert token not in text
        assert token.rpartition(".")[2] not in text


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        pytest.param(["--agent=manifests"], "the image is unknown: specify it with --image IMAGE", id="no-serve"),
        pytest.param(["--agent=helm", f"--image={IMAGE}"], "--agent helm: no helm on PATH", id="no-helm"),
        pytest.param(["--agent=manifests", "--image=a,b:1"], "--image 'a,b:1': must be REPOSITORY:TAG", id="image"),
        pytest.param(["--member-context=hub"], "member (context 'hub'): is the hub itself", id="hub-is-member"),
    ],
)
@pytest.mark.usefixtures("no_helm")
def test_what_cannot_be_installed_is_one_line_and_nothing_is_written(
    pair: Pair, words: list[str], complaint: str
) -> None:
    before = pair.everything()
    assert complaint in only_error(pair.run("join", "--timeout=0", *words))
    assert pair.everything() == before


@pytest.mark.usefixtures("no_helm")
def test_the_agent_of_another_creator_is_left_alone(pair: Pair) -> None:
    other = {**SERVE, "metadata": {"name": AGENT, "namespace": SYSTEM}}
    pair.in_member.apply([make_namespace(SYSTEM), other])
    done = pair.join("--agent=manifests", f"--image={IMAGE}")
    assert f"Deployment {SYSTEM}/{AGENT} was created neither by join nor by Helm, and is left alone" in done
    check_repeated(pair, "--agent=manifests", f"--image={IMAGE}")
    assert f"kubectl delete deployment {AGENT} --namespace {SYSTEM} --context member" in pair.run("leave").stderr
    assert pair.in_member.find(DEPLOYMENT, AGENT, SYSTEM)


@pytest.mark.usefixtures("helm")
def test_a_caller_who_may_not_create_the_release_is_told_before_anything_is_written(pair: Pair) -> None:
    group = "rbac.authorization.k8s.io"
    verbs = ["get", "list", "create", "patch", "update", "escalate", "bind"]
    every = {"apiGroups": ["*"], "resources": ["*"], "verbs": verbs}
    rules = [
        {**every, "apiGroups": ["", group, "apiextensions.k8s.io", "authorization.k8s.io", PLACEMENT.group]},
        {**every, "apiGroups": ["apps"], "verbs": ["get", "list"]},
    ]
    head = {"apiVersion": f"{group}/v1", "metadata": {"name": "no-deployments"}}
    reference = {"apiGroup": group, "kind": "ClusterRole", "name": "no-deployments"}
    subjects = [{"apiGroup": group, "kind": "User", "name": NOBODY}]
    pair.in_member.apply(
        [
            {**head, "kind": "ClusterRole", "rules": rules},
            {**head, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": subjects},
        ]
    )
    try:
        before = pair.everything()
        kubeconfig = pair.kubeconfig(member_user=NOBODY)
        said = only_error(pair.run("join", "--timeout=0", AUTO, f"--image={IMAGE}", kubeconfig=kubeconfig))
        assert said == f"member (context 'member'): you may not create Deployment {SYSTEM}/{AGENT}"
        assert pair.everything() == before
    finally:
        for kind in ("ClusterRoleBinding", "ClusterRole"):
            pair.in_member.delete(KINDS[group, kind], "no-deployments")


@pytest.mark.usefixtures("no_helm")
def test_a_hub_with_two_images_of_serve_leaves_the_choice_to_the_caller(pair: Pair, serve: object) -> None:
    other = json.loads(json.dumps(SERVE).replace(IMAGE, NEXT_IMAGE).replace("hb-serve", "other-serve"))
    pair.on_hub.apply([other])
    try:
        said = only_error(pair.run("join", "--timeout=0", AUTO))
        assert said.endswith(
            f"runs different images in namespace '{SYSTEM}': {IMAGE}, {NEXT_IMAGE}. Select one: --image"
        )
    finally:
        pair.on_hub.delete(DEPLOYMENT, "other-serve", SYSTEM)
