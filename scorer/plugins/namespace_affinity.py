"""NamespaceAffinity: restricts a ResourcePlacement to clusters that have its namespace.

Source: docs/specifications/scheduling.md 10.
"""

from dataclasses import dataclass

import numpy as np

from scorer.columns import BoolColumn
from scorer.fleet import NamespaceView
from scorer.framework.cycle import Cycle
from scorer.framework.status import Category, FilterRejection


@dataclass(frozen=True, slots=True)
class NamespaceAffinity:
    """Requires the namespace only on clusters that collect namespaces."""

    name = "NamespaceAffinity"

    def filter(self, cycle: Cycle) -> BoolColumn | None:
        """Return the clusters that have the namespace or do not collect namespaces. None: disabled."""
        if not cycle.namespace:
            return None

        def passes(view: NamespaceView) -> bool:
            reports_collection, namespaces = view
            return not reports_collection or (namespaces is not None and cycle.namespace in namespaces)

        return cycle.fleet.namespaces.holds(passes)

    def categories(self, cycle: Cycle, rejections: BoolColumn) -> dict[Category, int]:
        """Count the clusters without a list and those without the namespace separately."""
        no_list = cycle.fleet.namespaces.holds(lambda view: view[1] is None)
        missing_data = int(np.count_nonzero(rejections & no_list))
        missing = int(np.count_nonzero(rejections)) - missing_data
        counts = {Category.NAMESPACE_DATA_MISSING: missing_data, Category.NAMESPACE_MISSING: missing}
        return {category: count for category, count in counts.items() if count}

    def reject(self, cycle: Cycle, row: int) -> FilterRejection:
        """Return the rejection for a missing list or a missing namespace."""
        view = cycle.fleet.namespaces.value(row)
        if view is None or view[1] is None:
            message = "the cluster collects namespaces but has not reported any"
            return FilterRejection(self.name, Category.NAMESPACE_DATA_MISSING, message)
        message = f"namespace {cycle.namespace!r} does not exist on the cluster"
        help_text = f"namespace {cycle.namespace!r} existing there"
        return FilterRejection(self.name, Category.NAMESPACE_MISSING, message, help_text)
