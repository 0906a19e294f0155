"""``harbormaster serve``: admission and answers over a real hub, until a signal stops it."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from webhook.cli.errors import UserError, complain
from webhook.cli.operating.process_options import OwnHub, log_format_option, own_hub_options, shards_option
from webhook.cli.process import end_in_order

if TYPE_CHECKING:
    from collections.abc import Callable

    from webhook.processes.workers import Errand
    from webhook.server.listening import Addresses
    from webhook.settings.programs import ServeSettings

HELP = """Run the HTTPS server: admission webhooks, scheduler extender and /v1 API.

The server reads the hub through a kubeconfig, or with the ServiceAccount of its pod. On the hub, it writes its own
records (Leases of reservations, history and Events), its certificate authority if it keeps one, and, for authorized
callers, commands to upgrade runs and decisions on their gates. `harbormaster rbac serve` prints these rights. With
--reconcile, it also runs the reconcile loop. Register its webhooks with `harbormaster webhook-configuration`.

Every setting is also an environment variable HARBORMASTER_<NAME>. Admission settings, such as
HARBORMASTER_PLACEMENT_AUTHORIZATION, have no command-line option. `harbormaster settings` prints all settings.

Changed certificate files are reloaded without a signal. Without files, all replicas share a certificate authority in
the Secret that HARBORMASTER_CERTIFICATE_SECRET names, and make the API server trust it.

On SIGTERM, the server drains: it serves requests until all callers have disconnected, for at most
HARBORMASTER_DRAIN_LIMIT_SECONDS, so that no user's write fails because of the shutdown.

One process uses one CPU. With --workers, several processes serve the same ports, each with its own cache. Probes and
metrics cover all of them, and a process that dies is restarted. Only the first one reconciles.

\b
Examples:
  harbormaster serve --kubeconfig hub.kubeconfig --tls-cert tls.crt --tls-key tls.key
  HARBORMASTER_CERTIFICATE_SECRET=harbormaster-ca harbormaster serve --kubeconfig hub.kubeconfig --host 0.0.0.0
  HARBORMASTER_PLACEMENT_AUTHORIZATION=Enforce harbormaster serve --host 0.0.0.0 --tls-cert ... --tls-key ...

\b
Exit codes:
  0  stopped by a signal
  1  a file, a port or the kubeconfig cannot be used
"""


@click.command(
    "serve", help=HELP, short_help="Run the HTTPS server: admission webhooks, scheduler extender and /v1 API."
)
@own_hub_options
@click.option("--host", metavar="ADDRESS", help="Address of the HTTPS listener.  [default: 127.0.0.1]")
@click.option("--https-port", type=click.IntRange(0, 65535), help="HTTPS port. 0: any free port.  [default: 9443]")
@click.option("--http-host", metavar="ADDRESS", help="Address of the plain HTTP listener.  [default: 127.0.0.1]")
@click.option("--http-port", type=click.IntRange(0, 65535), help="Port for probes and metrics.  [default: 8081]")
@click.option("--tls-cert", type=click.Path(path_type=Path), metavar="FILE", help="Server certificate, in PEM.")
@click.option(
    "--tls-key", type=click.Path(path_type=Path), metavar="FILE", help="Private key of the certificate, in PEM."
)
@click.option(
    "--tls-ca", type=click.Path(path_type=Path), metavar="FILE", help="Authority that signed the certificate, in PEM."
)
@click.option(
    "--client-ca",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Authorities of client certificates, in PEM.  [default: those of the hub]",
)
@click.option(
    "--workers",
    type=click.IntRange(1),
    metavar="N",
    help="Number of processes on the same ports. More than one per CPU is of no use.  [default: 1]",
)
@click.option("-n", "--namespace", metavar="NS", help="Namespace of the installation.  [default: harbormaster-system]")
@click.option("--reconcile", is_flag=True, help="Also run the reconcile loop while this replica is the leader.")
@click.option(
    "--identity",
    default="",
    metavar="NAME",
    help="With --reconcile: prefix of the holder identity in the Lease of the loop.  [default: host name]",
)
@shards_option
@log_format_option
def command(hub: OwnHub, reconcile: bool, identity: str, **option_values: Any) -> int:
    """Serve until SIGTERM or SIGINT. Raises `click.UsageError` or `UserError`."""
    if identity and not reconcile:
        raise click.UsageError("--identity requires --reconcile")
    if option_values["shards"] is not None and not reconcile:
        raise click.UsageError("--shards requires --reconcile")
    from webhook.processes.garbage import load_without_collecting

    load_without_collecting()
    from webhook.settings.environment import SettingsError
    from webhook.settings.programs import ServeSettings

    try:
        settings = ServeSettings.read(os.environ, **option_values)
    except SettingsError as error:
        raise UserError(str(error)) from error
    from webhook.telemetry.allocator import limit_allocator
    from webhook.telemetry.logs import configure

    configure(settings.log_format, settings.log_level)
    limit_allocator(os.environ)
    return _run(settings, hub, identity if reconcile else None)


def _run(settings: "ServeSettings", hub: OwnHub, reconcile_as: str | None) -> int:
    # Before Ctrl-C is handled gracefully, and before workers are forked, so that they share the memory of loaded
    # modules.
    import webhook.processes.serve  # noqa: F401

    if settings.workers > 1:
        return _run_workers(settings, hub, reconcile_as)

    def started(addresses: "Addresses") -> None:
        complain(f"harbormaster serves {addresses.https_url}, probes and metrics {addresses.http_url}")

    end_in_order()
    if trouble := _serve(settings, hub, reconcile_as, started):
        raise UserError(trouble)
    return 0


def _serve(
    settings: "ServeSettings",
    hub: OwnHub,
    reconcile_as: str | None,
    on_start: "Callable[[Addresses], None]",
    errand: "Errand | None" = None,
) -> str:
    """Serve until a signal arrives. Return the reason if the server cannot run, else an empty string.

    Args:
        settings: Settings of the server.
        hub: The hub.
        reconcile_as: Identity for reconciling in the same process. None: disabled.
        on_start: Called when the listeners are open.
        errand: Errand of a worker. None if this is not a worker.
    """
    import asyncio

    import uvloop

    from certs.context import CertificateError
    from webhook.kube.login.kubeconfig import ConfigurationError
    from webhook.processes.serve import Serve
    from webhook.server.listening import ListenError, serve
    from webhook.settings.environment import SettingsError

    async def run() -> None:
        errand_task = None if errand is None else errand.watch()
        place = None if errand is None else errand.place
        kubeconfig = hub.kubeconfig or settings.kubeconfig_of_hub
        async with Serve(settings, kubeconfig, hub.context, reconcile_as=reconcile_as, place=place) as up:
            await serve(up.server, on_start, errand_task)

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(run())
    except (CertificateError, ConfigurationError, ListenError, SettingsError) as error:
        return str(error)
    return ""


def _run_workers(settings: "ServeSettings", hub: OwnHub, reconcile_as: str | None) -> int:
    import logging

    from webhook.processes.workers import Errand, StoppedError, WorkerError, Workers, processors
    from webhook.server.listening import Addresses, ListenError, open_sockets

    if settings.workers > processors():
        about = {"workers": settings.workers, "processors": processors()}
        logging.getLogger(__name__).warning("more workers than CPUs configured", extra=about)

    def work(errand: Errand) -> int:
        first = errand.place.seat.number == 1  # one loop is enough, as all others would wait for the lease
        trouble = _serve(settings, hub, reconcile_as if first else None, lambda _: errand.serves(), errand)
        if trouble:
            errand.fails(trouble)
        return 1 if trouble else 0

    def started() -> None:
        addresses = Addresses(*(sockets[0].getsockname()[:2] for sockets in (https, http)))
        urls = f"{addresses.https_url} with {settings.workers} workers, probes and metrics {addresses.http_url}"
        complain(f"harbormaster serves {urls}")

    try:
        https = open_sockets(settings.host, settings.https_port, "https_port")
        http = open_sockets(settings.http_host, settings.http_port, "http_port")
        Workers(settings.workers, https, http, work, started).run()
    except (ListenError, WorkerError) as error:
        raise UserError(str(error)) from error
    except StoppedError as error:
        return 128 + error.number
    return 0
