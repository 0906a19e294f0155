"""TaintToleration: every taint of a cluster needs a toleration.

Source: docs/specifications/scheduling.md 9; KubeFleet pkg/scheduler/framework/plugins/tainttoleration.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from scorer.api.cluster.member_cluster import Taint
from scorer.api.placement.placement import Toleration
from scorer.columns import BoolColumn
from scorer.framework.cycle import Cycle
from scorer.framework.status import Category, FilterRejection


@dataclass(frozen=True, slots=True)
class TaintToleration:
    """The tolerations of one policy."""

    tolerations: tuple[Toleration, ...] = ()

    name = "TaintToleration"

    def filter(self, cycle: Cycle) -> BoolColumn | None:
        """Return the clusters whose taints are all tolerated. Evaluated once per distinct list of taints."""
        return cycle.fleet.taints.holds(lambda taints: self.untolerated(taints) is None)

    def untolerated(self, taints: Iterable[Taint]) -> Taint | None:
        """Return the first taint without a toleration, or None."""
        return next((taint for taint in taints if self.tolerating(taint) is None), None)

    def tolerating(self, taint: Taint) -> int | None:
        """Return the position of the first toleration that covers *taint*, or None."""
        covers = (index for index, toleration in enumerate(self.tolerations) if tolerates(toleration, taint))
        return next(covers, None)

    def categories(self, cycle: Cycle, rejections: BoolColumn) -> dict[Category, int]:  # noqa: ARG002 - one category only
        """Count all rejected clusters as having an untolerated taint."""
        return {Category.TAINT_NOT_TOLERATED: int(np.count_nonzero(rejections))}

    def reject(self, cycle: Cycle, row: int) -> FilterRejection:
        """Return a rejection that names the first taint without a toleration."""
        taints = cycle.fleet.members[row].spec.taints
        texts = [format_taint(taint) for taint in taints if self.tolerating(taint) is None]
        single = f"a toleration for taint {texts[0]}" if len(set(texts)) == 1 else ""
        return FilterRejection(self.name, Category.TAINT_NOT_TOLERATED, f"taint {texts[0]} not tolerated", single)


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Return whether *toleration* covers *taint*. With an invalid operator it covers nothing."""
    if toleration.effect not in ("", taint.effect):
        return False
    if toleration.operator == "Exists":
        return toleration.key in ("", taint.key)
    if toleration.operator == "Equal":
        return toleration.key != "" and (toleration.key, toleration.value) == (taint.key, taint.value)
    return False


def format_taint(taint: Taint) -> str:
    """Write a taint as kubectl does: ``key=value:NoSchedule``."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"
