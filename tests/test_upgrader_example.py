"""The upgrader in ``examples/upgrader``, as a process of its own, against the REST interface of a whole hub."""

import asyncio
import json
import os
import signal
import sys
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from aiohttp import web

from certs.authority import Authority
from certs.context import ServerContext
from scorer.api.kinds import MEMBER_CLUSTER
from scorer.api.unstructured.documents import status_of
from tests.loopback import on_loopback
from tests.webhook.controllers.upgrade_world import entries, make_upgrade_run, requests, state, states, upgrading
from webhook.access.user import UserInfo
from webhook.embedded.api_server.handlers import add_routes
from webhook.kube.ports import Key
from webhook.runtime.clock import utc_now
from webhook.settings.upgraders import UpgraderOptions
from webhook.validation.framework.context import Context

FOLDER = Path(__file__).parents[1] / "examples" / "upgrader"
TOKEN = "of-the-upgrader"
OPTIONS = UpgraderOptions(("handoff",), "handoff", timedelta(milliseconds=50), timedelta(seconds=2))
ONLY = {"name": "only", "groups": [{"name": "t"}]}
DONE = {
    "controlPlaneVersion": "1.31.2",
    "pools": [{"name": "p", "kubernetesVersion": "1.31.2", "imageFamily": "linux", "imageVersion": "1", "nodes": 2}],
}


@asynccontextmanager
async def outside(folder, *command):
    """Run a world with one member, and the upgrader beside it."""
    authority = Authority.new(utc_now())
    listener = ServerContext(authority.issue(("localhost",), ("127.0.0.1",), utc_now())).listener
    (folder / "ca.crt").write_bytes(authority.pem)
    (folder / "token").write_text(TOKEN)
    async with upgrading(ONLY, members={"t1": "t"}, upgraders=OPTIONS) as world:
        app = web.Application()
        add_routes(app, world.store, lambda: Context.of_objects([]).with_user(UserInfo("upgrader")), TOKEN)
        async with on_loopback(app, tls=listener) as address:
            files = ("--token-file", folder / "token", "--ca-file", folder / "ca.crt")
            words = (FOLDER / "upgrader.py", "--server", address, *files, "--every", "0.1", "--", *command)
            process = await asyncio.create_subprocess_exec(
                sys.executable, *map(str, words), stderr=asyncio.subprocess.DEVNULL
            )
            try:
                yield world
            finally:
                process.terminate()
                await process.wait()


async def test_a_command_upgrades_a_member(tmp_path):
    seen = tmp_path / "seen"
    report = tmp_path / "runs.json"
    report.write_text(json.dumps(DONE))
    say = f'echo "$MEMBER $TYPE $VERSION" >> {seen}; echo busy; cat {report}'
    async with outside(tmp_path, "sh", "-c", say) as world:
        await world.add(make_upgrade_run())
        await world.until(lambda: state(world) == "Completed")
        assert seen.read_text() == "t1 Full 1.31.2\n"
        status = status_of(requests(world)[0])
        assert (status["phase"], status["progressPercent"]) == ("Succeeded", 100)
        assert {key: status[key] for key in DONE} == DONE


async def test_a_command_that_fails_fails_the_member(tmp_path):
    async with outside(tmp_path, "sh", "-c", "echo no quota left; exit 3") as world:
        await world.add(make_upgrade_run())
        await world.until(lambda: state(world) == "Failed")
        found = entries(world)["t1"]["error"]
        assert (found["code"], found["message"]) == ("CommandFailed", "the command ends with 3: no quota left")


async def test_what_a_command_says_on_standard_error_is_why_it_has_failed(tmp_path):
    async with outside(tmp_path, "sh", "-c", "echo busy; echo no quota left >&2; exit 3") as world:
        await world.add(make_upgrade_run())
        await world.until(lambda: state(world) == "Failed")
        assert entries(world)["t1"]["error"]["message"] == "the command ends with 3: no quota left"


async def test_the_command_that_comes_with_it_can_be_tried_as_it_is(tmp_path):
    async with outside(tmp_path, "env", f"PATH={sleepless(tmp_path)}", "sh", FOLDER / "upgrade.sh") as world:
        await world.add(make_upgrade_run())
        await world.until(lambda: state(world) == "Completed")
        status = status_of(requests(world)[0])
        assert (status["controlPlaneVersion"], status["pools"][0]["kubernetesVersion"]) == ("1.31.2", "1.31.2")


def sleepless(folder):
    """Return a PATH on which nothing takes time."""
    found = folder / "bin"
    found.mkdir()
    (found / "sleep").symlink_to("/bin/true")
    return f"{found}:{os.environ['PATH']}"


async def test_it_can_be_interrupted():
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(FOLDER / "upgrader.py"),
        *("--server", "https://127.0.0.1:1", "--token-file", "/dev/null", "--every", "0.1", "--", "true"),
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    assert b"cannot look" in await process.stderr.readline()
    process.send_signal(signal.SIGINT)
    _, text = await process.communicate()
    assert (process.returncode, text.decode().splitlines()[-1]) == (130, "ended")
    assert b"Traceback" not in text


async def test_an_upgrade_that_is_called_off_is_ended(tmp_path):
    async with outside(tmp_path, "sleep", "600") as world:
        await world.add(make_upgrade_run())
        await world.until(
            lambda: status_of(requests(world)[0]).get("phase") == "InProgress" if requests(world) else False
        )
        await world.store.delete(MEMBER_CLUSTER, Key("t1"))
        await world.until(lambda: status_of(requests(world)[0])["phase"] == "Cancelled")
        assert states(world) == {"t1": "Skipped"}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--server", "http://127.0.0.1:1"), "argument --server: 'http://127.0.0.1:1' does not begin with https://"),
        (("--every", "nan"), "argument --every: 'nan' is not a number of seconds above 0"),
        ((), "the following arguments are required: command"),
    ],
)
async def test_mistakes_are_named(words, told):
    command = () if not words else ("true",)
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(FOLDER / "upgrader.py"), *words, *command, stderr=asyncio.subprocess.PIPE
    )
    _, text = await process.communicate()
    assert process.returncode == 2
    assert told in text.decode()


def test_the_rights_are_those_that_the_upgrader_uses():
    documents = list(yaml.safe_load_all((FOLDER / "upgrader.yaml").read_text(encoding="utf-8")))
    (role,) = [each for each in documents if each["kind"] == "ClusterRole"]
    assert {(verb, resource) for rule in role["rules"] for verb in rule["verbs"] for resource in rule["resources"]} == {
        ("list", "clusterupgraderequests"),
        ("patch", "clusterupgraderequests/status"),
    }
