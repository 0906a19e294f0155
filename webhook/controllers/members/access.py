"""The Roles and RoleBindings of member agents, cached and relisted every ten minutes.

Roles and RoleBindings are not watched: a hub has many that are not ours, and the cache should not hold all of them.
They are listed by their label, all together, when the first member is reconciled and again after `ACCESS_CHECK`; in
between, what was read or written last counts. So one that a user has changed is corrected within that time, at the next
heartbeat of any member, and a restart lists twice, not twice per member. What was in a namespace that has been deleted
is forgotten with it.

Source: rollout.md 17, 20 and 21.
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
"""How old the knowledge of Roles and RoleBindings may be."""


class _Stored(NamedTuple):
    """A Role or RoleBinding as it was last read or written."""

    home: str
    """The uid of its namespace then; empty: not known."""
    document: JsonObject


class MemberAccess:
    """Roles and RoleBindings of the members as they were last read or written.

    They are read from and written to the store directly: the cache would begin to watch all Roles of the hub.

    Args:
        hub: Where they are.
        now: The clock.
    """

    def __init__(self, hub: Hub, now: Callable[[], datetime]) -> None:
        self._hub = hub
        self._now = now
        self._known: dict[tuple[Kind, Key], _Stored] = {}
        self._read_at: datetime | None = None
        self._reading = asyncio.Lock()

    async def get(self, kind: Kind, key: Key, home: str) -> JsonObject | None:
        """Return a Role or RoleBinding, None when there is none. One without our label is found as well.

        Args:
            kind: Which of the two.
            key: Which one.
            home: The uid of its namespace: what is known does not count in another namespace of the same name.
        """
        await self._refresh()
        cached = self._known.get((kind, key))
        if cached is not None and cached.home == home:
            return cached.document
        self._known.pop((kind, key), None)
        try:
            document = await self._hub.store.get(kind, key)
        except NotFoundError:
            return None
        self._known[kind, key] = _Stored(home, document)
        return document

    async def carry_out(self, repair: Repair, home: str) -> None:
        """Do what is planned; if an object cannot be written, what was known of it is forgotten.

        Args:
            repair: What is planned.
            home: The uid of the namespace that it is planned for.
        """
        kind, key = repair.kind, key_of(repair.document)
        cached = self._known.pop((kind, key), None)  # before the write: if that fails, the object is read again
        if repair.recreate:  # deleted by uid: another one of that name, made since, was not judged
            assert cached is not None
            self._hub.writes += 1
            await self._hub.store.delete(kind, key, uid=uid_of(cached.document))
        write = self._hub.store.create if repair.stored is None or repair.recreate else self._hub.store.replace
        self._hub.writes += 1
        try:
            self._known[kind, key] = _Stored(home, await write(kind, repair.document))
        except (AlreadyExistsError, NotFoundError) as error:
            raise ConflictError(str(error)) from error  # changed since it was read: read it again

    async def revoke(self, cluster: str, home: str) -> None:
        """Delete the RoleBinding of a member's agent, which leaves it without access.

        Args:
            cluster: Name of the member.
            home: The uid of its namespace.
        """
        key = Key(role_binding_name(cluster), member_namespace(cluster))
        binding = await self.get(ROLE_BINDING, key, home)
        if binding is None:
            return
        self._known.pop((ROLE_BINDING, key), None)
        self._hub.writes += 1
        with suppress(NotFoundError):
            await self._hub.store.delete(ROLE_BINDING, key, uid=uid_of(binding))

    def forget(self, cluster: str) -> None:
        """Drop what is known of a member that is gone."""
        namespace = member_namespace(cluster)
        self._known.pop((ROLE, Key(role_name(cluster), namespace)), None)
        self._known.pop((ROLE_BINDING, Key(role_binding_name(cluster), namespace)), None)

    async def _refresh(self) -> None:
        async with self._reading:  # members that are reconciled at once wait for one answer
            if self._read_at is not None and self._now() - self._read_at < ACCESS_CHECK:
                return
            # Read before the lists: what is in a list may have been in a namespace that another has followed since, and
            # never in one that the cache has not heard of yet.
            homes = {key_of(namespace).name: uid_of(namespace) for namespace in self._hub.cache.list(NAMESPACE)}
            objects: dict[tuple[Kind, Key], _Stored] = {}
            labels: Mapping[str, str] = {IS_FLEET_RESOURCE: "true"}
            for kind in (ROLE, ROLE_BINDING):
                for document in (await self._hub.store.list(kind, None, labels)).items:
                    key = key_of(document)
                    objects[kind, key] = _Stored(homes.get(key.namespace, ""), document)
            self._known, self._read_at = objects, self._now()
