"""Address and credentials of a hub, and one-line messages for failures. Imports nothing that connects to it."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import quote

from webhook.cli.errors import UserError
from webhook.cli.files.documents import DEFAULT_NAMESPACE
from webhook.kube.ports import UnavailableError

SECONDS: Final = 60.0
"""Timeout of a response."""


@dataclass(frozen=True, slots=True)
class HubConnection:
    """Address and credentials of a hub.

    Args:
        server: URL of the hub.
        token: The bearer token, unless *kubeconfig* contains the credentials.
        ca_file: The trusted authorities, unless *kubeconfig* contains them. None means those of the system.
        kubeconfig: The kubeconfig with the credentials. None if *token* is the only credential.
        context: Context of the kubeconfig.
        namespace: Default namespace if the user names none.
        ours: Whether the server is a harbormaster, which answers questions itself. The server of ``up`` also simulates
            its members. Other servers only store objects.
        advice: Advice for the user if the server does not respond.
    """

    server: str
    token: str = field(default="", repr=False)
    ca_file: Path | None = None
    kubeconfig: Path | None = None
    context: str = ""
    namespace: str = DEFAULT_NAMESPACE
    ours: bool = True
    advice: str = ""

    def __str__(self) -> str:
        """Return a name of the hub for use in a sentence."""
        return f'{self.server} (context "{self.context}" of {self.kubeconfig})' if self.kubeconfig else self.server


def no_address(connection: HubConnection, error: ValueError) -> UserError:
    """Return the error for a hub whose address is not a URL."""
    location = f"kubeconfig {connection.kubeconfig}" if connection.kubeconfig else f"--server {connection.server!r}"
    return UserError(f"{location}: {error}")


def unreachable(connection: HubConnection, error: Exception) -> UserError:
    """Return the error for a hub that does not respond.

    Args:
        connection: The hub.
        error: An `UnavailableError` of `webhook.kube.client.cli_client` or `webhook.kube.client.api_server`, or a
            timeout.
    """
    import ssl  # only after a failure: commands on files start faster without it

    if isinstance(error, UnavailableError):
        if connection.kubeconfig is not None:
            return UserError(str(error))
        error = error.__cause__ if isinstance(error.__cause__, Exception) else error
    match error:
        case ssl.SSLCertVerificationError():
            reason = error.verify_message or str(error)
            return UserError(f"{connection}: its certificate is not trusted ({reason}). {_whom_to_trust(connection)}")
        case TimeoutError():
            return UserError(f"{connection} did not answer within {SECONDS:g} s")
        case ConnectionResetError() | BrokenPipeError() | ConnectionAbortedError():
            return UserError(f"{connection}: connection lost ({str(error) or type(error).__name__})")
        case OSError():
            reason = (error.strerror or str(error)).lower()
            return UserError(f"cannot reach {connection}: {reason}. {connection.advice}")
    return UserError(f"{connection}: connection lost ({str(error) or type(error).__name__})")


def unauthorized_hint(connection: HubConnection, content: bytes) -> UserError:
    """Return the likely cause of a 401. A harbormaster on a real hub reports the audience that a token needs.

    Args:
        connection: The hub.
        content: Body of the response.
    """
    if connection.kubeconfig is not None:
        return UserError(f"{connection} does not accept the token or certificate of this context")
    try:
        audience = json.loads(content).get("audience")
    except (ValueError, AttributeError):
        audience = None
    if not isinstance(audience, str) or not audience:
        return UserError(f"{connection} does not accept the token: is it the token of this hub's data folder?")
    command = f"kubectl create token NAME --audience {quote(audience, safe=':/.')}"
    reason = "does not accept the token: has it expired, or is it for another audience?"
    return UserError(f"{connection} {reason} Create one with: {command}")


def _whom_to_trust(connection: HubConnection) -> str:
    file = connection.ca_file
    if file is None:
        return "To trust the CA that signed it, use --ca-file FILE"
    return f"{file} did not sign it, or it is for another name. To trust another CA, use --ca-file FILE"
