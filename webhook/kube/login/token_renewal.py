"""Renewal of tokens while the process runs: token files and credential plugins.

The library reads the ``tokenFile`` of a kubeconfig and runs an ``exec`` plugin only once, and loses access when that
token expires. It re-reads only a pod's own token. Here, a changed token file is read again, and a plugin is run again
when its token is about to expire.
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
"""Minimum time between two checks of a token file."""

_log = logging.getLogger(__name__)


Renewal = Callable[[Configuration], Awaitable[None]]
"""Called before every request. Sets a fresh token in the configuration."""


async def renewal(context: KubeconfigContext) -> Renewal | None:
    """Return a function that renews the token of a context before a request. None: disabled, no token is renewed."""
    if "exec" in context.user:
        loader = await load_kube_config(str(context.file), context=context.name, client_configuration=Configuration())
        return _ExecToken(loader).renew
    file = context.path("user", "tokenFile")
    if file is not None and not context.user.get("token"):
        return _TokenFile(file).renew
    return None


class _TokenFile:
    """Reads a changed token file again. If that fails, the last token remains in use."""

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
        if token:  # otherwise the file is being written, and is read again because the mark is unset
            self._mark = mark
            configuration.api_key["BearerToken"] = f"Bearer {token}"


class _ExecToken:
    """Runs a credential plugin again when its token is about to expire. A token without an expiry is kept."""

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
