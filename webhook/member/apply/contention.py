"""Contention: other writers that keep changing objects that the agent applies.

The agent reverts a change by another writer immediately. With the fifth consecutive change, the object is contested.
The agent then reports the other writer, and writes only after the object has kept its content for ten seconds, or once
in five minutes. A writer that never pauses therefore costs few writes, and one that stops is overwritten within
seconds. A writer that only reacts to the agent always pauses, so the ten seconds double with each further reverted
change, up to five minutes.

The object is contested until the content that the agent has written has lasted for thirty seconds.

All state is in memory, for the objects that were changed last. A restart resets it, and so does new content of the
Work.

Source: docs/specifications/rollout.md 11.8. Not in the reference.
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
"""Maximum number of tracked objects. The least recently changed one is evicted first."""

CONTESTED_AFTER: Final = 5
"""Consecutive reverted changes after which an object is contested."""

IN_A_ROW: Final = timedelta(minutes=1)
"""Changes of an uncontested object count as consecutive if they are at most this far apart."""

QUIET: Final = timedelta(seconds=10)
LONGEST: Final = timedelta(minutes=5)
CALM: Final = timedelta(seconds=30)


@dataclass(slots=True)
class _Rivalry:
    """The writes to one object.

    Args:
        manifest: Hash of the manifest that the agent applies.
        written: Time of the pass that last changed the object.
        left: Fingerprint of the object after that write. Empty if the write failed, because the other writer was
            faster.
        since: Time of the pass that first saw the fingerprint *seen*.
        undone: Consecutive reverted changes of the other writer.
        rival: The other writer.
        seen: Fingerprint of the object when it was last read.
        failed: Fingerprint of the object before a failed write. Empty if the write succeeded.
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
        """Minimum time without a change before the object is written again."""
        return min(QUIET * (1 << min(self.undone - CONTESTED_AFTER, 16)), LONGEST)


class ContestedObjects:
    """Tracks objects of a member that other clients keep changing."""

    def __init__(self) -> None:
        self._rivalries: OrderedDict[ManifestIdentity, _Rivalry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._rivalries)

    def rival(self, item: Manifest) -> str:
        """Return the writer that contests an object, for a message. Empty if the object is not contested."""
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
        """Record that a pass has changed an existing object.

        A change counts once, even if several attempts to overwrite it fail: a status update also changes the version of
        an object.

        Args:
            item: The manifest.
            before: The object as it was read.
            after: The object as stored. None: unknown, the other writer was faster.
            now: Time of the pass.
        """
        # Example: the other writer sets ``replicas: 5``. All writes of one pass over it fail, because the status is
        # updated in between. The next pass finds the same content and succeeds. Together they revert one change.
        undoes, undoes_digest = mark(before, ""), b"" if after is None else mark(after, "")
        record = self._of(item)
        if record is None:  # new content: the object differs because the agent has not applied it yet
            record = self._rivalries[item.identity] = _Rivalry(manifest_hash(item.document), now, undoes_digest, now)
        elif record.written != now and undoes != record.failed:
            in_a_row = record.contested or not _passed(IN_A_ROW, record.written, now)
            record.undone = record.undone + 1 if in_a_row else 1
            record.rival = other_managers(before, item.document)
        record.written, record.left, record.failed = now, undoes_digest, undoes if after is None else b""
        self._rivalries.move_to_end(item.identity)
        if len(self._rivalries) > MOST:
            self._rivalries.popitem(last=False)

    def unchanged(self, item: Manifest, now: datetime) -> None:
        """Record that an object matches its manifest."""
        record = self._of(item)
        if record is not None and _passed(CALM if record.contested else IN_A_ROW, record.written, now):
            del self._rivalries[item.identity]

    def _of(self, item: Manifest) -> _Rivalry | None:
        record = self._rivalries.get(item.identity)
        return record if record is not None and record.manifest == manifest_hash(item.document) else None


@dataclass(frozen=True, slots=True)
class Memory:
    """State that an agent keeps between passes, one instance per member.

    Args:
        fingerprints: Fingerprints of applied objects.
        rivals: Other writers of applied objects.
    """

    fingerprints: Fingerprints = field(default_factory=Fingerprints)
    rivals: ContestedObjects = field(default_factory=ContestedObjects)


def _passed(limit: timedelta, since: datetime, now: datetime) -> bool:
    """Return whether *limit* has passed, or the clock was set back."""
    return not timedelta(0) <= now - since < limit
