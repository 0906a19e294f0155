"""The front proxy of the hub, which kube-apiserver publishes next to its client CA.

kube-apiserver copies its flags ``--requestheader-…`` to a ConfigMap. A hub without an aggregation layer publishes no
authority there, and then no request is accepted as a front proxy's.

Source: docs/specifications/serving.md 3.6; Kubernetes pkg/controlplane/controller/clusterauthenticationtrust.
"""

import json
from typing import Final

from certs.context import CertificateError
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import text_at
from webhook.access.front_proxy import UID, FrontProxy
from webhook.kube.access.authentication import CHECK_SECONDS, LOCATION, read_authorities
from webhook.kube.client.api_server import ApiServer

KEY: Final = "requestheader-client-ca-file"


class HubFrontProxy:
    """Reads the front proxy that the hub publishes.

    Args:
        server: The hub.
    """

    check_seconds = CHECK_SECONDS

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._names: FrontProxy | None = None

    def names(self) -> FrontProxy | None:
        """Return the names as last read. None: unknown, no request counts as that of the front proxy."""
        return self._names

    async def read(self) -> bytes:
        """Return its authorities in PEM, and update `names`. Raises `CertificateError`."""
        pem, document = await read_authorities(self._server, KEY, "Enable the aggregation layer of the hub")
        try:
            self._names = parse_front_proxy(document)
        except ValueError as error:
            raise CertificateError(f"{LOCATION}: {error}") from error
        return pem


def parse_front_proxy(document: JsonObject) -> FrontProxy:
    """Parse the ConfigMap.

    Raises:
        ValueError: A value is not a JSON list of strings. The message names its key.
    """
    names = frozenset(_words(document, "requestheader-allowed-names"))
    uid_headers = {word.lower() for word in _words(document, "requestheader-uid-headers")}
    return FrontProxy(names, sends_uid=UID.lower() in uid_headers)


def _words(document: JsonObject, key: str) -> tuple[str, ...]:
    text = text_at(document, "data", key)
    if not text:
        return ()
    try:
        words = json.loads(text)
    except ValueError:
        words = None
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ValueError(f"{key}: must be a JSON list of strings")
    return tuple(words)
