"""The durable half of the embedded store: every write as one row, in the order of resource versions.

The rows are both the objects and the event log. An object is its newest row. A watch resumes by reading the rows after
a version. The *horizon* is the version before which no watch can resume. When it passes a row that is superseded, or
that only records a deletion, the row is removed.

Every append is one transaction in write-ahead mode, so a killed process loses no acknowledged write, and an interrupted
transaction leaves no rows. One process at a time can open the file.
"""

import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from webhook.kube.ports import EventType, ExpiredError, Key, StoreError

SCHEMA_VERSION: Final = 1
APPLICATION_ID: Final = 0x48_42_4D_53  # "HBMS": distinguishes our files from other SQLite files, also for file(1)
RETAINED: Final = 4096
"""Number of old versions that a watch can resume."""

_TABLES: Final = (
    """CREATE TABLE journal (
        version INTEGER PRIMARY KEY, type TEXT NOT NULL, api_group TEXT NOT NULL, kind TEXT NOT NULL,
        namespace TEXT NOT NULL, name TEXT NOT NULL, old_labels BLOB, body BLOB NOT NULL)""",
    "CREATE TABLE horizon (version INTEGER NOT NULL)",
    "INSERT INTO horizon VALUES (0)",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
    f"PRAGMA application_id = {APPLICATION_ID}",
)

KindId = tuple[str, str]
"""Group and kind."""


class Row(NamedTuple):
    """One write.

    Args:
        version: Resource version of the write.
        type: Type of the change.
        kind: Group and kind of the object.
        key: Key of the object.
        body: The object afterwards, as JSON. For a deletion, the last state.
        old_labels: The labels before, as JSON, if they differ from those in *body*.
        replaced: Version of the row that this one supersedes, 0 for a new object. Not stored.
    """

    version: int
    type: EventType
    kind: KindId
    key: Key
    body: bytes
    old_labels: bytes | None = None
    replaced: int = 0


class Journal:
    """An open journal. All methods are synchronous, and must be called from the thread that opened it."""

    def __init__(self, connection: sqlite3.Connection, name: str, retention: int) -> None:
        self._connection = connection
        self._name = name
        self._retained = retention
        self._slack = max(64, min(512, retention // 4))
        self._dead: list[int] = []
        self.version = 0
        self.horizon = 0

    @classmethod
    def open(cls, path: Path | None, *, retention: int = RETAINED) -> "Journal":
        """Open the file, creating it if needed. None keeps it in memory.

        Raises:
            StoreError: The file is unusable. The message names it and the remedy.
        """
        if path is None:
            return cls(_prepare(sqlite3.connect(":memory:", isolation_level=None), ":memory:"), "memory", retention)
        _make_file(path)
        try:
            connection = sqlite3.connect(path, isolation_level=None, timeout=0)
        except sqlite3.Error as error:
            raise StoreError(f"cannot open {path}: {error}") from error
        try:
            return cls(_prepare(connection, str(path)), str(path), retention)
        except sqlite3.Error as error:
            connection.close()
            raise StoreError(_open_failure(path, error)) from error
        except StoreError:
            connection.close()
            raise

    def close(self) -> None:
        """Release the file. A second call is a no-op."""
        self._connection.close()

    def load(self) -> Iterator[tuple[int, KindId, bytes]]:
        """Yield version, kind and body of every existing object, oldest write first.

        Call it once, before any other method.

        Raises:
            StoreError: The file cannot be read.
        """
        newest: dict[tuple[KindId, Key], int] = {}
        try:
            (self.horizon,) = self._connection.execute("SELECT version FROM horizon").fetchone()
            columns = "version, type, api_group, kind, namespace, name"
            for version, kind_of_event, group, kind, namespace, name in self._connection.execute(
                f"SELECT {columns} FROM journal ORDER BY version"  # noqa: S608 - constant text
            ):
                subject = (group, kind), Key(name, namespace)
                if old_version := newest.pop(subject, 0):
                    self._dead.append(old_version)
                if kind_of_event == EventType.DELETED:
                    self._dead.append(version)
                else:
                    newest[subject] = version
                self.version = version
            for (kind_id, _), version in newest.items():
                (body,) = self._connection.execute("SELECT body FROM journal WHERE version = ?", (version,)).fetchone()
                yield version, kind_id, body
        except sqlite3.Error as error:
            raise StoreError(f"cannot read {self._name}: {error}. Restore it from a copy, or remove it") from error

    def append(self, rows: Sequence[Row]) -> None:
        """Store *rows*, all or none. Once this returns, they survive a kill of the process.

        Raises:
            StoreError: The rows could not be stored, for example on a full disk.
        """
        values = [
            (row.version, row.type.value, *row.kind, row.key.namespace, row.key.name, row.old_labels, row.body)
            for row in rows
        ]
        statement = "INSERT INTO journal VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
        try:
            if len(values) == 1:
                self._connection.execute(statement, values[0])
            else:
                with _Transaction(self._connection):
                    self._connection.executemany(statement, values)
        except sqlite3.Error as error:
            raise StoreError(f"cannot write {self._name}: {error}. Nothing was changed") from error
        for row in rows:
            if row.replaced:
                self._dead.append(row.replaced)
            if row.type is EventType.DELETED:
                self._dead.append(row.version)
        self.version = rows[-1].version

    def compact(self) -> None:
        """Move the horizon if enough writes have followed it, else do nothing. Call it after an append.

        Raises:
            StoreError: No row was removed, and all remain readable.
        """
        if self.version - self.horizon <= self._retained + self._slack:
            return
        horizon = self.version - self._retained
        compacted = [(version,) for version in self._dead if version <= horizon]
        try:
            with _Transaction(self._connection):
                self._connection.executemany("DELETE FROM journal WHERE version = ?", compacted)
                self._connection.execute("UPDATE horizon SET version = ?", (horizon,))
        except sqlite3.Error as error:
            raise StoreError(f"cannot compact {self._name}: {error}") from error
        self.horizon = horizon
        self._dead = [version for version in self._dead if version > horizon]

    def read(self, kind: KindId, after: int, limit: int) -> list[Row]:
        """Return up to *limit* writes to objects of *kind* after a version, in order.

        Raises:
            ExpiredError: Some of them have been removed, or *after* is in the future.
            StoreError: The file cannot be read.
        """
        if after > self.version:
            raise ExpiredError(f"resource version {after} is later than the newest, {self.version}: list again")
        if after < self.horizon:
            raise ExpiredError(f"resource version {after} is older than the oldest kept, {self.horizon}: list again")
        try:
            rows = self._connection.execute(
                "SELECT version, type, namespace, name, old_labels, body FROM journal"
                " WHERE version > ? AND api_group = ? AND kind = ? ORDER BY version LIMIT ?",
                (after, *kind, limit),
            ).fetchall()
        except sqlite3.Error as error:
            raise StoreError(f"cannot read {self._name}: {error}") from error
        return [
            Row(version, EventType(word), kind, Key(name, namespace), body, labels)
            for version, word, namespace, name, labels, body in rows
        ]


class _Transaction:
    """``BEGIN IMMEDIATE`` … ``COMMIT``, or ``ROLLBACK`` if the block raises."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __enter__(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")

    def __exit__(self, failure: object, *_: object) -> None:
        if failure is None:
            self._connection.execute("COMMIT")
        elif self._connection.in_transaction:  # SQLite itself may have rolled back, for example on a full disk
            self._connection.execute("ROLLBACK")


def _make_file(path: Path) -> None:
    """Ensure that *path* is a writable file, because SQLite's own messages about this are hard to understand.

    Raises:
        StoreError: The file is not writable, or cannot be created.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except IsADirectoryError as error:
        raise StoreError(f"cannot open {path}: it is a directory. Specify a file in it") from error
    except (NotADirectoryError, FileExistsError) as error:
        raise StoreError(f"cannot open {path}: part of the path is a file, not a directory") from error
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise StoreError(f"cannot open {path}: {reason}. Make it writable, or choose another folder") from error


def _prepare(connection: sqlite3.Connection, name: str) -> sqlite3.Connection:
    """Lock the file, check that it is ours, and create the tables of a new one. Never changes a foreign file."""
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (schema,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    is_new = (application, schema, tables) == (0, 0, 0)
    if not is_new and application != APPLICATION_ID:
        raise StoreError(f"cannot use {name}: it is a database of another program. Choose another folder")
    if schema > SCHEMA_VERSION:
        raise StoreError(
            f"cannot use {name}: a newer harbormaster wrote it (schema {schema}, this one reads up to"
            f" {SCHEMA_VERSION}). Start that version, or choose another folder"
        )
    for pragma in (
        "journal_mode = WAL",
        "synchronous = NORMAL",
        "cache_size = -128",  # in KiB, small: objects are read from memory, and only a resumed watch reads pages
        "wal_autocheckpoint = 2048",
        "journal_size_limit = 8388608",
    ):
        connection.execute(f"PRAGMA {pragma}").fetchall()
    with _Transaction(connection):
        if is_new:
            for statement in _TABLES:
                connection.execute(statement)
    return connection


def _open_failure(path: Path, error: sqlite3.Error) -> str:
    if error.sqlite_errorname in ("SQLITE_BUSY", "SQLITE_LOCKED"):
        return f"cannot open {path}: another process is using it. Stop that one, or choose another folder"
    if error.sqlite_errorname == "SQLITE_NOTADB":
        return f"cannot open {path}: it is not a database of harbormaster. Choose another folder"
    if error.sqlite_errorname == "SQLITE_FULL":
        return f"cannot open {path}: {error}. Free some space, or choose another folder"
    return f"cannot open {path}: {error}. Restore it from a copy, or choose another folder"
