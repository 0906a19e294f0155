"""Clients that do the same side by side, for as long as a test looks at what comes of it."""

import threading
from abc import ABC, abstractmethod
from typing import Self

from e2e.controlplane.process import PATIENCE


class SideBySide(ABC):
    """Does something in several threads until the block ends.

    Args:
        threads: How many.
    """

    def __init__(self, threads: int) -> None:
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run) for _ in range(threads)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(PATIENCE)

    @abstractmethod
    def _run(self) -> None:
        """Do it again and again until ``_stop`` is set."""
