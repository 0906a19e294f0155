"""``python -m tests.mutation``: how many mutants of a random sample the unit tests kill, and which survive.

The sample depends on the source alone, so two runs on the same source compare two states of the tests. ``--size`` draws
fewer mutants. A run that exceeds its limits counts as killed, and is listed apart. Every test that kills is run on the
unchanged project, too: a kill by a test that fails there as well is listed as unclear. Linux only.
"""

import argparse
import json
import random
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Final

from tests.mutation.choice import Choice, read_choice
from tests.mutation.mutants import Mutant, sample
from tests.mutation.runs import Copy, Fate, Verdict, copied, import_libraries
from tests.mutation.watch import function_of

ROOT: Final = Path(__file__).parents[2]
SEED: Final = 28
SIZE: Final = 150
"""Mutants of each part."""
PARTS: Final = {"engine": ("scorer",), "service": ("webhook", "certs")}
FOLDERS: Final = ("scorer", "webhook", "certs", "tests")
WAVES: Final = (4, 12)
"""Test files of the first run on a mutant, and of the second, which only survivors of the first need."""


def main(argv: Sequence[str]) -> None:
    """Measure each part, and print the result."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], help="parts to measure, all by default")
    parser.add_argument("--size", type=int, default=SIZE, help=f"mutants of each part, {SIZE} by default")
    parser.add_argument("--root", type=Path, default=ROOT, help="project to measure, this one by default")
    parser.add_argument("--json", type=Path, help="file for every verdict, as JSON lines")
    asked = parser.parse_args(argv)
    for interruption in (signal.SIGINT, signal.SIGTERM):  # a shell lets what it starts with `&` ignore the former
        signal.signal(interruption, _interrupt)
    import_libraries()
    with copied(asked.root.resolve()) as copy:
        choice = read_choice(copy.root, FOLDERS)
        for part in asked.parts or PARTS:
            measure(part, copy, choice, asked.size, asked.json)


def measure(part: str, copy: Copy, choice: Choice, size: int, file: Path | None) -> None:
    """Measure one part: print a line for each survivor, then the totals."""
    mutants = sample(copy.root, PARTS[part], size, random.Random(SEED))  # draws a sample
    copy.warm_up(sorted({test for mutant in mutants for test in choice.tests_for(mutant.path, sum(WAVES))}))
    verdicts: list[Verdict] = []
    for number, mutant in enumerate(mutants, 1):
        verdicts.append(judge(mutant, copy, choice))
        print(f"{part} {number}/{len(mutants)} {verdicts[-1].fate} {mutant.path}:{mutant.line}", file=sys.stderr)  # noqa: T201
        if verdicts[-1].fate is Fate.UNCLEAR:
            print(copy.end_of_log(), file=sys.stderr)  # noqa: T201
        if file is not None:
            record(file, part, mutant, verdicts[-1])
    unclear = copy.failing(function_of(one.test) for one in verdicts if one.test)
    fates: Counter[Fate] = Counter()
    for mutant, verdict in zip(mutants, verdicts, strict=True):
        fate = Fate.UNCLEAR if function_of(verdict.test) in unclear else verdict.fate
        fates[fate] += 1
        if fate != Fate.KILLED:
            print(f"{fate}: {mutant.path}:{mutant.line}: {mutant.before}\n    became: {mutant.after}")  # noqa: T201
    killed = fates[Fate.KILLED] + fates[Fate.TIMED_OUT]
    seconds = sum(verdict.cpu_seconds for verdict in verdicts)
    print(  # noqa: T201
        f"{part}: killed {killed} of {len(mutants)} ({killed / max(len(mutants), 1):.0%}), {fates[Fate.TIMED_OUT]} of "
        f"them by a limit; survived {fates[Fate.SURVIVED]}, unclear {fates[Fate.UNCLEAR]}; {seconds:.0f} s of CPU",
        flush=True,
    )


def judge(mutant: Mutant, copy: Copy, choice: Choice) -> Verdict:
    """Run the tests of the mutant in waves until one kills it."""
    tests = choice.tests_for(mutant.path, sum(WAVES))
    verdict = Verdict(Fate.SURVIVED, "", 0.0)
    for wave in (tests[: WAVES[0]], tests[WAVES[0] :]):
        if wave and verdict.fate is Fate.SURVIVED:
            last = copy.run_mutant(mutant, wave)
            verdict = Verdict(last.fate, last.test, verdict.cpu_seconds + last.cpu_seconds)
    return verdict


def record(file: Path, part: str, mutant: Mutant, verdict: Verdict) -> None:
    """Append a verdict to the file."""
    line = {
        "part": part,
        "path": mutant.path,
        "line": mutant.line,
        "before": mutant.before,
        "after": mutant.after,
        "fate": verdict.fate,
        "test": verdict.test,
        "cpu": round(verdict.cpu_seconds, 2),
    }
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(line) + "\n")


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    main(sys.argv[1:])
