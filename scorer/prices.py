"""Price lists, as users write them: rows with an instance type and its price, or prices by SKU.

Rows are those of a table of instance types (`scorer.node_disruption.instance_types.price_table`). A price list only
takes the price from them. Prices by SKU may differ by region, and have an age::

    updatedAt: 2026-03-01T00:00:00Z     # optional. Older than a day: the cost is marked as degraded
    prices:                             # per hour, in every region
      Standard_D4s_v5: 0.192
    regions:                            # optional: other prices in these regions
      westeurope:
        Standard_D4s_v5: 0.23

Source: docs/specifications/scheduling.md 18; docs/specifications/nodepool-disruption.md 5.1.
"""

import csv
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from scorer.api.meta import JsonObject, parse_time
from scorer.api.values.field_path import FieldPath
from scorer.api.values.quoting import format_count, quote

TABLE: Final = "instanceTypes"
ON_DEMAND: Final = "on-demand"
MOST_MISTAKES: Final = 20
"""Maximum number of errors that are listed per file."""

_NUMBER: Final = re.compile(r"[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?", re.ASCII)
_FIELDS: Final = ("updatedAt", "prices", "regions")


@dataclass(frozen=True, slots=True)
class PriceMistake:
    """An error in a price list."""

    field: FieldPath
    message: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


class InvalidPricesError(ValueError):
    """A price list has errors."""

    def __init__(self, mistakes: Sequence[PriceMistake]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("; ".join(first_mistakes([str(mistake) for mistake in mistakes])))


def first_mistakes(messages: Sequence[str]) -> list[str]:
    """Return the first messages, plus one with the number of the others."""
    more = len(messages) - MOST_MISTAKES
    return [*messages[:MOST_MISTAKES], *([f"and {format_count(more, 'more error')}"] if more > 0 else ())]


@dataclass(frozen=True, slots=True)
class PriceList:
    """Prices per hour.

    Args:
        prices: By SKU, for every region.
        regions: By region, then by SKU. They take precedence over *prices*.
        updated_at: Time at which the prices were current. None: unknown, they never count as outdated.
    """

    prices: Mapping[str, float] = field(default_factory=dict)
    regions: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    updated_at: datetime | None = None

    def of(self, region: str) -> dict[str, float]:
        """Return the prices in *region*."""
        return {**self.prices, **self.regions.get(region, {})}


def price_of(value: object) -> float:
    """Read a price per hour, given as a number or as text.

    Raises:
        ValueError: *value* is not a finite number, or is negative. The message is human-readable.
    """
    try:
        is_number = not isinstance(value, bool) and _NUMBER.fullmatch(str(value).strip())
        price = float(str(value)) if is_number else math.nan
    except OverflowError:
        price = math.nan
    if not math.isfinite(price) or price < 0:
        raise ValueError(f"{quote(str(value))} is not a price per hour: a finite number that is not negative")
    return price


def read_price_list(document: Any) -> PriceList:
    """Read a price list in either notation. In rows, the lowest on-demand price of a type counts.

    Raises:
        InvalidPricesError: The list has errors.
    """
    reading = _Reading()
    rows = document.get(TABLE) if isinstance(document, dict) and TABLE in document else document
    if isinstance(rows, list):
        at = FieldPath() if rows is document else FieldPath.of(TABLE)
        prices = PriceList(reading.rows(rows, at))
    elif isinstance(document, dict):
        prices = reading.by_sku(document)
    else:
        raise InvalidPricesError([PriceMistake(FieldPath(), f"{quote(document)}: must be rows or prices by SKU")])
    if reading.mistakes:
        raise InvalidPricesError(reading.mistakes)
    return prices


class _Reading:
    """Reads prices, and collects the errors in them."""

    def __init__(self) -> None:
        self.mistakes: list[PriceMistake] = []

    def rows(self, rows: Sequence[object], at: FieldPath) -> dict[str, float]:
        prices: dict[str, float] = {}
        for name, row, place in self._offerings(rows, at):
            if row.get("capacityType", ON_DEMAND) == ON_DEMAND:
                price = self._price(row.get("price"), place / "price")
                prices[name] = min(price, prices.get(name, price))
        return prices

    def _offerings(self, rows: Sequence[object], at: FieldPath) -> Iterator[tuple[str, JsonObject, FieldPath]]:
        for index, row in enumerate(rows):
            if not isinstance(row, dict) or not isinstance(row.get("name"), str) or not row["name"]:
                self._wrong(at / index, f"{quote(row)} is not a row with the name of an instance type")
            elif isinstance(offerings := row.get("offerings"), list):
                path = at / index / "offerings"
                for position, offering in enumerate(offerings):
                    if isinstance(offering, dict):
                        yield row["name"], offering, path / position
                    else:
                        self._wrong(path / position, f"{quote(offering)} is not an object")
            else:
                yield row["name"], row, at / index

    def by_sku(self, document: JsonObject) -> PriceList:
        for name in sorted(map(str, document.keys() - set(_FIELDS))):
            self._wrong(FieldPath.of(name), f"unknown field: must be one of {', '.join(_FIELDS)}")
        if not self.mistakes and not document.keys() & {"prices", "regions"}:
            self._wrong(FieldPath.of("prices"), "must be set: the price per hour by SKU")
        return PriceList(
            self._prices(document.get("prices"), FieldPath.of("prices")),
            {
                str(region): self._prices(prices, FieldPath.of("regions", str(region)))
                for region, prices in self._members(document.get("regions"), FieldPath.of("regions"))
            },
            self._time(document.get("updatedAt"), FieldPath.of("updatedAt")),
        )

    def _prices(self, document: object, at: FieldPath) -> dict[str, float]:
        return {str(sku): self._price(value, at / str(sku)) for sku, value in self._members(document, at)}

    def _price(self, value: object, at: FieldPath) -> float:
        try:
            return price_of(value)
        except ValueError as error:
            self._wrong(at, "is missing" if value is None else str(error))
            return 0.0

    def _time(self, value: object, at: FieldPath) -> datetime | None:
        if value is None:
            return None
        try:
            return parse_time(str(value))
        except ValueError:
            self._wrong(at, f"{quote(str(value))} is not an instant such as 2026-03-01T00:00:00Z")
            return None

    def _members(self, document: object, at: FieldPath) -> Iterator[tuple[object, object]]:
        """Yield the members of an object. Null counts as an empty object."""
        if isinstance(document, dict):
            yield from document.items()
        elif document is not None:
            self._wrong(at, f"{quote(document)} is not an object")

    def _wrong(self, at: FieldPath, message: str) -> None:
        self.mistakes.append(PriceMistake(at, message))


def csv_rows(text: str) -> list[JsonObject]:
    """Read rows in CSV. The first line names the columns, and an empty cell counts as absent.

    A column whose name contains a slash is a node label.

    Raises:
        InvalidPricesError: *text* is not valid CSV of this form. The content of the rows is not checked.
    """
    try:
        rows = list(_cells(text))
    except csv.Error as error:
        raise InvalidPricesError([PriceMistake(FieldPath(), f"not CSV: {error}")]) from error
    if not rows:
        return []
    (first, columns), *rows = rows
    mistakes = [PriceMistake(FieldPath(), f"line {first}: {mistake}") for mistake in _column_mistakes(columns)]
    mistakes = mistakes or [
        PriceMistake(FieldPath(), f"line {line}: has {len(row)} cells, must have {len(columns)}, one for each column")
        for line, row in rows
        if len(row) > len(columns)
    ]
    if mistakes:
        raise InvalidPricesError(mistakes)
    return [_row({key: cell for key, cell in zip(columns, row, strict=False) if cell}) for _, row in rows]


def csv_lines(text: str) -> list[int]:
    """Return the number of the last line of each row of a list in CSV, without the row of column names."""
    return [line for line, _ in _cells(text)][1:]


def _cells(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the non-empty rows of a list, each with the number of its last line. The first one names the columns."""
    reader = csv.reader(text.splitlines(keepends=True), skipinitialspace=True)
    for row in reader:
        cells = [cell.strip() for cell in row]
        if any(cells):
            yield reader.line_num, cells


def _column_mistakes(columns: Sequence[str]) -> Iterator[str]:
    if "name" not in columns:
        delimiter_hint = " and not by semicolons or tabs" if re.search("[;\t]", columns[0]) else ""
        yield f"must have a column name. Columns are separated by commas{delimiter_hint}"
    yield from (
        f"column {quote(column)} is listed twice" for column in dict.fromkeys(columns) if columns.count(column) > 1
    )


def _row(cells: Mapping[str, str]) -> JsonObject:
    labels = {key: cell for key, cell in cells.items() if "/" in key}
    row: JsonObject = {key: cell for key, cell in cells.items() if key not in labels}
    return {**row, "labels": labels} if labels else row
