"""The CA bundles of our two webhook configurations and of the APIService, and the loop that watches objects of the hub.

The configurations come from a chart or from ``harbormaster webhook-configuration``. We own only the ``caBundle`` of
each entry and, if a setting enables it, its ``failurePolicy``. Both are patched in place. The APIService of the
aggregated API comes from the chart, if a value enables it. We own only its ``caBundle``. No configuration is ever
deleted and created again, because no write would be validated in between.
`webhook.kube.certificates.shared_authority` decides the content of a bundle.

`settle_at_start` and `settle_at_changes` call a function once at the start and after every change, with backoff.

Source: docs/specifications/serving.md 4.5.
"""

import asyncio
import binascii
import logging
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from cryptography import x509

from certs.rotation import certificates_in
from scorer.api.kinds import KINDS, Kind
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import dict_at, dicts_at, text_at
from webhook.kube.client.api_server import ApiServer
from webhook.kube.client.paths import path_of
from webhook.kube.ports import ForbiddenError, NotFoundError, NotServedError, StoreError
from webhook.kube.transport.serialization import MERGE_PATCH, STRATEGIC_MERGE_PATCH

CONFIGURATIONS: Final = tuple(
    KINDS["admissionregistration.k8s.io", kind]
    for kind in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
)
API_SERVICE_KIND: Final = KINDS["apiregistration.k8s.io", "APIService"]
MANAGER: Final = "harbormaster-ca"
WATCH_SECONDS: Final = 60
_WRITTEN_BY: Final = {"fieldManager": MANAGER}

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Registered:
    """One webhook configuration, or the APIService, which has one entry without a name.

    Args:
        document: The configuration.
        bundles: The caBundle of each entry by name, in PEM. Empty if it is missing or invalid base64.
    """

    document: JsonObject
    bundles: Mapping[str, bytes]

    @property
    def name(self) -> str:
        """Name of the object."""
        return text_at(self.document, "metadata", "name")

    def is_in_sync(self, pem: bytes) -> bool:
        """Return whether every entry trusts exactly this bundle."""
        return all(bundle == pem for bundle in self.bundles.values())

    def trusted(self) -> frozenset[x509.Certificate]:
        """Return the authorities that all entries trust."""
        sets = [frozenset(certificates_in(bundle)) for bundle in self.bundles.values()]
        return frozenset.intersection(*sets) if sets else frozenset()


class CaBundles:
    """The two configurations of one name, and the APIService.

    Args:
        server: The hub.
        name: Name of both configurations.
        api_service: Name of the APIService. Empty: disabled.
    """

    def __init__(self, server: ApiServer, name: str, api_service: str = "") -> None:
        self._server = server
        self.name = name
        self._api_service = api_service

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of the objects that have a bundle."""
        return (*CONFIGURATIONS, API_SERVICE_KIND) if self._api_service else CONFIGURATIONS

    async def read(self) -> dict[str, Registered]:
        """Return the existing configurations and the APIService by kind. Raises `webhook.kube.ports.StoreError`."""
        configurations: dict[str, Registered] = {}
        for kind in CONFIGURATIONS:
            try:
                document = await self._server.request("GET", path_of(kind, name=self.name))
            except NotServedError:  # for example a response of a proxy: the configuration may exist
                raise
            except NotFoundError:
                continue
            entries = dicts_at(document, "webhooks")
            configurations[kind.kind] = Registered(
                document, {text_at(entry, "name"): _bundle(dict_at(entry, "clientConfig")) for entry in entries}
            )
        if self._api_service:
            configurations |= await self._read_api_service()
        return configurations

    async def _read_api_service(self) -> dict[str, Registered]:
        """Return the APIService by kind. Without it, or without rights to it, only teams are affected."""
        try:
            return {API_SERVICE_KIND.kind: await read_api_service(self._server, self._api_service)}
        except NotServedError:
            raise
        except (NotFoundError, ForbiddenError) as error:
            _log.warning("APIService not read", extra={"apiService": self._api_service, "reason": str(error)})
            return {}

    async def write(self, kind: str, configuration: Registered, pem: bytes) -> None:
        """Set the caBundle of every entry to *pem*, except where it is already equal.

        Args:
            kind: Kind of the configuration.
            configuration: The configuration as read.
            pem: The bundle.

        Raises:
            ConflictError: The configuration has changed since it was read.
            StoreError: The hub refused, or did not respond.
        """
        bundle = b64encode(pem).decode("ascii")
        if kind == API_SERVICE_KIND.kind:
            version = text_at(configuration.document, "metadata", "resourceVersion")
            patch = {"metadata": {"resourceVersion": version}, "spec": {"caBundle": bundle}}
            path = path_of(API_SERVICE_KIND, name=self._api_service)
            await self._server.request("PATCH", path, patch, query=_WRITTEN_BY, content_type=MERGE_PATCH)
            return
        stale = [name for name, bundle in configuration.bundles.items() if bundle != pem]
        await self._patch(kind, configuration, stale, {"clientConfig": {"caBundle": bundle}})

    async def close(self, kind: str, configuration: Registered, names: Iterable[str]) -> None:
        """Set ``failurePolicy: Fail`` on the hooks of these names. Arguments and errors as in `write`."""
        await self._patch(kind, configuration, names, {"failurePolicy": "Fail"})

    async def _patch(self, kind: str, configuration: Registered, names: Iterable[str], change: JsonObject) -> None:
        # Without the version, an entry that `helm upgrade` has just removed would be added again, empty.
        version = text_at(configuration.document, "metadata", "resourceVersion")
        patch = {
            "metadata": {"resourceVersion": version},
            "webhooks": [{"name": name, **change} for name in names],
        }
        path = path_of(KINDS["admissionregistration.k8s.io", kind], name=self.name)
        await self._server.request("PATCH", path, patch, query=_WRITTEN_BY, content_type=STRATEGIC_MERGE_PATCH)

    async def changes(self, kind: str) -> AsyncIterator[None]:
        """Yield immediately, then on every change of one configuration, until the hub ends the watch.

        Raises `webhook.kube.ports.StoreError`.
        """
        is_api_service = kind == API_SERVICE_KIND.kind
        name = self._api_service if is_api_service else self.name
        collection = API_SERVICE_KIND if is_api_service else KINDS["admissionregistration.k8s.io", kind]
        query = {
            "watch": "true",
            "fieldSelector": f"metadata.name={name}",
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        yield
        async for _ in self._server.watch(path_of(collection), query):
            yield


async def read_api_service(server: ApiServer, name: str) -> Registered:
    """Return an APIService. Raises `webhook.kube.ports.StoreError`."""
    document = await server.request("GET", path_of(API_SERVICE_KIND, name=name))
    return Registered(document, {"": _bundle(dict_at(document, "spec"))})


def _bundle(client: JsonObject) -> bytes:
    try:
        return b64decode(text_at(client, "caBundle"), validate=True)
    except (binascii.Error, ValueError):
        return b""


START_SECONDS: Final = 5.0
"""Timeout of the first attempt, which the listeners wait for."""
RETRY_SECONDS: Final = (0.5, 30.0)
"""Backoff after a failure: the first pause and the longest."""
PAUSE_SECONDS: Final = 0.2
"""Pause before a watch that has ended is started again."""


async def settle_at_start(settle: Callable[[], Awaitable[object]], complain: Callable[[str], object]) -> None:
    """Call *settle* once, with the timeout `START_SECONDS`.

    Args:
        settle: Reads the objects, and acts on them. Raises `StoreError`.
        complain: Called with the reason for a failure.
    """
    try:
        async with asyncio.timeout(START_SECONDS):
            await settle()
    except TimeoutError:
        complain(f"the hub did not answer within {START_SECONDS:g} s")
    except StoreError as error:
        complain(str(error))


async def settle_at_changes(
    changes: Callable[[], AsyncIterator[None]],
    settle: Callable[[], Awaitable[object]],
    complain: Callable[[str], object],
) -> None:
    """Call *settle* at the start and on every change, until cancelled, with backoff after failures.

    Args:
        changes: Starts a watch, which yields immediately and on every change. Raises `StoreError`.
        settle: See `settle_at_start`.
        complain: See `settle_at_start`.
    """
    pause = RETRY_SECONDS[0]
    while True:
        try:
            async for _ in changes():
                await settle()
                pause = RETRY_SECONDS[0]
            await asyncio.sleep(PAUSE_SECONDS)
        except StoreError as error:
            complain(str(error))
            await asyncio.sleep(pause)
            pause = min(2 * pause, RETRY_SECONDS[1])
