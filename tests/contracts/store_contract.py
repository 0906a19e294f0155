"""What every store promises: the suite that the embedded store and the hub store on a real API server run.

A module that tests a store imports everything from here and gives two fixtures. ``store`` is empty of placements,
bindings and member clusters, and somebody collects dependents and empties namespaces. ``forgotten`` is a resource
version that is too old to watch from. Objects in here are complete and valid, so that defaults and schemas change
nothing about them. What may take a while is waited for with `eventually`.

Where the two stores differ on purpose is said in `webhook.kube.ports.Store`, and tested beside each of them.
"""

import asyncio
import re
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from scorer.api.kinds import BINDING, KINDS, MEMBER_CLUSTER, NAMESPACE, PLACEMENT, PLACEMENT_STATUS, WORK, Kind
from webhook.kube.ports import (
    AlreadyExistsError,
    ConflictError,
    EventType,
    ExpiredError,
    ForbiddenError,
    InvalidObjectError,
    Key,
    NotFoundError,
    Store,
    StoreError,
    WatchEvent,
)

__all__ = (
    "TestCreate",
    "TestDelete",
    "TestGet",
    "TestList",
    "TestMetadata",
    "TestNamespaces",
    "TestOwners",
    "TestReplace",
    "TestStatus",
    "TestTogether",
    "TestWatch",
    "space",
)

CONFIG_MAP = KINDS["", "ConfigMap"]
PATIENCE_SECONDS = 120
"""An API server's namespaces take their time: five seconds until somebody looks, more when content is held."""

Document = dict[str, Any]


@pytest.fixture
async def space(store: Store) -> str:
    """A namespace for one test."""
    return await make_space(store)


async def make_space(store: Store, prefix: str = "shop") -> str:
    name = f"{prefix}-{uuid.uuid4().hex[:8]}"
    await store.create(NAMESPACE, make(NAMESPACE, name))
    return name


def make(kind: Kind, name: str, namespace: str = "", **metadata: Any) -> Document:
    head: Document = {"name": name} | ({"namespace": namespace} if namespace else {}) | metadata
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": head}


def placement(name: str, history: int = 3, **metadata: Any) -> Document:
    selector = {
        "group": "",
        "version": "v1",
        "kind": "Namespace",
        "name": "shop",
        "selectionScope": "NamespaceWithResources",
    }
    spec = {
        "resourceSelectors": [selector],
        "revisionHistoryLimit": history,
        "statusReportingScope": "ClusterScopeOnly",
    }
    return make(PLACEMENT, name, **metadata) | {"spec": spec}


def binding(name: str, **metadata: Any) -> Document:
    decision = {"clusterName": "lion", "selected": True, "reason": "picked"}
    spec = {
        "state": "Scheduled",
        "resourceSnapshotName": "",
        "schedulingPolicySnapshotName": "payments-0",
        "targetCluster": "lion",
        "clusterDecision": decision,
    }
    return make(BINDING, name, **metadata) | {"spec": spec}


def member_cluster(name: str, period: int = 60, **metadata: Any) -> Document:
    spec = {"identity": {"kind": "User", "name": "agent"}, "heartbeatPeriodSeconds": period}
    return make(MEMBER_CLUSTER, name, **metadata) | {"spec": spec}


def work(name: str, namespace: str, **metadata: Any) -> Document:
    return make(WORK, name, namespace, **metadata) | {"spec": {"workload": {"manifests": []}}}


def config_map(name: str, namespace: str, data: dict[str, str] | None = None, **metadata: Any) -> Document:
    return make(CONFIG_MAP, name, namespace, **metadata) | {"data": data or {"a": "1"}}


def status_copy(name: str, namespace: str, second: int = 0) -> Document:
    times = {"lastUpdatedTime": f"2026-05-01T12:00:{second:02}Z", "sourceStatus": {}}
    return make(PLACEMENT_STATUS, name, namespace) | times


def index_status(index: str) -> Document:
    return {"status": {"observedResourceIndex": index}}


def altered(document: Document, **metadata: Any) -> Document:
    """Copy an object with other metadata; None removes a member."""
    head = {**document["metadata"], **metadata}
    return {**document, "metadata": {member: value for member, value in head.items() if value is not None}}


def with_history(document: Document, history: int) -> Document:
    return {**document, "spec": {**document["spec"], "revisionHistoryLimit": history}}


def owned_by(*owners: Document) -> list[Document]:
    return [
        {"apiVersion": owner["apiVersion"], "kind": owner["kind"]}
        | {"name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
        for owner in owners
    ]


def version(document: Document) -> str:
    found = document["metadata"]["resourceVersion"]
    assert isinstance(found, str)
    return found


async def names(store: Store, kind: Kind, namespace: str | None = None, **labels: str) -> list[str]:
    return [one["metadata"]["name"] for one in (await store.list(kind, namespace, labels)).items]


async def is_gone(store: Store, kind: Kind, key: Key) -> bool:
    try:
        await store.get(kind, key)
    except NotFoundError:
        return True
    return False


async def is_marked(store: Store, kind: Kind, key: Key) -> bool:
    return "deletionTimestamp" in (await store.get(kind, key))["metadata"]


async def eventually(check: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await check():
            await asyncio.sleep(0.05)


async def assert_refused(write: Awaitable[Any], error: type[StoreError], *words: str) -> None:
    with pytest.raises(error) as caught:
        await write
    for word in words:
        assert word in str(caught.value)


@asynccontextmanager
async def watching(store: Store, kind: Kind, since: str, namespace: str | None = None) -> AsyncIterator["Watched"]:
    events = store.watch(kind, since, namespace)
    try:
        yield Watched(events)
    finally:
        if close := getattr(events, "aclose", None):
            await close()


class Watched:
    """The events of a watch, bookmarks left out."""

    def __init__(self, events: AsyncIterator[WatchEvent]) -> None:
        self._events = events

    async def take(self, count: int) -> list[WatchEvent]:
        taken: list[WatchEvent] = []
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(taken) < count:
                event = await anext(self._events)
                if event.type is not EventType.BOOKMARK:
                    taken.append(event)
        return taken

    async def seen(self, count: int) -> list[tuple[str, str]]:
        return seen(await self.take(count))


def seen(events: list[WatchEvent]) -> list[tuple[str, str]]:
    return [(event.type.value, event.document["metadata"]["name"]) for event in events]


async def version_of(store: Store, kind: Kind) -> str:
    return (await store.list(kind)).resource_version


class TestCreate:
    async def test_fills_in_what_the_server_owns(self, store):
        stored = await store.create(PLACEMENT, placement("payments"))
        metadata = stored["metadata"]
        assert len(metadata["uid"]) == 36
        assert metadata["generation"] == 1
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", metadata["creationTimestamp"])
        assert int(metadata["resourceVersion"]) > 0
        assert stored["spec"] == placement("payments")["spec"]
        assert (stored["apiVersion"], stored["kind"]) == (PLACEMENT.api_version, PLACEMENT.kind)

    async def test_what_is_written_is_read(self, store, space):
        for kind, document in ((PLACEMENT, placement("payments")), (CONFIG_MAP, config_map("a", space))):
            stored = await store.create(kind, document)
            key = Key(document["metadata"]["name"], document["metadata"].get("namespace", ""))
            assert await store.get(kind, key) == stored
            assert "managedFields" not in stored["metadata"]

    async def test_what_the_client_says_about_it_is_ignored(self, store):
        given = placement("payments", uid="mine", generation=7, creationTimestamp="2020-01-01T00:00:00Z", unheardOf=1)
        given["metadata"] |= {"deletionTimestamp": "2020-01-01T00:00:00Z", "managedFields": [{"manager": "kubectl"}]}
        metadata = (await store.create(PLACEMENT, given))["metadata"]
        assert metadata["uid"] != "mine"
        assert metadata["generation"] == 1
        assert metadata["creationTimestamp"] > "2020-01-02"
        assert not metadata.keys() & {"managedFields", "unheardOf", "deletionTimestamp"}

    async def test_what_the_user_says_about_it_is_kept(self, store):
        owner = await store.create(PLACEMENT, placement("owner"))
        given = {
            "labels": {"a": "b"},
            "annotations": {"c": "d e"},
            "finalizers": ["a/b"],
            "ownerReferences": owned_by(owner),
        }
        metadata = (await store.create(BINDING, binding("b", **given)))["metadata"]
        assert {member: metadata[member] for member in given} == given

    async def test_status_is_left_out_where_it_is_a_subresource(self, store):
        assert "status" not in await store.create(PLACEMENT, placement("payments") | index_status("1"))

    async def test_later_changes_of_the_argument_do_not_reach_the_store(self, store):
        given = placement("payments")
        await store.create(PLACEMENT, given)
        given["spec"]["resourceSelectors"].clear()
        assert (await store.get(PLACEMENT, Key("payments")))["spec"] == placement("payments")["spec"]

    async def test_a_taken_name(self, store, space):
        await store.create(PLACEMENT, placement("payments"))
        await assert_refused(store.create(PLACEMENT, placement("payments", 4)), AlreadyExistsError, "payments")
        await store.create(CONFIG_MAP, config_map("a", space))
        await assert_refused(store.create(CONFIG_MAP, config_map("a", space)), AlreadyExistsError, "a")

    async def test_a_name_is_free_in_another_namespace_and_kind(self, store, space):
        other = await make_space(store)
        await store.create(CONFIG_MAP, config_map("a", space))
        await store.create(CONFIG_MAP, config_map("a", other))
        await store.create(WORK, work("a", space))

    async def test_generate_name(self, store):
        made = set()
        for _ in range(10):
            given = altered(placement(""), name=None, generateName="run-")
            made.add((await store.create(PLACEMENT, given))["metadata"]["name"])
        assert len(made) == 10
        assert all(name.startswith("run-") and len(name) == 9 for name in made)

    async def test_a_long_generate_name_is_cut_to_63_characters(self, store):
        given = altered(placement(""), name=None, generateName="a" * 80)
        assert len((await store.create(PLACEMENT, given))["metadata"]["name"]) == 63

    async def test_a_name_goes_before_generate_name(self, store):
        stored = await store.create(PLACEMENT, placement("payments", generateName="run-"))
        assert stored["metadata"]["name"] == "payments"

    async def test_the_namespace_must_exist(self, store):
        await assert_refused(store.create(CONFIG_MAP, config_map("a", "nowhere")), NotFoundError, "nowhere")

    async def test_text_that_is_no_unicode_is_mended(self, store, space):
        stored = await store.create(CONFIG_MAP, config_map("a", space, {"k": "\ud800"}))
        assert set(stored["data"]["k"]) == {"\ufffd"}

    @pytest.mark.parametrize(
        ("metadata", "field"),
        [
            pytest.param({"name": "Payments"}, "metadata.name", id="name"),
            pytest.param({"name": ""}, "metadata.name", id="no-name"),
            pytest.param({"name": "a/b"}, "metadata.name", id="slash"),
            pytest.param({"name": None, "generateName": "A"}, "A", id="generate-name"),
            pytest.param({"labels": {"a": "b c"}}, "metadata.labels", id="label"),
            pytest.param({"labels": {"a b": ""}}, "metadata.labels", id="label-key"),
            pytest.param({"labels": {"a": "x" * 64}}, "metadata.labels", id="label-length"),
            pytest.param({"annotations": {"a b": ""}}, "metadata.annotations", id="annotation-key"),
            pytest.param({"annotations": {"a": "x" * 262145}}, "metadata.annotations", id="annotations-length"),
            pytest.param({"finalizers": ["a b"]}, "metadata.finalizers", id="finalizer"),
            pytest.param(
                {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n"}]},
                "metadata.ownerReferences",
                id="owner-without-uid",
            ),
            pytest.param(
                {
                    "ownerReferences": [
                        {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": uid, "controller": True}
                        for uid in ("1", "2")
                    ]
                },
                "metadata.ownerReferences",
                id="two-controllers",
            ),
        ],
    )
    async def test_metadata_that_breaks_a_rule(self, store, metadata, field):
        given = altered(placement("payments"), **metadata)
        await assert_refused(store.create(PLACEMENT, given), InvalidObjectError, field)
        assert await names(store, PLACEMENT) == []

    async def test_every_mistake_is_named(self, store):
        given = placement("A", labels={"a": "b c"}, finalizers=["a b"])
        await assert_refused(
            store.create(PLACEMENT, given),
            InvalidObjectError,
            "metadata.name",
            "metadata.labels",
            "metadata.finalizers",
        )

    async def test_namespaces_are_named_by_labels(self, store):
        await assert_refused(store.create(NAMESPACE, make(NAMESPACE, "a.b")), InvalidObjectError, "metadata.name")

    async def test_role_names_are_path_segments(self, store):
        role = KINDS["rbac.authorization.k8s.io", "ClusterRole"]
        name = f"contract:{uuid.uuid4().hex[:8]}"
        stored = await store.create(role, make(role, name) | {"rules": []})
        assert stored["metadata"]["name"] == name
        await assert_refused(store.create(role, make(role, "a/b") | {"rules": []}), InvalidObjectError, "metadata.name")

    @pytest.mark.parametrize(
        ("kind", "document"),
        [
            pytest.param(PLACEMENT, placement("payments", resourceVersion="3"), id="resource-version"),
            pytest.param(PLACEMENT, placement("payments") | {"kind": "Placement"}, id="kind"),
            pytest.param(PLACEMENT, placement("payments") | {"apiVersion": "v1"}, id="api-version"),
            pytest.param(PLACEMENT, placement("payments", labels={"a": 1}), id="label-type"),
            pytest.param(PLACEMENT, placement("payments", labels=["a"]), id="labels-type"),
            pytest.param(PLACEMENT, placement("payments", annotations={"a": 1}), id="annotation-type"),
            pytest.param(PLACEMENT, placement("payments", finalizers="a"), id="finalizers-type"),
            pytest.param(PLACEMENT, placement("payments", namespace="default"), id="scope"),
            pytest.param(PLACEMENT, altered(placement("payments"), name=5), id="name-type"),
            pytest.param(CONFIG_MAP, make(CONFIG_MAP, "a"), id="no-namespace"),
        ],
    )
    async def test_what_no_correct_caller_sends_is_refused_somehow(self, store, kind, document):
        await assert_refused(store.create(kind, document), StoreError)
        assert await names(store, PLACEMENT) == []


class TestGet:
    async def test_what_is_not_there_is_named(self, store, space):
        await assert_refused(store.get(PLACEMENT, Key("payments")), NotFoundError, "payments")
        await assert_refused(store.get(CONFIG_MAP, Key("settings", space)), NotFoundError, "settings")
        await assert_refused(store.get(CONFIG_MAP, Key("settings", "nowhere")), NotFoundError, "settings")

    async def test_a_name_that_nothing_can_have(self, store):
        await assert_refused(store.get(PLACEMENT, Key("Not A Name")), NotFoundError, "Not A Name")


class TestReplace:
    async def test_a_change_of_spec_is_a_new_generation_and_version(self, store):
        first = await store.create(PLACEMENT, placement("payments", 3))
        second = await store.replace(PLACEMENT, with_history(first, 4))
        assert second["metadata"]["generation"] == 2
        assert int(version(second)) > int(version(first))
        for member in ("uid", "creationTimestamp", "name"):
            assert second["metadata"][member] == first["metadata"][member]
        assert await store.get(PLACEMENT, Key("payments")) == second

    async def test_a_change_of_metadata_keeps_the_generation(self, store):
        first = await store.create(PLACEMENT, placement("payments"))
        second = await store.replace(PLACEMENT, altered(first, labels={"team": "pay"}))
        assert second["metadata"]["generation"] == 1
        assert second["metadata"]["labels"] == {"team": "pay"}
        assert version(second) != version(first)

    async def test_status_is_ignored_where_it_is_a_subresource(self, store):
        first = await store.create(PLACEMENT, placement("payments"))
        told = await store.replace_status(PLACEMENT, first | index_status("1"))
        assert await store.replace(PLACEMENT, told | index_status("2")) == told
        kept = await store.replace(PLACEMENT, {**with_history(told, 4), "status": {}})
        assert kept["status"] == told["status"]
        assert kept["metadata"]["generation"] == 2

    async def test_everything_counts_for_the_generation_where_there_is_no_subresource(self, store, space):
        first = await store.create(PLACEMENT_STATUS, status_copy("payments", space))
        second = await store.replace(PLACEMENT_STATUS, first | {"lastUpdatedTime": "2026-05-01T12:00:01Z"})
        assert second["metadata"]["generation"] == 2

    async def test_a_write_that_changes_nothing_stores_nothing(self, store, space):
        first = await store.create(PLACEMENT, placement("payments"))
        assert await store.replace(PLACEMENT, first) == first
        again = await store.replace(PLACEMENT, altered(first, labels={}, annotations={}, finalizers=[]))
        assert again == first
        plain = await store.create(CONFIG_MAP, config_map("a", space))
        assert await store.replace(CONFIG_MAP, plain) == plain

    async def test_members_left_out_are_removed(self, store, space):
        first = await store.create(PLACEMENT, placement("payments", labels={"a": "b"}, annotations={"a": "b"}))
        stored = await store.replace(PLACEMENT, altered(first, labels=None, annotations=None))
        assert not stored["metadata"].keys() & {"labels", "annotations"}
        plain = await store.create(CONFIG_MAP, config_map("a", space))
        assert "data" not in await store.replace(
            CONFIG_MAP, make(CONFIG_MAP, "a", space) | {"metadata": plain["metadata"]}
        )

    async def test_what_the_server_owns_cannot_be_changed(self, store):
        first = await store.create(PLACEMENT, placement("payments"))
        given = altered(first, generation=99, creationTimestamp="2020-01-01T00:00:00Z", unheardOf=1)
        assert await store.replace(PLACEMENT, given) == first

    async def test_an_old_version_conflicts_and_names_the_object(self, store, space):
        for kind, first in (
            (PLACEMENT, await store.create(PLACEMENT, placement("payments"))),
            (CONFIG_MAP, await store.create(CONFIG_MAP, config_map("settings", space))),
        ):
            second = await store.replace(kind, altered(first, labels={"a": "1"}))
            write = store.replace(kind, altered(first, labels={"a": "2"}))
            await assert_refused(write, ConflictError, first["metadata"]["name"])
            assert (
                await store.get(kind, Key(first["metadata"]["name"], first["metadata"].get("namespace", ""))) == second
            )

    async def test_a_stale_write_conflicts_even_if_it_changes_nothing(self, store):
        first = await store.create(PLACEMENT, placement("payments"))
        second = await store.replace(PLACEMENT, altered(first, labels={"a": "b"}))
        await assert_refused(store.replace(PLACEMENT, altered(second, resourceVersion=version(first))), ConflictError)

    async def test_a_version_that_was_never_there_conflicts(self, store):
        first = await store.create(PLACEMENT, placement("payments"))
        await assert_refused(store.replace(PLACEMENT, altered(first, resourceVersion="999999999")), ConflictError)

    async def test_another_uid_conflicts(self, store):
        first = await store.create(PLACEMENT, placement("payments"))
        await assert_refused(store.replace(PLACEMENT, altered(first, uid="other")), ConflictError, "payments")

    async def test_an_object_made_anew_is_not_written_over(self, store):
        first = await store.create(PLACEMENT, placement("payments"))
        await store.delete(PLACEMENT, Key("payments"))
        second = await store.create(PLACEMENT, placement("payments"))
        await assert_refused(store.replace(PLACEMENT, with_history(first, 4)), ConflictError)
        assert await store.get(PLACEMENT, Key("payments")) == second

    @pytest.mark.parametrize("given", [None, "", "0"])
    async def test_a_custom_object_is_written_over_a_version_only(self, store, given):
        first = await store.create(PLACEMENT, placement("payments"))
        write = store.replace(PLACEMENT, altered(with_history(first, 4), resourceVersion=given))
        await assert_refused(write, InvalidObjectError, "metadata.resourceVersion")
        assert await store.get(PLACEMENT, Key("payments")) == first

    async def test_a_config_map_is_written_over_any_version(self, store, space):
        first = await store.create(CONFIG_MAP, config_map("a", space))
        assert await store.replace(CONFIG_MAP, config_map("a", space)) == first
        second = await store.replace(CONFIG_MAP, config_map("a", space, {"a": "2"}))
        assert second["data"] == {"a": "2"}
        assert second["metadata"]["uid"] == first["metadata"]["uid"]

    async def test_an_update_cannot_delete(self, store):
        first = await store.create(PLACEMENT, placement("payments"))
        write = store.replace(PLACEMENT, altered(first, deletionTimestamp="2026-05-01T12:00:00Z"))
        await assert_refused(write, InvalidObjectError, "metadata.deletionTimestamp")

    async def test_an_object_that_is_not_there(self, store, space):
        await assert_refused(store.replace(PLACEMENT, placement("payments")), NotFoundError, "payments")
        await assert_refused(store.replace(CONFIG_MAP, config_map("settings", space)), NotFoundError, "settings")

    async def test_an_object_that_has_gone(self, store):
        first = await store.create(PLACEMENT, placement("payments"))
        await store.delete(PLACEMENT, Key("payments"))
        await assert_refused(store.replace(PLACEMENT, with_history(first, 4)), NotFoundError, "payments")

    @pytest.mark.parametrize(
        ("metadata", "field"),
        [
            pytest.param({"labels": {"a": "b c"}}, "metadata.labels", id="label"),
            pytest.param({"annotations": {"a b": ""}}, "metadata.annotations", id="annotation"),
            pytest.param({"finalizers": ["a b"]}, "metadata.finalizers", id="finalizer"),
            pytest.param(
                {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n"}]},
                "metadata.ownerReferences",
                id="owner",
            ),
        ],
    )
    async def test_metadata_that_breaks_a_rule(self, store, metadata, field):
        first = await store.create(PLACEMENT, placement("payments"))
        await assert_refused(store.replace(PLACEMENT, altered(first, **metadata)), InvalidObjectError, field)
        assert await store.get(PLACEMENT, Key("payments")) == first

    async def test_later_changes_of_the_argument_do_not_reach_the_store(self, store):
        first = await store.create(PLACEMENT, placement("payments"))
        labels = {"a": "b"}
        await store.replace(PLACEMENT, altered(first, labels=labels))
        labels["a"] = "c"
        assert (await store.get(PLACEMENT, Key("payments")))["metadata"]["labels"] == {"a": "b"}


class TestMetadata:
    async def test_the_rest_stays_as_it_is_stored(self, store):
        first = await store.create(PLACEMENT, placement("payments", labels={"a": "1"}))
        read = {**altered(first, finalizers=["example.com/ours"], labels={"b": "2"}), "spec": {}}
        second = await store.replace_metadata(PLACEMENT, read)
        assert second == await store.get(PLACEMENT, Key("payments"))
        assert second["spec"] == first["spec"]
        assert second["metadata"]["generation"] == first["metadata"]["generation"]
        assert second["metadata"]["finalizers"] == ["example.com/ours"]
        assert second["metadata"]["labels"] == {"a": "1", "b": "2"}

    async def test_annotations_are_added(self, store):
        first = await store.create(PLACEMENT, placement("payments", annotations={"a": "1", "b": "1"}))
        second = await store.replace_metadata(PLACEMENT, altered(first, annotations={"b": "2", "c": "2"}))
        assert second["metadata"]["annotations"] == {"a": "1", "b": "2", "c": "2"}

    async def test_an_annotation_of_none_is_removed(self, store):
        first = await store.create(PLACEMENT, placement("payments", annotations={"a": "1", "b": "1"}))
        second = await store.replace_metadata(PLACEMENT, altered(first, annotations={"b": None, "c": None}))
        assert second["metadata"]["annotations"] == {"a": "1"}

    async def test_nothing_new_stores_nothing(self, store):
        first = await store.create(PLACEMENT, placement("payments", finalizers=["example.com/ours"]))
        assert await store.replace_metadata(PLACEMENT, first) == first

    async def test_another_writers_finalizer_is_never_lost(self, store):
        first = await store.create(PLACEMENT, placement("payments"))
        theirs = await store.replace(PLACEMENT, altered(first, finalizers=["example.com/theirs"]))
        late = store.replace_metadata(PLACEMENT, altered(first, finalizers=["example.com/ours"]))
        await assert_refused(late, ConflictError, "payments")
        assert await store.get(PLACEMENT, Key("payments")) == theirs
        await store.replace(PLACEMENT, altered(theirs, finalizers=None))

    async def test_an_object_that_is_held_goes_with_its_last_finalizer(self, store):
        await store.create(PLACEMENT, placement("payments", finalizers=["example.com/ours"]))
        await store.delete(PLACEMENT, Key("payments"))
        held = await store.get(PLACEMENT, Key("payments"))
        await store.replace_metadata(PLACEMENT, altered(held, finalizers=[]))
        assert await is_gone(store, PLACEMENT, Key("payments"))

    async def test_an_object_made_anew_is_not_written_over(self, store):
        first = await store.create(PLACEMENT, placement("payments"))
        await store.delete(PLACEMENT, Key("payments"))
        second = await store.create(PLACEMENT, placement("payments"))
        write = store.replace_metadata(PLACEMENT, altered(first, labels={"a": "1"}))
        await assert_refused(write, ConflictError, "payments")
        assert await store.get(PLACEMENT, Key("payments")) == second

    async def test_an_object_that_has_gone(self, store):
        first = await store.create(PLACEMENT, placement("payments"))
        await store.delete(PLACEMENT, Key("payments"))
        await assert_refused(store.replace_metadata(PLACEMENT, first), NotFoundError, "payments")

    async def test_metadata_that_breaks_a_rule(self, store):
        first = await store.create(PLACEMENT, placement("payments"))
        write = store.replace_metadata(PLACEMENT, altered(first, finalizers=["a b"]))
        await assert_refused(write, InvalidObjectError, "metadata.finalizers")


class TestStatus:
    async def test_only_status_is_written(self, store):
        first = await store.create(PLACEMENT, placement("payments"))
        given = altered(with_history(first, 4), labels={"a": "b"}, annotations={"a": "b"}, finalizers=["a/b"])
        second = await store.replace_status(PLACEMENT, given | index_status("1"))
        assert second == first | index_status("1") | {"metadata": second["metadata"]}
        assert altered(second, resourceVersion=None)["metadata"] == altered(first, resourceVersion=None)["metadata"]
        assert int(version(second)) > int(version(first))

    async def test_the_same_status_stores_nothing(self, store):
        first = await store.create(PLACEMENT, placement("payments"))
        second = await store.replace_status(PLACEMENT, first | index_status("1"))
        assert await store.replace_status(PLACEMENT, second) == second
        assert await store.replace_status(PLACEMENT, altered(second, labels={"a": "b"})) == second

    async def test_status_left_out_is_removed(self, store):
        first = await store.create(PLACEMENT, placement("payments"))
        second = await store.replace_status(PLACEMENT, first | index_status("1"))
        without = {member: value for member, value in second.items() if member != "status"}
        assert "status" not in await store.replace_status(PLACEMENT, without)

    async def test_an_old_version_conflicts(self, store):
        first = await store.create(PLACEMENT, placement("payments"))
        await store.replace_status(PLACEMENT, first | index_status("1"))
        await assert_refused(store.replace_status(PLACEMENT, first | index_status("2")), ConflictError, "payments")

    async def test_another_uid_conflicts(self, store):
        first = await store.create(PLACEMENT, placement("payments"))
        write = store.replace_status(PLACEMENT, altered(first, uid="other") | index_status("1"))
        await assert_refused(write, ConflictError, "payments")

    @pytest.mark.parametrize("given", [None, "", "0"])
    async def test_a_custom_object_is_written_over_a_version_only(self, store, given):
        first = await store.create(PLACEMENT, placement("payments"))
        write = store.replace_status(PLACEMENT, altered(first, resourceVersion=given) | index_status("1"))
        await assert_refused(write, InvalidObjectError, "metadata.resourceVersion")
        assert await store.get(PLACEMENT, Key("payments")) == first

    async def test_an_object_that_has_gone(self, store):
        first = await store.create(PLACEMENT, placement("payments"))
        await store.delete(PLACEMENT, Key("payments"))
        await assert_refused(store.replace_status(PLACEMENT, first | index_status("1")), NotFoundError, "payments")

    async def test_an_object_that_is_held_takes_a_status(self, store):
        await store.create(PLACEMENT, placement("payments", finalizers=["a/b"]))
        await store.delete(PLACEMENT, Key("payments"))
        held = await store.get(PLACEMENT, Key("payments"))
        told = await store.replace_status(PLACEMENT, held | index_status("1"))
        assert told["status"] == {"observedResourceIndex": "1"}
        assert told["metadata"]["deletionTimestamp"] == held["metadata"]["deletionTimestamp"]

    async def test_later_changes_of_the_argument_do_not_reach_the_store(self, store):
        first = await store.create(PLACEMENT, placement("payments"))
        given = first | index_status("1")
        await store.replace_status(PLACEMENT, given)
        given["status"]["observedResourceIndex"] = "2"
        assert (await store.get(PLACEMENT, Key("payments")))["status"] == {"observedResourceIndex": "1"}

    async def test_status_must_be_an_object(self, store):
        first = await store.create(PLACEMENT, placement("payments"))
        await assert_refused(store.replace_status(PLACEMENT, first | {"status": "fine"}), InvalidObjectError, "status")

    async def test_a_kind_without_the_subresource(self, store, space):
        first = await store.create(PLACEMENT_STATUS, status_copy("payments", space))
        await assert_refused(store.replace_status(PLACEMENT_STATUS, first), NotFoundError)


class TestList:
    async def test_by_namespace_and_name(self, store):
        spaces = [await make_space(store, prefix) for prefix in ("b", "a", "a-b")]
        spaces.append(f"{spaces[1]}-c")  # a name that begins like another sorts after it, whatever etcd's keys do
        await store.create(NAMESPACE, make(NAMESPACE, spaces[3]))
        for one in spaces:
            for name in ("z", "x.y", "x"):
                await store.create(CONFIG_MAP, config_map(name, one, labels={"of": "order"}))
        listed = [
            (one["metadata"]["namespace"], one["metadata"]["name"])
            for one in (await store.list(CONFIG_MAP, labels={"of": "order"})).items
            if one["metadata"]["namespace"] in spaces
        ]
        assert listed == sorted((one, name) for one in spaces for name in ("x", "x.y", "z"))
        inside = (await store.list(CONFIG_MAP, spaces[1])).items
        assert [one["metadata"]["name"] for one in inside] == ["x", "x.y", "z"]
        assert {one["metadata"]["namespace"] for one in inside} == {spaces[1]}

    async def test_what_it_lists_is_what_get_returns(self, store, space):
        stored = await store.create(CONFIG_MAP, config_map("a", space))
        assert (await store.list(CONFIG_MAP, space)).items == (stored,)
        made = await store.create(PLACEMENT, placement("payments"))
        assert (await store.list(PLACEMENT)).items == (made,)

    async def test_many_are_listed_whole(self, store):
        for number in range(11):
            await store.create(MEMBER_CLUSTER, member_cluster(f"m{number:02}"))
        assert await names(store, MEMBER_CLUSTER) == [f"m{number:02}" for number in range(11)]

    async def test_nothing_is_an_empty_list(self, store):
        assert (await store.list(CONFIG_MAP, "nowhere")).items == ()
        listing = await store.list(PLACEMENT)
        assert listing.items == ()
        assert int(listing.resource_version) >= 0

    async def test_labels_must_all_be_equal(self, store):
        await store.create(PLACEMENT, placement("a", labels={"x": "1", "y": "2"}))
        await store.create(PLACEMENT, placement("b", labels={"x": "1", "e": ""}))
        await store.create(PLACEMENT, placement("c"))
        assert await names(store, PLACEMENT, x="1") == ["a", "b"]
        assert await names(store, PLACEMENT, x="1", y="2") == ["a"]
        assert await names(store, PLACEMENT, x="2") == []
        assert await names(store, PLACEMENT, e="") == ["b"]
        assert await names(store, PLACEMENT) == ["a", "b", "c"]

    async def test_labels_within_a_namespace(self, store, space):
        other = await make_space(store)
        await store.create(CONFIG_MAP, config_map("a", space, labels={"x": "1"}))
        await store.create(CONFIG_MAP, config_map("b", space))
        await store.create(CONFIG_MAP, config_map("c", other, labels={"x": "1"}))
        assert await names(store, CONFIG_MAP, space, x="1") == ["a"]

    async def test_kinds_do_not_mix(self, store):
        await store.create(PLACEMENT, placement("a"))
        assert (await store.list(BINDING)).items == ()

    async def test_its_version_covers_what_was_written_before(self, store):
        made = await store.create(PLACEMENT, placement("a"))
        listing = await store.list(PLACEMENT)
        assert int(listing.resource_version) >= int(version(made))
        await store.create(PLACEMENT, placement("b"))
        assert len(listing.items) == 1


class TestDelete:
    async def test_without_finalizers_it_goes(self, store):
        await store.create(PLACEMENT, placement("payments"))
        await store.delete(PLACEMENT, Key("payments"))
        await assert_refused(store.get(PLACEMENT, Key("payments")), NotFoundError, "payments")
        await assert_refused(store.delete(PLACEMENT, Key("payments")), NotFoundError, "payments")

    async def test_finalizers_hold_it(self, store):
        first = await store.create(PLACEMENT, placement("payments", finalizers=["a/b", "a/c"]))
        await store.delete(PLACEMENT, Key("payments"))
        held = await store.get(PLACEMENT, Key("payments"))
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", held["metadata"]["deletionTimestamp"])
        assert held["metadata"]["deletionGracePeriodSeconds"] == 0
        assert held["metadata"]["generation"] == first["metadata"]["generation"] + 1

        held = await store.replace(PLACEMENT, altered(held, finalizers=["a/c"]))
        assert "deletionTimestamp" in held["metadata"]
        await store.replace(PLACEMENT, altered(held, finalizers=[]))
        assert await is_gone(store, PLACEMENT, Key("payments"))

    async def test_a_second_deletion_changes_nothing(self, store, space):
        for kind, document in (
            (PLACEMENT, placement("payments", finalizers=["a/b"])),
            (WORK, work("held", space, finalizers=["a/b"])),
        ):
            await store.create(kind, document)
            key = Key(document["metadata"]["name"], document["metadata"].get("namespace", ""))
            await store.delete(kind, key)
            held = await store.get(kind, key)
            await store.delete(kind, key)
            assert await store.get(kind, key) == held
            await store.replace(kind, altered(held, finalizers=None))

    async def test_what_is_held_can_still_be_written(self, store):
        await store.create(PLACEMENT, placement("payments", finalizers=["a/b"]))
        await store.delete(PLACEMENT, Key("payments"))
        held = await store.get(PLACEMENT, Key("payments"))
        written = await store.replace(PLACEMENT, with_history(held, 4))
        assert written["spec"]["revisionHistoryLimit"] == 4
        assert written["metadata"]["deletionTimestamp"] == held["metadata"]["deletionTimestamp"]

    async def test_the_mark_stays_when_a_writer_leaves_it_out(self, store):
        await store.create(PLACEMENT, placement("payments", finalizers=["a/b"]))
        await store.delete(PLACEMENT, Key("payments"))
        held = await store.get(PLACEMENT, Key("payments"))
        unmarked = altered(held, deletionTimestamp=None, deletionGracePeriodSeconds=None)
        assert await store.replace(PLACEMENT, unmarked) == held

    async def test_no_finalizer_can_be_added_while_it_goes(self, store):
        await store.create(PLACEMENT, placement("payments", finalizers=["a/b"]))
        await store.delete(PLACEMENT, Key("payments"))
        held = await store.get(PLACEMENT, Key("payments"))
        write = store.replace(PLACEMENT, altered(held, finalizers=["a/b", "a/c"]))
        await assert_refused(write, InvalidObjectError, "metadata.finalizers", "a/c")

    async def test_its_name_is_taken_until_it_is_gone(self, store):
        await store.create(PLACEMENT, placement("payments", finalizers=["a/b"]))
        await store.delete(PLACEMENT, Key("payments"))
        await assert_refused(store.create(PLACEMENT, placement("payments")), AlreadyExistsError, "payments")

    async def test_preconditions(self, store, space):
        for kind, document in ((PLACEMENT, placement("payments")), (CONFIG_MAP, config_map("settings", space))):
            first = await store.create(kind, document)
            name, uid = first["metadata"]["name"], first["metadata"]["uid"]
            key = Key(name, first["metadata"].get("namespace", ""))
            second = await store.replace(kind, altered(first, labels={"a": "b"}))
            await assert_refused(store.delete(kind, key, uid="other"), ConflictError, name)
            await assert_refused(store.delete(kind, key, resource_version=version(first)), ConflictError, name)
            stale = store.delete(kind, key, uid=uid, resource_version=version(first))
            await assert_refused(stale, ConflictError, name)
            await store.delete(kind, key, uid=uid, resource_version=version(second))
            assert await is_gone(store, kind, key)

    async def test_preconditions_count_for_what_is_held(self, store):
        first = await store.create(PLACEMENT, placement("payments", finalizers=["a/b"]))
        await assert_refused(store.delete(PLACEMENT, Key("payments"), uid="other"), ConflictError)
        await store.delete(PLACEMENT, Key("payments"), uid=first["metadata"]["uid"])
        assert await is_marked(store, PLACEMENT, Key("payments"))

    async def test_what_is_not_there_is_not_found_whatever_the_preconditions(self, store):
        first = await store.create(PLACEMENT, placement("payments"))
        await store.delete(PLACEMENT, Key("payments"))
        gone = store.delete(PLACEMENT, Key("payments"), uid=first["metadata"]["uid"], resource_version=version(first))
        await assert_refused(gone, NotFoundError, "payments")

    async def test_the_same_name_again_is_another_object(self, store):
        first = await store.create(PLACEMENT, placement("payments"))
        await store.delete(PLACEMENT, Key("payments"))
        second = await store.create(PLACEMENT, placement("payments"))
        assert second["metadata"]["uid"] != first["metadata"]["uid"]
        uid = first["metadata"]["uid"]
        await assert_refused(store.delete(PLACEMENT, Key("payments"), uid=uid), ConflictError, "payments")


class TestOwners:
    async def test_dependents_go_with_their_last_owner(self, store):
        one = await store.create(PLACEMENT, placement("one"))
        two = await store.create(PLACEMENT, placement("two"))
        await store.create(BINDING, binding("both", ownerReferences=owned_by(one, two)))
        await store.create(BINDING, binding("single", ownerReferences=owned_by(one)))
        await store.delete(PLACEMENT, Key("one"))

        async def only_one_owner() -> bool:
            left = (await store.list(BINDING)).items
            return [document["metadata"].get("ownerReferences") for document in left] == [owned_by(two)]

        await eventually(only_one_owner)
        assert await names(store, BINDING) == ["both"]
        await store.delete(PLACEMENT, Key("two"))
        await eventually(lambda: is_gone(store, BINDING, Key("both")))

    async def test_collection_goes_down_the_line(self, store, space):
        owner = await store.create(PLACEMENT, placement("owner"))
        middle = await store.create(BINDING, binding("middle", ownerReferences=owned_by(owner)))
        await store.create(WORK, work("leaf", space, ownerReferences=owned_by(middle)))
        await store.delete(PLACEMENT, Key("owner"))
        await eventually(lambda: is_gone(store, WORK, Key("leaf", space)))
        assert await is_gone(store, BINDING, Key("middle"))

    async def test_dependents_with_finalizers_are_marked(self, store):
        owner = await store.create(PLACEMENT, placement("owner"))
        await store.create(BINDING, binding("held", ownerReferences=owned_by(owner), finalizers=["a/b"]))
        await store.delete(PLACEMENT, Key("owner"))
        await eventually(lambda: is_marked(store, BINDING, Key("held")))
        held = await store.get(BINDING, Key("held"))
        await store.replace(BINDING, altered(held, finalizers=[]))
        assert await is_gone(store, BINDING, Key("held"))

    async def test_dependents_stay_while_the_owner_is_held(self, store):
        owner = await store.create(PLACEMENT, placement("owner", finalizers=["a/b"]))
        await store.create(BINDING, binding("dependent", ownerReferences=owned_by(owner)))
        await store.delete(PLACEMENT, Key("owner"))
        await self.somebody_has_collected(store)
        assert await names(store, BINDING) == ["dependent"]
        held = await store.get(PLACEMENT, Key("owner"))
        await store.replace(PLACEMENT, altered(held, finalizers=None))
        await eventually(lambda: is_gone(store, BINDING, Key("dependent")))

    async def test_an_owner_that_is_gone_already(self, store):
        owner = await store.create(PLACEMENT, placement("owner"))
        await store.delete(PLACEMENT, Key("owner"))
        await store.create(PLACEMENT, placement("owner"))
        async with watching(store, BINDING, await version_of(store, BINDING)) as watch:
            await store.create(BINDING, binding("late", ownerReferences=owned_by(owner)))
            assert await watch.seen(2) == [("ADDED", "late"), ("DELETED", "late")]

    async def test_an_object_that_loses_its_owners_stays(self, store):
        owner = await store.create(PLACEMENT, placement("owner"))
        owned = await store.create(BINDING, binding("free", ownerReferences=owned_by(owner)))
        await store.replace(BINDING, altered(owned, ownerReferences=None))
        await store.delete(PLACEMENT, Key("owner"))
        await self.somebody_has_collected(store)
        assert await names(store, BINDING) == ["free"]

    async def test_owners_of_each_other_go_together(self, store):
        one = await store.create(BINDING, binding("one"))
        two = await store.create(BINDING, binding("two", ownerReferences=owned_by(one)))
        await store.replace(BINDING, altered(one, ownerReferences=owned_by(two)))
        await store.delete(BINDING, Key("one"))
        await eventually(lambda: is_gone(store, BINDING, Key("two")))

    async def test_what_has_no_owner_is_never_collected(self, store):
        await store.create(PLACEMENT, placement("owner"))
        await store.create(BINDING, binding("free"))
        await store.delete(PLACEMENT, Key("owner"))
        await self.somebody_has_collected(store)
        assert await names(store, BINDING) == ["free"]

    @staticmethod
    async def somebody_has_collected(store: Store) -> None:
        """Wait until what was deleted later than anything before has taken its dependent along."""
        owner = await store.create(MEMBER_CLUSTER, member_cluster("tracer"))
        await store.create(BINDING, binding("tracer", ownerReferences=owned_by(owner)))
        await store.delete(MEMBER_CLUSTER, Key("tracer"))
        await eventually(lambda: is_gone(store, BINDING, Key("tracer")))


class TestNamespaces:
    async def test_a_new_one_is_active(self, store, space):
        assert (await store.get(NAMESPACE, Key(space)))["status"] == {"phase": "Active"}

    async def test_its_content_goes_with_it_and_nothing_else(self, store, space):
        other = await make_space(store, space)  # its name begins like the other one's
        for one in (space, other):
            await store.create(CONFIG_MAP, config_map("a", one))
            await store.create(WORK, work("a", one))
        await store.delete(NAMESPACE, Key(space))
        await eventually(lambda: is_gone(store, NAMESPACE, Key(space)))
        assert await names(store, CONFIG_MAP, space) == await names(store, WORK, space) == []
        assert await names(store, CONFIG_MAP, other) == await names(store, WORK, other) == ["a"]
        await store.create(NAMESPACE, make(NAMESPACE, space))

    async def test_it_stays_while_content_or_its_own_finalizers_hold_it(self, store, space):
        """Both at once: an API server takes five seconds for each."""
        await asyncio.gather(self.end_one_held_by_content(store, space), self.end_one_held_by_finalizers(store))

    @staticmethod
    async def end_one_held_by_content(store: Store, space: str) -> None:
        held_work = await store.create(WORK, work("held", space, finalizers=["a/b"]))
        await store.delete(NAMESPACE, Key(space))
        namespace = await store.get(NAMESPACE, Key(space))
        assert "deletionTimestamp" in namespace["metadata"]
        assert namespace["status"]["phase"] == "Terminating"
        await assert_refused(store.create(CONFIG_MAP, config_map("a", space)), ForbiddenError, space, "being")
        await eventually(lambda: is_marked(store, WORK, Key("held", space)))
        assert not await is_gone(store, NAMESPACE, Key(space))
        held = await store.get(WORK, Key("held", space))
        assert held["metadata"]["uid"] == held_work["metadata"]["uid"]
        await store.replace(WORK, altered(held, finalizers=[]))
        await eventually(lambda: is_gone(store, NAMESPACE, Key(space)))

    @staticmethod
    async def end_one_held_by_finalizers(store: Store) -> None:
        name = f"shop-{uuid.uuid4().hex[:8]}"
        await store.create(NAMESPACE, make(NAMESPACE, name, finalizers=["a/b"]))
        await store.create(CONFIG_MAP, config_map("a", name))
        await store.delete(NAMESPACE, Key(name))
        await eventually(lambda: is_gone(store, CONFIG_MAP, Key("a", name)))

        async def let_go() -> bool:
            held = await store.get(NAMESPACE, Key(name))
            assert held["metadata"]["finalizers"] == ["a/b"]
            try:
                await store.replace(NAMESPACE, altered(held, finalizers=None))
            except ConflictError:
                return False
            return True

        await eventually(let_go)
        await eventually(lambda: is_gone(store, NAMESPACE, Key(name)))


class TestWatch:
    async def test_every_change_in_order_with_growing_versions(self, store):
        async with watching(store, PLACEMENT, await version_of(store, PLACEMENT)) as watch:
            first = await store.create(PLACEMENT, placement("a"))
            await store.create(BINDING, binding("other-kind"))
            second = await store.replace(PLACEMENT, with_history(first, 4))
            third = await store.replace_status(PLACEMENT, second | index_status("1"))
            other = await store.create(PLACEMENT, placement("b"))
            await store.delete(PLACEMENT, Key("a"))
            events = await watch.take(5)
        assert seen(events) == [
            ("ADDED", "a"),
            ("MODIFIED", "a"),
            ("MODIFIED", "a"),
            ("ADDED", "b"),
            ("DELETED", "a"),
        ]
        assert [event.document for event in events[:4]] == [first, second, third, other]
        versions = [int(event.resource_version) for event in events]
        assert versions == sorted(set(versions))
        assert [version(event.document) for event in events] == [str(one) for one in versions]

    async def test_a_deletion_carries_the_last_state(self, store):
        last = await store.create(PLACEMENT, placement("a", 7))
        async with watching(store, PLACEMENT, version(last)) as watch:
            await store.delete(PLACEMENT, Key("a"))
            (event,) = await watch.take(1)
        assert event.type is EventType.DELETED
        assert altered(event.document, resourceVersion=version(last)) == last
        assert int(event.resource_version) > int(version(last))

    async def test_resumes_after_any_version(self, store):
        since = await version_of(store, PLACEMENT)
        for name in "abcd":
            await store.create(PLACEMENT, placement(name))
        async with watching(store, PLACEMENT, since) as watch:
            events = await watch.take(4)
        assert seen(events) == [("ADDED", name) for name in "abcd"]
        for skipped in range(3):
            async with watching(store, PLACEMENT, events[skipped].resource_version) as watch:
                assert await watch.seen(3 - skipped) == seen(events[skipped + 1 :])

    async def test_resumes_at_the_version_of_another_kind(self, store):
        await store.create(PLACEMENT, placement("before"))
        other = await store.create(BINDING, binding("other-kind"))
        await store.create(PLACEMENT, placement("after"))
        async with watching(store, PLACEMENT, version(other)) as watch:
            assert await watch.seen(1) == [("ADDED", "after")]

    async def test_past_and_present_join_without_a_gap(self, store):
        since = await version_of(store, PLACEMENT)
        await store.create(PLACEMENT, placement("before"))
        async with watching(store, PLACEMENT, since) as watch:
            assert await watch.seen(1) == [("ADDED", "before")]
            waiting = asyncio.create_task(watch.seen(1))
            await asyncio.sleep(0)
            await store.create(PLACEMENT, placement("after"))
            assert await waiting == [("ADDED", "after")]

    async def test_nothing_is_told_of_what_was_listed(self, store):
        await store.create(PLACEMENT, placement("listed"))
        async with watching(store, PLACEMENT, await version_of(store, PLACEMENT)) as watch:
            await store.create(PLACEMENT, placement("new"))
            assert await watch.seen(1) == [("ADDED", "new")]

    async def test_one_namespace(self, store, space):
        other = await make_space(store, space)
        async with watching(store, WORK, await version_of(store, WORK), space) as watch:
            await store.create(WORK, work("elsewhere", other))
            await store.create(WORK, work("here", space))
            await store.delete(WORK, Key("elsewhere", other))
            await store.delete(WORK, Key("here", space))
            assert await watch.seen(2) == [("ADDED", "here"), ("DELETED", "here")]

    async def test_built_in_kinds_carry_their_type(self, store, space):
        async with watching(store, CONFIG_MAP, await version_of(store, CONFIG_MAP), space) as watch:
            made = await store.create(CONFIG_MAP, config_map("a", space))
            (event,) = await watch.take(1)
        assert event.document == made
        assert (event.document["apiVersion"], event.document["kind"]) == ("v1", "ConfigMap")

    async def test_a_write_that_changes_nothing_is_not_seen(self, store):
        first = await store.create(PLACEMENT, placement("a"))
        async with watching(store, PLACEMENT, version(first)) as watch:
            await store.replace(PLACEMENT, first)
            await store.replace_status(PLACEMENT, first)
            await store.create(PLACEMENT, placement("b"))
            assert await watch.seen(1) == [("ADDED", "b")]

    async def test_marking_is_a_change_and_going_a_deletion(self, store):
        first = await store.create(PLACEMENT, placement("a", finalizers=["a/b"]))
        async with watching(store, PLACEMENT, version(first)) as watch:
            await store.delete(PLACEMENT, Key("a"))
            (marked,) = await watch.take(1)
            assert marked.type is EventType.MODIFIED
            assert "deletionTimestamp" in marked.document["metadata"]
            await store.replace(PLACEMENT, altered(marked.document, finalizers=None))
            (gone,) = await watch.take(1)
        assert gone.type is EventType.DELETED
        assert int(gone.resource_version) > int(marked.resource_version)

    async def test_what_is_collected_is_seen_too(self, store):
        owner = await store.create(PLACEMENT, placement("owner"))
        created = await store.create(BINDING, binding("b", ownerReferences=owned_by(owner)))
        async with watching(store, BINDING, version(created)) as watch:
            await store.delete(PLACEMENT, Key("owner"))
            assert await watch.seen(1) == [("DELETED", "b")]

    async def test_several_watches_see_the_same(self, store):
        since = await version_of(store, PLACEMENT)
        await store.create(PLACEMENT, placement("a"))
        for _ in range(3):
            async with watching(store, PLACEMENT, since) as watch:
                assert await watch.seen(1) == [("ADDED", "a")]

    async def test_a_version_too_old_asks_for_a_new_list(self, store, forgotten):
        with pytest.raises(ExpiredError):
            async with watching(store, PLACEMENT, forgotten) as watch:
                await watch.take(1)
        async with watching(store, PLACEMENT, await version_of(store, PLACEMENT)) as watch:
            await store.create(PLACEMENT, placement("new"))
            assert await watch.seen(1) == [("ADDED", "new")]


class TestTogether:
    async def test_concurrent_writers_lose_no_update(self, store):
        await store.create(MEMBER_CLUSTER, member_cluster("counter", 60))

        async def increment(times: int) -> int:
            conflicts = 0
            while times:
                current = await store.get(MEMBER_CLUSTER, Key("counter"))
                await asyncio.sleep(0)
                period = current["spec"]["heartbeatPeriodSeconds"] + 1
                changed = {**current, "spec": {**current["spec"], "heartbeatPeriodSeconds": period}}
                try:
                    await store.replace(MEMBER_CLUSTER, changed)
                    times -= 1
                except ConflictError:
                    conflicts += 1
            return conflicts

        conflicts = await asyncio.gather(*(increment(4) for _ in range(6)))
        stored = await store.get(MEMBER_CLUSTER, Key("counter"))
        assert stored["spec"]["heartbeatPeriodSeconds"] == 60 + 24
        assert stored["metadata"]["generation"] == 1 + 24
        assert sum(conflicts) > 0

    async def test_of_concurrent_makers_of_one_name_one_succeeds(self, store):
        made = await asyncio.gather(
            *(store.create(PLACEMENT, placement("payments", 3 + number)) for number in range(5)), return_exceptions=True
        )
        stored = [one for one in made if not isinstance(one, BaseException)]
        assert len(stored) == 1
        assert sum(isinstance(one, AlreadyExistsError) for one in made) == 4
        assert await store.get(PLACEMENT, Key("payments")) == stored[0]

    async def test_status_and_spec_writers_conflict(self, store):
        first = await store.create(PLACEMENT, placement("payments"))
        await store.replace_status(PLACEMENT, first | index_status("1"))
        await assert_refused(store.replace(PLACEMENT, with_history(first, 4)), ConflictError, "payments")
