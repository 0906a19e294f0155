"""Options that several commands share, grouping of options into one value, and running a command's coroutine."""

import functools
import sys
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import fields
from importlib import import_module
from typing import Any, Final, TypeVar

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from scorer.api.family import FAMILIES
from scorer.api.kinds import UPGRADE_GATE, UPGRADE_RUN
from webhook.cli.errors import UserError, complain
from webhook.cli.files.search import Files, UnknownKinds
from webhook.cli.process import ending_in_order

_Result = TypeVar("_Result")
_Command = TypeVar("_Command", bound=Callable[..., Any])


def tab(source: str) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Return the completion of an argument: ``complete_<source>`` of `argument_completion`, imported on Tab."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        completions = import_module("webhook.cli.options.argument_completion")
        items: list[CompletionItem] = getattr(completions, f"complete_{source}")(ctx, param, incomplete)
        return items

    return complete


namespace_option = click.option(
    "-n",
    "--namespace",
    default=None,
    metavar="NS",
    shell_complete=tab("namespaces"),
    help="Namespace of objects that name none.  [default: default]",
)
hub_namespace_option = click.option(
    "-n",
    "--namespace",
    default=None,
    metavar="NS",
    shell_complete=tab("namespaces"),
    help='Namespace.  [default: that of the kubeconfig\'s context, or "default"]',
)
placement_namespace_option = click.option(
    "-n",
    "--namespace",
    default=None,
    metavar="NS",
    shell_complete=tab("namespaces"),
    help="Namespace of a ResourcePlacement.  [default: none (NAME is a ClusterResourcePlacement)]",
)


def is_agreed(question: str, *, yes: bool) -> bool:
    """Ask the user, unless *yes*. Return whether the answer is yes.

    Raises:
        UserError: Standard input is not a terminal.
    """
    if yes:
        return True
    if not sys.stdin.isatty():
        raise UserError("not confirmed: standard input is not a terminal, use --yes")
    if click.confirm(question):
        return True
    complain("not confirmed")
    return False


FORMATS: Final = ("table", "json", "yaml")


def grouped(name: str, group: type[Any], *options: Callable[[Any], Any]) -> Callable[[_Command], _Command]:
    """Return a decorator that adds options to a command, in this order, and passes their values as one object.

    Args:
        name: The name of the command's parameter.
        group: A dataclass. Every field has the name of an option's parameter, or a default.
        options: Results of `click.option` and `click.argument`. Options without a field are passed on unchanged.
    """
    names = [field.name for field in fields(group)]

    def give(command: _Command) -> _Command:
        @functools.wraps(command)
        def collected(*arguments: Any, **parameters: Any) -> Any:
            value = group(**{name: parameters.pop(name) for name in names if name in parameters})
            return command(*arguments, **parameters, **{name: value})

        function: Any = collected
        for option in reversed(options):
            function = option(function)
        return function  # type: ignore[no-any-return]  # click's decorators return Any

    return give


base_option = click.option(
    "--on",
    "bases",
    multiple=True,
    metavar="FILE",
    help="Files that describe the hub. -f then names the proposed changes. Repeatable.",
)
delete_option = click.option(
    "--delete",
    "deleted",
    multiple=True,
    metavar="KIND/NAME",
    help="Assume that this object is deleted, such as crp/payments, or rp/NAMESPACE/NAME. Repeatable.",
)
DELETION_WITHOUT_HUB: Final = "--delete requires a hub to delete from: --on FILE or --hub"
ignore_option = click.option(
    "--ignore",
    "ignored",
    multiple=True,
    metavar="GLOB",
    help="Files and folders to skip: a name, or a path with * and **. Repeatable.",
)
_filename_option = click.option(
    "-f",
    "--filename",
    "paths",
    multiple=True,
    metavar="FILE",
    help="File, folder (recursively) or - for standard input: YAML or JSON. Repeatable.",
)
_within_option = click.option("--within", default="", metavar="DIR", hidden=True)
file_option = grouped("files", Files, _filename_option, ignore_option, _within_option)
"""The files to read, as argument ``files``."""
repository_option = grouped(
    "files",
    Files,
    _filename_option,
    ignore_option,
    click.option(
        "--unknown-kinds",
        type=click.Choice([choice.value for choice in UnknownKinds]),
        callback=lambda _context, _parameter, value: None if value is None else UnknownKinds(value),
        metavar="skip|fail",
        help="Skip objects of unknown kinds with a note, or fail.  "
        "[default: skip, but fail if a file given with -f has only objects of unknown kinds]",
    ),
    click.option(
        "--render/--no-render",
        default=True,
        help="Render kustomizations and charts that contain harbormaster objects, with kustomize or kubectl, and helm, "
        "if installed.  [default: --render]",
    ),
    _within_option,
)
"""The files to read, which may contain objects of other tools. See `webhook.cli.files.repositories`."""


selecting_options = (
    click.option(
        "-l",
        "--selector",
        default="",
        metavar="LABELS",
        # To a hub, a blank selector selects everything. Treat it as unset, as kubectl does.
        callback=lambda _context, _parameter, value: value.strip(),
        help="Select objects with these labels: key=value, …",
    ),
    click.option("--all", "everything", is_flag=True, help="Select all objects of the kind."),
    click.option(
        "-A", "--all-namespaces", "everywhere", is_flag=True, help="With -l or --all: select objects of all namespaces."
    ),
)
"""Selection of objects of a kind without names: ``selector``, ``everything`` and ``everywhere``."""


def output_option(*formats: str) -> Callable[[_Command], _Command]:
    """Return the option ``-o``. The first of *formats* is the default."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(formats or FORMATS),
        default=(formats or FORMATS)[0],
        show_default=True,
        help="Output format.",
    )


def run(work: Coroutine[Any, Any, _Result]) -> _Result:
    """Run a client command.

    Raises:
        UserError: The hub refuses a request, and the command has not handled the refusal.
    """
    import asyncio  # imported late: commands on files need neither asyncio nor a client

    from webhook.cli.hub.client import HubRefusedError

    try:
        with ending_in_order():
            return asyncio.run(work)
    except HubRefusedError as error:
        raise UserError(error.lines()) from error


def not_empty(context: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Refuse an empty value from the user. This is the callback of options and arguments.

    An unset variable in a script results in an empty value, which would select another run, stage or snapshot.
    """
    if value == "" and context.get_parameter_source(param.name or "") is not ParameterSource.DEFAULT:
        raise click.BadParameter("'' is empty", context, param)
    return value


_RUN_KINDS: Final = tuple(family.run for family in FAMILIES)
_RUNS: Final = {
    "updates": _RUN_KINDS,
    "upgrades": (UPGRADE_RUN,),
    "answerable": (*_RUN_KINDS, *(family.approval_request for family in FAMILIES), UPGRADE_RUN, UPGRADE_GATE),
}
"""Kinds that a run argument may name, by the source of its completion."""


def run_argument(source: str = "updates", *, required: bool = True) -> Callable[[_Command], _Command]:
    """Return a decorator that adds the run and its namespace to a command, as arguments ``name`` and ``namespace``.

    The run is NAME, KIND NAME, KIND/NAME or KIND/NAMESPACE/NAME.

    Args:
        source: Completion of the name, and the possible kinds. Upgrade runs have no namespace.
        required: Whether the command needs a run. Otherwise ``name`` is empty without one.
    """
    metavar = "RUN|REQUEST|GATE" if source == "answerable" else "RUN" if required else "[RUN]"

    def give(command: _Command) -> _Command:
        @functools.wraps(command)
        def parsed(*arguments: Any, words: Sequence[str], **parameters: Any) -> Any:
            from webhook.cli.hub.resource_arguments import parse_reference

            if not all(words):
                raise click.BadParameter("'' is empty", param_hint=f"'{metavar.strip('[]')}'")
            if words:
                _, namespace, name = parse_reference(words, parameters.get("namespace"), kinds=_RUNS[source])
                parameters |= {"name": name} | ({"namespace": namespace} if source != "upgrades" else {})
            return command(*arguments, **{"name": "", **parameters})

        function: Any = parsed
        if source != "upgrades":
            function = run_namespace_option(function)
        argument = click.argument("words", nargs=-1, required=required, metavar=metavar, shell_complete=tab(source))
        return argument(function)  # type: ignore[no-any-return]  # click's decorators return Any

    return give


def run_namespace_option(command: _Command) -> _Command:
    """Add the option that selects the family of a run to a command, as argument ``namespace``."""
    return click.option(
        "-n",
        "--namespace",
        default="",
        callback=not_empty,
        metavar="NS",
        shell_complete=tab("namespaces"),
        help="Namespace of a StagedUpdateRun.  [default: none, for a ClusterStagedUpdateRun]",
    )(command)
