"""The command line on a hub that nothing of ours is installed on but the definitions, by a kubeconfig alone.

Commands run in this process, as their tests do: to start the program takes longer than most of what it does here. One
call of it, and the dashboard, are processes of their own.
"""

import copy
import gc
import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from e2e.controlplane.cluster import ApiError, Cluster
from e2e.controlplane.process import PATIENCE
from e2e.controlplane.service import HARBORMASTER
from e2e.fleet.objects import Objects
from scorer.api.kinds import MEMBER_CLUSTER, PLACEMENT
from tests.webhook.cli.fleets import member, placement
from webhook.cli.root import root

ENVIRONMENT = {name: text for name, text in os.environ.items() if not name.startswith(("HARBORMASTER_", "KUBE"))}
pytestmark = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
"""A command ends with its process, and so do its connections; here many are run in one."""
_AGE = re.compile(r"(?<=\s)(\d+m)?\d+s(?=\s|$)|(?<=\s)\d+m(?=\s|$)", re.MULTILINE)

Run = Callable[..., CompletedProcess[str]]


def labelled(name: str, clusters: int, **labels: str) -> dict[str, object]:
    document = placement(name, placementType="PickN", numberOfClusters=clusters)
    return {**document, "metadata": {"name": name, "labels": labels}}


def config_map(name: str, **labels: str) -> dict[str, object]:
    metadata = {"name": name, "namespace": "shop", "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a.b": "1", "c": "2"}}


@pytest.fixture(scope="module")
def objects(twin: Cluster) -> Iterator[None]:
    made = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}},
        member("dover", 3),
        labelled("web-10", 2, team="shop"),
        labelled("web-9", 1, team="shop", tier="front"),
        labelled("api", 3),
        config_map("boat", tier="front"),
        config_map("ship"),
    ]
    Objects(twin).apply(made)
    yield
    for name in ("web-10", "web-9", "api"):
        twin.kubectl("delete", "crp", name, "--wait=false")
    twin.kubectl("delete", "memberclusters", "dover", "--wait=false")
    twin.kubectl("delete", "cm", "boat", "ship", "-n", "shop")


@pytest.fixture(scope="module")
def ours(twin: Cluster, programs: Mapping[str, Path], objects: None, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs our commands, with kubectl on the PATH; *given* goes to standard input."""
    home = tmp_path_factory.mktemp("home")
    path = f"{programs['kubectl'].parent}{os.pathsep}{ENVIRONMENT.get('PATH', '')}"
    without = {name: None for name in os.environ if name not in ENVIRONMENT}
    environment = {**without, "HOME": str(home), "PATH": path}

    def run(*words: str, given: str | None = None, **more: str) -> CompletedProcess[str]:
        command = [*words, "--kubeconfig", str(twin.kubeconfig)]
        done = CliRunner().invoke(root, command, input=given, env={**environment, **more}, prog_name="harbormaster")
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        gc.collect()  # what the command has left goes here, and in no other test
        return CompletedProcess(command, done.exit_code, done.stdout, done.stderr)

    return run


def seen(text: str) -> str:
    """What both show at any moment: ages differ, and so may the blanks around them."""
    without = _AGE.sub("AGE", text)
    lines = without.splitlines()
    return "\n".join(" ".join(line.split()) if without != text else line.rstrip() for line in lines)


@pytest.mark.parametrize(
    "line",
    [
        "get ns",
        "get ns -o wide",
        "get ns --show-labels",
        "get ns shop default -o name",
        "get ns/shop crp/api -o name",
        "get ns,crp -o name",
        "get namespaces --field-selector metadata.name=shop --no-headers",
        "get cm -n shop --field-selector=metadata.name!=boat,metadata.namespace=shop -o name",
        "get cm -n shop -l tier -o name",
        "get cm -n shop -l tier!=front,app!=x -o name",
        "get cm -n shop -L tier --no-headers",
        "get cm -A -l tier=front",
        "get cm none -n shop --ignore-not-found",
        "get crp -l team=shop -o name",
        "get crp -l team=none -o name",
        "get crp --sort-by .metadata.name -o name",
        "get crp --sort-by={.spec.policy.numberOfClusters} -o name",
        "get crp -o custom-columns=NAME:.metadata.name,N:.spec.policy.numberOfClusters,T:.metadata.labels.tier",
        "get crp api -o custom-columns=L:.metadata.labels,S:.spec.resourceSelectors --no-headers",
        "get crp -o jsonpath={.items[*].metadata.name}",
        "get crp web-9 -o jsonpath={.metadata.labels}",
        'get crp -o jsonpath={range.items[*]}{.metadata.name}{"\\t"}{.spec.policy.numberOfClusters}{"\\n"}{end}',
        "get crp -o jsonpath={.items[?(@.metadata.labels.tier=='front')].metadata.name}",
        "get cm boat -n shop -o jsonpath={.data.a\\.b}{.data['c']}{.nothing}",
        "get crp -o jsonpath={.items[-1:].metadata.name}{.items[0:2].kind}",
        "get crd --no-headers -o name",
        "get apiservices",
        "get clusterroles cluster-admin",
        "get svc,deploy -A",
        "get all -A",
        "get work -A",
        "get memberclusters -o name",
        "get memberclusters",
        "get prioritylevelconfigurations -o wide",
        "api-resources --api-group=placement.kubernetes-fleet.io --sort-by=name --no-headers",
        "api-resources --api-group=apps --namespaced=true",
        "api-resources --namespaced=false --api-group= -o name",
        "wait crp/web-9 --for=jsonpath={.spec.policy.numberOfClusters}=1 --timeout=5s",
        "wait ns/shop --for=create",
        "wait crp --all --for=jsonpath={.spec.policy.placementType}=PickN",
    ],
)
def test_the_same_line_shows_the_same_as_kubectl(ours: Run, twin: Cluster, line: str) -> None:
    words = [word.replace("{range.", "{range .") for word in line.split()]
    theirs = twin.kubectl(*words, check=False)
    mine = ours(*[word for word in words if word != "--sort-by=name"])
    assert (mine.returncode, seen(mine.stdout)) == (theirs.returncode, seen(theirs.stdout)), mine.stderr


@pytest.mark.parametrize(
    "line",
    [
        "get crp none",
        "get nothing",
        "get crp -o jsonpath={.items[9]}",
        "get crp -o jsonpath={.items",
        "get crp -o something",
        "get crp -o custom-columns=NAME",
        "get crp -l a==b=c",
        "get crp/a b",
        "wait crp/api --for=condition=Never --timeout=0",
        "wait crp/none --for=condition=Never",
        "describe crp none",
        "diff -f /nowhere.yaml",
        "delete crp none",
        "delete crp",
    ],
)
def test_what_fails_there_fails_here_in_one_line(ours: Run, twin: Cluster, line: str) -> None:
    theirs, mine = twin.kubectl(*line.split(), check=False), ours(*line.split())
    assert theirs.returncode
    assert (mine.returncode, len(mine.stderr.splitlines())) == (2 if line.startswith("diff") else 1, 1), mine.stderr
    assert mine.stderr.startswith(("error: ", "Error from server ("))


def test_diff_has_the_exit_codes_of_kubectl(ours: Run, twin: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    file.write_text(yaml.safe_dump(labelled("web-9", 5, team="shop", tier="front")))
    for words in (["diff", "-f", str(file)], ["diff", "-k", str(tmp_path)]):
        (tmp_path / "kustomization.yaml").write_text("resources: [web.yaml]\n")
        theirs, mine = twin.kubectl(*words, check=False), ours(*words)
        assert (mine.returncode, theirs.returncode) == (1, 1), mine.stderr
        for text in (mine.stdout, theirs.stdout):
            assert {"-    numberOfClusters: 1", "+    numberOfClusters: 5"} <= set(text.splitlines())
    file.write_text(yaml.safe_dump(labelled("web-9", 1, team="shop", tier="front")))
    assert ours("diff", "-f", str(file)).returncode == 0
    named = ours("diff", "-f", str(file), KUBECTL_EXTERNAL_DIFF=f"{sys.executable} -c 'raise SystemExit(3)'")
    assert (named.returncode, named.stderr.count("\n")) == (2, 1)
    refused = ours("diff", "-f", "-", given=yaml.safe_dump(labelled("web-9", -5)))
    assert (refused.returncode, refused.stderr.split(": ")[0]) == (2, "error")


def test_a_dry_run_stores_nothing_and_the_server_one_is_judged_there(ours: Run) -> None:
    good, bad = yaml.safe_dump(labelled("new", 1)), yaml.safe_dump(labelled("new", -1))
    assert ours("apply", "-f", "-", "--dry-run=client", given=good).stdout.endswith("/new created (dry run)\n")
    assert ours("apply", "-f", "-", "--dry-run=client", given=bad).returncode == 0
    assert ours("apply", "-f", "-", "--dry-run=server", given=good).stdout.endswith("/new created (server dry run)\n")
    assert ours("apply", "-f", "-", "--dry-run=server", given=bad).returncode == 1
    assert ours("get", "crp", "new", "--ignore-not-found").stdout == ""


def test_the_installed_program_asks_the_hub_of_a_kubeconfig(twin: Cluster, objects: None) -> None:
    command = [HARBORMASTER, "get", "crp", "web-9", "-o", "name", "--kubeconfig", str(twin.kubeconfig)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False, env=ENVIRONMENT)
    shown = "clusterresourceplacement.placement.kubernetes-fleet.io/web-9\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, shown, "")


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["describe", "crp/web-9"], "Labels:       team=shop"),
        (["describe", "ns", "shop"], "Events:       <none>"),
        (["version"], "hub v1.36"),
        (["explain", "crp/api"], "crp/api wants 3 clusters"),
        (["plan", "--lost", "dover", "-o", "json"], '"placements"'),
        (["budgets", "list"], "No NodePools found"),
        (["gate", "list"], "No reservations found"),
        (["gate", "rollout", "crp/api", "dover"], "Not now: crp/api has not picked cluster dover."),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else "",
)
def test_every_verb_answers_without_anything_installed(ours: Run, words: list[str], shown: str) -> None:
    done = ours(*words)
    assert done.returncode in (0, 2), done.stderr
    assert shown in done.stdout
    computed = words[0] in ("explain", "plan", "budgets", "gate")
    assert computed == ("without harbormaster serve" in done.stderr)


@pytest.mark.parametrize(
    "words", [["get", "nodeclaims"], ["describe", "nodeclaims"], ["apply", "-f", "-"]], ids=" ".join
)
def test_a_kind_that_the_hub_does_not_serve_is_named(ours: Run, words: list[str]) -> None:
    """A user of Karpenter's examples has not always its definitions on the hub."""
    claim = {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "a"}, "spec": {}}
    done = ours(*words, given=yaml.safe_dump(claim))
    said = (
        "Error from server (NotFound): the hub serves no nodeclaims of karpenter.sh/v1: their CustomResourceDefinition "
        "is not installed\n"
    )
    assert (done.returncode, done.stderr.endswith(said)) == (1, True), done.stderr


def test_that_an_answer_is_computed_here_is_said_once(ours: Run) -> None:
    """Also of a calendar, for which several questions are asked."""
    done = ours("budgets", "calendar")
    assert (done.returncode, done.stderr.count("note: computed locally")) == (0, 1)


def with_typo(document: dict[str, Any], *path: str | int) -> str:
    """Return a document with another field, as YAML."""
    *parents, name = path
    wrong = copy.deepcopy(document)
    parent: Any = wrong
    for part in parents:
        parent = parent[part]
    parent[name] = {}
    return yaml.safe_dump(wrong)


@pytest.mark.parametrize(
    ("document", "field", "near"),
    [
        pytest.param(with_typo(placement("web-9"), "spec", "polcy"), "spec.polcy", "policy", id="existing"),
        pytest.param(with_typo(placement("new"), "spec", "polcy"), "spec.polcy", "policy", id="new"),
        pytest.param(with_typo(placement("new"), "spce"), "spce", "spec", id="top"),
        pytest.param(with_typo(placement("web-9"), "metadata", "lables"), "metadata.lables", "labels", id="metadata"),
        pytest.param(
            with_typo(placement("new"), "spec", "resourceSelectors", 0, "nmae"),
            "spec.resourceSelectors[0].nmae",
            "name",
            id="item",
        ),
        pytest.param(with_typo(config_map("boat"), "datta"), "datta", "", id="built-in"),
        pytest.param(
            with_typo(config_map("sloop"), "metadata", "lables"), "metadata.lables", "labels", id="built-in-new"
        ),
    ],
)
@pytest.mark.parametrize("words", ["apply", "apply --dry-run=server", "diff", "plan"])
def test_an_api_server_judges_unknown_fields(
    ours: Run, twin: Cluster, document: str, field: str, near: str, words: str
) -> None:
    if words == "plan" and "ConfigMap" in document:
        pytest.skip("a plan does not judge kinds without rules")
    command, *options = words.split()
    refused = ours(command, *options, "-f", "-", given=document)
    hint = f". Did you mean {near}?" if near else ""
    assert refused.returncode == (2 if command == "diff" else 1), refused.stderr
    assert f"standard input: document 1: {field}: " in refused.stderr
    assert refused.stderr.rstrip().endswith(f"unknown field{hint}")
    assert twin.kubectl("get", "crp", "new", "--ignore-not-found").stdout == ""
    if words != "apply":
        ignored = ours(command, *options, "--validate=ignore", "-f", "-", given=document)
        assert "unknown field" not in ignored.stderr


@pytest.mark.parametrize("command", ["diff", "apply", "apply --dry-run=server"])
@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"data": {"a": 5}}, id="number"),
        pytest.param({"data": "hunter2"}, id="text"),
        pytest.param({"data": {"a": "not base64 hunter2"}}, id="no-base64"),
        pytest.param({"stringData": {"a": ["hunter2"]}}, id="list"),
        pytest.param({"type": "kubernetes.io/tls"}, id="other-type"),
        pytest.param({"polcy": "hunter2"}, id="unknown-field"),
        pytest.param({"metadata": {"name": "of-diff", "labels": {"a": 5}}}, id="label"),
    ],
)
def test_a_refusal_of_a_secret_shows_no_value_of_it(
    ours: Run, twin: Cluster, objects: None, wrong: dict[str, Any], command: str
) -> None:
    """An API server repeats the whole object when it cannot read it, with all that is stored."""
    secret: dict[str, Any] = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "of-diff"}}
    stored = b64encode(b"swordfish").decode()
    twin.kubectl("apply", "-f", "-", given={**secret, "data": {"a": stored, "b": stored}})
    given = {**secret, "stringData": {"b": "marlin-hunter2"}, **wrong}
    refused = ours(*command.split(), "-f", "-", given=yaml.safe_dump(given))
    shown = refused.stdout + refused.stderr
    assert refused.returncode == (2 if command == "diff" else 1), shown
    assert not [value for value in (stored, "swordfish", "hunter2") if value in shown], shown


def test_a_patch_is_refused_in_the_words_that_the_embedded_hub_repeats(twin: Cluster, objects: None) -> None:
    path = f"/apis/{PLACEMENT.api_version}/{PLACEMENT.plural}/web-9?fieldValidation=Strict"
    with pytest.raises(ApiError) as caught:
        twin.request("PATCH", path, {"spec": {"polcy": {}}}, content_type="application/merge-patch+json")
    (cause,) = caught.value.causes
    assert (caught.value.code, caught.value.status["reason"]) == (422, "Invalid")
    assert caught.value.status["message"].startswith(' "" is invalid: patch: Invalid value: "{')
    assert (cause["field"], cause["reason"]) == ("patch", "FieldValueInvalid")
    assert cause["message"].endswith('}": strict decoding error: unknown field "spec.polcy"')


def token_from(address: str) -> str:
    """Return the token to which the address of a dashboard leads."""

    class Stay(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_arguments: object) -> None:
            return None

    try:
        urllib.request.build_opener(Stay()).open(address, timeout=PATIENCE)
    except urllib.error.HTTPError as answer:
        assert (answer.code, answer.headers["Set-Cookie"]) == (303, None)
        return str(answer.headers["Location"]).removeprefix("/#token=")
    raise AssertionError


def fetch(address: str, **headers: str) -> tuple[int, str]:
    """Status and body."""
    request = urllib.request.Request(address, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def raw(page: str, *lines: bytes) -> bytes:
    """Send lines as they are; return all that comes back until the connection ends."""
    where = urllib.parse.urlsplit(page)
    with socket.create_connection((where.hostname, where.port), timeout=PATIENCE) as connection:
        connection.sendall(b"\r\n".join((*lines, b"", b"")))
        return b"".join(iter(lambda: connection.recv(4096), b""))


def test_the_dashboard_is_for_its_owner_alone_and_leaves_nothing(ours: Run, twin: Cluster) -> None:
    command = [HARBORMASTER, "dashboard", "--kubeconfig", str(twin.kubeconfig)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT) as child:
        assert child.stdout is not None
        assert child.stdout.readline().startswith(twin.url)
        address = child.stdout.readline().strip()
        page, _, key = address.partition("?key=")
        for stranger in (f"{page}v1/clusters", f"{page}?key=x", f"{page}v1/clusters?key={key}"):
            assert fetch(stranger)[0] == 403
        assert fetch(address, Host="elsewhere.example")[0] == 403
        for lines in (
            [f"GET /?key={key}".encode()],  # of no version: the key would count
            [f"GET /?key={key} HTTP/1.2".encode(), b"Host: 127.0.0.1"],
            [b"GET / HTTP/1.1", b"Host: 127.0.0.1", f"Cookie: {key}\0".encode()],
        ):
            answer = raw(page, *lines)
            assert b" 400 Bad Request\r\n" in answer, answer
            assert key.encode() not in answer
            assert b"Server:" not in answer
        token = token_from(address)
        assert fetch(address)[0] == 403
        assert child.stdout.readline() == "Press Ctrl-C to stop.\n"
        assert child.stdout.readline().startswith(f"Opened. For another tab: {page}?key=")
        bearer = f"Bearer {token}"
        assert fetch(page)[1].startswith("<!doctype html>")
        assert '"dover"' in fetch(f"{page}v1/clusters", Authorization=bearer)[1]
        assert '"web-9"' in fetch(f"{page}v1/placements", Authorization=bearer)[1]
        assert fetch(f"{page}v1/clusters", Cookie=f"harbormaster={token}")[0] == 403
        busy = ours("dashboard", "--port", page.rstrip("/").rpartition(":")[2])
        assert (busy.returncode, busy.stderr.count("\n")) == (1, 1)
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=PATIENCE)
    assert (child.returncode, errors) == (0, "")


def act(page: str, token: str, action: str, **body: object) -> dict[str, Any]:
    """Preview or execute an action on the cluster ``dover`` with the dashboard."""
    order = {"action": action, "target": {"kind": "MemberCluster", "name": "dover"}, **body}
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{page}v1/actions", json.dumps(order).encode(), headers)
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        document: dict[str, Any] = json.load(answer)
        return document


def test_actions_of_the_dashboard_are_those_of_the_owner_of_the_kubeconfig(twin: Cluster, objects: None) -> None:
    command = [HARBORMASTER, "dashboard", "--kubeconfig", str(twin.kubeconfig), "--page-actions"]
    mark = twin.audit_mark()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT) as child:
        try:
            assert child.stdout is not None
            child.stdout.readline()
            address = child.stdout.readline().strip()
            page, token = address.partition("?key=")[0], token_from(address)
            for action, taints in (("cordon", ["cordon-key"]), ("uncordon", [])):
                preview = act(page, token, action, dryRun=True)
                assert preview["command"] == f"harbormaster {action} dover"
                done = act(page, token, action, precondition=preview["precondition"])
                assert (done["executed"], done["outcome"]) == (True, f"dover {action}ed")
                spec = twin.request("GET", f"/apis/{MEMBER_CLUSTER.api_version}/memberclusters/dover")[0]["spec"]
                assert [taint["key"] for taint in spec.get("taints", [])] == taints
        finally:
            child.send_signal(signal.SIGINT)
            _, errors = child.communicate(timeout=PATIENCE)
    assert (child.returncode, errors) == (0, "")
    writes = [each for each in twin.audit(mark) if each["objectRef"].get("name") == "dover"]
    assert {each["user"]["username"] for each in writes} == {"admin"}
    assert [each["requestURI"].endswith("?dryRun=All") for each in writes] == [True, False, True, False]
