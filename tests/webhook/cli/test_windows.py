"""``harbormaster windows next`` against a hub."""

import json
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from scorer.api.documents import with_metadata
from scorer.api.meta import parse_time
from tests.webhook.cli.conftest import running_hub
from tests.webhook.controllers.upgrade_world import make_window
from tests.webhook.controllers.world import make_member, running
from webhook.settings.clock import utc_now

WINDOWS = "harbormaster.dev/upgrade-windows"


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A hub with four members: in an open window, in a closed one, in none, and in one that is not there."""
    now = utc_now()
    named = {"inside": "now", "outside": "later", "free": "", "lost": "nowhere"}

    @asynccontextmanager
    async def world():
        async with running() as found:
            for name, windows in named.items():
                await found.add(with_metadata(make_member(name), annotations={WINDOWS: windows}))
            await found.add(make_window("now", now.strftime("%H:00"), durationHours=2))
            await found.add(make_window("later", (now + timedelta(hours=5)).strftime("%H:00")))
            await found.add(
                make_window("images", now.strftime("%H:00"), durationHours=2, target="NodeImage", memberSelector={})
            )
            yield found.store

    with running_hub(tmp_path / "hub", world) as opened:
        monkeypatch.setenv("HARBORMASTER_DATA", str(opened.data))
        yield opened


def rows(result):
    assert result.exit_code == 0, result.stderr
    return {line.split()[0]: line.split()[1:] for line in result.stdout.splitlines()[1:]}


def test_members_are_open_or_closed_until_some_time(cli, hub):
    found = rows(cli("windows", "next"))
    assert {name: row[0] for name, row in found.items()} == {
        "free": "open",
        "inside": "open",
        "lost": "closed",
        "outside": "closed",
    }
    assert found["free"][1:] == ["-", "-", "-"]
    assert parse_time(found["outside"][1]) - utc_now() > timedelta(hours=3)
    assert found["lost"][-4:] == ["nowhere", "(does", "not", "exist)"]


def test_windows_for_a_type_of_upgrade_count_for_it(cli, hub):
    assert rows(cli("windows", "next", "outside", "--for", "NodeImageOnly"))["outside"][0] == "open"
    assert rows(cli("windows", "next", "outside", "--for", "Full"))["outside"][0] == "closed"
    assert rows(cli("windows", "next", "lost", "--for", "Full"))["lost"][0] == "open", "what is not there is ignored"


def test_the_same_for_programs(cli, hub):
    result = cli("windows", "next", "inside", "-o", "json")
    (found,) = json.loads(result.stdout)["items"]
    until = found.pop("until")
    assert found == {"member": "inside", "windows": ["now"], "missing": [], "unreadable": [], "isOpen": True}
    assert parse_time(until) > utc_now()


def test_a_member_that_is_not_there_is_named(cli, hub):
    result = cli("windows", "next", "nobody")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "there is no MemberCluster nobody" in result.stderr
