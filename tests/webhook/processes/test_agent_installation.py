"""How `join` installs the agent: the image, the way, and that nothing of it can be misread."""

import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from webhook.processes.agent_installation import (
    AgentRequest,
    Helm,
    Image,
    InstallMethod,
    agent_deployment,
    plan_installation,
)
from webhook.processes.member_objects import is_from_join
from webhook.processes.sides import JoinError, WriteOutcome

DIGEST = f"sha256:{'a' * 64}"
IMAGE = Image("registry.example.com/harbormaster", "1.2", "")
OPTIONS = AgentRequest("berlin", "quay", IMAGE, InstallMethod.AUTO, take_over=False)
RELEASE = "meta.helm.sh/release-name"


def installed(*, release="", image=IMAGE, member="berlin", from_join=True):
    """Return the Deployment of an installed agent."""
    document = agent_deployment(replace(OPTIONS, member=member), image).document
    if release:
        document["metadata"]["annotations"] = {RELEASE: release}
    if not from_join:
        del document["metadata"]["labels"]["harbormaster.dev/made-by"]
    return document


def plan(agent=None, *, has_helm=True, **changes):
    return plan_installation(replace(OPTIONS, **changes), agent, has_helm=has_helm)


@pytest.mark.parametrize(
    ("text", "image"),
    [
        ("harbormaster:0.1.0", Image("harbormaster", "0.1.0", "")),
        ("localhost:5000/a/b", Image("localhost:5000/a/b", "latest", "")),
        (f"ghcr.io/a/b@{DIGEST}", Image("ghcr.io/a/b", "", DIGEST)),
        (f"ghcr.io/a/b:1@{DIGEST}", Image("ghcr.io/a/b", "", DIGEST)),
        ("a:1e3", Image("a", "1e3", "")),
    ],
)
def test_an_image_has_a_repository_and_a_tag_or_a_digest(text, image):
    assert Image.parse(text) == image
    assert Image.parse(str(image)) == image


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a b:1",
        "a,b=c:1",
        "a:1,x=y",
        "a\\,b:1",
        "{a}:1",
        "--post-renderer=sh",
        "a:1\n",
        "a@sha256:1",
        "$(id):1",
        "a:\u0661",
    ],
)
def test_an_image_that_helm_or_a_shell_could_misread_is_refused(text):
    with pytest.raises(ValueError, match="must be REPOSITORY:TAG or"):
        Image.parse(text)


def test_a_new_agent_is_a_release_of_the_chart_if_helm_is_there():
    step = plan(take_over=True)
    assert (step.outcome, step.release, step.deployment) == (WriteOutcome.CREATED, "harbormaster-agent", None)
    assert step.helm[:3] == ["upgrade", "--install", "harbormaster-agent"]
    assert (Path(step.helm[3]) / "Chart.yaml").is_file()
    assert dict(zip(step.helm[5::2], step.helm[4::2], strict=True)) == {
        "cluster=berlin": "--set-string",
        "serviceAccount.create=false": "--set",
        "serviceAccount.name=harbormaster-agent": "--set-string",
        "rbac.create=false": "--set",
        "crds.install=false": "--set",
        "commonLabels.harbormaster\\.dev/made-by=join": "--set-string",
        "image.repository=registry.example.com/harbormaster": "--set-string",
        "image.tag=1.2": "--set-string",
        "image.digest=": "--set-string",
        "takeOver=true": "--set",
    }


@pytest.mark.parametrize(("method", "has_helm"), [(InstallMethod.AUTO, False), (InstallMethod.MANIFESTS, True)])
def test_without_helm_it_is_the_deployment_of_the_chart(method, has_helm):
    step = plan(method=method, has_helm=has_helm, take_over=True)
    assert not step.helm
    document = step.deployment.document
    assert (document["metadata"]["namespace"], is_from_join(document)) == ("quay", True)
    assert document["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "harbormaster"
    [container] = document["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["--cluster=berlin", "--take-over"]
    assert container["image"] == str(IMAGE)
    assert {"name": "HARBORMASTER_NAMESPACE", "value": "quay"} in container["env"]
    assert "placeholder" not in str(document)


def test_a_release_is_upgraded_with_its_own_values_and_left_alone_when_it_is_current():
    assert plan(installed(release="port")).outcome is WriteOutcome.UNCHANGED
    for agent in (
        installed(release="port", image=Image("old", "1", "")),
        installed(release="port", member="paris"),
    ):
        step = plan(agent)
        assert step.outcome is WriteOutcome.CHANGED
        assert step.helm[:2] == ["upgrade", "port"]
        assert "--reset-then-reuse-values" in step.helm
        assert not [word for word in step.helm if word.startswith(("rbac", "serviceAccount", "crds", "commonLabels"))]
    assert plan(installed(release="port"), take_over=True).outcome is WriteOutcome.CHANGED
    assert plan(installed(release="port"), image=None).outcome is WriteOutcome.UNCHANGED


@pytest.mark.parametrize(
    ("changes", "agent", "complaint"),
    [
        pytest.param({"image": None}, None, "the image is unknown: specify it with --image", id="no-image"),
        pytest.param({"method": InstallMethod.HELM, "has_helm": False}, None, "no helm on PATH", id="no-helm"),
        pytest.param(
            {"has_helm": False, "image": Image("new", "1", "")},
            installed(release="port"),
            "belongs to Helm release port, which only helm can upgrade",
            id="release-without-helm",
        ),
        pytest.param(
            {"method": InstallMethod.MANIFESTS, "image": Image("new", "1", "")},
            installed(release="port"),
            "belongs to Helm release port, which only helm can upgrade",
            id="manifests-over-a-release",
        ),
        pytest.param(
            {"method": InstallMethod.HELM},
            installed(),
            "Delete it first to install it with Helm",
            id="helm-after",
        ),
        pytest.param(
            {"image": Image("new", "1", "")},
            installed(release="--post-renderer=sh"),
            "'--post-renderer=sh' is not the name of a Helm release",
            id="hostile-release",
        ),
    ],
)
def test_what_cannot_be_installed_is_refused(changes, agent, complaint):
    with pytest.raises(JoinError, match=complaint):
        plan(agent, **changes)


def test_an_agent_of_another_creator_is_left_alone():
    step = plan(installed(from_join=False), image=Image("new", "1", ""))
    assert (step.outcome, step.helm, step.deployment) == (WriteOutcome.UNCHANGED, (), None)
    assert "created neither by join nor by Helm" in step.remark


def test_a_deployment_of_join_remains_one_where_helm_has_appeared():
    step = plan(installed(), image=Image("new", "1", ""))
    assert step.deployment.document["spec"]["template"]["spec"]["containers"][0]["image"] == "new:1"
    assert not step.obsolete
    earlier = installed()
    earlier["spec"]["selector"] = {"matchLabels": {"app.kubernetes.io/name": "harbormaster-agent"}}
    assert plan(earlier).obsolete


def helm_program(folder: Path, script: str) -> Helm:
    program = folder / "helm"
    program.write_text(f"#!{sys.executable}\n{script}", encoding="utf-8")
    program.chmod(0o755)
    return Helm(str(program), folder / "my files", "arn:of a/cluster", "quay", os.environ)


def test_the_printed_command_is_one_that_a_shell_takes(tmp_path):
    helm = Helm("/usr/bin/helm", Path("my files/config"), "$(id); 'a b'", "quay", {})
    assert shlex.split(helm.line(["upgrade", "a"])) == [
        "helm",
        "upgrade",
        "a",
        "--kubeconfig=my files/config",
        "--kube-context=$(id); 'a b'",
        "--namespace=quay",
    ]


async def test_helm_is_run_for_the_named_cluster_whatever_the_environment_says(tmp_path, monkeypatch):
    for name in ("HELM_KUBEAPISERVER", "HELM_KUBETOKEN", "HELM_KUBECONTEXT", "HELM_KUBEASUSER"):
        monkeypatch.setenv(name, "other")
    monkeypatch.setenv("HELM_DRIVER", "secret")
    script = f"import os, sys\nopen({str(tmp_path / 'called')!r}, 'w').write(repr((sys.argv[1:], sorted(os.environ))))"
    await helm_program(tmp_path, script).run(["upgrade", "a"])
    words, names = eval((tmp_path / "called").read_text(encoding="utf-8"))
    assert words == [
        "upgrade",
        "a",
        f"--kubeconfig={tmp_path / 'my files'}",
        "--kube-context=arn:of a/cluster",
        "--namespace=quay",
    ]
    assert [name for name in names if name.startswith("HELM_")] == ["HELM_DRIVER"]


async def test_an_error_of_helm_is_one_line(tmp_path):
    script = "import sys\nsys.exit('Error: UPGRADE FAILED:\\n another operation is in progress')"
    with pytest.raises(JoinError, match=r"^helm upgrade: Error: UPGRADE FAILED: another operation is in progress$"):
        await helm_program(tmp_path, script).run(["upgrade", "a"])
    with pytest.raises(JoinError, match="No such file or directory"):
        await Helm(str(tmp_path / "gone"), tmp_path, "member", "quay", {}).run(["upgrade", "a"])


async def test_a_helm_that_does_not_end_is_stopped_and_named(tmp_path):
    """A credential plugin may ask a question, and an API server may not answer. Its output may remain open."""
    script = "import os, signal\nos.fork()\nsignal.alarm(60)\nsignal.pause()"
    helm = replace(helm_program(tmp_path, script), seconds=0.1)
    with pytest.raises(JoinError) as caught:
        await helm.run(["upgrade", "a"])
    assert str(caught.value) == (
        "helm upgrade: timed out after 0.1 s. Run it yourself to see what it waits for, then repeat this command: "
        f"helm upgrade a '--kubeconfig={tmp_path}/my files' '--kube-context=arn:of a/cluster' --namespace=quay"
    )


@pytest.mark.parametrize(
    ("chart", "status", "obstacle"),
    [
        pytest.param("harbormaster-agent-0.1.0", "deployed", "", id="own"),
        pytest.param("harbormaster-agent-0.1.0-rc.1", "failed", "", id="failed-before"),
        pytest.param(
            "nginx-1.0.0", "deployed", "quay/a is of chart 'nginx-1.0.0', not of harbormaster-agent", id="other"
        ),
        pytest.param("harbormaster-agent-0.1.0", "pending-install", "run helm uninstall a ", id="install"),
        pytest.param("harbormaster-agent-0.1.0", "pending-upgrade", "run helm rollback a ", id="upgrade"),
        pytest.param("harbormaster-agent-0.1.0", "uninstalling", "run helm uninstall a ", id="uninstall"),
    ],
)
async def test_a_release_of_another_chart_and_an_interrupted_one_are_obstacles(tmp_path, chart, status, obstacle):
    history = [{"revision": 1, "status": status, "chart": chart}]
    script = (
        "import json, sys\nassert sys.argv[1:5] == ['history', 'a', '--max=1', '--output=json']\n"
        f"print(json.dumps({history!r}))"
    )
    reason = await helm_program(tmp_path, script).obstacle("a")
    assert obstacle in reason
    assert bool(obstacle) == bool(reason)


async def test_no_release_is_no_obstacle_and_an_unreadable_one_is_an_error(tmp_path):
    assert await helm_program(tmp_path, "import sys\nsys.exit('Error: release: not found')").obstacle("a") == ""
    with pytest.raises(JoinError, match=r"^helm history: Error: forbidden$"):
        await helm_program(tmp_path, "import sys\nsys.exit('Error: forbidden')").obstacle("a")
    with pytest.raises(JoinError, match=r"^helm history: "):
        await helm_program(tmp_path, "print('WARNING')").obstacle("a")


def test_helm_is_looked_for_on_the_path(tmp_path):
    variables = {"PATH": str(tmp_path)}
    assert Helm.find(tmp_path, "member", "quay", variables) is None
    helm_program(tmp_path, "")
    assert Helm.find(tmp_path, "member", "quay", variables).program == str(tmp_path / "helm")
