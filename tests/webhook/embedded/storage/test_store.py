"""What the embedded store does beyond the contract of all stores."""

import asyncio
import gc
from datetime import UTC, datetime, timedelta

import pytest

from scorer.api.kinds import (
    BINDING,
    CUSTOM_RESOURCE_DEFINITION,
    KINDS,
    NAMESPACE,
    PLACEMENT,
    PLACEMENT_STATUS,
    WORK,
    Kind,
)
from scorer.api.meta import JsonObject
from tests.waiting import PATIENCE_SECONDS
from webhook.embedded.storage.kinds import kind_of_definition
from webhook.embedded.storage.store import EmbeddedStore
from webhook.embedded.storage.watcher import LONGEST_BACKLOG
from webhook.kube.ports import ConflictError, ExpiredError, InvalidObjectError, Key, NotFoundError, StoreError, key_of

CONFIG_MAP = KINDS["", "ConfigMap"]
EVENT = KINDS["", "Event"]
NEW_EVENT = KINDS["events.k8s.io", "Event"]


@pytest.fixture
def open_store():
    stores = []

    def open_one(**options) -> EmbeddedStore:
        stores.append(EmbeddedStore.open(None, **options))
        return stores[-1]

    yield open_one
    for store in stores:
        store.close()


def make_placement(name: str, labels: dict[str, str] | None = None, **spec: object) -> JsonObject:
    metadata = {"name": name, **({"labels": labels} if labels else {})}
    return {"apiVersion": PLACEMENT.api_version, "kind": PLACEMENT.kind, "metadata": metadata, "spec": spec}


async def write_over(store: EmbeddedStore, document: JsonObject) -> JsonObject:
    """Replace a placement, whatever version it is at."""
    version = (await store.get(PLACEMENT, key_of(document)))["metadata"]["resourceVersion"]
    return await store.replace(PLACEMENT, document | {"metadata": document["metadata"] | {"resourceVersion": version}})


def make_namespace(name: str) -> JsonObject:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def make_definition(**changes: object) -> JsonObject:
    spec = {
        "group": "sea.io",
        "scope": "Namespaced",
        "names": {"kind": "Boat", "plural": "boats", "shortNames": ["bo"]},
        "versions": [
            {"name": "v1alpha1", "served": True, "storage": False},
            {"name": "v0", "served": False, "storage": False},
            {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}},
        ],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "boats.sea.io"},
        "spec": spec | changes,
    }


class TestWatch:
    async def test_what_is_too_old_is_expired(self, open_store):
        store = open_store(retention=8)
        since = (await store.create(PLACEMENT, make_placement("a")))["metadata"]["resourceVersion"]
        for turn in range(200):
            await write_over(store, make_placement("a", n=turn))
        with pytest.raises(ExpiredError, match="older than the oldest kept"):
            store.watch(PLACEMENT, since)
        assert len((await store.list(PLACEMENT)).items) == 1

    async def test_at_least_the_promised_versions_are_kept(self, open_store):
        store = open_store(retention=50)
        await store.create(PLACEMENT, make_placement("a"))
        for turn in range(500):
            await write_over(store, make_placement("a", n=turn))
            oldest = max(0, int(store.resource_version) - 50)
            assert store.watch(PLACEMENT, str(oldest))

    async def test_a_slow_reader_loses_nothing_that_is_kept(self, open_store):
        store = open_store()
        await store.create(PLACEMENT, make_placement("a"))
        watch = store.watch(PLACEMENT, store.resource_version)
        count = LONGEST_BACKLOG * 3
        for turn in range(count):
            await write_over(store, make_placement("a", n=turn))
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert [(await anext(watch)).document["spec"]["n"] for _ in range(count)] == list(range(count))

    async def test_a_reader_that_is_far_too_slow_is_told(self, open_store):
        store = open_store(retention=8)
        await store.create(PLACEMENT, make_placement("a"))
        watch = store.watch(PLACEMENT, store.resource_version)
        for turn in range(LONGEST_BACKLOG * 2):
            await write_over(store, make_placement("a", n=turn))
        with pytest.raises(ExpiredError):
            await anext(watch)

    async def test_closing_the_store_ends_it(self, open_store):
        store = open_store()
        watch = store.watch(PLACEMENT, "0")
        waiting = asyncio.create_task(anext(watch))
        await asyncio.sleep(0)
        store.close()
        with pytest.raises(StoreError, match="closed"):
            await waiting

    async def test_a_forgotten_one_costs_nothing(self, open_store):
        store = open_store()
        watch = store.watch(PLACEMENT, "0")
        assert sum(map(len, store._watchers.values())) == 1
        del watch
        gc.collect()
        assert sum(map(len, store._watchers.values())) == 0

    async def test_a_selection_is_entered_and_left(self, open_store):
        store = open_store()
        watch = store.watch(PLACEMENT, "0", selects=lambda labels: labels.get("tier") == "web")
        await self.change_labels(store)
        assert await self.seen(watch) == [
            ("ADDED", 1),
            ("MODIFIED", 2),
            ("DELETED", 3),
            ("ADDED", 5),
            ("DELETED", None),
        ]

    async def test_a_selection_resumed_from_the_journal_is_the_same(self, open_store):
        store = open_store()
        await self.change_labels(store)
        watch = store.watch(PLACEMENT, "0", selects=lambda labels: labels.get("tier") == "web")
        assert await self.seen(watch) == [
            ("ADDED", 1),
            ("MODIFIED", 2),
            ("DELETED", 3),
            ("ADDED", 5),
            ("DELETED", None),
        ]

    @staticmethod
    async def change_labels(store: EmbeddedStore) -> None:
        await store.create(PLACEMENT, make_placement("other", {"tier": "db"}))
        await store.create(PLACEMENT, make_placement("a", {"tier": "web"}, n=1))
        await write_over(store, make_placement("a", {"tier": "web", "x": "y"}, n=2))
        await write_over(store, make_placement("a", {"tier": "db"}, n=3))
        await write_over(store, make_placement("a", n=4))
        await write_over(store, make_placement("a", {"tier": "web"}, n=5))
        await store.delete(PLACEMENT, Key("a"))

    @staticmethod
    async def seen(watch) -> list[tuple[str, int | None]]:
        async with asyncio.timeout(PATIENCE_SECONDS):
            events = [await anext(watch) for _ in range(5)]
        return [
            (event.type.value, event.document["spec"]["n"] if position < 4 else None)
            for position, event in enumerate(events)
        ]

    async def test_silence_is_filled_with_bookmarks_that_can_be_resumed_from(self, open_store):
        store = open_store(retention=8)
        watch = store.watch(PLACEMENT, "0", bookmark_every=timedelta(milliseconds=1))
        await store.create(
            BINDING, {"apiVersion": BINDING.api_version, "kind": BINDING.kind, "metadata": {"name": "b"}}
        )
        event = await anext(watch)
        assert (event.type, event.resource_version) == ("BOOKMARK", store.resource_version)
        again = store.watch(PLACEMENT, event.resource_version)
        await store.create(PLACEMENT, make_placement("a"))
        assert (await anext(again)).type == "ADDED"


class TestOwnWays:
    """Where it differs from an API server, as `webhook.kube.ports.Store` says, and the times it writes."""

    NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
    STAMP = "2026-05-01T12:00:00Z"

    async def test_times_are_of_the_clock_it_was_given(self, open_store):
        store = open_store(now=lambda: self.NOW)
        await store.create(PLACEMENT, make_placement("a") | {"metadata": {"name": "a", "finalizers": ["x/y"]}})
        await store.delete(PLACEMENT, Key("a"))
        metadata = (await store.get(PLACEMENT, Key("a")))["metadata"]
        assert (metadata["creationTimestamp"], metadata["deletionTimestamp"]) == (self.STAMP, self.STAMP)

    async def test_no_schema_is_applied(self, open_store):
        stored = await open_store().create(PLACEMENT, make_placement("a", unheard=None, of=1))
        assert stored["spec"] == {"unheard": None, "of": 1}

    async def test_every_kind_has_a_generation(self, open_store):
        store = open_store()
        stored = await store.create(NAMESPACE, make_namespace("shop"))
        assert stored["metadata"]["generation"] == 1

    async def test_any_served_version_is_stored_as_the_preferred_one(self, open_store):
        given = make_placement("a") | {"apiVersion": "placement.kubernetes-fleet.io/v1"}
        assert (await open_store().create(PLACEMENT, given))["apiVersion"] == PLACEMENT.api_version

    async def test_status_is_content_where_it_is_no_subresource(self, open_store):
        store = open_store()
        await store.create(NAMESPACE, make_namespace("shop"))
        head = {"apiVersion": PLACEMENT_STATUS.api_version, "kind": PLACEMENT_STATUS.kind}
        metadata = {"name": "a", "namespace": "shop"}
        stored = await store.create(PLACEMENT_STATUS, {**head, "metadata": metadata, "status": {"a": 1}})
        assert stored["status"] == {"a": 1}
        changed = await store.replace(PLACEMENT_STATUS, stored | {"status": {"a": 2}})
        assert changed["metadata"]["generation"] == 2

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            pytest.param({"a": 1}, {"a": True}, id="one-is-not-true"),
            pytest.param({"a": 1}, {"a": 1.0}, id="integer-is-not-float"),
            pytest.param({"a": 0}, {"a": False}, id="zero-is-not-false"),
        ],
    )
    async def test_values_that_python_calls_equal_are_a_change(self, open_store, before, after):
        store = open_store()
        first = await store.create(PLACEMENT, make_placement("a", **before))
        second = await store.replace(PLACEMENT, first | {"spec": after})
        assert second["metadata"]["generation"] == 2

    async def test_a_conflict_names_both_versions(self, open_store):
        store = open_store()
        first = await store.create(PLACEMENT, make_placement("a", n=1))
        second = await store.replace(PLACEMENT, first | {"spec": {"n": 2}})
        with pytest.raises(ConflictError) as caught:
            await store.replace(PLACEMENT, first | {"spec": {"n": 3}})
        for document in (first, second):
            assert repr(document["metadata"]["resourceVersion"]).replace("'", '"') in str(caught.value)

    async def test_what_is_not_there_is_never_made_by_a_replace(self, open_store):
        store = open_store()
        await store.create(NAMESPACE, make_namespace("shop"))
        lease = KINDS["coordination.k8s.io", "Lease"]
        metadata = {"name": "leader", "namespace": "shop"}
        document = {"apiVersion": lease.api_version, "kind": lease.kind, "metadata": metadata}
        with pytest.raises(NotFoundError):
            await store.replace(lease, document)
        await store.create(lease, document)
        assert (await store.replace(lease, document | {"spec": {}}))["spec"] == {}

    async def test_what_follows_from_a_deletion_is_done_when_it_returns(self, open_store):
        store = open_store()
        await store.create(NAMESPACE, make_namespace("shop"))
        owner = await store.create(PLACEMENT, make_placement("owner"))
        reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": "owner"}
        head = {"name": "a", "namespace": "shop", "ownerReferences": [reference | {"uid": owner["metadata"]["uid"]}]}
        await store.create(WORK, {"apiVersion": WORK.api_version, "kind": WORK.kind, "metadata": head})
        await store.delete(PLACEMENT, Key("owner"))
        assert (await store.list(WORK)).items == ()
        await store.delete(NAMESPACE, Key("shop"))
        assert (await store.list(NAMESPACE)).items == ()

    async def test_the_last_write_returns_what_goes_at_the_version_of_its_end(self, open_store):
        store = open_store()
        await store.create(PLACEMENT, make_placement("a") | {"metadata": {"name": "a", "finalizers": ["x/y"]}})
        await store.delete(PLACEMENT, Key("a"))
        gone = await write_over(store, make_placement("a"))
        assert gone["metadata"]["resourceVersion"] == store.resource_version

    @pytest.mark.parametrize("since", ["999999999", "", "abc", "-1", "1.5", "\u0661", "9" * 30])
    async def test_a_version_that_is_not_of_this_store_is_expired(self, open_store, since):
        with pytest.raises(ExpiredError):
            await anext(open_store().watch(PLACEMENT, since))


class TestMetadata:
    @pytest.mark.parametrize(
        ("kind", "metadata", "field"),
        [
            pytest.param(PLACEMENT, {"name": "A"}, 'metadata.name: Invalid value: "A"', id="name"),
            pytest.param(PLACEMENT, {"name": ""}, "metadata.name: Required value", id="no-name"),
            pytest.param(PLACEMENT, {"name": 5}, "metadata.name: Invalid value: 5", id="name-type"),
            pytest.param(NAMESPACE, {"name": "a.b"}, 'metadata.name: Invalid value: "a.b"', id="namespace-label"),
            pytest.param(PLACEMENT, {"namespace": "shop"}, "metadata.namespace: Invalid value", id="scope"),
            pytest.param(CONFIG_MAP, {}, "metadata.namespace: Required value", id="no-namespace"),
            pytest.param(PLACEMENT, {"labels": {"a": "b c"}}, 'metadata.labels.a: Invalid value: "b c"', id="label"),
            pytest.param(PLACEMENT, {"labels": {"a": 1}}, "metadata.labels.a: Invalid value: 1", id="label-type"),
            pytest.param(PLACEMENT, {"labels": {"a b": ""}}, 'metadata.labels: Invalid value: "a b"', id="label-key"),
            pytest.param(PLACEMENT, {"labels": ["a"]}, "metadata.labels: Invalid value", id="labels-type"),
            pytest.param(PLACEMENT, {"annotations": {"a": 1}}, "metadata.annotations.a", id="annotation-type"),
            pytest.param(
                PLACEMENT, {"annotations": {"a": "x" * 262145}}, "metadata.annotations: Too long", id="annotations"
            ),
            pytest.param(PLACEMENT, {"finalizers": ["a b"]}, "metadata.finalizers[0]", id="finalizer"),
            pytest.param(PLACEMENT, {"finalizers": "a"}, "metadata.finalizers", id="finalizers-type"),
            pytest.param(
                PLACEMENT,
                {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n"}]},
                "metadata.ownerReferences[0].uid: Required value",
                id="owner-without-uid",
            ),
            pytest.param(
                PLACEMENT,
                {
                    "ownerReferences": [
                        {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": uid, "controller": True}
                        for uid in ("1", "2")
                    ]
                },
                "metadata.ownerReferences[1].controller: Duplicate value",
                id="two-controllers",
            ),
            pytest.param(PLACEMENT, {"resourceVersion": "3"}, "metadata.resourceVersion", id="resource-version"),
        ],
    )
    async def test_what_breaks_a_rule_is_named_to_the_member(
        self, open_store, kind: Kind, metadata: JsonObject, field: str
    ):
        store = open_store()
        given = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "a"} | metadata}
        with pytest.raises(InvalidObjectError) as caught:
            await store.create(kind, given)
        assert field in str(caught.value)
        assert (await store.list(kind)).items == ()

    @pytest.mark.parametrize(
        ("members", "field"),
        [
            pytest.param({"kind": "Placement"}, 'kind: Invalid value: "Placement"', id="kind"),
            pytest.param({"apiVersion": "v1"}, 'apiVersion: Invalid value: "v1"', id="api-version"),
            pytest.param({"metadata": None}, "metadata: Required value", id="no-metadata"),
            pytest.param({"metadata": "a"}, "metadata: Invalid value", id="metadata-type"),
        ],
    )
    async def test_what_breaks_a_rule_of_the_head_is_named(self, open_store, members, field):
        with pytest.raises(InvalidObjectError) as caught:
            await open_store().create(PLACEMENT, make_placement("a") | members)
        assert field in str(caught.value)

    async def test_an_update_without_a_name(self, open_store):
        with pytest.raises(InvalidObjectError, match=r"metadata\.name"):
            await open_store().replace(PLACEMENT, {"metadata": {"name": 5}})


class TestEvents:
    async def test_only_those_written_last_are_kept(self, open_store):
        store = open_store(most_events=5)
        await store.create(NAMESPACE, make_namespace("shop"))
        for number in range(8):
            kind = EVENT if number % 2 else NEW_EVENT
            metadata = {"name": f"e-{number}", "namespace": "shop"}
            await store.create(kind, {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata})
            if number == 4:
                oldest = await store.get(NEW_EVENT, Key("e-0", "shop"))
                await store.replace(NEW_EVENT, oldest | {"note": "again"})
        names = [
            document["metadata"]["name"] for kind in (EVENT, NEW_EVENT) for document in (await store.list(kind)).items
        ]
        assert sorted(names) == ["e-0", "e-4", "e-5", "e-6", "e-7"]


class TestDryRun:
    async def test_everything_is_checked_and_nothing_stored(self, open_store):
        store = open_store()
        first = await store.create(PLACEMENT, make_placement("a", n=1))
        version = store.resource_version
        assert (await store.create(PLACEMENT, make_placement("b"), dry_run=True))["metadata"]["generation"] == 1
        changed = await store.replace(PLACEMENT, first | {"spec": {"n": 2}}, dry_run=True)
        assert changed["metadata"]["generation"] == 2
        status = {"metadata": first["metadata"], "status": {"x": 1}}
        assert (await store.replace_status(PLACEMENT, status, dry_run=True))["status"] == {"x": 1}
        await store.delete(PLACEMENT, Key("a"), dry_run=True)
        with pytest.raises(NotFoundError):
            await store.delete(PLACEMENT, Key("b"), dry_run=True)
        assert (await store.list(PLACEMENT)).items == (first,)
        assert store.resource_version == version


class TestDefinitions:
    async def test_a_definition_makes_its_kind_known(self, open_store):
        store = open_store()
        assert store.kinds.find("sea.io", "Boat") is None
        await store.create(CUSTOM_RESOURCE_DEFINITION, make_definition())
        boat = store.kinds.find("sea.io", "Boat")
        assert boat == store.kinds.find_plural("sea.io", "boats")
        assert boat == store.kinds.custom["sea.io", "Boat"]
        assert boat in list(store.kinds)
        assert boat.versions == ("v1", "v1alpha1")
        assert (boat.namespaced, boat.has_status, boat.short_names) == (True, True, ("bo",))

    async def test_its_objects_go_with_it(self, open_store):
        store = open_store()
        await store.create(NAMESPACE, make_namespace("harbour"))
        await store.create(CUSTOM_RESOURCE_DEFINITION, make_definition())
        boat = store.kinds.find("sea.io", "Boat")
        for name, finalizers in (("a", []), ("b", ["x/y"])):
            metadata = {"name": name, "namespace": "harbour", "finalizers": finalizers}
            await store.create(boat, {"apiVersion": "sea.io/v1alpha1", "kind": "Boat", "metadata": metadata})
        await store.delete(CUSTOM_RESOURCE_DEFINITION, Key("boats.sea.io"))
        (held,) = (await store.list(boat)).items
        assert held["metadata"]["name"] == "b"
        assert "deletionTimestamp" in (await store.get(CUSTOM_RESOURCE_DEFINITION, Key("boats.sea.io")))["metadata"]
        await store.replace(boat, held | {"metadata": held["metadata"] | {"finalizers": []}})
        assert (await store.list(CUSTOM_RESOURCE_DEFINITION)).items == ()
        assert store.kinds.find("sea.io", "Boat") is None

    async def test_a_changed_definition_changes_the_kind(self, open_store):
        store = open_store()
        first = await store.create(CUSTOM_RESOURCE_DEFINITION, make_definition())
        spec = make_definition(versions=[{"name": "v2", "served": True, "storage": True}])["spec"]
        await store.replace(CUSTOM_RESOURCE_DEFINITION, first | {"spec": spec})
        assert store.kinds.find("sea.io", "Boat").versions == ("v2",)

    async def test_what_the_table_knows_cannot_be_redefined(self, open_store):
        store = open_store()
        names = {"kind": "ConfigMap", "plural": "configmaps"}
        definition = make_definition(group="", names=names)
        definition["metadata"] = {"name": "configmaps"}
        await store.create(CUSTOM_RESOURCE_DEFINITION, definition)
        assert store.kinds.find("", "ConfigMap") is CONFIG_MAP

    async def test_a_definition_under_a_wrong_name_defines_nothing(self, open_store):
        store = open_store()
        await store.create(CUSTOM_RESOURCE_DEFINITION, make_definition() | {"metadata": {"name": "ships.sea.io"}})
        assert store.kinds.find("sea.io", "Boat") is None

    @pytest.mark.parametrize(
        "changes",
        [
            pytest.param({"names": None}, id="no-names"),
            pytest.param({"versions": []}, id="no-versions"),
            pytest.param({"versions": [{"name": "v1", "served": False}]}, id="none-served"),
            pytest.param({"versions": "v1"}, id="versions-text"),
            pytest.param({"group": 5}, id="group-number"),
        ],
    )
    def test_a_broken_definition_defines_nothing(self, changes):
        assert kind_of_definition(make_definition(**changes)) is None


async def test_a_closed_store_says_so(open_store):
    store = open_store()
    store.close()
    store.close()
    for call in (
        store.get(PLACEMENT, Key("a")),
        store.list(PLACEMENT),
        store.create(PLACEMENT, make_placement("a")),
        store.delete(PLACEMENT, Key("a")),
    ):
        with pytest.raises(StoreError, match="closed"):
            await call


async def test_owners_in_another_namespace_do_not_count(open_store):
    store = open_store()
    owners = []
    for name in ("here", "there"):
        await store.create(NAMESPACE, make_namespace(name))
        document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner", "namespace": name}}
        stored = await store.create(CONFIG_MAP, document)
        owners.append({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": stored["metadata"]["uid"]})
    for name, owner in zip(("child-of-here", "child-of-there"), owners, strict=True):
        metadata = {"name": name, "namespace": "here", "ownerReferences": [owner]}
        await store.create(CONFIG_MAP, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    names = [document["metadata"]["name"] for document in (await store.list(CONFIG_MAP, "here")).items]
    assert names == ["child-of-here", "owner"]
