"""Calls of our own program, and of make, as documents show them."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import click

from tests.docs.pages import read_page
from tests.docs.reference.commands import in_context
from webhook.cli.root import root

PROGRAM: Final = "harbormaster"
STARTS: Final = frozenset({"", "$", "|", "&&", ";", "(", "kubectl", "sudo"})
"""What may stand before the program's name where it is called; elsewhere it is a word among others."""
JOINED: Final = re.compile(r"\\\n\s*")
"""Between the lines of one command."""
ENDS: Final = frozenset({"|", "&&", ";", ">", "<", ")", "||"})

_VARIABLE: Final = re.compile(r"[A-Z_]+=.*")
_COMMAND: Final = re.compile(r"[a-z][-a-z]*")
_OMITTED: Final = re.compile(r"…|^\[|^\.\.\.$|^COMMAND$")
"""What stands for more than is written, or for what may be left out."""
_EXPLAINED: Final = re.compile(r" {3,}")
"""Between a call and what is said of it on the same line."""


def calls_in(path: Path) -> Iterator[tuple[str, ...]]:
    """Yield the words after the program's name of every call in the document at *path*."""
    page = read_page(path)
    for text in (*page.blocks, *page.spans):
        for line in JOINED.sub(" ", text).splitlines():
            yield from calls_in_line(line)


def calls_to_type(path: Path) -> Iterator[tuple[str, ...]]:
    """Yield those calls that stand in blocks, and so are whole: within a sentence a command may be only named."""
    for text in read_page(path).blocks:
        for line in JOINED.sub(" ", text).splitlines():
            shown = _EXPLAINED.split(line.strip())[0]
            yield from (call for call in calls_in_line(shown) if not any(_OMITTED.search(word) for word in call))


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
    context = in_context(root, None, PROGRAM)
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
            command, context = found, in_context(found, context, word)
            known = known | _options(found)
    return ""


def misuse_in(call: Sequence[str]) -> str:
    """Return why the program would refuse the words of a call before it does anything, empty when it would not.

    Args:
        call: The words after its name, of a call without a mistake. A value in capitals stands for any.
    """
    command: click.Command = root
    context = in_context(root, None, PROGRAM)
    rest = list(call)
    while True:
        try:
            values, rest, order = command.make_parser(context).parse_args(rest)
        except click.UsageError as error:
            return error.format_message()
        if any(parameter.is_eager for parameter in order):  # --help, --version
            return ""
        if wrong := next((text for each in command.params if (text := _misuse_of(each, values, context))), ""):
            return wrong
        if not isinstance(command, click.Group):
            return f"unexpected argument {rest[0]}" if rest else ""
        found = command.get_command(context, rest[0]) if rest else None
        if found is None:
            return "" if command.invoke_without_command or rest else f"{context.command_path} needs a command"
        command, context, rest = found, in_context(found, context, rest[0]), rest[1:]


def _misuse_of(parameter: click.Parameter, values: Mapping[str, object], context: click.Context) -> str:
    value = values.get(parameter.name or "")
    if not isinstance(value, str):
        missing = value in (None, (), []) or not isinstance(value, (list, tuple, int))
        if parameter.required and missing:
            return f"missing {parameter.human_readable_name}"
        return ""
    if value.isupper() or isinstance(parameter.type, (click.Path, click.File)):
        return ""
    try:
        parameter.type.convert(value, parameter, context)
    except click.BadParameter as error:
        return error.format_message()
    return ""


def _options(command: click.Command) -> frozenset[str]:
    names = (name for each in command.params for name in (*each.opts, *each.secondary_opts))
    return frozenset({*names, "-h", "--help"})


def make_targets_in(path: Path) -> set[str]:
    """Return the targets of make that the document at *path* names."""
    page = read_page(path)
    found = (
        re.match(r"\s*make ([a-z0-9]+)", line) for text in (*page.blocks, *page.spans) for line in text.splitlines()
    )
    return {match[1] for match in found if match}
