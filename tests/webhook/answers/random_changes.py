"""Random changes of every kind that a plan judges, for a hub with members, placements, content and overrides.

A change depends on the hub: it edits, deletes or adds to what there is. Equal seeds give equal changes.
"""

from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Any, Final

from scorer.api.conditions import FALSE
from scorer.api.family import FAMILIES, family_in
from scorer.api.kinds import (
    APPROVAL_REQUEST,
    BINDING,
    DISRUPTION_BUDGET,
    EVICTION,
    KINDS,
    MAINTENANCE_WINDOW,
    MEMBER_CLUSTER,
    PLACEMENT,
    RESOURCE_PLACEMENT,
    STAGED_RUN,
    STAGED_STRATEGY,
    UPGRADE_RUN,
    Kind,
)
from scorer.api.meta import JsonObject, format_time
from scorer.api.names import CONFIRM_REMOVAL, PARENT_PLACEMENT, UPGRADE_WINDOWS
from scorer.api.unstructured.documents import (
    annotation,
    current_condition,
    labels_of,
    metadata_of,
    name_of,
    namespace_of,
    spec_of,
    text_at,
    uid_of,
    with_metadata,
    with_spec,
)
from scorer.rollout.bindings import PendingReason, pending_reason
from scorer.rollout.confirmation.clusters import cluster_item
from scorer.staged_update.execution.engine import is_over
from tests.builders.placement import fixed, make_placement, namespace_term
from tests.virtual_time import START
from tests.webhook.answers.random_upgrades import (
    HANGS,
    answered_gate,
    answered_request,
    random_strategy,
    random_upgrade,
    unfinished_upgrades,
)
from tests.webhook.controllers.override_rules import delete, make_override, rule
from tests.webhook.controllers.staged_world import make_run, make_strategy
from tests.webhook.controllers.upgrade_world import make_upgraded
from tests.webhook.controllers.world import World, make_config_map, make_member, pick_n
from webhook.answers.proposal import Deleted, Proposal, ProposedObject

WINDOW: Final = "nights"
KEPT: Final = "kept"
"""An override of an object that is not placed. Without any, a plan takes a hub for a dump without overrides."""
NAMES: Final = ("m0", "m1", "m2", "m3", "m4")
NEW_NAMES: Final = ("m5", "m6")
"""Members that join later."""
PLACEMENTS: Final = ("all", "most", "few", "fixed")
STAGED: Final = "staged"
"""A placement that staged update runs roll out."""
LOCAL: Final = "local"
"""A ResourcePlacement."""
BASE: Final = "base"
"""The placement of its namespace."""
ONE_BY_ONE: Final = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}}
WIDE: Final = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "50%", "maxSurge": 2}}
QUARTERS: Final = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}}
_FIXED: Final = (("m0", "m3"), ("m0", "m1", "m3"), ("m1", "m2", "m4"), ("m3",), ("m3", "nowhere"))
_POLICIES: Final = {
    "all": [{"placementType": "PickAll"}],
    "most": [pick_n(number) for number in (0, 2, 3, 4)],
    "few": [pick_n(number) for number in (1, 2, 5)],
    "fixed": [fixed(*names) for names in _FIXED],
    STAGED: [{"placementType": "PickAll"}, *(pick_n(number) for number in (2, 3))],
    LOCAL: [*(fixed(*names) for names in _FIXED), *(pick_n(number) for number in (2, 4))],
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


def local_placement(policy: JsonObject, strategy: JsonObject) -> JsonObject:
    """Make the ResourcePlacement."""
    selectors = [{"group": "", "version": "v1", "kind": "ConfigMap", "name": "rates"}]
    return make_placement(LOCAL, policy, selectors=selectors, namespace=home(LOCAL), strategy=strategy)


def stages_by_zone(*zones: str, **more: Any) -> JsonObject:
    """Make a strategy with a stage for each zone."""
    return make_strategy(*({"name": zone, "labelSelector": {"matchLabels": {"zone": zone}}, **more} for zone in zones))


def run(name: str, state: str) -> JsonObject:
    """Make a staged update run."""
    return make_run(name, state, placementName=STAGED)


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
    kept = make_override(KEPT, delete(), namespace="shop", placement="")
    await world.add(kept, window(is_open=False), *(member_with_status(name, at) for at, name in enumerate(NAMES)))
    await world.until(lambda: all(map(world.has_joined, NAMES)))
    for name in PLACEMENTS:
        await world.add(
            namespace(home(name)),
            make_config_map("rates", home(name), value="1"),
            envelope(name, "1"),
            placement(name),
        )
    await world.until(lambda: all(world.view(name)["state"] in ("available", "short") for name in PLACEMENTS))
    base = [namespace_term(home(LOCAL)) | {"selectionScope": "NamespaceOnly"}]
    for name in (STAGED, LOCAL):
        await world.add(namespace(home(name)), make_config_map("rates", home(name), value="1"))
    await world.add(make_placement(BASE, selectors=base, strategy=WIDE))
    await world.add(placement(STAGED, strategy={"type": "External"}), stages_by_zone("west", "east"))
    await world.add(random_strategy(Random(0)))
    await world.until(lambda: world.view(BASE)["state"] == "available" and world.bound(STAGED))
    await world.add(local_placement(fixed("m0", "m3"), ONE_BY_ONE), run("r", "Run"))
    await world.until(lambda: world.view(LOCAL, home(LOCAL))["state"] == "available" and not unfinished_runs(world))


def namespace(name: str) -> JsonObject:
    """Make a namespace."""
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def unfinished_runs(world: World) -> list[JsonObject]:
    """Return the staged update runs that go on."""
    return [run for run in world.cache.list(STAGED_RUN) if not is_over(run)]


def member_with_status(name: str, at: int) -> JsonObject:
    """Make a member with its node count, whose upgrades hang."""
    upgraded = metadata_of(make_upgraded(name, simulate_upgrade=HANGS))["annotations"]
    return with_metadata(make_member(name, nodes=1 + at, zone=("west", "east")[at % 2]), annotations=upgraded)


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
        self._round: list[Callable[[], Proposal]] = []

    def draw(self) -> Proposal:
        """Return the next change. Each kind of change comes in every round, in random order."""
        self._count += 1
        if not self._round:
            self._round = [
                self._edit_placement,
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
                self._confirm,
                self._join_or_leave,
                self._run,
                self._run,
                self._edit_strategy,
                self._answer_request,
                self._upgrade,
                self._upgrade,
                self._edit_upgrade_strategy,
                self._answer_gate,
            ]
            self._random.shuffle(self._round)
        return self._round.pop()()

    def _edit_placement(self) -> Proposal:
        """Change policy or strategy: the rollout may react to both before the scheduler does."""
        name = self._random.choice((*PLACEMENTS, LOCAL, STAGED))
        kind, namespace = (RESOURCE_PLACEMENT, home(LOCAL)) if name == LOCAL else (PLACEMENT, "")
        spec = spec_of(self._world.cache.get(kind, name, namespace) or {})
        policy, strategy = spec["policy"], spec["strategy"]
        if name == STAGED or self._random.random() < 0.7:
            policy = self._random.choice(_POLICIES[name])
        else:
            strategy = self._random.choice([ONE_BY_ONE, WIDE, QUARTERS])
        return _write(local_placement(policy, strategy) if name == LOCAL else placement(name, policy, strategy))

    def _confirm(self) -> Proposal:
        """Confirm the removal of one cluster or of all, or make one that waits for confirmation."""
        waiting = [
            (document, digests)
            for document in self._world.cache.list(PLACEMENT)
            if (digests := _digests(document, bindings_of(self._world, name_of(document))))
        ]
        if not waiting:
            return _write(placement("most", pick_n(0)))
        document, digests = self._random.choice(waiting)
        confirmed = self._random.choice([digests, digests[:1]])
        text = f"{','.join(confirmed)}@{format_time(self._world.now() + timedelta(hours=1))}"
        return _write(with_metadata(document, annotations={CONFIRM_REMOVAL: text}))

    def _join_or_leave(self) -> Proposal:
        stored = {name_of(member) for member in self._world.cache.list(MEMBER_CLUSTER)}
        absent = [name for name in (*NAMES, *NEW_NAMES) if name not in stored]
        if len(stored) < len(NAMES) or (absent and self._random.random() < 0.5):
            name = self._random.choice(absent)
            return _write(member_with_status(name, self._random.randrange(8)))
        return Proposal(deleted=[Deleted(MEMBER_CLUSTER.kind, self._random.choice(sorted(stored)))])

    def _run(self) -> Proposal:
        """Create a run, with a new strategy or new content, or stop, start or delete an unfinished one."""
        unfinished = unfinished_runs(self._world)
        if unfinished and self._random.random() < 0.8:
            stored = self._random.choice(unfinished)
            if self._random.random() < 0.3:
                return Proposal(deleted=[Deleted(STAGED_RUN.kind, name_of(stored))])
            state = "Stop" if spec_of(stored)["state"] == "Run" else "Run"
            return _write(run(name_of(stored), state))
        documents = [self._strategy()] if self._random.random() < 0.3 else []
        if self._random.random() < 0.6:
            documents.append(make_config_map("rates", home(STAGED), value=str(self._random.randrange(100))))
        state = "Run" if self._random.random() < 0.7 else "Initialize"
        return _write(*documents, run(f"r{self._count}", state))

    def _edit_strategy(self) -> Proposal:
        if self._world.cache.get(STAGED_STRATEGY, "careful") is not None and self._random.random() < 0.1:
            return Proposal(deleted=[Deleted(STAGED_STRATEGY.kind, "careful")])
        return _write(self._strategy())

    def _strategy(self) -> JsonObject:
        zones = self._random.choice([("west", "east"), ("east", "west"), ("west", "east"), ("west",)])
        more: JsonObject = {"maxConcurrency": self._random.choice([1, 2, "50%"])}
        if self._random.random() < 0.2:
            more["afterStageTasks"] = [{"type": "TimedWait", "waitTime": "1s"}]
        if self._random.random() < 0.4:
            more[self._random.choice(["beforeStageTasks", "afterStageTasks"])] = [{"type": "Approval"}]
        if self._random.random() < 0.1:
            more["sortingLabelKey"] = "zone"
        return stages_by_zone(*zones, **more)

    def _answer_request(self) -> Proposal:
        """Approve a request of a run, or reject it by stopping the run. Without any, start such a run."""
        requests = self._world.cache.list(APPROVAL_REQUEST)
        unfinished = {name_of(one) for one in unfinished_runs(self._world)}
        waiting = [one for one in requests if text_at(one, "spec", "parentStageRollout") in unfinished]
        if waiting:
            return _write(answered_request(self._world, self._random, waiting))
        return self._run()

    def _upgrade(self) -> Proposal:
        """Create an upgrade run, or stop, start, change or delete an unfinished one."""
        unfinished = unfinished_upgrades(self._world)
        if unfinished and self._random.random() < (0.5 if len(unfinished) < 3 else 1):
            stored = self._random.choice(unfinished)
            if self._random.random() < 0.5:
                return Proposal(deleted=[Deleted(UPGRADE_RUN.kind, name_of(stored))])
            state = "Stop" if spec_of(stored)["state"] == "Run" else "Run"
            return _write(with_spec(stored, state=state))
        documents = [random_strategy(self._random)] if self._random.random() < 0.5 else []
        return _write(*documents, random_upgrade(self._random, f"u{self._count}"))

    def _edit_upgrade_strategy(self) -> Proposal:
        return _write(random_strategy(self._random))

    def _answer_gate(self) -> Proposal:
        gate = answered_gate(self._world, self._random)
        return self._upgrade() if gate is None else _write(gate)

    def _edit_content(self) -> Proposal:
        name, value = self._random.choice((*PLACEMENTS, LOCAL, STAGED)), str(self._random.randrange(100))
        if self._random.random() < 0.3 and name in PLACEMENTS:
            return _write(envelope(name, value))
        return _write(make_config_map("rates", home(name), value=value))

    def _override(self) -> Proposal:
        stored = [(kind, document) for kind in _OVERRIDES for document in self._world.cache.list(kind)]
        stored = [(kind, document) for kind, document in stored if name_of(document) != KEPT]
        if stored and self._random.random() < (0.7 if self._is_stuck() else 0.3):
            kind, document = self._random.choice(stored)
            return Proposal(deleted=[Deleted(kind.kind, name_of(document), namespace_of(document))])
        target = self._random.choice((*PLACEMENTS, LOCAL))
        name, of = f"o-{target}-{self._random.randrange(2)}", self._random.choice([target, target, ""])
        if target == LOCAL:
            override = make_override(name, self._rule(None), namespace=home(LOCAL))
            return _write(with_spec(override, placement={"name": LOCAL, "scope": "Namespaced"}))
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
        stored = self._random.choice(sorted(self._world.cache.list(MEMBER_CLUSTER), key=name_of))
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


def bindings_of(world: World, name: str, namespace: str = "") -> list[JsonObject]:
    """Return the bindings of a placement."""
    return world.cache.labelled(family_in(namespace).binding, PARENT_PLACEMENT, name, namespace)


def _digests(placement: JsonObject, bindings: list[JsonObject]) -> list[str]:
    """Return the digests of the clusters that wait for confirmation."""
    return sorted(
        cluster_item(binding).digest(uid_of(placement))
        for binding in bindings
        if pending_reason(binding) is PendingReason.CONFIRMATION
    )
