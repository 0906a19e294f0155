"""The order in which a write is judged, and what an update may leave alone (serving.md 1.8 part B, X-21)."""

from copy import deepcopy

import pytest

from tests.builders.placement import make_placement
from webhook.access.user import UserInfo
from webhook.admission.judge import MOST_WARNINGS, judge
from webhook.admission.registry import REGISTRY, find
from webhook.validation.framework.context import Context

NAMESPACE = {"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}
USER = Context(user=UserInfo("jane"))


RESERVED = {**NAMESPACE, "name": "kube-system"}
BAD_STRATEGY = {"strategy": {"rollingUpdate": {"maxUnavailable": "25"}}}


def test_the_message_is_what_an_api_server_writes():
    judgement = judge("CREATE", make_placement(policy={"placementType": "PickN"}), None, Context())
    assert (judgement.allowed, judgement.code, judgement.reason) == (False, 422, "Invalid")
    assert judgement.message == (
        'ClusterResourcePlacement.placement.kubernetes-fleet.io "shop" is invalid: spec.policy.numberOfClusters: '
        "Required value: must be set when placementType is PickN"
    )


def test_errors_are_sorted_by_path():
    tolerations = [{"key": f"bad key {i}"} for i in range(12)]
    judgement = judge("CREATE", make_placement(policy={"tolerations": tolerations}), None, Context())
    assert [str(error.field) for error in judgement.errors] == [f"spec.policy.tolerations[{i}].key" for i in range(12)]


@pytest.mark.parametrize(
    ("old", "new", "refused"),
    [
        pytest.param(
            make_placement(selectors=[RESERVED]),
            make_placement(selectors=[RESERVED], labels={"a": "b"}),
            [],
            id="only-labels",
        ),
        pytest.param(
            make_placement(selectors=[RESERVED]),
            make_placement(selectors=[RESERVED], revisionHistoryLimit=5),
            [],
            id="untouched-part",
        ),
        pytest.param(make_placement(selectors=[RESERVED]), make_placement(revisionHistoryLimit=5), [], id="repaired"),
        pytest.param(
            make_placement(**BAD_STRATEGY),
            make_placement(**BAD_STRATEGY, policy={"numberOfClusters": 3}),
            ["spec.policy.numberOfClusters"],
            id="a-second-new-fault",
        ),
        pytest.param(
            make_placement(selectors=[RESERVED]),
            make_placement(selectors=[RESERVED, {**RESERVED, "name": "default"}]),
            ["spec.resourceSelectors[1].name"],
            id="one-more-of-the-same-kind",
        ),
        pytest.param(
            make_placement(selectors=[RESERVED]),
            make_placement(selectors=[NAMESPACE, RESERVED]),
            [],
            id="moved-within-the-list",
        ),
        pytest.param(
            make_placement(**BAD_STRATEGY),
            make_placement(strategy={"rollingUpdate": {"maxUnavailable": "26"}}),
            ["spec.strategy.rollingUpdate.maxUnavailable"],
            id="from-bad-to-bad",
        ),
        pytest.param(
            make_placement(policy={"placementType": "PickFixed", "tolerations": [{"key": "a"}]}),
            make_placement(policy={"placementType": "PickFixed", "tolerations": [{"key": "a"}, {"key": "b"}]}),
            ["spec.policy.tolerations"],
            id="a-forbidden-part-changed",
        ),
        pytest.param(
            make_placement(revisionHistoryLimit=1),
            make_placement(revisionHistoryLimit=True),
            ["spec.revisionHistoryLimit"],
            id="true-is-not-1",
        ),
        pytest.param(
            make_placement(strategy={"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 0}}),
            make_placement(
                strategy={"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 0, "unavailablePeriodSeconds": 9}}
            ),
            [],
            id="what-the-mistake-depends-on-is-untouched",
        ),
        pytest.param(
            make_placement(selectors=[RESERVED]),
            make_placement(selectors=[RESERVED], labels={"a": "b c"}),
            ["metadata.labels.a"],
            id="metadata-is-judged-though-the-spec-is-not",
        ),
    ],
)
def test_updates_are_judged_on_what_they_change(old, new, refused):
    judgement = judge("UPDATE", new, old, Context())
    assert [str(error.field) for error in judgement.errors] == refused
    assert judgement.allowed is not bool(refused)


def test_an_old_mistake_that_stays_is_a_warning():
    judgement = judge(
        "UPDATE", make_placement(selectors=[RESERVED], labels={"a": "b"}), make_placement(selectors=[RESERVED]), USER
    )
    assert judgement.allowed
    assert any("kube-system" in warning for warning in judgement.warnings)


def test_finalizers_can_always_be_removed():
    old = make_placement(selectors=[RESERVED], policy={"placementType": "nonsense"})
    old["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    new = deepcopy(old)
    new["spec"] = "anything"
    assert judge("UPDATE", new, old, USER).allowed


def test_an_unchanged_reserved_label_is_not_warned_about_again():
    old = make_placement(labels={"kubernetes-fleet.io/mine": "1"})
    new = make_placement(labels={"kubernetes-fleet.io/mine": "1", "a": "b"})
    assert judge("CREATE", old, None, USER).warnings
    assert not judge("UPDATE", new, old, USER).warnings


def test_a_member_name_label_is_judged_though_the_spec_is_unchanged():
    """X-91 is about metadata."""
    old = {
        "apiVersion": "cluster.kubernetes-fleet.io/v1",
        "kind": "MemberCluster",
        "metadata": {"name": "edge"},
        "spec": {"identity": {"kind": "User", "name": "a"}},
    }
    new = {**old, "metadata": {"name": "edge", "labels": {"kubernetes-fleet.io/member-name": "other"}}}
    assert [error.rule for error in judge("UPDATE", new, old, Context()).errors] == ["X-91"]


def test_deletions_are_allowed_and_explained():
    """D-01, D-02, X-23."""
    placement = make_placement(policy={"placementType": "nonsense"})
    assert judge("DELETE", None, placement, USER).allowed
    assert judge("DELETE", None, None, USER).allowed
    placement = make_placement()
    placement["status"] = {"placementStatuses": [{"clusterName": "a"}, {"clusterName": "b"}, {}]}
    (warning,) = judge("DELETE", None, placement, USER).warnings
    assert "removes the placed objects from 2 clusters" in warning
    placement["spec"]["strategy"] = {"deleteStrategy": {"propagationPolicy": "Abandon"}}
    (warning,) = judge("DELETE", None, placement, USER).warnings
    assert "abandons" in warning


def test_no_report_of_an_agent_keeps_the_warning_about_a_deletion_away():
    """Times in a status come from agents, and the schema lets through some that cannot be read."""
    drifted = {"version": "v1", "kind": "K", "name": "n", "observationTime": "0000-01-01T00:00:00Z"}
    placement = make_placement()
    placement["status"] = {"placementStatuses": [{"clusterName": "a", "driftedPlacements": [drifted]}]}
    (warning,) = judge("DELETE", None, placement, USER).warnings
    assert "removes the placed objects from 1 cluster" in warning


def test_unknown_kinds_pass_with_a_warning():
    judgement = judge("CREATE", {"apiVersion": "toys.example.org/v1", "kind": "Widget"}, None, USER)
    assert judgement.allowed
    assert judgement.warnings == ("harbormaster has no rules for Widget of toys.example.org/v1",)


def test_warnings_are_few_and_each_is_whole():
    requirements = [{"name": f"k{i}", "operator": "Ge", "values": ["-1"]} for i in range(30)]
    terms = [{"propertySelector": {"matchExpressions": requirements}}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": terms}}
    document = make_placement(
        policy={"placementType": "PickN", "numberOfClusters": 1, "affinity": {"clusterAffinity": required}}
    )
    warnings = judge("CREATE", document, None, USER).warnings
    assert len(warnings) == MOST_WARNINGS
    assert warnings[-1] == "and 21 more warnings"
    field = "spec.policy.affinity.clusterAffinity.requiredDuringSchedulingIgnoredDuringExecution"
    assert all(warning.startswith(f"{field}.clusterSelectorTerms[0].") for warning in warnings[:-1])


def test_an_object_nested_too_deep_is_refused():
    """Where no parser has looked before."""
    value: object = 1
    for _ in range(5000):
        value = {"a": value}
    assert judge("CREATE", {**make_placement(), "spec": value}, None, Context()).code == 400


def test_every_kind_is_found_in_all_its_versions_and_no_other():
    for entry in REGISTRY.values():
        for version in entry.kind.versions:
            assert find(entry.kind.group, version, entry.kind.kind) is entry
        assert find(entry.kind.group, "v0", entry.kind.kind) is None
