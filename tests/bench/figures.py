"""What a benchmark part tells: ours, the goal, the floor of the same run, and what the reference takes.

A part reports each figure as soon as it is measured. By itself it prints a row of the table; under ``make bench`` it
hands a line of JSON to the process that collects all parts.
"""

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from statistics import median
from typing import Final

from tests.bench.references import REFERENCES, SOURCES

COLLECTED: Final = "BENCH_COLLECTED"
"""The environment variable that asks a part for lines of JSON."""
SHORT_FORM: Final = "BENCH_SHORT"
"""The environment variable that asks a part for its short form."""
SHORT: Final = os.environ.get(SHORT_FORM) == "1"
"""Whether a part is to take its short form."""
PER_SECOND: Final = "/s"
TIMES: Final = "times"
MORE_IS_BETTER: Final = frozenset({PER_SECOND, TIMES})
MARK: Final = "figure "


@dataclass(frozen=True)
class Figure:
    """One measured figure.

    Attributes:
        work: What was done, unique within its part.
        ours: What we took, in *unit*.
        unit: ``ms``, ``s``, ``MB``, ``/s``, ...; of those in `MORE_IS_BETTER` more is better, of all others less.
        goal: What ours must reach, in *unit*; None: it is only shown.
        floor: What the least that still does the work took in the same run, in *unit*; None: there is none.
        ratio: How many floors ours may be at most (where more is better: at least); None: no matter.
        note: What else was seen.
    """

    work: str
    ours: float
    unit: str
    goal: float | None = None
    floor: float | None = None
    ratio: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Row:
    """A figure of one part as several runs found it, in their order."""

    part: str
    runs: tuple[Figure, ...]

    @property
    def unit(self) -> str:
        """The unit of all values."""
        return self.runs[0].unit

    @property
    def ours(self) -> float:
        """The median of ours."""
        return median(run.ours for run in self.runs)

    @property
    def best(self) -> float:
        """The best of ours."""
        return (max if self.unit in MORE_IS_BETTER else min)(run.ours for run in self.runs)

    @property
    def floor(self) -> float | None:
        """The median of the floors."""
        found = [run.floor for run in self.runs if run.floor is not None]
        return median(found) if found else None

    @property
    def ratio(self) -> float | None:
        """The median of ours by the floor of the same run."""
        found = [run.ours / run.floor for run in self.runs if run.floor]
        return median(found) if found else None

    @property
    def met(self) -> bool | None:
        """Whether the medians reach what they must; None: nothing is asked."""
        first = self.runs[0]
        asked = [(self.ours, first.goal), (self.ratio, first.ratio)]
        found = [self._reaches(value, must) for value, must in asked if value is not None and must is not None]
        return all(found) if found else None

    def _reaches(self, value: float, must: float) -> bool:
        return value >= must if self.unit in MORE_IS_BETTER else value <= must

    def line(self) -> str:
        """Return the row of the table."""
        return line(self.cells())

    def cells(self) -> tuple[str, ...]:
        """Return what stands in each column."""
        first = self.runs[0]
        reference = REFERENCES.get((self.part, first.work))
        goals = [
            *([amount(first.goal)] if first.goal is not None else ()),
            *([f"{first.ratio:g} floors"] if first.ratio is not None else ()),
        ]
        return (
            f"{self.part}: {first.work}",
            amount(self.ours) + (f" ({amount(self.best)})" if len(self.runs) > 1 else ""),
            self.unit,
            ", ".join(goals),
            {True: "met", False: "MISSED", None: ""}[self.met],
            amount(self.floor) if self.floor is not None else "",
            f"{self.ratio:.2f}" if self.ratio is not None else "",
            f"{reference.figure} [{reference.source}]" if reference else "",
            first.note,
        )

    def document(self) -> dict[str, object]:
        """Return the row as JSON has it."""
        first = self.runs[0]
        reference = REFERENCES.get((self.part, first.work))
        return {
            "part": self.part,
            "work": first.work,
            "unit": self.unit,
            "ours": [run.ours for run in self.runs],
            "floor": [run.floor for run in self.runs],
            "goal": first.goal,
            "goalRatio": first.ratio,
            "met": self.met,
            "reference": {"figure": reference.figure, "source": SOURCES[reference.source]} if reference else None,
            "notes": [run.note for run in self.runs],
        }


WIDTHS: Final = (58, 18, 6, 17, 7, 10, 7, 18, 0)
TITLES: Final = ("work", "ours", "", "goal", "", "floor", "ratio", "reference", "")


def line(cells: Iterable[str]) -> str:
    """Write the cells of a row below each other's."""
    pairs = zip(cells, WIDTHS, strict=True)
    return "".join(f"{cell:<{width}}  " for cell, width in pairs).rstrip()


def header() -> str:
    """Return what stands above the rows."""
    return line(TITLES)


def amount(value: float) -> str:
    """Write a value with three digits that count."""
    if value >= 100 or value == 0:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 0.001 else f"{value:.1g}"


class Part:
    """Tells the figures of one part."""

    def __init__(self, name: str) -> None:
        """Tell for the part *name*, the name of its module."""
        self._name = name
        self._headed = False

    def report(self, figure: Figure) -> None:
        """Tell a figure: a row for a reader, a line of JSON for the process that collects."""
        if os.environ.get(COLLECTED):
            print(MARK + json.dumps(asdict(figure)), flush=True)
            return
        if not self._headed:
            print(header(), flush=True)
            self._headed = True
        print(Row(self._name, (figure,)).line(), flush=True)
