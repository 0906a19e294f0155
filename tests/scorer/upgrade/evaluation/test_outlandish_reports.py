"""What back ends report, however long and however strange: a run takes what it can use, and goes on."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from scorer.api.meta import dump_json
from scorer.api.upgrade.fields import NodeImageVersion, UpgradeError
from scorer.api.upgrade.run import UpgradeRunStatus
from scorer.upgrade.back_ends.interface import Inventory, Observation, OperationState, Pool, Rejected
from scorer.upgrade.evaluation.engine import advance
from scorer.upgrade.planning.durations import estimates
from scorer.upgrade.state.operations import members_to_observe
from scorer.upgrade.state.record import status_document
from scorer.upgrade.versions.comparison import is_version
from tests.scorer.upgrade.scenarios import BEGIN, at, member, prepared, stage, started

LARGEST_MEMBER = 600
LARGEST_EVENT = 1024
UID = "0b6ff2f6-7a3e-4a55-9a2f-1d3a1c5a1b11"
LONG = "x" * 400_000


def observed(hub, now, **observation):
    """Evaluate with what a back end says about the only operation."""
    (operation,) = members_to_observe(hub.run.status)
    return advance(hub.run, replace(hub.facts(now), observations={operation: Observation(**observation)}))


def only(step):
    ((found,),) = (group.members for stage in step.status.stages for group in stage.groups)
    return found


# Times.


@pytest.mark.parametrize("state", [OperationState.SUCCEEDED, OperationState.FAILED])
@pytest.mark.parametrize(
    ("finished", "ended"),
    [
        pytest.param(datetime.min.replace(tzinfo=timezone(timedelta(hours=14))), at("0s"), id="before-all-times"),
        pytest.param(datetime(1970, 1, 1, tzinfo=UTC), at("0s"), id="before-the-start"),
        pytest.param(at("5m"), at("5m"), id="meanwhile"),
        pytest.param(at("2h"), at("10m"), id="later"),
        pytest.param(datetime.max.replace(tzinfo=timezone(-timedelta(hours=14))), at("10m"), id="after-all-times"),
        pytest.param(None, at("10m"), id="not-said"),
    ],
)
def test_an_upgrade_ends_neither_before_its_start_nor_later_than_now(state, finished, ended):
    hub, _ = started(member("a"))
    inventory = Inventory("1.31.2", (Pool("np1", "1.31.2"),))
    step = observed(hub, at("10m"), state=state, finished_at=finished, inventory=inventory)
    assert only(step).completion_time == ended
    assert UpgradeRunStatus.read(status_document(step.status)) == step.status


def test_a_clock_that_is_put_back_makes_no_end_in_the_future():
    hub, _ = started(member("a"))
    now = BEGIN - timedelta(hours=1)
    assert only(observed(hub, now, state=OperationState.FAILED, finished_at=at("5m"))).completion_time == now


# Lengths.


def large(step):
    """Return how many bytes a member and the longest event take."""
    (found,) = status_document(step.status)["stages"][0]["groups"][0]["members"]
    return len(dump_json(found)), max((len(each.message.encode()) for each in step.events), default=0)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(
            {"observations": Observation(OperationState.FAILED, UpgradeError(code=LONG, message=LONG))}, id="error"
        ),
        pytest.param({"rejections": Rejected(LONG, LONG)}, id="refusal"),
        pytest.param({"rejections": Rejected(LONG, "", retryable=True)}, id="refusal-for-now"),
        pytest.param(
            {"observations": Observation(OperationState.SUCCEEDED, inventory=Inventory(f"1.30.4-{LONG}"))}, id="version"
        ),
        pytest.param(
            {
                "observations": Observation(
                    OperationState.SUCCEEDED, inventory=Inventory("1.31.2", (Pool(LONG, "1.30.4"),))
                )
            },
            id="pool",
        ),
    ],
)
def test_what_a_back_end_says_is_cut_to_what_a_status_has_room_for(given):
    name = "production-westeurope-payments"
    hub = prepared(member(name), start="", spec={"state": "Run"}).hub
    hub.run = hub.run.model_copy(update={"metadata": hub.run.metadata.model_copy(update={"uid": UID})})
    hub.evaluate(BEGIN)
    (operation,) = members_to_observe(hub.run.status)
    facts = replace(hub.facts(at("10m")), **{key: {operation: value} for key, value in given.items()})
    step = advance(hub.run, facts)
    assert only(step).state in ("Failed", "Pending")
    of_member, of_event = large(step)
    assert of_member < LARGEST_MEMBER
    assert of_event <= LARGEST_EVENT
    assert len(dump_json(status_document(step.status))) < 5000


@pytest.mark.parametrize("version", [LONG, f"1.30.4-{LONG}"])
def test_a_version_that_is_too_long_is_none(version):
    assert not is_version(version)
    hub = prepared(member("a")).hub
    hub.members["a"] = replace(hub.members["a"], inventory=Inventory(version))
    step = advance(hub.run.model_copy(), hub.facts(BEGIN))
    assert len(dump_json(status_document(step.status))) < 5000


def test_an_upgrade_of_images_records_no_more_of_a_version_than_there_is_room_for():
    published = {"regions": {"r1": {"images": {"linux": ["110"]}}}}
    hub = prepared(
        member("a"), upgrade={"type": "NodeImageOnly"}, catalog=published, start="", spec={"state": "Run"}
    ).hub
    known = hub.members["a"]
    hub.members["a"] = replace(known, inventory=replace(known.inventory, version=f"1.30.4-{LONG}"))
    found = only(hub.evaluate(BEGIN).step)
    assert (found.state, len(found.from_version)) == ("Running", 64)


def test_what_cannot_be_shown_is_replaced():
    hub, _ = started(member("a"))
    error = UpgradeError(code="Bad\x1b[2J", message="line\n\ud800 two")
    found = only(observed(hub, at("10m"), state=OperationState.FAILED, error=error))
    assert (found.reason, found.message) == ("Bad\ufffd[2J", "line\ufffd\ufffd two")


@pytest.mark.parametrize("nodes", [-(10**18), 10**18])
def test_a_pool_of_any_size_has_an_estimate(nodes):
    known = prepared(member("a")).hub.members["a"]
    huge = replace(known, inventory=Inventory("1.30.4", (Pool("p", nodes=nodes), Pool("q", nodes=nodes))))
    found = estimates((), {"a": huge}, prepared().hub.run.spec.upgrade.type)["a"]
    assert timedelta() < found.p50 <= found.p90


# Images.


IMAGES = {"type": "NodeImageOnly"}


def linux(*versions):
    return {"regions": {"r1": {"images": {"linux": list(versions)}}}}


@pytest.mark.parametrize(
    ("asked", "image", "state"),
    [
        pytest.param("110", "100", "Failed", id="not-done"),
        pytest.param("110", "110", "Completed", id="done"),
        pytest.param("110", "115", "Completed", id="later-than-asked"),
        pytest.param(None, "100", "Failed", id="not-done-by-the-catalog"),
        pytest.param(None, "120", "Completed", id="done-by-the-catalog"),
        pytest.param("110", "", "Failed", id="not-told"),
    ],
)
def test_the_newest_image_is_verified_by_what_was_asked_for(asked, image, state):
    """A version that is published while the upgrade goes on is not missing."""
    hub, _ = started(member("a"), upgrade=IMAGES, catalog=linux("100", "110"))
    hub.catalog = prepared(catalog=linux("100", "110", "120")).hub.catalog
    step = observed(
        hub,
        at("10m"),
        state=OperationState.SUCCEEDED,
        inventory=Inventory("1.30.4", (Pool("np1", "1.30.4", "linux", image),)),
        asked=None if asked is None else (NodeImageVersion(family="linux", version=asked),),
    )
    assert (only(step).state, only(step).reason) == (state, "VerificationFailed" if state == "Failed" else "")


@pytest.mark.parametrize(
    ("pools", "state"),
    [
        pytest.param([("np1", "")], "Completed", id="never-told"),
        pytest.param([("np1", ""), ("np2", "1.30.4")], "Failed", id="one-is-known-to-be-behind"),
        pytest.param([("np1", "1.31.2"), ("np2", "")], "Completed", id="some-told"),
    ],
)
def test_a_pool_whose_version_nobody_tells_is_no_failure(pools, state):
    hub, _ = started(member("a"))
    inventory = Inventory("1.31.2", tuple(Pool(*each) for each in pools))
    assert only(observed(hub, at("10m"), state=OperationState.SUCCEEDED, inventory=inventory)).state == state


def test_an_upgrade_is_asked_for_what_is_behind_alone():
    pools = [{"name": "new", "image": "300"}, {"name": "old", "family": "windows", "image": "1"}]
    published = {"regions": {"r1": {"images": {"linux": ["200"], "windows": ["2"]}}}}
    _, moment = started(member("a", pools=pools), catalog=published, stages=[stage("s", "g")])
    (action,) = moment.step.actions
    assert action.operation.target.images == {"windows": "2"}
