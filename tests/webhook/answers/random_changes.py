"""Random changes of every kind that a plan judges, for a hub with members, placements, content and overrides.

A change depends on the hub: it edits, deletes or adds to what there is. Equal seeds give equal changes.
"""

from datetime import timedelta
from random import Random
from typing import Final

from scorer.api.conditions import FALSE
from scorer.api.family import FAMILIES
from scorer.api.kinds import BINDING, DISRUPTION_BUDGET, EVICTION, KINDS, MAINTENANCE_WINDOW, MEMBER_CLUSTER, Kind
from scorer.api.meta import JsonObject
from scorer.api.names import UPGRADE_WINDOWS
from scorer.api.unstructured.documents import (
    annotation,
    current_condition,
    labels_of,
    name_of,
    namespace_of,
    spec_of,
    with_metadata,
    with_spec,
)
from tests.builders.placement import fixed, make_placement
from tests.virtual_time import START
from tests.webhook.controllers.override_rules import delete, make_override, rule
from tests.webhook.controllers.world import World, make_config_map, make_member, pick_n
from webhook.answers.proposal import Deleted, Proposal, ProposedObject

WINDOW: Final = "nights"
NAMES: Final = ("m0", "m1", "m2", "m3", "m4")
PLACEMENTS: Final = ("all", "most", "few", "fixed")
ONE_BY_ONE: Final = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}}
WIDE: Final = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "50%", "maxSurge": 2}}
_POLICIES: Final = {
    "all": [{"placementType": "PickAll"}],
    "most": [pick_n(number) for number in (2, 3, 4)],
    "few": [pick_n(number) for number in (1, 2, 5)],
    "fixed": [fixed(*names) for names in (("m0", "m3"), ("m0", "m1", "m3"), ("m3",), ("m3", "nowhere"))],
}
_OVERRIDES: Final = tuple(family.override for family in FAMILIES)
_RATES: Final = {"group": "", "version": "v1", "kind": "ConfigMap", "name": "rates"}
_WRAPPED: Final = {**_RATES, "name": "wrapped"}


def home(placement: str) -> str:
    """Return the namespace that a placement selects."""
    return f"home-{placement}"


def placement(name: str, policy: JsonObject | None = None, strategy: JsonObject | None = None) -> JsonObject:
    """Make a placement of a namespace of its own."""
    return make_placement(name, policy or _POLICIES[name][-1], home=home(name), strategy=strategy or ONE_BY_ONE)


def window(*, is_open: bool) -> JsonObject:
    """Make a maintenance window that is open, or closed, at the time at which the clock of the tests starts."""
    kind = {"apiVersion": MAINTENANCE_WINDOW.api_version, "kind": MAINTENANCE_WINDOW.kind}
    start = START - timedelta(hours=1) if is_open else START + timedelta(hours=6)
    spec = {"schedule": {"daily": {"intervalDays": 1}}, "startTime": f"{start:%H:%M}", "durationHours": 8}
    return {**kind, "metadata": {"name": WINDOW}, "spec": spec}


def envelope(name: str, value: str) -> JsonObject:
    """Make an envelope with one ConfigMap, in the namespace of a placement."""
    metadata = {"name": "box", "namespace": home(name)}
    content = make_config_map("wrapped", home(name), value=value)
    kind = {"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ResourceEnvelope"}
    return {**kind, "metadata": metadata, "data": {"wrapped.yaml": content}}


async def fill(world: World) -> None:
    """Put members, content and a placement of every policy on the hub, and wait until they have settled."""
    await world.add(window(is_open=False), *(member_with_status(name, at) for at, name in enumerate(NAMES)))
    await world.until(lambda: all(map(world.has_joined, NAMES)))
    for name in PLACEMENTS:
        await world.add(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": home(name)}},
            make_config_map("rates", home(name), value="1"),
            envelope(name, "1"),
            placement(name),
        )
    await world.until(lambda: all(world.view(name)["state"] in ("available", "short") for name in PLACEMENTS))


def member_with_status(name: str, at: int) -> JsonObject:
    """Make a member with its node count."""
    return make_member(name, nodes=1 + at, zone=("west", "east")[at % 2])


class RandomChanges:
    """Draws changes to a hub.

    Args:
        world: The hub.
        seed: Seed of the draws.
    """

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self._random = Random(seed)
        self._count = 0

    def draw(self) -> Proposal:
        """Return the next change."""
        self._count += 1
        kinds = [
            self._edit_placement,
            self._edit_content,
            self._override,
            self._override,
            self._override,
            self._relabel,
            self._taint,
            self._window,
            self._evict,
            self._budget,
        ]
        return self._random.choice(kinds)()

    def _edit_placement(self) -> Proposal:
        name = self._random.choice(PLACEMENTS)
        return _write(placement(name, self._random.choice(_POLICIES[name]), self._random.choice([ONE_BY_ONE, WIDE])))

    def _edit_content(self) -> Proposal:
        name, value = self._random.choice(PLACEMENTS), str(self._random.randrange(100))
        if self._random.random() < 0.3:
            return _write(envelope(name, value))
        return _write(make_config_map("rates", home(name), value=value))

    def _override(self) -> Proposal:
        stored = [(kind, document) for kind in _OVERRIDES for document in self._world.cache.list(kind)]
        if stored and self._random.random() < (0.7 if self._is_stuck() else 0.3):
            kind, document = self._random.choice(stored)
            return Proposal(deleted=[Deleted(kind.kind, name_of(document), namespace_of(document))])
        target = self._random.choice(PLACEMENTS)
        name, of = f"o-{target}-{self._random.randrange(2)}", self._random.choice([target, target, ""])
        zone = self._random.choice([None, "west", "east", "nowhere"])
        if self._random.random() < 0.2:
            override = make_override(f"c{name}", delete(zone), namespace="", placement=of or target)
            override["spec"]["clusterResourceSelectors"][0]["name"] = home(target)
            return _write(override)
        override = make_override(name, self._rule(zone), namespace=home(target), placement=of)
        override["spec"]["resourceSelectors"] = [_RATES if name.endswith("0") else _WRAPPED]
        return _write(override)

    def _is_stuck(self) -> bool:
        return any(
            (current_condition(one, "Overridden") or {}).get("status") == FALSE
            for one in self._world.cache.list(BINDING)
        )

    def _rule(self, zone: str | None) -> JsonObject:
        value = self._random.choice([str(self._random.randrange(100)), "${MEMBER-CLUSTER-NAME}"])
        choice = self._random.random()
        if choice < 0.15:
            return delete(zone)
        if choice < 0.3:
            return rule(value, zone, "/data/missing", "replace")
        if choice < 0.4:
            return rule("${MEMBER-CLUSTER-LABEL-KEY-tier}", zone, "/data/tier")
        return rule(value, zone, "/data/value", "replace")

    def _relabel(self) -> Proposal:
        stored = self._member()
        zone = "east" if labels_of(stored).get("zone") == "west" else "west"
        return _write(with_metadata(stored, labels={"zone": zone}))

    def _taint(self) -> Proposal:
        stored = self._member()
        taints = [] if spec_of(stored).get("taints") else [{"key": "dock", "effect": "NoSchedule"}]
        return _write(with_spec(stored, taints=taints))

    def _window(self) -> Proposal:
        if self._random.random() < 0.3:
            return _write(window(is_open=self._random.random() < 0.6))
        stored = self._member()
        name = None if annotation(stored, UPGRADE_WINDOWS) else WINDOW
        return _write(with_metadata(stored, annotations={UPGRADE_WINDOWS: name}))

    def _member(self) -> JsonObject:
        """Return a member as a user writes it again: without status."""
        stored = self._world.cache.get(MEMBER_CLUSTER, self._random.choice(NAMES))
        assert stored is not None
        metadata = {key: stored["metadata"].get(key) or {} for key in ("labels", "annotations")}
        head = {"apiVersion": stored["apiVersion"], "kind": stored["kind"]}
        return {**head, "metadata": {"name": name_of(stored), **metadata}, "spec": stored["spec"]}

    def _evict(self) -> Proposal:
        kind = {"apiVersion": EVICTION.api_version, "kind": EVICTION.kind}
        spec = {"placementName": self._random.choice(PLACEMENTS), "clusterName": self._random.choice(NAMES)}
        return _write({**kind, "metadata": {"name": f"e{self._count}"}, "spec": spec})

    def _budget(self) -> Proposal:
        name = self._random.choice(PLACEMENTS)
        if self._world.cache.get(DISRUPTION_BUDGET, name) is not None and self._random.random() < 0.5:
            return Proposal(deleted=[Deleted(DISRUPTION_BUDGET.kind, name)])
        limits = [{"minAvailable": 2}, {"minAvailable": 5}]
        if name != "all":
            limits += [{"maxUnavailable": 1}, {"maxUnavailable": 0}]
        kind = {"apiVersion": DISRUPTION_BUDGET.api_version, "kind": DISRUPTION_BUDGET.kind}
        return _write({**kind, "metadata": {"name": name}, "spec": self._random.choice(limits)})


def _write(*documents: JsonObject) -> Proposal:
    return Proposal([ProposedObject(kind_of(document), document) for document in documents])


def kind_of(document: JsonObject) -> Kind:
    """Return the kind of a document."""
    return next(kind for kind in KINDS.values() if kind.kind == document["kind"])


def bindings_of(world: World, name: str) -> list[JsonObject]:
    """Return the bindings of a placement."""
    return world.cache.labelled(BINDING, "kubernetes-fleet.io/parent-CRP", name)
