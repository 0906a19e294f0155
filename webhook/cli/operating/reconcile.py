"""``harbormaster reconcile``: the loop over a real hub, which runs until a signal stops it."""

import os
from typing import TYPE_CHECKING, Any

import click

from webhook.cli.errors import UserError, complain
from webhook.cli.operating.process_options import OwnHub, log_format_option, own_hub_options, shards_option
from webhook.cli.process import end_in_order

if TYPE_CHECKING:
    from webhook.settings.programs import ReconcileSettings

HELP = """Run the reconcile loop of a hub.

The loop turns placements into bindings, Works and status. On the members, `harbormaster agent` applies the Works. Any
number of replicas may run. One of them leads: it holds the Lease `harbormaster-reconcile` in the namespace given by -n,
which must exist. If it stops, another one takes over within seconds. With --shards, several replicas are active, each
with its share of placements and members. `harbormaster rbac reconcile` prints the rights that the loop needs.

Every setting is also an environment variable HARBORMASTER_<NAME>, and most settings have no option. `harbormaster
settings reconcile` prints them.

\b
Examples:
  kubectl --kubeconfig hub.kubeconfig create namespace harbormaster-system
  harbormaster reconcile --kubeconfig hub.kubeconfig
  harbormaster reconcile --kubeconfig hub.kubeconfig --shards 3
  HARBORMASTER_BLOCKED_KINDS='v1/Secret' harbormaster reconcile --kubeconfig hub.kubeconfig --http-port 8082

\b
Exit codes:
  0  stopped by a signal (the Lease is released immediately)
  1  a setting, the port or the kubeconfig cannot be used, or the work did not stop when the Lease was lost
"""


@click.command("reconcile", help=HELP, short_help="Run the reconcile loop of a hub.")
@own_hub_options
@click.option("-n", "--namespace", metavar="NS", help="Namespace of the Lease.  [default: harbormaster-system]")
@click.option("--http-host", metavar="ADDRESS", help="Listen address for probes and metrics.  [default: 127.0.0.1]")
@click.option(
    "--http-port",
    type=click.IntRange(0, 65535),
    help="Port for probes and metrics. 0: any free port.  [default: 8081]",
)
@click.option(
    "--identity",
    default="",
    metavar="NAME",
    help="Prefix of the holder identity in the Lease.  [default: host name]",
)
@shards_option
@log_format_option
def command(hub: OwnHub, identity: str, **option_values: Any) -> int:
    """Reconcile until SIGTERM or SIGINT. Raises `UserError`."""
    from webhook.processes.garbage import load_without_collecting

    load_without_collecting()
    from webhook.settings.environment import SettingsError
    from webhook.settings.programs import ReconcileSettings

    try:
        settings = ReconcileSettings.read(os.environ, **option_values)
    except SettingsError as error:
        raise UserError(str(error)) from error
    from webhook.telemetry.allocator import limit_allocator
    from webhook.telemetry.logs import configure

    configure(settings.log_format, settings.log_level)
    limit_allocator(os.environ)
    return _run(settings, hub, identity)


def _run(settings: "ReconcileSettings", hub: OwnHub, identity: str) -> int:
    import asyncio

    import uvloop

    from webhook.kube.login.kubeconfig import ConfigurationError
    from webhook.processes.reconcile import Reconcile
    from webhook.server.listening import Addresses, ListenError, serve
    from webhook.settings.environment import SettingsError

    def started(addresses: Addresses) -> None:
        complain(f"harbormaster reconciles, probes and metrics {addresses.http_url}")

    async def run() -> None:
        kubeconfig = hub.kubeconfig or settings.kubeconfig_of_hub
        async with Reconcile(settings, kubeconfig, hub.context, identity) as up:
            await serve(up.server, started)

    end_in_order()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(run())
    except (ConfigurationError, ListenError, SettingsError) as error:
        raise UserError(str(error)) from error
    return 0
