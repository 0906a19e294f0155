"""Contention: other writers that keep changing what the agent applies.

The agent undoes such a change immediately. With the fifth one in a row the object is contested. Then the agent reports
the other writer, and writes only after the object has kept its content for ten seconds, or once in five minutes. So a
writer that never pauses costs no writes, and one that stops is answered within seconds. A writer that only answers the
agent pauses all the time, so the ten seconds double with each further change that was undone.

The object is contested until the content that the agent has written has lasted for thirty seconds.

All this is in memory, for the objects that were changed last. A restart resets it, and so does new content of the Work.

Source: rollout.md 11.8. Not in the reference.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from scorer.api.meta import JsonObject
from webhook.member.apply.fingerprints import Fingerprints, mark
from webhook.member.objects.field_managers import other_managers
from webhook.member.objects.manifests import Manifest, ManifestIdentity, manifest_hash

MOST: Final = 1000
"""Objects remembered. The one that was changed least recently is forgotten first."""

CONTESTED_AFTER: Final = 5
"""Changes that were undone in a row until an object is contested."""

IN_A_ROW: Final = timedelta(minutes=1)
"""Changes of an object that is not contested belong together if they are at most this far apart."""

QUIET: Final = timedelta(seconds=10)
LONGEST: Final = timedelta(minutes=5)
CALM: Final = timedelta(seconds=30)


@dataclass(slots=True)
class _Rivalry:
    """The writes to one object.

    Args:
        manifest: Hash of the manifest that the agent applies.
        written: Time of the pass that last changed the object.
        left: Fingerprint of the object after that write. Empty: the other writer was faster, so it failed.
        undone: Changes of the other writer that were undone in a row.
        rival: The other writer.
        seen: Fingerprint of the object when it was last read.
        since: When it was first read like that.
        failed: Fingerprint of the object as it was read before that write. Empty: the write did not fail.
    """

    manifest: str
    written: datetime
    left: bytes
    since: datetime
    undone: int = 0
    rival: str = ""
    seen: bytes = b""
    failed: bytes = b""

    @property
    def contested(self) -> bool:
        return self.undone >= CONTESTED_AFTER

    @property
    def quiet(self) -> timedelta:
        """How long the object must keep its content before it is written again."""
        return min(QUIET * (1 << min(self.undone - CONTESTED_AFTER, 16)), LONGEST)


class ContestedObjects:
    """Remembers which objects of a member other clients keep changing."""

    def __init__(self) -> None:
        self._known: OrderedDict[ManifestIdentity, _Rivalry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def rival(self, item: Manifest) -> str:
        """Return the writer that contests an object, for a message. Empty: the object is not contested."""
        record = self._of(item)
        return record.rival if record is not None and record.contested else ""

    def holds_back(self, item: Manifest, live: JsonObject, now: datetime) -> bool:
        """Return whether the agent must not write a contested object in this pass."""
        record = self._of(item)
        if record is None or not record.contested:
            return False
        content = mark(live, "")
        if content == record.left:
            return False
        if content != record.seen:
            record.seen, record.since = content, now
        return not (_passed(record.quiet, record.since, now) or _passed(LONGEST, record.written, now))

    def changed(self, item: Manifest, before: JsonObject, after: JsonObject | None, now: datetime) -> None:
        """Note that a pass has changed an object that existed.

        A change counts once, however often the write over it fails: a status changes the version of an object, too.

        Args:
            item: The manifest.
            before: The object as it was read.
            after: The object as stored. None: unknown, the other writer was faster.
            now: Time of the pass.
        """
        undoes, undoes_digest = mark(before, ""), b"" if after is None else mark(after, "")
        record = self._of(item)
        if record is None:  # new content: the object differs because the agent has not applied it yet
            record = self._known[item.identity] = _Rivalry(manifest_hash(item.document), now, undoes_digest, now)
        elif record.written != now and undoes != record.failed:
            in_a_row = record.contested or not _passed(IN_A_ROW, record.written, now)
            record.undone = record.undone + 1 if in_a_row else 1
            record.rival = other_managers(before, item.document)
        record.written, record.left, record.failed = now, undoes_digest, undoes if after is None else b""
        self._known.move_to_end(item.identity)
        if len(self._known) > MOST:
            self._known.popitem(last=False)

    def unchanged(self, item: Manifest, now: datetime) -> None:
        """Note that a pass has found an object as the manifest wants it."""
        record = self._of(item)
        if record is not None and _passed(CALM if record.contested else IN_A_ROW, record.written, now):
            del self._known[item.identity]

    def _of(self, item: Manifest) -> _Rivalry | None:
        record = self._known.get(item.identity)
        return record if record is not None and record.manifest == manifest_hash(item.document) else None


@dataclass(frozen=True, slots=True)
class Memory:
    """State that an agent keeps from pass to pass, one instance per member.

    Args:
        fingerprints: Of what it has applied.
        rivals: Other writers of it.
    """

    fingerprints: Fingerprints = field(default_factory=Fingerprints)
    rivals: ContestedObjects = field(default_factory=ContestedObjects)


def _passed(limit: timedelta, since: datetime, now: datetime) -> bool:
    """Return whether *limit* has passed, or the clock was set back."""
    return not timedelta(0) <= now - since < limit
