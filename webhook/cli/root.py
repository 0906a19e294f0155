"""The program: its name, its commands, and how it reports errors.

Exit codes: 0 for success, 1 for any error, including usage errors. 2 from ``plan`` and ``simulate`` means changes, from
``gate`` not allowed now, from ``test`` a failed case, and from waiting for a staged update action required. 3 from such
a wait means timed out.
"""

import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn, cast

import click
from click.shell_completion import CompletionItem

from webhook.cli.errors import UserError, complain
from webhook.cli.process import INTERRUPTED, KUBECTL
from webhook.runtime.distribution import DISTRIBUTION

PLUGIN: Final = "kubectl-"
"""Prefix of the file name of a kubectl plugin. Users type the rest."""
BROKEN_PIPE: Final = 141


class _LazyCommand(NamedTuple):
    """A command that is imported when it is called.

    Args:
        name: The word that users type.
        module: The module with the command, below `webhook.cli`.
        help: The first line of the command's own help.
    """

    name: str
    module: str
    help: str


SECTIONS: Final = {
    "Try it on this machine": (
        _LazyCommand("up", "operating.up", "Run a hub with simulated members, all in this one process."),
    ),
    "Work with a running hub": (
        _LazyCommand("apply", "objects.apply", "Create objects, or change them to what the files say."),
        _LazyCommand("get", "objects.get", "Show objects."),
        _LazyCommand("describe", "objects.describe", "Show all about objects, and their Events."),
        _LazyCommand("tree", "objects.tree", "Show a placement down to its objects, once or as it changes."),
        _LazyCommand("history", "objects.history", "Show what has happened in the last days."),
        _LazyCommand("diff", "objects.diff", "Show what apply would change."),
        _LazyCommand("wait", "objects.wait", "Wait until objects are as you need them."),
        _LazyCommand("edit", "objects.edit", "Change an object in an editor."),
        _LazyCommand("delete", "objects.delete", "Delete objects."),
        _LazyCommand("confirm", "removals.confirm", "Let content be removed from members."),
        _LazyCommand("removals", "removals.removals", "Show removals of content that wait for confirmation."),
        _LazyCommand("api-resources", "objects.api_resources", "Show the kinds that a hub serves."),
        _LazyCommand("dashboard", "operating.dashboard", "Show the page over a hub, from this machine."),
    ),
    "Update a fleet in stages": (
        _LazyCommand("run", "staged_updates.run", "Start, stop, resume and watch staged updates."),
        _LazyCommand("approve", "approvals.approve", "Approve what a staged update or an upgrade run waits for."),
        _LazyCommand("reject", "approvals.reject", "Reject what a run asks for: it stops."),
        _LazyCommand("undo", "staged_updates.undo", "Take back what a staged update has changed."),
    ),
    "Upgrade member clusters": (
        _LazyCommand("upgrade", "upgrades.upgrade", "Start, stop and watch upgrades of member clusters."),
        _LazyCommand("windows", "members.windows", "Show when members of the fleet may be touched."),
        _LazyCommand("cordon", "members.cordon", "Let a member get no new placements."),
        _LazyCommand("uncordon", "members.uncordon", "Let a member get placements again."),
        _LazyCommand("drain", "members.drain", "Take everything that is placed on a member off it."),
    ),
    "Ask the engine": (
        _LazyCommand("plan", "planning.plan", "Show what would happen to placements and what runs would do."),
        _LazyCommand("explain", "planning.explain", "Say why a placement got the clusters it got."),
        _LazyCommand("validate", "linting.validate", "Check objects as admission would."),
        _LazyCommand("lint", "linting.lint", "Find what is wrong or odd in files, for CI."),
        _LazyCommand("test", "policy_tests.command", "Run tests of placements, admission, budgets and the gate."),
        _LazyCommand("gate", "disruption.gate", "Ask whether something may be disrupted now, and if not, when."),
        _LazyCommand("budgets", "disruption.budgets", "Show what disruption budgets allow, now and on a calendar."),
        _LazyCommand(
            "simulate", "disruption.simulate", "Play what would happen to the nodes of a cluster in the days to come."
        ),
    ),
    "Serve a hub": (
        _LazyCommand("serve", "operating.serve", "Answer a hub's admission reviews and questions over HTTPS."),
        _LazyCommand(
            "reconcile", "operating.reconcile", "Turn the placements of a hub into bindings, Works and status."
        ),
        _LazyCommand("join", "members.join", "Make a cluster a member of the fleet."),
        _LazyCommand("leave", "members.leave", "Let a member go."),
        _LazyCommand("agent", "operating.agent", "Run the agent of a member cluster."),
        _LazyCommand(
            "webhook-configuration", "operating.webhook_configuration", "Print the objects that register the webhooks."
        ),
        _LazyCommand("unregister", "operating.unregister", "Remove the webhook configurations from a hub."),
        _LazyCommand("doctor", "operating.doctor", "Check an installation, and say what to do about what is wrong."),
        _LazyCommand("certs", "operating.certs", "Show and replace the certificate authority of `harbormaster serve`."),
        _LazyCommand("rbac", "operating.rbac", "Print the roles that our processes need."),
        _LazyCommand("settings", "operating.settings", "Print the settings in force, and where they come from."),
    ),
    "Other": (
        _LazyCommand("crds", "operating.crds", "Print the definitions of all kinds, or write their JSON Schemas."),
        _LazyCommand("rules", "linting.rules", "Print the rules of admission."),
        _LazyCommand("completion", "completion", "Print the completion script of a shell."),
        _LazyCommand("version", "operating.version", "Print the versions of the program, the hub and the agents."),
    ),
}

HELP: Final = """Admission, placement and rollout for fleets of Kubernetes clusters.

\b
Start here:
  harbormaster up --example                a simulated fleet on this machine
  harbormaster get crp                     what is placed (in a second terminal)
  harbormaster explain crp/NAME            and why there
  harbormaster plan -f examples/fleet      the same decisions without a hub

\b
Exit codes:
  0  fine
  1  an error, reported in one line; usage errors too
  2  from plan, simulate: something would change; from gate: not allowed now; from test: a case failed; from drain,
     run --wait, upgrade --wait: somebody has to act
  3  from drain, run --wait, upgrade --wait: the time is up

Tables and colours are for people (NO_COLOR turns colours off); -o json and -o yaml are for programs.
As kubectl-harbormaster on the PATH, this program is also `kubectl harbormaster`, and asks the hub that kubectl asks.
`harbormaster` asks the hub of `harbormaster up`; --kubeconfig and --context name any other.
"""


class Root(click.Group):
    """Imports a command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of all commands."""
        return [entry.name for entries in SECTIONS.values() for entry in entries]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's
        """Import the command."""
        module = next(
            (entry.module for entries in SECTIONS.values() for entry in entries if entry.name == cmd_name), ""
        )
        if not module:
            return None
        command: click.Command = import_module(f"webhook.cli.{module}").command
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the commands with the prefix *incomplete*, and options, without importing the commands."""
        items = [
            CompletionItem(entry.name, help=entry.help)
            for entries in SECTIONS.values()
            for entry in entries
            if entry.name.startswith(incomplete)
        ]
        return items + click.Command.shell_complete(self, ctx, incomplete)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the called command. The error for an unknown command suggests similar ones."""
        if args and not args[0].startswith("-") and args[0] not in self.list_commands(ctx):
            raise click.exceptions.NoSuchCommand(args[0], possibilities=self.list_commands(ctx), ctx=ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands by section, without importing them."""
        for section, entries in SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl([(entry.name, entry.help) for entry in entries])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. A closed pipe is no error, and click must not report it as one."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # as in `harbormaster get … | head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return BROKEN_PIPE

    def main(self, args: Sequence[str] | None = None, prog_name: str | None = None, **_extra: Any) -> NoReturn:  # type: ignore[override]  # always ends the process
        """Run one command and exit."""
        sys.exit(self._run(args, prog_name or _program_name()))

    def _run(self, args: Sequence[str] | None, program: str) -> int:
        variable = f"_{program.replace(' ', '_').replace('-', '_')}_COMPLETE".upper()
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):  # do not fail because the terminal cannot show a character
                stream.reconfigure(errors="backslashreplace")
        words = [*(sys.argv[1:] if args is None else args)]
        path, called_command = self._called(program, words)
        try:
            code = super().main(
                _bare_flags(called_command, words), program, complete_var=variable, standalone_mode=False
            )
            sys.stdout.flush()
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.ctx.get_help())
            return 0
        except click.UsageError as error:
            path = error.ctx.command_path if error.ctx else path
            complain(f"error: {' '.join(error.format_message().split())} (see: {path} --help)")
            return getattr(error.ctx and error.ctx.command, "error_code", 1)
        except click.ClickException as error:
            error.show()
            return 1
        except (click.Abort, KeyboardInterrupt):
            return INTERRUPTED
        except BrokenPipeError:  # as in `harbormaster get … | head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return BROKEN_PIPE
        except OSError as error:
            place = f"{error.filename}: " if error.filename else ""
            complain(f"error: {place}{error.strerror or error}")
            return getattr(called_command, "error_code", 1)
        return code if isinstance(code, int) else 0

    def _called(self, program: str, words: Sequence[str]) -> tuple[str, click.Command]:
        """Return the name and the command that *words* call, as not every error of click's parser has them."""
        path, command, context = program, cast(click.Command, self), click.Context(self)
        for word in words:
            if isinstance(command, click.Group) and word in command.list_commands(context):
                path, command = f"{path} {word}", command.get_command(context, word) or command
        return path, command


def _bare_flags(command: click.Command, words: Sequence[str]) -> list[str]:
    """Return *words* with flags in click's form: kubectl's may have a value, as in ``--ignore-not-found=true``."""
    replacements: dict[str, list[str]] = {}
    for option in command.params:
        if isinstance(option, click.Option) and option.is_flag:
            for name in option.opts:
                replacements |= {f"{name}=true": [name], f"{name}=false": option.secondary_opts[:1]}
    end = words.index("--") if "--" in words else len(words)
    return [replacement for word in words[:end] for replacement in replacements.get(word, [word])] + [*words[end:]]


def _program_name() -> str:
    """Return the program's name as the user typed it. kubectl calls a plugin by its file name."""
    name = Path(sys.argv[0]).stem
    return KUBECTL + name.removeprefix(PLUGIN) if name.startswith(PLUGIN) else "harbormaster"


@click.group(cls=Root, help=HELP, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(package_name=DISTRIBUTION, message="%(prog)s %(version)s")
def root() -> None:
    """Hold the commands."""


__all__ = ["SECTIONS", "Root", "UserError", "root"]
