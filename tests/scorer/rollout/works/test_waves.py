"""Order of application."""

from dataclasses import dataclass

import pytest

from scorer.api.kinds import KINDS, NODE_POOL, Kind, find_kind
from scorer.rollout.works.waves import LAST_WAVE, plan_waves, wave_of


@pytest.mark.parametrize(
    ("word", "wave"),
    [
        ("namespaces", 0),
        ("priorityclasses", 0),
        ("networkpolicies", 1),
        ("resourcequotas", 1),
        ("limitranges", 1),
        ("poddisruptionbudgets", 1),
        ("serviceaccounts", 1),
        ("secrets", 1),
        ("configmaps", 1),
        ("storageclasses", 1),
        ("persistentvolumes", 1),
        ("persistentvolumeclaims", 1),
        ("customresourcedefinitions", 1),
        ("ingressclasses", 1),
        ("clusterroles", 2),
        ("roles", 2),
        ("clusterrolebindings", 3),
        ("rolebindings", 3),
        ("services", 4),
        ("daemonsets", 4),
        ("pods", 4),
        ("replicationcontrollers", 4),
        ("replicasets", 4),
        ("deployments", 4),
        ("horizontalpodautoscalers", 4),
        ("statefulsets", 4),
        ("jobs", 4),
        ("cronjobs", 4),
        ("ingresses", 4),
        ("apiservices", 5),
        ("validatingwebhookconfigurations", 5),
        ("mutatingwebhookconfigurations", 5),
        ("endpoints", LAST_WAVE),
        ("endpointslices", LAST_WAVE),
        ("leases", LAST_WAVE),
    ],
)
def test_built_in_kinds_have_their_place(word, wave):
    kind = find_kind(word)
    assert kind is not None
    assert wave_of(kind) == wave


def test_a_custom_kind_of_a_well_known_name_comes_last():
    assert wave_of(Kind("example.com", ("v1",), "Deployment", "deployments", namespaced=True)) == LAST_WAVE
    assert wave_of(NODE_POOL) == LAST_WAVE


@dataclass(frozen=True)
class Item:
    kind: Kind
    name: str


def test_waves_keep_the_order_inside():
    items = [
        Item(KINDS["apps", "Deployment"], "d1"),
        Item(NODE_POOL, "n"),
        Item(KINDS["", "Namespace"], "ns"),
        Item(KINDS["", "Service"], "s"),
        Item(KINDS["apps", "Deployment"], "d2"),
    ]
    assert [[item.name for item in wave] for wave in plan_waves(items)] == [["ns"], ["d1", "s", "d2"], ["n"]]
    assert [[item.name for item in wave] for wave in plan_waves(items, single_wave=True)] == [
        ["d1", "n", "ns", "s", "d2"]
    ]
    assert plan_waves([]) == []
