"""What the collector of garbage walks: not what was read from the hub, which is freed all the same."""

import gc
import weakref

import orjson
import pytest

from scorer.api.cluster.member_cluster import MemberCluster
from scorer.api.kinds import MEMBER_CLUSTER
from scorer.api.meta import ApiModel
from tests.scorer.builders import cluster_document
from webhook.kube.cache.indexer import KindCache
from webhook.kube.cache.informer import read_member
from webhook.kube.cache.memory import untracked


@pytest.fixture
def by_count_alone():
    """No collection: what is freed is freed with the last reference."""
    gc.disable()
    yield
    gc.enable()


class Watched(list):
    """A list that tells when it is gone."""


def parts(tree):
    """Yield all maps, lists, tuples and models in a tree."""
    if isinstance(tree, ApiModel):
        yield tree
        yield from parts(vars(tree))
    elif isinstance(tree, dict | list | tuple):
        yield tree
        for part in tree.values() if isinstance(tree, dict) else tree:
            yield from parts(part)


def document(name="port-1", version="1"):
    made = orjson.loads(orjson.dumps(cluster_document(name, taints=[("gpu", "")], labels={"env": "prod"})))
    made["metadata"] |= {"uid": name, "resourceVersion": version, "finalizers": ["a/b"]}
    return made


def test_no_part_of_an_object_on_a_shelf_is_walked():
    shelf = KindCache(MEMBER_CLUSTER)
    shelf.put(document())
    shelf.put(document(version="2"))
    (kept,) = shelf.objects.values()
    assert kept["metadata"]["resourceVersion"] == "2"
    assert len([*parts(kept)]) > 10
    assert not any(map(gc.is_tracked, parts(kept)))


def test_an_object_that_is_trimmed_later_is_not_walked_either():
    shelf = KindCache(MEMBER_CLUSTER)
    shelf.put(document())
    shelf.trim_by(lambda whole: {"metadata": dict(whole["metadata"]), "spec": {"taints": [*whole["spec"]["taints"]]}})
    (kept,) = shelf.objects.values()
    assert not any(map(gc.is_tracked, parts(kept)))


def test_no_part_of_a_member_is_walked():
    member = read_member(document())
    assert isinstance(member, MemberCluster)
    assert len([*parts(member)]) > 10
    assert not any(map(gc.is_tracked, parts(member)))


def test_models_with_the_same_fields_have_one_set_of_their_names_and_stay_the_same():
    """A copy of a model does not change the set of another."""
    documents = [document(f"m{number}") for number in range(2)]
    plain, lean = ([read(each) for each in documents] for read in (MemberCluster.read, read_member))
    assert lean == plain
    for one, other in zip(plain, lean, strict=True):
        assert other.model_dump(exclude_unset=True) == one.model_dump(exclude_unset=True)
    first, second = (each.spec for each in lean)
    assert first.model_fields_set is second.model_fields_set
    assert "delete_options" in first.model_copy(update={"delete_options": None}).model_fields_set
    assert "delete_options" not in second.model_fields_set


@pytest.mark.usefixtures("by_count_alone")
def test_what_is_left_out_is_freed_with_the_last_reference():
    watched = Watched()
    tree = untracked({"a": [{"b": watched}]})
    gone = weakref.ref(watched)
    del watched
    assert gone() is not None
    del tree
    assert gone() is None


def test_a_map_that_is_changed_all_the_same_is_walked_again():
    watched = Watched()
    gone = weakref.ref(watched)
    tree = untracked({"a": {}})
    tree["a"]["whole"], tree["a"]["watched"] = tree, watched
    tree["b"] = {}
    del tree, watched
    gc.collect()
    assert gone() is None
