"""Renewal of tokens while the process runs: token files and credential plugins.

The library reads the ``tokenFile`` of a kubeconfig once and runs an ``exec`` plugin once, and so loses the hub when
that token expires; only a pod's own token is read again. Here a token file is read again when it has changed, and a
plugin is run again when its token is about to expire.
"""

import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import ConfigException, load_kube_config

from webhook.kube.login.kubeconfig import KubeconfigContext
from webhook.runtime.files import read_bounded

CHECK_SECONDS: Final = 1.0
"""Shortest time between two checks of a token file."""

_log = logging.getLogger(__name__)


Renewal = Callable[[Configuration], Awaitable[None]]
"""Called before every request; puts a fresh token into the configuration."""


async def renewal(context: KubeconfigContext) -> Renewal | None:
    """Return what renews the token of a context before a request, None when its token does not expire."""
    if "exec" in context.user:
        loader = await load_kube_config(str(context.file), context=context.name, client_configuration=Configuration())
        return _ExecToken(loader).renew
    file = context.path("user", "tokenFile")
    if file is not None and not context.user.get("token"):
        return _TokenFile(file).renew
    return None


class _TokenFile:
    """Reads a token again when its file has changed; while the file cannot be read, the last token stays."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mark: tuple[int, ...] = ()
        self._next = float("-inf")

    async def renew(self, configuration: Configuration) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + CHECK_SECONDS
        try:
            stat = self._path.stat()
            mark = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
            if mark == self._mark:
                return
            token = read_bounded(self._path).decode().strip()
        except (OSError, UnicodeDecodeError) as error:
            _log.warning("token file not read", extra={"file": str(self._path), "error": str(error)})
            return
        if token:  # else the file is just being written: without a mark it is read again
            self._mark = mark
            configuration.api_key["BearerToken"] = f"Bearer {token}"


class _ExecToken:
    """Runs a credential plugin again when its token is about to expire; a token without an expiry is kept."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    async def renew(self, configuration: Configuration) -> None:
        if not hasattr(self._loader, "exec_plugin_expiry"):
            return
        try:
            await self._loader.load_from_exec_plugin()
        except (ConfigException, OSError, ValueError, KeyError) as error:
            _log.warning("credential plugin failed", extra={"error": str(error)[:200]})
            return
        configuration.api_key["BearerToken"] = self._loader.token
