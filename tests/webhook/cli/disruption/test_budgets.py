"""``harbormaster budgets``: from files and from a running hub; for people and for programs."""

import asyncio
import itertools
import json
import re
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
import yaml

from tests.waiting import PATIENCE_SECONDS, until
from tests.webhook.cli.terminal import on_a_terminal
from tests.webhook.description.example_hub import serving
from tests.webhook.gate.gates import claim, node, node_pool, put_pool
from webhook.answers.time_zones import UnknownZoneError, find_zone, local_zone
from webhook.cli.disruption.budget_table import local_days, overview_rows
from webhook.cli.disruption.budgets import joined
from webhook.cli.errors import UserError

WORK = {"schedule": "30 7 * * 1-5", "duration": "8h"}
GENERAL = (
    {"nodes": "10%"},
    {"nodes": "0", "reasons": ["Underutilized"]},
    {"nodes": "0", "reasons": ["Drifted"], **WORK},
    {"nodes": "2", "reasons": ["Empty"], **WORK},
)


def files(folder, *documents):
    file = folder / "pools.yaml"
    file.write_text(yaml.safe_dump_all(documents), encoding="utf-8")
    return file


@pytest.fixture
def pools(tmp_path):
    return files(tmp_path, node_pool("general", *GENERAL))


def calendar(cli, *arguments):
    result = cli("budgets", "calendar", *arguments)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def strip_of(text, reason, day):
    """Return the letters of a day in the strip of a reason, and the words beside it."""
    block = text.split(f"\n{reason} ", 1)[1].split("\n\n", 1)[0]
    line = next(line for line in block.splitlines() if line.startswith(f"  {day} "))
    return re.fullmatch(rf"  {day}(?: - \S+ +\d+ \S+)? +([.0-9+*]+)  +(.*)", line).groups()


def test_now_as_a_table(cli, pools):
    result = cli("budgets", "list", "-f", pools, "--total", 40, "--deleting", 1)
    assert result.exit_code == 0
    rows = [re.split(r"\s{2,}", line) for line in result.stdout.splitlines()]
    assert rows[0] == ["POOL", "REASON", "ALLOWED", "USED", "TOTAL", "OPENS"]
    assert [row[:2] for row in rows[1:]] == [
        ["general", reason] for reason in ("Underutilized", "Empty", "Drifted", "Unhealthy")
    ]
    assert rows[1][2:] == ["0", "1", "40", "never"]
    assert rows[4][2:] == ["3", "1", "40", "now"]


@pytest.mark.parametrize(
    ("budgets", "counts", "opens"),
    [
        pytest.param([{"nodes": "0"}], ["--total", 5], "never", id="never"),
        pytest.param(
            [{"nodes": "2"}],
            ["--total", 9, "--deleting", 1, "--not-ready", 1],
            "when a disruption finishes",
            id="used-up",
        ),
        pytest.param([{"nodes": "10%"}], ["--total", 0], "when the pool has nodes", id="a-share-of-nothing"),
        pytest.param(
            [{"nodes": "0", "schedule": "x", "duration": "1h"}], ["--total", 5], "never: budgets[0]", id="bad"
        ),
    ],
)
def test_when_it_opens_in_words(cli, tmp_path, budgets, counts, opens):
    file = files(tmp_path, node_pool("a", *budgets))
    result = cli("budgets", "list", "-f", file, *counts, "--tz", "Europe/Berlin")
    line = next(line for line in result.stdout.splitlines() if " Drifted " in line)
    assert opens in line


@pytest.mark.parametrize(
    ("at", "words"),
    [("2026-06-15T07:30:00Z", "Mon 15 Jun 09:30"), ("2027-01-01T00:00:00Z", "Fri  1 Jan 2027 01:00")],
)
def test_the_year_is_told_when_it_is_another_one(at, words):
    item = {"pool": "a", "reason": "Empty", "unlimited": False, "remaining": 0, "disrupting": 0, "total": 1, "limit": 0}
    answer = {"at": "2026-06-12T00:00:00Z", "items": [item | {"nextOpen": at, "neverOpens": False}], "pools": []}
    [(*_, opens)] = overview_rows(answer, ZoneInfo("Europe/Berlin"))
    assert opens == words


def test_nodes_are_counted_from_the_files(cli, tmp_path):
    documents = [node_pool("general", {"nodes": "50%"})]
    for name in ("n1", "n2", "n3", "n4"):
        documents += [node(name, "general", ready=name != "n4"), claim(name, "general")]
    documents.append(node("not-ours", "general"))
    answer = json.loads(cli("budgets", "list", "-f", files(tmp_path, *documents), "-o", "json").stdout)
    assert answer["pools"][0]["counts"] == {"total": 4, "deleting": 0, "notReady": 1}
    assert {item["reason"]: item["remaining"] for item in answer["items"]} == {
        "Underutilized": 1,
        "Empty": 1,
        "Drifted": 1,
        "Unhealthy": 2,
    }


def test_a_share_of_no_nodes_is_explained(cli, pools):
    result = cli("budgets", "list", "-f", pools)
    assert result.exit_code == 0
    assert result.stderr == (
        "note: the files have no nodes of general, so a percentage allows no disruption. Give the number of nodes "
        "with --total N\n"
    )


def test_the_title_of_a_pool_counts_the_nodes_that_are_not_available(cli, pools):
    counts = ("--total", 40, "--deleting", 2, "--not-ready", 1)
    text = calendar(cli, "-f", pools, *counts, "--tz", "UTC", "--from", "2026-06-15", "--days", 1)
    assert "general: 40 nodes, 2 being deleted, 1 not ready; times in UTC\n" in text


def test_a_day_in_the_readers_zone(cli, pools):
    text = calendar(cli, "-f", pools, "--total", 40, "--tz", "Europe/Berlin", "--from", "2026-06-15", "--days", 1)
    assert "general: 40 nodes; times in Europe/Berlin\n" in text
    letters, words = strip_of(text, "Drifted", "Mon 15 Jun")
    assert letters == "4" * 19 + "." * 16 + "4" * 13
    assert words == "4 until 09:30, none until 17:30, then 4"
    assert strip_of(text, "Empty", "Mon 15 Jun")[0] == "4" * 19 + "2" * 16 + "4" * 13
    assert re.search(r"^Underutilized +none at all times$", text, re.MULTILINE)
    assert 'never opens for Underutilized: budgets[1] (nodes "0", reasons Underutilized)' in text


@pytest.mark.parametrize(
    ("day", "hours", "letters", "words"),
    [
        pytest.param("2026-03-29", 23, "9999....9999", "9 until 03:00, none until 05:00, then 9", id="spring"),
        pytest.param("2026-10-25", 25, "999999....9999", "9 until 02:00 CET, none until 04:00, then 9", id="autumn"),
    ],
)
def test_a_day_on_which_the_clocks_change_is_as_long_as_it_is(cli, tmp_path, day, hours, letters, words):
    file = files(tmp_path, node_pool("a", {"nodes": "9"}, {"nodes": "0", "schedule": "0 1 * * *", "duration": "2h"}))
    text = calendar(cli, "-f", file, "--total", 20, "--tz", "Europe/Berlin", "--from", day, "--days", 2)
    found, said = strip_of(text, "every reason", datetime.fromisoformat(day).strftime("%a %d %b"))
    assert len(found) == 2 * hours
    assert found.startswith(letters)
    assert set(found[len(letters) :]) == {"9"}
    assert said == f"{words}; a day of {hours} hours"
    marks = next(line for line in text.splitlines() if line.startswith("every reason"))
    assert marks.index(" 6 ") + 1 - marks.index(" 0 ") - 1 == 2 * (6 + hours - 24)


@pytest.mark.parametrize("day", ["2026-03-27", "2026-10-23"])
def test_days_are_those_of_the_reader_when_the_clocks_change(cli, tmp_path, day):
    """From a day on there are as many days as were asked for, none of them cut, nor a piece of another."""
    file = files(tmp_path, node_pool("a", {"nodes": "9"}, {"nodes": "1", "schedule": "@daily", "duration": "12h"}))
    text = calendar(cli, "-f", file, "--total", 20, "--tz", "Europe/Berlin", "--from", day, "--days", 4)
    first = date.fromisoformat(day)
    shown = [line[2:].strip() for line in text.splitlines() if line.startswith("  ") and "then" in line]
    covered = {f"{first + timedelta(days=number):%a %d %b}" for number in range(4)}
    assert {name for line in shown for name in re.findall(r"\w{3} \d\d \w{3}", line)} <= covered
    assert text.count("then 9") == len(shown)
    assert f"{first + timedelta(days=3):%a %d %b}" in shown[-1]


def test_days_that_are_alike_share_a_line(cli, tmp_path):
    file = files(tmp_path, node_pool("a", {"nodes": "9"}, {"nodes": "1", "schedule": "0 0 * * 6", "duration": "48h"}))
    text = calendar(cli, "-f", file, "--total", 20, "--tz", "UTC", "--from", "2026-06-15", "--days", 14)
    days = re.findall(r"^  (\S+ +\d+ \S+(?: - \S+ +\d+ \S+)?)  ", text, re.MULTILINE)
    assert days == [
        "Mon 15 Jun - Fri 19 Jun",
        "Sat 20 Jun - Sun 21 Jun",
        "Mon 22 Jun - Fri 26 Jun",
        "Sat 27 Jun - Sun 28 Jun",
    ]


def test_the_least_of_a_half_hour_counts_and_the_words_are_exact(cli, tmp_path):
    file = files(tmp_path, node_pool("a", {"nodes": "12"}, {"nodes": "0", "schedule": "@daily", "duration": "10m"}))
    text = calendar(cli, "-f", file, "--total", 20, "--tz", "UTC", "--from", "2026-06-15", "--days", 1)
    assert strip_of(text, "every reason", "Mon 15 Jun") == ("." + "+" * 47, "none until 00:10, then 12")


def test_the_weekend_of_seed_002_with_what_was_meant(cli, tmp_path):
    seed = ({"nodes": "50%", "schedule": "0 0 * * 6", "duration": "48h"}, {"nodes": "0"})
    text = calendar(cli, "-f", files(tmp_path, node_pool("weekends", *seed)), "--total", 10)
    assert re.search(r"^every reason +none at all times$", text, re.MULTILINE)
    shown = text.split("possible correction:\n", 1)[1].split("\n\n", 1)[0]
    assert yaml.safe_load(shown) == {
        "budgets": [{"nodes": "50%"}, {"nodes": "0", "schedule": "0 0 * * 1", "duration": "120h"}]
    }


def test_it_fits_a_terminal_and_is_plain_elsewhere(tmp_path):
    file = files(tmp_path, node_pool("general", *GENERAL))
    arguments = ("budgets", "calendar", "-f", str(file), "--total", "40", "--tz", "UTC", "--from", "2026-06-15")
    for columns, minutes in (("80", 60), ("120", 30)):
        text = on_a_terminal(*arguments, COLUMNS=columns, NO_COLOR=None)
        assert "\x1b[32m" in text
        bare = re.sub(r"\x1b\[[0-9;]*m", "", text).replace("\r\n", "\n")
        assert max(map(len, bare.splitlines())) <= int(columns)
        assert f"One character is {minutes} minutes" in bare
    assert "\x1b[32m" not in on_a_terminal(*arguments, NO_COLOR="1")


def test_as_json_in_a_zone(cli, pools):
    arguments = ("-f", pools, "--total", 40, "--from", "2026-06-15T00:00:00Z", "--days", 1, "-o", "json")
    [item] = json.loads(calendar(cli, *arguments, "--tz", "Asia/Kathmandu"))["items"]
    assert item["reasons"][2]["spans"][0]["localStart"] == "2026-06-15T05:45:00+05:45"
    assert "timeZone" not in json.loads(calendar(cli, *arguments))


@pytest.mark.parametrize("days", [392, 393, 400])
def test_the_last_day_is_an_event(cli, pools, days):
    start = datetime(2026, 6, 15, tzinfo=UTC)
    arguments = ("-f", pools, "--total", 40, "--from", "2026-06-15", "--tz", "UTC", "--days", days, "-o", "ics")
    begun = re.findall(r"^DTSTART:(\d{8})T073000Z", calendar(cli, *arguments), re.MULTILINE)
    all_days = [start + timedelta(days=later) for later in range(days)]
    assert sorted({*begun}) == [f"{day:%Y%m%d}" for day in all_days if day.weekday() < 5]


def test_parts_of_a_calendar_join_without_a_seam(cli, pools):
    def part(day, days):
        arguments = ("-f", pools, "--total", 40, "--from", f"{day}T00:00:00Z", "--tz", "Asia/Kathmandu")
        return json.loads(calendar(cli, *arguments, "--days", days, "-o", "json"))

    whole = part("2026-06-15", 9)
    for days in range(1, 9):
        seam = date(2026, 6, 15) + timedelta(days=days)
        assert joined(part("2026-06-15", days), part(seam, 9 - days)) == whole


@pytest.mark.parametrize(
    "later",
    [
        pytest.param({"general": GENERAL}, id="a pool was deleted"),
        pytest.param({"batch": GENERAL, "general": GENERAL, "new": GENERAL}, id="a pool was created"),
        pytest.param({"batch": GENERAL, "other": GENERAL}, id="a pool was replaced"),
        pytest.param({"batch": GENERAL, "general": GENERAL[1:]}, id="a budget was deleted"),
    ],
)
def test_parts_of_a_calendar_about_different_pools_do_not_join(cli, tmp_path, later):
    def part(day, budgets):
        file = files(tmp_path, *(node_pool(name, *items) for name, items in budgets.items()))
        arguments = ("-f", file, "--total", 40, "--from", f"{day}T00:00:00Z", "--days", 1, "-o", "json")
        return json.loads(calendar(cli, *arguments))

    first = part("2026-06-15", {"batch": GENERAL, "general": GENERAL})
    with pytest.raises(UserError, match=r"changed while the calendar was read\. Run the command again"):
        joined(first, part("2026-06-16", later))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["calendar", "--tz", "Mars/Olympus"], '--tz: "Mars/Olympus" is not a time zone such as Europe/Berlin or UTC'),
        (["list", "--tz", ""], '--tz: "" is not a time zone such as Europe/Berlin or UTC'),
        (["calendar", "nowhere"], 'there is no NodePool "nowhere" in the files, available: general'),
        (["calendar", "--days", "0"], "Invalid value for '--days': 0 is not in the range 1<=x<=400."),
        (["calendar", "--from", "soon"], "Invalid value for '--from': 'soon' is neither a day such as 2026-03-01"),
        (["calendar", "--from", "9999-12-30"], "--from 9999-12-30: the calendar must be within the years 1 to 9999"),
        (["calendar", "--from", "9999-12-30T10:00:00Z"], "--from 9999-12-30T10:00:00Z: the calendar must be"),
        (["calendar", "--from", "0001-01-01", "--tz", "Asia/Tokyo"], "--from 0001-01-01: the calendar must be"),
        (["calendar", "--from", "0001-01-03", "-o", "ics"], "--from 0001-01-03: the calendar must be"),
        (
            ["calendar", "--from", "0001-01-01T00:00:00+14:00"],
            "Invalid value for '--from': '0001-01-01T00:00:00+14:00'",
        ),
        (["list", "--total", "2147483648"], "Invalid value for '--total': 2147483648 is not in the range"),
        (["list", "--deleting", "1"], "--deleting and --not-ready require --total"),
        (
            ["list", "--total", "1", "--deleting", "2"],
            "--total 1, --deleting 2, --not-ready 0: total 1 must not be less",
        ),
    ],
)
def test_what_cannot_be_used_is_named(cli, pools, arguments, message):
    result = cli("budgets", *arguments, "-f", pools)
    assert result.exit_code == 1
    assert message in result.stderr


def test_files_without_a_pool(cli, tmp_path):
    result = cli("budgets", "list", "-f", files(tmp_path, node("n1", "a")))
    assert (result.exit_code, result.stderr) == (1, "error: no NodePools in the files\n")


def test_a_pool_of_the_wrong_shape_is_named(cli, tmp_path):
    broken = node_pool("a")
    broken["spec"]["disruption"]["budgets"] = [{"nodes": 5}]
    result = cli("budgets", "list", "-f", files(tmp_path, broken))
    assert result.exit_code == 1
    assert "pools.yaml: document 1: spec.disruption.budgets[0].nodes" in result.stderr


def test_counts_are_for_files(cli):
    result = cli("budgets", "list", "--total", 5)
    assert result.exit_code == 1
    assert "require -f" in result.stderr


@pytest.fixture
def hub(tmp_path):
    """Run a hub with two pools in a thread of its own; return its data folder."""
    import threading

    loop, ready, stop = asyncio.new_event_loop(), threading.Event(), asyncio.Event()
    folder = tmp_path / "hub"

    async def serve():
        async with serving(folder) as owner:
            await put_pool(owner.up.store, "batch", 6, {"nodes": "50%"})
            await put_pool(owner.up.store, "shut", 2, {"nodes": "0"})
            gate = owner.up.services.disruption.nodes
            await until(lambda: sum(view.counts().total for view in gate.views()) == 8)
            ready.set()
            await stop.wait()

    def work():
        with suppress(RuntimeError):
            loop.run_until_complete(serve())

    thread = threading.Thread(target=work)
    thread.start()
    assert ready.wait(PATIENCE_SECONDS)
    yield folder
    loop.call_soon_threadsafe(stop.set)
    thread.join(PATIENCE_SECONDS)
    loop.close()


def test_a_running_hub_is_asked(cli, hub):
    data = next(path.parent for path in hub.rglob("kubeconfig"))
    answer = json.loads(cli("budgets", "list", "batch", "--data", data, "-o", "json").stdout)
    assert {(item["limit"], item["total"]) for item in answer["items"]} == {(3, 6)}
    everything = json.loads(cli("budgets", "calendar", "--data", data, "-o", "json", "--days", 400).stdout)
    assert {"batch", "shut"} <= {item["pool"] for item in everything["items"]}
    text = calendar(cli, "shut", "--data", data, "--tz", "UTC")
    assert 'never opens for Underutilized, Empty, Drifted, Unhealthy: budgets[0] (nodes "0")' in text
    longest = ("--from", "2026-06-15T00:00:00Z", "--days", 400)
    event = calendar(cli, "shut", "--data", data, *longest, "-o", "ics")
    assert {"DTSTART:20260607T000000Z", "DTEND:20270728T000000Z"} <= {*event.splitlines()}, "8 days more on both sides"
    assert event.count("BEGIN:VEVENT") == 1
    refused = cli("budgets", "calendar", "gone", "--data", data)
    assert (refused.exit_code, refused.stderr) == (1, 'error: there is no NodePool "gone"\n')


@pytest.mark.parametrize(
    ("zone", "start", "lengths"),
    [
        ("Europe/Berlin", datetime(2026, 3, 28, 12, tzinfo=UTC), [24, 23, 24]),
        ("Europe/Berlin", datetime(2026, 10, 24, 12, tzinfo=UTC), [24, 25, 24]),
        ("Australia/Lord_Howe", datetime(2026, 4, 4, 1, tzinfo=UTC), [24, 24.5, 24]),
        ("Africa/Cairo", datetime(2026, 4, 23, 1, tzinfo=UTC), [24, 23, 24]),  # its days begin at 1:00 then
        ("Pacific/Apia", datetime(2011, 12, 29, 12, tzinfo=UTC), [24, 24, 24]),  # where 30 December 2011 was left out
    ],
)
def test_days_follow_each_other_without_gaps(zone, start, lengths):
    days = list(local_days(start, start.replace(day=start.day + 2), ZoneInfo(zone)))
    found = [(ends - begins).total_seconds() / 3600 for _, begins, ends in days]
    assert found == lengths
    assert all(before[2] == after[1] for before, after in itertools.pairwise(days))


def test_the_zone_of_this_machine(tmp_path):
    link = tmp_path / "localtime"
    link.symlink_to("/usr/share/zoneinfo/Europe/Lisbon")
    assert local_zone({"TZ": ":Asia/Tokyo"}, link).key == "Asia/Tokyo"
    assert local_zone({"TZ": "nonsense"}, link).key == "Europe/Lisbon"
    assert local_zone({}, tmp_path / "nothing").key == "UTC"


@pytest.mark.parametrize("name", ["", "Mars/Olympus", "../UTC", "/etc/localtime", "Europe", "x" * 5000, "a\0b"])
def test_what_is_no_zone_is_said_with_an_example(name):
    with pytest.raises(UnknownZoneError, match="such as Europe/Berlin"):
        find_zone(name)
