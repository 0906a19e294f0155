"""HTTP sessions of aiohttp: connections that work under uvloop, trust in a CA file, no cookies.

aiohttp connects a socket itself and hands it to the event loop. Under uvloop, the socket object and the loop then both
own the descriptor. When a connection breaks during the handover, the descriptor is closed twice, and the second close
may hit another connection ("File descriptor 14 is used by transport"). `LoopConnector` lets the loop connect instead.
uvloop 0.23 fixes only part of it. Source: uvloop issues 645 and 738.

The CA file is read for every call, because it is rotated. Responses are not decompressed: a few bytes could expand to
many. Redirects and timeouts are up to the caller.
"""

import asyncio
import ssl
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler

from webhook.runtime.files import read_bounded
from webhook.settings.environment import PREFIX, SettingsError


class LoopConnector(aiohttp.TCPConnector):
    """Lets the event loop connect to the resolved addresses, one after another, until one of them answers."""

    async def _wrap_create_connection(
        self, *args: Any, addr_infos: list[Any], **kwargs: Any
    ) -> tuple[asyncio.Transport, ResponseHandler]:
        # On a retry, the library would drop the next address of every family: a name with one IPv6 and one IPv4 address
        # would be given up after the first.
        while True:
            host, port, *_ = addr_infos[0][4]
            try:
                return await self._wrap_existing_connection(*args, host=host, port=port, **kwargs)
            except (aiohttp.ClientConnectorError, TimeoutError):
                if len(addr_infos) == 1:
                    raise
                del addr_infos[0]


def trust_in(ca: Path | None, setting: str) -> ssl.SSLContext:
    """Return the TLS settings that trust the authorities in a file.

    Args:
        ca: The file, in PEM. None means those of the system.
        setting: Name of the setting, without the prefix.

    Raises:
        SettingsError: The file is unusable.
    """
    setting_text = f"{PREFIX}{setting}: {str(ca)!r}"
    try:
        return ssl.create_default_context(cadata=None if ca is None else read_bounded(ca).decode("ascii"))
    except (ssl.SSLError, ValueError) as error:
        raise SettingsError(f"{setting_text}: must contain certificates in PEM") from error
    except OSError as error:
        raise SettingsError(f"{setting_text}: {error.strerror}") from error


def session_with(trust: ssl.SSLContext | bool) -> aiohttp.ClientSession:
    """Return a session for one call, closed by ``async with``. *trust* is True for plain HTTP."""
    return aiohttp.ClientSession(
        connector=LoopConnector(ssl=trust), cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False
    )
