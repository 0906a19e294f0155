"""``harbormaster join``: join a cluster to the fleet as a member."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import click

from webhook.cli.errors import UserError, complain
from webhook.cli.hub.connection import HubConnection
from webhook.cli.members.options import Sides, connected, read_settings, sides_options
from webhook.cli.operating.agent import check_cluster
from webhook.cli.options.base import grouped, run

if TYPE_CHECKING:
    from webhook.kube.login.connection import ApiServerEndpoint
    from webhook.processes.join import JoinOptions
    from webhook.processes.rbac_objects import Role

HELP = """Join a cluster to the fleet.

On the hub, creates the ServiceAccount member-NAME, whose only right is to request its own tokens, and the MemberCluster
NAME. In the member, installs the CustomResourceDefinition of AppliedWorks, the namespace, ServiceAccount and roles of
the agent (as printed by `harbormaster rbac agent --no-apply-control-plane`), and the Secret harbormaster-hub with the
agent's credentials for the hub. The token in it expires: the agent renews it and writes each new one into that Secret.

Install the agent from its chart with the `helm` command that is printed, or with --deploy. The command then waits until
the member is Joined and Healthy, and reports what is missing if it times out. It is safe to run again: it continues
where it stopped, and does not change what is already correct. If the hub was unreachable for longer than the lifetime
of the token, run it again to give the agent a new one.

Requires administrator rights on both clusters. Everything is checked before anything is written.

\b
Examples:
  harbormaster join berlin --context hub --member-context berlin --dry-run
  harbormaster join berlin --context hub --member-context berlin -l region=eu
  harbormaster join berlin --context hub --member-context berlin --deploy registry.example.com/harbormaster:1.2

\b
Exit codes:
  0  the member is Joined and Healthy (with --timeout 0: prepared, with --dry-run: all checks passed)
  1  an error, or timed out
"""

_POLL_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Wish:
    """Objects to create, and how.

    Args:
        labels: ``key=value`` each.
        hub_server: Address of the hub for the member. None: unset, the one of the context.
        apply: Kinds that the agent may apply. If empty, the default ones.
        apply_rbac: Whether it may apply roles.
        apply_control_plane: Whether it may apply kinds that act on every request to the member.
        take_over: Take over a cluster that was another member before.
        image: Image of the agent's Deployment. None: unset, the agent is deployed in another way.
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
        help="Allow the agent to apply kinds that act on every request, such as webhook configurations. An agent that "
        "may already do so keeps this right.",
    ),
    click.option(
        "--take-over", is_flag=True, help="Make the cluster this member even if it was another member before."
    ),
    click.option("--deploy", "image", metavar="IMAGE", help="Install the agent as a Deployment of this image."),
    click.option("--dry-run", is_flag=True, help="Validate everything on both API servers, without writing anything."),
    click.option(
        "--timeout",
        default=300.0,
        show_default=True,
        type=click.FloatRange(0),
        help="Seconds to wait for the member to join. 0: do not wait.",
    ),
)
def command(name: str, sides: Sides, wish: Wish) -> int:
    """Register a member with its hub. Returns the exit status."""
    check_cluster("NAME", name)
    if wish.image is not None and (not wish.image or not wish.image.isascii() or " " in wish.image):
        raise UserError(f"--deploy {wish.image[:64]!r}: must be the name of an image")
    labels = dict(map(parse_label, wish.labels))
    settings, home = read_settings(sides.hub_namespace), read_settings(sides.namespace).namespace
    roles, wider = (_agent_roles(wish, home, control_plane=wide) for wide in (wish.apply_control_plane, True))
    hub, member = sides.find_hub(), sides.find_member()
    assert member is not None
    from webhook.kube.login.connection import ApiServerEndpoint
    from webhook.processes.join import JoinOptions

    options = JoinOptions(
        member=name,
        endpoint=ApiServerEndpoint(""),
        hub_namespace=settings.namespace,
        namespace=home,
        roles=roles,
        wider_roles=wider,
        labels=labels,
        image=wish.image or "",
        token_seconds=settings.hub_token_seconds,
        take_over=wish.take_over,
    )
    return run(_join(hub, member, options, wish, sides))


def parse_label(text: str) -> tuple[str, str]:
    """Parse ``key=value``. The hub validates the label. Raises `UserError`."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise UserError(f"--label {text[:64]!r}: must be KEY=VALUE")
    return key, value


def _agent_roles(wish: Wish, namespace: str, *, control_plane: bool) -> "tuple[Role, ...]":
    from webhook.processes.rbac import UnknownKindError, agent_roles, checked_applied, default_applied, parse_selection

    try:
        kinds = parse_selection(wish.apply) if wish.apply else default_applied(control_plane=control_plane)
        applied = checked_applied(kinds)
    except UnknownKindError as error:
        raise UserError(f"--apply {error}") from error
    return agent_roles(applied, namespace, apply_rbac=wish.apply_rbac)


async def _join(hub: HubConnection, member: HubConnection, options: "JoinOptions", wish: Wish, sides: Sides) -> int:
    from webhook.processes.join import Join, helm_line
    from webhook.processes.sides import JoinError

    options = replace(options, endpoint=await _endpoint(hub, wish.hub_server))
    async with connected("hub", hub) as on_hub, connected("member", member) as in_member:
        join = Join(on_hub, in_member, options, click.echo)
        try:
            changed = await join.run(dry_run=wish.dry_run)
            if not changed:
                click.echo(f"{options.member} is up to date: nothing was changed")
            if wish.dry_run:
                return 0
            if not await join.has_deployment():
                file = sides.member_kubeconfig or sides.kubeconfig
                click.echo("install the agent:")
                click.echo(f"  {helm_line(options, member.context, file)}")
            if not wish.timeout:
                return 0
            missing_parts = await wait_for(join.missing, wish.timeout)
        except JoinError as error:
            raise UserError(str(error)) from error
    if missing_parts:
        raise UserError(f"timed out after {wish.timeout:g} s waiting for {options.member} to join: {missing_parts}")
    click.echo(f"{options.member} is Joined and Healthy")
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
