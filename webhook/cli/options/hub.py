"""``--kubeconfig``, ``--context``, ``--server`` and the other options that select the hub of a command.

Called as ``harbormaster``, a command uses the hub of ``up``, found by the kubeconfig in its data folder. Called by
kubectl, it uses the hub of kubectl. Options name any other hub. If the user may have meant another one, the command
prints the hub that it uses before it sends a request.

The environment is read as documented in `webhook.settings.command_line`.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import click

from webhook.cli.errors import UserError, complain
from webhook.cli.hub.connection import HubConnection
from webhook.cli.hub.kubeconfig import files_of_kubectl, find_kubeconfig
from webhook.cli.options.base import grouped, tab
from webhook.cli.program import called_by_kubectl
from webhook.kube.transport.addresses import check_address, is_loopback
from webhook.processes.data_folder import name_of_owner
from webhook.processes.hub_kubeconfig import FILE
from webhook.runtime.files import read_bounded
from webhook.settings.variables import CommandVariables

_Command = TypeVar("_Command", bound=Callable[..., Any])


def default_data(environment: Mapping[str, str]) -> Path:
    """Return the default data folder of ``up``."""
    return CommandVariables.read(environment).data


@dataclass(frozen=True, slots=True)
class HubOptions:
    """Options that select the hub. Every option is None if it is unset.

    Args:
        data: Data folder of ``up``.
        server: Address of a server, ``up`` or ``serve``.
        token_file: File with the token.
        ca_file: Trusted authorities.
        kubeconfig: A kubeconfig.
        context: A context of a kubeconfig.
    """

    data: Path | None = None
    server: str | None = None
    token_file: Path | None = None
    ca_file: Path | None = None
    kubeconfig: Path | None = None
    context: str | None = None

    def __bool__(self) -> bool:
        """Whether a hub is named."""
        return bool(self._of_up or self._of_kubectl)

    @property
    def _of_up(self) -> list[str]:
        options = {"--data": self.data, "--server": self.server, "--token-file": self.token_file}
        return [option for option, value in (options | {"--ca-file": self.ca_file}).items() if value]

    @property
    def _of_kubectl(self) -> list[str]:
        options = {"--kubeconfig": self.kubeconfig, "--context": self.context}
        return [option for option, value in options.items() if value is not None]

    def arguments(self) -> list[str]:
        """Return the options as arguments of another command."""
        values = {"data": self.data, "server": self.server, "token-file": self.token_file, "ca-file": self.ca_file}
        values |= {"kubeconfig": self.kubeconfig, "context": self.context}
        return [f"--{option}={value}" for option, value in values.items() if value is not None]

    def refuse_with_files(self) -> None:
        """Raise `click.UsageError` if a hub is named, because commands on files use no hub."""
        if self:
            options = ", ".join((*self._of_up, *self._of_kubectl))
            raise click.UsageError(f"{options}: with -f, the command evaluates the files and uses no hub")

    def find(self, environment: Mapping[str, str] | None = None, *, plugin: bool | None = None) -> HubConnection:
        """Return the selected hub and its credentials.

        Args:
            environment: Environment variables. None means those of the process.
            plugin: Whether kubectl called us. None: unknown, use `called_by_kubectl`.

        Raises:
            UserError: The options contradict each other, or lead to no hub.
        """
        environment = os.environ if environment is None else environment
        plugin = called_by_kubectl() if plugin is None else plugin
        if self._of_up and self._of_kubectl:
            up, kubectl = ", ".join(self._of_up), " or ".join(self._of_kubectl)
            raise UserError(f"{up}: cannot be used with {kubectl}")
        if self._of_kubectl or (plugin and not self._of_up):
            kubeconfig = find_kubeconfig(self.kubeconfig, self.context, environment)
            if not self and _another_of_up(environment, kubeconfig):
                complain(f"using {kubeconfig}. For the hub of harbormaster up: --data {default_data(environment)}")
            return kubeconfig
        try:
            connection = self._find_of_up(environment)
        except UserError as error:
            if self:
                raise
            option = _option_of_kubectl(environment)
            raise UserError([*error.lines[:-1], f"{error.lines[-1]}, or name another hub: {option}"]) from None
        if not self and (other := _another_of_kubectl(environment, connection)):
            complain(f"using {connection}, the hub of harbormaster up. For {other}: --context {other.context}")
        return connection

    def _find_of_up(self, environment: Mapping[str, str]) -> HubConnection:
        """Return the hub of ``up``. Options take precedence over variables, and the data folder provides the rest.

        The token in the data folder is only for the hub of that folder. It is sent to another address only if the
        authority of that folder vouches for the server there.

        Raises:
            UserError: There is no data folder of a hub, a file in it cannot be read, or the token is missing.
        """
        server = self.server
        if self.data is None:  # a folder named by the user selects the hub, regardless of the variable
            server = server or CommandVariables.read(environment).server
        folder = self.data or default_data(environment)
        advice = f"Start a hub with: harbormaster up{f' --data {folder}' if self.data else ''}"
        if server and self.token_file:
            return HubConnection(_checked(server), _token(self.token_file), self.ca_file, advice=advice)
        if server and not self.data and not (folder / FILE).exists():
            raise UserError(f"--server {_checked(server)}: a token is required: give its file with --token-file FILE")
        connection = _data_folder_hub(folder / FILE, advice)
        if server and self.ca_file and not self.token_file:
            own = connection.server.rstrip("/")
            if _checked(server) != own and self.ca_file != connection.ca_file:
                raise UserError(
                    f"--server {_checked(server)}: a token is required, and the one in {folder} is for {own}. Give "
                    "its file with --token-file FILE"
                )
        return replace(
            connection,
            server=_checked(server or connection.server),
            token=_token(self.token_file) if self.token_file else connection.token,
            ca_file=self.ca_file or connection.ca_file,
            advice=advice,
        )


def _another_of_up(environment: Mapping[str, str], connection: HubConnection) -> bool:
    """Return whether a hub other than *connection* would be selected if kubectl had not called us."""
    file = default_data(environment) / FILE
    return bool(CommandVariables.read(environment).server) or (file.exists() and file != connection.kubeconfig)


def _another_of_kubectl(environment: Mapping[str, str], connection: HubConnection) -> HubConnection | None:
    """Return the hub that kubectl would use, or None if it is *connection* or its kubeconfig is unusable."""
    other = _hub_of_kubectl(environment)
    return other if other and other.server != connection.server else None


def _option_of_kubectl(environment: Mapping[str, str]) -> str:
    """Return the option that selects the hub of kubectl or, if its kubeconfig is unusable, a placeholder."""
    hub = _hub_of_kubectl(environment)
    return f"--context {hub.context}" if hub and hub.context else "--kubeconfig FILE"


def _hub_of_kubectl(environment: Mapping[str, str]) -> HubConnection | None:
    """Return the hub that kubectl would use, or None if its kubeconfig is missing or unusable."""
    if not any(file.exists() for file in files_of_kubectl(environment)):
        return None
    try:
        return find_kubeconfig(None, None, environment)
    except UserError:
        return None


def _data_folder_hub(file: Path, advice: str) -> HubConnection:
    """Return the hub in the kubeconfig of a data folder. Raises `UserError`."""
    try:
        owner = file.stat().st_uid
    except FileNotFoundError:
        raise UserError(f"{file}: no such file, so there is no hub to connect to. {advice}") from None
    except OSError as error:
        raise UserError(f"{file}: {(error.strerror or str(error)).lower()}") from error
    if os.geteuid() not in (0, owner):  # another user's hub would receive this user's writes
        raise UserError(f"{file}: belongs to {name_of_owner(owner)} and not to you. {advice}")
    try:
        connection = find_kubeconfig(file, None, {})
    except UserError as error:
        raise UserError(f"{error.message}. {advice}") from error
    if not connection.ours or not connection.token:
        raise UserError(f"{file}: does not belong to harbormaster up. {advice}")
    return replace(connection, kubeconfig=None, context="")  # the token is its only credential


def _token(file: Path) -> str:
    try:
        token = read_bounded(file).decode("ascii").strip()
    except OSError as error:
        raise UserError(f"--token-file {file}: {(error.strerror or str(error)).lower()}") from error
    except UnicodeDecodeError:
        raise UserError(f"--token-file {file}: must contain only a token, in printable ASCII without spaces") from None
    if not token or not token.isprintable() or " " in token:
        raise UserError(f"--token-file {file}: must contain only a token, in printable ASCII without spaces")
    return token


def _checked(server: str) -> str:
    try:
        parts = check_address(server, "expected a URL such as https://127.0.0.1:9443")
    except ValueError as error:
        raise UserError(f"--server {server!r}: {error}") from error
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        raise UserError(f"--server {server!r}: the token is not sent over plain HTTP to another machine: use https")
    return server.rstrip("/")


_path = click.Path(path_type=Path)


def hub_options(command: _Command) -> _Command:
    """Add the options that name a hub to a command, as a `HubOptions` named ``hub``."""
    return grouped(
        "hub",
        HubOptions,
        click.option(
            "--kubeconfig",
            type=_path,
            metavar="FILE",
            help="Kubeconfig of the hub.  [default: kubectl's, if --context is given or as a kubectl plugin]",
        ),
        click.option(
            "--context",
            metavar="NAME",
            shell_complete=tab("contexts"),
            help="Context of the kubeconfig.  [default: its current context]",
        ),
        click.option(
            "--data",
            type=_path,
            metavar="DIR",
            help="Data directory of a running `harbormaster up`.  [env: HARBORMASTER_DATA]",
        ),
        click.option(
            "--server",
            metavar="URL",
            help="URL of `harbormaster up`. plan, render, explain, status, gate and budgets also accept that of "
            "`serve`.  [env: HARBORMASTER_SERVER]",
        ),
        click.option(
            "--token-file",
            type=_path,
            metavar="FILE",
            help="File with the bearer token.  [default: the token in the data directory]",
        ),
        click.option("--ca-file", type=_path, metavar="FILE", help="Certificate authority to trust (PEM)."),
    )(command)
