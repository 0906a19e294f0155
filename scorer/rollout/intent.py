"""Removal needs intent: what the loop writes on an object before it deletes it.

Anybody may delete a binding or a Work: by hand, with its namespace, with its definition, by restoring a backup. None of
that is a reason to take content off a member. So the loop first says on the object itself that it wants it gone, by
an annotation with the object's uid (a copy of the object, or one that was made anew from a file, does not say so), and
deletes it then; whoever finds it going without that word lets it go, and keeps what it stood for.

A crash between the two leaves a word without a deletion: the next pass deletes, or has other plans for the object and
says the opposite (`unmeant`).
"""

from collections.abc import Mapping
from typing import Any

from scorer.api.documents import annotation, uid_of, with_metadata
from scorer.api.meta import JsonObject
from scorer.api.names import REMOVE


def meant(document: JsonObject) -> JsonObject | None:
    """Return the object with the word that it is to go, None when it has it already."""
    return None if is_meant(document) else with_metadata(document, annotations={REMOVE: _uid(document)})


def unmeant(document: JsonObject) -> JsonObject:
    """Return the object without that word; the same one when it has none."""
    if not annotation(document, REMOVE):
        return document
    return with_metadata(document, annotations={REMOVE: None})


def is_meant(document: Mapping[str, Any]) -> bool:
    """Say whether the loop has said, on this very object, that it is to go."""
    uid = _uid(document)
    return bool(uid) and annotation(document, REMOVE) == uid


def _uid(document: Mapping[str, Any]) -> str:
    return uid_of(document)
