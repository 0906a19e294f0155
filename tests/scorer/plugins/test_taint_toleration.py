"""TaintToleration: scheduling.md 9."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.api.cluster.member_cluster import Taint
from scorer.api.placement.placement import Toleration
from scorer.plugins.taint_toleration import format_taint, tolerates
from tests.scorer.builders import make_cluster, modest, pick_fixed, picked, policy, run

GPU = ("gpu", "a100")


def passes(taints, tolerations):
    return picked(run(policy(tolerations=tolerations), [make_cluster("a", taints=taints)])) == ["a"]


@pytest.mark.parametrize(
    ("toleration", "covers"),
    [
        pytest.param({"key": "gpu", "operator": "Equal", "value": "a100"}, True, id="equal"),
        pytest.param({"key": "gpu", "operator": "Equal", "value": "h100"}, False, id="equal-other-value"),
        pytest.param({"key": "tpu", "operator": "Equal", "value": "a100"}, False, id="equal-other-key"),
        pytest.param({"key": "gpu", "operator": "Equal"}, False, id="equal-without-value"),
        pytest.param({"key": "", "operator": "Equal", "value": "a100"}, False, id="equal-never-without-key"),
        pytest.param({"operator": "Equal"}, False, id="equal-of-nothing"),
        pytest.param({"key": "gpu", "operator": "Exists"}, True, id="exists"),
        pytest.param({"key": "gpu", "operator": "Exists", "value": "h100"}, True, id="exists-ignores-the-value"),
        pytest.param({"key": "tpu", "operator": "Exists"}, False, id="exists-other-key"),
        pytest.param({"operator": "Exists"}, True, id="exists-without-key-covers-all"),
        pytest.param({"key": "gpu", "value": "a100"}, True, id="DV-9-absent-operator-is-equal"),
        pytest.param({"key": "gpu", "value": "a100", "operator": None}, True, id="DV-9-null-operator-is-equal"),
        pytest.param({"key": "gpu", "operator": "", "value": "a100"}, False, id="empty-operator-covers-nothing"),
        pytest.param({"key": "gpu", "operator": "exists"}, False, id="unknown-operator-covers-nothing"),
        pytest.param({"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}, True, id="same-effect"),
        pytest.param({"key": "gpu", "operator": "Exists", "effect": ""}, True, id="empty-effect"),
        pytest.param({"key": "gpu", "operator": "Exists", "effect": "NoExecute"}, False, id="other-effect"),
    ],
)
def test_one_toleration_against_one_taint(toleration, covers):
    assert passes([GPU], [toleration]) is covers


@pytest.mark.parametrize(
    ("taints", "tolerations", "expected"),
    [
        pytest.param([], [], True, id="no-taints"),
        pytest.param([("gpu", "")], [{"key": "gpu"}], True, id="both-values-empty"),
        pytest.param([("gpu", ""), ("dock", "dry")], [{"key": "gpu"}], False, id="each-taint-needs-one"),
        pytest.param(
            [("gpu", ""), ("dock", "dry")], [{"key": "gpu"}, {"key": "dock", "value": "dry"}], True, id="each-by-some"
        ),
        pytest.param([("gpu", ""), ("dock", "dry")], [{"operator": "Exists"}], True, id="one-for-all"),
        pytest.param([("gpu", "a"), ("gpu", "b")], [{"key": "gpu", "value": "a"}], False, id="same-key-twice"),
    ],
)
def test_lists(taints, tolerations, expected):
    assert passes(taints, tolerations) is expected


def test_the_refusal_names_the_first_untolerated_taint():
    wanted = policy(tolerations=[{"key": "gpu"}])
    judged = run(wanted, [make_cluster("a", taints=[("gpu", ""), ("dock", "dry"), ("night", "")])])
    refusal = judged.last.reject(0)
    assert str(refusal) == "TaintNotTolerated: taint dock=dry:NoSchedule not tolerated"
    assert refusal.help == ""  # one toleration would not be enough


def test_the_one_toleration_that_is_missing_helps():
    wanted = policy(tolerations=[{"key": "gpu"}])
    judged = run(wanted, [make_cluster("a", taints=[("gpu", ""), ("dock", "dry"), ("dock", "dry")])])
    assert judged.last.reject(0).help == "a toleration for taint dock=dry:NoSchedule"


def test_pick_fixed_ignores_taints():
    assert picked(run(pick_fixed("a"), [make_cluster("a", taints=[GPU])])) == ["a"]


KEYS, VALUES = st.sampled_from(["", "gpu", "dock"]), st.sampled_from(["", "dry", "a100"])
TOLERATIONS = st.builds(
    Toleration, key=KEYS, operator=st.sampled_from(["Equal", "Exists", ""]), value=VALUES, effect=st.just("")
)


@given(
    taints=st.lists(st.tuples(st.sampled_from(["gpu", "dock"]), VALUES), max_size=3),
    tolerations=st.lists(TOLERATIONS, max_size=3),
)
@modest(100)
def test_a_cluster_passes_when_every_taint_is_covered_by_some_toleration(taints, tolerations):
    read = [Taint(key=key, value=value, effect="NoSchedule") for key, value in taints]
    expected = all(any(tolerates(toleration, taint) for toleration in tolerations) for taint in read)
    written = [toleration.model_dump(by_alias=True) for toleration in tolerations]
    assert passes(taints, written) is expected


@pytest.mark.parametrize(("value", "text"), [("", "gpu:NoSchedule"), ("a100", "gpu=a100:NoSchedule")])
def test_taints_are_written_as_kubectl_does(value, text):
    assert format_taint(Taint(key="gpu", value=value, effect="NoSchedule")) == text
