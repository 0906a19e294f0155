"""Questions to ``/v1/score``, each about one group of simulated members, whose order is known.

Members of a group differ in their grade alone, by which they are ranked: the first has all of the points, the last
none, the others a linear share. So the answer is known however the rest of what they report changes.
"""

import ssl
from itertools import count
from typing import Final

import orjson

from e2e.controlplane.cluster import JsonObject
from e2e.controlplane.service import Service
from e2e.fleet.objects import Objects
from e2e.fleet.processes import SYSTEM
from e2e.load.connection import request
from e2e.load.members import GRADE, GROUP, GROUP_SIZE, LEAST_MILLICORES, SimulatedMembers, group_name
from e2e.load.steady import Asked, Asking

CALLERS = 4
"""Each asks over a connection of its own, and stays well below the rate that one caller may ask at."""
LIMIT_SECONDS: Final = 10.0
PICKED, PAGE = 3, 10
POINTS: Final = 100
CPU = "resources.kubernetes-fleet.io/available-cpu"
RBAC = "rbac.authorization.k8s.io"


class Questions:
    """Questions of callers that may ask for scores and nothing else.

    Args:
        service: The replica that is asked; the callers get their rights on its hub.
        members: Who is asked about.
    """

    def __init__(self, service: Service, members: SimulatedMembers) -> None:
        self._port = service.port
        self._trust = ssl.create_default_context(cafile=str(service.ca_file))
        accounts = [f"scorer-{number}" for number in range(CALLERS)]
        Objects(service.cluster).apply([*map(_account, accounts), *_role(accounts)])
        audience = f"harbormaster.{SYSTEM}.svc"
        self._tokens = [service.cluster.token_of(SYSTEM, account, audience) for account in accounts]
        self._wanted = [_page(members.ranking(group)) for group in range(members.groups)]
        self._numbers = count()

    def asking(self) -> Asking:
        """Say who is asked, and what."""
        return Asking(self._port, self._trust, self._next, CALLERS)

    def _next(self, caller: int) -> Asked:
        group = next(self._numbers) % len(self._wanted)
        body = {"placement": {"inline": _policy(group)}, "limit": PAGE}

        def problem(status: int, answer: bytes) -> str:
            if status != 200:
                return f"the answer is {status}: {answer.decode()[:500]}"
            items = orjson.loads(answer)["items"]
            found = [(item["cluster"], item["rank"], item["selected"], item["score"]["affinity"]) for item in items]
            return "" if found == self._wanted[group] else f"{found}, not {self._wanted[group]}"

        return Asked(request("/v1/score", body, self._tokens[caller]), problem, LIMIT_SECONDS)


def _policy(group: int) -> JsonObject:
    term = {
        "labelSelector": {"matchLabels": {GROUP: group_name(group)}},
        "propertySelector": {"matchExpressions": [{"name": CPU, "operator": "Ge", "values": [f"{LEAST_MILLICORES}m"]}]},
    }
    sorter = {"propertySorter": {"name": GRADE, "sortOrder": "Descending"}}
    affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [term]},
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": POINTS, "preference": sorter}],
    }
    return {"placementType": "PickN", "numberOfClusters": PICKED, "affinity": {"clusterAffinity": affinity}}


def _page(ranking: list[str]) -> list[tuple[str, int, bool, int]]:
    """The first of a ranking: name, rank, whether it is selected, points."""
    most = GROUP_SIZE - 1
    points = [(2 * POINTS * (most - place) + most) // (2 * most) for place in range(PAGE)]  # halves are rounded up
    return [(name, place + 1, place < PICKED, points[place]) for place, name in enumerate(ranking[:PAGE])]


def _account(name: str) -> JsonObject:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": SYSTEM}}


def _role(accounts: list[str]) -> list[JsonObject]:
    head = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": "scorers"}}
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "scorers"}
    subjects = [{"kind": "ServiceAccount", "name": name, "namespace": SYSTEM} for name in accounts]
    return [
        {**head, "kind": "ClusterRole", "rules": [{"nonResourceURLs": ["/v1/score"], "verbs": ["post"]}]},
        {**head, "kind": "ClusterRoleBinding", "roleRef": reference, "subjects": subjects},
    ]
