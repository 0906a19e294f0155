"""A plan is compared with the loop: each random change is planned and made, then the hub is compared with the plan.

The clock moves only where nothing else is left to do, so that nothing happens that no change has caused. A soak delays
no write here: the clusters would become available in another order than the plan assumes.
"""

import asyncio
from collections import Counter, defaultdict
from random import Random

import pytest

from scorer.api.conditions import FALSE
from scorer.api.family import FAMILIES, family_in
from scorer.api.kinds import APPROVAL_REQUEST, EVICTION, STAGED_RUN, UPGRADE_GATE, UPGRADE_REQUEST, UPGRADE_RUN
from scorer.api.meta import JsonObject
from scorer.api.names import PARENT_PLACEMENT, RESOURCE_HASH
from scorer.api.unstructured.documents import (
    annotation,
    conditions_of,
    current_condition,
    dicts_at,
    is_deleting,
    label,
    namespace_of,
)
from scorer.rollout.bindings import Overrides
from scorer.staged_update.execution.engine import is_over
from scorer.staged_update.record import cluster_names, stage_name
from tests.thoroughness import SOAK
from tests.webhook.answers.random_changes import RandomChanges, bindings_of, fill
from tests.webhook.answers.random_upgrades import SLOW, end_an_upgrade
from tests.webhook.controllers.world import World, running
from tests.webhook.edits import edit
from tests.webhook.kube.still_time import StillLoop
from webhook.access.user import UserInfo
from webhook.admission.cached import CachedContext
from webhook.admission.rights import UndisputedRights
from webhook.answers.plans import HubPlanner
from webhook.answers.proposal import EVERYBODY, Proposal
from webhook.answers.proposed_objects import APPROVALS, kinds_named
from webhook.cli.planning.output import changes_anything
from webhook.kube.ports import Key
from webhook.settings.admission import AdmissionSettings
from webhook.validation.framework.context import HubKinds

OWNER = UserInfo("owner", frozenset({"system:masters"}))
PLANS_PER_WALK = 30
UPGRADES = "upgrades"
ANSWERED = (APPROVAL_REQUEST.kind, UPGRADE_GATE.kind)


async def make(world: World, proposal: Proposal) -> None:
    """Do to the hub what the proposal says, as a user would."""
    for item in proposal.objects:
        key = Key(item.identity.name, item.identity.namespace)
        if world.cache.get(item.kind, *key) is None:
            await world.add(item.document)
            continue
        is_answer = item.kind in APPROVALS
        written_fields = ("status",) if is_answer else ("spec", "data")
        fields = {name: value for name, value in item.document.items() if name in written_fields}
        given = item.document["metadata"]
        metadata = {name: given[name] for name in ("labels", "annotations") if name in given}

        def written(stored, fields=fields, metadata=metadata):
            return {**stored, **fields, "metadata": stored["metadata"] | metadata}

        await edit(world.store, item.kind, key, written, status=is_answer)
    for deletion in proposal.deleted:
        (kind, *_) = kinds_named(deletion.kind, HubKinds())
        await world.store.delete(kind, Key(deletion.name, deletion.namespace))


class Witness:
    """Records the order in which bindings get content, and the requested upgrades of each run."""

    def __init__(self, world: World) -> None:
        self.courses: defaultdict[Key, list[str]] = defaultdict(list)
        self.upgrades: defaultdict[str, set[str]] = defaultdict(set)
        kinds = [family.binding for family in FAMILIES]
        self._ends = [world.cache.subscribe(kind, self._note, changes_only=True) for kind in kinds]
        self._ends.append(world.cache.subscribe(UPGRADE_REQUEST, self._note_upgrade, changes_only=True))

    def _note(self, change) -> None:
        if change.new is None or not change.touches(_content) or change.new["spec"]["state"] != "Bound":
            return
        placement = Key(label(change.new, PARENT_PLACEMENT), namespace_of(change.new))
        self.courses[placement].append(change.new["spec"]["targetCluster"])

    def _note_upgrade(self, change) -> None:
        if change.old is None and change.new is not None:
            self.upgrades[change.new["spec"]["runName"]].add(change.new["spec"]["memberName"])

    def close(self) -> None:
        for end in self._ends:
            end()


def _content(binding):
    """Return the content of a binding. A cluster that is picked again still has its former content."""
    spec = binding["spec"]
    return spec.get("resourceSnapshotName"), Overrides.of(spec)


def foretold(entry):
    """Return what a plan says about a placement, as it can be compared: what happens before any window opens."""
    rollout = entry["rollout"]
    if rollout["type"] == "External":
        return {"clusters": sorted([*entry["moves"]["stays"], *entry["moves"]["gained"]])}
    late = {wait["cluster"] for wait in rollout["waits"]}
    every_step = [sorted([*step["update"], *step["bind"]]) for step in rollout["steps"]]
    held = [bool(late & {*step["update"], *step["bind"], *step["remove"]}) for step in rollout["steps"]]
    first = held.index(True) if True in held else len(held)
    steps = [step for step in every_step[:first] if step]
    reached = {cluster for step in steps for cluster in step}
    clusters = sorted([*entry["moves"]["stays"], *entry["moves"]["gained"]])
    waiting = {cluster for step in every_step[first:] for cluster in step}
    waiting |= set(rollout["blocked"]["clusters"] if rollout["blocked"] else ())
    return {
        "clusters": clusters,
        "steps": steps,
        "snapshots": dict.fromkeys(reached, rollout["snapshot"]),
        "hashes": {rollout["contentHash"]} if reached else set(),
        "failures": {one["cluster"]: one["message"] for one in rollout["failures"] if one["cluster"] in reached},
        "waiting": waiting & set(clusters),
    }


def seen(world, placement, expected, course):
    """Return what has happened to a placement, in the form of `foretold`."""
    live = [one for one in bindings_of(world, *placement) if not is_deleting(one)]
    clusters = sorted(one["spec"]["targetCluster"] for one in live if one["spec"]["state"] != "Unscheduled")
    if expected.keys() == {"clusters"}:
        return {"clusters": clusters}
    course = [
        cluster for cluster in course if cluster in expected["clusters"]
    ]  # others may change until they are dropped
    snapshot_kind = family_in(placement.namespace).resource_snapshot
    reached = {cluster for step in expected["steps"] for cluster in step}
    steps, at = [], 0
    for step in expected["steps"]:
        steps.append(sorted(course[at : at + len(step)]))
        at += len(step)
    if rest := course[at:]:
        steps.append(rest)
    return {
        "clusters": clusters,
        "steps": steps,
        "snapshots": {
            one["spec"]["targetCluster"]: one["spec"]["resourceSnapshotName"]
            for one in live
            if one["spec"]["targetCluster"] in reached
        },
        "hashes": {
            annotation(
                world.cache.get(snapshot_kind, one["spec"]["resourceSnapshotName"], placement.namespace) or {},
                RESOURCE_HASH,
            )
            for one in live
            if one["spec"]["targetCluster"] in reached
        },
        "failures": {
            one["spec"]["targetCluster"]: failure
            for one in live
            if one["spec"]["targetCluster"] in reached and (failure := failure_of(one))
        },
        "waiting": {
            one["spec"]["targetCluster"]
            for one in live
            if (current_condition(one, "RolloutStarted") or {}).get("status") == FALSE
            and one["spec"]["state"] != "Unscheduled"
        },
    }


def foretold_run(entry):
    """Return what a plan says about a run, as it can be compared: what happens before any window opens."""
    if entry["phase"] == "Refused":
        return {"cause": entry["finding"]["cause"]}
    if entry["phase"] == "Aborted" and entry["state"] == "Run":
        return {"over": True}  # it may end before the scheduler has reacted, for another reason
    if entry["phase"] not in ("New", "UnderWay"):
        return {}
    course: list[str] = []
    for stage in entry["stages"] if entry["state"] == "Run" else ():
        waits = [task["place"] for task in stage["tasks"] if task["type"] == "Approval" and not task["done"]]
        if "Before" in waits:
            break
        upcoming = [cluster for cluster in stage["clusters"] if cluster["progress"] == "ToCome"]
        course += [cluster["cluster"] for cluster in upcoming if cluster["differs"] and not cluster["waitsFor"]]
        if waits or any(cluster["waitsFor"] for cluster in upcoming):
            break
    first = [cluster for cluster in entry["next"] if cluster in course]
    assert course[: len(first)] == first, entry
    return {
        "stages": {stage["name"]: [cluster["cluster"] for cluster in stage["clusters"]] for stage in entry["stages"]},
        "course": course,
        "snapshots": {entry["snapshot"]} if course else set(),
    }


def seen_run(world, entry, expected, course):
    """Return what has happened to a run, in the form of `foretold_run`."""
    run = world.cache.get(STAGED_RUN, entry["name"]) or {}
    if "over" in expected:
        return {"over": is_over(run)}
    if "cause" in expected:
        causes = {condition["message"].partition(":")[0] for condition in conditions_of(run)}
        return {"cause": expected["cause"] if expected["cause"] in causes else causes}
    if not expected:
        return {}
    live = [one for one in bindings_of(world, entry["placement"]) if one["spec"]["targetCluster"] in expected["course"]]
    return {
        "stages": {stage_name(stage): list(cluster_names(stage)) for stage in dicts_at(run, "status", "stagesStatus")},
        "course": course,
        "snapshots": {one["spec"]["resourceSnapshotName"] for one in live},
    }


def foretold_upgrades(plan):
    """Return what a plan says about upgrades: the members of each run that are next, or why it is refused.

    Two runs may reserve a member in another order than the plan assumes, so members of several runs are not told apart.
    """
    entries = {entry["name"]: entry for entry in plan["upgrades"]}
    starting = {name: set(entry["next"]) for name, entry in entries.items() if entry["next"]}
    return {
        "next": starting if len(starting) < 2 else {"": set().union(*starting.values())},
        "refused": {name: one["finding"]["cause"] for name, one in entries.items() if one["phase"] == "Refused"},
        "gates": {one["name"]: one["reason"] for one in plan["outcomes"] if one["kind"] in ANSWERED},
    }


def seen_upgrades(world, expected, started):
    """Return what has happened to upgrade runs and to approvals, in the form of `foretold_upgrades`."""
    started = {name: members for name, members in started.items() if members}
    return {
        "next": {"": set().union(*started.values())} if "" in expected["next"] else started,
        "refused": {name: refusal_of(world.cache.get(UPGRADE_RUN, name)) for name in expected["refused"]},
        "gates": {name: answer_seen(world, name, reason) for name, reason in expected["gates"].items()},
    }


def refusal_of(run):
    return next((one["reason"] for one in conditions_of(run or {}) if one["type"] == "Initialized"), "")


def answer_seen(world, name, reason):
    """Return *reason* if an approval has the outcome that a plan describes with it, otherwise what is stored."""
    if (gate := world.cache.get(UPGRADE_GATE, name)) is not None:
        state = gate["status"].get("state")
        run = world.cache.get(UPGRADE_RUN, gate["spec"]["runName"]) or {}
        stopped = (run.get("status") or {}).get("state") in ("Stopped", "Stopping")
        holds = {
            "Accepted": state == "Completed",
            "NotAccepted": state == "Pending",
            "NotApproved": state == "Pending",
            "Rejected": stopped,
        }
        return reason if holds.get(reason, True) else gate["status"]
    request = world.cache.get(APPROVAL_REQUEST, name)
    accepted = (current_condition(request or {}, "ApprovalAccepted") or {}).get("status") == "True"
    if reason in ("NotAccepted", "NotApproved", "Accepted"):
        return reason if accepted == (reason == "Accepted") else request
    return reason


def failure_of(binding):
    for kind in ("Overridden", "WorkSynchronized"):
        condition = current_condition(binding, kind) or {}
        if condition.get("status") == FALSE:
            return condition["message"]
    return ""


async def walk(seed: int) -> None:
    """Plan one random change after the other, make each of them, and compare the hub with the plan."""
    async with running(upgraders=SLOW) as world:
        await fill(world)
        changes, events = RandomChanges(world, seed), Random(seed)
        admission = CachedContext(world.cache, AdmissionSettings(), world.now)
        planner = HubPlanner(world.cache, admission, UndisputedRights(), world.now)
        outcomes: Counter[str] = Counter()
        while outcomes["plans"] < PLANS_PER_WALK:
            proposal = changes.draw()
            plan = await planner.plan(proposal, OWNER, EVERYBODY)
            assert plan["complete"]
            if all(verdict["allowed"] for verdict in plan["admission"]):
                await compare(world, proposal, plan)
                outcomes.update(outcomes_of(plan))
            if events.random() < 0.5:
                await end_an_upgrade(world, events)
        assert min(outcomes[kind] for kind in ("rollouts", "unchanged")) > 0, outcomes


def outcomes_of(plan: JsonObject) -> set[str]:
    """Return what a plan foretells, to find out whether the random changes are varied enough."""
    rollouts = [entry["rollout"] for entry in plan["placements"]]
    outcomes = {
        "rollouts": any(rollout["steps"] for rollout in rollouts),
        "evictions": any(rollout["evictions"] for rollout in rollouts),
        "failures": any(rollout["failures"] for rollout in rollouts),
        "unchanged": not changes_anything(plan),
    }
    return {"plans", *(name for name, holds in outcomes.items() if holds)}


async def compare(world: World, proposal: Proposal, plan: JsonObject) -> None:
    """Make the changes of a plan, and wait until the hub is as the plan says."""
    placements = {Key(entry["name"], entry["namespace"]): foretold(entry) for entry in plan["placements"]}
    active = [entry for entry in plan["runs"] if entry["phase"] in ("New", "UnderWay")]
    compared = [
        entry for entry in plan["runs"] if entry not in active or len(active) == 1
    ]  # two may overtake each other
    runs = {entry["name"]: (entry, foretold_run(entry)) for entry in compared}
    upgrades = foretold_upgrades(plan)
    expected = {**placements, **{name: foretold for name, (_, foretold) in runs.items()}, UPGRADES: upgrades}
    witness = Witness(world)
    await make(world, proposal)
    if changes_overrides(proposal):  # one that names no placement takes effect at the next pass of the rollout
        await world.until(lambda: True)
        world.again()

    def actual() -> JsonObject:
        courses = witness.courses
        found = {key: seen(world, key, entry, courses[key]) for key, entry in placements.items()}
        for name, (entry, foretold) in runs.items():
            found[name] = seen_run(world, entry, foretold, courses[Key(entry["placement"])])
        return {**found, UPGRADES: seen_upgrades(world, upgrades, witness.upgrades)}

    try:
        await world.until(lambda: actual() == expected)
    except TimeoutError:
        found = actual()
        wrong = {name: (found[name], expected[name]) for name in expected if found[name] != expected[name]}
        raise AssertionError(f"{proposal}: the hub and the plan differ: {wrong}") from None
    finally:
        witness.close()
    for entry in plan["placements"]:
        evictions_agree(world, entry)


def changes_overrides(proposal: Proposal) -> bool:
    kinds = {item.identity.kind for item in proposal.objects} | {item.kind for item in proposal.deleted}
    return bool(kinds & {family.override.kind for family in FAMILIES})


def evictions_agree(world, entry):
    for eviction in entry["rollout"]["evictions"]:
        stored = world.cache.get(EVICTION, eviction["name"])
        answer = {condition["reason"]: condition["message"] for condition in conditions_of(stored)}
        assert eviction["message"] in answer[eviction["reason"]]


@pytest.mark.parametrize("seed", [*range(80 if SOAK else 8), 1008])  # 1008 deletes an override during a rollout
def test_the_loop_does_what_the_plan_says(seed):
    with asyncio.Runner(loop_factory=StillLoop) as runner:
        runner.run(walk(seed))
