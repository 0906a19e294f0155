"""Merge patches of the actions, the same for commands and for the page.

A patch that replaces a whole list or annotation carries the resourceVersion of the object as read: another client may
have written in between.
"""

import secrets
from typing import Final

from scorer.api.unstructured.documents import text_at
from scorer.api.unstructured.json_object import JsonObject

_TOKEN_BYTES: Final = 8


def answer_patch(request: JsonObject, conditions: object) -> JsonObject:
    """Return the patch of the status of an approval request or a gate with the conditions of an answer."""
    return versioned(request, {"status": {"conditions": conditions}})


def approval_message(user: str, message: str = "") -> str:
    """Return the text that records an approval: its author and the reason."""
    return f"approved by {user}" + (f": {message}" if message else "")


def new_token() -> str:
    """Return a new unique restart token of an upgrade run."""
    return secrets.token_hex(_TOKEN_BYTES)


def versioned(document: JsonObject, patch: JsonObject) -> JsonObject:
    """Return a patch that the API server refuses with a conflict if *document* has changed."""
    metadata = {**patch.get("metadata", {}), "resourceVersion": text_at(document, "metadata", "resourceVersion")}
    return {**patch, "metadata": metadata}
