"""Which hub a command asks, and how to be let in.

Called as ``harbormaster`` that is the hub of ``up``, found by its data folder; called by kubectl it is the one that
kubectl would ask. Options name any other. Where the other one could have been meant as well, the user is told which
one answers, before anything is done to it.

The environment is read as `webhook.settings.command_line` says.
"""

import functools
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from webhook.cli.documents import DEFAULT_NAMESPACE
from webhook.cli.failure import UserError, complain
from webhook.cli.kubeconfig import Kubeconfig, files_of_kubectl, find_kubeconfig
from webhook.cli.root import KUBECTL
from webhook.kube.addresses import check_address
from webhook.processes.data_folder import name_of_owner
from webhook.settings.command_line import CommandLineSettings
from webhook.settings.data_folder import DataSettings
from webhook.settings.listener import LOOPBACK_HOSTS

CLIENT_FILE: Final = "client.json"


@dataclass(frozen=True, slots=True)
class Connection:
    """How to reach a hub.

    Args:
        server: URL of its HTTPS listener; plain HTTP only on this machine.
        token: What it lets us in by.
        ca_file: Whom to trust; None: whom the system trusts.
        advice: What to do when nobody answers.
    """

    server: str
    token: str
    ca_file: Path | None = None
    advice: str = "start a hub with: harbormaster up"


def default_data(environment: Mapping[str, str]) -> Path:
    """Return the data folder of ``up`` where no option names one."""
    return DataSettings.read(environment).data


def find_connection(
    data: Path | None,
    server: str | None,
    token_file: Path | None,
    ca_file: Path | None,
    environment: Mapping[str, str] | None = None,
) -> Connection:
    """Find out how to reach the hub: what is given counts, then the variables, and the rest is in the data folder.

    The token in the data folder is for the hub of that folder, which its authority vouches for: it is sent to another
    address of it, and to nobody for whom another authority is to vouch.

    Raises:
        UserError: There is no data folder of a hub, or something in it cannot be read, or there is no token.
    """
    environment = os.environ if environment is None else environment
    if data is None:  # the hub of a folder that is named is no other one
        server = server or CommandLineSettings.read(environment).server
    folder = data or default_data(environment)
    advice = f"start a hub with: harbormaster up{f' --data {folder}' if data else ''}"
    if server and token_file:
        return Connection(_checked(server), _token(token_file), ca_file, advice)
    if server and not data and not (folder / CLIENT_FILE).exists():
        raise UserError(f"--server {_checked(server)}: a token is missing; name the file it is in: --token-file FILE")
    known = _client_file(folder / CLIENT_FILE, advice)
    own = str(known.get("server", "")).rstrip("/")
    if server and ca_file and not token_file and _checked(server) != own and str(ca_file) != known.get("ca"):
        raise UserError(
            f"--server {_checked(server)}: a token is missing, the one in {folder} is for {own}; "
            "name the file it is in: --token-file FILE"
        )
    token = _token(token_file) if token_file else str(known.get("token", ""))
    ca = ca_file or (Path(str(known["ca"])) if known.get("ca") else None)
    return Connection(_checked(server or str(known.get("server", ""))), token, ca, advice)


@dataclass(frozen=True, slots=True)
class HubOptions:
    """What the user says about the hub; all of it may be None.

    Args:
        data: Data folder of ``up``.
        server: Address of its listener.
        token_file: File with the token.
        ca_file: Whom to trust.
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
        named = {"--data": self.data, "--server": self.server, "--token-file": self.token_file}
        return [option for option, value in (named | {"--ca-file": self.ca_file}).items() if value]

    @property
    def _of_kubectl(self) -> list[str]:
        named = {"--kubeconfig": self.kubeconfig, "--context": self.context}
        return [option for option, value in named.items() if value is not None]

    def refuse_with_files(self) -> None:
        """Raise `click.UsageError` when a hub is named: files are asked, so it would not be."""
        if self:
            named = ", ".join((*self._of_up, *self._of_kubectl))
            raise click.UsageError(f"{named}: with -f the files are asked, and no hub")

    def find(
        self, environment: Mapping[str, str] | None = None, *, plugin: bool | None = None
    ) -> Connection | Kubeconfig:
        """Find out which hub is meant and how to reach it.

        Args:
            environment: The variables of the process, which is where they come from when it is None.
            plugin: Whether kubectl called us; None: as `called_by_kubectl` says.

        Raises:
            UserError: What is given does not fit together, or leads to no hub.
        """
        environment = os.environ if environment is None else environment
        plugin = called_by_kubectl() if plugin is None else plugin
        if self._of_up and self._of_kubectl:
            named = ", ".join(self._of_up)
            raise UserError(f"{named}: a hub is named by its kubeconfig or by these, not by both")
        if self._of_kubectl or (plugin and not self._of_up):
            found = find_kubeconfig(self.kubeconfig, self.context, environment)
            if not self and _up_could_be_meant(environment):
                complain(f"asking {found}; for the hub of harbormaster up: --data {default_data(environment)}")
            return found
        try:
            connection = find_connection(self.data, self.server, self.token_file, self.ca_file, environment)
        except UserError as error:
            if self:
                raise
            raise UserError([*error.lines[:-1], f"{error.lines[-1]}, or name another hub: --kubeconfig FILE"]) from None
        if not self and (other := _meant_by_kubectl(environment)):
            complain(f"asking {connection.server}, the hub of harbormaster up; for {other}: --context {other.context}")
        return connection


def namespace_of(found: Connection | Kubeconfig) -> str:
    """Return where a hub's objects are looked for when nobody says where."""
    return found.namespace if isinstance(found, Kubeconfig) else DEFAULT_NAMESPACE


def called_by_kubectl() -> bool:
    """Say whether this process is ``kubectl harbormaster``, or whatever name the plugin was given."""
    context = click.get_current_context(silent=True)
    return context is not None and (context.find_root().info_name or "").startswith(KUBECTL)


def _up_could_be_meant(environment: Mapping[str, str]) -> bool:
    """Say whether a hub would be found if kubectl had not called us."""
    return bool(CommandLineSettings.read(environment).server) or (default_data(environment) / CLIENT_FILE).exists()


def _meant_by_kubectl(environment: Mapping[str, str]) -> Kubeconfig | None:
    """Return which hub kubectl would ask; None: none, as far as one can see."""
    if not any(file.exists() for file in files_of_kubectl(environment)):
        return None
    try:
        return find_kubeconfig(None, None, environment)
    except UserError:
        return None


def _client_file(file: Path, advice: str) -> Mapping[str, Any]:
    try:
        owner = file.stat().st_uid
        if os.geteuid() not in (0, owner):  # the hub of somebody else, who would be sent what is written
            raise UserError(f"{file}: belongs to {name_of_owner(owner)} and not to you; {advice}")
        known = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UserError(f"{file}: no such file, so no hub is known; {advice}") from None
    except OSError as error:
        raise UserError(f"{file}: {(error.strerror or str(error)).lower()}") from error
    except ValueError as error:
        raise UserError(f"{file}: is damaged ({error}); {advice}") from error
    if not isinstance(known, dict):
        raise UserError(f"{file}: is damaged (not an object); {advice}")
    return known


def _token(file: Path) -> str:
    try:
        token = file.read_text(encoding="ascii").strip()
    except OSError as error:
        raise UserError(f"--token-file {file}: {(error.strerror or str(error)).lower()}") from error
    except UnicodeDecodeError:
        raise UserError(f"--token-file {file}: is not a token") from None
    if not token or not token.isprintable() or " " in token:
        raise UserError(f"--token-file {file}: is not a token")
    return token


def _checked(server: str) -> str:
    try:
        parts = check_address(server, "expected a URL such as https://127.0.0.1:9443")
    except ValueError as error:
        raise UserError(f"--server {server!r}: {error}") from error
    if parts.scheme == "http" and parts.hostname not in LOOPBACK_HOSTS:
        raise UserError(f"--server {server!r}: the token is not sent over plain HTTP to another machine; use https")
    return server.rstrip("/")


def hub_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that name a hub; it gets them as one `HubOptions` named ``hub``."""

    @functools.wraps(command)
    def collected(*arguments: Any, **given: Any) -> Any:
        names = ("data", "server", "token_file", "ca_file", "kubeconfig", "context")
        hub = HubOptions(**{name: given.pop(name) for name in names})
        return command(*arguments, hub=hub, **given)

    path = click.Path(path_type=Path)
    options = (
        click.option("--ca-file", type=path, metavar="FILE", help="Certificate authority to trust (PEM)."),
        click.option("--token-file", type=path, metavar="FILE", help="File with the token to send."),
        click.option("--server", metavar="URL", help="The hub's address; also HARBORMASTER_SERVER."),
        click.option(
            "--data", type=path, metavar="DIR", help="Data folder of the running `up`; also HARBORMASTER_DATA."
        ),
        click.option("--context", metavar="NAME", help="Any hub: context of the kubeconfig; else its current one."),
        click.option(
            "--kubeconfig", type=path, metavar="FILE", help="Any hub, as for kubectl; called by kubectl, its own."
        ),
    )
    wrapped: Callable[..., Any] = collected
    for option in options:
        wrapped = option(wrapped)
    return wrapped
