"""The real kubectl on the API of ``harbormaster up``, by the kubeconfig in its data folder."""

import json
import os
import re
import shlex
import signal
import stat
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import yaml

from e2e.controlplane.build import KUBERNETES
from e2e.controlplane.process import PATIENCE
from e2e.controlplane.service import HARBORMASTER
from scorer.api.kinds import KINDS
from tests.webhook.cli.fleets import member, placement

GROUP = "placement.kubernetes-fleet.io"
CRP = "clusterresourceplacement.placement.kubernetes-fleet.io"
BOATS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "boats.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"kind": "Boat", "plural": "boats", "singular": "boat", "listKind": "BoatList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "additionalPrinterColumns": [{"name": "Sails", "type": "integer", "jsonPath": ".spec.sails"}],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {"sails": {"type": "integer", "description": "Number of sails."}},
                            }
                        },
                    }
                },
            }
        ],
    },
}
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
            if line.startswith("Press Ctrl-C"):
                break
        assert f"or:    kubectl --kubeconfig {folder / 'data' / 'kubeconfig'} get crp\n" in said
        yield folder / "data"
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)
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
            timeout=PATIENCE,
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
    apply = ("apply", "-f", "-")
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
    apply = ("apply", "-f", "-")
    assert done(kubectl(*apply, given=deployment(web="1", log="1"))) == "deployment.apps/web created\n"
    assert done(kubectl(*apply, given=deployment(web="1", log="1"))) == "deployment.apps/web unchanged\n"
    done(kubectl("set", "image", "deployment/web", "-n", "shop", "log=2"))
    assert done(kubectl(*apply, given=deployment(mesh="1", web="2"))) == "deployment.apps/web configured\n"
    path = "jsonpath={range .spec.template.spec.containers[*]}{.name}={.image} {end}"
    assert done(kubectl("get", "deploy", "web", "-n", "shop", "-o", path)) == "mesh=1 web=2 "
    done(kubectl("delete", "deployment", "web", "-n", "shop"))


CREATED = (
    "namespace team",
    "configmap a --from-literal=k=v --from-literal=empty=",
    "secret generic b --from-literal=k=v",
    "secret docker-registry c --docker-server=r.example.com --docker-username=u --docker-password=p",
    "serviceaccount d",
    "deployment e --image=nginx --replicas=0 --port=80 -- sleep 1",
    "job f --image=nginx -- sleep 1",
    "cronjob g --image=nginx --schedule='0/5 * * * *'",
    "service clusterip h --tcp=80:8080 --tcp=443:https",
    "service nodeport i --tcp=80 --node-port=30080",
    "service externalname j --external-name=example.com",
    "role k --verb=get,list --resource=configmaps,deployments.apps --resource-name=x",
    "rolebinding l --role=k --user=u --group=g --serviceaccount=shop:d",
    "clusterrole m --verb=get --non-resource-url=/healthz",
    "clusterrole n --aggregation-rule=a=b",
    "clusterrolebinding o --clusterrole=m --user=u",
    "quota p --hard=cpu=1,pods=2 --scopes=BestEffort",
    "poddisruptionbudget q --selector=app=web --min-available=50%",
    "poddisruptionbudget r --selector=app=web --max-unavailable=0",
    "priorityclass s --value=0 --preemption-policy=Never --description=low",
    "ingress t --class=nginx --default-backend=h:80 --rule=a.example.com/*=h:80,tls=certificate",
)
"""Typed commands, which send protobuf."""


@pytest.mark.parametrize("command", CREATED)
def test_kubectl_creates_what_it_prints_in_a_dry_run(kubectl, command):
    """The hub decodes the objects to the JSON that kubectl itself prints for them."""
    words, separator, arguments = command.partition(" -- ")
    create = ("-n", "shop", "create", *shlex.split(words))
    rest = (separator.strip(), *arguments.split()) if separator else ()
    printed = json.loads(done(kubectl(*create, "--dry-run=client", "-o", "json", *rest)))
    name = (printed["kind"].lower(), printed["metadata"]["name"])
    done(kubectl(*create, *rest))
    stored = json.loads(done(kubectl("-n", "shop", "get", *name, "-o", "json")))
    done(kubectl("-n", "shop", "delete", *name))
    expected = {key: value for key, value in printed.items() if key not in ("metadata", "status") and value is not None}
    assert {key: stored.get(key) for key in expected} == expected
    assert stored["metadata"].get("labels") == printed["metadata"].get("labels")


def test_kubectl_explains_every_field(kubectl):
    policy = done(kubectl("explain", "crp.spec.policy"))
    assert "KIND:       ClusterResourcePlacement\nVERSION:    v1\n" in policy
    assert "enum: PickAll, PickN, PickFixed" in policy
    surge = " ".join(done(kubectl("explain", "crp.spec.strategy.rollingUpdate.maxSurge")).split())
    assert "a percentage of the requested number, rounded up. Default: 25%." in surge
    assert "Default: 4. 1 to 24." in " ".join(done(kubectl("explain", "cmwin.spec")).split())
    assert "spec\t<Object> -required-" in done(kubectl("explain", "rp", "--recursive", "--api-version", f"{GROUP}/v1"))
    assert "accepts any content" in " ".join(done(kubectl("explain", "deploy")).split())
    assert 'field "polici" does not exist' in kubectl("explain", "crp.spec.polici").stderr


def test_kubectl_prints_our_columns(kubectl):
    def words(*asked: str) -> list[str]:
        return done(kubectl("get", *asked)).splitlines()[0].split()

    assert words("crp")[:4] == ["NAME", "GEN", "SCHEDULED", "SCHEDULED-GEN"]
    assert words("crp")[-3:] == ["UPDATED", "STATE", "AGE"]
    assert "WORK-SYNCHRONIZED" in words("crp", "-o", "wide")
    assert words("works", "-A")[:2] == ["NAMESPACE", "NAME"]
    assert words("ns") == ["NAME", "STATUS", "AGE"]
    row = done(kubectl("get", "cluster", "dover", "--no-headers", "-L", "region", "--sort-by=.metadata.name")).split()
    assert row[:2] == ["dover", "True"]


def test_kubectl_gets_all_kinds_of_a_category(kubectl):
    listed = done(kubectl("api-resources", "--categories=fleet-cluster", "-o", "name")).split()
    assert listed == [
        "internalmemberclusters.cluster.kubernetes-fleet.io",
        "memberclusters.cluster.kubernetes-fleet.io",
    ]
    assert f"{CRP}/web" in done(kubectl("get", "fleet-placement", "-A", "-o", "name")).split()


@pytest.mark.parametrize(
    ("validate", "code", "said"),
    [
        pytest.param("strict", 1, 'strict decoding error: unknown field "spec.policy.numberOfCluster"', id="strict"),
        pytest.param("true", 1, 'strict decoding error: unknown field "spec.policy.numberOfCluster"', id="by-default"),
        pytest.param("warn", 0, 'Warning: unknown field "spec.policy.numberOfCluster"', id="warn"),
        pytest.param("ignore", 0, "", id="ignore"),
    ],
)
def test_kubectl_lets_the_hub_check_for_unknown_fields(kubectl, validate, code, said):
    wanted = placement("typo", placementType="PickN", numberOfClusters=1, numberOfCluster=2)
    ran = kubectl("apply", f"--validate={validate}", "--dry-run=server", "-f", "-", given=wanted)
    assert (ran.returncode, said in ran.stderr) == (code, True), ran.stderr
    assert kubectl("get", "crp", "typo").returncode == 1


def test_kubectl_shows_what_a_file_would_change(kubectl):
    wanted = placement("web", placementType="PickN", numberOfClusters=2)
    ran = kubectl("diff", "-f", "-", given=wanted)
    assert ran.returncode == 1, ran.stderr
    assert "+    numberOfClusters: 2" in ran.stdout


def test_kubectl_edits(kubectl, monkeypatch):
    monkeypatch.setitem(ENVIRONMENT, "KUBE_EDITOR", "sed -i s/revisionHistoryLimit:.*/revisionHistoryLimit:\\ 7/")
    assert done(kubectl("edit", "crp", "web")) == f"{CRP}/web edited\n"
    assert done(kubectl("get", "crp", "web", "-o", "jsonpath={.spec.revisionHistoryLimit}")) == "7"


def test_kubectl_uses_kinds_that_were_defined_on_this_hub(kubectl):
    done(kubectl("apply", "-f", "-", given=BOATS))
    boat = {"apiVersion": "example.com/v1", "kind": "Boat", "metadata": {"name": "b", "namespace": "shop"}}
    done(kubectl("apply", "-f", "-", given={**boat, "spec": {"sails": 3}}))
    assert "Number of sails." in done(kubectl("explain", "boats.spec.sails"))
    assert [line.split()[:2] for line in done(kubectl("get", "boats", "-n", "shop")).splitlines()] == [
        ["NAME", "SAILS"],
        ["b", "3"],
    ]
    done(kubectl("delete", "crd", "boats.example.com"))


def test_kubectl_applies_on_the_server(kubectl):
    wanted = placement("api", placementType="PickN", numberOfClusters=1)
    wanted["metadata"]["labels"] = {"team": "shop"}
    apply = ("apply", "--server-side", "-f", "-")
    assert done(kubectl(*apply, given=wanted)) == f"{CRP}/api serverside-applied\n"
    other = {**wanted, "metadata": {"name": "api"}, "spec": {"policy": {"numberOfClusters": 2}}}
    refused = kubectl(*apply, "--field-manager=other", given=other)
    assert 'Apply failed with 1 conflict: conflict with "kubectl": .spec.policy.numberOfClusters\n' in refused.stderr
    done(kubectl(*apply, "--field-manager=other", "--force-conflicts", given=other))
    refused = kubectl(*apply, given=wanted)
    assert 'conflict with "other": .spec.policy.numberOfClusters\n' in refused.stderr
    del wanted["metadata"]["labels"], wanted["spec"]["policy"]["numberOfClusters"]
    done(kubectl(*apply, given=wanted))
    shown = json.loads(done(kubectl("get", "crp", "api", "-o", "json")))
    assert (shown["spec"]["policy"]["numberOfClusters"], "labels" in shown["metadata"]) == (2, False)
    done(kubectl("delete", "crp", "api"))


def test_kubectl_takes_over_on_the_server_what_it_has_applied_itself(kubectl):
    """It turns the fields that it wrote into applied ones, by a JSON patch; what is dropped later is removed."""
    metadata = {"name": "settings", "namespace": "shop"}
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "1", "b": "1"}}
    done(kubectl("apply", "-f", "-", given=settings))
    taken = kubectl("apply", "--server-side", "-f", "-", given=settings)
    assert (done(taken), taken.stderr) == ("configmap/settings serverside-applied\n", "")
    assert done(kubectl("diff", "--server-side", "-f", "-", given=settings)) == ""  # no loop writes to it meanwhile
    done(kubectl("apply", "--server-side", "-f", "-", given={**settings, "data": {"a": "2"}}))
    assert done(kubectl("get", "cm", "settings", "-n", "shop", "-o", "jsonpath={.data}")) == '{"a":"2"}'
    change = '[{"op": "replace", "path": "/data/a", "value": "3"}]'
    done(kubectl("patch", "cm", "settings", "-n", "shop", "--type=json", "-p", change))
    assert done(kubectl("get", "cm", "settings", "-n", "shop", "-o", "jsonpath={.data}")) == '{"a":"3"}'
    done(kubectl("delete", "cm", "settings", "-n", "shop"))


def test_kubectl_sees_a_change_when_it_comes(kubectl):
    done(kubectl("annotate", "crp/web", "note=seen"))
    ready = "--for=jsonpath={.metadata.annotations.note}=seen"
    assert done(kubectl("wait", "crp/web", ready, f"--timeout={PATIENCE:g}s")) == f"{CRP}/web condition met\n"


def test_our_commands_ask_the_same_hub_by_the_kubeconfig(data):
    """Also questions, which an API server would not know."""
    command = [HARBORMASTER, "explain", "crp/web", "--kubeconfig", str(data / "kubeconfig"), "-o", "json"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False, env=ENVIRONMENT)
    assert [item["cluster"] for item in json.loads(done(ran))["items"]] == ["dover"]
    assert ran.stderr == ""


@pytest.mark.parametrize("kilobytes", [4, 24, 40])
def test_up_names_the_file_for_which_the_disk_has_no_space(tmp_path, kilobytes):
    """On a file system of its own that is too small for the database, for a secret, or for the files of clients."""
    mounted = tmp_path / "small"
    mounted.mkdir()
    mount = f"mount -t tmpfs -o size={kilobytes}k,mode=700 tmpfs {mounted}"
    called = [HARBORMASTER, "up", "--data", mounted / "hub", *ANY_PORTS, "--once"]
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", f'{mount} && exec "$@"', "sh", *called]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=ENVIRONMENT, timeout=PATIENCE)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("error: ")
    assert f"{mounted}/hub/" in last
    assert re.search("No space left on device|disk is full", last)
