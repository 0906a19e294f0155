"""Options of a command that needs the hub and a member: one context for each."""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from webhook.cli.errors import UserError
from webhook.cli.hub.connection import HubConnection
from webhook.cli.hub.kubeconfig import find_kubeconfig
from webhook.cli.options.base import grouped

if TYPE_CHECKING:
    from webhook.processes.agent_installation import Helm
    from webhook.processes.sides import Side
    from webhook.settings.programs import JoinSettings

_Command = TypeVar("_Command", bound=Callable[..., Any])
_file = click.Path(path_type=Path)


@dataclass(frozen=True, slots=True)
class Sides:
    """Contexts and kubeconfigs of the hub and the member.

    Args:
        context: Context of the hub.
        kubeconfig: File with that context. None means those of kubectl.
        member_context: Context of the member. None if the member is not contacted.
        member_kubeconfig: File with that context. None: unset, as *kubeconfig*.
        hub_namespace: Namespace of harbormaster on the hub. None means the one of the settings.
        namespace: Namespace of the agent in the member. None means the one of the settings.
    """

    context: str
    kubeconfig: Path | None
    member_context: str | None
    member_kubeconfig: Path | None
    hub_namespace: str | None
    namespace: str | None

    def find_hub(self) -> HubConnection:
        """Return the hub. Raises `UserError`."""
        kubeconfig = find_kubeconfig(self.kubeconfig, self.context, os.environ)
        if kubeconfig.ours:
            raise UserError(f"--context {self.context!r}: is the hub of `harbormaster up`, which simulates its members")
        return kubeconfig

    def find_member(self) -> HubConnection | None:
        """Return the member, or None if the user names none. Raises `UserError`."""
        if self.member_context is None:
            return None
        return find_kubeconfig(self.member_kubeconfig or self.kubeconfig, self.member_context, os.environ)


def sides_options(*, member_required: bool) -> Callable[[_Command], _Command]:
    """Return the options that name hub and member, as ``sides``."""
    return grouped(
        "sides",
        Sides,
        click.option("--context", required=True, metavar="NAME", help="Kubeconfig context of the hub."),
        click.option(
            "--kubeconfig",
            type=_file,
            metavar="FILE",
            help="Kubeconfig with that context.  [default: $KUBECONFIG, or ~/.kube/config]",
        ),
        click.option(
            "--member-context", required=member_required, metavar="NAME", help="Kubeconfig context of the member."
        ),
        click.option(
            "--member-kubeconfig",
            type=_file,
            metavar="FILE",
            help="Kubeconfig with that context.  [default: the kubeconfig of the hub]",
        ),
        click.option(
            "--hub-namespace",
            metavar="NS",
            help="Namespace of harbormaster on the hub.  [env: HARBORMASTER_NAMESPACE]  [default: harbormaster-system]",
        ),
        click.option(
            "-n",
            "--namespace",
            metavar="NS",
            help="Namespace of the agent in the member.  [env: HARBORMASTER_NAMESPACE]  [default: harbormaster-system]",
        ),
    )


def read_settings(namespace: str | None) -> "JoinSettings":
    """Return the settings of the environment. *namespace* replaces HARBORMASTER_NAMESPACE. Raises `UserError`."""
    from webhook.settings.environment import SettingsError
    from webhook.settings.programs import JoinSettings

    try:
        return JoinSettings.read(os.environ, namespace=namespace)
    except SettingsError as error:
        raise UserError(str(error)) from error


def find_helm(member: HubConnection, namespace: str) -> "Helm | None":
    """Return the helm of the caller, for a namespace of a member. None: unset, not installed."""
    from webhook.processes.agent_installation import Helm

    assert member.kubeconfig is not None
    return Helm.find(member.kubeconfig, member.context, namespace, os.environ)


@asynccontextmanager
async def connected(name: str, connection: HubConnection) -> "AsyncIterator[Side]":
    """Yield one side, with the user's rights. *name* is ``hub`` or ``member``. Raises `UserError`."""
    from webhook.kube.client.api_server import ApiServer
    from webhook.kube.login.kubeconfig import ConfigurationError
    from webhook.processes.sides import Side

    try:
        server = await ApiServer.connect(connection.kubeconfig, connection.context)
    except ConfigurationError as error:
        raise UserError(str(error)) from error
    async with server:
        yield Side(name, connection.context, server)
