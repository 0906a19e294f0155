"""The settings of the extender: preferences, which are JSON in the environment."""

import json

import pytest

from webhook.settings.environment import SettingsError
from webhook.settings.extender import ExtenderSettings


def test_preferences_are_json_in_the_environment():
    term = {"weight": 40, "preference": {"labelSelector": {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}}}
    settings = ExtenderSettings.read({"HARBORMASTER_EXTENDER_DEFAULT_PREFERENCES": json.dumps([term])})
    assert settings.extender_default_preferences[0].weight == 40


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("[{", "must be JSON", id="no-json"),
        pytest.param('{"weight": 1}', "valid tuple", id="no-list"),
        pytest.param('[{"weight": 101, "preference": {}}]', r"\[0\].weight", id="out-of-bounds"),
        pytest.param(
            '[{"weight": 1, "preference": {"propertySorter": {"name": "cpu", "sortOrder": "Up"}}}]',
            "'Up' is neither Ascending nor Descending",
            id="cannot-be-evaluated",
        ),
    ],
)
def test_preferences_that_cannot_be_used_are_named(text, told):
    with pytest.raises(SettingsError, match=told) as refused:
        ExtenderSettings.read({"HARBORMASTER_EXTENDER_DEFAULT_PREFERENCES": text})
    assert str(refused.value).startswith("HARBORMASTER_EXTENDER_DEFAULT_PREFERENCES")
