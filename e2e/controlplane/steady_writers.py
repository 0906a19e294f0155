"""Users who write placements to a hub at a steady rate, right ones and wrong ones, and what came of it."""

import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import count

from e2e.controlplane.cluster import ApiError, Cluster, JsonObject
from e2e.controlplane.side_by_side import SideBySide
from e2e.placements import PLACEMENTS, placement
from tests.waiting import block_until

MERGE = "application/merge-patch+json"


class SteadyWriters(SideBySide):
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
        super().__init__(writers)
        self._hub = hub
        self._seconds = seconds
        self._numbers = count()
        self._mark = secrets.token_hex(3)
        self._lock = threading.Lock()
        self.results: Counter[str] = Counter()
        self.failures: list[str] = []

    def check(self) -> None:
        """See to it that there were writes of both kinds, and that each was answered as it should be."""
        assert not self.failures, "\n".join([f"{len(self.failures)} of {self.results.total()}", *self.failures[:20]])
        assert self.results["let in"] == 0, self.results
        assert min(self.results["admitted"], self.results["refused"]) > 0

    def wait_for_more(self, writes: int = 20) -> None:
        """Wait until *writes* further writes have been answered."""
        enough = self._answered() + writes
        block_until(lambda: self._answered() >= enough)

    def _answered(self) -> int:
        with self._lock:
            return self.results.total()

    def _run(self) -> None:
        while not self._stop.wait(self._seconds):
            number = next(self._numbers)
            is_wrong = number % 2 == 1
            self._note(*write(self._hub, f"p{number}", is_wrong=is_wrong), is_wrong=is_wrong)

    def _note(self, result: str, said: str, *, is_wrong: bool) -> None:
        with self._lock:
            if is_wrong and result == "admitted":
                result = "let in"
            elif result == "refused" and not is_wrong:
                result = "failed"
            self.results[result] += 1
            if result == "failed":
                self.failures.append(f"{time.strftime('%H:%M:%S')} {said}")


class Authors(SteadyWriters):
    """Create placements, change them and delete them again, with a mistake now and then; what is right is stored.

    Arguments and attributes: as `SteadyWriters`.
    """

    def _run(self) -> None:
        author = next(self._numbers)
        for turn in count():
            name = f"author-{self._mark}-{author}-{turn}"
            for step in (self._create, self._create_wrong, self._change, self._change_wrong, self._delete):
                if self._stop.wait(self._seconds):
                    return
                is_wrong = step in {self._create_wrong, self._change_wrong}
                self._note(*answered(partial(step, name)), is_wrong=is_wrong)

    def _create(self, name: str) -> None:
        self._hub.request("POST", PLACEMENTS, placement(name))

    def _create_wrong(self, name: str) -> None:
        self._hub.request("POST", PLACEMENTS, spoilt(placement(f"{name}-wrong")))

    def _change(self, name: str) -> None:
        change = {"metadata": {"labels": {"changed": "yes"}}, "spec": {"policy": {"numberOfClusters": 3}}}
        self._hub.request("PATCH", f"{PLACEMENTS}/{name}", change, content_type=MERGE)

    def _change_wrong(self, name: str) -> None:
        change = {"spec": {"resourceSelectors": spoilt(placement(name))["spec"]["resourceSelectors"]}}
        self._hub.request("PATCH", f"{PLACEMENTS}/{name}", change, content_type=MERGE)

    def _delete(self, name: str) -> None:
        self._hub.request("DELETE", f"{PLACEMENTS}/{name}")


def write(hub: Cluster, name: str, *, is_wrong: bool = False) -> tuple[str, str]:
    """Try to write a placement, without storing it.

    Args:
        hub: Where.
        name: Of the placement.
        is_wrong: Whether it is to be one that only we refuse.

    Returns:
        ``admitted``, ``refused`` or ``failed``, and what the hub has said.
    """
    document = spoilt(placement(name)) if is_wrong else placement(name)
    return answered(lambda: hub.request("POST", f"{PLACEMENTS}?dryRun=All", document))


def spoilt(document: JsonObject) -> JsonObject:
    """Make a placement one that only we refuse."""
    document["spec"]["resourceSelectors"][0]["name"] = "kube-system"
    return document


def answered(request: Callable[[], object]) -> tuple[str, str]:
    """``admitted``, ``refused`` or ``failed``, and what the hub has said."""
    try:
        request()
    except ApiError as error:
        return "refused" if error.code == 422 else "failed", str(error)
    except OSError as error:
        return "failed", repr(error)
    return "admitted", ""
