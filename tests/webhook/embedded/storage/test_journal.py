"""What the embedded store does with its file."""

import os
import resource
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from scorer.api.kinds import CUSTOM_RESOURCE_DEFINITION, KINDS, NAMESPACE, PLACEMENT
from webhook.embedded.storage.journal import APPLICATION_ID, SCHEMA_VERSION
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.ports import Key, NotFoundError, StoreError

CONFIG_MAP = KINDS["", "ConfigMap"]


def make_placement(name: str, **spec: object) -> dict[str, object]:
    return {
        "apiVersion": PLACEMENT.api_version,
        "kind": PLACEMENT.kind,
        "metadata": {"name": name, "finalizers": ["a/b"]},
        "spec": spec,
    }


def refusal(path: Path) -> str:
    with pytest.raises(StoreError) as caught:
        EmbeddedStore.open(path)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    return message


async def test_everything_is_there_after_a_restart(tmp_path):
    path = tmp_path / "deep" / "er" / "hub.db"
    store = EmbeddedStore.open(path)
    first = await store.create(PLACEMENT, make_placement("a", n=1))
    await store.create(PLACEMENT, make_placement("b"))
    kept = await store.replace(PLACEMENT, first | {"spec": {"n": 2}})
    await store.delete(PLACEMENT, Key("b"))
    held = await store.get(PLACEMENT, Key("b"))
    version = store.resource_version
    store.close()

    store = EmbeddedStore.open(path)
    assert store.resource_version == version
    assert (await store.list(PLACEMENT)).items == (kept, held)
    later = await store.create(PLACEMENT, make_placement("c"))
    assert int(later["metadata"]["resourceVersion"]) == int(version) + 1
    store.close()


async def test_versions_are_not_reused_when_the_last_object_is_gone(tmp_path):
    store = EmbeddedStore.open(tmp_path / "hub.db", retention=1)
    for _ in range(100):
        await store.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}})
        await store.delete(NAMESPACE, Key("a"))
    version = store.resource_version
    store.close()
    store = EmbeddedStore.open(tmp_path / "hub.db")
    assert store.resource_version == version == "200"
    store.close()


async def test_owners_and_definitions_work_after_a_restart(tmp_path):
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "boats.sea.io"},
        "spec": {
            "group": "sea.io",
            "scope": "Cluster",
            "names": {"kind": "Boat", "plural": "boats"},
            "versions": [{"name": "v1", "served": True, "storage": True}],
        },
    }
    store = EmbeddedStore.open(tmp_path / "hub.db")
    await store.create(CUSTOM_RESOURCE_DEFINITION, definition)
    boat = store.kinds.find("sea.io", "Boat")
    owner = await store.create(boat, {"apiVersion": "sea.io/v1", "kind": "Boat", "metadata": {"name": "owner"}})
    reference = {"apiVersion": "sea.io/v1", "kind": "Boat", "name": "owner", "uid": owner["metadata"]["uid"]}
    metadata = {"name": "dependent", "ownerReferences": [reference]}
    await store.create(boat, {"apiVersion": "sea.io/v1", "kind": "Boat", "metadata": metadata})
    store.close()

    store = EmbeddedStore.open(tmp_path / "hub.db")
    boat = store.kinds.find_plural("sea.io", "boats")
    await store.delete(boat, Key("owner"))
    assert (await store.list(boat)).items == ()
    store.close()


async def test_a_watch_resumes_after_a_restart(tmp_path):
    store = EmbeddedStore.open(tmp_path / "hub.db")
    await store.create(PLACEMENT, make_placement("a"))
    since = store.resource_version
    await store.create(PLACEMENT, make_placement("b"))
    store.close()
    store = EmbeddedStore.open(tmp_path / "hub.db")
    event = await anext(store.watch(PLACEMENT, since))
    assert (event.type, event.document["metadata"]["name"]) == ("ADDED", "b")
    store.close()


async def test_the_file_does_not_grow_with_every_write(tmp_path):
    path = tmp_path / "hub.db"
    store = EmbeddedStore.open(path, retention=64)
    stored = await store.create(PLACEMENT, make_placement("a", n=0, text="x" * 1000))
    for turn in range(1, 2000):
        stored = await store.replace(PLACEMENT, stored | {"spec": {"n": turn, "text": "x" * 1000}})
    store.close()
    with sqlite3.connect(path) as connection:
        (rows,) = connection.execute("SELECT count(*) FROM journal").fetchone()
    connection.close()
    assert rows <= 64 + 64 + 1
    assert path.stat().st_size < 300_000


async def test_only_its_owner_may_read_the_file(tmp_path):
    store = EmbeddedStore.open(tmp_path / "hub.db")
    await store.create(PLACEMENT, make_placement("a"))
    for file in tmp_path.iterdir():
        assert file.stat().st_mode & 0o077 == 0
    store.close()


class TestRefusals:
    def test_a_newer_schema(self, tmp_path):
        path = tmp_path / "hub.db"
        EmbeddedStore.open(path).close()
        with sqlite3.connect(path) as connection:
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 6}")
        connection.close()
        before = path.read_bytes()
        assert f"schema {SCHEMA_VERSION + 6}" in refusal(path)
        assert path.read_bytes() == before

    def test_a_directory(self, tmp_path):
        assert "is a directory" in refusal(tmp_path)

    def test_a_folder_that_is_a_file(self, tmp_path):
        (tmp_path / "data").write_text("")
        assert "not a directory" in refusal(tmp_path / "data" / "hub.db")

    def test_not_a_database(self, tmp_path):
        path = tmp_path / "hub.db"
        path.write_text("kind: Placement\n" * 1000)
        assert "not a database of harbormaster" in refusal(path)
        assert path.read_text().startswith("kind: Placement")

    def test_the_database_of_another_program(self, tmp_path):
        path = tmp_path / "hub.db"
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE bookmarks (url TEXT)")
        connection.close()
        before = path.read_bytes()
        assert "another program" in refusal(path)
        assert path.read_bytes() == before

    async def test_a_file_that_was_cut_off(self, tmp_path):
        path = tmp_path / "hub.db"
        store = EmbeddedStore.open(path)
        for turn in range(200):
            await store.create(PLACEMENT, make_placement(f"p-{turn}", text="x" * 1000))
        store.close()
        os.truncate(path, 20_000)
        refusal(path)

    def test_an_object_that_is_no_json(self, tmp_path):
        path = tmp_path / "hub.db"
        EmbeddedStore.open(path).close()
        with sqlite3.connect(path) as connection:
            connection.execute("INSERT INTO journal VALUES (1, 'ADDED', '', 'Node', '', 'n', NULL, '{')")
        connection.close()
        assert "damaged" in refusal(path)

    def test_a_second_user(self, tmp_path):
        path = tmp_path / "hub.db"
        first = EmbeddedStore.open(path)
        assert "another process" in refusal(path)
        first.close()
        EmbeddedStore.open(path).close()

    def test_a_second_process(self, tmp_path):
        path = tmp_path / "hub.db"
        first = EmbeddedStore.open(path)
        code = (
            "import sys, pathlib; from webhook.embedded.storage.store import *; "
            "EmbeddedStore.open(pathlib.Path(sys.argv[1]))"
        )
        run = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=False)
        assert run.returncode == 1
        assert "another process is using it" in run.stderr
        first.close()

    def test_a_folder_without_permission(self):
        assert "choose another folder" in refusal(Path("/proc/1/harbormaster/hub.db"))

    def test_no_permission(self, tmp_path):
        path = Path("/sys/harbormaster.db")
        assert "choose another folder" in refusal(path)


async def test_a_full_disk_leaves_everything_as_it_was(tmp_path):
    """The file may not grow any more, which SQLite reports as it does a full disk."""
    path = tmp_path / "hub.db"
    store = EmbeddedStore.open(path)
    definition = CUSTOM_RESOURCE_DEFINITION
    namespace = await store.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a"}})
    for turn in range(20):
        metadata = {"name": f"c-{turn}", "namespace": "a"}
        document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": "x" * 5000}}
        await store.create(CONFIG_MAP, document)
    before = (await store.list(CONFIG_MAP)).items
    watch = store.watch(CONFIG_MAP, store.resource_version)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, limits[1]))
    try:
        for write in (
            store.delete(NAMESPACE, Key("a")),
            store.create(PLACEMENT, make_placement("new")),
            store.create(
                definition,
                {
                    "apiVersion": "apiextensions.k8s.io/v1",
                    "kind": "CustomResourceDefinition",
                    "metadata": {"name": "boats.sea.io"},
                    "spec": {
                        "group": "sea.io",
                        "scope": "Cluster",
                        "names": {"kind": "Boat", "plural": "boats"},
                        "versions": [{"name": "v1", "served": True}],
                    },
                },
            ),
        ):
            with pytest.raises(StoreError, match=r"hub\.db.*Nothing was changed"):
                await write
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (await store.list(CONFIG_MAP)).items == before
    assert await store.get(NAMESPACE, Key("a")) == namespace
    assert store.kinds.find("sea.io", "Boat") is None
    with pytest.raises(NotFoundError):
        await store.get(PLACEMENT, Key("new"))

    await store.delete(CONFIG_MAP, Key("c-0", "a"))
    event = await anext(watch)
    assert (event.type, event.document["metadata"]["name"]) == ("DELETED", "c-0")
    store.close()
    store = EmbeddedStore.open(path)
    assert (await store.list(CONFIG_MAP)).items == before[1:]
    store.close()


def test_the_file_is_marked_as_ours(tmp_path):
    EmbeddedStore.open(tmp_path / "hub.db").close()
    assert (tmp_path / "hub.db").read_bytes()[68:72] == APPLICATION_ID.to_bytes(4, "big")
