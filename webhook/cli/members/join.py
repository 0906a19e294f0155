"""``harbormaster join``: join a cluster to the fleet as a member."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import click

from webhook.cli.errors import UserError, complain
from webhook.cli.hub.connection import HubConnection
from webhook.cli.members.options import Sides, connected, find_helm, read_settings, sides_options
from webhook.cli.operating.agent import check_cluster
from webhook.cli.options.base import grouped, is_agreed, run
from webhook.cli.options.times import Patience

if TYPE_CHECKING:
    from webhook.kube.login.connection import ApiServerEndpoint
    from webhook.processes.agent_installation import AgentInstall, Helm
    from webhook.processes.join import Join, JoinOptions
    from webhook.processes.node_rights import NodeRights
    from webhook.processes.rbac_objects import Role

HELP = """Join a cluster to the fleet.

On the hub, creates the ServiceAccount member-NAME, whose only right is to request its own tokens, and the MemberCluster
NAME. In the member, installs the CustomResourceDefinition of AppliedWorks, the namespace, ServiceAccount and roles of
the agent (as printed by `harbormaster rbac agent --no-apply-control-plane`), and the Secret harbormaster-hub with the
agent's credentials for the hub. The token in the Secret is valid for one hour. The agent replaces the token when it
starts, and keeps it renewed.

Then installs the agent with the image that `serve` runs on the hub: from its chart with helm, or as a Deployment if
helm is not installed. An installed agent is upgraded with the tool that installed it, and keeps the other values of its
Helm release. --print only prints the command or the Deployment. --agent none leaves the installation to you.

Shows every change first, and asks for confirmation. Then waits until the member is Joined and Healthy, and reports what
is missing if it times out. The command is safe to run again: it continues where it stopped, and does not change what is
already correct. If the hub was unreachable for longer than the lifetime of the agent's token, run the command again to
give the agent a new token.

Requires administrator rights on both clusters. Everything is checked before anything is written.

\b
Examples:
  harbormaster join berlin --context hub --member-context berlin --dry-run
  harbormaster join berlin --context hub --member-context berlin -l region=eu
  harbormaster join berlin --context hub --member-context berlin --yes --image registry.example.com/harbormaster:1.2
  harbormaster join berlin --context hub --member-context berlin --print

\b
Exit codes:
  0  the member is Joined and Healthy (with --timeout 0: prepared, with --dry-run: all checks
     passed, with --print: printed)
  1  an error, not confirmed, or timed out
"""

_POLL_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Wish:
    """Objects to create, and how.

    Args:
        labels: ``key=value`` each.
        hub_server: Address of the hub for the member. None means the one of the context.
        apply: Kinds that the agent may apply. If empty, the default ones.
        apply_rbac: Whether it may apply roles.
        apply_control_plane: Whether it may apply kinds that act on every request to the member.
        take_over: Take over a cluster that was another member before.
        image: Image of the agent. None means the one of ``serve`` on the hub.
        agent: How the agent is installed: an `InstallMethod`.
        print_only: Only print how the agent is installed.
        yes: Skip the confirmation.
        dry_run: Write nothing.
        timeout: Seconds to wait until the member has joined.
    """

    labels: tuple[str, ...]
    hub_server: str | None
    apply: tuple[str, ...]
    apply_rbac: bool
    apply_control_plane: bool
    take_over: bool
    image: str | None
    agent: str
    print_only: bool
    yes: bool
    dry_run: bool
    timeout: float


@click.command("join", help=HELP, short_help="Join a cluster to the fleet.")
@click.argument("name")
@sides_options(member_required=True)
@grouped(
    "wish",
    Wish,
    click.option(
        "-l",
        "--label",
        "labels",
        multiple=True,
        metavar="KEY=VALUE",
        help="Label to set on the MemberCluster. Repeatable.",
    ),
    click.option(
        "--hub-server", metavar="URL", help="Address at which the member reaches the hub.  [default: the context's]"
    ),
    click.option("--apply", multiple=True, metavar="KIND", help="A kind that the agent may apply. Repeatable."),
    click.option("--apply-rbac", is_flag=True, help="Allow the agent to apply roles and role bindings."),
    click.option(
        "--apply-control-plane",
        is_flag=True,
        help="Without --apply: also allow the agent to apply kinds that affect every request, such as webhook "
        "configurations. An agent that already has this right keeps it.",
    ),
    click.option(
        "--take-over", is_flag=True, help="Make the cluster this member even if it was another member before."
    ),
    click.option(
        "--image", metavar="IMAGE", help="Image of the agent.  [default: the one that `serve` runs on the hub]"
    ),
    click.option(
        "--agent",
        type=click.Choice(("auto", "helm", "manifests", "none")),
        default="auto",
        show_default=True,
        help="How to install the agent. auto: with helm if it is installed, else with manifests.",
    ),
    click.option("--print", "print_only", is_flag=True, help="Only print the command or the Deployment of the agent."),
    click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation."),
    click.option("--dry-run", is_flag=True, help="Validate everything on both API servers, without writing anything."),
    click.option(
        "--timeout",
        default="5m",
        show_default=True,
        type=Patience(),
        help="Maximum time to wait for the member to join. 0: do not wait.",
    ),
)
def command(name: str, sides: Sides, wish: Wish) -> int:
    """Register a member with its hub. Return the exit code. Raises `UserError`."""
    check_cluster("NAME", name)
    labels = dict(map(parse_label, wish.labels))
    settings, home = read_settings(sides.hub_namespace), read_settings(sides.namespace).namespace
    hub, member = sides.find_hub(), sides.find_member()
    assert member is not None
    from webhook.kube.login.connection import ApiServerEndpoint
    from webhook.processes.agent_installation import Image, InstallMethod
    from webhook.processes.join import JoinOptions

    try:
        image = None if wish.image is None else Image.parse(wish.image)
    except ValueError as error:
        raise UserError(f"--image {error}") from error
    options = JoinOptions(
        member=name,
        endpoint=ApiServerEndpoint(""),
        hub_namespace=settings.namespace,
        namespace=home,
        roles=_agent_roles(wish, home),
        labels=labels,
        control_plane=wish.apply_control_plane,
        image=image,
        method=InstallMethod(wish.agent),
        chooses_roles=bool(wish.apply) or wish.apply_rbac or wish.apply_control_plane,
        take_over=wish.take_over,
    )
    return run(_join(hub, member, options, wish))


def parse_label(text: str) -> tuple[str, str]:
    """Parse ``key=value``. The hub validates the label. Raises `UserError`."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise UserError(f"--label {text[:64]!r}: must be KEY=VALUE")
    return key, value


def _agent_roles(wish: Wish, namespace: str) -> "Callable[[bool, NodeRights], tuple[Role, ...]]":
    """Return the function that makes the roles of the agent. Raises `UserError`."""
    from webhook.processes.rbac import UnknownKindError, agent_roles, checked_applied, default_applied, parse_selection

    try:
        selection = checked_applied(parse_selection(wish.apply)) if wish.apply else None
    except UnknownKindError as error:
        raise UserError(f"--apply {error}") from error

    def roles(control_plane: bool, nodes: "NodeRights") -> "tuple[Role, ...]":
        applied = selection or default_applied(control_plane=control_plane)
        return agent_roles(applied, namespace, apply_rbac=wish.apply_rbac, nodes=nodes)

    return roles


async def _join(hub: HubConnection, member: HubConnection, options: "JoinOptions", wish: Wish) -> int:
    from webhook.processes.join import Join
    from webhook.processes.sides import JoinError

    options = replace(options, endpoint=await _endpoint(hub, wish.hub_server))
    helm = find_helm(member, options.namespace)
    async with connected("hub", hub) as on_hub, connected("member", member) as in_member:
        join = Join(on_hub, in_member, options, click.echo, helm)
        try:
            if wish.print_only:
                return _print(await join.installation(), helm)
            if not await _make_changes(join, options.member, helm, wish):
                return 1
            if wish.dry_run or not wish.timeout:
                return 0
            missing_parts = await wait_for(join.missing, wish.timeout)
        except JoinError as error:
            raise UserError(str(error)) from error
    if missing_parts:
        raise UserError(f"timed out after {wish.timeout:g} s waiting for {options.member} to join: {missing_parts}")
    click.echo(f"{options.member} is Joined and Healthy")
    return 0


async def _make_changes(join: "Join", member: str, helm: "Helm | None", wish: Wish) -> bool:
    """Show the changes, ask, and make them. Return whether the user agreed."""
    if wish.dry_run or not wish.yes:
        changed = await join.run(dry_run=True)
        installation = await join.installation()
        if installation.helm and helm is not None:
            click.echo(f"  {helm.line(installation.helm)}")
        if changed and not wish.dry_run and not is_agreed("Make these changes?", yes=False):
            return False
    if not wish.dry_run:
        changed = await join.run(dry_run=False)
    if not changed:
        click.echo(f"{member} is up to date: nothing was changed")
    return True


def _print(installation: "AgentInstall", helm: "Helm | None") -> int:
    from webhook.runtime.yaml import format_yaml

    if installation.deployment is not None:
        click.echo(format_yaml(installation.deployment.document), nl=False)
    elif installation.helm and helm is not None:
        click.echo(helm.line(installation.helm))
    else:
        complain(installation.remark or "the agent is up to date")
    return 0


async def _endpoint(hub: HubConnection, server: str | None) -> "ApiServerEndpoint":
    from webhook.kube.login.credentials import read_endpoint
    from webhook.kube.login.kubeconfig import ConfigurationError
    from webhook.kube.transport.addresses import check_remote

    assert hub.kubeconfig is not None
    try:
        endpoint = await read_endpoint(hub.kubeconfig, hub.context)
    except ConfigurationError as error:
        raise UserError(str(error)) from error
    if server is not None:
        endpoint = replace(endpoint, server=server, server_name="", proxy="")
    try:
        check_remote(endpoint.server)
    except ValueError as error:
        server_mistake = f"--hub-server {endpoint.server[:64]!r}: {error}"
        kubeconfig_mistake = (
            f"kubeconfig {hub.kubeconfig}: server {endpoint.server[:64]!r}: {error}. Give another with --hub-server URL"
        )
        raise UserError(kubeconfig_mistake if server is None else server_mistake) from error
    return endpoint


async def wait_for(missing: Callable[[], Awaitable[str]], seconds: float) -> str:
    """Poll until nothing is missing, and show progress. On timeout, return the missing parts."""
    from webhook.processes.sides import JoinError

    end, time = asyncio.get_running_loop().time() + seconds, ""
    while True:
        try:
            missing_parts = await missing()
        except JoinError as error:  # an API server that is unavailable for a moment
            missing_parts = str(error)
        if not missing_parts or asyncio.get_running_loop().time() >= end:
            return missing_parts
        if missing_parts != time:
            complain(f"waiting: {missing_parts}")
            time = missing_parts
        await asyncio.sleep(_POLL_SECONDS)
