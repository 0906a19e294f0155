"""Which benchmarks ``make bench`` runs, and what it says of their figures."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import AsyncMock

import pytest

from tests.bench.__main__ import PARTS, ROOT, SHORT_PARTS, WHEN_NAMED, comparison, main, measured, says, wanted
from tests.bench.figures import COLLECTED, Figure, Part, Row
from tests.bench.references import REFERENCES, SOURCES


def test_each_part_is_measured_once_and_says_what_it_measures():
    assert wanted([]).parts == PARTS
    assert len({*PARTS, *WHEN_NAMED}) == len(PARTS) + len(WHEN_NAMED)
    assert [part for part in (*PARTS, *WHEN_NAMED) if not says(part)] == []
    assert set(wanted(["--short"]).parts) == set(SHORT_PARTS) <= set(PARTS)


@pytest.mark.parametrize("part", [*PARTS, *WHEN_NAMED])
def test_each_part_tells_its_figures_by_its_own_name(part):
    assert f'Part("{part}")' in (ROOT / "tests" / "bench" / f"{part}.py").read_text(encoding="utf-8")


def test_parts_are_named(capsys):
    assert wanted(["page", "hub", "page"]).parts == ("page", "hub")
    with pytest.raises(SystemExit) as ended:
        wanted(["pages"])
    assert ended.value.code == 2
    assert "there is no part pages; there are engine, admission," in capsys.readouterr().err


def test_no_run_is_no_number_of_runs(capsys):
    with pytest.raises(SystemExit):
        wanted(["--runs", "0"])
    assert "--runs must be 1 or more, not 0" in capsys.readouterr().err


def test_help_lists_the_parts_and_measures_nothing(capsys):
    with pytest.raises(SystemExit) as ended:
        wanted(["--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert [part for part in (*PARTS, *WHEN_NAMED) if f"\n  {part} " not in shown] == []


def test_a_reference_is_of_a_part_that_is_measured_and_has_a_source():
    assert {part for part, _ in REFERENCES} <= {*PARTS, *WHEN_NAMED}
    assert {reference.source for reference in REFERENCES.values()} == set(SOURCES)


def test_several_runs_are_told_by_median_and_best():
    runs = [Figure("w", ours, "ms", 3.0, floor, 4.0) for ours, floor in ((2.0, 1.0), (9.0, 3.0), (2.5, 1.0))]
    row = Row("engine", tuple(runs))
    assert (row.ours, row.best, row.floor, row.ratio, row.met) == (2.5, 2.0, 1.0, 2.5, True)
    assert row.cells()[:7] == ("engine: w", "2.5 (2)", "ms", "3, 4 floors", "met", "1", "2.50")


@pytest.mark.parametrize(
    ("figure", "met"),
    [
        (Figure("w", 3.1, "ms", 3.0), False),
        (Figure("w", 3.1, "/s", 3.0), True),
        (Figure("w", 2.9, "/s", 3.0), False),
        (Figure("w", 5.0, "/s", floor=10.0, ratio=0.55), False),
        (Figure("w", 6.0, "/s", 5.0, floor=10.0, ratio=0.55), True),
        (Figure("w", 6.0, "ms", floor=2.0, ratio=2.0), False),
        (Figure("w", 6.0, "ms", floor=2.0), None),
    ],
)
def test_of_rates_more_is_better_and_of_all_else_less(figure, met):
    assert Row("engine", (figure,)).met is met


def test_the_reference_stands_beside_ours():
    row = Row("engine", (Figure("PickN 10 of 1,000", 0.13, "ms"),))
    assert "3.4-7.2 ms [1]" in row.line()
    assert row.document()["reference"] == {"figure": "3.4-7.2 ms", "source": SOURCES[1]}


def test_a_part_by_itself_prints_the_table_and_a_collected_one_prints_json(capsys, monkeypatch):
    part = Part("engine")
    part.report(Figure("w", 1.0, "ms"))
    part.report(Figure("v", 2.0, "ms"))
    heading, *rows = capsys.readouterr().out.splitlines()
    assert heading.split() == ["work", "ours", "goal", "floor", "ratio", "reference"]
    assert [row.split()[:4] for row in rows] == [["engine:", "w", "1", "ms"], ["engine:", "v", "2", "ms"]]
    monkeypatch.setenv(COLLECTED, "1")
    part.report(Figure("w", 1.0, "ms", note="n"))
    mark, _, document = capsys.readouterr().out.partition(" ")
    assert (mark, Figure(**json.loads(document))) == ("figure", Figure("w", 1.0, "ms", note="n"))


@pytest.fixture
def parts(monkeypatch):
    """Parts that have been told take no time: `{part: figures of each run}`."""
    told: dict[str, list[list[Figure]]] = {}
    monkeypatch.setattr("tests.bench.__main__.measured", lambda part, tree, *, short: iter(told[part].pop(0)))
    return told


def test_the_table_is_written_as_json_too(parts, tmp_path, monkeypatch, capsys):
    output = tmp_path / "made" / "bench.json"
    monkeypatch.setattr(sys, "argv", ["bench", "--runs", "2", "--output", str(output), "engine"])
    parts["engine"] = [[Figure("w", 2.0, "ms", 3.0)], [Figure("w", 1.0, "ms", 3.0)]]
    main()
    written = json.loads(output.read_text(encoding="utf-8"))
    assert written["figures"][0]["ours"] == [2.0, 1.0]
    assert (written["figures"][0]["met"], written["short"]) == (True, False)
    shown = capsys.readouterr().out
    assert "1.5 (1)" in shown
    assert str(output) in shown


def test_a_revision_is_compared_in_pairs(parts, capsys):
    parts["engine"] = [[Figure("w", ours, "ms")] for ours in (4.0, 2.0, 6.0, 2.0, 5.0, 2.0)]
    rows = comparison(wanted(["--runs", "3", "--base", "HEAD", "engine"]))
    assert rows[0]["pairs"] == [{"base": 4.0, "ours": 2.0}, {"base": 6.0, "ours": 2.0}, {"base": 5.0, "ours": 2.0}]
    assert "0.40 (0.33 to 0.50)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("revision", "words"),
    [("no-such-revision", "there is no such revision"), ("empty", "its benchmarks tell no figures")],
)
def test_a_revision_that_cannot_be_compared_is_refused_by_its_name(revision, words):
    if revision == "empty":
        tree = subprocess.run(["git", "mktree"], cwd=ROOT, check=True, input="", capture_output=True, text=True)
        author = ["-c", "user.name=tests", "-c", "user.email=tests@localhost"]
        made = ["git", *author, "commit-tree", "-m", "empty", tree.stdout.strip()]
        revision = subprocess.run(made, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()
    with pytest.raises(SystemExit, match=f"REV={revision}: {words}"):
        comparison(wanted(["--base", revision, "engine"]))


@pytest.mark.parametrize(
    ("words", "compares"),
    [
        pytest.param([], False, id="default"),
        pytest.param(["BASE=python:3"], False, id="base-image-is-no-revision"),
        pytest.param(["REV=HEAD~5"], True, id="revision"),
    ],
)
def test_make_bench_compares_only_with_a_named_revision(words, compares):
    shown = ["make", "--dry-run", "bench", "ARGS=engine", *words]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    printed = subprocess.run(shown, cwd=ROOT, check=True, capture_output=True, text=True, env=clean).stdout
    (command,) = [line for line in printed.splitlines() if "-m tests.bench" in line]
    assert command.split("tests.bench ")[1].split() == [*(["--base", "HEAD~5"] if compares else []), "engine"]


def test_a_part_that_fails_ends_the_whole(tmp_path):
    folder = Path(tmp_path, "tests", "bench")
    folder.mkdir(parents=True)
    for package in (folder.parent, folder):
        (package / "__init__.py").touch()
    (folder / "engine.py").write_text("raise SystemExit(3)\n", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"the part engine of .* failed with exit code 3"):
        list(measured("engine", tmp_path, short=True))
    (folder / "engine.py").write_text("print('done')\n", encoding="utf-8")
    with pytest.raises(SystemExit, match=r"the part engine of .* tells no figures"):
        list(measured("engine", tmp_path, short=True))


@pytest.mark.parametrize(
    ("looks", "needed"),
    [
        ([(900, 0)], 5),
        ([(900, 0), (901, 0), (901, 0), (902, 0)], 5),
        ([(900, 3), (950, 0), (1000, 0), (1050, 1), (1051, 0)], 8),
    ],
    ids=["nothing is done", "some is looked at again", "all is done first"],
)
async def test_the_hub_is_at_rest_though_the_loop_looks_at_all_again(looks, needed, monkeypatch):
    from tests.bench import hub  # with what it needs, it takes a second

    seen: list[tuple[int, int]] = []

    def told(port: int, *names: str) -> tuple[int, int]:
        seen.append(looks[min(len(seen), len(looks) - 1)])
        return seen[-1]

    monkeypatch.setattr(hub, "metrics", told)
    monkeypatch.setattr(hub.Bed, "count", AsyncMock(return_value=100))
    monkeypatch.setattr(hub, "LOOK_SECONDS", 1 / 256)
    monkeypatch.setattr(hub, "QUIET_SECONDS", 4 / 256)
    await hub.Bed(None, None, None, None, 0).at_rest()
    assert len(seen) == needed


async def test_a_hub_that_never_comes_to_rest_ends_the_measurement(monkeypatch):
    from tests.bench import hub

    monkeypatch.setattr(hub, "metrics", lambda port, *names: (next(done), 0))
    done = itertools.count(0, 50)
    monkeypatch.setattr(hub, "PATIENCE_SECONDS", 0.05)
    monkeypatch.setattr(hub, "LOOK_SECONDS", 0.001)
    monkeypatch.setattr(hub.Bed, "count", AsyncMock(return_value=100))
    with pytest.raises(TimeoutError):
        await hub.Bed(None, None, None, None, 0).at_rest()
