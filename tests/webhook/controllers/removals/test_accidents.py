"""Accidents on a hub, from a list: no member loses anything whose removal needs a confirmation."""

import fnmatch
import itertools
from contextlib import nullcontext
from pathlib import Path

import pytest
import yaml

from scorer.api.kinds import KINDS, RESOURCE_SNAPSHOT
from scorer.api.names import SOURCES
from scorer.api.unstructured.documents import conditions_of, with_metadata
from tests.builders.placement import make_placement
from tests.waiting import until
from tests.webhook.controllers.placements.confirmed_world import MEMBERS, make_database
from tests.webhook.controllers.world import held_up, make_config_map, make_member, running
from tests.webhook.edits import edit
from webhook.kube.ports import EventType, Key, key_of

ACCIDENTS = yaml.safe_load((Path(__file__).parent / "accidents.yaml").read_text(encoding="utf-8"))
CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data", "namespace": "shop"},
    "spec": {"accessModes": ["ReadWriteOnce"]},
}
EDITS = {"delete", "label", "merge", "apply", "earlier"}


def parse(text):
    """Return the kind, the namespace and the name of ``KIND [NAMESPACE/]NAME``."""
    word, _, rest = text.partition(" ")
    namespace, _, name = rest.rpartition("/")
    return next(kind for kind in KINDS.values() if kind.kind == word), namespace, name


def merged(document, change):
    """Return a document with a JSON merge patch."""
    result = dict(document)
    for key, value in change.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = merged(result.get(key) or {}, value)
        else:
            result[key] = value
    return result


class Fleet:
    """A hub with a fleet, on which steps are taken."""

    def __init__(self, world):
        self.world, self._backup = world, {}

    def matching(self, text):
        kind, namespace, name = parse(text)
        found = self.world.store.objects(kind)
        keys = [Key(each["metadata"]["name"], each["metadata"].get("namespace", "")) for each in found]
        return kind, sorted(key for key in keys if key.namespace == namespace and fnmatch.fnmatch(key.name, name))

    async def take(self, step):
        """Take one step."""
        match step:
            case {"delete": text}:
                kind, keys = self.matching(text)
                assert keys, text
                for key in keys:
                    await self.world.store.delete(kind, key)
            case {"each": text}:
                kind, keys = self.matching(text)
                for key in keys:
                    await self.world.store.delete(kind, key)
                    await self.rest()
            case {"label": text, "to": labels}:
                kind, namespace, name = parse(text)
                await edit(self.world.store, kind, Key(name, namespace), lambda it: with_metadata(it, labels=labels))
            case {"merge": text, "to": change}:
                kind, namespace, name = parse(text)
                await edit(self.world.store, kind, Key(name, namespace), lambda it: merged(it, change))
            case {"apply": document}:
                await self.world.add(document)
            case {"wait": True}:
                await self.rest()
            case {"forbid": word}:
                shelf = self.world.cache.of_kind(next(kind for kind in KINDS.values() if kind.kind == word))
                shelf.refusal = "forbidden"
                for document in list(shelf.objects.values()):
                    shelf.drop(document)
            case {"dies": writes}:
                self.world.mortal.writes_left = writes
            case {"restart": True}:
                await self.restart()
            case {"backup": True}:
                self._backup = {kind: list(self.world.store.objects(kind)) for kind in KINDS.values()}
            case {"restore": True}:
                self.restore()
                await self.restart()
            case {"earlier": True}:
                for each in self.world.store.objects(RESOURCE_SNAPSHOT):
                    key = Key(each["metadata"]["name"])
                    await edit(
                        self.world.store,
                        RESOURCE_SNAPSHOT,
                        key,
                        lambda it: with_metadata(it, annotations={SOURCES: None}),
                    )
            case _:
                raise AssertionError(step)

    async def take_all(self, steps):
        """Take steps; edits right after one another reach the loop together, as changes are collected for seconds."""
        for is_edit, together in itertools.groupby(steps, key=lambda step: bool(EDITS & step.keys())):
            async with held_up(self.world.loop.queues["placement"]) if is_edit else nullcontext():
                for step in together:
                    await self.take(step)

    async def restart(self):
        """Let another process of the loop go on; one that is to die at a write has done so."""
        await until(lambda: self.world.mortal.dead or self.world.mortal.writes_left is None)
        await self.world.restart()

    def restore(self):
        """Put everything back as it was, as from a backup of etcd; the members are as they are."""
        with self.world.store._write() as write:
            for kind, documents in self._backup.items():
                kept = {(each["metadata"]["name"], each["metadata"].get("namespace")) for each in documents}
                for each in self.world.store.objects(kind):
                    if (each["metadata"]["name"], each["metadata"].get("namespace")) not in kept:
                        write._record((kind.group_kind, key_of(each)), each, EventType.DELETED)
                for each in documents:
                    write.put(kind.group_kind, each)

    async def rest(self):
        await self.world.until(lambda: True)

    def condition(self, text, kind):
        placement, namespace, name = parse(text)
        document = self.world.cache.get(placement, name, namespace) or {}
        return next((each for each in conditions_of(document) if each["type"].endswith(kind)), {})

    async def missing(self, texts):
        """Return what is on some members only, or on none."""
        absent = []
        for text in texts:
            kind, namespace, name = parse(text)
            absent += [
                f"{text} on {member}"
                for member in MEMBERS
                if await self.world.on_member(member, kind, name, namespace) is None
            ]
        return absent


@pytest.mark.parametrize("accident", ACCIDENTS, ids=lambda accident: accident["name"])
async def test_no_member_loses_what_must_be_confirmed(accident):
    async with running() as world:
        fleet = Fleet(world)
        await world.add(*(make_member(name, use="shop") for name in MEMBERS))
        await world.add(make_database(), CLAIM, *(make_config_map(f"c{number}") for number in range(12)))
        await fleet.take({"label": "Namespace shop", "to": {"team": "shop"}})
        await world.add(*accident.get("before", ()))
        await world.until(lambda: all(map(world.has_joined, MEMBERS)))
        await world.add(merged(make_placement(), accident.get("placement", {})))

        async def is_placed():
            return not await fleet.missing(accident["stays"])

        await until(is_placed)
        await fleet.rest()
        await fleet.take_all(accident["steps"])
        placement = accident.get("pending", "ClusterResourcePlacement shop")

        def is_judged():
            match accident.get("verdict", "pending"):
                case "pending":
                    return fleet.condition(placement, "RemovalPending").get("reason") == "ConfirmationRequired"
                case "held":
                    return fleet.condition(placement, "Scheduled").get("reason") == "InvalidResourceSelectors"
                case "orphaned":
                    return world.events("PlacementContentOrphaned")

        await world.until(is_judged)
        await fleet.rest()
        assert await fleet.missing(accident["stays"]) == []


def test_the_list_is_long_enough():
    names = [accident["name"] for accident in ACCIDENTS]
    assert len(names) == len(set(names)) >= 30
    firsts = [text for accident in ACCIDENTS for step in accident["steps"][:1] if (text := step.get("delete", ""))]
    assert sum(not text.startswith("Namespace ") for text in firsts) >= 10
