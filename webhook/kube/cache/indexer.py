"""In-memory objects of one kind, indexed by key and label.

Lists, events and own writes may arrive in any order.
"""

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from scorer.api.kinds import Kind
from scorer.api.meta import JsonObject
from scorer.api.names import PARENT_BINDING, PARENT_OVERRIDE, PARENT_PLACEMENT, UPGRADED_MEMBER
from scorer.api.unstructured.documents import PLACED_CONTENT, SELECTED_OBJECTS, dict_at, indexed_values
from scorer.rollout.bindings import Overrides
from webhook.kube.cache.changes import Handler, ObjectDelta
from webhook.kube.cache.memory import Interner, untracked
from webhook.kube.ports import EventType, Key, WatchEvent, key_of

Trim = Callable[[JsonObject], JsonObject]

INDEXED_LABELS = (PARENT_PLACEMENT, PARENT_BINDING, PARENT_OVERRIDE, UPGRADED_MEMBER)
"""Labels with an index."""
TARGET_CLUSTER = "spec.targetCluster"
"""Index of bindings by this field, as if it were a label."""
OVERRIDE_SNAPSHOTS = "spec.overrideSnapshots"
"""Index of bindings by the override snapshots that they name, as ``namespace/name``."""

log = logging.getLogger(__name__)


class Revision:
    """Counts the changes of all objects in one cache."""

    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = 0


class KindCache:
    """All objects of one kind, by key and by the indexed labels.

    Args:
        kind: Kind of all objects.
        sharing: Interns equal parts of objects, shared by the cache.
        revision: Counts changes, shared by the cache.
    """

    def __init__(self, kind: Kind, sharing: Interner | None = None, revision: Revision | None = None) -> None:
        self.kind = kind
        self._sharing = sharing or Interner()
        self._revision = revision or Revision()
        self.refusal = ""
        """Reason why the store denies reading the kind, empty if it does not."""
        self.watching: asyncio.Task[None] | None = None
        self.objects: dict[Key, JsonObject] = {}
        self.labelled: dict[tuple[str, str], dict[Key, JsonObject]] = defaultdict(dict)
        self.namespaces: dict[str, dict[Key, JsonObject]] = defaultdict(dict)
        self.handlers: list[Handler] = []
        self.gone: dict[str, None] = {}
        """Tombstones: uids of deleted objects, oldest first. A late event or write must not restore such an object."""
        self.synced = asyncio.Event()
        """Set after the first complete list."""
        self.answered = asyncio.Event()
        """Set after the first complete list, or after the store has denied reading."""
        self.optional = False
        """Whether consumers work without the kind while reading it is denied."""
        self.trim: Trim | None = None
        """Returns the part of an object to keep. None means all of it."""
        self.events = 0
        """Changes received by the watch."""
        self.lists = 0
        """Number of complete lists."""
        self.seen = float("-inf")
        """Time of the last response or event of the store, bookmarks included, on the monotonic clock."""
        self.behind_since: float | None = None
        """Time since which changes are waiting to be processed, on the monotonic clock. None if there is no backlog."""
        self.tries = 0
        """Consecutive list requests since the last successful one."""
        self.returned: list[Callable[[], None]] = []
        """Called when a list succeeds after the kind was `away`."""
        self.heard = 0
        """The newest resource version that the store has sent for the kind."""
        self._listed_at = 0

    @property
    def away(self) -> bool:
        """Whether several lists were needed since the last successful one, so that changes may be missing.

        A watch that ends and is followed immediately by a successful list does not count: no change was missed.
        """
        return self.tries > 1

    def note_version(self, version: int) -> None:
        """Record that the store has reached *version*."""
        self.heard = max(self.heard, version)

    def apply_event(self, event: WatchEvent) -> None:
        """Process one watch event."""
        self.seen = time.monotonic()
        if not event.more:
            self.behind_since = None
        elif self.behind_since is None:
            self.behind_since = self.seen
        self.events += event.type is not EventType.BOOKMARK
        self.note_version(_version_of(event.resource_version))
        match event.type:
            case EventType.DELETED:
                self.drop(event.document)
            case EventType.BOOKMARK:
                pass
            case _:
                self.put(event.document)

    def put(self, document: JsonObject, *, even_if_older: bool = False, is_reduced: bool = False) -> None:
        """Store an object in the cache, unless its cached state is as new or newer, or it has a tombstone.

        Args:
            document: The object.
            even_if_older: Replace even a newer state.
            is_reduced: Whether the object is a result of `reduced`.
        """
        key = key_of(document)
        old = self.objects.get(key)
        self.note_version(_version(document))
        # Own writes arrive before their watch events. Example: the loop writes versions 8 and 9 of a binding, and then
        # the watch delivers 8. If 8 replaced 9, the next reconcile would repeat the second write and get a conflict. If
        # the loop has deleted the binding, only its tombstone shows that 8 is stale.
        if _uid(document) in self.gone or not (even_if_older or _version(document) > _version(old)):
            return
        if not is_reduced:
            document = self.reduced(document, old)
        self._unindex(key, old)
        self._keep(key, document)
        self._tell(old, document)

    def reduced_page(
        self, documents: Iterable[JsonObject], version: str, before: "KindCacheSnapshot"
    ) -> list[JsonObject]:
        """Return one page of a list in reduced form, for `replace_all`. Only this page is in memory unreduced.

        Args:
            documents: The page.
            version: Resource version of the list.
            before: The `snapshot` from before the list was requested.
        """
        # A store that was restored from a backup assigns the later versions again: version 900 of a binding may differ
        # from the version 900 that is cached.
        if _version_of(version) < before.heard:
            return [self.reduced(document) for document in documents]
        return [self._unchanged_object(document) or self.reduced(document) for document in documents]

    def _unchanged_object(self, document: JsonObject) -> JsonObject | None:
        """Return the cached object if it has the version of *document*, else None."""
        cached_object = self.objects.get(key_of(document))
        same_version = (
            cached_object is not None
            and _version(cached_object) == _version(document)
            and _uid(cached_object) == _uid(document)
        )
        return cached_object if same_version else None

    def reduced(self, document: JsonObject, before: JsonObject | None = None) -> JsonObject:
        """Return the part of an object to keep, with interned parts.

        Args:
            document: The object.
            before: Cached earlier state of the object.
        """
        if self.trim is not None:
            document = self.trim(document)
        self._sharing.share(document, before)
        return untracked(document)

    def trim_by(self, trim: Trim) -> None:
        """Keep only the result of *trim* for each object, including cached ones. Handlers are not called."""
        if self.trim is trim:
            return
        self.trim = trim
        for key, document in list(self.objects.items()):
            self._keep(key, untracked(trim(document)))

    def _keep(self, key: Key, document: JsonObject) -> None:
        self.objects[key] = document
        self.namespaces[key.namespace][key] = document
        for entry in _label_entries(document):
            self.labelled[entry][key] = document

    def show(self, document: JsonObject) -> None:
        """Show a cached object in a state that is not stored yet, under the version of the stored one.

        `put` therefore accepts the next version that the store sends.
        """
        key = key_of(document)
        old = self.objects[key]
        self._keep(key, document)
        self._tell(old, document)

    def unshow(self, shown_object: JsonObject, stored_object: JsonObject) -> None:
        """Restore the stored state of an object, unless it has changed since *shown_object* was shown."""
        if self.objects.get(key_of(shown_object)) is shown_object:
            self.show(stored_object)

    def drop(self, document: JsonObject) -> None:
        """Remove a deleted object and keep a tombstone, so that late watch events do not restore it."""
        key, uid = key_of(document), _uid(document)
        old = self.objects.get(key)
        if uid:
            self.gone[uid] = None
        if len(self.gone) > 1024:  # bounded: at worst an old event restores an object until its DELETED event arrives
            del self.gone[next(iter(self.gone))]
        if old is None or _uid(old) != uid:  # a recreated object of the same name is kept
            return
        self._unindex(key, old)
        del self.objects[key]
        self.namespaces[key.namespace].pop(key, None)
        if not self.namespaces[key.namespace]:
            del self.namespaces[key.namespace]
        self._tell(old, None)

    def snapshot(self) -> "KindCacheSnapshot":
        """Return the state to pass to `replace_all`. Call it before requesting the list."""
        return KindCacheSnapshot(self.heard, frozenset(self.gone))

    def replace_all(
        self, documents: Iterable[JsonObject], version: str, *, before: "KindCacheSnapshot | None" = None
    ) -> None:
        """Apply a full list as of *version*: drop objects that it lacks, unless they were written later.

        A list older than the newest version known before its request comes from a store that was restored from a
        backup. Such a list replaces everything, even objects that seem newer. An object in the list whose tombstone
        existed before the request was restored as well: a restore that advances the versions, as recommended, has no
        other symptom.

        Args:
            documents: All objects, `reduced`.
            version: Resource version of the list.
            before: The `snapshot` from before the list was requested. None means the version of the previous list, and
                no tombstones.
        """
        listed = {key_of(document): document for document in documents}
        at = _version_of(version)
        last_event, deletions = before or KindCacheSnapshot(self._listed_at, frozenset())
        is_restored = at < last_event
        if is_restored:
            self.gone.clear()
        for uid in deletions.intersection(map(_uid, listed.values())):
            self.gone.pop(uid, None)
        # `<= at`: an object that was written after the list was made is missing only for that reason. Example: the list
        # is as of version 100, and while its pages arrive, the loop creates a binding as version 105. If the binding
        # were dropped, the next reconcile would try to create it again.
        for old in [
            old for key, old in self.objects.items() if key not in listed and (is_restored or _version(old) <= at)
        ]:
            self.drop(old)
        for document in listed.values():
            self.put(document, even_if_older=is_restored, is_reduced=True)
        self._listed_at = at
        self.heard = at if is_restored else max(self.heard, at)
        self.lists += 1
        self.seen = time.monotonic()

    def _unindex(self, key: Key, old: JsonObject | None) -> None:
        if old is None:
            return
        for entry in _label_entries(old):
            self.labelled[entry].pop(key, None)
            if not self.labelled[entry]:
                del self.labelled[entry]

    def _tell(self, old: JsonObject | None, new: JsonObject | None) -> None:
        self._revision.number += 1
        if not self.handlers:
            return
        change = ObjectDelta(old, new)
        for handler in self.handlers:
            try:
                handler(change)
            except Exception:  # a bug that one object triggers must not stop the watch of all others
                document = change.document
                key = str(key_of(document))
                log.exception("object not processed", extra={"kind": document.get("kind"), "key": key})


class KindCacheSnapshot(NamedTuple):
    """State of a kind's cache at one moment.

    Args:
        heard: The newest resource version seen.
        gone: Uids with a tombstone.
    """

    heard: int
    gone: frozenset[str]


def _version(document: JsonObject | None) -> int:
    with suppress(KeyError):
        return _version_of(document["metadata"]["resourceVersion"]) if document else 0
    return 0


def _version_of(text: str) -> int:
    with suppress(ValueError):
        return int(text)
    return 0


def _uid(document: JsonObject) -> str:
    return str(document["metadata"].get("uid", ""))


def _label_entries(document: JsonObject) -> Iterable[tuple[str, str]]:
    labels: Mapping[str, str] = document["metadata"].get("labels") or {}
    entries = [(label, labels[label]) for label in INDEXED_LABELS if label in labels]
    spec = dict_at(document, "spec")
    if isinstance(cluster := spec.get("targetCluster"), str):
        entries.append((TARGET_CLUSTER, cluster))
        entries += ((OVERRIDE_SNAPSHOTS, f"{namespace}/{name}") for namespace, name in Overrides.of(spec).keys)
    for field, label in (("resourceSelectors", SELECTED_OBJECTS), ("selectedResources", PLACED_CONTENT)):
        if field in spec:
            entries += ((label, value) for value in indexed_values(document, label))
    return entries
