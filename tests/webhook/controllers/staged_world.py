"""A placement that waits for runs, two stages of members, and runs over them, in a whole hub in memory."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from scorer.api.family import family_in
from scorer.api.kinds import MEMBER_CLUSTER, STAGED_RUN
from scorer.api.meta import JsonObject, format_time
from scorer.api.unstructured.documents import conditions_of, generation_of, status_of, with_metadata
from scorer.staged_update.record import condition
from tests.builders.placement import make_placement
from tests.virtual_time import loop_now
from tests.webhook.controllers.world import CONFIG_MAP, World, make_member, running
from tests.webhook.edits import edit
from webhook.embedded.simulation.annotations import SIMULATE_APPLY
from webhook.kube.ports import Key, NotFoundError

API = "placement.kubernetes-fleet.io/v1beta1"


def make_stage(name: str, **more: Any) -> JsonObject:
    """Make a stage of the members that are labelled with its name."""
    return {"name": name, "labelSelector": {"matchLabels": {"stage": name}}, **more}


def make_strategy(*stages: JsonObject, **annotations: str) -> JsonObject:
    """Make a strategy called ``careful``."""
    meta = {"name": "careful", "annotations": {f"harbormaster.dev/{key}": text for key, text in annotations.items()}}
    spec = {"stages": list(stages)}
    return {"apiVersion": API, "kind": "ClusterStagedUpdateStrategy", "metadata": meta, "spec": spec}


def make_run(name: str, state: str = "Run", index: str = "", **more: Any) -> JsonObject:
    """Make a run of the placement ``p``."""
    spec = {"placementName": "p", "stagedRolloutStrategyName": "careful", "state": state, **more}
    if index:
        spec["resourceSnapshotIndex"] = index
    return {"apiVersion": API, "kind": "ClusterStagedUpdateRun", "metadata": {"name": name}, "spec": spec}


APPROVAL = [{"type": "Approval"}]
STAGES = (make_stage("test", afterStageTasks=APPROVAL), make_stage("live", maxConcurrency=2))


@asynccontextmanager
async def staged(*stages: JsonObject, stuck: str = "", **settings: Any) -> AsyncIterator[World]:
    """Run a world with members ``t1``, ``t2`` in stage ``test`` and ``v1`` to ``v3`` in stage ``live``.

    Args:
        stages: Of the strategy.
        stuck: A member that refuses every object.
        settings: Of the loop.
    """
    async with running(**settings) as world:
        for name in ("t1", "t2", "v1", "v2", "v3"):
            stage = "test" if name.startswith("t") else "live"
            member = make_member(name, stage=stage)
            if name == stuck:
                member["metadata"]["annotations"][SIMULATE_APPLY] = "fail"
            await world.add(member)
        await world.add(make_strategy(*(stages or STAGES)), make_placement("p", strategy={"type": "External"}))
        await world.until(lambda: len(world.bound("p")) == 5)
        yield world


def run_of(world: World, name: str = "r", namespace: str = "") -> JsonObject:
    """Return a run as the cache knows it."""
    return world.cache.get(family_in(namespace).run, name, namespace) or {}


def said(world: World, kind: str, name: str = "r", namespace: str = "") -> str:
    """Return status and reason of a condition of a run."""
    found = condition(status_of(run_of(world, name, namespace)), kind)
    return f"{found.get('status', '')} {found.get('reason', '')}".strip()


def message(world: World, kind: str, name: str = "r") -> str:
    """Return the message of a condition of a run."""
    return str(condition(status_of(run_of(world, name)), kind).get("message", ""))


def contents(world: World, namespace: str = "") -> dict[str, str]:
    """Return the resource snapshot that each member has been given, by its index."""
    found = world.cache.list(family_in(namespace).binding, namespace)
    return {
        binding["spec"]["targetCluster"]: binding["spec"].get("resourceSnapshotName", "").removeprefix("p-")[:1]
        for binding in found
    }


async def approve(world: World, name: str, *, generation: int | None = None, namespace: str = "") -> None:
    """Approve a request, as a person does."""
    kind = family_in(namespace).approval_request
    stored = await world.store.get(kind, Key(name, namespace))
    made = {
        "type": "Approved",
        "status": "True",
        "reason": "LooksGood",
        "message": "",
        "observedGeneration": generation_of(stored) if generation is None else generation,
        "lastTransitionTime": format_time(loop_now()),
    }
    status = {**status_of(stored), "conditions": [*conditions_of(stored), made]}
    await world.store.replace_status(kind, {**stored, "status": status})


async def set_state(world: World, state: str, name: str = "r") -> None:
    """Have a run go on or stop."""
    await world.change(STAGED_RUN, name, state=state)


async def has_request(world: World, name: str, namespace: str = "") -> bool:
    """Say whether an approval request is there."""
    try:
        await world.store.get(family_in(namespace).approval_request, Key(name, namespace))
    except NotFoundError:
        return False
    return True


async def release(world: World, value: str) -> None:
    """Change what the placement selects."""
    await edit(world.store, CONFIG_MAP, Key("rates", "shop"), lambda it: {**it, "data": {"value": value}})


async def refuse(world: World, name: str) -> None:
    """Have a member refuse every object from now on."""
    failing = {SIMULATE_APPLY: "fail"}
    await edit(world.store, MEMBER_CLUSTER, Key(name), lambda it: with_metadata(it, annotations=failing))


def pass_time(world: World, **units: float) -> None:
    """Move the clock of the loop on, and have it look at everything again."""
    world.ahead += timedelta(**units)
    world.again()
