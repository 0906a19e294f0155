"""``harbormaster gate``: questions about files, and to a running hub."""

import asyncio
import json
import re
import shlex

import pytest
import yaml
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from tests.docs.pages import ROOT
from tests.waiting import until
from tests.webhook.description.example_hub import serving
from tests.webhook.gate.gates import claim, node, node_pool, put_pool
from webhook.cli.root import root

BUSINESS_HOURS = {"nodes": "0", "schedule": "0 9 * * 1-5", "duration": "8h"}
SATURDAY, MONDAY = "2026-06-13T12:00:00Z", "2026-06-15T12:00:00Z"


@pytest.fixture
def files(tmp_path):
    """A pool of three nodes, of which one is protected; one may go at a time, and none in business hours."""
    documents = [node_pool("batch", {"nodes": "1"}, BUSINESS_HOURS)]
    for name in ("n0", "n1", "n2"):
        documents += [node(name, "batch"), claim(name, "batch")]
    documents[5]["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": "true"}
    path = tmp_path / "pool.yaml"
    path.write_text(yaml.safe_dump_all(documents), encoding="utf-8")
    return path


def ask(cli, files, *words):
    return cli("gate", "disruption", "batch", "--reason", "Drifted", "-f", files, *words, "--tz", "Europe/Berlin")


def test_files_are_asked_and_say_yes(cli, files):
    result = ask(cli, files, "n1", "--now", SATURDAY)
    assert (result.exit_code, result.stdout) == (
        0,
        "Allowed: 1 node may be disrupted for Drifted now. Granted: n1.\n",
    )


def test_a_refusal_tells_the_budget_and_when_it_opens_in_both_times(cli, files):
    result = ask(cli, files, "--count", "1", "--now", MONDAY)
    assert result.exit_code == 2
    assert result.stdout.startswith('Not now: budgets[1] (nodes "0", schedule "0 9 * * 1-5", duration 8h) allows 0')
    assert result.stdout.endswith(". The gate opens Mon 2026-06-15 19:00:00 CEST (2026-06-15T17:00:00Z).\n")
    assert result.stdout.count("2026-06-15T17:00:00Z") == 1
    assert result.stdout.count("\n") == 1


def test_a_protected_node_is_named(cli, files):
    result = ask(cli, files, "n2", "--now", SATURDAY)
    assert result.exit_code == 2
    assert "n2" in result.stdout
    assert "karpenter.sh/do-not-disrupt" in result.stdout


def test_machines_get_the_whole_answer(cli, files):
    result = ask(cli, files, "n1", "n2", "--up-to", "--now", SATURDAY, "-o", "json")
    told = json.loads(result.stdout)
    assert (result.exit_code, told["granted"], told["total"], told["active"]) == (0, ["n1"], 3, [0])
    assert yaml.safe_load(ask(cli, files, "n1", "--now", SATURDAY, "-o", "yaml").stdout)["verdict"] == "Allowed"


def test_counts_may_be_given(cli, files):
    words = ("--count", "1", "--total", "40", "--deleting", "1", "--now", SATURDAY, "-o", "json")
    told = json.loads(ask(cli, files, *words).stdout)
    assert (told["verdict"], told["total"], told["disrupting"]) == ("InFlight", 40, 1)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "name the nodes, or give their number with --count"),
        (("n1", "--count", "1"), "name the nodes, or give their number with --count"),
        (("--count", "4"), "4 is more than the 3 nodes of NodePool batch"),
        (("who",), "'who' is not a node of NodePool batch"),
        (("n1", "n1"), "'n1' is listed twice"),
        (("--count", "1", "--deleting", "1"), "require --total"),
        (("--count", "1", "--total", "1", "--deleting", "2"), "total 1 must not be less than deleting 2"),
        (("--count", "1", "--reserve", "60", "--holder", "me"), "only a running hub has reservations"),
        (("--count", "1", "--now", "soon"), "'soon' is not a time"),
        (("--count", "1", "--now", "0001-01-01T00:00:00+14:00"), "'0001-01-01T00:00:00+14:00' is not a time"),
        (("--count", "1", "--total", "2147483648"), "2147483648 is not in the range"),
    ],
)
def test_a_question_that_makes_no_sense_is_an_error(files, words, says, capsys):
    with pytest.raises(SystemExit) as ended:
        root.main(["gate", "disruption", "batch", "--reason", "Drifted", "-f", str(files), *words], "harbormaster")
    told = capsys.readouterr().err
    assert (ended.value.code, told.count("\n")) == (1, 1)
    assert says in told


def test_files_without_nodes_need_their_number(cli, files):
    """A repository usually has the NodePools only."""
    (pool,) = (x for x in yaml.safe_load_all(files.read_text(encoding="utf-8")) if x["kind"] == "NodePool")
    files.write_text(yaml.safe_dump(pool), encoding="utf-8")
    result = ask(cli, files, "--count", "1", "--now", SATURDAY)
    assert (result.exit_code, result.stderr) == (
        1,
        "error: the files have no nodes of NodePool batch: give the number of its nodes with --total N\n",
    )
    assert ask(cli, files, "--count", "1", "--total", "40", "--now", SATURDAY).exit_code == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ("other", "--reason", "Drifted", "--count", "1"),
            "there is no NodePool 'other' in the files, available: batch",
        ),
        (("batch", "--reason", "Bored", "--count", "1"), "Invalid value for '--reason': 'Bored'"),
        (("batch", "--reason", "Drifted", "--count", "1", "--tz", "Mars"), '--tz: "Mars" is not a time zone'),
    ],
)
def test_what_does_not_exist_is_said(files, words, says, capsys):
    with pytest.raises(SystemExit) as ended:
        root.main(["gate", "disruption", *words, "-f", str(files)], "harbormaster")
    told = capsys.readouterr().err
    assert (ended.value.code, told.count("\n")) == (1, 1)
    assert says in told


@pytest.fixture
async def gate(tmp_path):
    """A function that runs ``harbormaster gate`` against a hub with a pool of which two of six nodes may go."""
    async with serving(tmp_path, requests_per_second=1e6, request_burst=10**6) as caller:
        await put_pool(caller.up.store, "batch", 6, {"nodes": "2"})
        there = caller.up.services.disruption.nodes
        await until(lambda: (view := there.view("batch")) and view.counts().total == 6)

        async def run(*words):
            arguments = ["gate", *words, "--data", str(tmp_path)]
            return await asyncio.to_thread(CliRunner().invoke, root, arguments, prog_name="harbormaster")

        yield run


async def test_it_answers(gate):
    result = await gate("disruption", "batch", "--reason", "Drifted", "--count", "2")
    assert (result.exit_code, result.stdout) == (0, "Allowed: 2 nodes may be disrupted for Drifted now.\n")


async def test_a_permission_is_taken_and_given_back(gate):
    asked = ("disruption", "batch", "--reason", "Drifted", "--reserve", "60", "--holder", "patcher", "--tz", "UTC")
    taken = await gate(*asked, "batch-0", "batch-1", "-o", "json")
    assert taken.exit_code == 0
    told = json.loads(taken.stdout)
    assert told["granted"] == ["batch-0", "batch-1"]
    refused = await gate(*asked, "--count", "1")
    assert refused.exit_code == 2
    assert refused.stdout.startswith("Not now: budgets[0] ")
    given_back = await gate("release", told["reservation"]["id"])
    assert (given_back.exit_code, given_back.stdout) == (0, "released\n")
    again = await gate(*asked, "batch-2")
    assert again.stdout.startswith("Allowed: batch-2 may be disrupted. Reserved until ")


async def test_a_refusal_names_who_has_reserved_and_until_when(gate):
    asked = ("disruption", "batch", "--reason", "Drifted", "--tz", "UTC")
    taken = await gate(*asked, "batch-0", "batch-1", "--reserve", "600", "--holder", "nightly-patch", "-o", "json")
    expires = json.loads(taken.stdout)["reservation"]["expires"]
    refused = await gate(*asked, "--count", "1")
    assert refused.exit_code == 2
    assert f"2 nodes reserved by nightly-patch until {expires}. The gate opens " in refused.stdout
    assert refused.stdout.count(expires) == 1
    named = await gate(*asked, "batch-1", "-o", "json")
    assert json.loads(named.stdout)["nextOpen"] == expires


def completed(data):
    """What a Tab offers after ``gate release``."""
    found = ShellComplete(root, {}, "harbormaster", "").get_completions(["gate", "release", "--data", str(data)], "")
    return [each.value for each in found]


async def test_reservations_are_listed_with_their_holders_and_completed(gate, tmp_path):
    assert (await gate("list")).stdout == "No reservations found\n"
    asked = ("disruption", "batch", "--reason", "Drifted", "--reserve", "60", "-o", "json")
    named = json.loads((await gate(*asked, "batch-0", "--holder", "patcher")).stdout)["reservation"]
    await gate(*asked, "--count", "1", "--holder", "nightly")
    listed = await gate("list", "--tz", "UTC")
    header, *rows = listed.stdout.splitlines()
    assert (listed.exit_code, header.split()) == (0, ["GATE", "OF", "FOR", "GRANTED", "HOLDER", "UNTIL", "ID"])
    assert [row.split("   ")[0] for row in rows] == ["disruption", "disruption"]
    assert all(word in rows[0] for word in ("batch", "Drifted", "batch-0", "patcher", "UTC", named["id"]))
    assert "1 node" in rows[1]
    assert named["id"] in await asyncio.to_thread(completed, tmp_path)
    told = json.loads((await gate("list", "-o", "json")).stdout)
    assert [(item["holder"], item["granted"], item["mine"]) for item in told["items"]] == [
        ("patcher", ["batch-0"], True),
        ("nightly", 1, True),
    ]
    assert (await gate("release", told["items"][0]["id"])).exit_code == 0
    assert [item["holder"] for item in json.loads((await gate("list", "-o", "json")).stdout)["items"]] == ["nightly"]


async def test_what_is_not_there_is_an_error(gate):
    for words, says in (
        (("disruption", "nope", "--reason", "Drifted", "--count", "1"), "there is no node pool 'nope'"),
        (("disruption", "batch", "who", "--reason", "Drifted"), "'who' is not a node of NodePool batch"),
        (("release", "nope"), "there is no reservation 'nope', or it has expired"),
        (("rollout", "crp/nope", "oslo"), "there is no placement crp/nope"),
        (("cluster-update", "oslo"), "oslo"),
    ):
        result = await gate(*words)
        assert result.exit_code == 1
        assert says in str(result.exception) + result.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("batch-0", "who"), "'who' is not a node of NodePool batch"),
        (("batch-0", "batch-0"), '"batch-0" is listed twice'),
        (("--count", "7"), "--count: 7 is more than the 6 nodes of NodePool batch"),
        (("batch-0", "--now", SATURDAY), "--now: must not be set for a reservation, which always starts now"),
        (("batch-0", "--holder", "admission"), '--holder: "admission": must not be the holder that admission uses'),
    ],
)
async def test_a_mistake_in_a_question_is_told_as_the_user_has_written_it(gate, words, says):
    """No JSON Pointer: nobody who types has seen the body of the request."""
    asked = ("disruption", "batch", "--reason", "Drifted", "--reserve", "60", "--holder", "me")
    result = await gate(*asked, *words)
    assert (result.exit_code, result.stderr) == (1, f"error: {says}\n")


def test_the_reservation_that_the_guide_shows_is_allowed_on_the_example_fleet(cli):
    """Asked of the files, which hold no reservations."""
    (line,) = re.findall(r"^    harbormaster (gate .* --reserve .*)$", _RESERVE, re.MULTILINE)
    words = shlex.split(line)
    asked = words[: words.index("--reserve")]
    result = cli(*asked, "-f", ROOT / "examples" / "fleet")
    assert (result.exit_code, result.stdout[:9]) == (0, "Allowed: ")


_GUIDE = (ROOT / "docs" / "budgets-and-gate.md").read_text(encoding="utf-8")
_RESERVE = _GUIDE.partition("\n## Reserve\n")[2].partition("\n## ")[0]
