"""A hub on which the loop has nothing left to do, for any number of placements, made in seconds.

The loop itself places one on as many members as wanted; the others are copies of what it made, under names, uids and
versions of their own, with the names and hashes that the loop would have written, from its own functions.
`tests/test_bench.py` lets the loop make a small hub in full, and compares.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Final

import orjson

from scorer.api.kinds import BINDING, EVENT, PLACEMENT, RESOURCE_SNAPSHOT, SECRET, WORK, Kind
from scorer.api.meta import JsonObject
from scorer.api.names import PARENT_BINDING, RESOURCE_HASH, WORK_OBJECTS
from scorer.api.unstructured.documents import annotation, label, name_of, spec_of
from scorer.placement.binding_plan import lost_binding
from scorer.rollout.removal.marks import objects_digest
from scorer.rollout.snapshots.groups import selected_resources
from scorer.rollout.snapshots.resources import resource_hash
from scorer.rollout.works.provenance import Provenance
from tests.builders.placement import make_placement
from tests.webhook.controllers.world import World, make_config_map, make_member, pick_n, running
from webhook.kube.work_signing_keys import keys_in

CONTENTS: Final = 2
"""ConfigMaps that each placement selects, besides their namespace."""
_TEXT: Final = "value " * 40
_FIRST: Final = b"app-0000"
_NONE: Final = 9999
"""Stands for the number of the placement in uids and versions of what belongs to none."""
_HOUR: Final = re.compile(rb'"(\d{4}-\d\d-\d\dT\d\d):')
_UID: Final = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


async def placed(placements: int, clusters: int, members: int) -> dict[Kind, list[JsonObject]]:
    """Let the loop place, on simulated members, and return all that is on the hub when it is at rest, but no Events.

    Args:
        placements: How many; each of a namespace of its own with ConfigMaps.
        clusters: How many clusters each asks for.
        members: How many there are, all of them eligible.
    """
    async with running() as world:
        await world.add(*(make_member(f"member-{number:04}", nodes=number + 1) for number in range(members)))
        await world.until(lambda: _reporting(world) == members, 120)
        for name in (f"app-{number:04}" for number in range(placements)):
            await world.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
            await world.add(*(make_config_map(f"config-{part}", name, text=_TEXT) for part in range(CONTENTS)))
            await world.add(make_placement(name, pick_n(clusters), home=name))
        await world.until(lambda: _available(world) == placements, 300)
        stored = {kind: list(world.store.objects(kind)) for kind in world.store.kinds if kind != EVENT}
        return {kind: documents for kind, documents in stored.items() if documents}


def _reporting(world: World) -> int:
    return sum(bool(member.status.properties) for member in world.cache.fleet.members)


def _available(world: World) -> int:
    return sum(world.view(name_of(placement))["state"] == "available" for placement in world.cache.list(PLACEMENT))


def settled(once: Mapping[Kind, Sequence[JsonObject]], placements: int) -> dict[Kind, list[bytes]]:
    """Return a hub that has one placement with that many of them instead; each object as JSON."""
    original = {kind: [orjson.loads(text) for text in texts] for kind, texts in _numbered(once).items()}
    state: dict[Kind, list[bytes]] = {kind: [] for kind in original}
    copied: list[tuple[Kind, JsonObject, bytes]] = []
    for kind, documents in original.items():
        for document in documents:
            text = orjson.dumps(document)
            if _FIRST in text:
                copied.append((kind, document, text))
            else:
                state[kind].append(text)
    keys = keys_of(once)
    for number in range(placements):
        for kind, text in _copies(copied, number, keys):
            state[kind].append(text)
    return state


def keys_of(hub: Mapping[Kind, Sequence[JsonObject]]) -> tuple[bytes, ...]:
    """Return the keys that sign the Works of a hub."""
    return next(keys_in(each) for kind, found in hub.items() if kind == SECRET for each in found)


def _numbered(once: Mapping[Kind, Sequence[JsonObject]]) -> dict[Kind, list[bytes]]:
    """Return all objects as JSON, with uids and versions that begin with the number of their placement."""
    uids: dict[bytes, bytes] = {}
    versions: dict[str, str] = {}
    for documents in once.values():
        for document in documents:
            metadata, number = document["metadata"], len(uids)
            owner = 0 if _FIRST in orjson.dumps(document) else _NONE
            uids[metadata["uid"].encode()] = f"{owner:08}-0000-4000-a000-{number:012}".encode()
            versions[metadata["resourceVersion"]] = f"1{owner:04}{number:05}"

    def text_of(document: JsonObject) -> bytes:
        version = versions[document["metadata"]["resourceVersion"]]
        numbered = {**document, "metadata": {**document["metadata"], "resourceVersion": version}}
        return _UID.sub(lambda found: uids.get(found[0], found[0]), orjson.dumps(numbered))

    return {kind: [text_of(document) for document in documents] for kind, documents in once.items()}


def _copies(
    copied: Sequence[tuple[Kind, JsonObject, bytes]], number: int, keys: tuple[bytes, ...]
) -> Iterator[tuple[Kind, bytes]]:
    def renamed(text: bytes) -> bytes:
        text = text.replace(b"00000000-0000-4000-a000", f"{number:08}-0000-4000-a000".encode())
        text = text.replace(b'"resourceVersion":"10000', f'"resourceVersion":"1{number:04}'.encode())
        text = _HOUR.sub(lambda found: earlier(found[1], number), text)
        return text.replace(_FIRST, f"app-{number:04}".encode())

    placement = next(orjson.loads(renamed(text)) for kind, _, text in copied if kind == PLACEMENT)
    provenance = Provenance(keys, placement["metadata"]["uid"])
    suffixes, digest = {}, ""
    for kind, document, _ in copied:
        if kind == BINDING:
            name = name_of(lost_binding(placement, spec_of(document)["targetCluster"], "", (), {}))
            suffixes[name_of(document)] = _suffix(name)
    for kind, document, original in copied:
        text = renamed(original)
        if kind == RESOURCE_SNAPSHOT:
            new = resource_hash(selected_resources(orjson.loads(text)))
            text = _exchanged(text, annotation(document, RESOURCE_HASH), new)
        elif kind == BINDING:
            text = _exchanged(text, _suffix(name_of(document)), suffixes[name_of(document)])
        elif kind == WORK:
            binding = label(document, PARENT_BINDING)
            digest = digest or objects_digest(spec_of(orjson.loads(text))["workload"]["manifests"])
            text = _exchanged(text, annotation(document, WORK_OBJECTS), digest)
            text = _exchanged(text, _suffix(binding), suffixes[binding])
            text = orjson.dumps(provenance.sign(orjson.loads(text)))
        yield kind, text


@cache
def earlier(hour: bytes, hours: int) -> bytes:
    """Return an hour as it begins a time in JSON, so many hours before *hour*: placements are not all of one second."""
    then = datetime.strptime(hour.decode(), "%Y-%m-%dT%H") - timedelta(hours=hours)
    return b'"%b:' % then.strftime("%Y-%m-%dT%H").encode()


def _suffix(binding: str) -> str:
    """Return the end of a binding's name, which is made of the uid of its placement."""
    return binding[binding.rindex("-member-") + len("-member-") :]


def _exchanged(text: bytes, old: str, new: str) -> bytes:
    return text.replace(old.encode(), new.encode())
