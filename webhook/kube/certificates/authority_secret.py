"""The Secret with the certificate authorities of an installation, shared by all replicas.

Every write replaces the version that was read. If several replicas write concurrently, one wins, and the others read
its result.

Source: docs/specifications/serving.md 4.2, 4.3.
"""

import binascii
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from certs.rotation import (
    BUNDLE,
    CERTIFICATE,
    CROSS,
    DISTRUSTED,
    GENERATION,
    KEY,
    DamagedLineageError,
    Lineage,
    certificates_in,
)
from scorer.api.kinds import SECRET
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import annotations_of, dict_at, labels_of, text_at
from webhook.kube.client.api_server import ApiServer
from webhook.kube.client.paths import path_of
from webhook.kube.ports import NotFoundError, StoreError

TYPE: Final = "kubernetes.io/tls"
MANAGED_BY: Final = {"app.kubernetes.io/managed-by": "harbormaster"}
WATCH_SECONDS: Final = 60
"""Timeout of a watch. The Secret is read again at least as often."""

_ENTRIES: Final = (CERTIFICATE, KEY, BUNDLE, CROSS)
_ANNOTATIONS: Final = (GENERATION, DISTRUSTED)


class ForeignSecretError(StoreError):
    """The Secret holds a foreign certificate that is not an authority. A write would overwrite it."""


@dataclass(frozen=True, slots=True)
class StoredLineage:
    """Content of the Secret.

    Args:
        document: The Secret. None if it does not exist.
        lineage: The parsed lineage. None if the content is unusable.
        damage: Reason why the content is unusable. Empty if it is usable, or if there is no Secret.
    """

    document: JsonObject | None
    lineage: Lineage | None
    damage: str = ""


class AuthoritySecret:
    """Reads, writes and watches one Secret.

    Args:
        server: The hub.
        namespace: Namespace of the installation.
        name: Name of the Secret.

    Attributes:
        key: Namespace and name, separated by a slash.
    """

    def __init__(self, server: ApiServer, namespace: str, name: str) -> None:
        self._server = server
        self._all = path_of(SECRET, namespace)
        self._path = path_of(SECRET, namespace, name)
        self._metadata = {"name": name, "namespace": namespace}
        self._uid = ""
        self.key = f"{namespace}/{name}"

    def __str__(self) -> str:
        return f"Secret {self.key}"

    @property
    def reference(self) -> JsonObject:
        """The Secret as the subject of Events, without its data."""
        return {"apiVersion": "v1", "kind": "Secret", "metadata": {**self._metadata, "uid": self._uid}}

    async def read(self) -> StoredLineage:
        """Read the Secret from the hub.

        Raises:
            ForeignSecretError: The Secret has a certificate that is not an authority, and is not ours.
            StoreError: The hub does not respond, or refuses.
        """
        try:
            document = await self._server.request("GET", self._path)
        except NotFoundError:
            return StoredLineage(None, None)
        self._uid = text_at(document, "metadata", "uid")
        entries, annotations = _entries(document), annotations_of(document)
        try:
            return StoredLineage(document, Lineage.read(entries, annotations))
        except DamagedLineageError as error:
            is_ours = GENERATION in annotations or labels_of(document).items() >= MANAGED_BY.items()
            if certificates_in(entries[CERTIFICATE]) and not is_ours:
                raise ForeignSecretError(f"{self} holds a certificate that is not an authority: {error}") from error
            return StoredLineage(document, None, str(error))

    async def write(self, lineage: Lineage, over: StoredLineage) -> None:
        """Write a lineage over the version that was read.

        Foreign labels, annotations and entries are kept.

        Args:
            lineage: The lineage to write.
            over: The content that was read.

        Raises:
            ConflictError: The Secret has changed since it was read: read it again.
            AlreadyExistsError: The Secret has been created since it was read.
            StoreError: The hub refused, or did not respond.
        """
        entries = {name: b64encode(value).decode("ascii") for name, value in lineage.entries().items()}
        if over.document is None:
            secret = {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {**self._metadata, "labels": MANAGED_BY, "annotations": lineage.annotations()},
                "type": TYPE,
                "data": entries,
            }
            self._uid = text_at(await self._server.request("POST", self._all, secret), "metadata", "uid")
            return
        metadata = dict_at(over.document, "metadata")
        others = {name: value for name, value in dict_at(over.document, "data").items() if name not in _ENTRIES}
        remaining = {name: value for name, value in annotations_of(over.document).items() if name not in _ANNOTATIONS}
        changed = {
            **over.document,
            "metadata": {**metadata, "annotations": remaining | lineage.annotations()},
            "data": others | entries,
        }
        await self._server.request("PUT", self._path, changed)

    async def changes(self) -> AsyncIterator[None]:
        """Yield immediately, then on every change, until the hub ends the watch. Raise `StoreError` on failure."""
        query = {
            "watch": "true",
            "fieldSelector": f"metadata.name={self._metadata['name']}",
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        yield
        async for _ in self._server.watch(self._all, query):
            yield


def _entries(document: JsonObject) -> dict[str, bytes]:
    """Decode our entries of a Secret. Missing entries and invalid base64 are read as empty."""
    entries: dict[str, bytes] = {}
    for name in _ENTRIES:
        try:
            entries[name] = b64decode(text_at(document, "data", name), validate=True)
        except (binascii.Error, ValueError):
            entries[name] = b""
    return entries
