"""Who is known to a hub with RBAC: tokens, rights, and certificates of clients."""

import ssl
from dataclasses import dataclass, field
from datetime import UTC, datetime

from certs.authority import Authority
from certs.client_authorities import AuthorityFile
from e2e.controlplane.client_certificate import issue_client_certificate
from webhook.access.ports import NotReviewedError
from webhook.access.user import UserInfo

EVERYBODY = "system:authenticated"


@dataclass
class Roster:
    """Tokens and rights as a hub with RBAC would know them; ``rights`` are (user, verb path or access) pairs.

    ``down``: the hub does not answer.
    """

    users: dict = field(default_factory=dict)
    rights: set = field(default_factory=set)
    down: bool = False
    remembered: set = field(default_factory=set)
    looked_at: list = field(default_factory=list)
    audience = "harbormaster.test.svc"

    def cached(self, token):
        return self.users[token] if token in self.remembered else None

    async def authenticate(self, token):
        self.looked_at.append(token)
        if self.down:
            raise NotReviewedError("connection refused")
        return self.users.get(token)

    async def may(self, user, wanted):
        if self.down:
            raise NotReviewedError("connection refused")
        return (user.username, str(wanted)) in self.rights


def roster(*rights: str, **more) -> Roster:
    return Roster({"t-ann": UserInfo("ann", frozenset({EVERYBODY}))}, {("ann", right) for right in rights}, **more)


class Certificates:
    """Two authorities, one of them trusted for clients, and who has a certificate of which."""

    def __init__(self, folder):
        self.folder = folder
        self.good, self.foreign = (Authority.new(datetime.now(UTC)) for _ in range(2))
        self.file = folder / "clients.crt"
        self.file.write_bytes(self.good.pem)

    @property
    def source(self) -> AuthorityFile:
        return AuthorityFile(self.file, 3600)

    def trust(self, port, name="kube-scheduler", groups=("schedulers", "nodes"), *, of=None, **how) -> ssl.SSLContext:
        context = ssl.create_default_context(cadata=port.server.certificates.trust_pem.decode())
        return issue_client_certificate(of or self.good, self.folder, name, groups, **how).show(context)
