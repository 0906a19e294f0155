"""The properties of a member: their names and the reported values.

Source: docs/specifications/scheduling.md 7; docs/specifications/placement-api.md 2.2.
"""

from datetime import datetime
from functools import lru_cache

from scorer.api.cluster.member_cluster import MemberCluster
from scorer.api.cluster.scores import read_score
from scorer.api.names import SCORE_PREFIX
from scorer.api.values.name_grammar import dns_subdomain_error, qualified_name_error
from scorer.api.values.quantity import LONGEST_REMEMBERED, read_quantity
from scorer.columns import PropertyReading

RESOURCE_PREFIX = "resources.kubernetes-fleet.io/"
CAPACITY_KINDS = ("total", "allocatable", "available")
NODE_COUNT = "kubernetes-fleet.io/node-count"
NODE_COUNT_ALIASES = {NODE_COUNT: "kubernetes.azure.com/node-count", "kubernetes.azure.com/node-count": NODE_COUNT}
_AMOUNTS = {"total": "capacity", "allocatable": "allocatable", "available": "available"}
_LONGEST_NAME_REMEMBERED = 320


def property_name_error(name: str) -> str:
    """Return why *name* is not a valid property name, or an empty string (placement-api.md 2.2)."""
    if name.startswith(RESOURCE_PREFIX):
        kind, dash, resource = name.removeprefix(RESOURCE_PREFIX).partition("-")
        if not dash or not resource or kind not in CAPACITY_KINDS:
            return (
                f"must be {RESOURCE_PREFIX}<capacity>-<resource>, where capacity is one of {', '.join(CAPACITY_KINDS)}"
            )
        return qualified_name_error(name)
    first, *further_parts = name.split("/")
    if further_parts and dns_subdomain_error(first) and qualified_name_error(first):
        return f"first segment {dns_subdomain_error(first)}"
    return next(filter(None, map(qualified_name_error, further_parts or [first])), "")


def read_property(member: MemberCluster, name: str) -> PropertyReading | None:
    """Return the value that *member* reports for a property, or None if it reports none.

    An external score is returned even if it has expired: see `Fleet.at`.

    Source: docs/specifications/scheduling.md 7; DV-2 (node-count aliases), DV-3 (unreadable values), DV-4 (first dash).
    """
    if name.startswith(RESOURCE_PREFIX):
        field_name, resource = _amount_of(name)
        amount = getattr(member.status.resource_usage, field_name).get(resource)
        return None if amount is None else _reading(str(amount))
    if name.startswith(SCORE_PREFIX) and (text := member.metadata.annotations.get(name)) is not None:
        score = read_score(member.metadata.annotations, name)
        return PropertyReading(_shortened(text), None) if score is None else _reading(score.value)
    value = member.status.properties.get(name)
    if value is None and name in NODE_COUNT_ALIASES:
        value = member.status.properties.get(NODE_COUNT_ALIASES[name])
    return None if value is None else _reading(value.value)


def observation_time(member: MemberCluster, name: str) -> datetime | None:
    """Return when the value of a property was observed. None: unknown."""
    if name.startswith(RESOURCE_PREFIX):
        return member.status.resource_usage.observation_time
    value = member.status.properties.get(name) or member.status.properties.get(NODE_COUNT_ALIASES.get(name, ""))
    return value.observation_time if value else None


def _amount_of(name: str) -> tuple[str, str]:
    """Return the field of ``status.resourceUsage``, and the resource in it, that a resource property refers to."""
    return _known_amount_of(name) if len(name) <= _LONGEST_NAME_REMEMBERED else _split(name)


def _split(name: str) -> tuple[str, str]:
    kind, _, resource = name.removeprefix(RESOURCE_PREFIX).partition("-")
    return _AMOUNTS[kind], resource


_known_amount_of = lru_cache(maxsize=1024)(_split)


def _reading(text: str) -> PropertyReading:
    return _known_reading(text) if len(text) <= LONGEST_REMEMBERED else PropertyReading(text, read_quantity(text))


@lru_cache(maxsize=65536)
def _known_reading(text: str) -> PropertyReading:
    return PropertyReading(text, read_quantity(text))


def _shortened(text: str) -> str:
    return text if len(text) <= 128 else f"{text[:128]}…"
