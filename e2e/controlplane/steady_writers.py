"""Users who write placements to a hub at a steady rate, right ones and wrong ones, and what came of it."""

import threading
import time
from collections import Counter
from itertools import count

from e2e.controlplane.cluster import ApiError, Cluster, JsonObject
from e2e.placements import PLACEMENTS, placement


class SteadyWriters:
    """Writes until the block ends; nothing is stored.

    Args:
        hub: Which asks a replica about each write.
        writers: How many write at once.
        seconds: Between two writes of one of them.

    Attributes:
        results: ``admitted``, ``refused`` for what was wrong, ``let in`` although it was, ``failed``.
        failures: What failed writes were answered.
    """

    def __init__(self, hub: Cluster, writers: int = 5, seconds: float = 0.25) -> None:
        self._hub = hub
        self._seconds = seconds
        self._stop = threading.Event()
        self._numbers = count()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._write) for _ in range(writers)]
        self.results: Counter[str] = Counter()
        self.failures: list[str] = []

    def __enter__(self) -> "SteadyWriters":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)

    def check(self) -> None:
        """See to it that there were writes of both kinds, and that each was answered as it should be."""
        assert self.failures == []
        assert self.results["let in"] == 0
        assert min(self.results["admitted"], self.results["refused"]) > 0

    def _write(self) -> None:
        while not self._stop.wait(self._seconds):
            number = next(self._numbers)
            is_wrong = number % 2 == 1
            result, said = write(self._hub, f"p{number}", is_wrong=is_wrong)
            with self._lock:
                self.results["let in" if is_wrong and result == "admitted" else result] += 1
                if result == "failed":
                    self.failures.append(f"{time.strftime('%H:%M:%S')} {said}")


def write(hub: Cluster, name: str, *, is_wrong: bool = False) -> tuple[str, str]:
    """Try to write a placement, without storing it.

    Args:
        hub: Where.
        name: Of the placement.
        is_wrong: Whether it is to be one that only we refuse.

    Returns:
        ``admitted``, ``refused`` or ``failed``, and what the hub has said.
    """
    document: JsonObject = placement(name)
    if is_wrong:
        document["spec"]["resourceSelectors"][0]["name"] = "kube-system"
    try:
        hub.request("POST", f"{PLACEMENTS}?dryRun=All", document)
    except ApiError as error:
        return "refused" if error.code == 422 else "failed", str(error)
    return "admitted", ""
