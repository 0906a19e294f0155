"""All benchmarks, or those that are named: ours, the goal, the floor of the same run, the reference's figure.

Ratios travel, absolute times do not. One table is printed and written as JSON. With another revision of this
repository both take turns, part by part, and their ratio is what counts.
"""

import argparse
import ast
import json
import os
import platform
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Final

from tests.bench.figures import COLLECTED, MARK, MORE_IS_BETTER, SHORT_FORM, Figure, Row, amount, header
from tests.bench.references import REFERENCES, SOURCES

ROOT: Final = Path(__file__).parents[2]
PARTS: Final = (
    "engine",
    "admission",
    "removals",
    "hook",
    "scoring",
    "extender",
    "disruption",
    "node_disruption",
    "week",
    "loop",
    "plans",
    "staged",
    "upgrade",
    "memory",
    "page",
    "commands",
)
WHEN_NAMED: Final = ("hub", "shards", "agent", "rest", "workers", "resync", "large_fleet")
"""No part of a run of everything."""
SHORT_PARTS: Final = ("engine", "admission", "scoring", "extender", "disruption", "loop")
"""What the short form measures: together under three minutes."""


def says(part: str) -> str:
    """Return the first line of a part's docstring."""
    source = Path(__file__).with_name(f"{part}.py").read_text(encoding="utf-8")
    return (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]


@dataclass(frozen=True)
class Wanted:
    """What is to be measured."""

    parts: tuple[str, ...]
    short: bool
    runs: int
    base: str
    output: Path


def wanted(arguments: Sequence[str] | None = None) -> Wanted:
    """Return what to measure; ends the process for ``--help`` and for what does not exist."""
    listed = "\n".join(f"  {part:16}{says(part)}" for part in (*PARTS, *WHEN_NAMED))
    parser = argparse.ArgumentParser(
        "python -m tests.bench",
        description="Measure: ours, the goal, the floor of the same run, the reference's figure.",
        epilog=f"parts:\n{listed}\n\nas make: make bench ARGS=page, make bench REV=HEAD~5 ARGS='--runs 3 engine'",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"what to measure; without one, all but {', '.join(WHEN_NAMED)}"
    )
    parser.add_argument("--short", action="store_true", help="a short form: fewer parts and rounds, under 3 minutes")
    parser.add_argument("--runs", type=int, default=1, metavar="N", help="measure N times; shown are median and best")
    parser.add_argument("--base", default="", metavar="REV", help="compare with this revision, in turns")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "bench.json", help="where the JSON is written")
    found = parser.parse_args(arguments)
    named = tuple(dict.fromkeys(found.parts))
    if unknown := [part for part in named if part not in (*PARTS, *WHEN_NAMED)]:
        parser.error(f"there is no part {', '.join(unknown)}; there are {', '.join((*PARTS, *WHEN_NAMED))}")
    if found.runs < 1:
        parser.error(f"--runs must be 1 or more, not {found.runs}")
    parts = named or (SHORT_PARTS if found.short else PARTS)
    return Wanted(parts, found.short, found.runs, found.base, found.output)


def measured(part: str, tree: Path, *, short: bool) -> Iterator[Figure]:
    """Yield the figures of a part of the sources in *tree*, measured in a process of its own: memory counts.

    Raises:
        SystemExit: It failed, or tells no figures.
    """
    environment = {**os.environ, "PYTHONPATH": str(tree), COLLECTED: "1", SHORT_FORM: "1" if short else ""}
    command = [sys.executable, "-m", f"tests.bench.{part}"]
    told = 0
    with subprocess.Popen(command, cwd=tree, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for shown in process.stdout:
            if shown.startswith(MARK):
                told += 1
                yield Figure(**json.loads(shown.removeprefix(MARK)))
            else:
                print(shown, end="", file=sys.stderr, flush=True)
    if process.returncode:
        raise SystemExit(f"the part {part} of {tree} failed with exit code {process.returncode}")
    if not told:
        raise SystemExit(f"the part {part} of {tree} tells no figures")


def table(asked: Wanted) -> list[Row]:
    """Measure, print the table, and return its rows."""
    rows: list[Row] = []
    print(header(), flush=True)
    for part in asked.parts:
        if asked.runs == 1:
            for figure in measured(part, ROOT, short=asked.short):
                rows.append(Row(part, (figure,)))
                print(rows[-1].line(), flush=True)
            continue
        runs = [list(measured(part, ROOT, short=asked.short)) for _ in _told(part, asked.runs)]
        for same in _joined(runs):
            rows.append(Row(part, same))
            print(rows[-1].line(), flush=True)
    cited = {
        REFERENCES[row.part, row.runs[0].work].source for row in rows if (row.part, row.runs[0].work) in REFERENCES
    }
    print()
    if asked.runs > 1:
        print(f"ours: the median of {asked.runs} runs (and the best)")
    for number in sorted(cited):
        print(f"[{number}] {SOURCES[number]}")
    return rows


def _told(part: str, runs: int) -> Iterator[int]:
    for number in range(1, runs + 1):
        print(f"… {part}, run {number} of {runs}", file=sys.stderr, flush=True)
        yield number


def _joined(runs: Sequence[Sequence[Figure]]) -> Iterator[tuple[Figure, ...]]:
    by_work = [{figure.work: figure for figure in run} for run in runs]
    for work in by_work[0]:
        yield tuple(found[work] for found in by_work if work in found)


def comparison(asked: Wanted) -> list[dict[str, object]]:
    """Measure both revisions in turns and print what changed; returns the rows as JSON has them."""
    rows: list[dict[str, object]] = []
    with _unpacked(asked.base) as tree:
        print(f"{'work':60}{'base':>12}{'ours':>12} {'unit':8}{'ours / base':>12}  of {asked.runs} pairs", flush=True)
        for part in asked.parts:
            if not (tree / "tests" / "bench" / f"{part}.py").exists():
                print(f"{part}: {asked.base} has no such part", flush=True)
                continue
            pairs = [
                (
                    {figure.work: figure for figure in measured(part, tree, short=asked.short)},
                    {figure.work: figure for figure in measured(part, ROOT, short=asked.short)},
                )
                for _ in _told(part, asked.runs)
            ]
            for work, figure in pairs[0][1].items():
                both = [(base[work].ours, ours[work].ours) for base, ours in pairs if work in base and work in ours]
                if both:
                    rows.append(_change(part, work, figure.unit, both))
    return rows


def _change(part: str, work: str, unit: str, both: Sequence[tuple[float, float]]) -> dict[str, object]:
    ratios = [ours / base for base, ours in both if base]
    base, ours = (median(values) for values in zip(*both, strict=True))
    spread = f" ({min(ratios):.2f} to {max(ratios):.2f})" if len(ratios) > 1 else ""
    change = f"{median(ratios):>12.2f}{spread}" if ratios else ""
    better = "more is better" if unit in MORE_IS_BETTER else ""
    print(f"{f'{part}: {work}':60}{amount(base):>12}{amount(ours):>12} {unit:8}{change}  {better}".rstrip(), flush=True)
    return {"part": part, "work": work, "unit": unit, "pairs": [{"base": one, "ours": other} for one, other in both]}


@contextmanager
def _unpacked(revision: str) -> Iterator[Path]:
    """Unpack a revision in a folder of its own while the context is open; it uses the installed packages of ours."""
    try:
        commit = _git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    except subprocess.CalledProcessError:
        raise SystemExit(f"REV={revision}: there is no such revision") from None
    if not _git("ls-tree", commit, "tests/bench/figures.py"):
        raise SystemExit(f"REV={revision}: its benchmarks tell no figures that could be compared; take a later one")
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "base"
        packed = Path(folder) / "base.tar"
        _git("archive", "--output", str(packed), commit)
        with tarfile.open(packed) as archive:
            archive.extractall(tree, filter="data")
        yield tree


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


def _circumstances() -> dict[str, object]:
    try:
        revision = _git("describe", "--always", "--dirty", "--abbrev=12")
    except (OSError, subprocess.CalledProcessError):  # sources without their history
        revision = "unknown"
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "revision": revision,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "load": os.getloadavg()[0],
    }


def main() -> None:
    """Measure, print, write."""
    asked = wanted()
    document = _circumstances()
    if asked.base:
        document |= {"base": asked.base, "comparison": comparison(asked)}
    else:
        document |= {"short": asked.short, "figures": [row.document() for row in table(asked)]}
    asked.output.parent.mkdir(parents=True, exist_ok=True)
    asked.output.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    print(f"written to {asked.output}", flush=True)


if __name__ == "__main__":
    main()
