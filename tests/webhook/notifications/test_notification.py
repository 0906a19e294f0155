"""What counts as the same notification."""

from datetime import timedelta

import pytest

from scorer.api.event import Event
from tests.webhook.notifications.receiver import NOON, PLACEMENT, STALLED
from webhook.notifications.notification import notification_of


@pytest.mark.parametrize(
    ("document", "event", "seconds", "same"),
    [
        pytest.param(PLACEMENT, STALLED, 299, True, id="told-again-within-five-minutes"),
        pytest.param(PLACEMENT, STALLED, 300, False, id="later"),
        pytest.param(PLACEMENT, Event("ApprovalNeeded", STALLED.message), 0, False, id="another-reason"),
        pytest.param(PLACEMENT, Event(STALLED.reason, "other words"), 0, False, id="another-message"),
        pytest.param({**PLACEMENT, "metadata": {"name": "web", "uid": "u-2"}}, STALLED, 0, False, id="made-again"),
    ],
)
def test_what_has_the_same_id(document, event, seconds, same):
    first = notification_of(PLACEMENT, STALLED, NOON)
    assert (notification_of(document, event, NOON + timedelta(seconds=seconds)).id == first.id) == same


def test_a_message_is_as_long_as_that_of_an_event_and_has_no_control_characters():
    found = notification_of(PLACEMENT, Event("ApprovalNeeded", "\x1b[31m" + "ä" * 2000), NOON)
    assert len(found.message.encode()) <= 1024
    assert "\x1b" not in found.message
