"""Where the running hub is and how to be let in: what ``up`` wrote into its data folder, or what the user says.

Commands that only look can also be pointed at any hub by a kubeconfig.

The environment is looked at here, once per command, as in `webhook.settings`.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import click

from webhook.cli.failure import UserError
from webhook.settings import LOOPBACK_HOSTS, PREFIX

CLIENT_FILE: Final = "client.json"

_Function = TypeVar("_Function", bound=Callable[..., Any])


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


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """A hub as kubectl finds it.

    Args:
        file: The kubeconfig.
        context: None: its current one.
    """

    file: Path
    context: str | None = None


def default_data(environment: Mapping[str, str]) -> Path:
    """Return the data folder of ``up`` where none is named: below ``XDG_STATE_HOME``, else ``~/.local/state``."""
    if named := environment.get(PREFIX + "DATA"):
        return Path(named)
    base = environment.get("XDG_STATE_HOME", "")
    state = Path(base) if Path(base).is_absolute() else Path.home() / ".local" / "state"
    return state / "harbormaster"


def find_connection(
    data: Path | None,
    server: str | None,
    token_file: Path | None,
    ca_file: Path | None,
    environment: Mapping[str, str] | None = None,
) -> Connection:
    """Find out how to reach the hub: what is given counts, the rest is in the data folder.

    Raises:
        UserError: There is no data folder of a hub, or something in it cannot be read.
    """
    environment = os.environ if environment is None else environment
    server = server or environment.get(PREFIX + "SERVER")
    folder = data or default_data(environment)
    advice = f"start a hub with: harbormaster up{f' --data {folder}' if data else ''}"
    if server and token_file:
        return Connection(_checked(server), _token(token_file), ca_file, advice)
    if server and not data and not (folder / CLIENT_FILE).exists():
        raise UserError(f"--server {_checked(server)}: a token is missing; name the file it is in: --token-file FILE")
    known = _client_file(folder / CLIENT_FILE, advice)
    token = _token(token_file) if token_file else str(known.get("token", ""))
    ca = ca_file or (Path(str(known["ca"])) if known.get("ca") else None)
    return Connection(_checked(server or str(known.get("server", ""))), token, ca, advice)


def find_hub(
    data: Path | None,
    server: str | None,
    token_file: Path | None,
    ca_file: Path | None,
    kubeconfig: Path | None,
    context: str | None,
    environment: Mapping[str, str] | None = None,
) -> Connection | Kubeconfig:
    """Find out how to reach the hub: by a kubeconfig when one is asked for, else as `find_connection` does.

    A kubeconfig that merely lies about is never taken: which hub answers must not depend on what else was done today.

    Raises:
        UserError: What is given does not fit together, or `find_connection` fails.
    """
    environment = os.environ if environment is None else environment
    if kubeconfig is None and context is None:
        try:
            return find_connection(data, server, token_file, ca_file, environment)
        except UserError as error:
            if data or server or token_file or ca_file:
                raise
            raise UserError([*error.lines[:-1], f"{error.lines[-1]}, or name another hub: --kubeconfig FILE"]) from None
    named = {"--data": data, "--server": server, "--token-file": token_file, "--ca-file": ca_file}
    given = [option for option, value in named.items() if value]
    if given:
        raise UserError(f"{', '.join(given)}: a hub is named by its kubeconfig or by these, not by both")
    return Kubeconfig(kubeconfig or _kubeconfig_of_kubectl(environment), context)


def _kubeconfig_of_kubectl(environment: Mapping[str, str]) -> Path:
    """Return the file that kubectl would read first."""
    named = [name for name in environment.get("KUBECONFIG", "").split(os.pathsep) if name]
    return Path(named[0]) if named else Path.home() / ".kube" / "config"


def _client_file(file: Path, advice: str) -> Mapping[str, Any]:
    try:
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
        parts = urlsplit(server)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise UserError(f"--server {server!r}: {error}") from error
    if parts.scheme not in ("https", "http") or not host or parts.path.strip("/") or parts.query:
        raise UserError(f"--server {server!r}: expected a URL such as https://127.0.0.1:9443")
    if parts.scheme == "http" and host not in LOOPBACK_HOSTS:
        raise UserError(f"--server {server!r}: the token is not sent over plain HTTP to another machine; use https")
    return server.rstrip("/")


def connection_options(command: _Function) -> _Function:
    """Give a command the options that `find_connection` takes."""
    path = click.Path(path_type=Path)
    options = (
        click.option("--ca-file", type=path, metavar="FILE", help="Certificate authority to trust (PEM)."),
        click.option("--token-file", type=path, metavar="FILE", help="File with the token to send."),
        click.option("--server", metavar="URL", help="The hub's address; also HARBORMASTER_SERVER."),
        click.option(
            "--data", type=path, metavar="DIR", help="Data folder of the running `up`; also HARBORMASTER_DATA."
        ),
    )
    for option in options:
        command = option(command)
    return command


def kubeconfig_options(command: _Function) -> _Function:
    """Give a command that only looks the two options more that `find_hub` takes."""
    options = (
        click.option("--context", metavar="NAME", help="Context of the kubeconfig; else its current one."),
        click.option("--kubeconfig", type=click.Path(path_type=Path), metavar="FILE", help="Any hub, as for kubectl."),
    )
    for option in options:
        command = option(command)
    return command
