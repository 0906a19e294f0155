"""The Secret with the keys that sign Works (`scorer.rollout.works.provenance`).

The first loop creates it with a random key. To rotate the key, an operator moves ``key`` to ``previous`` and stores a
new ``key``. The loop then signs every Work with the new key. After that, ``previous`` can be removed.

Source: docs/specifications/rollout.md 9.5.
"""

import asyncio
import binascii
import logging
import secrets
from base64 import b64decode, b64encode
from typing import Final

from scorer.api.kinds import SECRET
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import dict_at, text_at
from scorer.rollout.works.provenance import SHORTEST_KEY_BYTES, Provenance
from webhook.kube.ports import AlreadyExistsError, ForbiddenError, Key, NotFoundError, Store, StoreError

TYPE: Final = "Opaque"
NAME: Final = "harbormaster-work-keys"
CURRENT: Final = "key"
PREVIOUS: Final = "previous"
"""Entries of the Secret. `PREVIOUS` is optional."""
REFRESH_SECONDS: Final = 60.0
RETRY_SECONDS: Final = (0.2, 1.0, 5.0)
"""Backoff while the hub does not respond. The last pause repeats."""

log = logging.getLogger(__name__)


class WorkKeys:
    """The keys of one hub. Without permission for the Secret, no Work is signed.

    Args:
        store: The hub.
        namespace: Namespace of the installation.

    Attributes:
        current: The first key signs, and all of them verify. The same tuple until a key changes.
    """

    def __init__(self, store: Store, namespace: str) -> None:
        self._store = store
        self._key = Key(NAME, namespace)
        self.current: tuple[bytes, ...] = ()

    def of(self, placement: JsonObject | None) -> Provenance:
        """Return the signer and verifier for the Works of a placement. Without a placement, it signs nothing."""
        return Provenance(self.current, text_at(placement or {}, "metadata", "uid"))

    async def load(self) -> None:
        """Read the keys, and create the Secret if it does not exist. Retries while the hub does not respond.

        Returns without keys if permission or the namespace is missing.
        """
        pauses = iter(RETRY_SECONDS)
        while True:
            try:
                await self._refresh()
            except (ForbiddenError, NotFoundError) as error:
                log.warning("work keys unavailable", extra={"secret": str(self._key), "error": str(error)})
            except StoreError as error:
                log.warning("work keys not read", extra={"secret": str(self._key), "error": str(error)})
                await asyncio.sleep(next(pauses, RETRY_SECONDS[-1]))
                continue
            return

    async def refresh_periodically(self) -> None:
        """Read the keys again every `REFRESH_SECONDS`, until cancelled. On an error the last keys remain in use."""
        while True:
            await asyncio.sleep(REFRESH_SECONDS)
            try:
                await self._refresh()
            except StoreError as error:
                log.debug("work keys not read", extra={"secret": str(self._key), "error": str(error)})

    async def _refresh(self) -> None:
        try:
            document = await self._store.get(SECRET, self._key)
        except NotFoundError:
            try:
                document = await self._store.create(SECRET, self._document())
            except AlreadyExistsError:  # another replica was faster
                document = await self._store.get(SECRET, self._key)
        keys = keys_in(document)
        if not keys:
            reason = f"data.{CURRENT} must have at least {SHORTEST_KEY_BYTES} bytes"
            log.error("work key unusable", extra={"secret": str(self._key), "error": reason})
        if keys != self.current:
            self.current = keys

    def _document(self) -> JsonObject:
        """Return the Secret to create. If a user deleted it, it gets the keys that Works are signed with."""
        current = self.current or (secrets.token_bytes(SHORTEST_KEY_BYTES),)
        entries = zip((CURRENT, PREVIOUS), current, strict=False)
        return {
            "apiVersion": SECRET.api_version,
            "kind": SECRET.kind,
            "metadata": {"name": self._key.name, "namespace": self._key.namespace},
            "type": TYPE,
            "data": {name: b64encode(key).decode("ascii") for name, key in entries},
        }


def keys_in(document: JsonObject) -> tuple[bytes, ...]:
    """Return the keys of a Secret. Empty: the current key is unusable."""
    keys = [_decoded(dict_at(document, "data").get(name)) for name in (CURRENT, PREVIOUS)]
    usable = tuple(key for key in keys if len(key) >= SHORTEST_KEY_BYTES)
    return usable if len(keys[0]) >= SHORTEST_KEY_BYTES else ()


def _decoded(text: object) -> bytes:
    try:
        return b64decode(str(text or ""), validate=True)
    except (binascii.Error, ValueError):
        return b""
