"""The settings of notifications: errors that name setting and value."""

from pathlib import Path

import pytest

from webhook.settings.environment import SettingsError
from webhook.settings.notifications import NotificationOptions, NotificationSettings

TOLD = {"notifications_url": "https://receiver.example.com/", "notifications_secret_file": "/secret"}


def test_nobody_is_told_unless_a_receiver_is_named():
    assert NotificationSettings.read({}).notifications() == NotificationOptions()


def test_every_setting_reaches_the_notifier():
    given = {**TOLD, "notifications_ca": "/ca", "notifications_reasons": "RunFailed, Warning/Failed"}
    assert NotificationSettings.read({}, **given, notifications_hub="quay").notifications() == NotificationOptions(
        TOLD["notifications_url"], Path("/secret"), Path("/ca"), frozenset({"RunFailed", "Warning/Failed"}), "quay"
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        pytest.param({"notifications_url": "receiver"}, "notifications_url: 'receiver'", id="no-url"),
        pytest.param({"notifications_url": "ftp://a/"}, "must be a URL such as https://receiver", id="scheme"),
        pytest.param({"notifications_url": "https://me@a/"}, "must be a URL such as", id="user"),
        pytest.param({**TOLD, "notifications_url": "https://a:99999/token"}, "must be a URL such as", id="port"),
        pytest.param({**TOLD, "notifications_url": "https://a:x/token"}, "must be a URL such as", id="no-port"),
        pytest.param({**TOLD, "notifications_url": "https://a b/token"}, "must be a URL such as", id="space"),
        pytest.param({**TOLD, "notifications_url": "https://a/\ntoken"}, "must be a URL such as", id="line-break"),
        pytest.param(
            {"notifications_url": "http://a/"}, "must not be set without notifications_secret_file", id="no-secret"
        ),
        pytest.param(
            {**TOLD, "notifications_reasons": ""}, "notifications_reasons: must not be empty", id="no-reasons"
        ),
        pytest.param({"notifications_reasons": "Error/Failed"}, "notifications_reasons: ", id="no-type"),
        pytest.param({"notifications_reasons": "run failed"}, "notifications_reasons: ", id="no-reason"),
    ],
)
def test_mistakes(given, message):
    with pytest.raises(SettingsError, match=message):
        NotificationSettings.read({}, **given)
