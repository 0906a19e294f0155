"""Disruption budgets of the hub's node pools, now and on the calendar.

Source: docs/specifications/serving.md 3.1.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

from scorer.api.family import UnknownObjectError
from scorer.api.node_pool import DisruptionReason
from scorer.api.values.quoting import quote
from scorer.node_budgets.documents import BudgetCalendar, BudgetedPool, BudgetList, CalendarMaker, Overviews
from scorer.node_budgets.pool_view import PoolView
from scorer.reservations import UnreadableReservationsError
from webhook.gate.nodes import HubNodeGate


class HubBudgets:
    """Reads the budgets of a hub.

    Args:
        gate: The pools with their reservations.
        now: The clock.
    """

    def __init__(self, gate: HubNodeGate, now: Callable[[], datetime]) -> None:
        self._gate = gate
        self._now = now
        self._overviews = Overviews(now)

    def now(self) -> datetime:
        """Return the current time."""
        return self._now()

    def pools(self, names: Iterable[str] = ()) -> tuple[BudgetedPool, ...]:
        """Return the named pools in that order, or all of them by name.

        Raises:
            UnknownObjectError: One of the pools does not exist.
        """
        pool_names = tuple(dict.fromkeys(names))
        views = (
            sorted(self._gate.views(), key=lambda view: view.name) if not pool_names else map(self._view, pool_names)
        )
        budgeted_pools = tuple(BudgetedPool(view.name, view.budgets, view.counts()) for view in views)
        if not pool_names:
            self._overviews.forget({pool.name for pool in budgeted_pools})
        return budgeted_pools

    def _view(self, name: str) -> PoolView:
        try:
            view = self._gate.view(name)
        except UnreadableReservationsError:  # as in the list: with every node held
            view = next((pool_view for pool_view in self._gate.views() if pool_view.name == name), None)
        if view is None:
            raise UnknownObjectError(f"there is no NodePool {quote(name)}")
        return view

    async def overview(
        self, pools: Sequence[BudgetedPool], at: datetime, reasons: Sequence[DisruptionReason]
    ) -> BudgetList:
        """Return the budgets of *pools* at *at*. Runs in a thread, because many pools would block the event loop."""
        return await asyncio.to_thread(self._overviews.overview, pools, at, reasons)

    async def calendar(
        self, pools: Sequence[BudgetedPool], start: datetime, days: int, zone: ZoneInfo | None
    ) -> BudgetCalendar:
        """Return the calendar of *pools*. Runs in a thread, one pool at a time.

        Raises:
            TooLargeError: See `scorer.node_budgets.documents.CalendarMaker`.
        """
        maker = CalendarMaker(len(pools), start, days, zone)
        for pool in pools:
            await asyncio.to_thread(maker.add, pool)
        return maker.document()
