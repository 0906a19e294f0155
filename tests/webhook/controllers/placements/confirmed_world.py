"""A hub whose loop asks for confirmation of removals by the product's defaults, and changes on it."""

from contextlib import asynccontextmanager
from datetime import timedelta

from scorer.api.kinds import BINDING, KINDS, MEMBER_CLUSTER, NAMESPACE, PLACEMENT
from scorer.api.names import CONFIRM_REMOVAL
from scorer.api.unstructured.documents import conditions_of, with_metadata
from scorer.rollout.confirmation.digests import Confirmation
from tests.builders.placement import make_placement
from tests.virtual_time import loop_now
from tests.webhook.controllers.override_rules import delete as deleting
from tests.webhook.controllers.override_rules import make_override
from tests.webhook.controllers.world import make_config_map, make_member, running
from tests.webhook.edits import edit
from webhook.embedded.simulation.scripts import SIMULATE
from webhook.kube.ports import Key

STATEFUL_SET, CONFIG_MAP = KINDS["apps", "StatefulSet"], KINDS["", "ConfigMap"]
DATABASE = {"group": "apps", "version": "v1", "kind": "StatefulSet", "name": "db"}
MEMBERS = ("fish", "lion", "wolf")
AT_ONCE = {"rollingUpdate": {"unavailablePeriodSeconds": 0}}
"""A strategy without a pause after each cluster that has lost content."""


def make_database(name="db", namespace="shop"):
    spec = {
        "serviceName": name,
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}},
    }
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec}


@asynccontextmanager
async def confirming(*members, count=6, placement=None, **settings):
    """Run a hub on which ``shop``, with a database and ConfigMaps, is placed on members."""
    async with running(**settings) as world:
        await world.add(*(make_member(name) for name in members or MEMBERS))
        await world.add(make_database(), *(make_config_map(f"c{number}") for number in range(count)))
        await world.until(lambda: all(map(world.has_joined, members or MEMBERS)))
        await world.add(placement or make_placement(strategy=AT_ONCE))
        await world.until(lambda: is_available(world))
        yield world


def dropping(name, term):
    """Return an override that deletes an object of ``shop`` on every member."""
    override = make_override(name, deleting(), placement="shop")
    return {**override, "spec": {**override["spec"], "resourceSelectors": [term]}}


def is_available(world, name="shop"):
    return world.condition(name, "Available").get("status") == "True"


def pending(world, name="shop", kind="RemovalPending"):
    """Return the condition, empty when there is none, or when it reports a removal in progress."""
    document = world.cache.get(PLACEMENT, name) or {}
    named = (each for each in conditions_of(document) if each["type"] == kind)
    return next((each for each in named if each["reason"] != "RemovalInProgress"), {})


def in_progress(world, name="shop"):
    """Return the message about a confirmed removal in progress, empty when there is none."""
    document = world.cache.get(PLACEMENT, name) or {}
    progress = (each for each in conditions_of(document) if each["reason"] == "RemovalInProgress")
    return next((each["message"] for each in progress), "")


def digests(world, name="shop"):
    """Return the digests that the condition names."""
    message = pending(world, name).get("message", "")
    return [part.partition(")")[0] for part in message.split(" (")[1:]]


async def confirm(world, *named, name="shop", hours=1):
    """Confirm digests as a user does: those that the condition names."""
    text = Confirmation(frozenset(named or digests(world, name)), loop_now() + timedelta(hours=hours)).format()
    await edit(world.store, PLACEMENT, Key(name), lambda it: with_metadata(it, annotations={CONFIRM_REMOVAL: text}))


async def delete(world, kind, name, namespace=""):
    """Delete an object as a user does."""
    await world.store.delete(kind, Key(name, namespace))


async def silence(world, *members, over=False):
    """Let agents stop to answer, or answer again."""
    simulate = {SIMULATE: None if over else "silent"}
    for name in members:
        await edit(world.store, MEMBER_CLUSTER, Key(name), lambda it: with_metadata(it, annotations=simulate))


async def on_members(world, kind, name, namespace="shop", members=MEMBERS):
    """Return the members that have an object."""
    return [each for each in members if await world.on_member(each, kind, name, namespace)]


def bindings(world, name="shop"):
    found = world.cache.labelled(BINDING, "kubernetes-fleet.io/parent-CRP", name)
    return {each["spec"]["targetCluster"]: each for each in found}


__all__ = ["CONFIG_MAP", "MEMBERS", "NAMESPACE", "STATEFUL_SET"]
