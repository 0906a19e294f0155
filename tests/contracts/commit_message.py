"""Check of a commit message: ``area: imperative summary`` in 72 characters, a blank line, the reason wrapped at 72.

``python3 tests/contracts/commit_message.py FILE`` is the commit-msg hook of ``.pre-commit-config.yaml``. It needs only
the standard library, so that it works before ``make setup``.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

WIDTH: Final = 72
MOST_BYTES: Final = 1 << 20
"""Git puts the whole diff below a commit message with ``git commit --verbose``."""
_SCISSORS: Final = "# ------------------------ >8 ------------------------"
_FOLDED: Final = ("fixup! ", "squash! ", "amend! ")
"""Prefixes of commits that ``git rebase --autosquash`` folds into others."""
_SUBJECT: Final = re.compile(r"[a-z0-9][a-z0-9_./, -]*: \S.*")


def problems(message: str) -> Iterator[str]:
    """Yield each rule that a commit message breaks.

    Args:
        message: As git hands it to a commit-msg hook, with its comments.
    """
    lines = [line.rstrip() for line in message.split(_SCISSORS)[0].splitlines() if not line.startswith("#")]
    while lines and not lines[0]:
        del lines[0]
    if not lines:
        yield "the message is empty: write `area: imperative summary`"
        return
    subject, *body = lines
    if subject.startswith(_FOLDED):
        return
    if subject.startswith("Merge "):
        yield f"{subject!r} is a merge: rebase instead"
        return
    if not _SUBJECT.fullmatch(subject):
        yield f"{subject!r} must be `area: imperative summary`, such as `scheduler: keep bindings of silent members`"
    if len(subject) > WIDTH:
        yield f"{subject!r} has {len(subject)} characters: {WIDTH} at most"
    if subject.endswith("."):
        yield f"{subject!r} must not end with a full stop"
    if body and body[0]:
        yield f"{body[0]!r} must be a blank line, which separates the subject from the reason"
    for line in body:
        if len(line) > WIDTH and not line.startswith("    ") and " " in line.strip():
            yield f"{line!r} has {len(line)} characters: wrap the reason at {WIDTH}"


def main(path: str) -> int:
    """Print the problems of the message in a file to stderr; return the exit code."""
    with Path(path).open("rb") as file:
        message = file.read(MOST_BYTES).decode(errors="replace")
    found = list(problems(message))
    sys.stderr.write("".join(f"commit message: {problem}\n" for problem in found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
