"""Placements on the real members that are changed in turn, each followed until its new content is available."""

import threading
import time
from itertools import count
from typing import Final

from e2e.fleet.bed import Fleet
from e2e.fleet.conditions import check_rows, placement_rows, rows_of
from e2e.fleet.objects import (
    CONFIG_MAP,
    make_config_map,
    make_deployment,
    make_namespace,
    make_placement,
    pick_n,
    rolling,
)
from e2e.fleet.waiting import wait_until
from e2e.load.tally import Tally
from scorer.api.kinds import PLACEMENT

PLACEMENTS: Final = 6
REAL = {
    "clusterAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "clusterSelectorTerms": [
                {"labelSelector": {"matchExpressions": [{"key": "fleet.azure.com/location", "operator": "Exists"}]}}
            ]
        }
    }
}
"""The members that have clusters say where they are."""


class Rollouts:
    """The placements of one fleet; each is of a namespace with a ConfigMap and a Deployment.

    Args:
        fleet: Where.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._names = [f"load-{number}" for number in range(PLACEMENTS)]
        self._ended = threading.Event()

    def put(self) -> None:
        """Create them, and wait until they are available."""
        hub = self._fleet.on_hub
        for number, name in enumerate(self._names):
            for document in (
                make_namespace(name),
                make_config_map("settings", name, round="0"),
                make_deployment("web", name),
                make_placement(
                    name,
                    pick_n(_wanted(number, 0), affinity=REAL),
                    strategy=rolling(maxUnavailable=1, unavailablePeriodSeconds=1),
                ),
            ):
                hub.create(document)
        for number, name in enumerate(self._names):
            self._follow(name, 0, _wanted(number, 0))

    def change(self, tally: Tally) -> None:
        """Change one after the other until `end`, at the rate of *tally* unless they take longer."""
        begin = time.perf_counter()
        for turn in count():
            if self._ended.wait(max(0.0, begin + turn / tally.rate - time.perf_counter())):
                return
            number, round_ = turn % PLACEMENTS, 1 + turn // PLACEMENTS
            began = time.perf_counter()
            try:
                self._change(self._names[number], round_, _wanted(number, round_))
            except (AssertionError, OSError) as error:
                tally.fail(str(error))
            else:
                tally.took(time.perf_counter() - began)

    def end(self) -> None:
        """Change no more of them."""
        self._ended.set()

    def _change(self, name: str, round_: int, clusters: int) -> None:
        hub = self._fleet.on_hub
        hub.patch(CONFIG_MAP, "settings", {"data": {"round": str(round_)}}, name)
        hub.patch(PLACEMENT, name, {"spec": {"policy": {"numberOfClusters": clusters}}})
        self._follow(name, round_, clusters)

    def _follow(self, name: str, round_: int, clusters: int) -> None:
        wait_until(f"{name} is available", lambda: self._unfinished(name, round_, clusters))

    def _unfinished(self, name: str, round_: int, clusters: int) -> str:
        placement = self._fleet.on_hub.get(PLACEMENT, name)
        if problem := check_rows(name, rows_of(placement), placement_rows(placement)):
            return problem
        entries = placement["status"].get("placementStatuses") or []
        names = [entry["clusterName"] for entry in entries if entry.get("clusterName")]
        if len(names) != clusters:
            return f"it is on {names}, not on {clusters}"
        for member in names:
            found = self._fleet.clusters[member].find(CONFIG_MAP, "settings", name)
            if found is None or found["data"]["round"] != str(round_):
                return f"{member} has {found and found['data']}, not round {round_}"
        return ""


def _wanted(number: int, round_: int) -> int:
    """How many clusters a placement wants in a round: it gains one and loses it again, at times of its own."""
    return 2 + (number + round_) // 3 % 2
