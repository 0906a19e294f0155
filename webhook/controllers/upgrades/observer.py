"""Metrics hooks of the upgrade controllers (a port).

Source: upgrade-runs.md 15.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Final, Protocol

from scorer.api.upgrade.run import UpgradeRunStatus
from scorer.upgrade.views.metrics import Measure


class UpgradeObserver(Protocol):
    """Is told what runs do; quick, and never raises."""

    def seen(self, run: str, status: UpgradeRunStatus, measured: Iterable[Measure]) -> None:
        """A pass of a run has come to this."""
        ...

    def planned(self, run: str, eta: datetime | None, now: datetime) -> None:
        """The plan of a run says when it is over."""
        ...

    def deleted(self, run: str) -> None:
        """A run is no longer there."""
        ...

    def failed(self, upgrader: str, call: str) -> None:
        """A call of a back end has failed."""
        ...


class _Unobserved:
    def seen(self, run: str, status: UpgradeRunStatus, measured: Iterable[Measure]) -> None:
        pass

    def planned(self, run: str, eta: datetime | None, now: datetime) -> None:
        pass

    def deleted(self, run: str) -> None:
        pass

    def failed(self, upgrader: str, call: str) -> None:
        pass


UNOBSERVED_UPGRADES: Final[UpgradeObserver] = _Unobserved()
"""For runs that nobody counts."""
