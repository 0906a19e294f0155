"""Merge patches (RFC 7396): what a client writes of an object takes the place of what is there.

Source: RFC 7396, section 2.
"""

from typing import Any


def merge_patch(target: Any, patch: Any) -> Any:
    """Apply a merge patch (RFC 7396) and return the result; the arguments stay as they are."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for member, value in patch.items():
        if value is None:
            merged.pop(member, None)
        else:
            merged[member] = merge_patch(merged.get(member), value)
    return merged
