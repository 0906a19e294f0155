"""The program: its name, its commands, and how it reports errors.

Exit codes: 0 for success, 1 for any error, including usage errors. `HELP` lists the commands with further exit codes.
"""

import errno
import io
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, Final, NamedTuple, NoReturn, cast

import click
from click.shell_completion import CompletionItem

from webhook.cli.errors import UserError, complain
from webhook.cli.process import INTERRUPTED, discard
from webhook.cli.program import KUBECTL, PROGRAM, examples_of, program, typed_name, with_examples_of
from webhook.runtime.distribution import DISTRIBUTION

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
    "Try it on this machine": (_LazyCommand("up", "operating.up", "Run a hub with simulated members in one process."),),
    "Work with a running hub": (
        _LazyCommand("status", "operating.status", "Show what needs attention, with the commands to run."),
        _LazyCommand("apply", "objects.apply", "Create or update objects from files."),
        _LazyCommand("get", "objects.get", "Show objects."),
        _LazyCommand("describe", "objects.describe", "Show the details of objects and their Events."),
        _LazyCommand("tree", "objects.tree", "Show a placement with its clusters, bindings, Works and objects."),
        _LazyCommand(
            "history", "objects.history", "Show past decisions, rollouts, user actions, refusals and warnings."
        ),
        _LazyCommand("diff", "objects.diff", "Show what apply would change."),
        _LazyCommand("wait", "objects.wait", "Wait for a condition on one or more objects."),
        _LazyCommand("edit", "objects.edit", "Edit an object in your editor."),
        _LazyCommand("delete", "objects.delete", "Delete objects."),
        _LazyCommand("confirm", "removals.confirm", "Confirm the removal of content from members."),
        _LazyCommand("removals", "removals.removals", "List removals of content that await confirmation."),
        _LazyCommand("api-resources", "objects.api_resources", "List the kinds that a hub serves."),
        _LazyCommand("dashboard", "operating.dashboard", "Serve the web page for a hub from this machine."),
    ),
    "Update a fleet in stages": (
        _LazyCommand("run", "staged_updates.run", "Start, stop, resume, list and watch staged updates."),
        _LazyCommand("approve", "approvals.approve", "Approve a pending approval request or upgrade gate."),
        _LazyCommand(
            "reject", "approvals.reject", "Reject a pending approval request or upgrade gate, and stop the run."
        ),
        _LazyCommand("undo", "staged_updates.undo", "Roll back a staged update."),
    ),
    "Upgrade member clusters": (
        _LazyCommand("upgrade", "upgrades.upgrade", "Start, stop and watch upgrades of member clusters."),
        _LazyCommand("windows", "members.windows", "Show maintenance windows, and those of each member."),
        _LazyCommand("cordon", "members.cordon", "Mark a member unschedulable."),
        _LazyCommand("uncordon", "members.uncordon", "Mark a member schedulable again."),
        _LazyCommand("drain", "members.drain", "Evict all placements from a member."),
    ),
    "Ask the engine": (
        _LazyCommand("plan", "planning.plan", "Preview changes to placements and runs."),
        _LazyCommand("render", "planning.render", "Print the final objects of placements on each cluster."),
        _LazyCommand("explain", "planning.explain", "Explain why a placement got its clusters."),
        _LazyCommand("validate", "linting.validate", "Validate objects as admission would, without a hub."),
        _LazyCommand("lint", "linting.lint", "Find errors and questionable settings in files, for CI."),
        _LazyCommand("test", "policy_tests.command", "Run tests of placements, admission, budgets and the gate."),
        _LazyCommand("gate", "disruption.gate", "Check whether a disruption is allowed now, and if not, when."),
        _LazyCommand(
            "budgets", "disruption.budgets", "Show the disruptions that budgets allow, now and on a calendar."
        ),
        _LazyCommand(
            "simulate", "disruption.simulate", "Simulate the disruption of a cluster's nodes over the next days."
        ),
    ),
    "Serve a hub": (
        _LazyCommand(
            "serve", "operating.serve", "Run the HTTPS server: admission webhooks, scheduler extender and /v1 API."
        ),
        _LazyCommand("reconcile", "operating.reconcile", "Run the reconcile loop of a hub."),
        _LazyCommand("join", "members.join", "Join a cluster to the fleet."),
        _LazyCommand("leave", "members.leave", "Remove a member from the fleet."),
        _LazyCommand("agent", "operating.agent", "Run the agent of a member cluster."),
        _LazyCommand("webhook-configuration", "operating.webhook_configuration", "Print the webhook configurations."),
        _LazyCommand("unregister", "operating.unregister", "Delete the webhook configurations from a hub."),
        _LazyCommand("doctor", "operating.doctor", "Check an installation, and suggest fixes."),
        _LazyCommand(
            "certs", "operating.certs", "Inspect and rotate the certificate authority of `harbormaster serve`."
        ),
        _LazyCommand("rbac", "operating.rbac", "Print the RBAC roles that harbormaster needs."),
        _LazyCommand("settings", "operating.settings", "Print the effective settings and their sources."),
    ),
    "Other": (
        _LazyCommand("mcp", "assistants.command", "Serve read-only tools for editors and assistants (MCP)."),
        _LazyCommand("crds", "operating.crds", "Print the CustomResourceDefinitions, or write JSON Schemas."),
        _LazyCommand("rules", "linting.rules", "Print the admission rules."),
        _LazyCommand("help", "help", "Show the help of a command."),
        _LazyCommand("completion", "completion", "Print the completion script of a shell."),
        _LazyCommand("version", "operating.version", "Print the versions of the program, the hub and the agents."),
    ),
}

HELP: Final = """Admission, placement and rollout for fleets of Kubernetes clusters.

\b
Start here:
  harbormaster up --example                a simulated fleet on this machine
  harbormaster status                      what needs attention (in a second terminal)
  harbormaster get crp                     what is placed
  harbormaster explain crp/NAME            and why there
  harbormaster plan -f examples/fleet      the same decisions without a hub

\b
Exit codes:
  0  success
  1  an error, including usage errors
  2  status: something needs attention
     plan, simulate, render -o diff and render -o markdown: changes
     gate: not allowed now
     test: a case failed
     drain, run --wait, undo --wait and upgrade --wait: action required
  3  drain, run --wait, undo --wait and upgrade --wait: timed out
  diff differs, as in kubectl: 1 means changes, and 2 an error

In scripts, use -o json or -o yaml instead of tables. NO_COLOR turns colors and links off.
`harbormaster` uses the hub of `harbormaster up` by default. Select another hub with --kubeconfig and --context.
As a kubectl plugin (kubectl-harbormaster on the PATH), `kubectl harbormaster` uses the same hub as kubectl.
"""


class Root(click.Group):
    """Imports a command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of all commands."""
        return [entry.name for entries in SECTIONS.values() for entry in entries]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command, or return None if it is unknown."""
        module = next(
            (entry.module for entries in SECTIONS.values() for entry in entries if entry.name == cmd_name), ""
        )
        if not module:
            return None
        command: click.Command = import_module(f"webhook.cli.{module}").command
        name = program(ctx)
        return command if name == PROGRAM else with_examples_of(command, name)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help, with examples that start with the name of the program."""
        click.Group(help=examples_of(self.help or "", program(ctx))).format_help_text(ctx, formatter)

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
        """Return the called command. Raises `NoSuchCommand`, which suggests similar ones."""
        if args and not args[0].startswith("-") and args[0] not in self.list_commands(ctx):
            raise click.exceptions.NoSuchCommand(args[0], possibilities=self.list_commands(ctx), ctx=ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands by section, without importing them."""
        for section, entries in SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl([(entry.name, entry.help) for entry in entries])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. A closed pipe is not an error, and click must not report it as one."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # as in `harbormaster get … | head`
            discard(sys.stdout, sys.stderr)
            return BROKEN_PIPE

    def main(self, args: Sequence[str] | None = None, prog_name: str | None = None, **_extra: Any) -> NoReturn:  # type: ignore[override]  # always ends the process
        """Run one command and exit."""
        try:
            code = self._run(args, prog_name or typed_name(sys.argv[0]))
        except (click.Abort, KeyboardInterrupt):
            code = INTERRUPTED
        except BrokenPipeError:  # as in `harbormaster get … | head`
            discard(sys.stdout, sys.stderr)
            code = BROKEN_PIPE
        except OSError as error:  # standard error may fail, too
            with suppress(OSError):
                complain(f"error: {error.strerror or error}")
            discard(sys.stdout, sys.stderr)
            code = 1
        sys.exit(code)

    def _run(self, args: Sequence[str] | None, typed: str) -> int:
        name = typed if typed.startswith(KUBECTL) else PROGRAM
        variable = f"_{name.replace(' ', '_').replace('-', '_')}_COMPLETE".upper()
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):  # do not fail because the terminal cannot show a character
                stream.reconfigure(errors="backslashreplace")
        words = [*(sys.argv[1:] if args is None else args)]
        path, called_command = self._called(typed, words)
        try:
            code = super().main(_bare_flags(called_command, words), typed, complete_var=variable, standalone_mode=False)
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
        except BrokenPipeError:
            raise
        except OSError as error:
            if error.errno == errno.ENOSPC:
                discard(sys.stdout)
            place = f"{error.filename}: " if error.filename else ""
            complain(f"error: {place}{error.strerror or error}")
            return getattr(called_command, "error_code", 1)
        return code if isinstance(code, int) else 0

    def _called(self, typed: str, words: Sequence[str]) -> tuple[str, click.Command]:
        """Return the name and the command that *words* call: some errors of click's parser lack them."""
        path, command, context = typed, cast(click.Command, self), click.Context(self)
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


@click.group(cls=Root, help=HELP, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(package_name=DISTRIBUTION, message="%(prog)s %(version)s")
def root() -> None:
    """Group the commands."""


__all__ = ["SECTIONS", "Root", "UserError", "root"]
