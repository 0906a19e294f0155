"""``harbormaster tree`` against a running hub."""

import asyncio
import json
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest
import yaml

from scorer.api.kinds import BINDING, NAMESPACE, PLACEMENT, RESOURCE_PLACEMENT, RESOURCE_SNAPSHOT, WORK
from tests.builders.condition import condition
from tests.waiting import PATIENCE_SECONDS
from tests.webhook.cli.conftest import kubeconfig
from tests.webhook.placed import entry, make_binding, make_placement, make_snapshot, make_work
from webhook.cli.hub.client import Client, HubRefusedError
from webhook.cli.hub.resource_arguments import ObjectReference
from webhook.cli.objects.tree import Branches, Follower
from webhook.cli.text.links import STATE, url_of
from webhook.kube.ports import Key


def put(hub, kind, document):
    """Store a new object with its status."""

    async def write():
        stored = await hub.store.create(kind, document)
        return await hub.store.replace_status(kind, {**stored, "status": document["status"]})

    return hub.run(write() if kind.has_status and "status" in document else hub.store.create(kind, document))


@pytest.fixture
def placed(hub):
    """A hub with a placement on one cluster, and another placement's Work beside it."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fleet-member-dover"}}
    hub.run(hub.store.create(NAMESPACE, namespace))
    put(hub, PLACEMENT, make_placement())
    put(hub, BINDING, make_binding("dover"))
    put(hub, RESOURCE_SNAPSHOT, make_snapshot())
    put(hub, WORK, make_work("dover", entry("a", drifts=("/data/x",))))
    namespaced = {"labels": {"kubernetes-fleet.io/parent-placement-namespace": "shop"}}
    put(hub, WORK, make_work("dover", entry("b"), name="shop.web-work", **namespaced))
    return hub


def test_text(cli, placed):
    assert cli("tree", "crp/web").stdout.splitlines() == [
        "crp/web  PickN, wants 2, has 1, resource snapshot 1  available",
        "├── conditions  Scheduled True",
        "└── dover  available  drifted: 1 field",
        "    ├── binding web-dover  Bound, resource snapshot 1, the latest",
        "    └── Work web-work  Applied, Available True",
        "        └── ConfigMap shop/a  available  drifted: 1 field (/data/x)",
    ]


def test_wide_adds_the_urls_of_the_words_of_each_line(cli, placed):
    lines = cli("tree", "crp/web", "-o", "wide").stdout.splitlines()
    available = url_of("available", STATE)
    assert lines == [
        f"crp/web  PickN, wants 2, has 1, resource snapshot 1  available  {available}",
        "├── conditions  Scheduled True",
        f"└── dover  available  drifted: 1 field  {available}",
        "    ├── binding web-dover  Bound, resource snapshot 1, the latest",
        "    └── Work web-work  Applied, Available True",
        f"        └── ConfigMap shop/a  available  drifted: 1 field (/data/x)  {available}",
    ]


def test_json_has_the_documented_shape(cli, placed):
    """Every field is named in the help's section on -o json."""
    tree = json.loads(cli("tree", "crp/web", "-o", "json").stdout)
    (cluster,) = tree["clusters"]
    (work,) = cluster["works"]
    found = {
        *tree,
        *(tree["placement"].keys() | tree["summary"].keys()),
        *(cluster.keys() | cluster["binding"].keys() | work.keys() | work["objects"][0].keys()),
        *work["conditions"][0],
        *work["objects"][0]["drifts"][0],
    }
    text = cli("tree", "--help").stdout.partition("-o json, stable")[2].partition("Exit codes")[0]
    words = set(text.replace("[]", " ").replace(",", " ").replace(".", " ").replace(":", " ").replace(";", " ").split())
    states = {"failed", "applying", "waiting", "removing", "removal pending", "reported", "available"}
    assert found - states <= words
    assert yaml.safe_load(cli("tree", "crp/web", "-o", "yaml").stdout) == tree


def test_kinds_that_the_user_may_not_list_are_omitted_and_named(cli, placed, monkeypatch):
    """As with the Role of docs/teams.md."""
    allowed = Client.list

    async def refuse(self, place, *selectors):
        if place.kind == WORK:
            raise HubRefusedError({"code": 403, "reason": "Forbidden", "message": "works is forbidden"})
        return await allowed(self, place, *selectors)

    monkeypatch.setattr(Client, "list", refuse)
    result = cli("tree", "crp/web")
    assert (result.exit_code, result.stderr) == (0, f"the tree omits {WORK.resource}: you may not list them\n")
    assert result.stdout.splitlines()[-1] == "└── 1 cluster available (dover)"
    assert json.loads(cli("tree", "crp/web", "-o", "json").stdout)["unread"] == [WORK.resource]


class RefusesWorks:
    """A hub with one placement, on which the user may not list Works. Its watches report no change."""

    async def list(self, place, *_selectors):
        if place.kind == WORK:
            raise HubRefusedError({"code": 403, "reason": "Forbidden", "message": "works is forbidden"})
        items = [make_placement()] if place.kind == PLACEMENT else []
        return {"items": items, "metadata": {"resourceVersion": "1"}}

    async def watch(self, *_arguments):
        await asyncio.Event().wait()
        yield


def test_a_watch_continues_without_kinds_that_the_user_may_not_list():
    async def follow():
        follower = Follower(RefusesWorks(), Branches.of(ObjectReference(PLACEMENT, "", "web")))
        task = asyncio.create_task(follower.run())
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not follower.complete:
                await follower.changed.wait()
                follower.changed.clear()
        task.cancel()
        return follower.tree()["unread"], follower.trouble

    assert asyncio.run(follow()) == ([WORK.resource], "")


def test_a_resource_placement_has_its_own_works(cli, placed):
    document = make_placement()
    spaced = {**document, "kind": "ResourcePlacement", "metadata": {"name": "web", "namespace": "shop"}}
    put(placed, RESOURCE_PLACEMENT, spaced)
    tree = json.loads(cli("tree", "rp/shop/web", "-o", "json").stdout)
    assert [work["name"] for cluster in tree["clusters"] for work in cluster["works"]] == ["shop.web-work"]


class TestOtherHubs:
    """By kubeconfig."""

    def test_the_same_tree(self, cli, placed, tmp_path, monkeypatch):
        here = cli("tree", "crp/web", "-o", "json").stdout
        monkeypatch.delenv("HARBORMASTER_DATA")
        file = kubeconfig(placed, tmp_path / "config")
        assert cli("tree", "crp/web", "-o", "json", "--kubeconfig", file).stdout == here
        monkeypatch.setenv("KUBECONFIG", str(file))
        assert cli("tree", "crp/web", "-o", "json", "--context", "here").stdout == here

    def test_a_kubeconfig_that_nobody_asked_for_is_not_taken(self, cli, placed, tmp_path, monkeypatch):
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig(placed, tmp_path / "config")))
        monkeypatch.delenv("HARBORMASTER_DATA")
        result = cli("tree", "crp/web")
        assert result.exit_code == 1
        assert result.stderr.endswith("Start a hub with: harbormaster up, or name another hub: --context here\n")

    @pytest.mark.parametrize(
        ("words", "mistake"),
        [
            pytest.param(("--kubeconfig", "/nowhere"), "kubeconfig /nowhere: no such file", id="no-file"),
            pytest.param(("--context", "there"), "there", id="no-context"),
            pytest.param(("--kubeconfig", "x", "--data", "y"), "--data: cannot be used with --kubeconfig", id="two"),
        ],
    )
    def test_mistakes(self, cli, placed, tmp_path, monkeypatch, words, mistake):
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig(placed, tmp_path / "config")))
        result = cli("tree", "crp/web", *words)
        assert (result.exit_code, result.stdout) == (1, "")
        assert mistake in result.stderr
        assert len(result.stderr.splitlines()) == 1

    def test_a_token_that_does_not_count(self, cli, placed, tmp_path):
        result = cli("tree", "crp/web", "--kubeconfig", kubeconfig(placed, tmp_path / "config", token="other"))
        said = f'context "here" of {tmp_path / "config"}) does not accept the token or certificate of this context'
        assert (result.exit_code, result.stderr) == (1, f"error: {placed.url} ({said}\n")


@pytest.mark.parametrize("by_kubeconfig", [False, True], ids=["own", "kubeconfig"])
def test_what_does_not_exist_is_named(cli, placed, tmp_path, by_kubeconfig):
    words = ("--kubeconfig", kubeconfig(placed, tmp_path / "config")) if by_kubeconfig else ()
    result = cli("tree", "crp/nope", *words)
    assert (result.exit_code, result.stderr) == (1, "error: there is no placement crp/nope\n")


@pytest.mark.parametrize("word", ["crp", "crp/", "deploy/web", "crp/a/b"])
def test_what_is_no_placement(cli, placed, word):
    result = cli("tree", word)
    assert result.exit_code == 1
    assert "expected NAME, crp/NAME or rp/NAMESPACE/NAME" in result.stderr


@contextmanager
def following(hub, *words):
    """Run ``tree -w`` as a user does, without a terminal; yield the process."""
    command = [sys.executable, "-m", "webhook.cli", "tree", "crp/web", "-w", *map(str, words)]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # ignored in a job of a shell
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def read_until(process, text):
    """Return the lines up to one with *text*."""
    lines = []
    for line in process.stdout:
        lines.append(line.rstrip("\n"))
        if text in line:
            return lines
    raise AssertionError(lines)


class TestWatch:
    """``-w`` without a terminal."""

    @pytest.mark.parametrize("by_kubeconfig", [False, True], ids=["own", "kubeconfig"])
    def test_changes_are_told_until_the_placement_is_gone(self, placed, tmp_path, by_kubeconfig):
        words = ("--kubeconfig", kubeconfig(placed, tmp_path / "config")) if by_kubeconfig else ()
        with following(placed, *words) as process:
            assert read_until(process, "ConfigMap shop/a")[0].startswith("crp/web  PickN")
            stored = placed.run(placed.store.get(BINDING, Key("web-dover")))
            failed = [condition(kind) for kind in ("RolloutStarted", "Overridden")]
            failed.append(condition("WorkSynchronized", "False", "SyncWorkFailed", "no namespace"))
            placed.run(placed.store.replace_status(BINDING, {**stored, "status": {"conditions": failed}}))
            told = read_until(process, "Z  dover  ")
            assert told[-1].endswith("  dover  failed: no namespace  drifted: 1 field")
            placed.run(placed.store.delete(BINDING, Key("web-dover")))
            assert read_until(process, "binding web-dover is deleted, its Works remain")
            placed.run(placed.store.delete(PLACEMENT, Key("web")))
            _, complaint = process.communicate(timeout=PATIENCE_SECONDS)
        assert (process.returncode, complaint) == (0, "crp/web deleted\n")

    def test_json_is_a_document_per_change_and_an_interrupt_ends_it_well(self, placed):
        with following(placed, "-o", "json") as process:
            first = json.loads("\n".join(read_until_closed(process)))
            assert first["summary"]["drifted"] == 1
            placed.run(placed.store.delete(WORK, Key("web-work", "fleet-member-dover")))
            assert json.loads("\n".join(read_until_closed(process)))["clusters"][0]["works"] == []
            process.send_signal(signal.SIGINT)
            _, complaint = process.communicate(timeout=PATIENCE_SECONDS)
        assert (process.returncode, complaint) == (0, "")


def read_until_closed(process):
    """Return the lines of one indented JSON document."""
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("}"):
            break
    return lines
