"""The paths of the hooks that the API server currently calls, according to our two webhook configurations.

A secret path cannot be introduced, changed or rolled back in one step. Helm writes the configurations while old
replicas still run, and new replicas start while the old configurations are in effect. A replica that refused the API
server in between would fail every write. Replicas therefore follow the configurations. A path that they call is
accepted even if the replica's own file of secrets lacks it, until a while after they no longer call it. This reveals
nothing: a user who writes a configuration can make the API server call any server, and a user who reads it knows the
secret.

While the configurations cannot be read, only the file of secrets counts.

Source: docs/specifications/serving.md 8, "Strangers at the hooks".
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import Final

from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import dict_at, dicts_at, text_at
from webhook.kube.webhook_configurations.ca_bundles import (
    CONFIGURATIONS,
    CaBundles,
    Registered,
    settle_at_changes,
    settle_at_start,
)
from webhook.settings.secret_files import secret_in

GRACE_SECONDS: Final = 30.0
"""Time to accept a path after the last configuration stops calling it: each API server has its own watch."""

_log = logging.getLogger(__name__)


class HookCalls:
    """The paths that the configurations call: `start` it once, then `follow`.

    Args:
        configurations: Both configurations.
        clock: Monotonic clock in seconds.
        on_configurations: Called after each read with the configurations and the APIService by kind. Raises
            `StoreError`. None: disabled.
    """

    def __init__(
        self,
        configurations: CaBundles,
        clock: Callable[[], float] = time.monotonic,
        on_configurations: Callable[[Mapping[str, Registered]], Awaitable[None]] | None = None,
    ) -> None:
        self._configurations = configurations
        self._on_configurations = on_configurations
        self._clock = clock
        self._called: frozenset[str] = frozenset()  # secrets, and an empty string for the plain paths
        self._called_before: dict[str, float] = {}  # previous ones, with the time until which they are accepted
        self._changed = asyncio.Event()
        self._one_at_a_time = asyncio.Lock()
        self._trouble = ""

    @property
    def plainly(self) -> bool:
        """Whether a hook is called at a path without a secret, or was within the last `GRACE_SECONDS`."""
        return self._counts("")

    @property
    def secrets(self) -> tuple[bytes, ...]:
        """The secrets in the paths of hooks that are called, or were within the last `GRACE_SECONDS`."""
        return tuple(
            path.encode() for path in (self._called | self._called_before.keys()) if path and self._counts(path)
        )

    def _counts(self, secret: str) -> bool:
        return secret in self._called or self._clock() < self._called_before.get(secret, 0.0)

    async def change(self) -> None:
        """Wait until the configurations have been read again."""
        await self._changed.wait()

    async def start(self) -> None:
        """Read the configurations. On failure, `follow` retries."""
        await settle_at_start(self.settle, self._complain)

    async def follow(self) -> None:
        """Watch both configurations until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for kind in CONFIGURATIONS:
                changes = partial(self._configurations.changes, kind.kind)
                tasks.create_task(settle_at_changes(changes, self.settle, self._complain))

    async def settle(self) -> None:
        """Read the configurations. Raises `StoreError`."""
        async with self._one_at_a_time:  # so that the last read wins
            configurations = await self._configurations.read()
            self._note(configurations)
            if self._on_configurations is not None:
                await self._on_configurations(configurations)

    def _note(self, configurations: Mapping[str, Registered]) -> None:
        secrets = frozenset(
            secret for configuration in configurations.values() for secret in _called_by(configuration.document)
        )
        end = self._clock() + GRACE_SECONDS
        remaining = {secret: until for secret, until in self._called_before.items() if until > self._clock()}
        self._called_before = remaining | dict.fromkeys(self._called - secrets, end)
        if secrets != self._called:
            _log.info("hook paths changed", extra={"plain": "" in secrets, "secrets": len(secrets - {""})})
        self._called, self._trouble = secrets, ""
        self._changed.set()
        self._changed = asyncio.Event()

    def _complain(self, reason: str) -> None:
        if reason != self._trouble:
            fields = {"configuration": self._configurations.name, "reason": reason}
            _log.warning("webhook configurations not read", extra=fields)
        self._trouble = reason


def _called_by(document: JsonObject) -> Iterator[str]:
    """Yield the secret in the path of each hook, an empty string for a plain path."""
    for hook in dicts_at(document, "webhooks"):
        client = dict_at(hook, "clientConfig")
        secret = secret_in(text_at(client, "service", "path") or text_at(client, "url"))
        if secret is not None:
            yield secret
