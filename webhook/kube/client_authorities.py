"""The authorities whose client certificates the hub itself accepts.

kube-apiserver publishes its ``--client-ca-file`` for servers like ours, in a ConfigMap that every account may read that
is bound to the Role ``extension-apiserver-authentication-reader``.

Source: serving.md 3.4.
"""

from typing import Final

from certs.context import CertificateError
from scorer.api.documents import text_at
from scorer.api.kinds import KINDS
from webhook.kube.client import ApiServer
from webhook.kube.paths import path_of
from webhook.kube.ports import StoreError

CONFIG_MAP: Final = "extension-apiserver-authentication"
KEY: Final = "client-ca-file"
CHECK_SECONDS: Final = 60.0
READ_SECONDS: Final = 5.0

_PATH: Final = path_of(KINDS["", "ConfigMap"], "kube-system", CONFIG_MAP)


class HubAuthorities:
    """What the hub publishes.

    Args:
        server: The hub.
    """

    check_seconds = CHECK_SECONDS

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    async def read(self) -> bytes:
        """Return the authorities in PEM. Raises `CertificateError`."""
        where = f"ConfigMap kube-system/{CONFIG_MAP}"
        try:
            document = await self._server.request("GET", _PATH, seconds=READ_SECONDS)
        except StoreError as error:
            raise CertificateError(f"{where}: {error}") from error
        pem = text_at(document, "data", KEY)
        if not pem.strip():
            raise CertificateError(f"{where}: has no {KEY}; the hub accepts no client certificates")
        return pem.encode()
