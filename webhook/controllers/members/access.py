"""Roles and RoleBindings of member agents, cached and relisted every ten minutes.

Roles and RoleBindings are not watched: a hub has many that do not belong to harbormaster, and the cache should not hold
them. All of them are listed by label when the first member is reconciled, and again after `ACCESS_CHECK`. In between,
objects are compared as last read or written. A change by a user is therefore corrected at the next heartbeat of any
member after the relist. A restart needs two list requests, not two per member. The entries of a deleted namespace are
dropped with it.

Source: docs/specifications/rollout.md 17, 20 and 21.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from scorer.api.kinds import NAMESPACE, Kind
from scorer.api.meta import JsonObject
from scorer.api.names import IS_FLEET_RESOURCE, member_namespace
from scorer.api.unstructured.documents import uid_of
from scorer.membership.access import ROLE, ROLE_BINDING, role_binding_name, role_name
from scorer.membership.joining import Repair
from webhook.kube.cache.hub import Hub
from webhook.kube.ports import AlreadyExistsError, ConflictError, Key, NotFoundError, key_of

ACCESS_CHECK: Final = timedelta(minutes=10)
"""Maximum age of the cached Roles and RoleBindings."""


class _Stored(NamedTuple):
    """A Role or RoleBinding as last read or written."""

    home: str
    """UID of its namespace at that time, empty if unknown."""
    document: JsonObject


class MemberAccess:
    """Roles and RoleBindings of the members as last read or written.

    They are read from and written to the store directly: a read through the cache would start a watch of all Roles of
    the hub.

    Args:
        hub: The hub cluster.
        now: The clock.
    """

    def __init__(self, hub: Hub, now: Callable[[], datetime]) -> None:
        self._hub = hub
        self._now = now
        self._cache: dict[tuple[Kind, Key], _Stored] = {}
        self._read_at: datetime | None = None
        self._reading = asyncio.Lock()

    async def get(self, kind: Kind, key: Key, home: str) -> JsonObject | None:
        """Return a Role or RoleBinding, None if it does not exist. It need not have the harbormaster label.

        Args:
            kind: ROLE or ROLE_BINDING.
            key: Key of the object.
            home: UID of its namespace. Entries of an earlier namespace of that name are ignored.
        """
        await self._refresh()
        cached = self._cache.get((kind, key))
        if cached is not None and cached.home == home:
            return cached.document
        self._cache.pop((kind, key), None)
        try:
            document = await self._hub.store.get(kind, key)
        except NotFoundError:
            return None
        self._cache[kind, key] = _Stored(home, document)
        return document

    async def carry_out(self, repair: Repair, home: str) -> None:
        """Execute a planned repair. If an object cannot be written, its cached entry is dropped.

        Args:
            repair: The plan.
            home: UID of the namespace that it was planned for.

        Raises:
            ConflictError: The object has been created, changed or deleted since it was read.
            StoreError: The hub refused, or did not respond.
        """
        kind, key = repair.kind, key_of(repair.document)
        cached = self._cache.pop((kind, key), None)  # before the write: if that fails, the object is read again
        if repair.recreate:  # deleted by UID: a newer object of that name was not evaluated
            assert cached is not None
            self._hub.writes += 1
            await self._hub.store.delete(kind, key, uid=uid_of(cached.document))
        write = self._hub.store.create if repair.stored is None or repair.recreate else self._hub.store.replace
        self._hub.writes += 1
        try:
            self._cache[kind, key] = _Stored(home, await write(kind, repair.document))
        except (AlreadyExistsError, NotFoundError) as error:
            raise ConflictError(str(error)) from error  # changed since it was read: the retry reads it again

    async def revoke(self, cluster: str, home: str) -> None:
        """Delete the RoleBinding of a member's agent, which revokes its access. A missing one is not an error.

        Args:
            cluster: Name of the member.
            home: UID of its namespace.
        """
        key = Key(role_binding_name(cluster), member_namespace(cluster))
        binding = await self.get(ROLE_BINDING, key, home)
        if binding is None:
            return
        self._cache.pop((ROLE_BINDING, key), None)
        self._hub.writes += 1
        with suppress(NotFoundError):
            await self._hub.store.delete(ROLE_BINDING, key, uid=uid_of(binding))

    def forget(self, cluster: str) -> None:
        """Drop the cached entries of a deleted member."""
        namespace = member_namespace(cluster)
        self._cache.pop((ROLE, Key(role_name(cluster), namespace)), None)
        self._cache.pop((ROLE_BINDING, Key(role_binding_name(cluster), namespace)), None)

    async def _refresh(self) -> None:
        async with self._reading:  # concurrent reconciles share one list
            if self._read_at is not None and self._now() - self._read_at < ACCESS_CHECK:
                return
            # Read before the lists: an object in a list may then come from a namespace that has been replaced since,
            # but never from one that the cache has not received yet.
            homes = {key_of(namespace).name: uid_of(namespace) for namespace in self._hub.cache.list(NAMESPACE)}
            objects: dict[tuple[Kind, Key], _Stored] = {}
            labels: Mapping[str, str] = {IS_FLEET_RESOURCE: "true"}
            for kind in (ROLE, ROLE_BINDING):
                for document in (await self._hub.store.list(kind, None, labels)).items:
                    key = key_of(document)
                    objects[kind, key] = _Stored(homes.get(key.namespace, ""), document)
            self._cache, self._read_at = objects, self._now()
