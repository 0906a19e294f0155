"""Removal needs intent: the mark that the loop puts on an object before it deletes it.

A binding or a Work can be deleted in many ways: by hand, with its namespace, with its definition, by restoring a
backup. None of these is a reason to remove content from a member. So the loop first marks the object as meant to go,
by an annotation with the object's own uid, and then deletes it. The uid keeps the mark from counting on a copy, or on
an object recreated from a file. A controller or agent that finds an object being deleted without the mark lets it go,
and keeps the content that it stood for.

The mark comes first because the two cannot be one write. A crash in between leaves a mark without a deletion: the next
pass deletes the object, or has other plans for it and removes the mark (`unmeant`). In the other order, a crash would
leave a deletion that looks like another client's.
"""

from collections.abc import Mapping
from typing import Any

from scorer.api.documents import annotation, uid_of, with_metadata
from scorer.api.meta import JsonObject
from scorer.api.names import REMOVE


def meant(document: JsonObject) -> JsonObject | None:
    """Return the object marked as meant to go; None when it is marked already."""
    return None if is_meant(document) else with_metadata(document, annotations={REMOVE: _uid(document)})


def unmeant(document: JsonObject) -> JsonObject:
    """Return the object without that mark; the same object when it has none."""
    if not annotation(document, REMOVE):
        return document
    return with_metadata(document, annotations={REMOVE: None})


def is_meant(document: Mapping[str, Any]) -> bool:
    """Say whether the loop has marked this very object as meant to go."""
    uid = _uid(document)
    return bool(uid) and annotation(document, REMOVE) == uid


def _uid(document: Mapping[str, Any]) -> str:
    return uid_of(document)
