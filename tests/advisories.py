"""``make audit``: compare what the lock files name with published advisories.

pip-audit, the library of the Python Packaging Authority, asks the databases; it stands in an environment of its own,
with a lock of its own, so that nothing of it is installed beside harbormaster. What it calls "no known vulnerabilities"
is not believed: it says so, too, of a database that knows none of the packages, as mirrors of a registry do.

The exit code is 0 if no advisory is known for any package, 1 if there is one, and 2 if that could not be found out.
This needs the network, and what it says changes without a change here: so no other target depends on it.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
DATABASES: Final = ("osv", "pypi")
"""By the names that pip-audit has for them, in the order in which they are tried."""
URL: Final = "OSV_URL"
"""The variable that names another server of the OSV API."""
FOUND, NOT_CHECKED = 1, 2
_LONGEST: Final = 160
"""Characters of what a program has said that are repeated."""


class UnreachableError(Exception):
    """A database does not answer; the message says why."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a database knows of some packages.

    Args:
        known: Packages that it knows, each as ``name version``.
        advisories: Lines about packages with advisories.
        unknown: Lines about packages that it does not know.
    """

    known: tuple[str, ...]
    advisories: tuple[str, ...]
    unknown: tuple[str, ...]


Ask = Callable[[str, Path], Report]
"""Asks a database about a lock file. Raises `UnreachableError`."""


def read_report(text: str) -> Report:
    """Read what pip-audit has printed. Raises `UnreachableError` when that is no report."""
    try:
        packages = json.loads(text)["dependencies"]
    except (ValueError, KeyError, TypeError) as error:
        raise UnreachableError("pip-audit has printed no report") from error
    known = [each for each in packages if "skip_reason" not in each]
    return Report(
        tuple(f"{each['name']} {each['version']}" for each in known),
        tuple(line for each in known for line in _advisories(each)),
        tuple(f"{each['name']}: {each['skip_reason']}" for each in packages if "skip_reason" in each),
    )


def _advisories(package: dict[str, Any]) -> Iterator[str]:
    for each in package["vulns"]:
        names = ", ".join([each["id"], *each.get("aliases", ())])
        mended = ", ".join(each.get("fix_versions", ())) or "no version"
        yield f"{package['name']} {package['version']}: {names}; mended in {mended}"


def ask_pip_audit(program: Path, database: str, lock: Path) -> Report:
    """Ask a database by pip-audit, the program; see `Ask`."""
    command: list[str | Path] = [program, "--requirement", lock, "--disable-pip", "--require-hashes"]
    command += ["--vulnerability-service", database, "--format=json", "--progress-spinner=off", "--timeout=10"]
    if database == "osv" and URL in os.environ:
        command.append(f"--osv-url={os.environ[URL]}")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout.strip():  # also when it has found something, its report is complete
        said = next(reversed(done.stderr.strip().splitlines()), f"exit code {done.returncode}")
        raise UnreachableError(said if len(said) <= _LONGEST else f"{said[:_LONGEST]}…")
    return read_report(done.stdout)


def first_of(lock: Path) -> str:
    """Return the first requirement of a lock file, with its hashes: to find out whether a database answers."""
    lines = lock.read_text(encoding="utf-8").splitlines(keepends=True)
    end = next(number for number, line in enumerate(lines) if not line.rstrip().endswith("\\"))
    return "".join(lines[: end + 1])


def audit(locks: Iterable[Path], ask: Ask, say: Callable[[str], None]) -> int:
    """Compare lock files with the first database that answers.

    Args:
        locks: The files.
        ask: Asks a database.
        say: Takes a line for people.

    Returns:
        The exit code.
    """
    locks = sorted(locks)
    for database in DATABASES:
        try:
            _probe(database, locks[0], ask)
            reports = {lock: ask(database, lock) for lock in locks}
        except UnreachableError as error:
            say(f"{database}: cannot be asked: {error}")
            continue
        return _judge(database, reports, say)
    say("NOT CHECKED: no database of advisories can be reached from here, so nothing is known about any package")
    return NOT_CHECKED


def _probe(database: str, lock: Path, ask: Ask) -> None:
    with tempfile.TemporaryDirectory() as folder:
        one = Path(folder, lock.name)
        one.write_text(first_of(lock), encoding="utf-8")
        report = ask(database, one)
    if not report.known:
        raise UnreachableError(f"it does not know {'; '.join(report.unknown)}")


def _judge(database: str, reports: dict[Path, Report], say: Callable[[str], None]) -> int:
    advisories = sorted({line for report in reports.values() for line in report.advisories})
    unknown = sorted({line for report in reports.values() for line in report.unknown})
    for lock, report in reports.items():
        say(f"{lock.name}: {len(report.known)} packages compared with {database}")
    for line in (*advisories, *(f"NOT CHECKED: {line}" for line in unknown)):
        say(line)
    if advisories:
        return FOUND
    if unknown:
        return NOT_CHECKED
    say("no advisory is known for any of them")
    return 0


def main() -> int:
    """Compare the lock files of this repository; the one argument is pip-audit."""
    ask = partial(ask_pip_audit, Path(sys.argv[1]))
    return audit(ROOT.glob("requirements*.txt"), ask, lambda line: print(line, flush=True))  # noqa: T201 - for people


if __name__ == "__main__":
    sys.exit(main())
