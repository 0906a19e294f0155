"""Metrics hooks of the upgrade controllers (a port).

Source: docs/specifications/upgrade-runs.md 15.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Final, Protocol

from scorer.api.upgrade.run import UpgradeRunStatus
from scorer.upgrade.views.metrics import Measure


class UpgradeObserver(Protocol):
    """Metrics hooks. Calls must be quick and must not raise."""

    def seen(self, run: str, status: UpgradeRunStatus, measured: Iterable[Measure]) -> None:
        """Record the status after a pass of a run."""
        ...

    def planned(self, run: str, eta: datetime | None, now: datetime) -> None:
        """Record the estimated end of a run. None: unknown."""
        ...

    def deleted(self, run: str) -> None:
        """Drop the metrics of a deleted run."""
        ...

    def failed(self, upgrader: str, call: str) -> None:
        """Count a failed call of a back end."""
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
"""No-op observer."""
