"""Random writes against the embedded store and against a model that is a plain dictionary."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from scorer.api.kinds import PLACEMENT
from tests.thoroughness import examples
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.ports import (
    AlreadyExistsError,
    ConflictError,
    EventType,
    InvalidObjectError,
    Key,
    NotFoundError,
    StoreError,
)

NAMES = st.sampled_from(["a", "b", "c", "d"])
VALUES = st.integers(0, 2)
FINALIZERS = st.sets(st.sampled_from(["x/one", "x/two"]))


class Model:
    """What must be stored: by name, the fields that count."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}

    def remove(self, name: str) -> None:
        uid = self.objects.pop(name)["uid"]
        for other in list(self.objects):
            if other in self.objects and uid in self.objects[other]["owners"]:
                self.objects[other]["owners"] -= {uid}
                if not self.objects[other]["owners"]:
                    self.delete(other)
                    if other in self.objects:
                        self.objects[other]["owners"] = {uid}

    def delete(self, name: str) -> None:
        found = self.objects[name]
        if not found["finalizers"]:
            self.remove(name)
        elif not found["deleting"]:
            found["deleting"] = True
            found["generation"] += 1


class StoreMachine(RuleBasedStateMachine):
    """Every rule does the same to both; the invariant compares."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.loop = asyncio.new_event_loop()
        self.model = Model()
        self.replayed: dict[str, dict[str, Any]] = {}
        self.last_seen = "0"
        self.newest = 0

    @initialize()
    def open(self) -> None:
        self.store = EmbeddedStore.open(Path(self.folder.name) / "hub.db", retention=500)

    def teardown(self) -> None:
        self.store.close()
        self.loop.close()
        self.folder.cleanup()

    def run_write(self, write: Any, refused: type[StoreError] | None) -> Any:
        if refused is None:
            return self.loop.run_until_complete(write)
        with pytest.raises(refused):
            self.loop.run_until_complete(write)
        return None

    def version_of(self, name: str) -> str:
        stored = self.loop.run_until_complete(self.store.get(PLACEMENT, Key(name)))
        return str(stored["metadata"]["resourceVersion"])

    def document(self, name: str, value: int, finalizers: set[str], owners: set[str]) -> dict[str, Any]:
        references = [
            {"apiVersion": "v1", "kind": "Owner", "name": owner, "uid": self.model.objects[owner]["uid"]}
            for owner in sorted(owners & self.model.objects.keys() - {name})
        ]
        metadata = {"name": name, "finalizers": sorted(finalizers), "ownerReferences": references}
        spec = {"value": value}
        return {"apiVersion": PLACEMENT.api_version, "kind": PLACEMENT.kind, "metadata": metadata, "spec": spec}

    @rule(name=NAMES, value=VALUES, finalizers=FINALIZERS, owners=st.sets(NAMES, max_size=2))
    def create(self, name: str, value: int, finalizers: set[str], owners: set[str]) -> None:
        document = self.document(name, value, finalizers, owners)
        taken = name in self.model.objects
        stored = self.run_write(self.store.create(PLACEMENT, document), AlreadyExistsError if taken else None)
        if not taken:
            self.model.objects[name] = {
                "uid": stored["metadata"]["uid"],
                "value": value,
                "finalizers": finalizers,
                "owners": {reference["uid"] for reference in document["metadata"]["ownerReferences"]},
                "generation": 1,
                "deleting": False,
                "status": None,
            }

    @rule(name=NAMES, value=VALUES, finalizers=FINALIZERS, owners=st.sets(NAMES, max_size=2))
    def replace(self, name: str, value: int, finalizers: set[str], owners: set[str]) -> None:
        document = self.document(name, value, finalizers, owners)
        found = self.model.objects.get(name)
        if found is None:
            self.run_write(self.store.replace(PLACEMENT, document), NotFoundError)
            return
        document["metadata"]["resourceVersion"] = self.version_of(name)
        if found["deleting"] and finalizers - found["finalizers"]:
            self.run_write(self.store.replace(PLACEMENT, document), InvalidObjectError)
            return
        self.run_write(self.store.replace(PLACEMENT, document), None)
        found["generation"] += found["value"] != value
        found["value"], found["finalizers"] = value, finalizers
        found["owners"] = {reference["uid"] for reference in document["metadata"]["ownerReferences"]}
        if found["deleting"] and not finalizers:
            self.model.remove(name)

    @rule(name=NAMES, value=VALUES)
    def replace_status(self, name: str, value: int) -> None:
        metadata = {"name": name}
        if name in self.model.objects:
            metadata["resourceVersion"] = self.version_of(name)
        write = self.store.replace_status(PLACEMENT, {"metadata": metadata, "status": {"value": value}})
        self.run_write(write, None if name in self.model.objects else NotFoundError)
        if name in self.model.objects:
            self.model.objects[name]["status"] = {"value": value}

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        self.run_write(self.store.delete(PLACEMENT, Key(name)), None if name in self.model.objects else NotFoundError)
        if name in self.model.objects:
            self.model.delete(name)

    @rule(name=NAMES)
    def write_over_another_version_or_none(self, name: str) -> None:
        if name in self.model.objects:
            document = self.document(name, 9, set(), set())
            self.run_write(self.store.replace(PLACEMENT, document), InvalidObjectError)
            document["metadata"]["resourceVersion"] = self.version_of(name) + "0"
            self.run_write(self.store.replace(PLACEMENT, document), ConflictError)

    @rule()
    def write_the_same_again(self) -> None:
        version = self.store.resource_version
        for document in self.loop.run_until_complete(self.store.list(PLACEMENT)).items:
            assert self.run_write(self.store.replace(PLACEMENT, document), None) is document
        assert self.store.resource_version == version

    @rule()
    def restart(self) -> None:
        version = self.store.resource_version
        self.store.close()
        self.open()
        assert self.store.resource_version == version

    @rule()
    def replay(self) -> None:
        """Whoever applies the watch to what he had before has what is stored now."""
        watch = self.store.watch(PLACEMENT, self.last_seen)

        async def drain() -> None:
            while self.last_seen != self.store.resource_version:
                event = await anext(watch)
                name = event.document["metadata"]["name"]
                assert int(event.resource_version) > int(self.last_seen)
                assert (name in self.replayed) is (event.type is not EventType.ADDED)
                if event.type is EventType.DELETED:
                    del self.replayed[name]
                else:
                    self.replayed[name] = event.document
                self.last_seen = event.resource_version

        self.loop.run_until_complete(drain())
        listing = self.loop.run_until_complete(self.store.list(PLACEMENT))
        assert self.replayed == {document["metadata"]["name"]: document for document in listing.items}

    @invariant()
    def both_agree(self) -> None:
        if not hasattr(self, "store"):
            return
        stored = {}
        for document in self.loop.run_until_complete(self.store.list(PLACEMENT)).items:
            metadata = document["metadata"]
            stored[metadata["name"]] = {
                "uid": metadata["uid"],
                "value": document["spec"]["value"],
                "finalizers": set(metadata.get("finalizers", ())),
                "owners": {reference["uid"] for reference in metadata.get("ownerReferences", ())},
                "generation": metadata["generation"],
                "deleting": "deletionTimestamp" in metadata,
                "status": document.get("status"),
            }
        assert stored == self.model.objects
        assert int(self.store.resource_version) >= self.newest
        self.newest = int(self.store.resource_version)


TestStoreModel = StoreMachine.TestCase
TestStoreModel.settings = settings(
    max_examples=examples(25), stateful_step_count=40, suppress_health_check=list(HealthCheck)
)
