"""Which statuses are copied to the hub's own objects, and when none can be."""

import pytest

from scorer.api.names import PARENT_BINDING
from scorer.rollout.envelopes import EnvelopeKey
from scorer.rollout.status.back_report import (
    BackReport,
    plan_back_reports,
    report_back_error,
    reports_to_originals,
    with_reported_status,
)

MIRROR = {"type": "Mirror", "destination": "OriginalResource"}
WEB = {"group": "apps", "version": "v1", "kind": "Deployment", "namespace": "shop", "name": "web"}
STATUS = {"replicas": 2, "readyReplicas": 2}


def placement(policy=None, *, selected=(WEB,), report_back=MIRROR):
    policy = {"placementType": "PickN", "numberOfClusters": 1} if policy is None else policy
    spec = {"policy": policy, "strategy": {"reportBackStrategy": report_back}}
    return {"metadata": {"name": "p"}, "spec": spec, "status": {"selectedResources": list(selected)}}


def binding(name="b0", state="Bound", **metadata):
    return {"metadata": {"name": name, **metadata}, "spec": {"state": state, "targetCluster": name}}


def work(*entries, name="p-work", holder="b0", space="", applied="True", observed=3, labels=None, **metadata):
    """Make a Work of generation 3; *entries*: (identifier, status) of its manifests."""
    metadata["namespace"] = space or f"fleet-member-{holder}"
    conditions = [{"type": "Applied", "status": applied, "observedGeneration": observed}]
    manifests = []
    for at, (identifier, status) in enumerate(entries):
        entry = {"identifier": {"ordinal": at, **identifier}}
        if status is not None:
            entry["backReportedStatus"] = {"observedStatus": status, "observationTime": "2026-11-20T12:00:00Z"}
        manifests.append(entry)
    return {
        "metadata": {"name": name, "generation": 3, "labels": {PARENT_BINDING: holder, **(labels or {})}, **metadata},
        "status": {"conditions": conditions, "manifestConditions": manifests},
    }


REPORT = BackReport("apps", "v1", "Deployment", "shop", "web", STATUS)


@pytest.mark.parametrize(
    ("report_back", "wanted"),
    [
        pytest.param(MIRROR, True, id="to-the-originals"),
        pytest.param({"type": "Mirror", "destination": "WorkAPI"}, False, id="the-work-has-it-already"),
        pytest.param({"type": "Disabled", "destination": "OriginalResource"}, False, id="disabled"),
        pytest.param({"type": "Mirror"}, False, id="no-destination"),
        pytest.param(None, False, id="nothing-said"),
    ],
)
def test_statuses_are_wanted_on_the_originals_only_when_the_placement_says_so(report_back, wanted):
    assert reports_to_originals(placement(report_back=report_back)) is wanted


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        pytest.param({"placementType": "PickN", "numberOfClusters": 1}, "", id="one-of-many"),
        pytest.param({"placementType": "PickFixed", "clusterNames": ["a"]}, "", id="one-by-name"),
        pytest.param({"placementType": "PickN", "numberOfClusters": 2}, "numberOfClusters must be 1, is 2", id="two"),
        pytest.param({"placementType": "PickN", "numberOfClusters": 0}, "is 0", id="none"),
        pytest.param({"placementType": "PickFixed", "clusterNames": ["a", "b"]}, "has 2", id="two-by-name"),
        pytest.param({"placementType": "PickAll"}, "is PickAll", id="all"),
        pytest.param({}, "is PickAll", id="no-policy-is-all"),
    ],
)
def test_only_a_placement_on_one_cluster_can_report_back(policy, words):
    error = report_back_error(placement(policy))
    assert words in error
    assert bool(error) is bool(words)


def test_the_status_of_a_selected_object_is_reported():
    assert plan_back_reports(placement(), [binding()], [work((WEB, STATUS))]) == [REPORT]


ENVELOPE = EnvelopeKey("ResourceEnvelope", "shop", "box")


@pytest.mark.parametrize(
    ("bindings", "works", "selected"),
    [
        pytest.param([binding()], [work((WEB, STATUS), applied="False")], [WEB], id="not-applied"),
        pytest.param([binding()], [work((WEB, STATUS), observed=2)], [WEB], id="applied-an-earlier-generation"),
        pytest.param([binding()], [work((WEB, None))], [WEB], id="nothing-reported"),
        pytest.param([binding()], [work((WEB, {}))], [WEB], id="an-empty-status-is-none"),
        pytest.param([binding()], [work((WEB, STATUS))], [], id="not-selected"),
        pytest.param([binding()], [work((WEB, STATUS))], [{**WEB, "name": "api"}], id="another-one-selected"),
        pytest.param([binding()], [work((WEB, STATUS))], [{**WEB, "namespace": "x"}], id="selected-elsewhere"),
        pytest.param([binding()], [work((WEB, STATUS), labels=ENVELOPE.labels())], [WEB], id="enveloped"),
        pytest.param([binding()], [work((WEB, STATUS), deletionTimestamp="x")], [WEB], id="the-work-goes"),
        pytest.param([binding()], [work((WEB, STATUS), holder="b1")], [WEB], id="the-work-of-another-binding"),
        pytest.param([binding(state="Unscheduled")], [work((WEB, STATUS))], [WEB], id="the-cluster-is-left"),
        pytest.param([binding(deletionTimestamp="x")], [work((WEB, STATUS))], [WEB], id="the-binding-goes"),
        pytest.param([binding(), binding("b1")], [work((WEB, STATUS))], [WEB], id="two-clusters-hold-it"),
        pytest.param([], [work((WEB, STATUS))], [WEB], id="no-cluster-holds-it"),
        pytest.param([binding()], [work((WEB, STATUS), space="fleet-member-b1")], [WEB], id="forged-by-another-member"),
    ],
)
def test_nothing_else_is_reported(bindings, works, selected):
    assert plan_back_reports(placement(selected=selected), bindings, works) == []


def test_in_the_middle_of_a_move_the_cluster_that_stays_speaks():
    old, new = work((WEB, {"replicas": 9}), holder="b0"), work((WEB, STATUS), holder="b1", name="q")
    assert plan_back_reports(placement(), [binding(state="Unscheduled"), binding("b1")], [old, new]) == [REPORT]


@pytest.mark.parametrize(
    ("group", "kind"),
    [
        ("", "Namespace"),
        ("apiextensions.k8s.io", "CustomResourceDefinition"),
        ("apiregistration.k8s.io", "APIService"),
    ],
)
def test_what_the_api_server_itself_goes_by_keeps_the_status_of_the_hub(group, kind):
    item = {"group": group, "version": "v1", "kind": kind, "name": "shop"}
    assert plan_back_reports(placement(selected=[item]), [binding()], [work((item, {"phase": "Terminating"}))]) == []


def test_reports_come_in_order_whatever_the_order_of_the_works():
    api = {**WEB, "name": "api"}
    works = [work((WEB, STATUS), name="p-0"), work((api, {"replicas": 1}), name="p-work")]
    subject = placement(selected=[WEB, api])
    found = plan_back_reports(subject, [binding()], works)
    assert [report.name for report in found] == ["api", "web"]
    assert plan_back_reports(subject, [binding()], works[::-1]) == found


def test_a_member_cannot_name_an_object_that_is_not_selected():
    forged = {**WEB, "namespace": "../../kube-system"}
    assert plan_back_reports(placement(), [binding()], [work((forged, STATUS))]) == []


def test_a_status_that_is_there_already_is_not_written():
    document = {"metadata": {"name": "web"}, "spec": {"replicas": 2}, "status": STATUS}
    assert with_reported_status(document, REPORT) is None
    changed = with_reported_status({**document, "status": {"replicas": 0}}, REPORT)
    assert changed == document
