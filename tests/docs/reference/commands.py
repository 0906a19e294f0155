"""Every command with its help, and every exit code, as the program says them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from inspect import cleandoc

import click

from tests.docs.reference.markdown import code, lines, table, titled
from webhook.cli.process import INTERRUPTED
from webhook.cli.root import BROKEN_PIPE, SECTIONS, root

WIDTH = 110
PROGRAM = "harbormaster"

_CODES = re.compile(r"^Exit codes:\n((?:  .*(?:\n|$))+)", re.MULTILINE)
_CODE = re.compile(r"^  (\d+)  (.*(?:\n     .*)*)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the program.

    Args:
        path: How it is called, with the program in front.
        command: What click knows of it.
        context: In which it is called.
    """

    path: str
    command: click.Command
    context: click.Context

    @property
    def help(self) -> str:
        """What ``--help`` shows."""
        return self.command.get_help(self.context)

    @property
    def summary(self) -> str:
        """What it does, in a sentence."""
        return self.command.get_short_help_str(WIDTH)

    @property
    def exit_codes(self) -> list[tuple[int, str]]:
        """Its exit codes and what each means."""
        text = cleandoc(self.command.help or "").replace("\b\n", "")
        found = _CODES.search(text)
        return [(int(number), " ".join(words.split())) for number, words in _CODE.findall(found[1])] if found else []


def all_commands() -> Iterator[Command]:
    """Yield every command, groups before what is in them, in the order of the program's help."""
    context = in_context(root, None, PROGRAM)
    for entries in SECTIONS.values():
        for entry in entries:
            command = root.get_command(context, entry.name)
            assert command is not None
            yield from _with_its_own(command, context, entry.name)


def _with_its_own(command: click.Command, parent: click.Context, name: str) -> Iterator[Command]:
    context = in_context(command, parent, name)
    yield Command(context.command_path, command, context)
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            below = command.get_command(context, each)
            assert below is not None
            yield from _with_its_own(below, context, each)


def in_context(command: click.Command, parent: click.Context | None, name: str) -> click.Context:
    """Make the context that a command is called in.

    A command keeps the names of ``--help`` that the first context to ask it has, so every context needs the right ones.
    """
    names = root.context_settings["help_option_names"]
    return click.Context(command, parent, name, terminal_width=WIDTH, max_content_width=WIDTH, help_option_names=names)


def page() -> str:
    """Return the page of all commands."""
    introduction = """
The `--help` text of each command. `-f` takes a file, a folder or `-` for standard input, and may be given several
times. Files are YAML with one or more documents, or JSON. Tables are for terminals. Programs should use `-o json` or
`-o yaml`. [Query a hub](../asking-from-elsewhere.md#which-hub-is-asked) explains how a command selects its
hub. [Exit codes](exit-codes.md) lists the exit codes of all commands.
"""
    found = list(all_commands())
    index = "\n".join(f"- [{each.path}](#{each.path.replace(' ', '-')}): {each.summary}" for each in found)
    sections = (f"## {each.path}\n\n```text\n{each.help.rstrip()}\n```\n" for each in found)
    return lines(titled("Commands", introduction), index, "", *sections)


def exit_codes_page() -> str:
    """Return the page of all exit codes."""
    introduction = f"""
The exit codes of every command:

- **0**: success.
- **1**: an error, usage errors included, which is reported on standard error. `validate`, `lint`, `doctor` and
  `certs inspect` also exit with 1 if they find problems.
- **2**: a result, not an error: changes (`plan`, `simulate`, `render -o diff`, `render -o markdown`), not allowed now
  (`gate`), a failed case (`test`), something that needs attention (`status`), or action required (`drain`,
  `run --wait`, `undo --wait`, `upgrade --wait`).
- **3**: `drain`, `run --wait`, `undo --wait` or `upgrade --wait` timed out.
- **{INTERRUPTED}**: interrupted by Ctrl-C. Programs that run until a signal, such as `up` and `serve`, and the
  commands `tree -w`, `run status` and `upgrade status` exit with 0 instead.
- **{BROKEN_PIPE}**: the output pipe was closed, as in `harbormaster get crp | head -1`.

`diff` has the codes of kubectl instead: **1** means changes, and **2** an error.
"""
    rows = [
        (code(each.path.removeprefix(f"{PROGRAM} ")) if first else "", str(number), words)
        for each in all_commands()
        if not isinstance(each.command, click.Group)
        for first, (number, words) in _with_first(each.exit_codes)
    ]
    return lines(titled("Exit codes", introduction), *table(["command", "code", "meaning"], rows))


def _with_first(codes: list[tuple[int, str]]) -> Iterator[tuple[bool, tuple[int, str]]]:
    for position, each in enumerate(codes):
        yield not position, each
