"""Settings: defaults, sources, and errors that name the setting and the value."""

import json
from pathlib import Path

import pytest

from webhook.settings.service import Settings, SettingsError


def test_the_defaults_are_those_of_the_reference():
    settings = Settings.read({})
    assert (settings.https_port, settings.http_port) == (9443, 8081)
    assert (settings.admission_body_bytes, settings.api_body_bytes) == (8 * 1024**2, 1024**2)
    assert (settings.body_seconds, settings.handshake_seconds, settings.keepalive_seconds) == (5, 3, 120)
    assert (settings.drain_seconds, settings.drain_limit_seconds, settings.shutdown_seconds) == (15, 100, 10)
    assert (settings.admission_in_flight, settings.connections) == (100, 1000)


def test_what_is_given_wins_over_the_environment_and_that_over_the_default():
    environment = {"HARBORMASTER_HTTPS_PORT": "1", "HARBORMASTER_HTTP_PORT": "2", "HARBORMASTER_DATA": "/srv/hm"}
    settings = Settings.read(environment, https_port=3, host=None)
    assert (settings.https_port, settings.http_port, settings.host) == (3, 2, "127.0.0.1")
    assert settings.data == Path("/srv/hm")


def test_lists_are_separated_by_commas():
    settings = Settings.read({"HARBORMASTER_DNS_NAMES": "harbormaster.ns.svc, localhost,"})
    assert settings.dns_names == ("harbormaster.ns.svc", "localhost")


def test_variables_of_kubernetes_and_of_others_are_left_alone():
    Settings.read({"HARBORMASTER_PORT": "tcp://10.0.0.1:443", "HARBORMASTER_SERVICE_HOST": "10.0.0.1", "PATH": "/bin"})


@pytest.mark.parametrize(
    ("environment", "given", "words"),
    [
        pytest.param({"HARBORMASTER_HTTPS_PORT": "x"}, {}, ["HARBORMASTER_HTTPS_PORT", "'x'"], id="no-number"),
        pytest.param({"HARBORMASTER_HTTP_PORT": "65536"}, {}, ["HARBORMASTER_HTTP_PORT", "65536"], id="no-port"),
        pytest.param({}, {"https_port": -1}, ["https_port", "-1"], id="negative"),
        pytest.param({}, {"log_format": "xml"}, ["log_format", "'xml'", "'json'"], id="not-in-the-list"),
        pytest.param({}, {"body_seconds": float("nan")}, ["body_seconds", "nan"], id="nan"),
        pytest.param({}, {"requests_per_second": float("inf")}, ["requests_per_second", "inf"], id="endless-rate"),
        pytest.param({}, {"failed_logins_per_second": 0}, ["failed_logins_per_second", "0"], id="no-rate"),
        pytest.param({}, {"request_burst": 0}, ["request_burst", "0"], id="no-burst"),
        pytest.param({}, {"https_prt": 1}, ["https_prt", "no such setting"], id="typo"),
        pytest.param({}, {"page_on_http": True, "http_host": "0.0.0.0"}, ["http_host", "0.0.0.0"], id="page-for-all"),
        pytest.param({}, {"drain_limit_seconds": 5}, ["drain_limit_seconds", "5", "15"], id="limit-below-grace"),
    ],
)
def test_a_wrong_value_is_named(environment, given, words):
    with pytest.raises(SettingsError) as caught:
        Settings.read(environment, **given)
    text = str(caught.value)
    assert all(word in text for word in words), text
    assert "\n" not in text


def test_settings_cannot_be_changed():
    with pytest.raises(ValueError):
        Settings().https_port = 1


def test_preferences_are_json_in_the_environment():
    term = {"weight": 40, "preference": {"labelSelector": {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}}}
    settings = Settings.read({"HARBORMASTER_EXTENDER_DEFAULT_PREFERENCES": json.dumps([term])})
    assert settings.extender_default_preferences[0].weight == 40


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("[{", "is not JSON", id="no-json"),
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
        Settings.read({"HARBORMASTER_EXTENDER_DEFAULT_PREFERENCES": text})
    assert str(refused.value).startswith("HARBORMASTER_EXTENDER_DEFAULT_PREFERENCES")


def test_the_loop_is_its_account_or_the_user_that_is_named():
    account = "system:serviceaccount:quay:pilot"
    variables = {"HARBORMASTER_NAMESPACE": "quay", "HARBORMASTER_SERVICE_ACCOUNT": "pilot"}
    assert Settings.read(variables).admission().controllers == {account}
    assert Settings.read(variables, loop_user="hub-loop").admission().controllers == {"hub-loop"}
    for name in ("system:admin", "a\nb"):
        with pytest.raises(SettingsError, match="none of the system"):
            Settings.read(variables, loop_user=name)
