"""ClusterUpgradeRequests: what is asked, and what their status says."""

import pytest

from scorer.api.meta import parse_time
from scorer.api.upgrade.fields import UpgradeError, UpgradeType
from scorer.upgrade.back_ends.interface import Inventory, Operation, OperationState, Pool, Target
from scorer.upgrade.back_ends.inventories import reported_inventory
from scorer.upgrade.back_ends.requests import (
    is_of,
    later_attempt,
    may_begin,
    observation_of,
    report_of,
    request_document,
    request_name,
    request_note,
)

MADE = "2026-01-05T00:00:00Z"


def operation(member="c1", attempt=1, run="rollout", **target):
    wanted = Target(UpgradeType.FULL, "1.31.2", **target)
    return Operation(f"uid/{member}/{attempt}", run, member, "handoff", attempt, wanted)


def request(member="c1", made=MADE, name="q", **status):
    about = {"name": name, "creationTimestamp": made}
    return {"metadata": about, "spec": {"memberName": member, "operationID": f"uid/{member}/1"}, "status": status}


def test_a_request_says_all_that_an_upgrader_needs():
    found = request_document(operation(images={"windows": "9", "linux": "110"}))
    assert found["spec"] == {
        "operationID": "uid/c1/1",
        "runName": "rollout",
        "memberName": "c1",
        "upgradeType": "Full",
        "kubernetesVersion": "1.31.2",
        "nodeImages": [{"family": "linux", "version": "110"}, {"family": "windows", "version": "9"}],
        "dryRun": False,
        "cancelRequested": False,
    }
    assert found["metadata"]["labels"] == {
        "harbormaster.dev/member-cluster": "c1",
        "harbormaster.dev/upgrader": "handoff",
    }
    (owner,) = found["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("ClusterUpgradeRun", "rollout", "uid")


@pytest.mark.parametrize("member", ["c1", "c" * 63, "c" * 100, "east.example.com", "a-" * 30 + "a"])
def test_names_of_requests_are_names_of_objects(member):
    name = request_name(operation(member))
    assert len(name) <= 63
    assert name.replace("-", "").isalnum()
    assert not name.endswith("-")


@pytest.mark.parametrize(
    ("asked", "known", "latest"),
    [
        pytest.param("uid/c1/1", [], 0, id="none"),
        pytest.param("uid/c1/1", ["uid/c1/1"], 0, id="itself"),
        pytest.param("uid/c1/1", ["uid/c1/10", "uid/c1/2"], 10, id="the-latest"),
        pytest.param("uid/c1/10", ["uid/c1/9"], 0, id="numbers-not-text"),
        pytest.param("uid/c1/1", ["uid/c2/2", "other/c1/2", "uid/c11/2"], 0, id="other-members-and-runs"),
        pytest.param("uid/c1/1", ["uid/c1/x", "uid/c1/", "uid/c1/²", ""], 0, id="no-numbers"),
        pytest.param("uid/c1/x", ["uid/c1/2"], 0, id="asked-for-no-number"),
    ],
)
def test_the_attempt_that_followed(asked, known, latest):
    assert later_attempt(asked, [{"spec": {"operationID": each}} for each in known]) == latest


def test_operations_have_requests_of_their_own():
    names = {request_name(operation(member, attempt)) for member in ("a", "a-1", "b" * 80) for attempt in (1, 11)}
    assert len(names) == 6
    assert request_name(operation()) == request_name(operation())


def test_a_label_holds_no_longer_name_than_it_may():
    assert "harbormaster.dev/member-cluster" not in request_document(operation("c" * 64))["metadata"]["labels"]


@pytest.mark.parametrize(
    ("phase", "state"),
    [
        (None, OperationState.ACCEPTED),
        ("Accepted", OperationState.ACCEPTED),
        ("InProgress", OperationState.IN_PROGRESS),
        ("Succeeded", OperationState.SUCCEEDED),
        ("Failed", OperationState.FAILED),
        ("Cancelled", OperationState.CANCELLED),
    ],
)
def test_the_phase_says_how_far_an_operation_is(phase, state):
    found = observation_of(request(**({"phase": phase} if phase else {})))
    assert (found.state, found.unclaimed) == (state, phase is None)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        pytest.param(
            {"error": {"code": "Quota", "message": "full"}}, UpgradeError(code="Quota", message="full"), id="error"
        ),
        pytest.param({"message": "no"}, UpgradeError(message="no"), id="message"),
        pytest.param({"error": {"code": "", "message": ""}}, None, id="empty"),
    ],
)
def test_why_an_upgrade_has_failed(status, error):
    assert observation_of(request(phase="Failed", **status)).error == error


@pytest.mark.parametrize(
    "status",
    [{"phase": "Perhaps"}, {"progressPercent": 900}, {"pools": "many"}, {"finishedTime": "0001-01-01T00:00:00+14:00"}],
)
def test_a_status_that_cannot_be_read_says_that_it_goes_on(status):
    assert observation_of(request(**status)).state is OperationState.IN_PROGRESS


def test_a_request_of_the_same_name_may_be_for_another_operation():
    assert is_of(request(), "uid/c1/1")
    assert not is_of(request(), "other/c1/1")


@pytest.mark.parametrize(
    ("status", "after", "reason"),
    [
        pytest.param({}, "00:14:59", None, id="not-yet"),
        pytest.param({}, "00:15:00", "HandoffNotAccepted", id="not-accepted"),
        pytest.param({"phase": "Accepted"}, "05:00:00", None, id="no-heartbeats"),
        pytest.param({"phase": "InProgress", "heartbeatTime": MADE}, "00:29:59", None, id="alive"),
        pytest.param({"phase": "InProgress", "heartbeatTime": MADE}, "00:30:00", "HandoffStale", id="stale"),
        pytest.param({"phase": "Succeeded", "heartbeatTime": MADE}, "05:00:00", None, id="over"),
        pytest.param({"phase": "Perhaps"}, "00:00:00", "HandoffUnreadable", id="unreadable"),
        pytest.param(
            {"phase": "InProgress", "heartbeatTime": "9999-12-31T23:59:59Z"}, "05:00:00", None, id="year-9999"
        ),
        pytest.param(
            {"phase": "InProgress", "heartbeatTime": "0001-01-01T00:00:00Z"}, "05:00:00", "HandoffStale", id="year-1"
        ),
    ],
)
def test_what_people_should_know_of_a_request(status, after, reason):
    found = request_note(request(**status), parse_time(f"2026-01-05T{after}Z"))
    assert (found and found[0]) == reason


@pytest.mark.parametrize(
    ("spec", "may"),
    [
        pytest.param({}, True, id="without-a-deadline"),
        pytest.param({"deadline": "2026-01-05T00:00:01Z"}, True, id="before-its-deadline"),
        pytest.param({"deadline": MADE}, False, id="at-its-deadline"),
        pytest.param({"cancelRequested": True}, False, id="called-off"),
        pytest.param({"deadline": "soon", "cancelRequested": False}, True, id="a-deadline-that-cannot-be-read"),
    ],
)
def test_an_upgrader_may_begin_before_the_deadline_and_unless_somebody_calls_it_off(spec, may):
    assert may_begin({"spec": spec}, parse_time(MADE)) is may


@pytest.mark.parametrize(
    ("images", "asked"),
    [
        pytest.param([{"family": "linux", "version": "110"}], [("linux", "110")], id="one"),
        pytest.param([], [], id="none"),
        pytest.param([{"family": "linux"}], None, id="unreadable"),
    ],
)
def test_which_images_a_request_asks_for(images, asked):
    found = observation_of({"spec": {"nodeImages": images}, "status": {}}).asked
    assert (found and [(each.family, each.version) for each in found]) == (asked or found)
    assert (found is None) == (asked is None)


# What members run, as it was reported.


def observed(version, heartbeat=""):
    told = f',"heartbeatTime":"{heartbeat}"' if heartbeat else ""
    text = f'{{"controlPlaneVersion":"{version}"{told}}}'
    return {"metadata": {"annotations": {"harbormaster.dev/upgrade-observed": text}}}


@pytest.mark.parametrize(
    ("member", "requests", "version"),
    [
        pytest.param({"metadata": {}}, [], None, id="nobody-knows"),
        pytest.param(observed("1.30.4"), [], "1.30.4", id="annotation"),
        pytest.param(observed("1.30.4"), [request(controlPlaneVersion="1.31.2")], "1.31.2", id="request"),
        pytest.param(observed("1.30.4"), [request(phase="Accepted")], "1.30.4", id="request-that-does-not-say"),
        pytest.param(
            observed("1.31.3", "2026-01-06T00:00:00Z"),
            [request(controlPlaneVersion="1.31.2", heartbeatTime=MADE)],
            "1.31.3",
            id="annotation-that-is-newer",
        ),
        pytest.param(
            {"metadata": {}},
            [
                request(made="2026-01-06T00:00:00Z", controlPlaneVersion="1.32.0"),
                request(controlPlaneVersion="1.31.2", name="z"),
            ],
            "1.32.0",
            id="latest-request",
        ),
        pytest.param(
            {"metadata": {"annotations": {"harbormaster.dev/upgrade-observed": "{"}}}, [], None, id="unreadable"
        ),
        pytest.param({"metadata": {}}, [request(controlPlaneVersion=7)], None, id="unreadable-request"),
    ],
)
def test_what_was_reported_last_counts(member, requests, version):
    found = reported_inventory(member, requests)
    assert (None if found is None else found.version) == version


def test_a_report_reads_as_what_it_was_written_from():
    inventory = Inventory("1.31.2", (Pool("p", "1.31.2", "linux", "110", 3),))
    assert reported_inventory({"metadata": {}}, [request(**report_of(inventory))]) == inventory
