"""When it is told that a certificate is near its end, on a server whose clock the test moves."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from certs.authority import Authority
from certs.source import LeafFiles
from tests.waiting import until
from webhook.server.certificates import Certificates
from webhook.server.near_end import CertificateExpiryMonitor, Validity
from webhook.telemetry.metrics import Metrics

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
ABOUT = {"kind": "Secret"}


class Told:
    """Collects what is told."""

    def __init__(self):
        self.notes = []
        self.near_end = CertificateExpiryMonitor(lambda: ABOUT, self.record)

    def record(self, document, event):
        assert (document, event.reason, event.type) == (ABOUT, "CertificateNearEnd", "Warning")
        self.notes.append(event.message)

    def look(self, now=NOON, **days):
        """Look at certificates; given of each how many days it has left and how long it lives."""
        self.near_end.check(
            {
                role: Validity(NOON + timedelta(left - life), NOON + timedelta(left))
                for role, (left, life) in days.items()
            },
            now,
        )


@pytest.mark.parametrize(
    ("days", "told"),
    [
        pytest.param({"leaf": (2.1, 90)}, False, id="leaf"),
        pytest.param({"leaf": (1.9, 90)}, True, id="leaf-near-its-end"),
        pytest.param({"leaf": (0.4, 2)}, False, id="short-leaf"),
        pytest.param({"leaf": (0.3, 2)}, True, id="short-leaf-near-its-end"),
        pytest.param({"leaf": (-1, 90)}, True, id="leaf-that-has-ended"),
        pytest.param({"ca": (31, 365)}, False, id="authority"),
        pytest.param({"ca": (29, 365)}, True, id="authority-near-its-end"),
        pytest.param({"cross": (1, 365)}, False, id="what-vouches-for-an-authority"),
    ],
)
def test_what_is_told(days, told):
    found = Told()
    found.look(**days)
    assert bool(found.notes) == told


def test_it_is_told_once_a_day_and_in_one_event():
    told = Told()
    for hours in (0, 11, 12, 13, 36):
        told.look(NOON + timedelta(hours=hours), leaf=(1, 90), ca=(10, 365))
    assert len(told.notes) == 3
    assert told.notes[0] == (
        "the certificate of the server expires at 2030-01-02T12:00:00Z, and writes to harbormaster's kinds are then "
        "refused; the CA that signed the server certificate expires at 2030-01-11T12:00:00Z"
    )


def test_one_that_was_renewed_is_told_of_again_when_it_nears_its_end_again():
    told = Told()
    for left in (1, 60, 1):
        told.look(leaf=(left, 90))
    assert len(told.notes) == 2


async def test_a_server_of_files_tells_of_what_it_serves(tmp_path):
    leaf = Authority.new(NOON).issue(("localhost",), (), NOON, life=timedelta(days=30))
    for name, pem in (("crt", leaf.chain_pem), ("key", leaf.key_pem)):
        (tmp_path / name).write_bytes(pem)
    now, told = [NOON], Told()
    files = LeafFiles(tmp_path / "crt", tmp_path / "key", None)
    running = Certificates(files, None, Metrics(), lambda: now[0], 0.001, told.near_end)
    task = asyncio.create_task(running.run())
    await asyncio.sleep(0)
    assert told.notes == []
    now[0] += timedelta(days=29)
    await until(lambda: told.notes)
    task.cancel()
    await asyncio.wait([task])
