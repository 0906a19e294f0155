"""Content that is deleted with namespaces on members, in words: volume claims, and objects of other clients.

Members count this content and report the counts with their time (`webhook.member.properties.namespace_contents`). The
counts are shown to the user who confirms a removal, and change no digest. Clusters without a count are reported as a
number of unknown clusters.

Source: docs/specifications/removal.md 4.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from typing_extensions import TypedDict

from scorer.api.kinds import NAMESPACE
from scorer.api.meta import JsonObject, format_time, parse_time
from scorer.api.unstructured.documents import dict_at, dicts_at
from scorer.api.values.answer import Count, Instant
from scorer.api.values.duration import format_duration
from scorer.rollout.confirmation.digests import RemovalEffect, RemovalItem

NamespaceCounts = Mapping[str, Any]
"""``status.namespaceContents`` of a MemberCluster."""


class MemberContents(TypedDict):
    """Content of namespaces on members, besides the objects that were placed there."""

    volumeClaims: Count
    """PersistentVolumeClaims, on all clusters that have counted them."""
    others: Count
    """Workloads, ConfigMaps and Services that harbormaster has not placed."""
    atLeast: bool
    """Whether there may be more than were counted."""
    unknownClusters: Count
    """Number of clusters whose content is unknown, because the agent has not counted all of these namespaces."""
    countedAt: Instant | None
    """Time of the oldest count. Null: the counts are unknown on all clusters."""


def leaving_namespaces(placement: JsonObject, items: Iterable[RemovalItem]) -> frozenset[str]:
    """Return the names of the Namespaces that are deleted on members by removals from a placement.

    If the placement leaves a cluster or is deleted, these are all Namespaces that it selects.
    """
    leaving, names = list(items), set()
    for item in leaving:
        group, kind, _, name = item.identity
        if item.effect is RemovalEffect.OBJECT and (group, kind) == NAMESPACE.group_kind:
            names.add(name)
    if any(item.effect in (RemovalEffect.CLUSTER, RemovalEffect.PLACEMENT) for item in leaving):
        resources = dicts_at(placement, "status", "selectedResources")
        names.update(str(resource.get("name")) for resource in resources if resource.get("kind") == NAMESPACE.kind)
    return frozenset(names)


def member_contents(namespaces: Iterable[str], counts: Iterable[NamespaceCounts | None]) -> MemberContents | None:
    """Return the content of deleted namespaces on several members, or None if no namespace is deleted.

    Args:
        namespaces: Names of the namespaces.
        counts: Counts of each member. None: unknown, it has no MemberCluster.
    """
    names = sorted(namespaces)
    if not names:
        return None
    claims, others, unknown, at_least, oldest = 0, 0, 0, False, None
    for report in counts:
        entries = [_entry(report, name) for name in names]
        unknown += None in entries
        for entry in filter(None, entries):
            claims += entry[0]
            others += entry[1]
            at_least = at_least or entry[2]
            oldest = min(oldest or entry[3], entry[3])
    return {
        "volumeClaims": claims,
        "others": others,
        "atLeast": at_least,
        "unknownClusters": unknown,
        "countedAt": format_time(oldest) if oldest else None,
    }


def namespace_counts(member: JsonObject | None) -> NamespaceCounts | None:
    """Return the counts of a MemberCluster, empty if it has not reported any. None without a MemberCluster."""
    return None if member is None else dict_at(member, "status", "namespaceContents")


def _entry(counts: NamespaceCounts | None, namespace: str) -> tuple[int, int, bool, datetime] | None:
    """Return claims, others, whether these are lower bounds, and their time. None: unknown, or unreadable."""
    entry = dict_at(counts or {}, namespace)
    try:
        observed = parse_time(entry["observationTime"])
        return int(entry["volumeClaims"]), int(entry["others"]), bool(entry.get("atLeast")), observed
    except (TypeError, KeyError, ValueError):
        return None


def describe_contents(contents: MemberContents | None, now: datetime) -> str:
    """Return a message about the volume claims and unplaced objects that are deleted with namespaces.

    Empty: no namespace is deleted.
    """
    if contents is None:
        return ""
    unknown = contents["unknownClusters"]
    extent = f"unknown on {unknown} cluster{'s' if unknown != 1 else ''}"
    if contents["countedAt"] is None:
        return f"volume claims and other objects in it: {extent}"
    claims, others = contents["volumeClaims"], contents["others"]
    bound = "at least " if contents["atLeast"] else ""
    age = format_duration(max(now - parse_time(contents["countedAt"]), timedelta()))
    text = (
        f"with {bound}{claims} volume claim{'s' if claims != 1 else ''} and {others} other "
        f"object{'s' if others != 1 else ''} on the members, counted {age} ago"
    )
    return f"{text}, {extent}" if unknown else text
