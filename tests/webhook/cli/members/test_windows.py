"""``harbormaster windows next`` against a hub."""

import json
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from scorer.api.meta import parse_time
from scorer.api.unstructured.documents import with_metadata
from tests.webhook.cli.conftest import running_hub
from tests.webhook.controllers.upgrade_world import make_window
from tests.webhook.controllers.world import make_member, running
from webhook.runtime.clock import utc_now

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
    """Return what is shown by member and purpose."""
    assert result.exit_code == 0, result.stderr
    header, *lines = result.stdout.splitlines()
    at = [header.index(word) for word in ("MEMBER", "FOR", "NOW")]
    return {(line.split()[0], line[at[1] : at[2]].strip()): line[at[2] :].split() for line in lines}


def test_members_are_open_or_closed_until_some_time(cli, hub):
    found = rows(cli("windows", "next", "--for", "updates"))
    assert {member: row[0] for (member, _), row in found.items()} == {
        "free": "open",
        "inside": "open",
        "lost": "closed",
        "outside": "closed",
    }
    assert found["free", "Updates"][1:] == ["-", "-", "-"]
    assert parse_time(found["outside", "Updates"][1]) - utc_now() > timedelta(hours=3)
    assert found["lost", "Updates"][-4:] == ["nowhere", "(does", "not", "exist)"]


def test_windows_for_upgrades_alone_are_shown_without_a_question(cli, hub):
    """Otherwise a member whose upgrades wait for a window would stand there as open, with no window."""
    assert {place: row[0] for place, row in rows(cli("windows", "next", "outside", "lost")).items()} == {
        ("outside", "Updates, Full, ControlPlaneOnly"): "closed",
        ("outside", "NodeImageOnly"): "open",
        ("lost", "Updates"): "closed",
        ("lost", "Full, ControlPlaneOnly"): "open",
        ("lost", "NodeImageOnly"): "open",
    }


def test_windows_for_a_type_of_upgrade_count_for_it(cli, hub):
    def now(member, purpose):
        return rows(cli("windows", "next", member, "--for", purpose))[member, purpose][0]

    assert now("outside", "NodeImageOnly") == "open"
    assert now("outside", "Full") == "closed"
    assert now("lost", "Full") == "open", "what is not there is ignored"


def test_the_same_for_programs(cli, hub):
    result = cli("windows", "next", "inside", "-o", "json")
    found, images = json.loads(result.stdout)["items"]
    until = found.pop("until")
    assert found == {
        "member": "inside",
        "for": ["Updates", "Full", "ControlPlaneOnly"],
        "windows": ["now"],
        "missing": [],
        "unreadable": [],
        "isOpen": True,
    }
    assert (images["for"], images["windows"]) == (["NodeImageOnly"], ["images", "now"])
    assert parse_time(until) > utc_now()


def test_a_member_that_is_not_there_is_named(cli, hub):
    result = cli("windows", "next", "nobody")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "there is no MemberCluster nobody" in result.stderr


def test_windows_are_listed_with_their_members(cli, hub):
    header, *lines = cli("windows", "list").stdout.splitlines()
    assert header.split() == ["WINDOW", "FOR", "NOW", "UNTIL", "IN", "MEMBERS"]
    found = {line.split()[0]: (line.split()[1], line.split()[2], line.split()[-1]) for line in lines}
    assert found == {"now": ("All", "open", "1"), "later": ("All", "closed", "1"), "images": ("NodeImage", "open", "4")}
    items = json.loads(cli("windows", "list", "-o", "json").stdout)["items"]
    assert [item["name"] for item in items] == [line.split()[0] for line in lines]
