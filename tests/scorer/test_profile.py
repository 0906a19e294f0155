"""The default list of plugins, for each placement type (scheduling.md 3)."""

import pytest

from scorer.api.placement.placement import PlacementPolicy
from scorer.profile import read_profile
from tests.scorer.builders import NODES, pick_n, policy, prefer, spread, term

EVERYTHING = {
    "required": [term({"env": "prod"})],
    "preferred": [prefer(10, NODES), prefer(0, NODES), prefer(-5)],
    "constraints": [spread("region")],
    "tolerations": [{"key": "gpu"}],
}


@pytest.mark.parametrize(
    ("written", "required", "preferred", "constraints", "tolerations"),
    [
        pytest.param(policy(**EVERYTHING), 1, [], 0, 1, id="pick-all"),
        pytest.param(pick_n(1, **EVERYTHING), 1, [0, 2], 1, 1, id="pick-n-without-weightless-terms"),
        pytest.param(policy("PickFixed", names=["a"], **EVERYTHING), 0, [], 0, 0, id="pick-fixed"),
        pytest.param({}, 0, [], 0, 0, id="nothing"),
    ],
)
def test_parts_in_use(written, required, preferred, constraints, tolerations):
    profile = read_profile(PlacementPolicy.read(written))
    assert len(profile.affinity.required) == required
    assert [entry.index for entry in profile.affinity.preferred] == preferred
    assert len(profile.spread.constraints) == constraints
    assert len(profile.taints.tolerations) == tolerations


def test_filters_stand_in_the_order_of_the_reference():
    names = [plugin.name for plugin in read_profile(PlacementPolicy()).filters]
    assert names == ["ClusterAffinity", "ClusterEligibility", "NamespaceAffinity", "TaintToleration"]
