"""Properties of member clusters over the last day, for display.

Kept in memory, with one value per quarter of an hour: a replica only has values since its start. Values that are not
numbers are ignored.
"""

import math
from array import array
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Annotated, Final

from typing_extensions import TypedDict

from scorer.api.kinds import MEMBER_CLUSTER
from scorer.api.meta import JsonObject, format_time, read_instant
from scorer.api.unstructured.documents import dict_at, name_of, text_at
from scorer.api.values.answer import Described, Instant
from scorer.api.values.quantity import read_quantity
from webhook.kube.cache.changes import ObjectDelta
from webhook.kube.cache.informer import Cache

STEP: Final = timedelta(minutes=15)
STEPS: Final = 96
"""Steps per day."""
MOST_SERIES: Final = 20_000
"""Maximum number of series of all members together, at 0.9 kB each. Further properties are ignored."""
_EPOCH: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
_NONE: Final = float("nan")
_RESOURCES: Final = ("cpu", "memory")


class PropertySeries(TypedDict):
    """One property over the last day."""

    name: str
    """Name of the property. `available cpu` and `available memory` are resources."""
    values: list[float | None]
    """The last value of every step, null for a step without a report."""


_ClusterHistory = TypedDict(
    "_ClusterHistory",
    {
        "cluster": str,
        "from": Annotated[Instant, Described("When the first step begins.")],
    },
)


class ClusterHistory(_ClusterHistory, TypedDict):
    """Reports of a cluster over the last day, as far as this server observed them."""

    stepSeconds: int
    series: list[PropertySeries]


class PropertyHistory:
    """Records the values that members report.

    Args:
        cache: The hub's objects.
        now: The clock.
    """

    def __init__(self, cache: Cache, now: Callable[[], datetime]) -> None:
        self._now = now
        self._members: dict[str, dict[str, _Series]] = {}
        self._count = 0
        cache.subscribe(MEMBER_CLUSTER, self._note)

    def document(self, cluster: str) -> ClusterHistory:
        """Return the values of every step, null for a step without a report."""
        last = _step(self._now())
        series = self._members.get(cluster, {})
        return {
            "cluster": cluster,
            "from": format_time(_EPOCH + (last - STEPS + 1) * STEP),
            "stepSeconds": int(STEP.total_seconds()),
            "series": [{"name": name, "values": list(series[name].values(last))} for name in sorted(series)],
        }

    def _note(self, change: ObjectDelta) -> None:
        name = name_of(change.document)
        if change.new is None:
            self._count -= len(self._members.pop(name, {}))
            return
        if change.old is not None and change.old.get("status") == change.new.get("status"):
            return
        if name not in self._members and self._count >= MOST_SERIES:
            return
        step = _step(self._now())
        series = self._members.setdefault(name, {})
        for key, value, observed in _reported(change.new):
            if key not in series:
                if self._count >= MOST_SERIES:
                    continue
                self._count += 1
                series[key] = _Series()
            series[key].put(step if observed is None else min(step, _step(observed)), value)


class _Series:
    """The values of one property, a ring of steps."""

    __slots__ = ("_last", "_ring")

    def __init__(self) -> None:
        self._ring = array("d", [_NONE]) * STEPS
        self._last = -1

    def put(self, step: int, value: float) -> None:
        """Record a value for the step of its observation. The last value of a step wins.

        A value that is older than all steps is ignored.
        """
        if step <= self._last - STEPS:
            return
        for skipped_step in range(max(self._last + 1, step - STEPS + 1), step):
            self._ring[skipped_step % STEPS] = _NONE
        self._ring[step % STEPS] = value
        self._last = max(self._last, step)

    def values(self, last: int) -> Iterator[float | None]:
        """Yield the values of the day that ends with the step *last*, and None for each step without one."""
        for step in range(last - STEPS + 1, last + 1):
            value = self._ring[step % STEPS] if self._last - STEPS < step <= self._last else _NONE
            yield None if math.isnan(value) else value


def _step(instant: datetime) -> int:
    return (instant - _EPOCH) // STEP


def _reported(member: JsonObject) -> Iterator[tuple[str, float, datetime | None]]:
    """Yield the numbers that a member reports, each with its name and the time of observation, None if not reported."""
    for name, entry in dict_at(member, "status", "properties").items():
        if (value := _number(text_at(entry, "value"))) is not None:
            yield name, value, read_instant(text_at(entry, "observationTime"))
    usage = dict_at(member, "status", "resourceUsage")
    observed = read_instant(text_at(usage, "observationTime"))
    for resource in _RESOURCES:
        amount = dict_at(usage, "available").get(resource)
        if amount is not None and (value := _number(str(amount))) is not None:
            yield f"available {resource}", value, observed


def _number(text: str) -> float | None:
    quantity = read_quantity(text)
    if quantity is None:
        return None
    return quantity.double if math.isfinite(quantity.double) else None
