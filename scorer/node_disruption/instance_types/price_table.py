"""Table of instance types and prices, written by a user or delivered by a provider.

A table is a list of rows. A row is either one offering, as in a price list (``name``, ``cpu``, ``memory``, ``pods``,
``arch``, ``os``, ``zone``, ``capacityType``, ``price``), or a complete type with its ``offerings``. Rows with the same
name form one type and must have equal resources and labels. One invalid row makes the table unusable, and every error
is reported.

Source: docs/specifications/nodepool-disruption.md 5.1, 6.2 and 6.3.
"""

from collections.abc import Iterable
from typing import Any, Final

from scorer.api.meta import JsonObject
from scorer.api.values.field_path import FieldPath
from scorer.api.values.quantity import parse_quantity
from scorer.node_disruption.cluster.requirements import ALIASES, INSTANCE_TYPE, quote
from scorer.node_disruption.cluster.resources import CPU, MEMORY, PODS, amounts
from scorer.node_disruption.instance_types.catalog import ARCH, CAPACITY_TYPES, ON_DEMAND, OS, InstanceType, Offering
from scorer.prices import TABLE, InvalidPricesError, PriceMistake, price_of

_OFFERING: Final = ("zone", "capacityType", "price", "available")
_TYPE: Final = ("name", "cpu", "memory", "pods", "arch", "os", "labels", "allocatable")
_TEXTS: Final = {"arch": "amd64", "os": "linux", "capacityType": ON_DEMAND}
_BOOLEANS: Final = {"true": True, "false": False}
DEFAULT_PODS: Final = 110


def read_instance_types(document: Any, at: FieldPath = FieldPath()) -> tuple[InstanceType, ...]:  # noqa: B008
    """Parse a table: a list of rows, or an object with such a list as ``instanceTypes``.

    Args:
        document: The table.
        at: Path of the file, for errors.

    Returns:
        Instance types, sorted by name.

    Raises:
        InvalidPricesError: The table has errors.
    """
    if isinstance(document, dict):
        document, at = document.get(TABLE), at / TABLE
    if not isinstance(document, list):
        raise InvalidPricesError([PriceMistake(at, f"{quote(document)} is not a list of instance types")])
    reading = _Reading()
    for index, row in enumerate(document):
        reading.add(row, at / index)
    if reading.mistakes:
        raise InvalidPricesError(reading.mistakes)
    return reading.types()


class _Reading:
    """Parsed rows and their errors."""

    def __init__(self) -> None:
        self.mistakes: list[PriceMistake] = []
        self._types: dict[str, InstanceType] = {}
        self._offerings: dict[str, dict[tuple[str, str], Offering]] = {}
        self._whole: set[str] = set()

    def types(self) -> tuple[InstanceType, ...]:
        return tuple(
            InstanceType(
                name,
                instance_type.labels,
                instance_type.allocatable,
                tuple(self._offerings[name][key] for key in offerings),
            )
            for name, instance_type in sorted(self._types.items())
            for offerings in [sorted(self._offerings[name])]
        )

    def add(self, row: object, at: FieldPath) -> None:
        if not isinstance(row, dict):
            self._wrong(at, f"{quote(row)} is not an object")
            return
        is_whole = "offerings" in row
        self._unknown(row, (*_TYPE, "offerings") if is_whole else (*_TYPE, *_OFFERING), at)
        name = self._text(row, "name", at)
        if not name:
            return
        self._add_type(name, row, at, is_whole)
        if is_whole:
            self._add_offerings(name, row["offerings"], at / "offerings")
        else:
            self._add_offering(name, row, at)

    def _add_type(self, name: str, row: JsonObject, at: FieldPath, is_whole: bool) -> None:
        instance_type = InstanceType(name, self._labels(name, row, at), self._allocatable(row, at))
        previous = self._types.setdefault(name, instance_type)
        self._offerings.setdefault(name, {})
        if previous is not instance_type and (is_whole or name in self._whole):
            self._wrong(at / "name", f"{quote(name)} is listed twice")
        elif previous != instance_type:
            self._wrong(at, f"{quote(name)} has different resources or labels than in the previous row")
        if is_whole:
            self._whole.add(name)

    def _labels(self, name: str, row: JsonObject, at: FieldPath) -> dict[str, str]:
        more = row.get("labels", {})
        if not isinstance(more, dict) or not all(isinstance(value, str) for value in more.values()):
            self._wrong(at / "labels", f"{quote(more)} is not an object of strings")
            more = {}
        own = {ARCH: self._text(row, "arch", at), OS: self._text(row, "os", at), INSTANCE_TYPE: name}
        return {ALIASES.get(key, key): value for key, value in more.items()} | own

    def _allocatable(self, row: JsonObject, at: FieldPath) -> dict[str, int]:
        more = row.get("allocatable", {})
        if not isinstance(more, dict):
            self._wrong(at / "allocatable", f"{quote(more)} is not an object")
            more = {}
        allocatable = {key: row[key] for key in (CPU, MEMORY, PODS) if key in row} | more
        for key in (CPU, MEMORY):
            if key not in allocatable:
                self._wrong(at / key, "is missing")
        for key, value in allocatable.items():
            self._check_amount(value, at / key if key in row else at / "allocatable" / key)
        return amounts({PODS: DEFAULT_PODS, **allocatable})

    def _check_amount(self, value: object, at: FieldPath) -> None:
        try:
            is_fine = not isinstance(value, bool) and parse_quantity(str(value)).nano >= 0
        except ValueError:
            is_fine = False
        if not is_fine:
            self._wrong(at, f"{quote(value)} is not an amount such as 4 or 16Gi")

    def _add_offerings(self, name: str, rows: object, at: FieldPath) -> None:
        if not isinstance(rows, list):
            self._wrong(at, f"{quote(rows)} is not a list")
            return
        for index, row in enumerate(rows):
            if not isinstance(row, dict):
                self._wrong(at / index, f"{quote(row)} is not an object")
                continue
            self._unknown(row, _OFFERING, at / index)
            self._add_offering(name, row, at / index)

    def _add_offering(self, name: str, row: JsonObject, at: FieldPath) -> None:
        zone, capacity_type = self._text(row, "zone", at), self._text(row, "capacityType", at)
        if capacity_type not in CAPACITY_TYPES:
            words = ", ".join(sorted(CAPACITY_TYPES))
            self._wrong(at / "capacityType", f"{quote(capacity_type)} is not one of {words}")
        offering = Offering(zone, capacity_type, self._price(row, at), self._available(row, at))
        if self._offerings[name].setdefault((zone, capacity_type), offering) is not offering:
            self._wrong(at, f"{quote(name)} is listed twice for zone {quote(zone)}, {capacity_type}")

    def _price(self, row: JsonObject, at: FieldPath) -> float:
        value = row.get("price")
        if value is None:
            self._wrong(at / "price", "is missing")
            return 0.0
        try:
            return price_of(value)
        except ValueError as error:
            self._wrong(at / "price", str(error))
            return 0.0

    def _available(self, row: JsonObject, at: FieldPath) -> bool:
        value = row.get("available", True)
        if isinstance(value, str):
            value = _BOOLEANS.get(value.lower(), value)
        if not isinstance(value, bool):
            self._wrong(at / "available", f"{quote(value)} is neither true nor false")
        return value is True

    def _text(self, row: JsonObject, key: str, at: FieldPath) -> str:
        value = row.get(key, _TEXTS.get(key))
        if value is None:
            self._wrong(at / key, "is missing")
            return ""
        if not isinstance(value, str) or not value:
            self._wrong(at / key, f"{quote(value)} is not a string")
            return ""
        return value

    def _unknown(self, row: JsonObject, known_keys: Iterable[str], at: FieldPath) -> None:
        for key in sorted(map(str, row.keys() - set(known_keys))):
            self._wrong(at / key, "is not a field of instance types")

    def _wrong(self, at: FieldPath, message: str) -> None:
        self.mistakes.append(PriceMistake(at, message))
