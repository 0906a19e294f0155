"""Members in two stages, what upgrades them, and runs over them, in a whole hub in memory."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import orjson

from scorer.api.kinds import MEMBER_CLUSTER, UPGRADE_GATE, UPGRADE_REQUEST, UPGRADE_RUN
from scorer.api.meta import JsonObject, format_time
from scorer.api.unstructured.documents import conditions_of, dicts_at, name_of, status_of, with_metadata
from tests.virtual_time import loop_now
from tests.webhook.controllers.world import World, make_member, running
from tests.webhook.edits import edit
from webhook.kube.ports import Key
from webhook.settings.upgraders import UpgraderOptions

API = "upgrade.harbormaster.dev/v1alpha1"
OURS = "harbormaster.dev/"
QUICK = UpgraderOptions(("simulated", "handoff"), "simulated", timedelta(milliseconds=50), timedelta(seconds=2))
STAGES = (
    {"name": "test", "groups": [{"name": "t"}]},
    {"name": "live", "groups": [{"name": "u"}, {"name": "v"}]},
)
MEMBERS = {"t1": "t", "u1": "u", "u2": "u", "v1": "v"}


def make_upgraded(name: str, group: str = "", version: str = "1.30.4", **annotations: str) -> JsonObject:
    """Make a member whose upgrades take a second; *annotations* are ours, with ``_`` for ``-``."""
    observed = {
        "controlPlaneVersion": version,
        "pools": [{"name": "p", "kubernetesVersion": version, "imageFamily": "linux", "imageVersion": "1", "nodes": 2}],
    }
    given = {"upgrade_duration": "1s", "upgrade_observed": orjson.dumps(observed).decode(), **annotations}
    member = make_member(name)
    labels = {OURS + "upgrade-group": group} if group else {}
    return with_metadata(
        member, labels=labels, annotations={OURS + key.replace("_", "-"): text for key, text in given.items()}
    )


def make_upgrade_run(name: str = "r", state: str = "Run", **spec: Any) -> JsonObject:
    """Make a run; a strategy called ``rings`` is followed unless *spec* says otherwise."""
    wanted = {
        "state": state,
        "strategyRef": {"name": "rings"},
        "upgrade": {"type": "Full", "kubernetesVersion": "1.31.2"},
        **spec,
    }
    if wanted["strategyRef"] is None:
        del wanted["strategyRef"]
    return {"apiVersion": API, "kind": "ClusterUpgradeRun", "metadata": {"name": name}, "spec": wanted}


def make_upgrade_strategy(*stages: JsonObject, name: str = "rings") -> JsonObject:
    """Make a strategy."""
    return {
        "apiVersion": API,
        "kind": "ClusterUpgradeStrategy",
        "metadata": {"name": name},
        "spec": {"stages": list(stages or STAGES)},
    }


def make_window(name: str, start: str, **spec: Any) -> JsonObject:
    """Make a window that is open for an hour a day from *start* on."""
    given = {"schedule": {"daily": {"intervalDays": 1}}, "startTime": start, "durationHours": 1, **spec}
    return {"apiVersion": API, "kind": "ClusterMaintenanceWindow", "metadata": {"name": name}, "spec": given}


@asynccontextmanager
async def upgrading(*stages: JsonObject, members: dict[str, str] = MEMBERS, **settings: Any) -> AsyncIterator[World]:
    """Run a world with members of groups, and a strategy.

    Args:
        stages: Of the strategy.
        members: The group of each member.
        settings: Of the loop.
    """
    async with running(**{"upgraders": QUICK, **settings}) as world:
        for name, group in members.items():
            await world.add(make_upgraded(name, group))
        await world.add(make_upgrade_strategy(*stages))
        await world.until(lambda: all(map(world.has_joined, members)))
        yield world


def run_of(world: World, name: str = "r") -> JsonObject:
    """Return a run as the cache knows it."""
    return world.cache.get(UPGRADE_RUN, name) or {}


def state(world: World, name: str = "r") -> str:
    """Return the state of a run."""
    return str(status_of(run_of(world, name)).get("state", ""))


def entries(world: World, name: str = "r") -> dict[str, JsonObject]:
    """Return what a run says of each member."""
    return {
        entry["name"]: entry
        for stage in dicts_at(run_of(world, name), "status", "stages")
        for group in dicts_at(stage, "groups")
        for entry in dicts_at(group, "members")
    }


def states(world: World, name: str = "r") -> dict[str, str]:
    """Return the state of each member of a run."""
    return {member: entry["state"] for member, entry in entries(world, name).items()}


def condition(world: World, kind: str, name: str = "r") -> JsonObject:
    """Return a condition of a run, empty when it has none of that type."""
    return next((each for each in conditions_of(run_of(world, name)) if each["type"] == kind), {})


def requests(world: World, member: str = "") -> list[JsonObject]:
    """Return the requests, of one member if it is given."""
    found = world.cache.list(UPGRADE_REQUEST)
    return [each for each in found if member in ("", each["spec"]["memberName"])]


def gates(world: World) -> Iterator[str]:
    """Yield the names of the gates that wait."""
    for gate in world.cache.list(UPGRADE_GATE):
        if status_of(gate).get("state") == "Pending":
            yield name_of(gate)


async def answer(world: World, gate: str, *, approve: bool = True) -> None:
    """Approve a gate, or reject it."""
    said = {
        "type": "Approved",
        "status": "True" if approve else "False",
        "reason": "Looked" if approve else "Rejected",
        "message": "by hand",
        "lastTransitionTime": format_time(loop_now()),
    }

    def answered(stored: JsonObject) -> JsonObject:
        return {**stored, "status": {**status_of(stored), "conditions": [*conditions_of(stored), said]}}

    await edit(world.store, UPGRADE_GATE, Key(gate), answered, status=True)


async def tell(world: World, request: JsonObject, **status: Any) -> None:
    """Report in the status of a request, as an upgrader does."""

    def told(stored: JsonObject) -> JsonObject:
        return {**stored, "status": {**status_of(stored), **status}}

    await edit(world.store, UPGRADE_REQUEST, Key(name_of(request)), told, status=True)


async def annotate(world: World, member: str, **annotations: str) -> None:
    """Annotate a member; others write it, too."""
    given = {OURS + key.replace("_", "-"): text for key, text in annotations.items()}
    await edit(world.store, MEMBER_CLUSTER, Key(member), lambda it: with_metadata(it, annotations=given))
