"""Nodes and pods at random, with everything by which the scheduler filters."""

from collections.abc import Callable, Mapping
from copy import deepcopy
from itertools import product
from random import Random
from typing import Any, Final

from scorer.api.meta import JsonObject
from tests.builders.pod import REQUIRED

NAMESPACES: Final[Mapping[str, Mapping[str, str]]] = {
    "blue": {"team": "sea", "size": "large"},
    "green": {"team": "sea"},
    "red": {"team": "land"},
}
"""Labels by name."""
OVERHEAD_CLASS: Final = "heavy"
OVERHEAD: Final = {"cpu": "150m", "memory": "96Mi"}

VOLUMES: Final[Mapping[str, JsonObject]] = {
    "near": {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z1", "z3"]},
    "slow": {"key": "example.com/disk", "operator": "NotIn", "values": ["ssd"]},
}
"""Which nodes can reach a volume, by the name of its claim; there is one in every namespace."""

_APPS: Final = ("web", "shop", "cart", "bank")
_HOST, _ZONE, _RACK, _DISK, _SIZE = (
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "example.com/rack",
    "example.com/disk",
    "example.com/size",
)
_GPU: Final = "example.com/gpu"
_TAINTS: Final = (
    ("for", "a", "NoSchedule"),
    ("for", "b", "NoSchedule"),
    ("gone", "", "NoExecute"),
    ("slow", "", "PreferNoSchedule"),
)


class RandomPods:
    """Makes nodes and pods.

    Args:
        seed: Equal seeds make equal ones.
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self._made = 0

    def node(self, name: str) -> JsonObject:
        """Make a node; whatever its status says belongs to it as well."""
        labels = {_HOST: name, _DISK: self._one("ssd", "hdd"), _SIZE: str(self.random.randint(0, 12))}
        self._maybe(0.9, labels, _ZONE, lambda: self._one("z1", "z2", "z3"))
        self._maybe(0.7, labels, _RACK, lambda: self._one("r1", "r2", "r3", "r4", "r5"))
        self._maybe(0.1, labels, _SIZE, lambda: "large")
        spec: JsonObject = {"taints": self._taints()}
        self._maybe(0.07, spec, "unschedulable", lambda: True)
        amounts = {
            "cpu": f"{self.random.randint(4, 32)}00m",
            "memory": f"{self.random.randint(4, 48) * 128}Mi",
            "pods": str(self.random.randint(3, 12)),
            "ephemeral-storage": "20Gi",
        }
        self._maybe(0.2, amounts, _GPU, lambda: str(self.random.randint(1, 3)))
        self._maybe(0.15, amounts, "hugepages-2Mi", lambda: "64Mi")
        ready = {"type": "Ready", "status": "True", "reason": "Fine", "message": ""}
        status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
        return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}

    def pod(self) -> JsonObject:
        """Make a pod that nobody has placed."""
        self._made += 1
        labels = {"app": self._one(*_APPS), "version": self._one("1", "2")}
        self._maybe(0.3, labels, "extra", lambda: self._one("x", "y"))
        metadata = {
            "name": f"pod-{self._made:03}",
            "namespace": self._one(*NAMESPACES),
            "labels": labels,
        }
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": self._spec(labels["app"])}

    def _spec(self, app: str) -> JsonObject:
        containers = [self._container(f"c{number}") for number in range(self.random.choice((1, 1, 1, 2)))]
        spec: JsonObject = {
            "containers": containers,
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 30,
        }
        self._maybe(0.2, spec, "initContainers", self._init_containers)
        self._maybe(0.1, spec, "runtimeClassName", lambda: OVERHEAD_CLASS)
        self._maybe(0.08, spec, "resources", lambda: {"requests": {"cpu": "2500m", "memory": "4Gi"}})
        self._maybe(0.2, spec, "nodeSelector", self._node_selector)
        self._maybe(0.6, spec, "tolerations", self._tolerations)
        self._maybe(0.6, spec, "affinity", lambda: self._affinity(app))
        self._maybe(0.35, spec, "topologySpreadConstraints", lambda: self._spreads(app))
        self._maybe(0.08, spec, "volumes", self._volumes)
        return spec

    def _volumes(self) -> list[JsonObject]:
        claim = {"claimName": self._one(*VOLUMES), "readOnly": True}
        return [{"name": "data", "persistentVolumeClaim": claim}, {"name": "more", "emptyDir": {}}]

    def _container(self, name: str) -> JsonObject:
        needs: JsonObject = {}
        self._maybe(0.8, needs, "cpu", lambda: f"{self.random.randint(1, 8) * 50}m")
        self._maybe(0.8, needs, "memory", lambda: f"{self.random.randint(1, 8) * 64}Mi")
        self._maybe(0.1, needs, "ephemeral-storage", lambda: "6Gi")
        limits: JsonObject = {}
        self._maybe(0.1, limits, _GPU, lambda: "1")
        if "cpu" in needs and "memory" in needs:
            self._maybe(0.06, limits, "hugepages-2Mi", lambda: "32Mi")
        container: JsonObject = {
            "name": name,
            "image": "main",
            "resources": {"requests": {**needs, **limits}, "limits": limits},
        }
        if name == "c0":
            self._maybe(0.2, container, "ports", lambda: [self._port()])
        return container

    def _port(self) -> JsonObject:
        port: JsonObject = {"containerPort": 80, "hostPort": self.random.choice((8080, 8081))}
        self._maybe(0.4, port, "hostIP", lambda: self._one("127.0.0.1", "10.1.1.1", "0.0.0.0"))
        self._maybe(0.3, port, "protocol", lambda: self._one("UDP", "TCP"))
        return port

    def _init_containers(self) -> list[JsonObject]:
        made = []
        for number in range(self.random.randint(1, 3)):
            container = self._container(f"i{number}")
            self._maybe(0.5, container, "restartPolicy", lambda: "Always")
            made.append(container)
        return made

    def _node_selector(self) -> JsonObject:
        chosen = self.random.choice(((_DISK, "ssd"), (_DISK, "hdd"), (_ZONE, "z1"), (_ZONE, "z2"), (_RACK, "r9")))
        return dict((chosen,))

    def _tolerations(self) -> list[JsonObject]:
        made: list[JsonObject] = []
        for _ in range(self.random.randint(1, 2)):
            kind = self.random.randint(0, 5)
            if kind == 0:
                made.append({"operator": "Exists"})
            elif kind == 1:
                made.append({"key": "node.kubernetes.io/unschedulable", "operator": "Exists"})
            elif kind == 2:
                made.append({"key": "gone", "operator": "Exists", "effect": self._one("NoExecute", "NoSchedule")})
            else:
                made.append({"key": "for", "value": self._one("a", "b"), "effect": "NoSchedule"})
                self._maybe(0.3, made[-1], "operator", lambda: "Equal")
        return made

    def _affinity(self, app: str) -> JsonObject:
        affinity: JsonObject = {}
        self._maybe(0.35, affinity, "nodeAffinity", self._node_affinity)
        self._maybe(0.3, affinity, "podAffinity", lambda: {REQUIRED: self._terms(app)})
        self._maybe(0.4, affinity, "podAntiAffinity", lambda: {REQUIRED: self._terms(app)})
        return affinity

    def _node_affinity(self) -> JsonObject:
        terms = [self._node_term() for _ in range(self.random.randint(1, 2))]
        made: JsonObject = {REQUIRED: {"nodeSelectorTerms": terms}}
        if self.random.random() < 0.2:
            made = {}
        preference = {"matchExpressions": [{"key": _DISK, "operator": "In", "values": ["ssd"]}]}
        self._maybe(
            0.2,
            made,
            "preferredDuringSchedulingIgnoredDuringExecution",
            lambda: [{"weight": 1, "preference": preference}],
        )
        return made

    def _node_term(self) -> JsonObject:
        expressions = [self._node_expression() for _ in range(self.random.randint(1, 2))]
        term: JsonObject = {"matchExpressions": expressions}
        if self.random.random() < 0.2:
            field = {
                "key": "metadata.name",
                "operator": self._one("In", "NotIn"),
                "values": [f"node-{self.random.randint(0, 19):02}"],
            }
            term = {"matchFields": [field]} if self.random.random() < 0.5 else {**term, "matchFields": [field]}
        return term

    def _node_expression(self) -> JsonObject:
        operator = self._one("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
        if operator in ("Gt", "Lt"):
            return {"key": _SIZE, "operator": operator, "values": [str(self.random.randint(0, 9))]}
        key = self._one(_ZONE, _RACK, _DISK)
        values = {_ZONE: ("z1", "z2", "z3"), _RACK: ("r1", "r2", "r3"), _DISK: ("ssd", "hdd")}[key]
        if operator in ("Exists", "DoesNotExist"):
            return {"key": key, "operator": operator}
        return {"key": key, "operator": operator, "values": self.random.sample(values, self.random.randint(1, 2))}

    def _terms(self, app: str) -> list[JsonObject]:
        return [self._term(app) for _ in range(self.random.choice((1, 1, 1, 2)))]

    def _term(self, app: str) -> JsonObject:
        term: JsonObject = {"topologyKey": self._one(_HOST, _ZONE, _RACK)}
        if self.random.random() < 0.95:
            term["labelSelector"] = self._selector(app)
            self._maybe(0.15, term, "matchLabelKeys", lambda: ["version"])
            if "matchLabelKeys" not in term:
                self._maybe(0.1, term, "mismatchLabelKeys", lambda: ["version"])
        self._maybe(0.3, term, "namespaces", lambda: self.random.sample(list(NAMESPACES), 2))
        self._maybe(0.25, term, "namespaceSelector", self._namespace_selector)
        return term

    def _namespace_selector(self) -> JsonObject:
        return dict(
            self.random.choice(
                (
                    {},
                    {"matchLabels": {"team": "sea"}},
                    {"matchLabels": {"kubernetes.io/metadata.name": "red"}},
                    {"matchExpressions": [{"key": "size", "operator": "DoesNotExist"}]},
                )
            )
        )

    def _selector(self, app: str) -> JsonObject:
        kind = self.random.random()
        if kind < 0.05:
            return {}
        named = app if self.random.random() < 0.7 else self._one(*_APPS)
        if kind < 0.7:
            return {"matchLabels": {"app": named}}
        if kind < 0.9:
            return {"matchExpressions": [{"key": "app", "operator": "In", "values": [named, self._one(*_APPS)]}]}
        return {"matchExpressions": [{"key": "extra", "operator": self._one("Exists", "DoesNotExist")}]}

    def _spreads(self, app: str) -> list[JsonObject]:
        keys = self.random.sample((_HOST, _ZONE, _RACK), self.random.choice((1, 1, 2)))
        return [self._spread(app, key) for key in keys]

    def _spread(self, app: str, key: str) -> JsonObject:
        spread: JsonObject = {
            "topologyKey": key,
            "maxSkew": self.random.choice((1, 1, 2, 3)),
            "whenUnsatisfiable": "DoNotSchedule" if self.random.random() < 0.85 else "ScheduleAnyway",
        }
        if self.random.random() < 0.95:
            spread["labelSelector"] = self._selector(app)
            self._maybe(0.15, spread, "matchLabelKeys", lambda: ["version"])
        if spread["whenUnsatisfiable"] == "DoNotSchedule":
            self._maybe(0.2, spread, "minDomains", lambda: self.random.randint(1, 5))
        self._maybe(0.25, spread, "nodeAffinityPolicy", lambda: self._one("Honor", "Ignore"))
        self._maybe(0.25, spread, "nodeTaintsPolicy", lambda: self._one("Honor", "Ignore"))
        return spread

    def _taints(self) -> list[JsonObject]:
        if self.random.random() < 0.6:
            return []
        chosen = self.random.sample(_TAINTS, self.random.choice((1, 1, 2)))
        made = [{"key": key, "value": value, "effect": effect} for key, value, effect in chosen]
        return made if len({(each["key"], each["effect"]) for each in made}) == len(made) else made[:1]

    def _one(self, *values: str) -> str:
        return self.random.choice(values)

    def _maybe(self, chance: float, into: dict[str, Any], key: str, make: Callable[[], Any]) -> None:
        if self.random.random() < chance:
            into[key] = make()


def make_volumes() -> list[JsonObject]:
    """Make the volumes of all namespaces with their claims, each bound to the other."""
    made: list[JsonObject] = []
    for namespace, (name, expression) in product(NAMESPACES, VOLUMES.items()):
        volume = f"{namespace}-{name}"
        size, modes = {"storage": "1Gi"}, ["ReadOnlyMany"]
        made.append(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": volume},
                "spec": {
                    "capacity": size,
                    "accessModes": modes,
                    "csi": {"driver": "example.com", "volumeHandle": volume},
                    "claimRef": {"namespace": namespace, "name": name},
                    "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [deepcopy(expression)]}]}},
                },
            }
        )
        metadata = {"name": name, "namespace": namespace, "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
        spec = {"accessModes": modes, "resources": {"requests": size}, "volumeName": volume, "storageClassName": ""}
        made.append({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec})
    return made
