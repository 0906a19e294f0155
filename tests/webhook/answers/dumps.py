"""A hub in memory as files, on which ``plan`` has to give the same answer."""

from pathlib import Path

from scorer.api.kinds import KINDS
from scorer.api.meta import JsonObject, dump_json
from tests.virtual_time import loop_now
from tests.webhook.controllers.world import World
from webhook.cli.files.repositories import load_known
from webhook.cli.files.search import Files
from webhook.cli.offline.plan import PlannedLosses, plan_changes


def plan_on_files(world: World, folder: Path, *documents: JsonObject) -> JsonObject:
    """Return the plan of *documents* on a dump of a hub."""
    stored = [
        {"apiVersion": kind.api_version, "kind": kind.kind, **document}
        for kind in KINDS.values()
        for document in world.cache.list(kind)
    ]
    base, changes = (
        load_known(Files((_file(folder / name, items),)))
        for name, items in (("hub.json", stored), ("changes.json", documents))
    )
    return plan_changes(base, changes, PlannedLosses(), now=loop_now(), clock=loop_now())


def _file(path: Path, documents: list[JsonObject] | tuple[JsonObject, ...]) -> str:
    path.write_bytes(dump_json({"apiVersion": "v1", "kind": "List", "items": list(documents)}))
    return str(path)
