"""NamespaceAffinity: scheduling.md 10."""

import pytest

from tests.scorer.builders import make_cluster, picked, policy, run


@pytest.mark.parametrize(
    ("facts", "category"),
    [
        pytest.param({}, None, id="collection-is-off"),
        pytest.param({"namespaces": ["till"]}, None, id="collection-is-off-though-there-is-a-list"),
        pytest.param({"collects": "True", "namespaces": ["shop"]}, None, id="there"),
        pytest.param({"collects": "False", "namespaces": ["shop"]}, None, id="there-though-the-tracker-is-full"),
        pytest.param({"collects": "Unknown", "namespaces": ["shop"]}, None, id="there-whatever-the-status"),
        pytest.param({"collects": "True"}, "NamespaceDataMissing", id="no-list"),
        pytest.param({"collects": "False"}, "NamespaceDataMissing", id="no-list-tracker-full"),
        pytest.param({"collects": "True", "namespaces": []}, "NamespaceMissing", id="empty-list"),
        pytest.param({"collects": "True", "namespaces": ["till", "shop-2"]}, "NamespaceMissing", id="others"),
    ],
)
def test_a_namespaced_placement(facts, category):
    judged = run(policy(), [make_cluster("a", **facts)], namespace="shop")
    if category is None:
        assert picked(judged) == ["a"]
        return
    refusal = judged.last.reject(0)
    assert refusal.category == category
    assert judged.last.categories() == {category: 1}
    assert picked(run(policy(), [make_cluster("a", **facts)])) == ["a"]  # a cluster-scoped placement skips this


def test_the_refusal_names_the_namespace():
    judged = run(policy(), [make_cluster("a", collects="True", namespaces=["till"])], namespace="shop")
    assert "'shop'" in str(judged.last.reject(0))


def test_counts_tell_missing_lists_from_missing_namespaces():
    clusters = [
        make_cluster("a", collects="True"),
        make_cluster("b", collects="True", namespaces=[]),
        make_cluster("c", collects="True", namespaces=["x"]),
    ]
    judged = run(policy(), clusters, namespace="shop")
    assert judged.last.categories() == {"NamespaceDataMissing": 1, "NamespaceMissing": 2}
