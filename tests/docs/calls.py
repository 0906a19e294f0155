"""Calls of our own program, and of make, as documents show them."""

import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import click

from tests.docs.pages import read_page
from webhook.cli.root import root

PROGRAM: Final = "harbormaster"
STARTS: Final = frozenset({"", "$", "|", "&&", ";", "(", "kubectl", "sudo"})
"""What may stand before the program's name where it is called; elsewhere it is a word among others."""
ENDS: Final = frozenset({"|", "&&", ";", ">", "<", ")", "||"})

_VARIABLE: Final = re.compile(r"[A-Z_]+=.*")
_COMMAND: Final = re.compile(r"[a-z][-a-z]*")
_JOINED: Final = re.compile(r"\\\n\s*")


def calls_in(path: Path) -> Iterator[tuple[str, ...]]:
    """Yield the words after the program's name of every call in the document at *path*."""
    page = read_page(path)
    for text in (*page.blocks, *page.spans):
        for line in _JOINED.sub(" ", text).splitlines():
            yield from calls_in_line(line)


def calls_in_line(line: str) -> Iterator[tuple[str, ...]]:
    """Yield the words after the program's name of every call in one line of a shell."""
    if PROGRAM not in line:
        return
    words = _words(line)
    for at, word in enumerate(words):
        if word == PROGRAM and _is_start(words[:at]):
            rest = words[at + 1 :]
            end = next((place for place, each in enumerate(rest) if each in ENDS), len(rest))
            if end:
                yield tuple(rest[:end])


def _words(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>()")
    lexer.whitespace_split = True
    try:
        return list(lexer)
    except ValueError:  # an apostrophe in what a program prints
        return line.split()


def _is_start(before: Sequence[str]) -> bool:
    left = [word for word in before if not _VARIABLE.fullmatch(word)]
    return (left[-1] if left else "") in STARTS


def mistake_in(call: Sequence[str]) -> str:
    """Return what of a call the program does not know, empty when it knows everything.

    Args:
        call: The words after its name; one whose first word stands for any command is fine.
    """
    command: click.Command = root
    context = click.Context(root, info_name=PROGRAM)
    known = _options(root)
    for word in call:
        if word.startswith("-") and word != "-":
            name = word.partition("=")[0]
            if name not in known:
                return f"{context.command_path} has no option {name}"
        elif isinstance(command, click.Group):
            found = command.get_command(context, word)
            if found is None:
                return "" if not _COMMAND.fullmatch(word) else f"{context.command_path} has no command {word}"
            command, context = found, click.Context(found, context, word)
            known = known | _options(found)
    return ""


def _options(command: click.Command) -> frozenset[str]:
    names = (name for each in command.params for name in (*each.opts, *each.secondary_opts))
    return frozenset({*names, "-h", "--help"})


def make_targets_in(path: Path) -> set[str]:
    """Return the targets of make that the document at *path* names."""
    page = read_page(path)
    found = (re.match(r"\s*make ([a-z]+)", line) for text in (*page.blocks, *page.spans) for line in text.splitlines())
    return {match[1] for match in found if match}
