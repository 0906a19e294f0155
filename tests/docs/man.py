"""The manual pages of the commands, from the same help that they print: ``docs/man``, which the wheel installs."""

import re
from collections.abc import Iterator
from inspect import cleandoc
from typing import Final

import click

from tests.docs.pages import DOCS
from tests.docs.reference.commands import Command, all_commands, in_context
from webhook.cli.root import SECTIONS, root

FOLDER: Final = DOCS / "man"
_PROGRAM: Final = "harbormaster"
_TITLES: Final = {"EXIT CODES": "EXIT STATUS"}
_TITLED: Final = re.compile(r"\A([A-Z][A-Za-z ]*):\n(?=  )")


def manual_pages() -> Iterator[tuple[str, str]]:
    """Yield the file name of each page and its text."""
    commands = list(all_commands())
    yield f"{_PROGRAM}.1", _program_page()
    for each in commands:
        yield f"{_name(each)}.1", _page(each)


def _program_page() -> str:
    listed = [(f"{_PROGRAM}-{entry.name}(1)", entry.help) for entries in SECTIONS.values() for entry in entries]
    summary = (root.help or "").partition("\n")[0]
    context = in_context(root, None, _PROGRAM)
    lines = [*_head(_PROGRAM, summary), *_synopsis(f"{_PROGRAM} [OPTIONS] COMMAND [ARGS]...")]
    return _text([*lines, *_description(root), *_options(root, context), ".SH COMMANDS", *_terms(listed)])


def _page(command: Command) -> str:
    usage = command.command.get_usage(command.context).removeprefix("Usage: ")
    lines = [*_head(_name(command), command.summary), *_synopsis(" ".join(usage.split()))]
    lines += [*_description(command.command), *_options(command.command, command.context)]
    if isinstance(command.command, click.Group):
        below = [(name, command.command.commands[name].get_short_help_str(200)) for name in command.command.commands]
        lines += [".SH COMMANDS", *_terms((f"{_name(command)}-{name}(1)", text) for name, text in sorted(below))]
    parent = command.path.rpartition(" ")[0].replace(" ", "-")
    return _text([*lines, ".SH SEE ALSO", f".BR {_escaped(parent)} (1)"])


def _name(command: Command) -> str:
    return command.path.replace(" ", "-")


def _head(name: str, summary: str) -> Iterator[str]:
    yield '.\\" Made from the code by `make docs`.'
    yield f'.TH {_escaped(name.upper())} 1 "" harbormaster "Commands of harbormaster"'
    yield ".SH NAME"
    yield f"{_escaped(name)} \\- {_escaped(summary.removesuffix('.'))}"


def _synopsis(usage: str) -> Iterator[str]:
    yield ".SH SYNOPSIS"
    yield _escaped(usage)


def _description(command: click.Command) -> list[str]:
    """Return the help: blocks of their own as they are, those with a title as sections after the rest."""
    description, sections = [".SH DESCRIPTION"], []
    for paragraph in cleandoc(command.help or "").split("\n\n"):
        block = paragraph.removeprefix("\b\n")
        if block == paragraph:
            description += [".PP", _escaped(" ".join(paragraph.split()))]
        elif title := _TITLED.match(block):
            name = title[1].upper()
            sections += [f".SH {_TITLES.get(name, name)}", *_as_it_is(block[title.end() :])]
        else:
            description += [".PP", *_as_it_is(block)]
    return description + sections


def _as_it_is(block: str) -> list[str]:
    return [".nf", *map(_escaped, cleandoc(block).split("\n")), ".fi"]


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    records = [record for each in command.get_params(context) if (record := each.get_help_record(context))]
    if records:
        yield ".SH OPTIONS"
        yield from _terms(records)


def _terms(terms: "Iterator[tuple[str, str]] | list[tuple[str, str]]") -> Iterator[str]:
    for term, text in terms:
        yield ".TP"
        yield f"\\fB{_escaped(term)}\\fR"
        yield _escaped(" ".join(text.split()))


def _escaped(text: str) -> str:
    """Write *text* so that it is shown as it is, and can be copied."""
    safe = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{safe}" if safe.startswith((".", "'")) else safe


def _text(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"
