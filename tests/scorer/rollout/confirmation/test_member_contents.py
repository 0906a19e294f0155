"""Content on members that is deleted with its namespace, in numbers and words."""

from datetime import UTC, datetime

import pytest

from scorer.rollout.confirmation.digests import RemovalEffect, RemovalItem
from scorer.rollout.confirmation.member_contents import describe_contents, leaving_namespaces, member_contents

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def namespace_counts(claims, others, *, minutes=0, **fields):
    return {"volumeClaims": claims, "others": others, "observationTime": f"2026-03-01T11:{minutes:02}:00Z", **fields}


@pytest.mark.parametrize(
    ("reports", "words"),
    [
        pytest.param(
            [{"shop": namespace_counts(2, 1)}, {"shop": namespace_counts(1, 0, minutes=56)}],
            "with 3 volume claims and 1 other object on the members, counted 1h ago",
            id="the-oldest-count-tells-the-age",
        ),
        pytest.param(
            [{"shop": namespace_counts(1, 0, minutes=56)}, {}, None],
            "with 1 volume claim and 0 other objects on the members, counted 4m ago, unknown on 2 clusters",
            id="some-are-unknown",
        ),
        pytest.param([None], "volume claims and other objects in it: unknown on 1 cluster", id="unknown"),
        pytest.param(
            [{"shop": namespace_counts(200, 3, minutes=56, atLeast=True)}],
            "with at least 200 volume claims and 3 other objects on the members, counted 4m ago",
            id="lower-bound",
        ),
        pytest.param(
            [{"shop": {"volumeClaims": "many"}}],
            "volume claims and other objects in it: unknown on 1 cluster",
            id="unreadable",
        ),
    ],
)
def test_counts_of_members_in_words(reports, words):
    assert describe_contents(member_contents(["shop"], reports), NOW) == words


def test_without_a_namespace_there_is_nothing_to_say():
    assert member_contents([], [{"shop": namespace_counts(1, 1)}]) is None
    assert describe_contents(None, NOW) == ""


@pytest.mark.parametrize(
    ("item", "namespaces"),
    [
        pytest.param(RemovalItem(RemovalEffect.OBJECT, ("", "Namespace", "", "shop")), {"shop"}, id="a-namespace"),
        pytest.param(RemovalItem(RemovalEffect.OBJECT, ("apps", "Deployment", "shop", "web")), set(), id="an-object"),
        pytest.param(RemovalItem(RemovalEffect.CLUSTER, ("", "b", "", "b"), cluster="oslo"), {"cart"}, id="a-cluster"),
        pytest.param(RemovalItem(RemovalEffect.PLACEMENT, ("", "p", "", "p")), {"cart"}, id="a-placement"),
    ],
)
def test_the_namespaces_that_are_deleted(item, namespaces):
    resources = [{"kind": "Namespace", "name": "cart"}, {"kind": "ConfigMap", "namespace": "cart", "name": "c"}]
    assert leaving_namespaces({"status": {"selectedResources": resources}}, [item]) == namespaces
