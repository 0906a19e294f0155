"""Connection parameters of an API server: its address, its CA and the credentials to present.

No kubeconfig is needed for them.
"""

import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from webhook.kube.transport.addresses import is_loopback

Credentials = Callable[[], Awaitable[Mapping[str, str]]]
"""Returns the headers that let us in; called before every request, so that what expires can be renewed."""


class ConfigurationError(Exception):
    """There is no usable kubeconfig; the message names it and says what is wrong."""


async def no_credentials() -> Mapping[str, str]:
    """Show no credentials: the request is anonymous, or identified by the client certificate."""
    return {}


@dataclass(frozen=True, slots=True)
class Login:
    """Where an API server is, whom to trust there, and what to show.

    Args:
        address: Its URL, perhaps with a path.
        trust: For TLS, with our client certificate if there is one; True: the system's authorities, False: no check.
        credentials: What lets us in.
        proxy: URL of the proxy in between.
        server_name: The name that its certificate has to bear; None: the one in the address.
    """

    address: str
    trust: ssl.SSLContext | bool = True
    credentials: Credentials = no_credentials
    proxy: str | None = None
    server_name: str | None = None

    @classmethod
    def by_token(cls, address: str, token: str, ca_file: Path | None) -> Self:
        """Return the login with a token that does not expire; proxies that the environment names are not used.

        Args:
            address: As above.
            token: The token.
            ca_file: Authorities in PEM; None: those of the system. Not read for plain HTTP.

        Raises:
            OSError: The file cannot be read; `ssl.SSLError` when it holds no certificate.
        """
        trust = not address.startswith("https:") or ssl.create_default_context(cafile=ca_file)

        async def shown() -> Mapping[str, str]:
            return {"Authorization": f"Bearer {token}"}

        return cls(address, trust, shown)


@dataclass(frozen=True, slots=True)
class ApiServerEndpoint:
    """An API server as another client can be told of it: all of a login but the credentials.

    Args:
        server: Its URL, perhaps with a path.
        authorities: Those that vouch for it, in PEM; empty: those of the system.
        server_name: The name that its certificate has to bear; empty: the one in the URL.
        proxy: URL of the proxy in between; empty: the one that the environment of the client names, if it does.
    """

    server: str
    authorities: str = ""
    server_name: str = ""
    proxy: str = ""

    def login(self, credentials: Credentials) -> Login:
        """Return the login with *credentials*.

        Raises:
            ConfigurationError: The authorities are no certificates.
        """
        try:
            trust = ssl.create_default_context(cadata=self.authorities or None)
        except (ssl.SSLError, ValueError) as error:
            raise ConfigurationError(f"the authorities of {self.server} are no certificates in PEM: {error}") from error
        proxy = self.proxy or environment_proxy(self.server)
        return Login(self.server, trust, credentials, proxy, self.server_name or None)


def environment_proxy(address: str) -> str | None:
    """Return the proxy that the environment names for the API server, None when it names none.

    This machine itself is never asked by way of a proxy; kubectl does not either.
    """
    url = urlsplit(address)
    if is_loopback(url.hostname or ""):
        return None
    from urllib.request import getproxies, proxy_bypass

    if proxy_bypass(url.hostname or ""):
        return None
    return getproxies().get(url.scheme)
