"""How a command reaches its hub: one value, whichever way the hub was named."""

from dataclasses import dataclass, field
from pathlib import Path

from webhook.cli.documents import DEFAULT_NAMESPACE


@dataclass(frozen=True, slots=True)
class Connection:
    """A hub and the way in.

    Args:
        server: Its address.
        token: What it lets us in by, unless a kubeconfig says how.
        ca_file: Whom to trust, unless a kubeconfig says so; None: whom the system trusts.
        kubeconfig: The kubeconfig that says how to get in; None: there is none, or its token is all there is to it.
        context: A context of the kubeconfig.
        namespace: Where objects are looked for when nobody says where.
        ours: It is a server of harbormaster: it answers questions itself, and that of ``up`` plays its members. What
            else a kubeconfig leads to knows objects alone.
        advice: What to do when nobody answers.
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
