"""A member cluster in an upgrade run, read from its MemberCluster and annotations.

An unreadable annotation counts as absent. Admission warns of it.

Source: docs/specifications/upgrade-runs.md 3.1 and 14.2.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from scorer.api.meta import JsonObject
from scorer.api.names import AZURE_LOCATION, OURS
from scorer.api.unstructured.documents import annotation, labels_of, name_of
from scorer.api.upgrade.version_catalog import DEFAULT_REGION
from scorer.api.values.duration import parse_wait_time
from scorer.upgrade.back_ends.interface import Inventory
from scorer.windows.member_windows import MemberWindows

UPGRADE_HOLD: Final = OURS + "upgrade-hold"
"""Annotation of a member: ``"true"`` keeps it from being upgraded (upgrade-runs.md 3.1)."""

GROUP_LABEL: Final = OURS + "upgrade-group"
REGION_LABEL: Final = OURS + "upgrade-region"
ORDER: Final = OURS + "upgrade-order"
UPGRADER: Final = OURS + "upgrader"
DEFAULT_UPGRADER: Final = "handoff"
LARGEST_ORDER: Final = 1_000_000

_REGION_LABELS: Final = (REGION_LABEL, "topology.kubernetes.io/region", AZURE_LOCATION)
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,7}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Member:
    """A joined member cluster.

    Args:
        name: Name of the MemberCluster.
        labels: Labels.
        region: Region, as named by the catalog.
        order: Members with a lower number are upgraded first.
        upgrades_paused: Whether its upgrades are paused by annotation.
        windows: Maintenance windows that apply to it and this upgrade.
        upgrader: The back end that upgrades it.
        inventory: Versions that it runs. None: unknown.
        expected: Duration of an upgrade according to its annotation. None: unset.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    region: str = DEFAULT_REGION
    order: int = 0
    upgrades_paused: bool = False
    windows: MemberWindows = field(default_factory=MemberWindows)
    upgrader: str = DEFAULT_UPGRADER
    inventory: Inventory | None = None
    expected: timedelta | None = None


def pause_message(member: Member) -> str:
    """Return the message for a paused member."""
    return f"member {member.name} is on hold"


def read_member(
    document: JsonObject, windows: MemberWindows, inventory: Inventory | None, *, upgrader: str = DEFAULT_UPGRADER
) -> Member:
    """Read a MemberCluster.

    Args:
        document: The MemberCluster.
        windows: Maintenance windows that apply to it and the upgrade.
        inventory: Inventory reported by its back end.
        upgrader: Default back end.
    """
    labels = labels_of(document)
    return Member(
        name=name_of(document),
        labels=labels,
        region=next((region for key in _REGION_LABELS if (region := labels.get(key))), DEFAULT_REGION),
        order=parse_order(annotation(document, ORDER)) or 0,
        upgrades_paused=annotation(document, UPGRADE_HOLD) == "true",
        windows=windows,
        upgrader=annotation(document, UPGRADER) or upgrader,
        inventory=inventory,
        expected=_expected_duration(document),
    )


def _expected_duration(document: JsonObject) -> timedelta | None:
    text = annotation(document, DURATION)
    try:
        return parse_expected_duration(text) if text else None
    except ValueError:
        return None


def parse_order(text: str) -> int | None:
    """Parse the order of a member within its group, or return None if it is not an integer within the limits."""
    if not _NUMBER.fullmatch(text):
        return None
    order = int(text)
    return order if abs(order) <= LARGEST_ORDER else None


DURATION: Final = OURS + "upgrade-duration"
"""Annotation of a MemberCluster: expected duration of an upgrade until there is a history."""


def parse_expected_duration(text: str) -> timedelta:
    """Parse the duration annotation of a MemberCluster.

    Raises:
        ValueError: *text* is not a duration, or it is zero.
    """
    expected = parse_wait_time(text)
    if not expected:
        raise ValueError(f"{text[:64]!r} is zero")
    return expected
