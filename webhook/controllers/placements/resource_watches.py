"""Dynamic watches on the kinds that placements select.

A kind is watched from the first placement that selects it until the last one is deleted. Watches outlive a leadership
term for a while, so that a replica that regains its Lease need not relist. If a kind cannot be read, a placement waits
only for a while. After that, `Selectables.unreadable` has the kind and the reason.

Source: docs/specifications/rollout.md 2.4 and 2.9; docs/specifications/serving.md 5.3.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from scorer.api.family import PlacementRef
from scorer.api.kinds import CUSTOM_RESOURCE_DEFINITION, NAMESPACE, Kind
from scorer.api.meta import JsonObject
from scorer.api.names import MEMBER_NAMESPACE_PREFIX
from scorer.api.placement.placement import SelectionScope
from scorer.api.unstructured.documents import conditions_of, namespace_of
from scorer.rollout.ownership.objects import EVIDENCE
from scorer.rollout.selection.exclusions import TRIMMED_AT_HOME, SelectionSettings
from scorer.rollout.selection.selector import is_concerned
from scorer.shards import WHOLE, Share
from webhook.controllers.placements.listing import all_placements, placement_refs
from webhook.kube.cache.changes import Broadcaster, ObjectDelta
from webhook.kube.cache.informer import Cache
from webhook.kube.ports import RetryError, ServedKinds, StoreError

REFRESH_SECONDS: Final = 10.0
"""Minimum interval between two discoveries, if a placement names an unknown kind."""

ANSWER_SECONDS: Final = 5.0
"""Maximum wait of a placement for the first list of a kind, from the first request of the kind."""

PATIENCE_SECONDS: Final = 60.0
"""Time that a placement remains unchanged while a required kind is not served or not listed. After that, its status
reports the kind."""

RETRY_INTERVAL = timedelta(seconds=1)
"""Retry interval during that time."""

KEPT_SECONDS: Final = 60.0
"""Time that kinds are watched after the end of a term: longer than it takes to regain a Lease."""

Identity = tuple[str, str]
"""Group and kind."""


@dataclass(frozen=True, slots=True)
class _Watched:
    """A kind that is watched for placements.

    Args:
        kind: The watched kind.
        unsubscribe: Ends the subscription to its changes.
        ours: Whether no other part of the process watches it.
        begun: Start of the watch, in the event loop's clock.
    """

    kind: Kind
    unsubscribe: Callable[[], None]
    ours: bool
    begun: float

    def fits(self, kind: Kind) -> bool:
        """Return whether the watch also serves *kind*, which is this kind as discovered later."""
        own, there = self.kind, kind
        same = (own.plural, own.namespaced) == (there.plural, there.namespaced)
        return not self.ours or (same and own.versions[0] in there.versions)

    def end(self, cache: Cache) -> None:
        """Unsubscribe. If the watch is for placements only, stop it."""
        self.unsubscribe()
        if self.ours:
            cache.release(self.kind)


class Touched(NamedTuple):
    """A placement that must select again.

    Args:
        ref: The placement.
        is_new: Whether the changed object is new, without the status of a predecessor.
    """

    ref: PlacementRef
    is_new: bool


class Selectables:
    """The selected kinds of one hub, over all terms of a process.

    Args:
        cache: Cache with the watches.
        served: Kinds that the hub serves.
        settings: Limits of the selection.
    """

    def __init__(self, cache: Cache, served: ServedKinds, settings: SelectionSettings) -> None:
        self.served = served
        self._cache = cache
        self._settings = settings
        self._touched = Broadcaster[Touched]()
        self._identities: dict[PlacementRef, frozenset[Identity]] = {}
        self._left_out: dict[PlacementRef, Mapping[Identity, str]] = {}
        self._watched: dict[Identity, _Watched] = {}
        self._missing: dict[Identity, float] = {}
        """Required kinds that are not served, with the time when each was first missing."""
        self._stale = True
        self._refreshed_at = float("-inf")
        self._asking = asyncio.Lock()
        self._ending: asyncio.TimerHandle | None = None
        """Timer that ends all watches some time after the end of a term."""

    def subscribe(self, handler: Callable[[Touched], None]) -> Callable[[], None]:
        """Call *handler* with every placement whose selected objects change. Return the unsubscriber."""
        return self._touched.subscribe(handler)

    async def watch(
        self, ref: PlacementRef, terms: Sequence[JsonObject], placed: Iterable[JsonObject] = ()
    ) -> Mapping[Identity, Kind]:
        """Watch the kinds that a placement selects, wait for their lists, and return the kinds that the hub serves.

        A kind that cannot be read is a `RetryError` for a while. After that it is in `unreadable`.

        Args:
            ref: The placement.
            terms: Selectors of the placement.
            placed: Group, version and kind of its placed objects. A hub that starts, or whose aggregated server is
                down, does not list all kinds: their objects must not count as deleted.

        Raises:
            RetryError: A required kind is not served or not listed now.
            StoreError: Discovery failed.
        """
        self._resume()
        remaining = [item for item in placed if self._may_reach(terms, item)]
        if self._stale or any(map(self._is_unknown, terms)) or not all(map(self._is_served, remaining)):
            await self._refresh()
        left_out = self._lost(terms, remaining)
        served = self.served.kinds
        desired = {kind.group_kind: kind for term in terms for kind in self._reached(term, served)}
        before, self._identities[ref] = self._identities.get(ref, frozenset()), frozenset(desired)
        for kind in desired.values():
            self._watch(kind)
        if not before <= self._identities[ref]:
            self._release()
        left_out |= await self._unanswered(desired)
        left_out |= {identity: words for identity, kind in desired.items() if (words := self._cache.refusal(kind))}
        self._left_out[ref] = MappingProxyType(left_out)
        return served

    def _lost(self, terms: Sequence[JsonObject], inventory: Sequence[JsonObject]) -> dict[Identity, str]:
        """Return the required kinds that exist but are not served, with reasons.

        Kinds that no longer exist are left out. A kind no longer exists if its definition was deleted, or if it has
        been undefined for `PATIENCE_SECONDS`.

        Raises:
            RetryError: A required kind has not been served for less than `PATIENCE_SECONDS`.
        """
        now, problems = asyncio.get_running_loop().time(), {}
        unserved = [item for item in inventory if not self._is_served(item)]
        for item in (*filter(self._is_unknown, terms), *unserved):
            identity = _identity(item)
            is_placed = item in unserved
            exists = identity[0] in self.served.silent or self._is_defined(item, in_any_version=is_placed)
            if not exists and not is_placed:
                continue
            if now - self._missing.setdefault(identity, now) < PATIENCE_SECONDS:
                raise RetryError(f"the hub does not serve {identity[1]}", RETRY_INTERVAL)
            if exists:
                problems[identity] = "the hub does not serve them, although they are defined"
        return problems

    def _watch(self, kind: Kind) -> None:
        watched = self._watched.get(kind.group_kind)
        if watched is not None and not watched.fits(kind):
            del self._watched[kind.group_kind]
            watched.end(self._cache)
            watched = None
        if watched is None:
            ours = not self._cache.watches(kind)
            end = self._cache.subscribe(kind, self._take, changes_only=True)  # reconciles read existing objects
            self._watched[kind.group_kind] = _Watched(kind, end, ours, asyncio.get_running_loop().time())
            if kind.group_kind in TRIMMED_AT_HOME:
                self._cache.trim(kind, self._without_own_data)

    def _without_own_data(self, document: JsonObject) -> JsonObject:
        """Return a ConfigMap or Secret without its data if it is in the namespace of the installation.

        Objects there are never placed, and the history alone takes up to 16 MiB of ConfigMaps.
        """
        if namespace_of(document) != self._settings.home:
            return document
        return {name: value for name, value in document.items() if name not in ("data", "binaryData")}

    def _take(self, change: ObjectDelta) -> None:
        """Publish the placements that a change of an object affects. Objects in member namespaces are never placed."""
        namespace = change.document["metadata"].get("namespace", "")
        if namespace.startswith(MEMBER_NAMESPACE_PREFIX) or not change.touches(_content):
            return
        home = self._cache.get(NAMESPACE, namespace) if namespace else None
        for ref, placement in all_placements(self._cache):
            if is_concerned(placement, change.document, home, is_deleted=change.new is None):
                self._touched.publish(Touched(ref, change.old is None))

    async def _unanswered(self, kinds: Mapping[Identity, Kind]) -> dict[Identity, str]:
        """Wait for the first lists of kinds. Return those not listed within `PATIENCE_SECONDS`, with reasons.

        Raises:
            RetryError: A kind is not listed, and has been watched for less than `PATIENCE_SECONDS`.
        """
        started = {identity: watched.begun for identity, watched in self._watched.items() if identity in kinds}
        missing = [kind for kind in kinds.values() if not self._cache.has_answered(kind)]
        if missing:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(max(started[kind.group_kind] for kind in missing) + ANSWER_SECONDS):
                    await self._cache.wait_answered(missing)
        now, problems = asyncio.get_running_loop().time(), {}
        for identity, kind in kinds.items():
            if not self._cache.has_answered(kind):
                if now - started[identity] < PATIENCE_SECONDS:  # waiting is better than placing half of a namespace
                    raise RetryError(f"{kind.resource} have not been listed yet", RETRY_INTERVAL)
                problems[identity] = f"they could not be listed within {PATIENCE_SECONDS:g} s"
        return problems

    def forget(self, ref: PlacementRef) -> None:
        """Stop watching kinds that only this placement selected."""
        self._left_out.pop(ref, None)
        if self._identities.pop(ref, None) is not None:
            self._release()

    def unreadable(self, ref: PlacementRef) -> Mapping[Identity, str]:
        """Return the kinds that were unreadable at the last reconcile of a placement, with reasons."""
        return self._left_out.get(ref, MappingProxyType({}))

    async def recovered(self) -> list[PlacementRef]:
        """Return the placements with a kind that has become readable.

        Raises:
            StoreError: Discovery failed.
        """
        if any(identity not in self.served.kinds for left_out in self._left_out.values() for identity in left_out):
            await self._refresh()
        return [ref for ref, left_out in self._left_out.items() if any(map(self._is_readable, left_out))]

    def _is_readable(self, identity: Identity) -> bool:
        kind = self.served.kinds.get(identity)
        if kind is None or identity not in self._watched:
            return kind is not None
        return self._cache.has_answered(kind) and not self._cache.refusal(kind)

    def redefined(self, change: ObjectDelta) -> bool:
        """Handle a change of a definition. The kind of a deleted one counts as deleted immediately.

        Returns:
            Whether the served kinds may have changed.
        """
        if not change.touches(_served):
            return False
        self.stale()
        if change.new is None:
            spec = change.document["spec"]
            self._missing[spec.get("group") or "", str((spec.get("names") or {}).get("kind"))] = float("-inf")
        return True

    def stale(self) -> None:
        """Invalidate the discovery: the next use repeats it."""
        self._stale = True

    def pause(self, share: Share = WHOLE) -> None:
        """End a term. Stop all watches after a delay, unless the next term of this process starts before.

        Args:
            share: Shard of the term. While the term of another shard runs, the kinds that only placements of this shard
                selected are released immediately.
        """
        self._stale = True
        if share.count > 1 and self._touched.has_handlers:
            for ref in [ref for ref in self._identities if share.owns(str(ref))]:
                self.forget(ref)
            return
        self._missing.clear()  # if a kind disappears again in the next term, the wait starts anew
        self._stay()  # a term without placements has not cancelled the timer
        self._ending = asyncio.get_running_loop().call_later(KEPT_SECONDS, self.end)

    def _resume(self) -> None:
        """Resume in a new term. Release the selections of placements that were deleted between the terms."""
        if self._ending is not None:
            self._stay()
            there = set(placement_refs(self._cache))
            self._identities = {ref: identities for ref, identities in self._identities.items() if ref in there}
            self._left_out = {ref: left_out for ref, left_out in self._left_out.items() if ref in there}
            self._release()

    def _stay(self) -> None:
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None

    def end(self) -> None:
        """Stop all watches."""
        self._ending = None
        self._left_out.clear()
        self._identities.clear()
        self._release()

    def _may_reach(self, terms: Sequence[JsonObject], item: JsonObject) -> bool:
        """Return whether *terms* can still select objects of the kind of *item*, which is placed."""
        identity = _identity(item)
        if not self._settings.is_selectable(identity[0], str(item.get("version") or ""), identity[1]):
            return False
        return any(_identity(term) == identity or _is_whole_namespace(term) for term in terms)

    def _is_served(self, item: Mapping[str, Any]) -> bool:
        return _identity(item) in self.served.kinds

    def _is_unknown(self, term: Mapping[str, Any]) -> bool:
        kind = self.served.kinds.get(_identity(term))
        return kind is None or term.get("version") not in kind.versions

    async def _refresh(self) -> None:
        async with self._asking:
            now = asyncio.get_running_loop().time()
            if (
                self._stale or now - self._refreshed_at >= REFRESH_SECONDS
            ):  # otherwise the previous holder of the lock has refreshed the kinds
                self._stale = False  # before the request: a definition that changes during it sets the flag again
                try:
                    await self.served.refresh()
                except StoreError:
                    self._stale = True
                    raise
                self._refreshed_at = now
                served = self.served.kinds
                self._missing = {identity: at for identity, at in self._missing.items() if identity not in served}

    def _is_defined(self, item: Mapping[str, Any], *, in_any_version: bool) -> bool:
        """Return whether a definition serves the kind of an item, in the version of the item or *in_any_version*."""
        for definition in self._cache.list(CUSTOM_RESOURCE_DEFINITION):
            spec = definition["spec"]
            if (spec.get("group"), (spec.get("names") or {}).get("kind")) == _identity(item):
                versions = [version.get("name") for version in spec.get("versions") or () if version.get("served")]
                return bool(versions) if in_any_version else item.get("version") in versions
        return False

    def _reached(self, term: Mapping[str, Any], served: Mapping[tuple[str, str], Kind]) -> Iterator[Kind]:
        identity = _identity(term)
        kind = served.get(identity)
        if kind is None or not self._settings.is_selectable(kind.group, str(term.get("version") or ""), kind.kind):
            return
        yield kind
        if (evidence := EVIDENCE.get(identity)) is not None:
            yield served.get(evidence.group_kind, evidence)
        if _is_whole_namespace(term):
            yield from (kind for kind in served.values() if kind.namespaced and self._is_selectable(kind))

    def _is_selectable(self, kind: Kind) -> bool:
        return self._settings.is_selectable(kind.group, kind.versions[0], kind.kind)

    def _release(self) -> None:
        needed = frozenset[tuple[str, str]]().union(*self._identities.values())
        for identity in [identity for identity in self._watched if identity not in needed]:
            self._watched.pop(identity).end(self._cache)


def _identity(item: Mapping[str, Any]) -> Identity:
    return item.get("group") or "", item.get("kind") or ""


def _is_whole_namespace(term: Mapping[str, Any]) -> bool:
    scope = term.get("selectionScope") or SelectionScope.NAMESPACE_WITH_RESOURCES
    return _identity(term) == NAMESPACE.group_kind and scope == SelectionScope.NAMESPACE_WITH_RESOURCES


def _served(definition: JsonObject) -> tuple[object, ...]:
    conditions = [(condition.get("type"), condition.get("status")) for condition in conditions_of(definition)]
    return definition["metadata"].get("generation"), conditions


def _content(document: JsonObject) -> JsonObject:
    """Return an object without its status and the metadata of the store."""
    ignored = ("resourceVersion", "managedFields", "generation")
    metadata = {key: value for key, value in document["metadata"].items() if key not in ignored}
    return {**{key: value for key, value in document.items() if key != "status"}, "metadata": metadata}
