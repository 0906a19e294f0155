"""The real kubectl on the API of ``harbormaster up``, by the kubeconfig in its data folder."""

import json
import os
import re
import signal
import stat
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import yaml

from e2e.controlplane.build import KUBERNETES
from e2e.controlplane.service import HARBORMASTER
from scorer.api.kinds import KINDS
from tests.webhook.cli.fleets import member, placement

CRP = "clusterresourceplacement.placement.kubernetes-fleet.io"
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
ANY_PORTS = ("--https-port", "0", "--http-port", "0")
ENVIRONMENT = {name: text for name, text in os.environ.items() if not name.startswith(("HARBORMASTER_", "KUBE"))}
"""Without what names another hub."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The data folder of a hub that is up, with a member and a placement on it."""
    folder = tmp_path_factory.mktemp("up")
    file = folder / "fleet.yaml"
    objects = (NAMESPACE, member("dover", 3), placement("web", placementType="PickN", numberOfClusters=1))
    file.write_text(yaml.safe_dump_all(objects), encoding="utf-8")
    command = [HARBORMASTER, "up", "--data", str(folder / "data"), *ANY_PORTS, "-f", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as process:
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line)
            if line.startswith("Up until"):
                break
        assert f"or:    kubectl --kubeconfig {folder / 'data' / 'kubeconfig'} get crp\n" in said
        yield folder / "data"
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    assert process.returncode == 0
    assert not (folder / "data" / "kubeconfig").exists()


@pytest.fixture(scope="module")
def kubectl(programs: Mapping[str, Path], data: Path) -> Callable[..., CompletedProcess[str]]:
    """Runs kubectl; *given* goes to its standard input as JSON."""

    def run(*words: str, given: object = None) -> CompletedProcess[str]:
        cache = data.parent / "cache"  # of discovery: not the user's
        command = [str(programs["kubectl"]), f"--kubeconfig={data / 'kubeconfig'}", f"--cache-dir={cache}", *words]
        return subprocess.run(
            command,
            input=None if given is None else json.dumps(given),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=ENVIRONMENT,
        )

    return run


def done(ran: CompletedProcess[str]) -> str:
    """What a run printed that has to have gone well."""
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def deployment(**images: str) -> dict[str, object]:
    labels = {"app": "web"}
    containers = [{"name": name, "image": image, "ports": [{"containerPort": 80}]} for name, image in images.items()]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
        },
    }


def test_the_kubeconfig_is_for_its_owner_alone(data):
    mode = (data / "kubeconfig").stat().st_mode
    assert stat.filemode(mode) == "-rw-------"
    server = yaml.safe_load((data / "kubeconfig").read_text())["clusters"][0]["cluster"]["server"]
    assert re.fullmatch(r"https://127\.0\.0\.1:[0-9]+", server)


def test_kubectl_knows_versions_and_kinds(kubectl):
    assert f"Client Version: {KUBERNETES}" in done(kubectl("version"))
    listed = {line.split()[-1] for line in done(kubectl("api-resources", "--no-headers")).splitlines()}
    assert listed == {kind.kind for kind in KINDS.values()}
    assert "placement.kubernetes-fleet.io/v1beta1" in done(kubectl("api-versions")).split()


def test_kubectl_gets_what_is_there(kubectl):
    table = done(kubectl("get", "crp,cluster"))
    assert f"{CRP}/web" in table
    assert "membercluster.cluster.kubernetes-fleet.io/dover" in table
    shown = yaml.safe_load(done(kubectl("get", "crp", "web", "-o", "yaml")))
    assert shown["spec"]["policy"] == {"placementType": "PickN", "numberOfClusters": 1}
    works = json.loads(done(kubectl("get", "works", "-A", "-o", "json")))["items"]
    assert {work["metadata"]["namespace"] for work in works} == {"fleet-member-dover"}
    assert "Placement Type" in done(kubectl("describe", "crp", "web"))
    missing = kubectl("get", "crp", "nope")
    assert (missing.returncode, "NotFound" in missing.stderr) == (1, True)


def test_kubectl_applies_labels_patches_and_deletes(kubectl):
    wanted = placement("api", placementType="PickN", numberOfClusters=1)
    apply = ("apply", "--validate=false", "-f", "-")
    assert done(kubectl(*apply, given=wanted)) == f"{CRP}/api created\n"
    assert done(kubectl(*apply, given=wanted)) == f"{CRP}/api configured\n"  # the defaults are the hub's
    wanted["spec"]["policy"]["numberOfClusters"] = 2
    assert done(kubectl(*apply, given=wanted)) == f"{CRP}/api configured\n"
    assert done(kubectl("get", "crp", "api", "-o", "jsonpath={.spec.policy.numberOfClusters}")) == "2"
    done(kubectl("label", "crp/api", "team=shop"))
    done(kubectl("patch", "crp", "api", "--type=merge", "-p", '{"spec": {"revisionHistoryLimit": 3}}'))
    shown = json.loads(done(kubectl("get", "crp", "api", "-o", "json")))
    assert (shown["metadata"]["labels"], shown["spec"]["revisionHistoryLimit"]) == ({"team": "shop"}, 3)
    wanted["spec"]["policy"] = {"placementType": "PickAll", "numberOfClusters": 1}
    refused = kubectl(*apply, given=wanted)
    assert refused.returncode == 1
    assert "spec.policy.placementType" in refused.stderr
    assert done(kubectl("delete", "crp", "api")) == f'{CRP} "api" deleted\n'
    assert kubectl("get", "crp", "api").returncode == 1


def test_kubectl_applies_kubernetes_own_kinds_again_and_again(kubectl):
    """It sends them as strategic merge patches: lists by the names of their items."""
    apply = ("apply", "--validate=false", "-f", "-")
    assert done(kubectl(*apply, given=deployment(web="1", log="1"))) == "deployment.apps/web created\n"
    assert done(kubectl(*apply, given=deployment(web="1", log="1"))) == "deployment.apps/web unchanged\n"
    done(kubectl("set", "image", "deployment/web", "-n", "shop", "log=2"))
    assert done(kubectl(*apply, given=deployment(mesh="1", web="2"))) == "deployment.apps/web configured\n"
    path = "jsonpath={range .spec.template.spec.containers[*]}{.name}={.image} {end}"
    assert done(kubectl("get", "deploy", "web", "-n", "shop", "-o", path)) == "mesh=1 web=2 "
    done(kubectl("delete", "deployment", "web", "-n", "shop"))


def test_kubectl_sees_a_change_when_it_comes(kubectl):
    done(kubectl("annotate", "crp/web", "note=seen"))
    ready = "--for=jsonpath={.metadata.annotations.note}=seen"
    assert done(kubectl("wait", "crp/web", ready, "--timeout=20s")) == f"{CRP}/web condition met\n"


def test_our_commands_ask_the_same_hub_by_the_kubeconfig(data):
    """Also questions, which an API server would not know."""
    command = [HARBORMASTER, "explain", "crp/web", "--kubeconfig", str(data / "kubeconfig"), "-o", "json"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=ENVIRONMENT)
    assert [item["cluster"] for item in json.loads(done(ran))["items"]] == ["dover"]
    assert ran.stderr == ""
