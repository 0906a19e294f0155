"""What every store promises: one suite, run against each back end."""

import asyncio
from collections.abc import Awaitable
from datetime import UTC, datetime
from typing import Any

import pytest

from scorer.api.kinds import (
    BINDING,
    KINDS,
    MEMBER_CLUSTER,
    NAMESPACE,
    PLACEMENT,
    PLACEMENT_STATUS,
    WORK,
    Kind,
)
from webhook.embedded.store import EmbeddedStore
from webhook.kube.ports import (
    AlreadyExistsError,
    ConflictError,
    ExpiredError,
    InvalidObjectError,
    Key,
    NotFoundError,
    Store,
    StoreError,
    WatchEvent,
)

CONFIG_MAP = KINDS["", "ConfigMap"]
EVENT = KINDS["", "Event"]
NOW = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
STAMP = "2026-05-01T12:00:00Z"


@pytest.fixture(params=["embedded"])
def store(request):
    opened = EmbeddedStore.open(None, now=lambda: NOW)
    yield opened
    opened.close()


def make(kind: Kind, name: str, namespace: str = "", **members: Any) -> dict[str, Any]:
    """Build an object; ``meta_…`` members go into metadata."""
    metadata: dict[str, Any] = {"name": name} | ({"namespace": namespace} if namespace else {})
    for member in [member for member in members if member.startswith("meta_")]:
        metadata[member.removeprefix("meta_")] = members.pop(member)
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **members}


async def make_namespace(store: Store, name: str = "shop") -> dict[str, Any]:
    return await store.create(NAMESPACE, make(NAMESPACE, name))


def owned_by(*owners: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"apiVersion": owner["apiVersion"], "kind": owner["kind"]}
        | {"name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
        for owner in owners
    ]


def changed(document: dict[str, Any], **members: Any) -> dict[str, Any]:
    """Copy an object with other members; ``meta_…`` members go into metadata."""
    metadata = {name.removeprefix("meta_"): value for name, value in members.items() if name.startswith("meta_")}
    rest = {name: value for name, value in members.items() if not name.startswith("meta_")}
    return {**document, "metadata": {**document["metadata"], **metadata}, **rest}


async def take(watch, count: int) -> list[WatchEvent]:
    async with asyncio.timeout(10):
        return [await anext(watch) for _ in range(count)]


def seen(events: list[WatchEvent]) -> list[tuple[str, str]]:
    return [(event.type.value, event.document["metadata"]["name"]) for event in events]


async def assert_refused(write: Awaitable[Any], error: type[StoreError], *words: str) -> None:
    with pytest.raises(error) as caught:
        await write
    for word in words:
        assert word in str(caught.value)


class TestCreate:
    async def test_fills_in_what_the_server_owns(self, store):
        stored = await store.create(PLACEMENT, make(PLACEMENT, "payments", spec={"revisionHistoryLimit": 3}))
        metadata = stored["metadata"]
        assert len(metadata["uid"]) == 36
        assert metadata["generation"] == 1
        assert metadata["creationTimestamp"] == STAMP
        assert int(metadata["resourceVersion"]) > 0
        assert stored["spec"] == {"revisionHistoryLimit": 3}
        assert await store.get(PLACEMENT, Key("payments")) == stored

    async def test_what_the_client_says_about_it_is_ignored(self, store):
        given = make(PLACEMENT, "payments", meta_uid="mine", meta_generation=7, meta_creationTimestamp=None)
        given["metadata"] |= {"managedFields": [{"manager": "kubectl"}], "selfLink": "/x", "unheardOf": 1}
        metadata = (await store.create(PLACEMENT, given))["metadata"]
        assert metadata["uid"] != "mine"
        assert metadata["generation"] == 1
        assert not metadata.keys() & {"managedFields", "selfLink", "unheardOf"}

    async def test_status_is_left_out_where_it_is_a_subresource(self, store):
        stored = await store.create(PLACEMENT, make(PLACEMENT, "payments", status={"conditions": []}))
        assert "status" not in stored

    async def test_status_is_kept_where_it_is_none(self, store):
        await make_namespace(store)
        stored = await store.create(PLACEMENT_STATUS, make(PLACEMENT_STATUS, "payments", "shop", status={"a": 1}))
        assert stored["status"] == {"a": 1}

    async def test_later_changes_of_the_argument_do_not_reach_the_store(self, store):
        given = make(PLACEMENT, "payments", spec={"policy": {"clusterNames": ["a"]}})
        await store.create(PLACEMENT, given)
        given["spec"]["policy"]["clusterNames"].append("b")
        assert (await store.get(PLACEMENT, Key("payments")))["spec"]["policy"]["clusterNames"] == ["a"]

    async def test_any_served_version_is_stored_as_the_preferred_one(self, store):
        given = make(PLACEMENT, "payments") | {"apiVersion": "placement.kubernetes-fleet.io/v1"}
        assert (await store.create(PLACEMENT, given))["apiVersion"] == PLACEMENT.api_version

    async def test_a_taken_name(self, store):
        await store.create(PLACEMENT, make(PLACEMENT, "payments"))
        await assert_refused(store.create(PLACEMENT, make(PLACEMENT, "payments")), AlreadyExistsError, "payments")

    async def test_generate_name(self, store):
        names = set()
        for _ in range(20):
            given = make(PLACEMENT, "")
            given["metadata"] = {"generateName": "run-"}
            names.add((await store.create(PLACEMENT, given))["metadata"]["name"])
        assert len(names) == 20
        assert all(name.startswith("run-") and len(name) == 9 for name in names)

    async def test_a_long_generate_name_is_cut_to_63_characters(self, store):
        given = make(PLACEMENT, "")
        given["metadata"] = {"generateName": "a" * 80}
        assert len((await store.create(PLACEMENT, given))["metadata"]["name"]) == 63

    async def test_the_namespace_must_exist(self, store):
        await assert_refused(store.create(CONFIG_MAP, make(CONFIG_MAP, "a", "shop")), NotFoundError, "Namespace shop")

    async def test_text_that_is_no_unicode_is_mended(self, store):
        await make_namespace(store)
        stored = await store.create(CONFIG_MAP, make(CONFIG_MAP, "a", "shop", data={"k": "\ud800"}))
        assert set(stored["data"]["k"]) == {"\ufffd"}

    @pytest.mark.parametrize(
        ("kind", "members", "field"),
        [
            pytest.param(PLACEMENT, {"meta_name": "Payments"}, 'metadata.name: Invalid value: "Payments"', id="name"),
            pytest.param(PLACEMENT, {"meta_name": ""}, "metadata.name: Required value", id="no-name"),
            pytest.param(PLACEMENT, {"meta_name": 5}, "metadata.name: Invalid value: 5", id="name-type"),
            pytest.param(PLACEMENT, {"meta_name": "a/b"}, "metadata.name", id="slash"),
            pytest.param(NAMESPACE, {"meta_name": "a.b"}, 'metadata.name: Invalid value: "a.b"', id="namespace-label"),
            pytest.param(PLACEMENT, {"meta_namespace": "shop"}, "metadata.namespace: Invalid value", id="scope"),
            pytest.param(CONFIG_MAP, {}, "metadata.namespace: Required value", id="no-namespace"),
            pytest.param(
                PLACEMENT, {"meta_labels": {"a": "b c"}}, 'metadata.labels.a: Invalid value: "b c"', id="label"
            ),
            pytest.param(PLACEMENT, {"meta_labels": {"a": 1}}, "metadata.labels.a: Invalid value: 1", id="label-type"),
            pytest.param(
                PLACEMENT, {"meta_labels": {"a b": ""}}, 'metadata.labels: Invalid value: "a b"', id="label-key"
            ),
            pytest.param(PLACEMENT, {"meta_labels": ["a"]}, "metadata.labels: Invalid value", id="labels-type"),
            pytest.param(PLACEMENT, {"meta_annotations": {"a": 1}}, "metadata.annotations.a", id="annotation-type"),
            pytest.param(
                PLACEMENT, {"meta_annotations": {"a": "x" * 262145}}, "metadata.annotations: Too long", id="annotations"
            ),
            pytest.param(PLACEMENT, {"meta_finalizers": ["a b"]}, "metadata.finalizers[0]", id="finalizer"),
            pytest.param(PLACEMENT, {"meta_finalizers": "a"}, "metadata.finalizers", id="finalizers-type"),
            pytest.param(
                PLACEMENT,
                {"meta_ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n"}]},
                "metadata.ownerReferences[0].uid: Required value",
                id="owner-without-uid",
            ),
            pytest.param(
                PLACEMENT,
                {
                    "meta_ownerReferences": [
                        {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": uid, "controller": True}
                        for uid in ("1", "2")
                    ]
                },
                "metadata.ownerReferences[1].controller: Duplicate value",
                id="two-controllers",
            ),
            pytest.param(PLACEMENT, {"meta_resourceVersion": "3"}, "metadata.resourceVersion", id="resource-version"),
            pytest.param(PLACEMENT, {"kind": "Placement"}, 'kind: Invalid value: "Placement"', id="kind"),
            pytest.param(PLACEMENT, {"apiVersion": "v1"}, 'apiVersion: Invalid value: "v1"', id="api-version"),
            pytest.param(PLACEMENT, {"metadata": None}, "metadata: Required value", id="no-metadata"),
            pytest.param(PLACEMENT, {"metadata": "a"}, "metadata: Invalid value", id="metadata-type"),
        ],
    )
    async def test_metadata_that_breaks_a_rule(self, store, kind, members, field):
        given = make(kind, "payments")
        given = given | members if "metadata" in members else changed(given, **members)
        await assert_refused(store.create(kind, given), InvalidObjectError, field)
        assert (await store.list(kind)).items == ()

    async def test_every_mistake_is_named(self, store):
        given = make(PLACEMENT, "A", meta_labels={"a": "b c"}, meta_finalizers=["a b"])
        await assert_refused(store.create(PLACEMENT, given), InvalidObjectError, "name", "labels.a", "finalizers[0]")

    async def test_role_names_are_path_segments(self, store):
        role = KINDS["rbac.authorization.k8s.io", "ClusterRole"]
        await store.create(role, make(role, "system:node"))
        await assert_refused(store.create(role, make(role, "a/b")), InvalidObjectError, "metadata.name")


class TestReplace:
    async def test_a_change_of_spec_is_a_new_generation_and_version(self, store):
        first = await store.create(PLACEMENT, make(PLACEMENT, "payments", spec={"a": 1}))
        second = await store.replace(PLACEMENT, changed(first, spec={"a": 2}))
        assert second["metadata"]["generation"] == 2
        assert int(second["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])
        assert second["metadata"]["uid"] == first["metadata"]["uid"]
        assert second["metadata"]["creationTimestamp"] == first["metadata"]["creationTimestamp"]

    async def test_a_change_of_metadata_keeps_the_generation(self, store):
        first = await store.create(PLACEMENT, make(PLACEMENT, "payments", spec={"a": 1}))
        second = await store.replace(PLACEMENT, changed(first, meta_labels={"team": "pay"}))
        assert second["metadata"]["generation"] == 1
        assert second["metadata"]["labels"] == {"team": "pay"}

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            pytest.param({"a": 1}, {"a": True}, id="one-is-not-true"),
            pytest.param({"a": 1}, {"a": 1.0}, id="integer-is-not-float"),
            pytest.param({"a": 0}, {"a": False}, id="zero-is-not-false"),
        ],
    )
    async def test_values_that_python_calls_equal_are_a_change(self, store, before, after):
        first = await store.create(PLACEMENT, make(PLACEMENT, "payments", spec=before))
        second = await store.replace(PLACEMENT, changed(first, spec=after))
        assert second["metadata"]["generation"] == 2

    async def test_status_is_ignored_where_it_is_a_subresource(self, store):
        first = await store.create(PLACEMENT, make(PLACEMENT, "payments"))
        with_status = await store.replace_status(PLACEMENT, changed(first, status={"a": 1}))
        assert await store.replace(PLACEMENT, changed(with_status, status={"a": 2})) == with_status

    async def test_status_counts_for_the_generation_where_it_is_none(self, store):
        await make_namespace(store)
        first = await store.create(PLACEMENT_STATUS, make(PLACEMENT_STATUS, "payments", "shop"))
        second = await store.replace(PLACEMENT_STATUS, changed(first, status={"a": 1}))
        assert second["metadata"]["generation"] == 2

    async def test_a_write_that_changes_nothing_stores_nothing(self, store):
        first = await store.create(PLACEMENT, make(PLACEMENT, "payments", meta_labels={}, spec={"a": [1, {"b": None}]}))
        again = await store.replace(PLACEMENT, make(PLACEMENT, "payments", spec={"a": [1, {"b": None}]}))
        assert again == first
        assert (await store.list(PLACEMENT)).resource_version == first["metadata"]["resourceVersion"]

    async def test_members_left_out_are_removed(self, store):
        await store.create(PLACEMENT, make(PLACEMENT, "payments", meta_annotations={"a": "b"}, spec={"a": 1}))
        stored = await store.replace(PLACEMENT, make(PLACEMENT, "payments"))
        assert "spec" not in stored
        assert "annotations" not in stored["metadata"]

    async def test_an_old_version_conflicts_and_names_both(self, store):
        first = await store.create(PLACEMENT, make(PLACEMENT, "payments", spec={"a": 1}))
        second = await store.replace(PLACEMENT, changed(first, spec={"a": 2}))
        versions = [document["metadata"]["resourceVersion"] for document in (first, second)]
        write = store.replace(PLACEMENT, changed(first, spec={"a": 3}))
        await assert_refused(write, ConflictError, "payments", *versions)
        assert await store.get(PLACEMENT, Key("payments")) == second

    async def test_a_stale_write_conflicts_even_if_it_changes_nothing(self, store):
        first = await store.create(PLACEMENT, make(PLACEMENT, "payments", spec={"a": 1}))
        await store.replace(PLACEMENT, changed(first, meta_labels={"a": "b"}))
        await assert_refused(store.replace(PLACEMENT, first), ConflictError)

    async def test_another_uid_conflicts(self, store):
        first = await store.create(PLACEMENT, make(PLACEMENT, "payments"))
        await assert_refused(store.replace(PLACEMENT, changed(first, meta_uid="other")), ConflictError, "uid")

    async def test_the_creation_time_is_immutable(self, store):
        first = await store.create(PLACEMENT, make(PLACEMENT, "payments"))
        write = store.replace(PLACEMENT, changed(first, meta_creationTimestamp="2020-01-01T00:00:00Z"))
        await assert_refused(write, InvalidObjectError, "metadata.creationTimestamp", "2020-01-01T00:00:00Z")

    async def test_an_update_cannot_delete(self, store):
        first = await store.create(PLACEMENT, make(PLACEMENT, "payments"))
        write = store.replace(PLACEMENT, changed(first, meta_deletionTimestamp=STAMP))
        await assert_refused(write, InvalidObjectError, "metadata.deletionTimestamp")

    async def test_an_object_that_is_not_there(self, store):
        await assert_refused(store.replace(PLACEMENT, make(PLACEMENT, "payments")), NotFoundError, "payments")

    async def test_an_object_without_a_name(self, store):
        await assert_refused(store.replace(PLACEMENT, {"metadata": {"name": 5}}), InvalidObjectError, "metadata.name")


class TestStatus:
    async def test_only_status_is_written(self, store):
        first = await store.create(PLACEMENT, make(PLACEMENT, "payments", spec={"a": 1}))
        given = changed(first, spec={"a": 2}, meta_labels={"a": "b"}, status={"ready": True})
        second = await store.replace_status(PLACEMENT, given)
        assert second["status"] == {"ready": True}
        assert second["spec"] == {"a": 1}
        assert "labels" not in second["metadata"]
        assert second["metadata"]["generation"] == 1
        assert second["metadata"]["resourceVersion"] != first["metadata"]["resourceVersion"]

    async def test_the_same_status_stores_nothing(self, store):
        first = await store.create(PLACEMENT, make(PLACEMENT, "payments"))
        second = await store.replace_status(PLACEMENT, changed(first, status={"a": 1}))
        assert await store.replace_status(PLACEMENT, changed(second, status={"a": 1})) == second

    async def test_status_left_out_is_removed(self, store):
        first = await store.create(PLACEMENT, make(PLACEMENT, "payments"))
        await store.replace_status(PLACEMENT, changed(make(PLACEMENT, "payments"), status={"a": 1}))
        assert "status" not in await store.replace_status(PLACEMENT, make(PLACEMENT, "payments"))
        assert first["metadata"]["generation"] == 1

    async def test_an_old_version_conflicts(self, store):
        first = await store.create(PLACEMENT, make(PLACEMENT, "payments"))
        await store.replace_status(PLACEMENT, changed(first, status={"a": 1}))
        await assert_refused(
            store.replace_status(PLACEMENT, changed(first, status={"a": 2})), ConflictError, "payments"
        )

    async def test_later_changes_of_the_argument_do_not_reach_the_store(self, store):
        first = await store.create(PLACEMENT, make(PLACEMENT, "payments"))
        status = {"conditions": [{"type": "A"}]}
        await store.replace_status(PLACEMENT, changed(first, status=status))
        status["conditions"].clear()
        assert (await store.get(PLACEMENT, Key("payments")))["status"] == {"conditions": [{"type": "A"}]}

    async def test_status_must_be_an_object(self, store):
        first = await store.create(PLACEMENT, make(PLACEMENT, "payments"))
        write = store.replace_status(PLACEMENT, changed(first, status="fine"))
        await assert_refused(write, InvalidObjectError, 'status: Invalid value: "fine"')

    async def test_a_kind_without_the_subresource(self, store):
        await make_namespace(store)
        first = await store.create(PLACEMENT_STATUS, make(PLACEMENT_STATUS, "payments", "shop"))
        await assert_refused(store.replace_status(PLACEMENT_STATUS, first), NotFoundError, "subresource")


class TestList:
    async def test_by_namespace_and_name(self, store):
        for namespace in ("b", "a", "a-b"):
            await make_namespace(store, namespace)
            for name in ("z", "x.y", "x"):
                await store.create(CONFIG_MAP, make(CONFIG_MAP, name, namespace))
        listed = [
            (one["metadata"]["namespace"], one["metadata"]["name"]) for one in (await store.list(CONFIG_MAP)).items
        ]
        assert listed == sorted(listed)
        assert len(listed) == 9
        in_a = (await store.list(CONFIG_MAP, "a")).items
        assert [one["metadata"]["name"] for one in in_a] == ["x", "x.y", "z"]
        assert {one["metadata"]["namespace"] for one in in_a} == {"a"}
        assert (await store.list(CONFIG_MAP, "c")).items == ()

    async def test_labels_must_all_be_equal(self, store):
        await store.create(PLACEMENT, make(PLACEMENT, "a", meta_labels={"x": "1", "y": "2"}))
        await store.create(PLACEMENT, make(PLACEMENT, "b", meta_labels={"x": "1"}))
        await store.create(PLACEMENT, make(PLACEMENT, "c"))

        async def names(**labels: str) -> list[str]:
            return [one["metadata"]["name"] for one in (await store.list(PLACEMENT, labels=labels)).items]

        assert await names(x="1") == ["a", "b"]
        assert await names(x="1", y="2") == ["a"]
        assert await names(x="2") == []
        assert await names() == ["a", "b", "c"]

    async def test_kinds_do_not_mix(self, store):
        await store.create(PLACEMENT, make(PLACEMENT, "a"))
        assert (await store.list(BINDING)).items == ()

    async def test_a_list_is_a_moment(self, store):
        await store.create(PLACEMENT, make(PLACEMENT, "a"))
        listing = await store.list(PLACEMENT)
        await store.create(PLACEMENT, make(PLACEMENT, "b"))
        assert len(listing.items) == 1


class TestDelete:
    async def test_without_finalizers_it_goes(self, store):
        await store.create(PLACEMENT, make(PLACEMENT, "payments"))
        await store.delete(PLACEMENT, Key("payments"))
        await assert_refused(store.get(PLACEMENT, Key("payments")), NotFoundError, "payments")
        await assert_refused(store.delete(PLACEMENT, Key("payments")), NotFoundError, "payments")

    async def test_finalizers_hold_it(self, store):
        first = await store.create(PLACEMENT, make(PLACEMENT, "payments", meta_finalizers=["a/b", "a/c"]))
        await store.delete(PLACEMENT, Key("payments"))
        held = await store.get(PLACEMENT, Key("payments"))
        assert held["metadata"]["deletionTimestamp"] == STAMP
        assert held["metadata"]["deletionGracePeriodSeconds"] == 0
        assert held["metadata"]["generation"] == first["metadata"]["generation"] + 1
        await store.delete(PLACEMENT, Key("payments"))
        assert await store.get(PLACEMENT, Key("payments")) == held

        held = await store.replace(PLACEMENT, changed(held, meta_finalizers=["a/c"]))
        assert "deletionTimestamp" in held["metadata"]
        await store.replace(PLACEMENT, changed(held, meta_finalizers=[]))
        await assert_refused(store.get(PLACEMENT, Key("payments")), NotFoundError)

    async def test_no_finalizer_can_be_added_while_it_goes(self, store):
        await store.create(PLACEMENT, make(PLACEMENT, "payments", meta_finalizers=["a/b"]))
        await store.delete(PLACEMENT, Key("payments"))
        held = await store.get(PLACEMENT, Key("payments"))
        write = store.replace(PLACEMENT, changed(held, meta_finalizers=["a/b", "a/c"]))
        await assert_refused(write, InvalidObjectError, "metadata.finalizers: Forbidden", "a/c")

    async def test_preconditions(self, store):
        first = await store.create(PLACEMENT, make(PLACEMENT, "payments"))
        await assert_refused(store.delete(PLACEMENT, Key("payments"), uid="other"), ConflictError, "payments")
        await assert_refused(store.delete(PLACEMENT, Key("payments"), resource_version="0"), ConflictError, "payments")
        metadata = first["metadata"]
        await store.delete(
            PLACEMENT, Key("payments"), uid=metadata["uid"], resource_version=metadata["resourceVersion"]
        )

    async def test_the_same_name_again_is_another_object(self, store):
        first = await store.create(PLACEMENT, make(PLACEMENT, "payments"))
        await store.delete(PLACEMENT, Key("payments"))
        second = await store.create(PLACEMENT, make(PLACEMENT, "payments"))
        assert second["metadata"]["uid"] != first["metadata"]["uid"]


class TestOwners:
    async def test_dependents_go_with_their_last_owner(self, store):
        one = await store.create(PLACEMENT, make(PLACEMENT, "one"))
        two = await store.create(PLACEMENT, make(PLACEMENT, "two"))
        await store.create(BINDING, make(BINDING, "both", meta_ownerReferences=owned_by(one, two)))
        await store.create(BINDING, make(BINDING, "single", meta_ownerReferences=owned_by(one)))
        await store.delete(PLACEMENT, Key("one"))
        (left,) = (await store.list(BINDING)).items
        assert left["metadata"]["name"] == "both"
        assert left["metadata"]["ownerReferences"] == owned_by(two)
        await store.delete(PLACEMENT, Key("two"))
        assert (await store.list(BINDING)).items == ()

    async def test_collection_goes_down_the_line(self, store):
        await make_namespace(store)
        owner = await store.create(PLACEMENT, make(PLACEMENT, "owner"))
        middle = await store.create(BINDING, make(BINDING, "middle", meta_ownerReferences=owned_by(owner)))
        await store.create(WORK, make(WORK, "leaf", "shop", meta_ownerReferences=owned_by(middle)))
        await store.delete(PLACEMENT, Key("owner"))
        assert (await store.list(BINDING)).items == (await store.list(WORK)).items == ()

    async def test_dependents_with_finalizers_are_marked(self, store):
        owner = await store.create(PLACEMENT, make(PLACEMENT, "owner"))
        given = make(BINDING, "held", meta_ownerReferences=owned_by(owner), meta_finalizers=["a/b"])
        await store.create(BINDING, given)
        await store.delete(PLACEMENT, Key("owner"))
        held = await store.get(BINDING, Key("held"))
        assert held["metadata"]["deletionTimestamp"] == STAMP
        await store.replace(BINDING, changed(held, meta_finalizers=[]))
        assert (await store.list(BINDING)).items == ()

    async def test_dependents_stay_while_the_owner_is_held(self, store):
        owner = await store.create(PLACEMENT, make(PLACEMENT, "owner", meta_finalizers=["a/b"]))
        await store.create(BINDING, make(BINDING, "dependent", meta_ownerReferences=owned_by(owner)))
        await store.delete(PLACEMENT, Key("owner"))
        assert len((await store.list(BINDING)).items) == 1
        await store.replace(PLACEMENT, make(PLACEMENT, "owner"))
        assert (await store.list(BINDING)).items == ()

    async def test_an_owner_that_is_gone_already(self, store):
        owner = await store.create(PLACEMENT, make(PLACEMENT, "owner"))
        await store.delete(PLACEMENT, Key("owner"))
        await store.create(PLACEMENT, make(PLACEMENT, "owner"))
        watch = store.watch(BINDING, (await store.list(BINDING)).resource_version)
        await store.create(BINDING, make(BINDING, "late", meta_ownerReferences=owned_by(owner)))
        assert seen(await take(watch, 2)) == [("ADDED", "late"), ("DELETED", "late")]

    async def test_an_object_that_loses_its_owners_stays(self, store):
        owner = await store.create(PLACEMENT, make(PLACEMENT, "owner"))
        await store.create(BINDING, make(BINDING, "free", meta_ownerReferences=owned_by(owner)))
        await store.replace(BINDING, make(BINDING, "free"))
        await store.delete(PLACEMENT, Key("owner"))
        assert len((await store.list(BINDING)).items) == 1

    async def test_owners_of_each_other_go_together(self, store):
        one = await store.create(BINDING, make(BINDING, "one"))
        two = await store.create(BINDING, make(BINDING, "two", meta_ownerReferences=owned_by(one)))
        await store.replace(BINDING, changed(one, meta_ownerReferences=owned_by(two)))
        await store.delete(BINDING, Key("one"))
        assert (await store.list(BINDING)).items == ()


class TestNamespaces:
    async def test_an_empty_one_goes(self, store):
        assert (await make_namespace(store))["status"] == {"phase": "Active"}
        await store.delete(NAMESPACE, Key("shop"))
        assert (await store.list(NAMESPACE)).items == ()

    async def test_its_content_goes_with_it(self, store):
        await make_namespace(store)
        await make_namespace(store, "shop2")
        for namespace in ("shop", "shop2"):
            await store.create(CONFIG_MAP, make(CONFIG_MAP, "a", namespace))
            await store.create(WORK, make(WORK, "a", namespace))
        await store.delete(NAMESPACE, Key("shop"))
        assert [one["metadata"]["name"] for one in (await store.list(NAMESPACE)).items] == ["shop2"]
        assert [one["metadata"]["namespace"] for one in (await store.list(CONFIG_MAP)).items] == ["shop2"]
        assert [one["metadata"]["namespace"] for one in (await store.list(WORK)).items] == ["shop2"]

    async def test_it_stays_until_its_content_is_gone(self, store):
        await make_namespace(store)
        await store.create(WORK, make(WORK, "held", "shop", meta_finalizers=["a/b"]))
        await store.delete(NAMESPACE, Key("shop"))
        namespace = await store.get(NAMESPACE, Key("shop"))
        assert namespace["metadata"]["deletionTimestamp"] == STAMP
        assert namespace["status"]["phase"] == "Terminating"
        held = await store.get(WORK, Key("held", "shop"))
        assert "deletionTimestamp" in held["metadata"]
        await assert_refused(
            store.create(CONFIG_MAP, make(CONFIG_MAP, "a", "shop")), StoreError, "shop", "being deleted"
        )
        await store.replace(WORK, changed(held, meta_finalizers=[]))
        await assert_refused(store.get(NAMESPACE, Key("shop")), NotFoundError)

    async def test_its_own_finalizers_hold_it_when_it_is_empty(self, store):
        await store.create(NAMESPACE, make(NAMESPACE, "shop", meta_finalizers=["a/b"]))
        await store.create(CONFIG_MAP, make(CONFIG_MAP, "a", "shop"))
        await store.delete(NAMESPACE, Key("shop"))
        assert (await store.list(CONFIG_MAP)).items == ()
        await store.replace(NAMESPACE, make(NAMESPACE, "shop"))
        assert (await store.list(NAMESPACE)).items == ()


class TestWatch:
    async def test_every_change_in_order_with_growing_versions(self, store):
        since = (await store.list(PLACEMENT)).resource_version
        watch = store.watch(PLACEMENT, since)
        first = await store.create(PLACEMENT, make(PLACEMENT, "a"))
        await store.create(BINDING, make(BINDING, "other-kind"))
        await store.replace(PLACEMENT, changed(first, spec={"a": 1}))
        await store.create(PLACEMENT, make(PLACEMENT, "b"))
        await store.delete(PLACEMENT, Key("a"))
        events = await take(watch, 4)
        assert seen(events) == [("ADDED", "a"), ("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")]
        versions = [int(event.resource_version) for event in events]
        assert versions == sorted(set(versions))
        assert [event.document["metadata"]["resourceVersion"] for event in events] == [str(one) for one in versions]
        assert events[3].document["spec"] == {"a": 1}

    async def test_resumes_after_any_version(self, store):
        since = (await store.list(PLACEMENT)).resource_version
        for name in "abcd":
            await store.create(PLACEMENT, make(PLACEMENT, name))
        events = await take(store.watch(PLACEMENT, since), 4)
        for skipped in range(4):
            later = await take(store.watch(PLACEMENT, events[skipped].resource_version), 3 - skipped)
            assert seen(later) == seen(events[skipped + 1 :])

    async def test_past_and_present_join_without_a_gap(self, store):
        since = (await store.list(PLACEMENT)).resource_version
        await store.create(PLACEMENT, make(PLACEMENT, "before"))
        watch = store.watch(PLACEMENT, since)
        assert seen(await take(watch, 1)) == [("ADDED", "before")]
        waiting = asyncio.create_task(anext(watch))
        await asyncio.sleep(0)
        await store.create(PLACEMENT, make(PLACEMENT, "after"))
        assert (await waiting).document["metadata"]["name"] == "after"

    async def test_a_write_that_changes_nothing_is_not_seen(self, store):
        first = await store.create(PLACEMENT, make(PLACEMENT, "a", spec={"a": 1}))
        watch = store.watch(PLACEMENT, first["metadata"]["resourceVersion"])
        await store.replace(PLACEMENT, first)
        await store.create(PLACEMENT, make(PLACEMENT, "b"))
        assert seen(await take(watch, 1)) == [("ADDED", "b")]

    async def test_marking_is_a_change_and_going_a_deletion(self, store):
        first = await store.create(PLACEMENT, make(PLACEMENT, "a", meta_finalizers=["a/b"]))
        watch = store.watch(PLACEMENT, first["metadata"]["resourceVersion"])
        await store.delete(PLACEMENT, Key("a"))
        await store.replace(PLACEMENT, make(PLACEMENT, "a"))
        assert seen(await take(watch, 2)) == [("MODIFIED", "a"), ("DELETED", "a")]

    async def test_what_is_collected_is_seen_too(self, store):
        owner = await store.create(PLACEMENT, make(PLACEMENT, "owner"))
        created = await store.create(BINDING, make(BINDING, "b", meta_ownerReferences=owned_by(owner)))
        watch = store.watch(BINDING, created["metadata"]["resourceVersion"])
        await store.delete(PLACEMENT, Key("owner"))
        assert seen(await take(watch, 1)) == [("DELETED", "b")]

    async def test_several_watches_see_the_same(self, store):
        since = (await store.list(PLACEMENT)).resource_version
        watches = [store.watch(PLACEMENT, since) for _ in range(3)]
        await store.create(PLACEMENT, make(PLACEMENT, "a"))
        assert [seen(await take(watch, 1)) for watch in watches] == [[("ADDED", "a")]] * 3

    async def test_a_version_of_the_future(self, store):
        async def first_event() -> None:
            await anext(store.watch(PLACEMENT, "999999999"))

        await assert_refused(first_event(), ExpiredError, "999999999")

    @pytest.mark.parametrize("since", ["", "abc", "-1", "1.5", "\u0661", "9" * 30])
    async def test_a_version_of_another_world(self, store, since):
        async def first_event() -> None:
            await anext(store.watch(PLACEMENT, since))

        await assert_refused(first_event(), ExpiredError)


class TestTogether:
    async def test_concurrent_writers_lose_no_update(self, store):
        await store.create(MEMBER_CLUSTER, make(MEMBER_CLUSTER, "counter", spec={"count": 0}))

        async def increment(times: int) -> int:
            conflicts = 0
            while times:
                current = await store.get(MEMBER_CLUSTER, Key("counter"))
                await asyncio.sleep(0)
                try:
                    await store.replace(MEMBER_CLUSTER, changed(current, spec={"count": current["spec"]["count"] + 1}))
                    times -= 1
                except ConflictError:
                    conflicts += 1
            return conflicts

        conflicts = await asyncio.gather(*(increment(5) for _ in range(10)))
        assert (await store.get(MEMBER_CLUSTER, Key("counter")))["spec"]["count"] == 50
        assert sum(conflicts) > 0
