"""``harbormaster status`` against a hub that only stores objects, as a user with a kubeconfig sees it."""

import json
import re
from contextlib import asynccontextmanager

import pytest

from scorer.api.kinds import RESOURCE_PLACEMENT
from tests.waiting import block_until
from tests.webhook.cli.conftest import kubeconfig, running_hub
from tests.webhook.controllers.staged_world import staged
from tests.webhook.controllers.upgrade_world import make_window
from tests.webhook.placed import make_placement


@pytest.fixture
def hub(tmp_path):
    """A hub with a run that waits for its approval, and a maintenance window."""

    @asynccontextmanager
    async def world():
        async with staged() as found:
            await found.add(make_window("night", "22:00", memberSelector={}))
            yield found.store

    with running_hub(tmp_path / "hub", world) as running:
        yield running, kubeconfig(running, tmp_path / "kubeconfig")


def test_the_screen_names_what_waits_with_the_command_for_this_hub(cli, hub):
    _, path = hub
    here = ("--kubeconfig", path)
    calm = cli("status", *here)
    assert (calm.exit_code, calm.stderr) == (0, "")
    assert calm.stdout.startswith("5 member clusters: 5 eligible\n1 placement")
    assert "night  closed, opens" in calm.stdout or "night  open, closes" in calm.stdout
    assert calm.stdout.endswith("Nothing needs attention.\n")
    start = ("run", "start", "spring", "--placement", "p", "--strategy", "careful", "--initialize-only", *here)
    assert cli(*start).exit_code == 0
    block_until(lambda: "WAITING FOR YOU" in cli("status", *here).stdout)
    result = cli("status", *here, called="kubectl harbormaster")
    assert result.exit_code == 2
    assert "  csur/spring  initialized" in result.stdout
    assert f"\n    kubectl harbormaster run start spring --kubeconfig {path}\n" in result.stdout
    document = json.loads(cli("status", *here, "-o", "json").stdout)
    assert (document["verdict"], document["waiting"]["items"][0]["ref"]) == ("attention", "csur/spring")
    assert document["unread"] == []


def test_a_namespace_limits_the_screen_to_its_objects(cli, hub):
    running, path = hub
    placed = {**make_placement(namespace="shop"), "kind": "ResourcePlacement"}
    running.run(running.store.create(RESOURCE_PLACEMENT, placed))
    result = cli("status", "-n", "shop", "--kubeconfig", path)
    assert (result.exit_code, result.stderr) == (0, "")
    assert re.fullmatch(r"1 placement: 1 [a-z ]+\n\nNothing needs attention.\n", result.stdout)
    elsewhere = cli("status", "-n", "shopping", "--kubeconfig", path)
    assert (elsewhere.exit_code, elsewhere.stdout) == (0, "0 placements\n\nNothing needs attention.\n")
