"""Calls somebody outside whom the settings name: whose certificate is trusted, and a session that keeps nothing.

The file of authorities is read at every call, as others renew it. No cookie is kept, and what comes back is not
unpacked: a few bytes could become many. That no redirect is followed, and how long a call takes, is up to the caller.
"""

import ssl
from pathlib import Path

import aiohttp

from webhook.kube.connector import LoopConnector
from webhook.settings.bounded_file import read_bounded
from webhook.settings.environment import PREFIX, SettingsError


def trust_in(ca: Path | None, setting: str) -> ssl.SSLContext:
    """Return what trusts the authorities in a file.

    Args:
        ca: The file, in PEM; None: those of the system.
        setting: Which setting names it, without the prefix.

    Raises:
        SettingsError: It cannot be used.
    """
    where = f"{PREFIX}{setting}: {str(ca)!r}"
    try:
        return ssl.create_default_context(cadata=None if ca is None else read_bounded(ca).decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        raise SettingsError(f"{where}: holds no certificates in PEM") from error
    except OSError as error:
        raise SettingsError(f"{where}: {error.strerror}") from error


def session_with(trust: ssl.SSLContext | bool) -> aiohttp.ClientSession:
    """Return a session for one call; True: without TLS there is nobody to trust. Closed by ``async with``."""
    return aiohttp.ClientSession(
        connector=LoopConnector(ssl=trust), cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False
    )
