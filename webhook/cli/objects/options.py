"""Options of commands on objects: ``-f``, ``-R``, ``-k`` and ``--dry-run``."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

import click

from webhook.cli.errors import UserError
from webhook.cli.files.documents import read, read_text
from webhook.cli.files.parsing import SourceDocument
from webhook.cli.files.rendering import KUSTOMIZE, Renderer, RenderingError
from webhook.cli.files.search import Files
from webhook.cli.options.base import grouped, ignore_option

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class ObjectFiles:
    """Files that the user names.

    Args:
        paths: Files, folders, or ``-`` for standard input.
        ignored: Patterns of files and folders to skip.
        recursive: Accepted for kubectl users. Folders are always read recursively.
        kustomization: A folder with a kustomization. None: unset.
    """

    paths: Sequence[str] = ()
    ignored: Sequence[str] = ()
    recursive: bool = False
    kustomization: str | None = None

    def __bool__(self) -> bool:
        """Whether any file is named."""
        return bool(self.paths) or self.kustomization is not None

    def read(self) -> list[SourceDocument]:
        """Return the objects in the files.

        Raises:
            click.UsageError: The options do not fit together.
            UserError: A file cannot be read.
        """
        if self.kustomization is None:
            return read(Files(self.paths, self.ignored))
        if self.paths:
            raise click.UsageError("-f and -k cannot be used together")
        folder = self.kustomization
        return read_text(f"kustomization {folder}", _built(folder))


def file_options(command: _Command) -> _Command:
    """Add ``-f``, ``-R`` and ``-k`` to a command, as an `ObjectFiles` named ``files``."""
    return grouped(
        "files",
        ObjectFiles,
        click.option(
            "-f",
            "--filename",
            "paths",
            multiple=True,
            metavar="FILE",
            help="File, folder or - for standard input: YAML or JSON. Repeatable.",
        ),
        ignore_option,
        click.option(
            "-R",
            "--recursive",
            is_flag=True,
            help="Accepted for compatibility with kubectl: folders are always searched recursively.",
        ),
        click.option(
            "-k",
            "--kustomize",
            "kustomization",
            metavar="DIR",
            help="Kustomization directory to build, with kustomize or kubectl.",
        ),
    )(command)


def _built(folder: str) -> str:
    """Return the output of kustomize for a folder. Raises `UserError`."""
    if "://" in folder:
        raise UserError(f"-k {folder}: URLs are not supported: download the folder, and give its path")
    if not Path(folder).is_dir():
        raise UserError(f"-k {folder}: no such folder")
    renderer = Renderer.find(KUSTOMIZE)
    if renderer is None:
        raise UserError(f"-k {folder}: building it requires kustomize or kubectl on the PATH")
    try:
        return renderer.render(folder)
    except RenderingError as error:
        raise UserError(f"-k {folder}: {error}") from error


class DryRun(StrEnum):
    """Kind of dry run."""

    NONE = "none"
    CLIENT = "client"
    SERVER = "server"

    @property
    def note(self) -> str:
        """Suffix of a reported change."""
        return {DryRun.NONE: "", DryRun.CLIENT: " (dry run)", DryRun.SERVER: " (server dry run)"}[self]

    def __bool__(self) -> bool:
        """Whether nothing is written."""
        return self is not DryRun.NONE


class DryRunCommand(click.Command):
    """A command that accepts ``--dry-run`` without a value, as kubectl does.

    A value must be joined by ``=``, as in ``--dry-run=client``.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments."""
        end = args.index("--") if "--" in args else len(args)
        words = [f"--dry-run={DryRun.SERVER}" if word == "--dry-run" else word for word in args[:end]]
        return super().parse_args(ctx, words + args[end:])


def dry_run_option(does: str) -> Callable[[_Command], _Command]:
    """Return the option. *does* describes the effect of a dry run on the hub, such as ``store nothing``."""
    return click.option(
        "--dry-run",
        type=click.Choice([dry_run.value for dry_run in DryRun]),
        default=DryRun.NONE.value,
        callback=lambda _context, _parameter, value: DryRun(value),
        metavar="[=client|server]",
        help=f"server, or no value: validate on the hub and {does}. client: only read from the hub.",
    )
