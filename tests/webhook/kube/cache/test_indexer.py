"""What is known of the objects of a kind, and who is told of what, with events out of order."""

import pytest

from scorer.api.kinds import MEMBER_CLUSTER
from scorer.api.names import PARENT_BINDING, PARENT_PLACEMENT
from tests.webhook.kube.cache.diary import Diary, version
from webhook.kube.cache.indexer import KindCache
from webhook.kube.ports import Key


@pytest.fixture
def shelf():
    return KindCache(MEMBER_CLUSTER)


@pytest.fixture
def told(shelf):
    diary = Diary()
    shelf.handlers.append(diary)
    return diary.changes


def known(shelf):
    return {key.name: document["metadata"]["resourceVersion"] for key, document in shelf.objects.items()}


def test_a_newer_state_replaces_an_older_one_and_never_the_other_way_round(shelf, told):
    for number in (3, 5, 4, 5):
        shelf.put(version("a", number))
    assert known(shelf) == {"a": "5"}
    assert told == [(None, "3"), ("3", "5")]


def test_a_deletion_is_told_once(shelf, told):
    shelf.put(version("a", 3))
    shelf.drop(version("a", 4))
    shelf.drop(version("a", 4))
    assert known(shelf) == {}
    assert told == [(None, "3"), ("3", None)]


def test_a_deleted_object_is_not_resurrected_by_an_earlier_state(shelf):
    shelf.put(version("a", 3))
    shelf.drop(version("a", 6))
    shelf.put(version("a", 5))
    assert known(shelf) == {}


def test_a_deleted_object_is_not_resurrected_by_a_state_newer_than_the_one_that_was_known(shelf):
    """Deleting answers before the watch has brought what others wrote in between."""
    shelf.put(version("a", 3))
    shelf.drop(version("a", 3))
    shelf.put(version("a", 5))
    assert known(shelf) == {}


def test_an_object_deleted_before_it_was_seen_does_not_appear(shelf, told):
    shelf.drop(version("a", 4))
    shelf.put(version("a", 3))
    assert known(shelf) == {}
    assert told == []


def test_a_new_object_of_the_same_name_is_another_one(shelf, told):
    shelf.put(version("a", 3))
    shelf.drop(version("a", 4))
    shelf.put(version("a", 5, uid="u2"))
    shelf.drop(version("a", 4))
    assert known(shelf) == {"a": "5"}
    assert told[-1] == (None, "5")


def test_a_full_list_removes_what_it_does_not_name(shelf, told):
    shelf.put(version("a", 1))
    shelf.put(version("b", 2, uid="u2"))
    shelf.replace_all([version("b", 2, uid="u2"), version("c", 3, uid="u3")], "4")
    assert known(shelf) == {"b": "2", "c": "3"}
    assert told == [(None, "1"), (None, "2"), ("1", None), (None, "3")]


def test_a_full_list_does_not_remove_what_was_written_after_it_was_made(shelf):
    """Our own create came back while the list was still on its way."""
    shelf.put(version("a", 12))
    shelf.replace_all([], "10")
    shelf.put(version("a", 12))
    assert known(shelf) == {"a": "12"}


def test_a_list_of_a_store_that_was_put_back_is_the_truth(shelf, told):
    """etcd restored from a backup: versions begin again lower, and what looks newer here never happened."""
    shelf.replace_all([version("a", 8), version("b", 9, uid="u2"), version("d", 9, uid="u4")], "10")
    shelf.drop(version("d", 10, uid="u4"))
    told.clear()
    shelf.replace_all([version("a", 5), version("c", 6, uid="u3"), version("d", 4, uid="u4")], "7")
    assert known(shelf) == {"a": "5", "c": "6", "d": "4"}
    assert told == [("9", None), ("8", "5"), (None, "6"), (None, "4")]
    shelf.put(version("a", 6))
    assert known(shelf)["a"] == "6"


def test_a_list_that_others_overtook_on_its_way_is_no_older_state_of_the_store(shelf, told):
    """Two lists at once: the one that was asked for first comes last, and knows nothing of what happened since."""
    before = shelf.snapshot()
    shelf.put(version("a", 3))
    shelf.replace_all([version("a", 8), version("b", 9, uid="u2")], "10", before=before)
    shelf.drop(version("c", 4, uid="u3"))
    told.clear()
    shelf.replace_all([version("a", 5), version("c", 4, uid="u3")], "7", before=before)
    assert known(shelf) == {"a": "8", "b": "9"}
    assert told == []


def test_a_list_older_than_what_the_watch_has_brought_is_of_a_store_that_was_put_back(shelf):
    shelf.replace_all([version("a", 8)], "10")
    for number in (11, 30):
        shelf.put(version("b", number, uid="u2"))
    shelf.replace_all([version("a", 8), version("b", 11, uid="u2")], "20", before=shelf.snapshot())
    assert known(shelf) == {"a": "8", "b": "11"}


def test_what_a_store_has_again_that_was_put_back_with_its_versions_moved_on_is_there(shelf, told):
    """As is advised for backups of etcd: only that what was gone is there again tells that anything has happened."""
    shelf.put(version("a", 8))
    before = shelf.snapshot()
    shelf.drop(version("a", 9))
    shelf.put(version("a", 10, uid="u2"))
    shelf.replace_all([version("a", 8), version("b", 7, uid="u3")], "9", before=before)
    assert known(shelf) == {"a": "10", "b": "7"}, "asked for before its end was known"
    shelf.replace_all([version("a", 20)], "30", before=shelf.snapshot())
    assert known(shelf) == {"a": "20"}
    shelf.put(version("a", 31))
    assert known(shelf) == {"a": "31"}
    assert told[-3:] == [("7", None), ("10", "20"), ("20", "31")]


def test_nothing_is_kept_of_namespaces_that_are_empty(shelf):
    shelf.put(version("a", 1, namespace="x"))
    shelf.drop(version("a", 2, namespace="x"))
    assert not shelf.namespaces


def test_indexes_follow_the_labels(shelf):
    shelf.put(version("a", 1, labels={PARENT_PLACEMENT: "x", "other": "y"}))
    shelf.put(version("b", 2, uid="u2", labels={PARENT_PLACEMENT: "x", PARENT_BINDING: "z"}))
    assert {entry: sorted(key.name for key in found) for entry, found in shelf.labelled.items()} == {
        (PARENT_PLACEMENT, "x"): ["a", "b"],
        (PARENT_BINDING, "z"): ["b"],
    }
    shelf.put(version("a", 3, labels={PARENT_PLACEMENT: "w"}))
    shelf.drop(version("b", 4, uid="u2"))
    assert {entry: sorted(key.name for key in found) for entry, found in shelf.labelled.items()} == {
        (PARENT_PLACEMENT, "w"): ["a"]
    }


def test_what_is_not_needed_is_not_kept(shelf):
    shelf.trim = lambda document: {"metadata": document["metadata"]}
    shelf.put({**version("a", 3), "status": {"images": ["large"]}})
    assert list(shelf.objects.values()) == [version("a", 3)]


def test_a_page_brings_known_objects_as_they_are_known_unless_the_store_was_restored(shelf):
    shelf.put(version("a", 5))
    kept, before = shelf.objects[Key("a")], shelf.snapshot()
    (same,) = shelf.reduced_page([version("a", 5)], "9", before)
    assert same is kept
    assert shelf.reduced_page([version("a", 6)], "9", before)[0] is not kept
    assert shelf.reduced_page([version("a", 5, uid="u2")], "9", before)[0] is not kept
    assert shelf.reduced_page([version("a", 5)], "4", before)[0] is not kept
