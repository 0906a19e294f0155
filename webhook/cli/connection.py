"""How a command reaches its hub: one value, no matter how the user named the hub."""

from dataclasses import dataclass, field
from pathlib import Path

from webhook.cli.documents import DEFAULT_NAMESPACE


@dataclass(frozen=True, slots=True)
class Connection:
    """A hub, and how to log in to it.

    Args:
        server: Its address.
        token: The bearer token, unless a kubeconfig has the credentials.
        ca_file: The trusted authorities, unless a kubeconfig has them; None: those of the system.
        kubeconfig: The kubeconfig with the credentials; None: there is none, or it has only the token.
        context: A context of the kubeconfig.
        namespace: Where to look for objects when the user names no namespace.
        ours: It is a server of harbormaster, which answers questions itself; that of ``up`` also simulates its
            members. Any other server that a kubeconfig leads to only has objects.
        advice: What to do when the server does not answer.
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
        """Name the hub in a sentence."""
        return f'{self.server} (context "{self.context}" of {self.kubeconfig})' if self.kubeconfig else self.server
