"""What a plugin is: columns in, a mask or points out, for the whole fleet at once."""

from typing import Protocol

from scorer.columns import BoolColumn, IntColumn, RowColumn
from scorer.framework.cycle import Cycle
from scorer.framework.status import Category, FilterRejection


class FilterPlugin(Protocol):
    """Rejects clusters."""

    @property
    def name(self) -> str:
        """The name of the filter, as the reference spells it."""
        ...

    def filter(self, cycle: Cycle) -> BoolColumn | None:
        """Return the clusters that pass; None: all of them."""
        ...

    def categories(self, cycle: Cycle, rejected: BoolColumn) -> dict[Category, int]:
        """Count the clusters in *rejected*, all of which this filter rejected, by category."""
        ...

    def reject(self, cycle: Cycle, row: int) -> FilterRejection:
        """Say why this filter rejected the cluster in *row*."""
        ...


class ScorePlugin(Protocol):
    """Gives points."""

    def score(self, cycle: Cycle, rows: RowColumn) -> IntColumn | None:
        """Return the points of the clusters in *rows*, of the same shape; None: all get 0."""
        ...
