"""As much of an API server as an authority needs: a Secret, configurations, an APIService, versions, watches.

It can break off: `breaking` raises at one request, before it takes effect or after, which is all that a replica can see
of a crash, its own or the hub's.
"""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from copy import deepcopy
from itertools import count

from webhook.kube.client.paths import path_of
from webhook.kube.ports import AlreadyExistsError, ConflictError, NotFoundError, StoreError, UnavailableError
from webhook.kube.webhook_configurations.ca_bundles import CONFIGURATIONS

SECRET = "/api/v1/namespaces/quay/secrets/ca"
ENTRIES = ("placements.example.com", "members.example.com")


class AuthorityHub:
    """The hub; in the place of a `webhook.kube.client.api_server.ApiServer`."""

    def __init__(self) -> None:
        self.documents: dict[str, dict] = {}
        self.writes: list[str] = []
        self.requests = 0
        self.refusal: dict[str, StoreError] = {}
        """What requests to paths that begin with a word are refused with."""
        self._versions = count(1)
        self._changed = asyncio.Event()
        self._changes = 0
        self._breaks_at: tuple[int, bool] | None = None
        for kind in CONFIGURATIONS:
            entries = [{"name": name, "clientConfig": {"url": "https://127.0.0.1"}} for name in ENTRIES]
            self.put(path_of(kind, name="hooks"), {"metadata": {"name": "hooks"}, "webhooks": entries})

    def put(self, path: str, document: dict) -> None:
        """Write a document down, as somebody else."""
        document = deepcopy(document)
        document["metadata"].setdefault("uid", "u")
        document["metadata"]["resourceVersion"] = str(next(self._versions))
        self.documents[str(path)] = document
        self._tell()

    def fill_secret(self, **entries: bytes) -> None:
        """Change entries of the Secret, as somebody else."""
        document = deepcopy(self.documents.get(SECRET, {"metadata": {"name": "ca"}, "data": {}}))
        document["data"] |= {name.replace("_", "."): b64encode(value).decode() for name, value in entries.items()}
        self.put(SECRET, document)

    def delete(self, path: str) -> None:
        """Delete a document, as somebody else."""
        del self.documents[path]
        self._tell()

    @contextmanager
    def breaking(self, at: int, *, after: bool) -> Iterator[None]:
        """Have the request of that number in the block fail, after it took effect or before."""
        self._breaks_at = (self.requests + at, after)
        try:
            yield
        finally:
            self._breaks_at = None

    async def request(self, method: str, path: object, body: dict | None = None, **_: object) -> dict:
        """Answer one request, which somebody else's may come before."""
        await asyncio.sleep(0)
        self.requests += 1
        breaks, after = self._breaks_at is not None and self._breaks_at[0] == self.requests - 1, self._after
        if breaks and not after:
            raise UnavailableError("broken off before")
        for word, refusal in self.refusal.items():
            if word in str(path):
                raise refusal
        answer = self._answer(method, str(path), deepcopy(body or {}))
        if breaks:
            raise UnavailableError("broken off after")
        return deepcopy(answer)

    @property
    def _after(self) -> bool:
        return self._breaks_at is not None and self._breaks_at[1]

    def _answer(self, method: str, path: str, body: dict) -> dict:
        if method == "POST":
            path = f"{path}/{body['metadata']['name']}"
            if path in self.documents:
                raise AlreadyExistsError("it is there")
        elif path not in self.documents:
            raise NotFoundError("it is not there")
        if method == "GET":
            return self.documents[path]
        if method != "POST":
            known = self.documents[path]
            if body["metadata"].get("resourceVersion") != known["metadata"]["resourceVersion"]:
                raise ConflictError("another version")
        if method == "PATCH" and "webhooks" not in body:
            known = self.documents[path]
            body = {**known, "spec": {**known["spec"], **body["spec"]}}
        elif method == "PATCH":
            bundles = {entry["name"]: entry["clientConfig"] for entry in body["webhooks"]}
            body = deepcopy(self.documents[path])
            for entry in body["webhooks"]:
                entry["clientConfig"] |= bundles.get(entry["name"], {})
        self.writes.append(f"{method} {path.rsplit('/', 2)[-2]}")
        self.put(path, body)
        return self.documents[path]

    async def watch(self, _path: object, _query: object) -> AsyncIterator[dict]:
        """Yield what is there, then at every change of whatever; changes during one that is looked at are one."""
        seen = -1
        while True:
            if seen == self._changes:
                await self._changed.wait()
            seen = self._changes
            yield {}

    def _tell(self) -> None:
        self._changes += 1
        self._changed.set()
        self._changed = asyncio.Event()
