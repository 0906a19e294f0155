from dataclasses import fields

import pytest

from scorer.api.family import (
    CLUSTER,
    FAMILIES,
    FAMILY_OF,
    NAMESPACED,
    PLACEMENTS,
    Family,
    PlacementRef,
    family_in,
    placement_of_work,
    placement_ref,
)
from scorer.api.kinds import OUR_KINDS
from scorer.api.names import PARENT_PLACEMENT, PARENT_PLACEMENT_NAMESPACE

KINDS_OF = {family: [getattr(family, field.name) for field in fields(Family)] for family in FAMILIES}


@pytest.mark.parametrize(
    ("family", "namespaced"), [(CLUSTER, False), (NAMESPACED, True)], ids=["cluster", "namespaced"]
)
def test_a_family_is_of_one_scope(family, namespaced):
    assert {kind.namespaced for kind in KINDS_OF[family]} == {namespaced}


@pytest.mark.parametrize("member", [field.name for field in fields(Family)])
def test_both_families_name_the_same_thing(member):
    """The cluster-scoped kind is called like the namespaced one, with Cluster before it."""
    assert getattr(CLUSTER, member).kind == f"Cluster{getattr(NAMESPACED, member).kind}"


def test_every_kind_that_comes_in_both_scopes_is_in_a_family():
    names = {kind.kind: kind for kind in OUR_KINDS}
    pairs = {(names[f"Cluster{name}"], kind) for name, kind in names.items() if f"Cluster{name}" in names}
    assert pairs == set(zip(*KINDS_OF.values(), strict=True))


def test_no_kind_is_in_a_family_twice():
    named = [kind for family in FAMILIES for kind in KINDS_OF[family]]
    assert len(set(named)) == len(named)


def test_a_placement_tells_its_family():
    assert [FAMILY_OF[kind.kind] for kind in PLACEMENTS] == list(FAMILIES)
    assert (family_in(""), family_in("shop")) == FAMILIES


def test_references():
    web = {"metadata": {"name": "web"}}
    of_web = {"metadata": {"name": "web-0", "labels": {PARENT_PLACEMENT: "web"}}}
    in_shop = {"metadata": {"name": "web-0", "namespace": "shop", "labels": {PARENT_PLACEMENT: "web"}}}
    assert CLUSTER.ref(web) == CLUSTER.parent(of_web) == placement_ref("web")
    assert NAMESPACED.parent(in_shop) == placement_ref("web", "shop")
    assert str(placement_ref("web")) == "crp/web"
    assert str(placement_ref("web", "shop")) == "rp/shop/web"
    assert CLUSTER.parent(web) == PlacementRef("ClusterResourcePlacement", "")


@pytest.mark.parametrize(
    ("labels", "ref"),
    [
        pytest.param({PARENT_PLACEMENT: "web"}, "crp/web", id="cluster-scoped"),
        pytest.param({PARENT_PLACEMENT: "web", PARENT_PLACEMENT_NAMESPACE: "shop"}, "rp/shop/web", id="namespaced"),
        pytest.param({PARENT_PLACEMENT: "web", PARENT_PLACEMENT_NAMESPACE: 5}, "crp/web", id="edited"),
        pytest.param(None, "crp/", id="none"),
    ],
)
def test_a_work_says_what_it_was_made_for(labels, ref):
    assert str(placement_of_work({"metadata": {"name": "web-work", "labels": labels}})) == ref
