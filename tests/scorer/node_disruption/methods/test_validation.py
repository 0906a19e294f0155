"""Validation: nodepool-disruption.md 7."""

import pytest

from scorer.node_disruption.methods.planner import PlannerOptions, decide, validate
from scorer.node_disruption.methods.validation import ValidationFailure
from tests.builders.pod import make_pod
from tests.builders.worker import NOW, drifted, make_catalog, make_cluster, make_pool_of, make_worker

CATALOG = make_catalog({"large": 1.0, "small": 0.3}, cores={"small": 2})
SHUT = [{"nodes": "0"}]


def busy(node, cores="1", name="", **more):
    return make_pod(name or f"on-{node}", node, needs={"cpu": cores}, **more)


def command(*documents):
    found = decide(make_cluster(*documents), CATALOG, NOW).command
    assert found is not None
    return found


def outcome(found):
    return str(found.word) if isinstance(found, ValidationFailure) else list(found.nodes)


def validated(decided, *documents, catalog=CATALOG):
    return validate(decided, make_cluster(*documents), catalog, NOW, PlannerOptions())


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        pytest.param([make_pool_of(), make_worker("a"), make_worker("b")], ["a", "b"], id="as-before"),
        pytest.param([make_pool_of(), make_worker("a"), make_worker("b"), busy("b")], ["a"], id="a-pod-came"),
        pytest.param([make_pool_of(), make_worker("b")], ["b"], id="a-node-went"),
        pytest.param(
            [make_pool_of(budgets=[{"nodes": "1"}]), make_worker("a"), make_worker("b")], ["a"], id="less-room"
        ),
        pytest.param([make_pool_of(budgets=SHUT), make_worker("a"), make_worker("b")], "budget", id="no-room"),
        pytest.param([make_pool_of(), make_worker("c")], "churn", id="none-is-left"),
        pytest.param([make_pool_of(after="Never"), make_worker("a"), make_worker("b")], "churn", id="pool-changed"),
    ],
)
def test_emptiness_keeps_the_nodes_that_are_still_fine(later, expected):
    decided = command(make_pool_of(), make_worker("a"), make_worker("b"))
    assert outcome(validated(decided, *later)) == expected


DELETE = [make_pool_of(), make_worker("a"), make_worker("b"), busy("a"), busy("b", "2.5")]
REPLACE = [make_pool_of(), make_worker("a"), busy("a")]


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        pytest.param(DELETE, ["a"], id="as-before"),
        pytest.param([*DELETE, make_worker("c"), busy("c", "4")], ["a"], id="something-else-came"),
        pytest.param([*DELETE, busy("b", "1.5", "more")], "scheduling", id="a-new-node-would-be-needed"),
        pytest.param([*DELETE, busy("a", "0.2", "more", nodeSelector={"a": "b"})], "scheduling", id="no-place"),
        pytest.param([make_pool_of(ready="False"), *DELETE[1:]], "scheduling", id="no-pool-is-ready-any-more"),
        pytest.param([make_pool_of(budgets=SHUT), *DELETE[1:]], "budget", id="budget"),
        pytest.param(DELETE[:1] + DELETE[2:3], "churn", id="the-node-went"),
        pytest.param(
            [*DELETE, busy("a", "0.1", "held", annotations={"karpenter.sh/do-not-disrupt": "true"})],
            "churn",
            id="blocked",
        ),
        pytest.param([make_pool_of(), make_worker("a"), make_worker("b"), busy("b")], "churn", id="the-node-is-empty"),
        pytest.param([*DELETE, make_pod("new", needs={"cpu": "2.5"})], "churn", id="nominated"),
    ],
)
def test_a_delete_stays_a_delete(later, expected):
    decided = command(*DELETE)
    assert (decided.decided, decided.nodes) == ("delete", ("a",))
    assert outcome(validated(decided, *later)) == expected


@pytest.mark.parametrize(
    ("later", "catalog", "expected"),
    [
        pytest.param(REPLACE, CATALOG, ["a"], id="as-before"),
        pytest.param([*REPLACE, make_worker("b"), busy("b")], CATALOG, "scheduling", id="no-new-node-is-needed"),
        pytest.param([*REPLACE, busy("a", "2", "more")], CATALOG, "scheduling", id="the-planned-type-is-too-small"),
        pytest.param(REPLACE, make_catalog({"large": 1.0}), "scheduling", id="the-planned-type-is-gone"),
        pytest.param(
            REPLACE,
            make_catalog({"large": 1.0, "small": 0.3, "tiny": 0.1}, cores={"small": 2}),
            ["a"],
            id="more-types-are-no-matter",
        ),
    ],
)
def test_a_replacement_is_still_of_the_planned_types(later, catalog, expected):
    decided = command(*REPLACE)
    found = validated(decided, *later, catalog=catalog)
    assert outcome(found) == expected
    if not isinstance(found, ValidationFailure):
        assert found.replacements == decided.replacements
        assert found.moves == decided.moves


def test_a_multi_node_command_goes_whole_or_not_at_all():
    documents = [make_worker("a"), make_worker("b"), busy("a", "0.5"), busy("b", "0.5")]
    decided = command(make_pool_of(), documents)
    assert len(decided.nodes) == 2
    found = validated(decided, make_pool_of(budgets=[{"nodes": "1"}]), documents)
    assert outcome(found) == "budget"
    assert "allows 1 disruption for Underutilized" in found.message


def test_drift_is_not_validated():
    decided = command(make_pool_of(after="Never"), make_worker("a", conditions=drifted()), busy("a"))
    assert decided.method == "Drift"
    assert validated(decided, make_pool_of()) is decided
