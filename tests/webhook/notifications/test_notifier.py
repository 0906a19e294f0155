"""How notifications are sent: to whom, of what, how often, and until when."""

import asyncio

import pytest

from scorer.api.event import Event
from tests.waiting import until
from tests.webhook.notifications.receiver import (
    PLACEMENT,
    SECRET,
    STALLED,
    Teller,
    listening,
    new_authority,
    tls_of,
)
from webhook.access.signature import SIGNATURE, is_signed
from webhook.notifications import notifier
from webhook.settings.environment import SettingsError

NOBODY = "http://127.0.0.1:9/"


async def test_a_receiver_is_told_once_in_a_body_that_is_signed(tmp_path):
    async with listening() as receiver:
        teller = Teller(tmp_path, receiver.url)
        async with teller.running():
            teller.tell()
            teller.tell()
            await teller.counts("sent")
        [(headers, body)] = receiver.heard
    assert is_signed([SECRET], body, headers[SIGNATURE])
    [told] = receiver.bodies
    assert told == {
        "apiVersion": "notifications.harbormaster.dev/v1",
        "kind": "Notification",
        "id": told["id"],
        "time": "2030-01-01T12:00:00Z",
        "sentAt": "2030-01-01T12:00:00Z",
        "severity": "Warning",
        "reason": "PlacementRolloutStalled",
        "message": "nothing has moved for 10 minutes",
        "object": {
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
            "kind": "ClusterResourcePlacement",
            "name": "web",
            "namespace": "",
            "uid": "u-1",
        },
        "source": {"hub": "quay", "namespace": "harbormaster-system", "instance": "pod-0"},
    }


@pytest.mark.parametrize(
    ("event", "sent"),
    [
        pytest.param(Event("ApprovalNeeded", "gate g is waited for"), True, id="named"),
        pytest.param(Event("ClustersPicked", "a, b"), False, id="not-named"),
        pytest.param(Event("DisruptionBlocked", "none for a day", "Warning"), True, id="warning-that-is-named"),
        pytest.param(Event("DisruptionBlocked", "none for now"), False, id="of-the-other-type"),
    ],
)
async def test_what_is_sent(tmp_path, event, sent):
    teller = Teller(tmp_path, NOBODY)
    teller.tell(event)
    assert teller.waiting == sent


@pytest.mark.parametrize("status", [408, 425, 429, 500, 503])
async def test_what_a_receiver_cannot_take_now_is_sent_again_with_the_same_id(tmp_path, status):
    async with listening(status, status) as receiver:
        teller = Teller(tmp_path, receiver.url)
        async with teller.running():
            teller.tell()
            await teller.counts("sent")
    assert len({body["id"] for body in receiver.bodies}) == 1
    assert (len(receiver.bodies), teller.counted("failed"), teller.waiting) == (3, 2, 0)


@pytest.mark.parametrize("status", [301, 307, 308, 400, 401, 404, 410])
async def test_what_a_receiver_refuses_is_not_sent_again_and_keeps_nothing_back(tmp_path, status):
    async with listening(status) as receiver:
        teller = Teller(tmp_path, receiver.url)
        async with teller.running():
            teller.tell()
            teller.tell(Event("MemberClusterReporting", "waits"))
            await teller.counts("sent")
    assert [body["reason"] for body in receiver.bodies] == ["PlacementRolloutStalled", "MemberClusterReporting"]
    assert (teller.counted("refused"), teller.counted("failed"), receiver.other_paths) == (1, 0, [])


@pytest.mark.parametrize("ends", [False, True])
async def test_one_that_the_receiver_always_fails_at_does_not_keep_the_others_back(tmp_path, ends):
    async with listening() as receiver:
        receiver.fails_at, receiver.ends_at_it = "ApprovalNeeded", ends
        teller = Teller(tmp_path, receiver.url)
        teller.tell(Event("ApprovalNeeded", "the receiver has a bug here"))
        for number in range(3):
            teller.tell(Event("PlacementRolloutStalled", str(number), "Warning"))
        async with teller.running():
            await teller.counts("sent", 3)
            assert teller.waiting == 1
            told = [body["message"] for body in receiver.bodies if body["reason"] != "ApprovalNeeded"]
            assert told == ["0", "1", "2"]
            receiver.fails_at = ""
            await teller.counts("sent", 4)


async def test_a_receiver_that_is_down_for_a_while_hears_of_everything_in_order(tmp_path):
    async with listening(*[503] * 20) as receiver:
        teller = Teller(tmp_path, receiver.url)
        for number in range(4):
            teller.tell(Event("PlacementRolloutStalled", str(number), "Warning"))
        async with teller.running():
            await teller.counts("sent", 4)
    assert [body["message"] for body in receiver.bodies[20:]] == ["0", "1", "2", "3"]


async def test_a_receiver_that_does_not_answer_is_told_again(tmp_path):
    async with listening() as receiver:
        receiver.hangs = True
        teller = Teller(tmp_path, receiver.url, post_seconds=0.2)
        async with teller.running():
            teller.tell()
            await teller.counts("failed")
            receiver.hangs = False
            await teller.counts("sent")


async def test_a_receiver_that_is_not_there_is_told_when_it_is(tmp_path):
    teller = Teller(tmp_path, NOBODY)
    async with teller.running():
        teller.tell()
        await teller.counts("failed", 3)
        assert teller.waiting == 1
        teller.later(hours=1, seconds=1)
        await teller.counts("expired")
        assert teller.waiting == 0


async def test_what_is_told_when_something_older_was_too_old_is_sent(tmp_path):
    async with listening() as receiver:
        teller = Teller(tmp_path, receiver.url)
        teller.tell()
        teller.later(minutes=61)
        teller.tell()
        async with teller.running():
            await teller.counts("sent")
    assert [body["time"] for body in receiver.bodies] == ["2030-01-01T13:01:00Z"]


async def test_a_huge_answer_is_not_read(tmp_path):
    async with listening() as receiver:
        receiver.largest = 16 * 1024**2
        teller = Teller(tmp_path, receiver.url)
        async with teller.running():
            teller.tell()
            await teller.counts("sent")


async def test_too_many_are_dropped_and_counted(tmp_path):
    teller = Teller(tmp_path, NOBODY)
    for number in range(notifier.MOST_WAITING + 5):
        teller.tell(Event("ApprovalNeeded", f"gate {number}"))
    assert (teller.waiting, teller.counted("dropped")) == (notifier.MOST_WAITING, 5)


async def test_the_end_of_a_process_sends_what_waits(tmp_path):
    async with listening(503) as receiver:
        teller = Teller(tmp_path, receiver.url, pauses=(60.0, 60.0))
        async with teller.running():
            teller.tell()
            await teller.counts("failed")
        assert (teller.counted("sent"), teller.counted("dropped")) == (1, 0)


async def test_at_the_end_of_a_process_one_failure_does_not_keep_the_others_back(tmp_path):
    async with listening(503) as receiver:
        receiver.fails_at = "ApprovalNeeded"
        teller = Teller(tmp_path, receiver.url, pauses=(60.0, 60.0))
        async with teller.running():
            teller.tell(Event("ApprovalNeeded", "the receiver has a bug here"))
            await teller.counts("failed")
            for number in range(3):
                teller.tell(Event("PlacementRolloutStalled", str(number), "Warning"))
        assert (teller.counted("sent"), teller.counted("failed"), teller.counted("dropped")) == (3, 2, 1)
        assert teller.waiting == 0


async def test_the_end_of_a_process_waits_little_for_a_receiver_that_hangs(tmp_path, monkeypatch):
    monkeypatch.setattr(notifier, "LAST_SECONDS", 0.05)
    async with listening() as receiver:
        receiver.hangs = True
        teller = Teller(tmp_path, receiver.url)
        async with teller.running() as task:
            teller.tell()
            await until(lambda: receiver.heard)
        assert task.cancelled()
        assert (teller.counted("dropped"), teller.waiting) == (1, 0)


async def test_only_a_receiver_of_the_authority_that_is_named_is_told(tmp_path):
    known, other = new_authority(), new_authority()
    ca = tmp_path / "ca.crt"
    async with listening(tls=tls_of(known, tmp_path)) as receiver:
        ca.write_bytes(other.pem)
        teller = Teller(tmp_path, receiver.url, ca=ca)
        async with teller.running():
            teller.tell()
            await teller.counts("failed")
            assert receiver.heard == []
            ca.write_bytes(known.pem)
            await teller.counts("sent")


async def test_a_secret_that_is_renewed_signs_from_then_on(tmp_path):
    async with listening() as receiver:
        teller = Teller(tmp_path, receiver.url)
        teller.secret_file.write_text("y" * 40 + "\n" + SECRET + "\n")
        async with teller.running():
            teller.tell()
            await teller.counts("sent")
        [(headers, body)] = receiver.heard
    assert is_signed(["y" * 40], body, headers[SIGNATURE])


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        pytest.param("secret", "short\n", "NOTIFICATIONS_SECRET_FILE.*line 1", id="secret"),
        pytest.param("ca.crt", "no certificate", "NOTIFICATIONS_CA.*must contain certificates in PEM", id="authority"),
    ],
)
async def test_files_that_cannot_be_used_are_found_at_the_start(tmp_path, file, content, message):
    ca = tmp_path / "ca.crt"
    ca.write_bytes(new_authority().pem)
    teller = Teller(tmp_path, "https://localhost:9/", ca=ca)
    await teller.notifier.check()
    (tmp_path / file).write_text(content)
    with pytest.raises(SettingsError, match=message):
        await teller.notifier.check()


async def test_one_that_cannot_be_written_ends_no_other(tmp_path):
    async with listening() as receiver:
        teller = Teller(tmp_path, receiver.url)
        async with teller.running():
            teller.tell(STALLED, {**PLACEMENT, "metadata": {"name": object(), "uid": ""}})
            teller.tell()
            await teller.counts("sent")
        assert teller.counted("refused") == 1


async def test_nothing_is_sent_where_there_is_no_receiver(tmp_path):
    teller = Teller(tmp_path, "")
    async with teller.running():
        teller.tell()
        await asyncio.sleep(0)
        assert teller.waiting == 0
