"""The plugin protocols: columns in, a mask or points out, for the whole fleet together."""

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
        """Return the clusters that pass. None means that all of them pass."""
        ...

    def categories(self, cycle: Cycle, rejections: BoolColumn) -> dict[Category, int]:
        """Count the clusters in *rejections* by category. This filter has rejected all of them."""
        ...

    def reject(self, cycle: Cycle, row: int) -> FilterRejection:
        """Return why this filter rejected the cluster in *row*."""
        ...


class ScorePlugin(Protocol):
    """Assigns points to clusters."""

    def score(self, cycle: Cycle, rows: RowColumn) -> IntColumn | None:
        """Return the points of each cluster in *rows*, in the same shape. None means 0 points each."""
        ...
