"""``harbormaster unregister``: delete the webhook configurations before the servers stop."""

import os
from functools import partial
from typing import TYPE_CHECKING, Final

import click

from webhook.cli.errors import UserError
from webhook.cli.hub.kubeconfig import find_kubeconfig
from webhook.cli.operating.process_options import OwnHub, own_hub_options
from webhook.cli.options.base import run

if TYPE_CHECKING:
    from webhook.processes.unregister import Unregistered
    from webhook.settings.programs import UnregisterSettings

HELP: Final = """Delete the webhook configurations from a hub.

From then on, the hub's API server no longer calls harbormaster, and accepts everything that the
CustomResourceDefinitions allow. Run this command before you stop the last replica of `serve`: otherwise all writes
to harbormaster's kinds would fail. The Helm chart runs it before an uninstall.

It also counts the remaining objects: members, placements, overrides, runs, budgets and so on. Those with finalizers
cannot be deleted without the loop. Delete them before you stop the loop, or keep them for the next installation.

\b
Examples:
  harbormaster unregister --context hub
  harbormaster unregister --kubeconfig hub.kubeconfig --webhook-configuration harbormaster-hooks

\b
Exit codes:
  0  no webhook configuration of that name is left
  1  a webhook configuration could not be deleted, or the kubeconfig cannot be used
"""


@click.command("unregister", help=HELP, short_help="Delete the webhook configurations from a hub.")
@partial(own_hub_options, default="those of kubectl")
@click.option(
    "--webhook-configuration",
    metavar="NAME",
    help="Name of both webhook configurations.  [env: HARBORMASTER_WEBHOOK_CONFIGURATION]  [default: harbormaster]",
)
def command(hub: OwnHub, webhook_configuration: str | None) -> int:
    """Delete both configurations, and report the objects that wait for a loop. Raises `UserError`."""
    from webhook.settings.environment import SettingsError
    from webhook.settings.programs import UnregisterSettings

    try:
        settings = UnregisterSettings.read(os.environ, webhook_configuration=webhook_configuration)
    except SettingsError as error:
        raise UserError(str(error)) from error
    for line in run(_unregister(hub, settings)).lines():
        click.echo(line)
    return 0


async def _unregister(hub: OwnHub, settings: "UnregisterSettings") -> "Unregistered":
    """Delete both configurations. Raises `UserError`."""
    from webhook.kube.client.api_server import ApiServer
    from webhook.kube.login.kubeconfig import ConfigurationError
    from webhook.kube.ports import StoreError
    from webhook.processes.unregister import unregister

    file, context = hub.kubeconfig, hub.context
    if file or context or settings.kubernetes_service_host is None:  # otherwise the account of this pod
        connection = find_kubeconfig(file, context, os.environ)
        file, context = connection.kubeconfig, connection.context
    try:
        async with await ApiServer.connect(file, context) as server:
            return await unregister(server, settings.webhook_configuration)
    except (ConfigurationError, StoreError) as error:
        raise UserError(str(error)) from error
