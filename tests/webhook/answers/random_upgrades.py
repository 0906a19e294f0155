"""Random upgrade runs and approvals, for the random changes of a hub.

Every upgrade hangs until `end_an_upgrade` lets it end, so that a hub has upgrades in progress between two changes.
"""

from random import Random
from typing import Any, Final

from scorer.api.conditions import FALSE, TRUE, make_condition
from scorer.api.kinds import MEMBER_CLUSTER, STAGED_RUN, UPGRADE_GATE, UPGRADE_REQUEST, UPGRADE_RUN
from scorer.api.meta import JsonObject
from scorer.api.names import REJECTED
from scorer.api.unstructured.documents import (
    annotations_of,
    generation_of,
    name_of,
    spec_of,
    status_of,
    text_at,
    with_metadata,
)
from scorer.staged_update.approval.requests import APPROVED
from scorer.upgrade.evaluation.gates import REJECTED as REJECTED_GATE
from tests.webhook.controllers.upgrade_world import QUICK, make_upgrade_run, make_upgrade_strategy
from tests.webhook.controllers.world import World
from tests.webhook.edits import edit
from webhook.controllers.upgraders.simulated import BEHAVIOUR
from webhook.kube.ports import Key
from webhook.settings.upgraders import UpgraderOptions

HANGS: Final = "hang"
SLOW: Final = UpgraderOptions(QUICK.names, QUICK.default)
"""Upgraders whose operations are polled as by default."""
OVER: Final = ("Completed", "Failed", "Stopped", "Skipped")
_VERSIONS: Final = ("1.30.6", "1.31.2", "1.31.2", "1.31.9", "1.32.1", "1.29.9")
_GATE: Final = {"type": "Approval", "displayName": "go"}


def unfinished_upgrades(world: World) -> list[JsonObject]:
    """Return the upgrade runs that go on."""
    return [run for run in world.cache.list(UPGRADE_RUN) if text_at(run, "status", "state") not in OVER]


def random_strategy(random: Random, *, gates: bool = True) -> JsonObject:
    """Make a strategy whose stages are zones, with limits, groups and gates."""
    zones = random.choice([("west", "east"), ("east", "west"), ("west",), ("east",)])
    return make_upgrade_strategy(*(_random_stage(random, zone, gates=gates) for zone in zones))


def _random_stage(random: Random, zone: str, *, gates: bool) -> JsonObject:
    stage: JsonObject = {"name": zone, "memberSelector": {"matchLabels": {"zone": zone}}}
    if random.random() < 0.4:
        stage["maxConcurrency"] = random.choice([1, 2, "50%"])
    if random.random() < 0.6:
        limit = random.choice([1, 2, 3, "50%"])
        group: JsonObject = {"name": f"all-{zone}", "memberSelector": {}, "maxConcurrency": limit}
        group["maxAllowedFailures"] = random.choice([0, 0, 1, "50%"])
        if gates and random.random() < 0.2:
            group[random.choice(["beforeGates", "afterGates"])] = [_GATE]
        stage["groups"] = [group]
    if gates and random.random() < 0.3:
        stage[random.choice(["beforeGates", "afterGates"])] = [_GATE] * random.choice([1, 1, 2])
    return stage


def random_upgrade(random: Random, name: str) -> JsonObject:
    """Make an upgrade run that starts, or is only initialized."""
    upgrade: JsonObject = {"type": "Full", "kubernetesVersion": random.choice(_VERSIONS)}
    spec: dict[str, Any] = {"upgrade": upgrade}
    if random.random() < 0.2:
        upgrade["type"] = "ControlPlaneOnly"
    if random.random() < 0.15:
        spec["strategyRef"] = random.choice([None, {"name": "nowhere"}])
    if random.random() < 0.3:
        spec["placementGuard"] = {"mode": "Enforce"}
    if random.random() < 0.2:
        spec["windowPolicy"] = {"mode": "Ignore"}
    if random.random() < 0.2:
        spec["versionPolicy"] = {"onUnsupportedJump": "Skip"}
    return make_upgrade_run(name, "Run" if random.random() < 0.8 else "Initialize", **spec)


def answered_gate(world: World, random: Random) -> JsonObject | None:
    """Return a gate with an approval or a rejection, or None if no gate waits."""
    waiting = [gate for gate in world.cache.list(UPGRADE_GATE) if status_of(gate).get("state") in (None, "Pending")]
    if not waiting:
        return None
    gate = random.choice(sorted(waiting, key=name_of))
    answer, reason = random.choice([(TRUE, "Looked")] * 6 + [(FALSE, REJECTED_GATE)] * 2 + [(FALSE, "Looked")])
    return _with_answer(gate, make_condition(APPROVED, answer, reason, "", generation=0, now=world.now()))


def answered_request(world: World, random: Random, requests: list[JsonObject]) -> JsonObject:
    """Return one of the approval requests with an approval, or its run with a rejection."""
    request = random.choice(sorted(requests, key=name_of))
    run = world.cache.get(STAGED_RUN, text_at(request, "spec", "parentStageRollout"))
    if run is not None and random.random() < 0.2:
        rejected = with_metadata(run, annotations={REJECTED: f"{name_of(request)}: not now"})
        return {**rejected, "spec": {**spec_of(run), "state": "Stop"}}
    status = TRUE if random.random() < 0.8 else FALSE
    generation = generation_of(request)
    return _with_answer(request, make_condition(APPROVED, status, "ByHand", "", generation=generation, now=world.now()))


def _with_answer(document: JsonObject, condition: JsonObject) -> JsonObject:
    others = [one for one in status_of(document).get("conditions", ()) if one["type"] != condition["type"]]
    return {**document, "status": {**status_of(document), "conditions": [*others, condition]}}


async def end_an_upgrade(world: World, random: Random) -> None:
    """Let an upgrade in progress succeed or fail, unless there is none."""
    running = [
        text_at(request, "spec", "memberName")
        for request in world.cache.list(UPGRADE_REQUEST)
        if status_of(request).get("phase") not in ("Succeeded", "Failed", "Cancelled")
    ]
    running = [name for name in sorted({*running}) if world.cache.get(MEMBER_CLUSTER, name) is not None]
    if not running:
        return
    name = random.choice(running)
    outcome = random.choice([None, None, None, "fail"])
    await _set_behaviour(world, name, outcome)
    await world.until(lambda: not _upgrades_of(world, name))
    await _set_behaviour(world, name, HANGS)
    await world.until(lambda: True)


def _upgrades_of(world: World, member: str) -> list[JsonObject]:
    return [
        request
        for request in world.cache.list(UPGRADE_REQUEST)
        if text_at(request, "spec", "memberName") == member
        and status_of(request).get("phase") not in ("Succeeded", "Failed", "Cancelled")
    ]


async def _set_behaviour(world: World, name: str, behaviour: str | None) -> None:
    await edit(world.store, MEMBER_CLUSTER, Key(name), lambda it: with_metadata(it, annotations={BEHAVIOUR: behaviour}))
    await world.until(lambda: annotations_of(world.cache.get(MEMBER_CLUSTER, name) or {}).get(BEHAVIOUR) == behaviour)
