"""Exempt namespaces: removals of their content need no confirmation if they had the label for the whole window.

If the placement places the Namespace, the snapshots of the window contain its labels. A ResourcePlacement does not
place its Namespace. An annotation on the placement records since when the Namespace has had the label: when the
Namespace is deleted, the snapshots are deleted before the placement.

Source: docs/specifications/removal.md 2.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from scorer.api.meta import JsonObject, format_time, read_instant
from scorer.api.names import EXEMPT_SINCE
from scorer.api.unstructured.documents import annotation, namespace_of, uid_of
from scorer.rollout.confirmation.policy import RemovalPolicy
from scorer.rollout.confirmation.sources import PlacedObject, placed_objects
from scorer.rollout.confirmation.window import recent_groups
from scorer.rollout.object_size import ObjectIdentity, home_namespace, namespace_identity
from scorer.rollout.snapshots.groups import SnapshotGroup

ALWAYS: Final = "Always"
"""The Namespace had the label when the placement placed its first content."""


@dataclass(frozen=True, slots=True)
class Exemptions:
    """The exempt namespaces of a placement.

    Args:
        policy: Removal policy of the placement.
        placement: The placement, with its exemption record.
        recently_placed: Content of each snapshot of the window.
        namespace: Returns a Namespace on the hub. None: unknown or deleted.
        now: The current time.
    """

    policy: RemovalPolicy
    placement: JsonObject
    recently_placed: Sequence[Mapping[ObjectIdentity, PlacedObject]]
    namespace: Callable[[str], JsonObject | None]
    now: datetime
    _verdicts: dict[str, bool] = field(default_factory=dict, compare=False)

    @classmethod
    def of(
        cls,
        placement: JsonObject,
        groups: Sequence[SnapshotGroup],
        policy: RemovalPolicy,
        namespace: Callable[[str], JsonObject | None],
        now: datetime,
    ) -> "Exemptions":
        """Return the exemptions of a placement, given all of its resource snapshots."""
        recently_placed = [placed_objects(group) for group in recent_groups(groups, policy.window, now)]
        return cls(policy, placement, recently_placed, namespace, now)

    def covers(self, identity: ObjectIdentity) -> bool:
        """Return whether the removal of an object needs no confirmation."""
        name = home_namespace(identity)
        if name not in self._verdicts:
            self._verdicts[name] = bool(name) and self._is_exempt(name)
        return self._verdicts[name]

    def covers_all(self) -> bool:
        """Return whether all content of the placement is exempt. False for a cluster-scoped one without content."""
        if home := namespace_of(self.placement):
            return self._is_exempt(home)
        identities = {identity for placed in self.recently_placed for identity in placed}
        return bool(identities) and all(map(self.covers, identities))

    def _is_exempt(self, name: str) -> bool:
        identity = namespace_identity(name)
        if homes := [home.content for placed in self.recently_placed if (home := placed.get(identity))]:
            return all(map(self.policy.exempts, homes))
        document = self.namespace(name) if name == namespace_of(self.placement) else None
        if document is None or not self.policy.exempts(document):
            return False
        since = _exempt_since(self.placement)
        return since == ALWAYS or _is_time_before(since, self.now - self.policy.window)


def exemption_record(
    policy: RemovalPolicy, placement: JsonObject, namespace: JsonObject | None, now: datetime, *, is_new: bool
) -> str:
    """Return the exemption record of a placement in a namespace. Empty: not exempt, or every mode is off.

    The record remains unchanged while the Namespace has the label. It contains the uid of the placement, so that a copy
    does not inherit it.

    Args:
        policy: Removal policy of the placement.
        placement: The placement, with the current record.
        namespace: Its Namespace. None: unknown or deleted, or the placement is cluster-scoped.
        now: The current time.
        is_new: Whether it has not placed any content yet.
    """
    if policy.is_off or namespace is None or not policy.exempts(namespace):
        return ""
    since = ALWAYS if is_new else _exempt_since(placement)
    if since != ALWAYS and not _is_time_before(since, now):
        since = format_time(now)
    return f"{uid_of(placement)} {since}"


def _exempt_since(placement: JsonObject) -> str:
    """Return the recorded time since which the Namespace of a placement has had the label. Empty: unknown."""
    uid, _, since = annotation(placement, EXEMPT_SINCE).partition(" ")
    return since if uid and uid == uid_of(placement) else ""


def _is_time_before(text: str, limit: datetime) -> bool:
    """Return whether *text* is a time not later than *limit*. False if it is not a time."""
    instant = read_instant(text)
    return instant is not None and instant <= limit
