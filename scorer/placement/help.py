"""The single change that would get a cluster past a filter or picked, if there is one.

Source: docs/specifications/scheduling.md 22.
"""

from math import ceil, floor

import numpy as np

from scorer.framework.status import FilterRejection
from scorer.placement.schedule import Round, ScheduleResult, Scored
from scorer.plugins.cluster_affinity import ASCENDING, PreferredTerm, observed_range
from scorer.selectors import match_labels


def filter_advice(rejection: FilterRejection | None) -> str:
    """Return a message about the change that would let a rejected cluster pass the filter. Empty: no simple change."""
    return f"would pass with: {rejection.help}" if rejection and rejection.help else ""


def score_advice(run: ScheduleResult, last_batch: Round | None, scored: Scored, border: Scored, rank: int) -> str:
    """Return a message about the change that would get a losing candidate picked. Empty: no simple change.

    Args:
        run: The decision.
        last_batch: The batch with the verdict of the plugins. None if no cluster was judged.
        scored: The candidate's sort keys.
        border: The sort keys of the weakest selected cluster.
        rank: The candidate's rank, counted from 1.
    """
    offers: list[str] = []
    row = run.fleet.row(scored.cluster)
    if last_batch is not None and row is not None and scored.topology == border.topology:
        wins_ties = (scored.bonus, scored.cluster) > (border.bonus, border.cluster)
        missing = border.affinity - scored.affinity + (0 if wins_ties else 1)
        terms = last_batch.profile.affinity.preferred if missing > 0 else ()
        offers = [offer for term in terms if (offer := _better_reading(term, run, row, missing))][:2]
    verb = "would be picked with" if run.last else "would be picked by a new decision with"
    if not offers:
        is_ranked = run.request and run.request.wanted and not run.request.profile.spread.constraints
        return (
            f"would be picked with numberOfClusters {rank}" if is_ranked else ""
        )  # with spreading, every pick ranks again
    return f"{verb} {' or '.join(offers)}"


def _better_reading(term: PreferredTerm, run: ScheduleResult, row: int, missing: int) -> str:
    """Return a message about the reading of a property that is worth *missing* more points. Empty: no such reading.

    The reading is within the current range of the property.
    """
    if term.sorter is None or ((gate := match_labels(run.fleet, term.labels)) is not None and not gate[row]):
        return ""
    column = run.fleet.quantity(term.sorter.name)
    bounds = observed_range(column)
    now = float(column.double[row])
    if bounds is None or np.isnan(now) or column.extremes is None or row in column.extremes:
        return ""
    low, high = bounds
    target = int(term.points(run.fleet, np.array([row]))[0]) + missing
    share = (target - 0.5 if target > 0 else target + 0.5) / term.weight
    if not 0 <= share <= 1:
        return ""
    value = low + (1 - share if term.sorter.order == ASCENDING else share) * (high - low)
    reading = column.readings[row]
    assert reading is not None
    whole = all(other is None or other.text.isdecimal() for other in column.readings)
    relation = "≥" if value > now else "≤"
    return f"{term.sorter.name} {relation} {_like(reading.text, value, up=value > now, whole=whole)}"


_UNITS = {"m": 1e-3, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_UNITS |= {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


def _like(text: str, value: float, *, up: bool, whole: bool) -> str:
    """Format *value* in the unit of *text*, rounded up or down, to an integer if *whole*, else to three decimals.

    A value of 1 or more is not formatted in thousandths.
    """
    unit = next((unit for unit in _UNITS if text.endswith(unit)), "")
    unit = "" if unit == "m" and value >= 1 else unit
    scale = 1 if whole or unit == "m" else 1000
    amount = value / _UNITS.get(unit, 1) * scale
    return f"{(ceil(amount) if up else floor(amount)) / scale:.3f}".rstrip("0").rstrip(".") + unit
