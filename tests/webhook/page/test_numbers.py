"""One decision, three ways to look at it: the page, `harbormaster explain` and ``/v1/explain`` show the same numbers.

The hub is the real one with the example fleet. Its clock is stopped once everything is at rest, so that ages stand
still and whatever differs is a mistake.
"""

import asyncio
import json
import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio
from click.testing import CliRunner
from playwright.async_api import expect

from scorer.api.kinds import MEMBER_CLUSTER
from scorer.api.unstructured.documents import with_metadata
from tests.thoroughness import SOAK
from tests.webhook.edits import edit
from tests.webhook.page.conftest import PATIENCE
from tests.webhook.page.fixture_clock import HubClock
from tests.webhook.services import LISTENERS
from webhook.cli.files.documents import load
from webhook.cli.files.search import Files
from webhook.cli.hub.client import Client
from webhook.cli.objects.patcher import apply_all
from webhook.cli.options.hub import HubOptions
from webhook.cli.root import root
from webhook.kube.ports import Key
from webhook.processes.up import Up
from webhook.settings.programs import UpSettings

pytestmark = pytest.mark.asyncio(loop_scope="session")

EXAMPLES = Path(__file__).parents[3] / "examples" / "fleet"
NUMBER = re.compile(r"(?<![\w.])[-+\N{MINUS SIGN}]?[0-9][0-9,]*(?:\.[0-9]+)?")
POINTS = re.compile(r"^ {4}( *[-+]?[0-9]+)  .*", re.MULTILINE)
TERMS = re.compile(r"^ {14}term .*", re.MULTILINE)
SCORE = "scores.harbormaster.dev/latency"


class Rested:
    """A hub at rest, whose time has stopped."""

    def __init__(self, up: Up) -> None:
        self.up = up

    async def explain(self, ref: str) -> dict:
        """Ask ``/v1/explain``, over HTTPS."""
        scope, *names = ref.split("/")
        kind = {"crp": "ClusterResourcePlacement", "rp": "ResourcePlacement"}[scope]
        named = {"kind": kind, "name": names[-1], **({"namespace": names[0]} if scope == "rp" else {})}
        async with Client(HubOptions(data=self.up.data).find({})) as client:
            return await client.query("/v1/explain", {"placement": {"ref": named}})

    async def program(self, *arguments: str) -> str:
        """Run a client command in a thread of its own, as the hub runs in this one."""
        words = [*arguments, "--data", str(self.up.data)]
        result = await asyncio.to_thread(CliRunner().invoke, root, words, prog_name="harbormaster")
        assert result.exit_code == 0, result.output
        return result.stdout


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def rested(tmp_path_factory):
    """The example fleet, everything placed; one member has a score that counts, one has a score that no longer does."""
    clock = HubClock()
    settings = UpSettings(**LISTENERS)
    async with Up(settings, tmp_path_factory.mktemp("hub") / "data", now=clock) as up:
        async with Client(HubOptions(data=up.data).find({})) as client:
            outcomes = [outcome async for outcome in apply_all(client, load(Files((str(EXAMPLES),))))]
        assert [outcome for outcome in outcomes if outcome.refusal] == []
        assert await up.settled(PATIENCE / 1000)
        for name, until in (("bravelion", "2199-01-01T00:00:00Z"), ("busybee", "2020-01-01T00:00:00Z")):
            annotations = {SCORE: json.dumps({"value": "42", "validUntil": until})}
            await edit(up.store, MEMBER_CLUSTER, Key(name), partial(with_metadata, annotations=annotations))
        assert await up.settled(PATIENCE / 1000)
        clock.stop()
        yield Rested(up)


def listed(text):
    """Return the amounts in a text, without signs and separators, as often as they occur."""
    found = (number.replace(",", "").lstrip("-+\N{MINUS SIGN}") for number in NUMBER.findall(text))
    return Counter(float(number.rstrip(".")) for number in found)


def numbers(text):
    """Return the amounts in a text."""
    return set(listed(text))


INSTANT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z")


CPU = re.compile(r'"([0-9]+)m"')


def on_the_page(value):
    """Return a document with its CPU in cores, and its instants as the page has them, in the zone of the tab."""

    def local(found):
        at = datetime.fromisoformat(found[0])
        year = f" {at.year}" if abs(at - datetime.now(UTC)) > timedelta(days=300) else ""
        return f"{at:%a} {at.day} {at:%b}{year} {at.hour}:{at:%M}"

    whole = CPU.sub(lambda found: f'"{int(found[1]) / 1000}"', json.dumps(value))
    return json.loads(INSTANT.sub(local, whole))


SHOWN_AS_PLACES = {"index"}
"""Members that say which, not how much; terms are counted from 1 where people read."""


def amounts(value, name=""):
    """Yield every number of an explanation, those inside texts included."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from amounts(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from amounts(inner, name)
    elif isinstance(value, str):
        yield from listed(value).elements()
    elif isinstance(value, int | float) and not isinstance(value, bool) and name not in SHOWN_AS_PLACES:
        yield abs(float(value))


def places(item):
    """Return the places of terms and tolerations, as people count the first of them."""
    terms = [term for check in item.get("filters", ()) for term in check.get("terms", ())]
    terms += item.get("affinity", {}).get("terms", ())
    return {float(term["index"] + 1) for term in terms}


def points(item):
    """Return the points of an item as they are listed: spread constraints first, then preferences."""
    constraints = item.get("topology", {}).get("constraints", [])
    return [entry["points"] for entry in [*constraints, *item.get("affinity", {}).get("terms", [])]]


def expected_lines(item):
    """Return what each line of points has to say, number by number; None where a line says less on purpose."""
    for constraint in item.get("topology", {}).get("constraints", []):
        yield None if constraint["domain"] is None else Counter(amounts(constraint))
    for term in item.get("affinity", {}).get("terms", []):
        told = Counter(amounts(term))
        if "sorter" in term:
            told -= Counter([abs(float(term["points"]))])  # there twice, shown once
        if "ratio" in term.get("sorter", {}):
            told += Counter([abs(float(term["weight"]))])  # shown as the rule, and in the sum
        yield told


def assert_lines_agree(item, lines, *, numbered):
    """Compare lines of points with what they stand for; *numbered* ones begin with the place of the preference."""
    constraints = len(item.get("topology", {}).get("constraints", []))
    for place, (line, told) in enumerate(zip(lines, expected_lines(item), strict=True)):
        if told is None:
            assert "outside the spread" in line
            continue
        if place >= constraints:
            term = item["affinity"]["terms"][place - constraints]
            if numbered or "sorter" not in term:
                told[float(term["index"] + 1)] += 1
        assert listed(line) == told, f"{item['cluster']}: {line}"


def required_terms(item):
    return [term for check in item.get("filters", ()) for term in check.get("terms", ())]


def assert_terms_agree(item, lines):
    for line, term in zip(lines, required_terms(item), strict=True):
        assert listed(line) == Counter([*amounts(term), float(term["index"] + 1)]), f"{item['cluster']}: {line}"


def assert_same_numbers(item, text, where):
    told, shown = set(amounts(item)), numbers(text)
    assert told - shown == set(), f"{where} of {item['cluster']} leaves out what /v1/explain says:\n{text}"
    assert shown - told - places(item) == set(), f"{where} of {item['cluster']} has numbers of its own:\n{text}"


class ShownPage:
    """The page of one placement with everything unfolded, and the last explanation that it has been given."""

    def __init__(self, page) -> None:
        self.page = page
        self.given: list[dict] = []
        page.on("response", self._note)

    def release(self) -> None:
        """Stop listening to the browser."""
        self.page.remove_listener("response", self._note)

    def _note(self, response) -> None:
        if response.url.endswith("/v1/explain"):
            self.reading = asyncio.ensure_future(self._read(response))

    async def _read(self, response) -> None:
        self.given.append(await response.json())

    async def shows(self, document) -> bool:
        """Return whether *document* is what the page shows, with everything unfolded."""
        if not self.is_given(document):
            return False
        await self.page.evaluate("fetch('/ui/icon.svg').then((answer) => answer.text())")  # comes after the explanation
        more = self.page.locator(".explanation .more")
        if await more.is_visible() and await more.get_attribute("aria-expanded") == "false":
            await more.click()
        rows = self.page.locator(".explanation .rows > li")
        await expect(rows).to_have_count(len(document["items"]))
        await self.page.evaluate("document.querySelectorAll('.explanation details').forEach((e) => { e.open = true; })")
        await expect(self.page.locator(".explanation .trace:empty")).to_have_count(0)
        return True

    def is_given(self, document) -> bool:
        """Return whether *document* is the last explanation that the page was given."""
        return bool(self.given) and self.given[-1]["items"] == document["items"]

    async def rows(self) -> dict[str, dict]:
        """Return by cluster what its row says."""
        found = await self.page.locator(".explanation .rows > li").evaluate_all(
            """all => all.map((row) => ({
              cluster: row.querySelector('.who').innerText,
              score: row.querySelector('.score')?.innerText ?? null,
              spread: row.querySelector('.num.spread')?.innerText ?? null,
              points: [...row.querySelectorAll('.points .gained')].map((e) => e.innerText),
              lines: [...row.querySelectorAll('.points li')].map((e) => e.innerText.replaceAll("\\n", " ")),
              trace: row.querySelector('.trace').innerText,
            }))"""
        )
        return {row["cluster"]: row for row in found}


def signed(text):
    return int(text.replace(",", "").replace("\N{MINUS SIGN}", "-"))


PLACEMENTS = sorted(
    re.findall(
        r"^kind: (Cluster)?ResourcePlacement\nmetadata:\n  name: (\S+)(?:\n  namespace: (\S+))?", text, re.MULTILINE
    )
    for text in (path.read_text(encoding="utf-8") for path in sorted(EXAMPLES.glob("placements-*.yaml")))
)
REFS = [
    f"crp/{name}" if cluster else f"rp/{namespace}/{name}" for found in PLACEMENTS for cluster, name, namespace in found
]


async def agreement(rested, shown, ref):
    """Return the explanation of a placement, and what the page and the program show of that.

    A member may report between two of the readings; its age is another one then.
    """
    async with asyncio.timeout(PATIENCE / 1000):
        while True:
            document = await rested.explain(ref)
            if await shown.shows(document):
                rows = await shown.rows()
                details = await rested.program("explain", ref, *[item["cluster"] for item in document["items"]])
                if await rested.explain(ref) == document and shown.is_given(document):
                    return document, rows, details


@pytest.mark.soak
@pytest.mark.parametrize("ref", REFS if SOAK else REFS[::3])
async def test_the_page_and_the_program_show_the_numbers_of_the_api(rested, tabs, ref):
    """Every number of the explanation, in all three of them, cluster by cluster, and none besides."""
    async with tabs.open(motion="reduce") as page:
        shown = ShownPage(page)
        await page.goto(f"{rested.up.http_url}/#{ref}")
        document, rows, details = await agreement(rested, shown, ref)
        assert list(rows) == [item["cluster"] for item in document["items"]]
        head, *blocks = details.split("\n\n")
        blocks = {block.partition(":")[0].strip(): block for block in blocks}
        for item in document["items"]:
            row = rows[item["cluster"]]
            assert list(map(signed, row["points"])) == points(item)
            seen = on_the_page(item)
            assert_lines_agree(seen, row["lines"], numbered=False)
            if row["score"] is not None:
                assert signed(row["score"]) == item["affinity"]["score"]
            if row["spread"] is not None:
                assert signed(row["spread"]) == item["topology"]["score"]
            scores = " ".join(text for text in (row["score"], row["spread"]) if text)
            assert_same_numbers(seen, f"{row['trace']} {scores} {_scores_of(item)}", "the page")
            block = blocks[item["cluster"]]
            lines = [found[0] for found in POINTS.finditer(block)]
            assert [int(found[1]) for found in POINTS.finditer(block)] == points(item)
            assert_lines_agree(item, lines, numbered=True)
            assert_terms_agree(item, TERMS.findall(block))
            assert_same_numbers(item, f"{block} {_scores_of(item)}", "the program")
        run = await shown.page.locator(".explanation .run").inner_text()
        wanted = await shown.page.locator(".explanation .wanted").inner_text()
        whole = {key: value for key, value in document.items() if key in HEAD}
        assert set(amounts(on_the_page(whole))) <= numbers(f"{run} {wanted} {whole['found']}")
        assert set(amounts(whole)) <= numbers(head)
        assert numbers(head) <= set(amounts(document))
        assert await shown.page.evaluate("window.violations") == []
        shown.release()


HEAD = ("wanted", "found", "fleetSize", "batches", "counts", "evaluatedAt", "snapshot", "trigger")


def _scores_of(item):
    """Return the sums that a row of clusters that were not scored has no room for: they are checked as points."""
    return f"{item.get('affinity', {}).get('score', '')} {item.get('topology', {}).get('score', '')}"


async def test_scores_of_others_are_shown_with_their_end(rested):
    """On the hub's view of the members, and in the wide table of the program."""
    async with Client(HubOptions(data=rested.up.data).find({})) as client:
        cluster = (await client.read_json("/v1/clusters/bravelion"))["properties"][SCORE]
        late = (await client.read_json("/v1/clusters/busybee"))["properties"][SCORE]
    assert (cluster["value"], cluster["validUntil"]) == ("42", "2199-01-01T00:00:00Z")
    assert "expired" not in cluster
    assert (late["value"], late["expired"]) == ("42", True)
    table = await rested.program("get", "memberclusters", "-o", "wide")
    lines = {line.split()[0]: line for line in table.splitlines()}
    assert re.search(r"latency=42 \(1[0-9]{2}y left\)$", lines["bravelion"])
    assert re.search(r"latency=42 \(expired [0-9]+y([0-9]+d)? ago\)$", lines["busybee"])
    assert lines["NAME"].split()[-2:] == ["SCORES", "DOCS"]


async def test_the_last_decisions_are_shown_alike(rested):
    """`harbormaster explain --runs` in words and as JSON, and what it says of a placement that is not there."""
    for ref in REFS:
        answer = json.loads(await rested.program("explain", ref, "--runs", "-o", "json"))
        assert answer["placement"] == ref
        assert len(answer["items"]) >= 1
        latest, explained = answer["items"][0], await rested.explain(ref)
        assert (latest["wanted"], latest["found"]) == (explained["wanted"], explained["found"])
        assert latest["snapshot"] == explained["snapshot"]
        assert latest["trigger"] == explained["trigger"]
        kept = {item["cluster"]: item["binding"] for item in explained["items"] if item["verdict"] == "Kept"}
        assert {entry["cluster"] for entry in latest["picked"]} == set(kept)
        for entry in latest["picked"]:
            assert entry.get("score") == kept[entry["cluster"]].get("recordedScore")
        words = await rested.program("explain", ref, "--runs")
        assert words.startswith(f"{ref}: ")
        assert set(amounts({**answer, "items": [_without_lists(item) for item in answer["items"]]})) <= numbers(words)
    result = await asyncio.to_thread(
        CliRunner().invoke, root, ["explain", "crp/nobody", "--runs", "--data", str(rested.up.data)]
    )
    assert result.exit_code == 1
    assert "there is no placement" in result.output


def _without_lists(item):
    return {key: value for key, value in item.items() if key not in ("gained", "lost", "times")} | {
        "trigger": {"message": item["trigger"]["message"]}
    }
