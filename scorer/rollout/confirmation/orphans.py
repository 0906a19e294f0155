"""Orphaned content: it remains on members because its placement was deleted with its namespace, without confirmation.

Each MemberCluster records the placements whose orphaned content it has. An entry is removed when the placement is
created again. An administrator can also remove the annotation.

Source: docs/specifications/removal.md 8.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import orjson

from scorer.api.family import PlacementRef, placement_ref
from scorer.api.meta import dump_json, format_time, parse_time
from scorer.api.names import ORPHANED_CONTENT
from scorer.api.unstructured.documents import annotation, name_of

MOST_RECORDED: Final = 200
"""Maximum number of placements in the record of one member. Beyond it, the oldest are dropped."""


@dataclass(frozen=True, slots=True, order=True)
class OrphanedContent:
    """The content of one placement on one member.

    Args:
        since: When it was orphaned.
        objects: How many objects the placement placed.
    """

    since: datetime
    objects: int


def orphan_record(member: Mapping[str, Any]) -> dict[PlacementRef, OrphanedContent]:
    """Return the record of a MemberCluster. An unreadable one is empty."""
    try:
        entries = orjson.loads(annotation(member, ORPHANED_CONTENT) or "{}").items()
        return {
            placement_ref(name, namespace): OrphanedContent(parse_time(entry["since"]), int(entry["objects"]))
            for (namespace, _, name), entry in ((ref.partition("/"), entry) for ref, entry in entries)
            if namespace and name
        }
    except (ValueError, TypeError, KeyError, AttributeError):
        return {}


def format_orphaned(content: Mapping[PlacementRef, OrphanedContent]) -> str:
    """Return the record for a MemberCluster. Empty: there is no such content."""
    latest = sorted(content, key=lambda ref: (content[ref], str(ref)))[-MOST_RECORDED:]
    record = {
        f"{ref.namespace}/{ref.name}": {"since": format_time(content[ref].since), "objects": content[ref].objects}
        for ref in sorted(latest, key=str)
    }
    return dump_json(record).decode() if record else ""


def orphaned_content(members: Iterable[Mapping[str, Any]]) -> dict[PlacementRef, dict[str, OrphanedContent]]:
    """Return the orphaned content of all members, by placement and name of the member."""
    contents: dict[PlacementRef, dict[str, OrphanedContent]] = defaultdict(dict)
    for member in members:
        if annotation(member, ORPHANED_CONTENT):
            for ref, content in orphan_record(member).items():
                contents[ref][name_of(member)] = content
    return dict(sorted(contents.items(), key=lambda entry: str(entry[0])))
