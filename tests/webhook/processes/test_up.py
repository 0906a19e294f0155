"""``harbormaster up``: it settles, it survives SIGKILL, and a second start continues where the first was."""

import asyncio
import json
import logging
import os
import random
import shutil
import signal
import ssl
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from click.testing import CliRunner, Result

from tests.builders.placement import make_placement
from tests.thoroughness import SOAK
from tests.waiting import PATIENCE_SECONDS, until
from tests.webhook.controllers.world import make_config_map, make_member, pick_n
from webhook.cli.root import root
from webhook.kube.ports import StoreError
from webhook.processes.up import Up
from webhook.settings.programs import UpSettings

UP = ["up", "--https-port", "0", "--http-port", "0", "--no-color"]
GROUP = "/apis/placement.kubernetes-fleet.io/v1beta1"
PORTS = {"https_port": 0, "http_port": 0}
MEMBERS, HOMES = 8, 6


def write_fleet(path: Path, value: str) -> None:
    """Write members, and a placement for each of some namespaces with a Deployment and a ConfigMap in it."""
    documents: list[Any] = [make_member(f"m{number}", nodes=number) for number in range(MEMBERS)]
    for number in range(HOMES):
        home = f"home-{number}"
        documents.append({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": home}})
        documents.append(make_config_map("rates", home, value=value))
        documents.append(_deployment(home, value))
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2, "maxSurge": 1}}
        documents.append(make_placement(f"p{number}", pick_n(5), home=home, strategy=strategy))
    path.write_text(yaml.safe_dump_all(documents), encoding="utf-8")


def _deployment(home: str, value: str) -> dict[str, Any]:
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": f"web:{value}"}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "web",
            "namespace": home,
            "annotations": {"harbormaster.dev/simulate": "ready-after=0s" if value == "0" else "ready-after=1s"},
        },
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    }


def run_once(data: Path, *words: object) -> Result:
    """Run ``up --once`` in this process; the log becomes what it was, also when a fixture of the module calls."""
    log = logging.getLogger()
    level, handlers = log.level, log.handlers[:]
    command = [*UP, "--data", data, "--once", *words]
    try:
        return CliRunner().invoke(root, [*map(str, command)], prog_name="harbormaster")
    finally:
        log.setLevel(level)
        log.handlers[:] = handlers


@asynccontextmanager
async def started(data: Path, *files: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start ``up``, wait until clients can find it; kill it in the end."""
    (data / "kubeconfig").unlink(missing_ok=True)
    words = [word for file in files for word in ("-f", str(file))]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "webhook.cli",
        *UP,
        "--data",
        str(data),
        *words,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        await until((data / "kubeconfig").exists)
        yield process
    finally:
        if process.returncode is None:
            os.kill(process.pid, signal.SIGKILL)
        await process.wait()


class Client:
    """Reads the store over REST."""

    def __init__(self, data: Path, session: aiohttp.ClientSession) -> None:
        told = yaml.safe_load((data / "kubeconfig").read_text(encoding="utf-8"))
        cluster, user = told["clusters"][0]["cluster"], told["users"][0]["user"]
        self.server, self.token = cluster["server"], user["token"]
        self.page = cluster["extensions"][0]["extension"]["page"]
        self.session = session
        self.tls = ssl.create_default_context(cafile=cluster["certificate-authority"])

    async def list(self, path: str) -> list[dict[str, Any]]:
        """Return the objects below a path."""
        headers = {"Authorization": f"Bearer {self.token}"}
        async with self.session.get(self.server + path, headers=headers, ssl=self.tls) as answer:
            assert answer.status == 200
            return list((await answer.json())["items"])

    async def all_at_rest(self) -> bool:
        """Say whether every placement is available."""
        async with self.session.get(f"{self.page}/v1/placements") as answer:
            items = (await answer.json())["items"]
        return len(items) == HOMES and all(item["state"] == "available" for item in items)


@pytest.fixture(scope="module")
def rested(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of a fleet, and the data of an ``up`` that has settled with them and ended."""
    folder = tmp_path_factory.mktemp("rested")
    write_fleet(folder / "fleet.yaml", "0")
    done = run_once(folder / "data", "-f", folder / "fleet.yaml")
    assert done.exit_code == 0, done.stderr
    return folder


@pytest.fixture
def paths(rested: Path, tmp_path: Path) -> tuple[Path, Path]:
    """The data folder and the file of the test's own fleet, which was at rest before."""
    shutil.copytree(rested, tmp_path, dirs_exist_ok=True)
    return tmp_path / "data", tmp_path / "fleet.yaml"


@pytest.mark.soak
async def test_killed_during_a_rollout_it_goes_on_where_it_was(paths: tuple[Path, Path]) -> None:
    data, files = paths
    write_fleet(files, "1")
    dice = random.Random(5)
    async with aiohttp.ClientSession() as session:
        async with started(data, files) as process:
            client = Client(data, session)
            before = await _uids(client)
            # the file is read now, and never again below
            await until(lambda: _all_deployments(client, "web:1"))
            await asyncio.sleep(dice.random())
            os.kill(process.pid, signal.SIGKILL)
        for _ in range(3 if SOAK else 0):  # and again before it is done
            async with started(data) as process:
                await asyncio.sleep(0.2 + dice.random())
                os.kill(process.pid, signal.SIGKILL)
        async with started(data):
            client = Client(data, session)
            await until(lambda: _all_on(client, "web:1"))
            await until(client.all_at_rest)
            await _assert_whole(client)
            assert await _uids(client) == before
            with pytest.raises(StoreError, match=str(data)):  # two on one data folder
                await Up(UpSettings(**PORTS), data).__aenter__()


async def _uids(client: Client) -> dict[str, str]:
    """Return the identities of the bindings, which an update of the content must not replace."""
    found = await client.list(f"{GROUP}/clusterresourcebindings")
    return {item["metadata"]["name"]: item["metadata"]["uid"] for item in found}


async def _all_deployments(client: Client, image: str) -> bool:
    return all(image in json.dumps(item["spec"]) for item in await client.list("/apis/apps/v1/deployments"))


async def _all_on(client: Client, image: str) -> bool:
    works = await client.list(f"{GROUP}/works")
    return bool(works) and all(image in json.dumps(work["spec"]) for work in works)


async def _assert_whole(client: Client) -> None:
    """Nothing lost, nothing doubled: one binding and one Work per placement and cluster, one latest snapshot each."""
    bindings = await client.list(f"{GROUP}/clusterresourcebindings")
    placed = Counter(
        (item["metadata"]["labels"]["kubernetes-fleet.io/parent-CRP"], item["spec"]["targetCluster"])
        for item in bindings
    )
    assert set(placed.values()) == {1}
    assert len(placed) == HOMES * 5
    works = Counter(
        (item["metadata"]["labels"]["kubernetes-fleet.io/parent-CRP"], item["metadata"]["namespace"])
        for item in await client.list(f"{GROUP}/works")
    )
    assert works == Counter({(name, f"fleet-member-{cluster}"): 1 for name, cluster in placed})
    for kind in ("clusterschedulingpolicysnapshots", "clusterresourcesnapshots"):
        latest = Counter(
            item["metadata"]["labels"]["kubernetes-fleet.io/parent-CRP"]
            for item in await client.list(f"{GROUP}/{kind}")
            if item["metadata"]["labels"].get("kubernetes-fleet.io/is-latest-snapshot") == "true"
        )
        assert latest == Counter({f"p{number}": 1 for number in range(HOMES)})


def test_the_second_start_applies_nothing_anew(paths: tuple[Path, Path]) -> None:
    data, files = paths
    again = run_once(data, "-f", files)
    assert again.exit_code == 0, again.stderr
    objects = MEMBERS + HOMES * 4
    assert f"{objects} objects: {objects} unchanged" in again.stdout


def test_a_start_keeps_what_was_changed_on_the_hub(paths: tuple[Path, Path]) -> None:
    data, files = paths

    async def change() -> None:
        async with Up(UpSettings(**PORTS), data), aiohttp.ClientSession() as session:
            client = Client(data, session)
            headers = {"Authorization": f"Bearer {client.token}", "Content-Type": "application/merge-patch+json"}
            path, patch = f"{GROUP}/clusterresourceplacements/p0", {"spec": {"policy": {"numberOfClusters": 4}}}
            async with session.patch(client.server + path, json=patch, headers=headers, ssl=client.tls) as answer:
                assert answer.status == 200

    asyncio.run(change())
    again = run_once(data, "-f", files)
    assert "1 kept (edited on the hub)" in again.stdout
    assert [line.split()[2] for line in again.stdout.splitlines() if line.startswith("crp/p0 ")] == ["4"]


def test_a_fleet_in_which_some_member_always_reports_comes_to_rest(tmp_path):
    """As a thousand members do: each is heard once a minute, and so no half a second goes by without one."""
    members = [make_member(f"m{number}") for number in range(20)]
    for member in members:
        member["spec"]["heartbeatPeriodSeconds"] = 1
    home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    (tmp_path / "fleet.yaml").write_text(yaml.safe_dump_all([*members, home, make_placement("web", pick_n(5))]))
    done = run_once(tmp_path / "data", "-f", tmp_path / "fleet.yaml", "--timeout", PATIENCE_SECONDS)
    assert (done.exit_code, done.stderr) == (0, "")
    assert "available" in done.stdout
