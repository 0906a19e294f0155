"""How values are spelled: what is written can be read again."""

import pytest

from webhook.settings.access import AccessSettings
from webhook.settings.extender import ExtenderSettings
from webhook.settings.listener import LimitSettings
from webhook.settings.values import format_value

TERM = {"weight": 40, "preference": {"labelSelector": {"matchLabels": {"gpu": "a", "zone": "b"}}}}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        pytest.param(None, "", id="unset"),
        pytest.param(True, "true", id="boolean"),
        pytest.param(15.0, "15", id="whole"),
        pytest.param(0.05, "0.05", id="fraction"),
        pytest.param(604800.0, "604800", id="long"),
        pytest.param(["a", "b"], "a,b", id="list"),
        pytest.param([], "", id="empty-list"),
        pytest.param("Warn", "Warn", id="text"),
    ],
)
def test_a_value_is_written_as_it_is_spelled(value, text):
    assert format_value(value) == text


@pytest.mark.parametrize(
    ("room", "name", "value"),
    [
        pytest.param(AccessSettings, "require_client_certificate", True, id="boolean"),
        pytest.param(AccessSettings, "admission_client_names", ["a", "b"], id="list"),
        pytest.param(LimitSettings, "body_seconds", 0.25, id="number"),
        pytest.param(ExtenderSettings, "extender_default_preferences", [TERM], id="json"),
    ],
)
def test_what_is_written_can_be_read(room, name, value):
    read = room.read({room.variable(name): format_value(value)})
    assert getattr(read, name) == getattr(room(**{name: value}), name)
