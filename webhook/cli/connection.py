"""Where the running hub is and how to be let in: what ``up`` wrote into its data folder, or what the user says.

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
