"""What was made for a placement, among what was made for its namesakes in other namespaces."""

import pytest

from scorer.api.family import CLUSTER, NAMESPACED, placement_ref
from scorer.api.kinds import WORK
from scorer.api.names import PARENT_BINDING, PARENT_PLACEMENT, PARENT_PLACEMENT_NAMESPACE
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.cache.informer import Cache
from webhook.kube.listers.placements import children, count_children, without_works, works_of


@pytest.fixture
def cache():
    store = EmbeddedStore.open(None)
    yield Cache(store)
    store.close()


def add(cache, kind, name, namespace="", labels=None, **spec):
    metadata = {"name": name, "uid": f"{namespace}/{name}", "resourceVersion": "1", "labels": labels or {}}
    document = {"metadata": metadata | ({"namespace": namespace} if namespace else {}), "spec": spec}
    cache.of_kind(kind).put(document)
    return document


def names(documents):
    return [document["metadata"]["name"] for document in documents]


def test_children_are_those_of_the_placement_and_of_no_namesake(cache):
    of_web, of_shop = {PARENT_PLACEMENT: "web"}, {PARENT_PLACEMENT: "shop"}
    for name, namespace, labels in (
        ("web-2", "team", of_web),
        ("web-1", "team", of_web),
        ("web-1", "other", of_web),
        ("shop-1", "team", of_shop),
    ):
        add(cache, NAMESPACED.binding, name, namespace, labels)
    add(cache, CLUSTER.binding, "web-1", labels=of_web)
    assert names(children(cache, NAMESPACED.binding, placement_ref("web", "team"))) == ["web-1", "web-2"]
    assert names(children(cache, CLUSTER.binding, placement_ref("web"))) == ["web-1"]
    assert children(cache, CLUSTER.binding, placement_ref("none")) == []
    assert count_children(cache, NAMESPACED.binding, placement_ref("web", "team")) == 3
    assert count_children(cache, CLUSTER.binding, placement_ref("none")) == 0


def test_works_of_a_binding_lie_in_the_namespace_of_its_member_and_name_its_placement(cache):
    binding = add(cache, CLUSTER.binding, "web-a", labels={PARENT_PLACEMENT: "web"}, targetCluster="a")
    ours = {PARENT_BINDING: "web-a", PARENT_PLACEMENT: "web"}
    add(cache, WORK, "web-work", "fleet-member-a", ours)
    add(cache, WORK, "web-work", "fleet-member-b", ours)
    add(cache, WORK, "other-work", "fleet-member-a", ours | {PARENT_PLACEMENT: "other"})
    add(cache, WORK, "lost-work", "fleet-member-a", {PARENT_BINDING: "web-a"})
    add(cache, WORK, "team.web-work", "fleet-member-a", ours | {PARENT_PLACEMENT_NAMESPACE: "team"})
    assert [(work["metadata"]["name"], work["metadata"]["namespace"]) for work in works_of(cache, binding)] == [
        ("web-work", "fleet-member-a")
    ]


def test_a_binding_that_is_dropped_and_has_no_works_is_done_with(cache):
    bindings = [
        add(
            cache,
            CLUSTER.binding,
            f"web-{cluster}",
            labels={PARENT_PLACEMENT: "web"},
            targetCluster=cluster,
            state=state,
        )
        for cluster, state in (("a", "Unscheduled"), ("b", "Unscheduled"), ("c", "Bound"))
    ]
    add(cache, WORK, "web-work", "fleet-member-b", {PARENT_BINDING: "web-b", PARENT_PLACEMENT: "web"})
    assert without_works(cache, bindings) == {"web-a"}
