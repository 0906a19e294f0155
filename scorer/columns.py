"""Labels, taints and properties of the fleet as numpy columns: one entry per member cluster, sorted by name.

Strings are dictionary-encoded. An amount is kept in three forms: the double that the reference uses for scores, a pair
of doubles that compares exactly, and the quantity as reported, for messages.

A column is immutable once it is built: concurrent requests that use an older fleet may still read it.
"""

import operator
from bisect import bisect_left
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from itertools import chain, compress
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from scorer.api.values.quantity import LONGEST_REMEMBERED, NANO, Quantity

BoolColumn: TypeAlias = NDArray[np.bool_]
IntColumn: TypeAlias = NDArray[np.int64]
FloatColumn: TypeAlias = NDArray[np.float64]
CodeColumn: TypeAlias = NDArray[np.int32]
RowColumn: TypeAlias = NDArray[np.intp]

ABSENT = -1
"""The code of a cluster without a value."""

UNLIMITED = np.iinfo(np.int64).max
"""An instant that is never reached, in a column of microseconds."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

T = TypeVar("T", bound=Hashable)
R = TypeVar("R")


def microseconds(instant: datetime) -> int:
    """Return microseconds since 1970."""
    return (instant - _EPOCH) // MICROSECOND


def round_half_away(values: FloatColumn) -> IntColumn:
    """Round to the nearest integer, exact halves away from zero.

    The largest double below one half is added, and the fraction is truncated. A half still reaches the next integer,
    because the sum is rounded to it. 0.49999999999999994 does not reach it, unlike with an addition of 0.5. Correct for
    magnitudes below 2^52.
    """
    shifted = np.copysign(_BELOW_HALF, values)
    shifted += values
    return shifted.astype(np.int64)


_BELOW_HALF = 0.49999999999999994


@dataclass(frozen=True)
class DictionaryColumn(Generic[T]):
    """A dictionary-encoded column.

    Args:
        codes: Position of each cluster's value in *values*, `ABSENT` for a cluster without a value. Shape (clusters,).
        values: The distinct values. Each belongs to at least one cluster, because each counts as a topology domain.
    """

    codes: CodeColumn
    values: tuple[T, ...]

    @classmethod
    def of(cls, values: Iterable[T | None]) -> "DictionaryColumn[T]":
        """Encode one value per cluster. None means absent."""
        index: dict[T, int] = {}
        codes = [ABSENT if value is None else index.setdefault(value, len(index)) for value in values]
        return cls(np.array(codes, dtype=np.int32), tuple(index))

    @cached_property
    def index(self) -> Mapping[T, int]:
        """Code by value."""
        return {value: code for code, value in enumerate(self.values)}

    def value(self, row: int) -> T | None:
        """Return the value of one cluster, or None."""
        code = self.codes[row]
        return None if code == ABSENT else self.values[code]

    def updated(self, changes: Mapping[int, T | None]) -> "DictionaryColumn[T]":
        """Return a copy with the given rows changed, or this column itself if nothing differs."""
        changes = {row: value for row, value in changes.items() if self.value(row) != value}
        if not changes:
            return self
        index = dict(self.index)
        codes = self.codes.copy()
        for row, value in changes.items():
            codes[row] = ABSENT if value is None else index.setdefault(value, len(index))
        # A value that no cluster has any more must be dropped: it would be an empty topology domain.
        in_use = np.bincount(codes[codes >= 0], minlength=len(index)) > 0
        if in_use.all():
            return DictionaryColumn(codes, tuple(index))
        # The additional last entry is for the code ABSENT, -1, which indexes from the end.
        renumbered = np.append(np.where(in_use, np.cumsum(in_use) - 1, ABSENT), ABSENT).astype(np.int32)
        return DictionaryColumn(renumbered[codes], tuple(compress(index, in_use.tolist())))

    def holds(self, test: Callable[[T], bool]) -> BoolColumn:
        """Return a mask of the clusters whose value passes *test*. It runs once per distinct value. Absent is False."""
        return self.among([code for code, value in enumerate(self.values) if test(value)])

    def among(self, codes: Sequence[int]) -> BoolColumn:
        """Return a mask of the clusters whose code is in *codes*, which must not contain `ABSENT`."""
        if len(codes) > _FEW_CODES:
            table = np.zeros(len(self.values) + 1, dtype=np.bool_)  # the last entry is for ABSENT, which is -1
            table[codes] = True
            return table[self.codes]
        mask: BoolColumn = self.codes == (codes[0] if codes else _NO_CODE)
        for code in codes[1:]:
            mask |= self.codes == code
        return mask


_NO_CODE = ABSENT - 1
"""A code that no cluster has."""

_FEW_CODES = 4
"""Maximum number of codes that are compared one by one. For more codes, a table lookup per cluster is faster."""


class Rows(Sequence[R]):
    """One object per cluster, in blocks. A copy with replaced objects shares all unchanged blocks.

    Copying one long list instead would increment the reference count of every object.
    """

    def __init__(self, values: Iterable[R]) -> None:
        rows = tuple(values)
        self._size = len(rows)
        self._blocks = [rows[start : start + _BLOCK] for start in range(0, len(rows), _BLOCK)]

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[R]:
        return chain.from_iterable(self._blocks)

    @overload
    def __getitem__(self, row: int) -> R: ...

    @overload
    def __getitem__(self, row: slice) -> Sequence[R]: ...

    def __getitem__(self, row: int | slice) -> R | Sequence[R]:
        if isinstance(row, slice):
            return tuple(self)[row]
        if row < 0:
            row += self._size
        if not 0 <= row < self._size:
            raise IndexError(row)
        return self._blocks[row // _BLOCK][row % _BLOCK]

    def replaced(self, changes: Mapping[int, R]) -> "Rows[R]":
        """Return a copy with other objects in some rows."""
        blocks: dict[int, list[R]] = {}
        for row, value in changes.items():
            at, place = divmod(row, _BLOCK)
            if at not in blocks:
                blocks[at] = list(self._blocks[at])
            blocks[at][place] = value
        copy: Rows[R] = Rows(())
        copy._size, copy._blocks = self._size, self._blocks.copy()
        for at, block in blocks.items():
            copy._blocks[at] = tuple(block)
        return copy


_BLOCK = 32
"""Rows per block. Small enough that replacing one row is cheap, and large enough that there are few blocks."""


class PropertyReading(NamedTuple):
    """One cluster's value of a property. *quantity* is None if it is unreadable. An absent property has no reading."""

    text: str
    quantity: Quantity | None


class Readings(Protocol):
    """The readings of one property by row, None for clusters without it."""

    def __getitem__(self, row: int, /) -> PropertyReading | None: ...

    def __iter__(self) -> Iterator[PropertyReading | None]: ...


@dataclass(frozen=True, slots=True)
class _Masked:
    """Readings with some of them hidden."""

    readings: Readings
    hidden: BoolColumn

    def __getitem__(self, row: int) -> PropertyReading | None:
        return None if self.hidden[row] else self.readings[row]

    def __iter__(self) -> Iterator[PropertyReading | None]:
        pairs = zip(self.readings, self.hidden.tolist(), strict=True)
        return (None if hidden else reading for reading, hidden in pairs)


@dataclass(frozen=True)
class QuantityColumn:
    """One property of all clusters. NaN for a cluster without a readable value.

    Args:
        double: The amounts for scores. *double* and *high* are one array object if they are equal everywhere.
        high: The exact amounts, rounded to the nearest double.
        low: The exact amounts minus *high*. None means zero everywhere.
        readings: The values as reported.
    """

    double: FloatColumn
    high: FloatColumn
    low: FloatColumn | None
    readings: Readings = field(repr=False)

    @classmethod
    def of(cls, readings: Readings) -> "QuantityColumn":
        """Build the column of one reading per cluster."""
        triples = np.array([_triple(reading) for reading in readings], dtype=np.float64).reshape(-1, 3)
        high = triples[:, 1].copy()
        double = triples[:, 0].copy() if np.any(_not_equal(triples[:, 0], high)) else high
        return cls(double, high, _unless_zero(triples[:, 2].copy()), readings)

    def updated(self, rows: Collection[int], readings: Readings) -> "QuantityColumn":
        """Return the column of *readings*, which may differ from the present readings only in *rows*.

        Unchanged arrays are shared. An equal amount in another notation causes no copy.
        """
        positions = np.fromiter(rows, dtype=np.intp, count=len(rows))
        triples = np.array([_triple(readings[row]) for row in rows], dtype=np.float64).reshape(-1, 3)
        double, high, low = triples.T
        old_high = self.high[positions]
        changed = (double != self.double[positions]) | (high != old_high)
        changed |= low != (0.0 if self.low is None else self.low[positions])
        changed &= (high == high) | (
            old_high == old_high
        )  # NaN differs from itself: absent before and after is not a change
        if not changed.any():
            return self._like(QuantityColumn(self.double, self.high, self.low, readings))
        highs = _replace_rows(self.high, positions, high)
        as_one = self.double is self.high and not np.any(_not_equal(double, high))
        column = QuantityColumn(
            highs if as_one else _replace_rows(self.double, positions, double),
            highs,
            None if self.low is None and not np.any(_not_equal(low, 0.0)) else self._replace_low(positions, low),
            readings,
        )
        return self._like(column) if self._are_inside(positions[changed], high[changed]) else column

    def _replace_low(self, rows: RowColumn, values: FloatColumn) -> FloatColumn:
        return _replace_rows(np.zeros_like(self.high) if self.low is None else self.low, rows, values)

    def _like(self, column: "QuantityColumn") -> "QuantityColumn":
        """Copy the cached `extremes`, if any, to *column*, and return it."""
        if (extremes := vars(self).get("extremes")) is not None:
            vars(column)["extremes"] = extremes
        return column

    def _are_inside(self, rows: RowColumn, amounts: FloatColumn) -> bool:
        """Return whether *rows*, whose new amounts are *amounts*, neither were nor become extreme."""
        extremes = vars(self).get("extremes")
        if extremes is None or np.isin(extremes, rows).any():
            return False
        low, high = (self.high[row] for row in extremes)
        return not np.any((amounts <= low) | (amounts >= high))

    def without(self, hidden: BoolColumn) -> "QuantityColumn":
        """Return the column without the values of *hidden* clusters, or this column itself if none are hidden."""
        if not hidden.any():
            return self
        double, high = np.where(hidden, _NAN, self.double), np.where(hidden, _NAN, self.high)
        return QuantityColumn(double, high, self.low, _Masked(self.readings, hidden))

    def compare(self, relation: str, bound: Quantity) -> BoolColumn:
        """Return a mask of the clusters whose exact amount is in *relation* (Gt Ge Lt Le Eq Ne) to *bound*.

        False for a cluster without a readable value, for every relation.
        """
        if bound.nano.bit_length() > _PAIR_BITS:
            return self._compare_one_by_one(relation, bound)
        high, low = exact_pair(bound)
        if self.low is None and low == 0:
            return _RELATIONS[relation](self.high, high)
        mask: BoolColumn = _RELATIONS[_STRICT[relation]](self.high, high)
        tied = np.flatnonzero(self.high == high)
        if tied.size:  # high is equal, so low decides
            mask[tied] = _RELATIONS[relation](np.zeros(tied.size) if self.low is None else self.low[tied], low)
        return mask

    def _compare_one_by_one(self, relation: str, bound: Quantity) -> BoolColumn:
        """Compare exactly with an amount beyond 10^21, which has more digits than two doubles can represent."""
        holds = _EXACT_RELATIONS[relation]
        amounts = (reading.quantity if reading else None for reading in self.readings)
        return np.array([amount is not None and holds(amount, bound) for amount in amounts], dtype=np.bool_)

    @cached_property
    def complete(self) -> bool:
        """Whether every cluster has a readable value."""
        return not np.isnan(self.high).any()

    def doubles(self, rows: RowColumn, default: float) -> FloatColumn:
        """Return a copy of the doubles of *rows*, with *default* for a cluster without an amount."""
        selected = self.double[rows]
        return selected if self.complete else np.where(np.isnan(selected), default, selected)

    @cached_property
    def extremes(self) -> tuple[int, int] | None:
        """The rows of the smallest and the largest amount, compared exactly. None: unknown, no value is readable."""
        readable = np.flatnonzero(self.high == self.high)
        if readable.size == 0:
            return None
        return self._extreme(readable, np.min), self._extreme(readable, np.max)

    def _extreme(self, rows: RowColumn, pick: Callable[[FloatColumn], Any]) -> int:
        rows = rows[self.high[rows] == pick(self.high[rows])]
        if self.low is not None and rows.size > 1:
            rows = rows[self.low[rows] == pick(self.low[rows])]
        return int(rows[0])


def _replace_rows(column: FloatColumn, rows: RowColumn, values: FloatColumn) -> FloatColumn:
    """Return a copy with other *values* in *rows*."""
    copy = column.copy()
    copy[rows] = values
    return copy


def _not_equal(column: FloatColumn, value: float | FloatColumn) -> BoolColumn:
    different: BoolColumn = (column < value) | (column > value)
    return different


def _never(column: FloatColumn, value: float) -> BoolColumn:  # noqa: ARG001 - one of a family of relations
    return np.zeros(column.size, dtype=np.bool_)


def _unless_zero(column: FloatColumn) -> FloatColumn | None:
    return column if np.any(_not_equal(column, 0.0)) else None


_RELATIONS: Mapping[str, Callable[[FloatColumn, float], BoolColumn]] = {
    "Gt": operator.gt,
    "Ge": operator.ge,
    "Lt": operator.lt,
    "Le": operator.le,
    "Eq": operator.eq,
    "Ne": _not_equal,
    "Never": _never,
}

_STRICT = {"Gt": "Gt", "Ge": "Gt", "Lt": "Lt", "Le": "Lt", "Eq": "Never", "Ne": "Ne"}
"""The relation between two different nearest doubles that implies the relation between the amounts."""

_EXACT_RELATIONS: Mapping[str, Callable[[Quantity, Quantity], bool]] = {
    "Gt": operator.gt,
    "Ge": operator.ge,
    "Lt": operator.lt,
    "Le": operator.le,
    "Eq": operator.eq,
    "Ne": operator.ne,
}

OPERATORS = frozenset(_EXACT_RELATIONS)


def relates(reading: PropertyReading | None, relation: str, bound: Quantity) -> bool:
    """Return whether one reading is in *relation* to *bound*. The scalar form of `QuantityColumn.compare`."""
    if reading is None or reading.quantity is None:
        return False
    return _EXACT_RELATIONS[relation](reading.quantity, bound)


_PAIR_BITS = 100
"""A pair of doubles distinguishes nano amounts of up to this many bits."""


def exact_pair(quantity: Quantity) -> tuple[float, float]:
    """Return the double nearest to an amount, and the remainder. Pairs compare like the amounts.

    Example: 9007199254740993 (2^53 + 1) gives (9007199254740992.0, 1.0), which is above 9007199254740992.
    """
    return _known_pair(quantity) if len(quantity.text) <= LONGEST_REMEMBERED else _pair(quantity)


def _pair(quantity: Quantity) -> tuple[float, float]:
    try:
        high = quantity.nano / NANO
    except OverflowError:  # the amount is within half a step above the largest double
        high = quantity.double
    if high.is_integer() and int(high) * NANO == quantity.nano:
        return high, 0.0
    numerator, denominator = high.as_integer_ratio()
    # Dividing two integers of any length rounds only once.
    return high, (quantity.nano * denominator - numerator * NANO) / (NANO * denominator)


_known_pair = lru_cache(maxsize=65536)(_pair)


_Triple: TypeAlias = tuple[float, float, float]
_NAN = float("nan")
_ABSENT: _Triple = (_NAN, _NAN, _NAN)


def _triple(reading: PropertyReading | None) -> _Triple:
    """Return the amounts of a reading. Amounts with long texts are not cached."""
    if reading is None or reading.quantity is None:
        return _ABSENT
    return (_known_amounts if len(reading.text) <= LONGEST_REMEMBERED else _amounts)(reading, reading.quantity)


def _amounts(reading: PropertyReading, quantity: Quantity) -> _Triple:  # noqa: ARG001 - spellings differ in their doubles
    return quantity.double, *exact_pair(quantity)


_known_amounts = lru_cache(maxsize=65536)(_amounts)


def row_of(names: Sequence[str], name: str) -> int | None:
    """Return the position of *name* in *names*, which must be sorted, or None if it is missing."""
    row = bisect_left(names, name)
    return row if row < len(names) and names[row] == name else None
