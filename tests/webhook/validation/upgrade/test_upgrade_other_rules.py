"""Rules on gates, profiles, maintenance windows, version catalogs and upgrade requests."""

from datetime import UTC, datetime

import pytest

from tests.webhook.validation.upgrade_mistakes import DAY, HOLIDAY, PROFILES, REGIONS, WINDOWS
from tests.webhook.validation.upgrade_objects import (
    ALICE,
    AT_NIGHT,
    make,
    make_gate,
    make_request,
    make_window,
    refusal,
    said,
    warnings,
)
from webhook.access.user import UserInfo
from webhook.admission.judge import judge
from webhook.validation.framework.context import Context

NOON = Context(now=datetime(2025, 1, 6, 12, tzinfo=UTC)).with_user(UserInfo("alice"))


def make_profile(**spec):
    return make("ClusterUpgradeProfile", {"channel": "Stable", **spec})


@pytest.mark.parametrize(("spec", "rule", "field"), PROFILES)
def test_a_profile_is_refused(spec, rule, field):
    assert refusal(make_profile(**spec)) == [(rule, f"spec.{field}")]


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"channel": "Rapid", "nodeImage": {"selection": "Latest"}, "longTermSupport": False},
        {"channel": "NodeImage", "nodeImage": {"selection": "Consistent"}},
        {"channel": "NodeImage", "nodeImage": {}},
        {"channel": "SecurityPatch"},
        {"channel": "TargetKubernetesVersion", "targetKubernetesVersion": "1.31", "longTermSupport": True},
    ],
)
def test_a_profile_passes(spec):
    assert warnings(make_profile(**spec)) == []


def test_a_channel_that_cannot_be_followed_yet_is_named_with_those_that_can():
    assert said(make_profile(channel="Nightly")) == (
        'spec.channel: Unsupported value: "Nightly": supported values: "Stable", "Rapid", "NodeImage",'
        ' "SecurityPatch", "TargetKubernetesVersion"'
    )


@pytest.mark.parametrize(("spec", "rule", "field"), WINDOWS)
def test_a_window_is_refused(spec, rule, field):
    assert refusal(make_window(**spec)) == [(rule, f"spec.{field}")]


@pytest.mark.parametrize(
    "spec",
    [
        {"notAllowedDates": [HOLIDAY] * 50, "durationHours": 24},
        {"schedule": {"weekly": {"intervalWeeks": 4, **DAY}}, "utcOffset": "-14:00"},
        {"schedule": {"absoluteMonthly": {"intervalMonths": 6, "dayOfMonth": 31}}, "startTime": "23:59"},
        {"schedule": {"relativeMonthly": {"intervalMonths": 6, "weekIndex": "Last", **DAY}}},
    ],
)
def test_a_window_passes(spec):
    assert warnings(make_window(**spec), context=NOON) == []


def test_a_short_window_gets_a_warning():
    (warning,) = warnings(make_window(durationHours=3), context=NOON)
    assert warning.startswith("spec.durationHours: ")
    assert warnings(make_window(durationHours=4), context=NOON) == []


@pytest.mark.parametrize(
    "spec",
    [
        {"startDate": "2035-01-01"},
        {"notAllowedDates": [{"start": "2020-01-01", "end": "2030-01-01"}]},
    ],
)
def test_a_window_that_never_opens_gets_a_warning(spec):
    assert warnings(make_window(**spec), context=NOON) == [
        "spec: the window does not open within the next 800 days: members without another window are not upgraded"
    ]


def test_a_window_that_is_open_now_opens():
    soon_blocked = {"startTime": "11:00", "notAllowedDates": [{"start": "2025-01-07", "end": "2030-01-01"}]}
    assert warnings(make_window(**soon_blocked), context=NOON) == []


def make_catalog(*regions):
    return make("ClusterVersionCatalog", {"regions": [*regions]})


@pytest.mark.parametrize(("regions", "rule", "field"), REGIONS)
def test_a_catalog_is_refused(regions, rule, field):
    assert refusal(make_catalog(*regions)) == [(rule, f"spec.{field}")]


@pytest.mark.parametrize(
    ("url", "rule"),
    [
        pytest.param("", None, id="empty"),
        pytest.param("https://releases.aks.azure.com/#tabversion", None, id="https"),
        pytest.param("http://wiki.example.com/releases?v=1", None, id="http"),
        pytest.param("releases.aks.azure.com", "C-57", id="no-scheme"),
        pytest.param("javascript:alert(1)", "C-57", id="another-scheme"),
        pytest.param("https://example.com/a b", "C-57", id="space"),
        pytest.param("https://example.com/\n", "C-57", id="line-break"),
        pytest.param("https://", "C-57", id="no-host"),
        pytest.param("https://example.com/" + "a" * 1024, "C-57", id="too-long"),
    ],
)
def test_the_link_of_a_catalog_is_one_of_the_web(url, rule):
    catalog = make_catalog({"name": "a"})
    catalog["spec"]["releaseNotesURL"] = url
    assert refusal(catalog) == ([] if rule is None else [(rule, "spec.releaseNotesURL")])


def test_the_same_version_may_be_listed_in_two_regions():
    versions = {"kubernetesVersions": [{"version": "1.30.4"}, {"version": "1.31.2"}]}
    assert warnings(make_catalog({"name": "a", **versions}, {"name": "b", **versions}, {"name": "default"})) == []


def by_harbormaster(document, old=None, subresource=""):
    return refusal(document, old, Context(), subresource)


def test_only_harbormaster_makes_gates():
    verdict = judge("CREATE", make_gate(), None, ALICE)
    assert (verdict.code, verdict.reason) == (403, "Forbidden")
    assert "Approve the one that it creates" in verdict.message
    assert by_harbormaster(make_gate()) == []


def test_a_gate_that_is_made_has_its_type_and_name():
    assert by_harbormaster(make_gate(type="ScheduledStart")) == [("C-04", "spec.scheduledStart")]
    assert by_harbormaster(make_gate(scheduledStart=AT_NIGHT)) == [("C-04", "spec.scheduledStart")]
    wrong = {"type": "ScheduledStart", "scheduledStart": {**AT_NIGHT, "startTime": "25:00"}}
    assert by_harbormaster(make_gate(**wrong)) == [("C-31", "spec.scheduledStart.startTime")]
    assert by_harbormaster(make_gate(index=5)) == [("C-01", "spec.index")]
    long = make_gate()
    long["metadata"]["name"] = "a" * 63
    assert by_harbormaster(long) == []
    long["metadata"]["name"] = "a" * 64
    assert by_harbormaster(long) == [("C-03", "metadata.name")]


def test_the_spec_of_a_gate_is_fixed():
    assert refusal(make_gate(stage="t"), make_gate("Pending")) == [("C-26", "spec")]
    old = make_gate("Pending")
    assert refusal({**old, "metadata": {"name": "x", "labels": {"team": "a"}}}, old) == []


@pytest.mark.parametrize(
    ("user", "allowed"),
    [
        ("alice", False),
        ("system:serviceaccount:kube-system:namespace-controller", False),
        ("system:serviceaccount:kube-system:generic-garbage-collector", True),
        ("system:kube-controller-manager", True),
        (Context().user.username, True),
    ],
)
def test_a_gate_goes_with_its_run(user, allowed):
    verdict = judge("DELETE", None, make_gate("Pending"), Context().with_user(UserInfo(user)))
    assert verdict.allowed is allowed
    assert allowed or verdict.message == 'gate "x" belongs to run "r": approve the gate, or delete the run instead'


def test_a_gate_that_is_going_may_be_deleted_again():
    going = make_gate("Pending")
    going["metadata"]["deletionTimestamp"] = "2025-01-06T00:00:00Z"
    assert judge("DELETE", None, going, ALICE).allowed


@pytest.mark.parametrize("answer", ["True", "False"])
@pytest.mark.parametrize("state", ["Skipped", "Completed"])
def test_a_gate_that_is_over_takes_no_answer(state, answer):
    new, old = make_gate(state, answer), make_gate(state)
    assert refusal(new, old, subresource="status") == [("C-51", "status.state")]
    assert by_harbormaster(new, old, "status") == []


@pytest.mark.parametrize("answer", ["True", "False"])
def test_a_pending_gate_takes_an_answer(answer):
    assert refusal(make_gate("Pending", answer), make_gate("Pending"), subresource="status") == []
    assert refusal(make_gate(None, answer), make_gate(), subresource="status") == []


def test_an_answer_cannot_bring_its_own_state():
    """What counts is the stored state, not the one that comes with the answer."""
    assert refusal(make_gate("Pending", "True"), make_gate("Completed"), subresource="status") == [
        ("C-51", "status.state")
    ]


def test_the_answer_that_a_gate_has_does_not_keep_its_status_from_changing():
    assert refusal(make_gate("Completed", "True"), make_gate("Completed", "True"), subresource="status") == []


def test_a_late_answer_is_refused_in_words():
    assert said(make_gate("Skipped", "True"), make_gate("Skipped"), subresource="status") == (
        'status.state: Invalid value: "Skipped": the gate is no longer Pending, so Approved=True has no effect'
    )


@pytest.mark.parametrize(
    ("spec", "rule", "field"),
    [
        ({"kubernetesVersion": "1"}, "C-35", "kubernetesVersion"),
        ({"nodeImages": [{"family": "f", "version": "1"}] * 2}, "C-55", "nodeImages[1].family"),
        ({"operationID": ""}, "C-01", "operationID"),
        ({"upgradeType": "Part"}, "C-01", "upgradeType"),
    ],
)
def test_a_request_is_refused(spec, rule, field):
    assert refusal(make_request(**spec)) == [(rule, f"spec.{field}")]


def test_of_a_request_only_its_cancellation_changes():
    old = make_request("Accepted")
    assert refusal(make_request(cancelRequested=True), old) == []
    assert refusal(make_request(memberName="d"), old) == [("C-24", "spec")]
    assert said(make_request(memberName="d", cancelRequested=True), old) == (
        'spec: Forbidden: memberName cannot be changed from "c" to "d": only cancelRequested can be changed'
    )


PHASES = ("Accepted", "InProgress", "Succeeded", "Failed", "Cancelled")


@pytest.mark.parametrize(
    ("before", "allowed"),
    [
        (None, PHASES),
        ("Accepted", PHASES),
        ("InProgress", PHASES[1:]),
        ("Succeeded", ("Succeeded",)),
        ("Failed", ("Failed",)),
        ("Cancelled", ("Cancelled",)),
    ],
)
def test_the_phase_of_a_request_only_goes_forward(before, allowed):
    for phase in PHASES:
        wanted = [] if phase in allowed else [("C-25", "status.phase")]
        assert refusal(make_request(phase), make_request(before), subresource="status") == wanted


def test_a_phase_is_one_of_five_and_is_not_taken_back():
    assert refusal(make_request("Paused"), make_request("Accepted"), subresource="status") == [("C-25", "status.phase")]
    assert refusal(make_request(), make_request("Accepted"), subresource="status") == [("C-25", "status.phase")]


def test_an_attempt_that_has_ended_may_report_more_about_its_end():
    new = make_request("Failed")
    new["status"]["message"] = "the disk was full"
    assert refusal(new, make_request("Failed"), subresource="status") == []
