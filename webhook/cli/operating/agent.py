"""``harbormaster agent``: the agent of a member cluster, which runs until a signal stops it."""

import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from webhook.cli.errors import UserError, complain
from webhook.cli.operating.process_options import log_format_option
from webhook.cli.options.base import grouped
from webhook.cli.process import end_in_order

if TYPE_CHECKING:
    from webhook.processes.agent import AgentOptions
    from webhook.settings.agent import AgentSettings

HELP = """Run the agent of a member cluster: report to the hub, and apply the content placed on the member.

The agent runs in the member and uses two API servers. On the hub, it has the rights that the hub grants to
`spec.identity` of the MemberCluster, only in the namespace fleet-member-NAME. In the member, it needs the rights that
`harbormaster rbac agent` prints, and the CustomResourceDefinition of AppliedWorks, one of those that `harbormaster
crds` prints. `harbormaster join` installs all of this. HARBORMASTER_LOG_FORMAT and HARBORMASTER_LOG_LEVEL configure
logging.

Without --hub-kubeconfig, the agent uses the hub credentials in Secret harbormaster-hub of its own namespace, which
`harbormaster join` writes. It renews the token there at every start, and then every hour, or after a third of the
token's lifetime if that is shorter.

The agent records the identity of the cluster (its hub and its member name) in ConfigMap harbormaster-member of its own
namespace. From then on, an agent of another hub or with another name applies nothing, is not ready, and reports the
reason in its log and on its hub (condition IdentityAccepted). When the member leaves the fleet, the agent clears the
record.

To make a cluster with another record this member anyway, run the agent once with --take-over. Placed objects remain,
and Works that hold the same objects take them over.

\b
The agent refuses some objects that the hub sends:
  the fleet's own kinds, their CustomResourceDefinitions, and API services of their groups
  the namespaces fleet-member-*, the agent's own namespace, those of --blocked-namespaces, and all objects in them
  cluster roles, their bindings, webhook configurations and admission policies named harbormaster or harbormaster-*
  cluster-scoped objects of a ResourcePlacement
  kinds that are not in --allowed-kinds

The Work reports each such manifest (reason RefusedByAgent). If an earlier agent has applied it, the object remains in
the member, and the agent gives up its ownership.

\b
A price list (--prices) is YAML or JSON, in USD per hour:
  updatedAt: 2026-03-01T00:00:00Z          optional. If older than a day, the cost is marked as degraded
  prices: {Standard_D4s_v5: 0.192}
  regions: {westeurope: {Standard_D4s_v5: 0.23}}
An instance type table of `harbormaster simulate disruption` works as well: the lowest on-demand price of a
type counts.

\b
A provider (--provider-command) runs once per heartbeat, for at most 10 seconds, and prints JSON:
  {"properties": {"example.com/gpu-count": "8"}, "resources": {"capacity": {"nvidia.com/gpu": "8"}}}
If its first run cannot start or times out, it is not run again until the agent restarts.

\b
Examples:
  harbormaster agent --cluster berlin
  harbormaster agent --cluster berlin --hub-kubeconfig hub.kubeconfig --prices prices.yaml

\b
Exit codes:
  0  stopped by a signal
  1  a file, a port or a kubeconfig cannot be used
"""

_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", re.ASCII)
_LONGEST_NAME: Final = 63 - len("fleet-member-")
"""Maximum length of the name of a member. Its namespace is named after it, and the name of a namespace has at most
63 characters."""

_file = click.Path(path_type=Path)


@dataclass(frozen=True, slots=True)
class AgentArguments:
    """Arguments of the agent, apart from its settings.

    Args:
        cluster: Name of the MemberCluster.
        hub_kubeconfig: Kubeconfig of the hub. None if the Secret on the member locates the hub.
        hub_context: Context of *hub_kubeconfig*. None means its current one.
        kubeconfig: Kubeconfig of the member. None means the cluster of the pod that this runs in.
        context: Context of *kubeconfig*. None means its current one.
        prices: Price list. None means that cost is not reported.
        region: Region of the prices, empty for that of the nodes.
        take_over: Make the cluster this member even if it was another member before.
        provider_command: The command that reports additional properties, empty if unset.
    """

    cluster: str
    hub_kubeconfig: Path | None
    hub_context: str | None
    kubeconfig: Path | None
    context: str | None
    prices: Path | None
    region: str
    take_over: bool
    provider_command: str

    def options(self) -> "AgentOptions":
        """Return the options of the agent. Raises `UserError`."""
        check_cluster("--cluster", self.cluster)
        if self.hub_context is not None and self.hub_kubeconfig is None:
            raise UserError(f"--hub-context {self.hub_context!r}: requires --hub-kubeconfig FILE")
        provider = split_command(self.provider_command)
        from webhook.processes.agent import AgentOptions

        return AgentOptions(
            cluster=self.cluster,
            hub_kubeconfig=self.hub_kubeconfig,
            hub_context=self.hub_context,
            kubeconfig=self.kubeconfig,
            context=self.context,
            prices=self.prices,
            provider=provider,
            region=self.region,
            take_over=self.take_over,
        )


@click.command("agent", help=HELP, short_help="Run the agent of a member cluster.")
@grouped(
    "agent",
    AgentArguments,
    click.option("--cluster", required=True, metavar="NAME", help="Name of the MemberCluster of this cluster."),
    click.option(
        "--hub-kubeconfig",
        type=_file,
        metavar="FILE",
        help="Kubeconfig of the hub, as this member.  [default: the Secret harbormaster-hub that `harbormaster join` "
        "writes]",
    ),
    click.option(
        "--hub-context", metavar="NAME", help="Context of the hub's kubeconfig.  [default: its current context]"
    ),
    click.option(
        "--kubeconfig",
        type=_file,
        metavar="FILE",
        help="Kubeconfig of the member.  [default: the pod's ServiceAccount]",
    ),
    click.option(
        "--context", metavar="NAME", help="Context of the member's kubeconfig.  [default: its current context]"
    ),
    click.option("--http-host", metavar="ADDRESS", help="Listen address for probes and metrics.  [default: 127.0.0.1]"),
    click.option(
        "--http-port",
        type=click.IntRange(0, 65535),
        help="Port for probes and metrics. 0: any free port.  [default: 8081]",
    ),
    click.option("--prices", type=_file, metavar="FILE", help="Price list. Without one, no cost is reported."),
    click.option(
        "--region", default="", metavar="NAME", help="Region whose prices apply.  [default: the region of the nodes]"
    ),
    click.option(
        "-n", "--namespace", metavar="NS", help="The agent's own namespace.  [default: that of its ServiceAccount]"
    ),
    click.option(
        "--blocked-namespaces",
        metavar="LIST",
        help="Namespaces that the agent does not change, in addition to its own and fleet-member-*. A trailing `*` "
        "matches any suffix.  [default: kube-*]",
    ),
    click.option(
        "--allowed-kinds",
        metavar="RULES",
        help="Kinds that the agent may change, such as `v1/ConfigMap,Secret; apps`.  [default: all]",
    ),
    click.option(
        "--take-over", is_flag=True, help="Make the cluster this member even if it was another member before."
    ),
    click.option(
        "--provider-command",
        default="",
        metavar="CMD",
        help="Command that reports additional properties, run without a shell.",
    ),
)
@log_format_option
def command(agent: AgentArguments, **option_values: Any) -> int:
    """Run until SIGTERM or SIGINT. Raises `UserError`."""
    from webhook.processes.garbage import load_without_collecting

    load_without_collecting()
    options = agent.options()
    from webhook.settings.agent import AgentSettings
    from webhook.settings.environment import SettingsError
    from webhook.telemetry.allocator import limit_allocator
    from webhook.telemetry.logs import configure

    try:
        settings = AgentSettings.read(os.environ, **option_values)
    except SettingsError as error:
        raise UserError(str(error)) from error
    configure(settings.log_format, settings.log_level)
    limit_allocator(os.environ)
    return _run(options, settings)


def check_cluster(source: str, name: str) -> None:
    """Validate the name of a member. *source* is the argument or setting that holds it. Raises `UserError`."""
    if not _NAME.fullmatch(name) or "." in name:
        raise UserError(
            f"{source}: {name[:64]!r} is not the name of a MemberCluster: lowercase letters, digits and '-', "
            "a letter or digit at both ends"
        )
    if len(name) > _LONGEST_NAME:
        raise UserError(f"{source}: {name[:64]!r} has {len(name)} characters, at most {_LONGEST_NAME} are allowed")


def split_command(text: str) -> tuple[str, ...]:
    """Split a command line as a shell would. Raises `UserError`."""
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise UserError(f"--provider-command: {text[:64]!r}: {str(error).lower()}") from error


def _run(options: "AgentOptions", settings: "AgentSettings") -> int:
    import asyncio

    import uvloop

    from webhook.kube.login.kubeconfig import ConfigurationError
    from webhook.processes.agent import Agent
    from webhook.runtime.price_files import PriceFileError
    from webhook.server.listening import Addresses, ListenError, serve

    def started(addresses: Addresses) -> None:
        complain(f"harbormaster agent of {options.cluster}: probes and metrics {addresses.http_url}")

    async def run() -> None:
        async with Agent(options, settings) as agent:
            await serve(agent.server, started)

    end_in_order()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(run())
    except (ConfigurationError, PriceFileError, ListenError) as error:
        raise UserError(str(error)) from error
    return 0
