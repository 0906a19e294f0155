"""Distinguishes our objects from documents of other tools in the same repository."""

from difflib import SequenceMatcher
from typing import Any, Final

from scorer.api.kinds import OUR_KINDS, UPGRADE_GROUP, Kind, split_api_version
from scorer.api.names import CLUSTER_GROUP, PLACEMENT_GROUP
from scorer.api.unstructured.json_object import JsonObject

_FLEET_GROUPS: Final = frozenset({PLACEMENT_GROUP, CLUSTER_GROUP, UPGRADE_GROUP})
"""The groups whose kinds are all ours. Karpenter's group also has kinds that we do not validate."""
_PREFIXES: Final = tuple(f"{group}/" for group in sorted({kind.group for kind in OUR_KINDS}))
_ALIKE: Final = 0.8
"""Minimum similarity between a typo and the intended word."""


def mentions_ours(text: str) -> bool:
    """Return whether a text that cannot be parsed has one of our ``apiVersion`` values, so is meant to be ours.

    In YAML, an indented ``apiVersion`` counts only in a list. Elsewhere, it belongs to a template or to text inside
    another object. NUL characters, as of UTF-16 without a byte order mark, are ignored.
    """
    text = text.replace("\0", "")
    versions = (value for head, _, value in (line.partition(":") for line in text.splitlines()) if _is_version(head))
    in_json = (part.lstrip(" :\n") for part in text.split('"apiVersion"')[1:])
    return any(version.lstrip("\"' ").startswith(_PREFIXES) for version in (*versions, *in_json))


def _is_version(key: str) -> bool:
    """Return whether *key* is the ``apiVersion`` of an object, at the left margin or in a list."""
    item = key.lstrip().removeprefix("- ")
    return item.strip("\"' ") == "apiVersion" and (item != key.lstrip() or not key.startswith(" "))


def is_ours(value: Any) -> bool:
    """Return whether a parsed value is one of our objects, valid or not, or a list that contains one at any depth."""
    if isinstance(value, list):
        return any(map(is_ours, value))
    if not isinstance(value, dict):
        return False
    kind = value.get("kind")
    if isinstance(kind, str) and kind.endswith("List"):
        return _is_one(value) or any(is_ours(member) for member in value.values() if isinstance(member, list))
    return _is_one(value)


def _is_one(document: JsonObject) -> bool:
    """Return whether an object has one of our kinds, possibly with a typo in its kind, group or version."""
    version, kind = document.get("apiVersion"), document.get("kind")
    group = split_api_version(version)[0] if isinstance(version, str) else ""
    if group in _FLEET_GROUPS:
        return True
    if not isinstance(kind, str):
        return f"{group}/" in _PREFIXES
    return any(_means(group, kind, own_kind) for own_kind in OUR_KINDS)


def _means(group: str, kind: str, kind_of_ours: Kind) -> bool:
    if group == kind_of_ours.group:
        return kind == kind_of_ours.kind or _alike(kind, kind_of_ours.kind)
    return kind == kind_of_ours.kind and (not group or _alike(group, kind_of_ours.group))


def _alike(word: str, keyword: str) -> bool:
    """Return whether two words differ by a typo. Cheap bounds come first, because words may be long."""
    matcher = SequenceMatcher(None, word, keyword)
    return matcher.real_quick_ratio() >= _ALIKE and matcher.quick_ratio() >= _ALIKE and matcher.ratio() >= _ALIKE
