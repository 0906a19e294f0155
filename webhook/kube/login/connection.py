"""Connection parameters of an API server: address, CA and credentials, independent of any kubeconfig."""

import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from webhook.kube.login.kubeconfig import ConfigurationError
from webhook.kube.transport.addresses import is_loopback

Credentials = Callable[[], Awaitable[Mapping[str, str]]]
"""Returns authentication headers. Called before every request, so that expiring credentials can be renewed."""


async def no_credentials() -> Mapping[str, str]:
    """Return no headers: the request is anonymous, or authenticated by the client certificate."""
    return {}


@dataclass(frozen=True, slots=True)
class Login:
    """Address, trust and credentials of an API server.

    Args:
        address: URL, optionally with a path.
        trust: TLS settings, including a client certificate. True: the system's authorities. False: no verification.
        credentials: Returns the authentication headers.
        proxy: URL of the proxy.
        server_name: Name in the server's certificate. None means the host of the address.
    """

    address: str
    trust: ssl.SSLContext | bool = True
    credentials: Credentials = no_credentials
    proxy: str | None = None
    server_name: str | None = None

    @classmethod
    def by_token(cls, address: str, token: str, ca_file: Path | None) -> Self:
        """Return the login with a token that does not expire. Proxies from the environment are ignored.

        Args:
            address: URL, optionally with a path.
            token: The token.
            ca_file: Authorities in PEM. None means those of the system. Not read for plain HTTP.

        Raises:
            OSError: The file cannot be read, or, as `ssl.SSLError`, has no certificate.
        """
        trust = not address.startswith("https:") or ssl.create_default_context(cafile=ca_file)

        async def shown() -> Mapping[str, str]:
            return {"Authorization": f"Bearer {token}"}

        return cls(address, trust, shown)


@dataclass(frozen=True, slots=True)
class ApiServerEndpoint:
    """Address of an API server for other clients: a login without credentials.

    Args:
        server: URL, optionally with a path.
        authorities: Authorities in PEM, empty for those of the system.
        server_name: Name in the server's certificate, empty for the host of the URL.
        proxy: URL of the proxy, empty for that of the client's environment, if any.
    """

    server: str
    authorities: str = ""
    server_name: str = ""
    proxy: str = ""

    def login(self, credentials: Credentials) -> Login:
        """Return the login with *credentials*.

        Raises:
            ConfigurationError: The authorities are not certificates.
        """
        try:
            trust = ssl.create_default_context(cadata=self.authorities or None)
        except (ssl.SSLError, ValueError) as error:
            raise ConfigurationError(
                f"the authorities of {self.server} must be certificates in PEM: {error}"
            ) from error
        proxy = self.proxy or environment_proxy(self.server)
        return Login(self.server, trust, credentials, proxy, self.server_name or None)


def environment_proxy(address: str) -> str | None:
    """Return the proxy for the API server from the environment.

    None: unset, or disabled for this host by ``NO_PROXY``. Loopback addresses are never proxied, as in kubectl.
    """
    url = urlsplit(address)
    if is_loopback(url.hostname or ""):
        return None
    from urllib.request import getproxies, proxy_bypass

    if proxy_bypass(url.hostname or ""):
        return None
    return getproxies().get(url.scheme)
