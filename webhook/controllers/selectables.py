"""Watches on the hub exactly the kinds that placements select.

A kind is watched from when the first placement selects it until the last one that did is gone. What the hub does not
let us read is not waited for: `Selectables.readable` leaves it out, and says why.

Source: rollout.md 2.4 and 2.9; serving.md 5.3.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final

from scorer.api.kinds import CUSTOM_RESOURCE_DEFINITION, KINDS, NAMESPACE, Kind
from scorer.api.meta import JsonObject
from scorer.api.placement import SelectionScope
from scorer.rollout.selectable_kinds import SelectionSettings
from webhook.controllers.result import RetryError
from webhook.kube.cache import Cache, Handler
from webhook.kube.ports import ServedKinds, StoreError
from webhook.services import PlacementRef

REFRESH_SECONDS: Final = 10.0
"""The hub is not asked more often which kinds it serves because a placement names one that it does not."""

DEFINED_AFTER: Final = timedelta(seconds=1)

_ENDPOINTS, _SERVICE = ("", "Endpoints"), ("", "Service")


class Selectables:
    """The selected kinds of one hub.

    Args:
        cache: Where they are watched.
        served: What the hub serves.
        settings: What may be selected.
        changed: Told of every change of a watched object.
    """

    def __init__(self, cache: Cache, served: ServedKinds, settings: SelectionSettings, changed: Handler) -> None:
        self._cache = cache
        self._served = served
        self._settings = settings
        self._changed = changed
        self._wanted: dict[PlacementRef, frozenset[tuple[str, str]]] = {}
        self._watched: dict[tuple[str, str], tuple[Kind, Callable[[], None], bool]] = {}
        self._stale = True
        self._asked = float("-inf")
        self._asking = asyncio.Lock()

    async def watch(self, ref: PlacementRef, terms: list[JsonObject]) -> Mapping[tuple[str, str], Kind]:
        """Watch what the terms of a placement reach, wait until it is known, and return the kinds that the hub serves.

        Raises:
            RetryError: A kind is defined, and will be served in a moment.
            StoreError: The hub does not say what it serves.
        """
        if self._stale or any(self._is_unknown(term) for term in terms):
            await self._refresh()
        for term in filter(self._is_unknown, terms):
            if self._is_defined(term):
                raise RetryError(f"the hub does not serve {term.get('kind')} yet, but it is defined", DEFINED_AFTER)
        served = self._served.kinds
        wanted = {kind.group_kind: kind for term in terms for kind in self._reached(term, served)}
        self._wanted[ref] = frozenset(wanted)
        for kind in wanted.values():
            if kind.group_kind not in self._watched:
                ours = not self._cache.watches(kind)
                end = self._cache.subscribe(kind, self._changed, changes_only=True)  # whoever selects it reads the rest
                self._watched[kind.group_kind] = kind, end, ours
        self._release()
        await self._cache.wait_answered(wanted.values())
        return served

    def forget(self, ref: PlacementRef) -> None:
        """Stop watching what only this placement selected."""
        if self._wanted.pop(ref, None) is not None:
            self._release()

    def unreadable(self, ref: PlacementRef) -> Mapping[tuple[str, str], str]:
        """Return the kinds that a placement reaches and that the hub does not let us read, with its words."""
        wanted = (self._watched[identity][0] for identity in self._wanted.get(ref, ()) if identity in self._watched)
        refused = {kind.group_kind: self._cache.refusal(kind) for kind in wanted}
        return MappingProxyType({identity: words for identity, words in refused.items() if words})

    def stale(self) -> None:
        """Ask the hub again what it serves, when it is needed next: a definition has changed."""
        self._stale = True

    def end(self) -> None:
        """Watch nothing any more."""
        self._wanted.clear()
        self._release()

    def _is_unknown(self, term: Mapping[str, Any]) -> bool:
        kind = self._served.kinds.get((term.get("group") or "", term.get("kind") or ""))
        return kind is None or term.get("version") not in kind.versions

    async def _refresh(self) -> None:
        async with self._asking:
            now = asyncio.get_running_loop().time()
            if self._stale or now - self._asked >= REFRESH_SECONDS:
                self._stale = False
                try:
                    await self._served.refresh()
                except StoreError:
                    self._stale = True
                    raise
                self._asked = now

    def _is_defined(self, term: Mapping[str, Any]) -> bool:
        """Whether there is a definition of what a term names, in that version."""
        for definition in self._cache.list(CUSTOM_RESOURCE_DEFINITION):
            spec = definition["spec"]
            if (spec.get("group"), (spec.get("names") or {}).get("kind")) == (term.get("group"), term.get("kind")):
                served = [version for version in spec.get("versions") or () if version.get("served")]
                return term.get("version") in [version.get("name") for version in served]
        return False

    def _reached(self, term: Mapping[str, Any], served: Mapping[tuple[str, str], Kind]) -> Iterator[Kind]:
        identity = term.get("group") or "", term.get("kind") or ""
        kind = served.get(identity)
        if kind is None or not self._is_selectable(kind):
            return
        yield kind
        if identity == _ENDPOINTS:
            yield served.get(_SERVICE, KINDS[_SERVICE])
        scope = term.get("selectionScope") or SelectionScope.NAMESPACE_WITH_RESOURCES
        if identity == NAMESPACE.group_kind and scope == SelectionScope.NAMESPACE_WITH_RESOURCES:
            yield from (kind for kind in served.values() if kind.namespaced and self._is_selectable(kind))

    def _is_selectable(self, kind: Kind) -> bool:
        return self._settings.is_selectable(kind.group, kind.versions[0], kind.kind)

    def _release(self) -> None:
        wanted = frozenset[tuple[str, str]]().union(*self._wanted.values())
        for identity in [identity for identity in self._watched if identity not in wanted]:
            kind, unsubscribe, ours = self._watched.pop(identity)
            unsubscribe()
            if ours:
                self._cache.release(kind)
