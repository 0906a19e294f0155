"""Objects of one kind in memory, indexed by key and label.

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
from scorer.api.names import PARENT_BINDING, PARENT_PLACEMENT, UPGRADED_MEMBER
from scorer.api.unstructured.documents import PLACED_CONTENT, SELECTED_OBJECTS, dict_at, indexed_values
from webhook.kube.cache.changes import Handler, ObjectDelta
from webhook.kube.cache.memory import Interner, untracked
from webhook.kube.ports import EventType, Key, WatchEvent, key_of

Trim = Callable[[JsonObject], JsonObject]

INDEXED_LABELS = (PARENT_PLACEMENT, PARENT_BINDING, UPGRADED_MEMBER)
"""Labels by which objects are found without going through all of their kind."""
TARGET_CLUSTER = "spec.targetCluster"
"""Bindings are found by this field as if it were such a label."""

log = logging.getLogger(__name__)


class Revision:
    """Counts the changes of all objects on the shelves of one cache."""

    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = 0


class KindCache:
    """All objects of one kind, by key and by the indexed labels.

    Args:
        kind: Of all of them.
        sharing: Keeps equal parts of objects once; that of the cache.
        revision: Counts changes; that of the cache.
    """

    def __init__(self, kind: Kind, sharing: Interner | None = None, revision: Revision | None = None) -> None:
        self.kind = kind
        self._sharing = sharing or Interner()
        self._revision = revision or Revision()
        self.refusal = ""
        """Why the store does not let us read the kind; empty when it does."""
        self.watching: asyncio.Task[None] | None = None
        self.objects: dict[Key, JsonObject] = {}
        self.labelled: dict[tuple[str, str], dict[Key, JsonObject]] = defaultdict(dict)
        self.namespaces: dict[str, dict[Key, JsonObject]] = defaultdict(dict)
        self.handlers: list[Handler] = []
        self.gone: dict[str, None] = {}
        """Uids of deleted objects, oldest first: an event or a write that comes late must not bring one back."""
        self.synced = asyncio.Event()
        """Set once everything has been listed."""
        self.answered = asyncio.Event()
        """Set once the store has listed everything, or has said that we may not read it."""
        self.optional = False
        """What needs the kind does without it while we may not read it."""
        self.trim: Trim | None = None
        """What is kept of an object; None: all of it."""
        self.events = 0
        """Changes that the watch has brought."""
        self.lists = 0
        """How often everything was listed."""
        self.seen = float("-inf")
        """When the store last sent anything, on the monotonic clock; bookmarks count."""
        self.behind_since: float | None = None
        """Since when changes have been waiting to be taken in, on the monotonic clock; None: none are."""
        self.tries = 0
        """How often in a row the store has been asked for the list, since it gave the last one."""
        self.returned: list[Callable[[], None]] = []
        """Called when the store gives the list again after it was `away`."""
        self.heard = 0
        """The newest version of anything that the store has sent of the kind."""
        self._listed_at = 0

    @property
    def away(self) -> bool:
        """Whether the store has not given the list when it was asked last: what it has not told us is unknown.

        A watch that ends and is followed by a list at once does not count: nothing was missed.
        """
        return self.tries > 1

    def note_version(self, version: int) -> None:
        """Note that the store has been at *version*."""
        self.heard = max(self.heard, version)

    def apply_event(self, event: WatchEvent) -> None:
        """Take in what the watch has brought."""
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
        """Take in an object, unless a newer state of it, or its deletion, is known.

        Args:
            document: The object.
            even_if_older: Whatever is known.
            is_reduced: It is what `reduced` has returned.
        """
        key = key_of(document)
        old = self.objects.get(key)
        self.note_version(_version(document))
        # Our own writes go in before the watch brings them: what it still brings from before them is old.
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
        """Return what is kept of a part of a list, for `replace_all`: so no long list is whole in memory as it came.

        Args:
            documents: The part.
            version: Of the list.
            before: The `snapshot` from before the list was requested.
        """
        if _version_of(version) < before.heard:  # of a restored store, where a version says nothing about the content
            return [self.reduced(document) for document in documents]
        return [self._unchanged_object(document) or self.reduced(document) for document in documents]

    def _unchanged_object(self, document: JsonObject) -> JsonObject | None:
        """Return the object as it is known, if that is at the version of *document*."""
        cached_object = self.objects.get(key_of(document))
        same_version = (
            cached_object is not None
            and _version(cached_object) == _version(document)
            and _uid(cached_object) == _uid(document)
        )
        return cached_object if same_version else None

    def reduced(self, document: JsonObject, before: JsonObject | None = None) -> JsonObject:
        """Return what is kept of an object, with parts that other objects share.

        Args:
            document: The object.
            before: What is kept of an earlier state of it.
        """
        if self.trim is not None:
            document = self.trim(document)
        self._sharing.share(document, before)
        return untracked(document)

    def trim_by(self, trim: Trim) -> None:
        """Keep of each object only what *trim* returns, also of those known already; handlers are not told."""
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
        """Show a known object in a state that is not stored yet, with the version of the stored one.

        So `put` takes the next version that the store brings.
        """
        key = key_of(document)
        old = self.objects[key]
        self._keep(key, document)
        self._tell(old, document)

    def unshow(self, shown_object: JsonObject, stored_object: JsonObject) -> None:
        """Show an object as it is stored again, unless it has changed since *shown_object* was shown."""
        if self.objects.get(key_of(shown_object)) is shown_object:
            self.show(stored_object)

    def drop(self, document: JsonObject) -> None:
        """Forget a deleted object; what the watch still brings of it does not bring it back."""
        key, uid = key_of(document), _uid(document)
        old = self.objects.get(key)
        if uid:
            self.gone[uid] = None
        if len(self.gone) > 1024:  # bounded: at worst an old event shows one again, until its DELETED event comes
            del self.gone[next(iter(self.gone))]
        if old is None or _uid(old) != uid:  # another object of that name, created since, stays
            return
        self._unindex(key, old)
        del self.objects[key]
        self.namespaces[key.namespace].pop(key, None)
        if not self.namespaces[key.namespace]:
            del self.namespaces[key.namespace]
        self._tell(old, None)

    def snapshot(self) -> "KindCacheSnapshot":
        """Return what is known now; to be called before asking for the list that goes to `replace_all`."""
        return KindCacheSnapshot(self.heard, frozenset(self.gone))

    def replace_all(
        self, documents: Iterable[JsonObject], version: str, *, before: "KindCacheSnapshot | None" = None
    ) -> None:
        """Take in the full list as of *version*: what it does not name is gone, unless it was written later.

        A list that is older than what was heard before it was asked for comes from a store that was restored from a
        backup: then the list is the truth, however new what we know looks. An object of the list whose deletion was
        known before is back for the same reason: if the versions were moved on, as is advised for a restore, a restored
        store shows itself by nothing else.

        Args:
            documents: All objects, `reduced`.
            version: Of the list.
            before: The `snapshot` from before the list was requested; None: the version of the list before.
        """
        listed = {key_of(document): document for document in documents}
        at = _version_of(version)
        last_event, deletions = before or KindCacheSnapshot(self._listed_at, frozenset())
        is_restored = at < last_event
        if is_restored:
            self.gone.clear()
        for uid in deletions.intersection(map(_uid, listed.values())):
            self.gone.pop(uid, None)
        # `<= at`: what was written after the list was made is missing from it for no other reason.
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
            except Exception:  # a bug that one object brings to light must not end the watch of all the others
                document = change.document
                key = str(key_of(document))
                log.exception("cannot process an object", extra={"kind": document.get("kind"), "key": key})


class KindCacheSnapshot(NamedTuple):
    """What a shelf knows at one moment.

    Args:
        heard: The newest version of anything.
        gone: The uids of objects whose end is known, as far as they are remembered.
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
    for field, label in (("resourceSelectors", SELECTED_OBJECTS), ("selectedResources", PLACED_CONTENT)):
        if field in spec:
            entries += ((label, value) for value in indexed_values(document, label))
    return entries
