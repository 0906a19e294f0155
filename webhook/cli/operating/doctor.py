"""``harbormaster doctor``: checks of an installation, one line for each possible problem."""

import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from scorer.api.unstructured.json_object import JsonObject
from webhook.cli.errors import UserError
from webhook.cli.hub.connection import HubConnection
from webhook.cli.hub.kubeconfig import find_kubeconfig
from webhook.cli.options.base import grouped, output_option, run
from webhook.cli.options.hub import HubOptions, hub_options
from webhook.cli.text.output import print_document, print_line

if TYPE_CHECKING:
    from webhook.doctor.installation import InstallationOptions

HELP: Final = """Check an installation of harbormaster on a hub, and suggest fixes.

\b
Checks:
  CustomResourceDefinitions, webhook configurations and certificates
  whether the API server reaches the webhooks, by dry runs of a valid and an invalid placement
  the API for teams, and the scheduler extender
  the rights of all accounts
  the leader, and the agents of the members with their clocks and AppliedWorks
  blocked removals, and removals of content that need a confirmation

To check the rights of an agent in its member as well, name a context of that member.

Nothing is changed. A check that you lack the rights for is reported as not checked, and the others continue. On a hub
without harbormaster, prints one line with the command that installs it.

A Helm installation is found by its labels, and its settings are read from the hub. If there are several, name one. For
other installations, give the settings of the processes in the environment, as for `rbac` and `webhook-configuration`.

\b
Examples:
  harbormaster doctor --context hub
  harbormaster doctor --context hub -n fleet --release quay
  harbormaster doctor --context hub --member-context berlin
  HARBORMASTER_CERTIFICATE_SECRET=harbormaster-ca harbormaster doctor --kubeconfig hub.kubeconfig
  harbormaster doctor --context hub -o json | jq '.checks[] | select(.state != "ok")'

\b
Exit codes:
  0  no problems
  1  problems, a check that could not be made, or an unreachable hub
"""
_MARKS: Final = {"ok": "[ok]", "wrong": "[!!]", "unchecked": "[??]"}
_INDENT: Final = " " * 5
_COMMAND: Final = re.compile(
    r"\b(kubectl (?:apply|get|delete)|helm (?:install|upgrade)(?! harbormaster-agent)"
    r"|harbormaster (?:certs inspect|join NAME))\b"
)
"""Commands in advice that address a cluster."""
_ELSEWHERE: Final = "run on the member: "


@dataclass(frozen=True, slots=True)
class _InstallationOptions:
    """Installation to examine. Unset options are detected.

    Args:
        namespace: Namespace of the installation.
        release: The Helm release.
        server_user: User name of ``harbormaster serve``.
        without_loop: Whether the installation is expected to have no loop.
    """

    namespace: str | None
    release: str
    server_user: str
    without_loop: bool

    def as_options(self) -> "InstallationOptions":
        """Return the options of the examination."""
        from webhook.doctor.installation import InstallationOptions

        return InstallationOptions(self.namespace or "", self.release, self.server_user, not self.without_loop)


@dataclass(frozen=True, slots=True)
class _MemberOptions:
    """The member whose agent is checked, if any.

    Args:
        member_context: A context of a kubeconfig.
        member_kubeconfig: File with that context. None means that of the hub, or kubectl's.
    """

    member_context: str | None
    member_kubeconfig: Path | None

    def find(self, hub: HubOptions) -> HubConnection | None:
        """Return the member, or None if the user names none. Raises `UserError`."""
        if self.member_context is None and self.member_kubeconfig is None:
            return None
        kubeconfig = find_kubeconfig(self.member_kubeconfig or hub.kubeconfig, self.member_context, os.environ)
        if kubeconfig.ours:
            raise UserError(
                f"--member-context {kubeconfig.context!r}: is the hub of `harbormaster up`, which has no agent"
            )
        return kubeconfig


@click.command("doctor", help=HELP, short_help="Check an installation, and suggest fixes.")
@grouped(
    "place",
    _InstallationOptions,
    click.option(
        "-n",
        "--namespace",
        metavar="NS",
        help="Namespace where harbormaster is installed.  [default: that of the Helm release, or harbormaster-system]",
    ),
    click.option("--release", default="", metavar="NAME", help="Helm release.  [default: the only one]"),
    click.option(
        "--server-user",
        default="",
        metavar="NAME",
        help="User of `serve` on the hub, if not installed by Helm.  [default: ServiceAccount harbormaster-serve]",
    ),
    click.option(
        "--without-loop",
        is_flag=True,
        help="Expect no reconcile loop, as on a hub that KubeFleet runs. Ignored for a Helm release.",
    ),
)
@grouped(
    "member",
    _MemberOptions,
    click.option("--member-context", metavar="NAME", help="Context of a member to check as well."),
    click.option(
        "--member-kubeconfig",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Kubeconfig with that context.  [default: the kubeconfig of the hub]",
    ),
)
@output_option("table", "json", "yaml")
@hub_options
def command(place: _InstallationOptions, member: _MemberOptions, output: str, hub: HubOptions) -> int:
    """Show the result of each check."""
    document = _addressed(run(_examine(hub, place, member)), hub, member)
    if output == "table":
        for check in document["checks"]:
            for line in _lines(check):
                print_line(line)
    else:
        print_document(document, output)
    return 0 if document["well"] else 1


def _addressed(document: JsonObject, hub: HubOptions, member: _MemberOptions) -> JsonObject:
    """Return *document* with the user's kubeconfig and context options in the commands of its problems and advice."""
    from webhook.doctor.agent_account import CHECK

    checks = []
    for check in document["checks"]:
        file, context = hub.kubeconfig, hub.context
        if check["check"] == CHECK:
            file, context = member.member_kubeconfig or hub.kubeconfig, member.member_context
        problems = [_with_options(problem, file, context) for problem in check["problems"]]
        checks.append({**check, "problems": problems, "advice": _with_options(check["advice"], file, context)})
    return {**document, "checks": checks}


def _with_options(text: str, file: Path | None, context: str | None) -> str:
    """Return *text* with the options of a cluster in each command. Commands for members are left unchanged."""
    kubeconfig = [] if file is None else ["--kubeconfig", str(file)]

    def addressed(command: re.Match[str]) -> str:
        option = "--kube-context" if command[1].startswith("helm ") else "--context"
        return shlex.join([*command[1].split(), *kubeconfig, *([] if context is None else [option, context])])

    before, marker, commands = text.partition(_ELSEWHERE)
    return f"{_COMMAND.sub(addressed, before)}{marker}{commands}"


def _lines(check: JsonObject) -> Iterator[str]:
    """Yield the line of a check, and below it the problem and the required action, if any."""
    problems = check["problems"]
    finding = problems[0] if len(problems) == 1 else check["found"]
    yield f"{_MARKS[check['state']]} {check['check']:<14} {finding} ({check['milliseconds']} ms)"
    if len(problems) > 1:
        yield from (f"{_INDENT}- {problem}" for problem in problems)
    if problems and check["advice"]:
        yield f"{_INDENT}→ {check['advice']}"


async def _examine(hub: HubOptions, place: _InstallationOptions, member: _MemberOptions) -> JsonObject:
    """Run all checks against the hub. Raises `UserError`."""
    from webhook.cli.hub.connection import unreachable
    from webhook.cli.hub.login import open_server
    from webhook.doctor.examination import Examination, document_of
    from webhook.doctor.installation import UnclearInstallationError
    from webhook.kube.ports import StoreError, UnavailableError
    from webhook.runtime.clock import utc_now
    from webhook.runtime.distribution import installed_version
    from webhook.settings.environment import SettingsError

    connection, release, other = hub.find(), installed_version(), member.find(hub)
    if connection.ours:
        raise UserError(
            "harbormaster up has no installation to check. Select another hub with --context NAME or --kubeconfig FILE"
        )
    async with await open_server(connection) as server:
        examination = Examination(server, release, utc_now)
        try:
            await examination.run(place.as_options(), os.environ)
        except UnavailableError as error:
            raise unreachable(connection, error) from error
        except SettingsError as error:
            raise UserError(error.mistakes) from error
        except (StoreError, UnclearInstallationError) as error:
            raise UserError(str(error)) from error
        if other is not None:
            async with await open_server(other) as agents_own:
                await examination.examine_member(agents_own)
    return document_of(examination, release, utc_now())
