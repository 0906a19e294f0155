import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.api.node_pool import NodePool
from webhook.defaulting.node_pool import default
from webhook.validation.framework.context import Context
from webhook.validation.node_pool import validate

DISRUPTION = {
    "consolidationPolicy": "WhenEmptyOrUnderutilized",
    "consolidateAfter": "0s",
    "budgets": [{"nodes": "10%"}],
}


def make_node_pool(disruption=None, *, node=None, **spec):
    node_class = {"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "default"}
    template = {"spec": {"requirements": [], "nodeClassRef": node_class, **(node or {})}}
    spec = {"template": template, **spec}
    if disruption is not None:
        spec["disruption"] = disruption
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "np"}, "spec": spec}


@pytest.mark.parametrize(
    ("disruption", "filled"),
    [
        pytest.param(None, DISRUPTION, id="absent"),
        pytest.param({}, DISRUPTION, id="empty"),
        pytest.param({"budgets": None, "consolidateAfter": None}, DISRUPTION, id="nulls"),
        pytest.param({"budgets": []}, DISRUPTION | {"budgets": []}, id="no-budgets-are-kept"),
        pytest.param(
            {"budgets": [{"reasons": ["Empty"]}, {"nodes": None}, {"nodes": "5"}]},
            DISRUPTION | {"budgets": [{"reasons": ["Empty"], "nodes": "10%"}, {"nodes": "10%"}, {"nodes": "5"}]},
            id="nodes-of-budgets",
        ),
        pytest.param(
            {"budgets": [{"nodes": "0", "schedule": None, "duration": None, "reasons": None}]},
            DISRUPTION | {"budgets": [{"nodes": "0"}]},
            id="nulls-without-a-default-are-removed",
        ),
        pytest.param({"consolidateAfter": "Never"}, DISRUPTION | {"consolidateAfter": "Never"}, id="given"),
    ],
)
def test_disruption(disruption, filled):
    assert default(make_node_pool(disruption), None).document["spec"]["disruption"] == filled


def test_static_pools_are_defaulted_as_well():
    spec = default(make_node_pool(replicas=3, weight=None)).document["spec"]
    assert spec["disruption"] == DISRUPTION
    assert spec["template"]["spec"]["expireAfter"] == "720h"
    assert "weight" not in spec


@pytest.mark.parametrize(
    ("node", "old_place", "lifetime", "warning"),
    [
        pytest.param({}, None, "720h", "", id="default"),
        pytest.param({"expireAfter": None}, None, "720h", "", id="null"),
        pytest.param({"expireAfter": "Never"}, None, "Never", "", id="given"),
        pytest.param({}, "168h", "168h", '"168h" was copied to spec.template.spec.expireAfter', id="old-place"),
        pytest.param({}, "Never", "Never", '"Never" was copied', id="old-place-never"),
        pytest.param({"expireAfter": None}, "168h", "168h", "was copied", id="old-place-and-null"),
        pytest.param({"expireAfter": "24h"}, "168h", "24h", "", id="the-template-wins"),
        pytest.param({}, "7d", "720h", '"7d" is not a duration and was ignored', id="old-place-no-duration"),
        pytest.param({}, 168, "720h", "168 is not a duration", id="old-place-no-text"),
    ],
)
def test_expire_after(node, old_place, lifetime, warning):
    """The place of seed 002 still counts where the template says nothing."""
    disruption = {} if old_place is None else {"expireAfter": old_place}
    result = default(make_node_pool(disruption, node=node))
    assert result.document["spec"]["template"]["spec"]["expireAfter"] == lifetime
    assert [warning in str(given) for given in result.warnings] == ([True] if warning else [])
    assert result.document["spec"]["disruption"].get("expireAfter") == old_place


@pytest.mark.parametrize(
    ("node", "messages"),
    [
        pytest.param({}, ['"168h" was copied to spec.template.spec.expireAfter'], id="copied"),
        pytest.param({"expireAfter": "168h"}, [], id="the-same"),
        pytest.param(
            {"expireAfter": "24h"},
            ['"168h" is ignored. spec.template.spec.expireAfter is "24h"'],
            id="the-template-wins",
        ),
    ],
)
def test_both_hooks_agree_about_the_former_place_of_expire_after(node, messages):
    result = default(make_node_pool({"expireAfter": "168h"}, node=node))
    findings = [*result.warnings, *validate(result.document, None, Context())]
    assert [warning.message for warning in findings if warning.rule == "K-35"] == messages


@pytest.mark.parametrize(
    "document",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"spec": None}, id="spec-null"),
        pytest.param({"spec": "x"}, id="spec-text"),
        pytest.param({"spec": {"template": []}}, id="template-list"),
        pytest.param({"spec": {"template": {"spec": "x"}}}, id="template-spec-text"),
        pytest.param({"spec": {"disruption": 1}}, id="disruption-number"),
        pytest.param({"spec": {"disruption": {"budgets": {}}}}, id="budgets-object"),
        pytest.param({"spec": {"disruption": {"budgets": [None]}}}, id="budget-null"),
        pytest.param(
            {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"template": {"spec": {}}}},
            id="being-deleted",
        ),
    ],
)
def test_what_cannot_or_must_not_be_defaulted_stays(document):
    assert default(document, None).document is document


def test_what_was_given_is_not_changed():
    document = make_node_pool({"budgets": [{}], "expireAfter": "1h"}, node={"taints": None})
    before = copy.deepcopy(document)
    result = default(document)
    assert document == before
    assert result.document["metadata"] is document["metadata"]
    assert "taints" not in result.document["spec"]["template"]["spec"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "0", "10%", "Never", "1h"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["budgets", "nodes", "expireAfter", "schedule", "spec"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(disruption=JSON, node=st.dictionaries(st.sampled_from(["expireAfter", "taints"]), JSON))
def test_defaulting_twice_is_defaulting_once(disruption, node):
    document = make_node_pool(disruption, node=node)
    once = default(document)
    again = default(once.document)
    assert again.document is once.document
    assert again.warnings == ()


def test_the_model_reads_the_same_defaults():
    """The engine sees an object that was never defaulted as admission would have stored it."""
    bare = make_node_pool()
    assert NodePool.read(bare).spec.model_dump() == NodePool.read(default(bare).document).spec.model_dump()


def test_more_budgets_than_there_may_be_are_left_alone():
    pool = {"spec": {"template": {"spec": {}}, "disruption": {"budgets": [{} for _ in range(51)]}}}
    assert default(pool).document is pool
