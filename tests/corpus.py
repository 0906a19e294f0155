"""``make corpus FOLDER=…``: run the commands of CI on clones of public repositories, and list the verdicts.

Each folder below the one that is named is a clone; clones stay outside of this tree. The commands are those of
docs/in-ci.md: ``lint``, the pre-commit hook, ``validate``, ``test`` and ``plan``.

The exit code is 0 if every run of ``lint`` and of the hook reports its findings and no run ends in a traceback, else 1.
"""

import argparse
import json
import os
import resource
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

SUFFIXES: Final = (".yaml", ".yml", ".json")
LIMIT_SECONDS: Final = 900
_HEADERS: Final = ("REPOSITORY", "COMMAND", "VERDICT", "EXIT", "OBJECTS", "ERRORS", "WARNINGS", "NOTES", "SECONDS")
_REPORTING: Final = ("lint", "hook")


class CorpusRun(NamedTuple):
    """The verdict on one command in one repository.

    Args:
        repository: Its folder.
        command: ``lint``, ``hook``, ``validate``, ``test`` or ``plan``.
        verdict: ``reported``, ``no report``, ``traceback`` or ``timed out``.
        code: The exit code.
        figures: Objects, errors and warnings, where the report counts them.
        notes: Lines on standard error that say what was skipped.
        seconds: CPU time.
        error: The first error on standard error.
    """

    repository: str
    command: str
    verdict: str
    code: int
    figures: tuple[str, str, str]
    notes: int
    seconds: float
    error: str

    def row(self) -> tuple[str, ...]:
        """Return the cells of the table."""
        return (
            self.repository,
            self.command,
            self.verdict,
            str(self.code),
            *self.figures,
            str(self.notes),
            f"{self.seconds:.1f}",
        )


def files_of_hook(repository: Path) -> Iterator[str]:
    """Yield the files that pre-commit passes for ``types_or: [yaml, json]``."""
    for folder, folders, names in os.walk(repository):
        folders[:] = sorted(name for name in folders if name != ".git")
        for name in sorted(names):
            place = Path(folder, name)
            if name.endswith(SUFFIXES) and place.is_file() and not place.is_symlink():
                yield str(place.relative_to(repository))


def commands(repository: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the name and the arguments of each command."""
    yield "lint", ["lint", ".", "-o", "json"]
    if files := list(files_of_hook(repository)):
        yield "hook", ["lint", "-o", "json", "--", *files]
    yield "validate", ["validate", "-f", ".", "-o", "json"]
    yield "test", ["test", "--if-present", "."]
    yield "plan", ["plan", "-f", ".", "-o", "json"]


def try_command(program: Sequence[str], repository: Path, name: str, arguments: Sequence[str]) -> CorpusRun:
    """Run one command in a repository."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        done = subprocess.run(
            [*program, *arguments],
            cwd=repository,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=LIMIT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return CorpusRun(repository.name, name, "timed out", -1, ("", "", ""), 0, LIMIT_SECONDS, "")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    lines = done.stderr.decode(errors="replace").splitlines()
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    notes = sum(line.startswith("note: ") for line in lines)
    error = next((line for line in lines if line.startswith("error: ")), "")
    verdict, figures = _report(done.stdout)
    if any(line.startswith("Traceback ") for line in lines) or done.returncode not in (0, 1, 2):
        verdict = "traceback"
    return CorpusRun(repository.name, name, verdict, done.returncode, figures, notes, seconds, error)


def _report(output: bytes) -> tuple[str, tuple[str, str, str]]:
    """Return whether a command has reported, and the figures of its report."""
    try:
        document = json.loads(output)
    except ValueError:
        return ("reported" if output.strip() else "no report"), ("", "", "")
    if "objects" in document and "errors" in document:
        return "reported", (str(document["objects"]), str(document["errors"]), str(document["warnings"]))
    items = document.get("items")
    if items is None:
        return "reported", ("", "", "")
    errors, warnings = (sum(len(item[key]) for item in items) for key in ("errors", "warnings"))
    return "reported", (str(len(items)), str(errors), str(warnings))


def print_table(runs: Iterable[CorpusRun]) -> None:
    """Print the verdicts."""
    rows = [_HEADERS, *(run.row() for run in runs)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def main(arguments: Sequence[str]) -> int:
    """Run every command in every repository, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.corpus", description="Run the commands of CI on clones.")
    parser.add_argument("folder", type=Path, help="folder of the clones")
    parser.add_argument(
        "--program", default=str(Path(sys.executable).with_name("harbormaster")), help="the program to try"
    )
    parser.add_argument("--command", action="append", help="only this command; may be given several times")
    parser.add_argument("--errors", action="store_true", help="print the first error of each run below the table")
    given = parser.parse_args(arguments)
    program = shlex.split(given.program)
    repositories = sorted(path for path in given.folder.resolve().iterdir() if path.is_dir())
    runs = [
        try_command(program, repository, name, words)
        for repository in repositories
        for name, words in commands(repository)
        if not given.command or name in given.command
    ]
    print_table(runs)
    reported = sum(run.verdict == "reported" for run in runs)
    print(f"{len(repositories)} repositories, {len(runs)} runs: {reported} reported")
    if given.errors:
        for run in runs:
            if run.error:
                print(f"{run.repository} {run.command}: {run.error}")
    failed = [
        run
        for run in runs
        if run.verdict in ("traceback", "timed out") or (run.verdict != "reported" and run.command in _REPORTING)
    ]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
