"""Reading settings: sources, spellings, and mistakes that name the setting and the value, all of them at once."""

from pathlib import Path

import pytest

from webhook.settings.agent import AgentSettings
from webhook.settings.environment import SettingsError
from webhook.settings.programs import DoctorSettings, RbacSettings, ServerSettings, ServeSettings, UpSettings


def test_what_is_given_wins_over_the_environment_and_that_over_the_default():
    environment = {"HARBORMASTER_HTTPS_PORT": "1", "HARBORMASTER_HTTP_PORT": "2", "HARBORMASTER_DATA": "/srv/hm"}
    settings = UpSettings.read(environment, https_port=3, host=None)
    assert (settings.https_port, settings.http_port, settings.host) == (3, 2, "127.0.0.1")
    assert settings.data == Path("/srv/hm")


def test_lists_are_separated_by_commas():
    settings = ServeSettings.read({"HARBORMASTER_DNS_NAMES": "harbormaster.ns.svc, localhost,"})
    assert settings.dns_names == ("harbormaster.ns.svc", "localhost")


def test_variables_of_kubernetes_and_of_others_are_left_alone():
    ServeSettings.read(
        {"HARBORMASTER_PORT": "tcp://10.0.0.1:443", "HARBORMASTER_SERVICE_HOST": "10.0.0.1", "PATH": "/bin"}
    )


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
        pytest.param({}, {"https_prt": 1}, ["https_prt", "unknown setting"], id="typo"),
        pytest.param({}, {"page_on_http": True, "http_host": "0.0.0.0"}, ["http_host", "0.0.0.0"], id="page-for-all"),
        pytest.param({}, {"drain_limit_seconds": 5}, ["drain_limit_seconds", "5", "15"], id="limit-below-grace"),
    ],
)
def test_a_wrong_value_is_named(environment, given, words):
    with pytest.raises(SettingsError) as caught:
        ServeSettings.read(environment, **given)
    text = str(caught.value)
    assert all(word in text for word in words), text
    assert "\n" not in text


def test_settings_cannot_be_changed():
    with pytest.raises(ValueError):
        ServeSettings().https_port = 1


def test_a_program_minds_no_settings_but_its_own():
    environment = {"HARBORMASTER_HTTPS_PORT": "x", "HARBORMASTER_ENFORCE_BUDGETS": "perhaps"}
    assert AgentSettings.read(environment) == AgentSettings()


def test_an_option_must_be_a_setting_that_the_program_reads():
    with pytest.raises(SettingsError) as caught:
        AgentSettings.read({"HARBORMASTER_HTTP_PORT": "x"}, https_port=1, host=None)
    https_port, http_port = caught.value.mistakes
    assert https_port == "https_port: unknown setting"
    assert http_port.startswith("HARBORMASTER_HTTP_PORT: 'x': ")
    with pytest.raises(SettingsError, match="https_port: unknown setting"):
        AgentSettings.read({}, https_port=1)


@pytest.mark.parametrize(
    ("program", "variable", "value"),
    [
        pytest.param(RbacSettings, "HARBORMASTER_UPGRADERS", "cluster-api", id="rbac"),
        pytest.param(DoctorSettings, "HARBORMASTER_UPGRADERS", "cluster-api", id="doctor"),
        pytest.param(ServerSettings, "HARBORMASTER_DEFAULT_UPGRADER", "cluster-api", id="server"),
    ],
)
def test_a_setting_does_not_contradict_the_default_of_one_that_is_not_read(program, variable, value):
    program.read({variable: value})


def test_all_mistakes_are_found_at_once():
    environment = {
        "HARBORMASTER_HTTPS_PORT": "x",
        "HARBORMASTER_LOG_LEVEL": "loud",
        "HARBORMASTER_EXTENDER_DEFAULT_PREFERENCES": "[{",
        "HARBORMASTER_TLS_CERT": "tls.crt",
        "HARBORMASTER_ALLOWED_KINDS": "apps",
        "HARBORMASTER_BLOCKED_KINDS": "batch",
    }
    with pytest.raises(SettingsError) as caught:
        ServeSettings.read(environment, request_burst=0)
    assert {mistake.split(":")[0] for mistake in caught.value.mistakes} == {
        "HARBORMASTER_HTTPS_PORT",
        "HARBORMASTER_LOG_LEVEL",
        "HARBORMASTER_EXTENDER_DEFAULT_PREFERENCES",
        "request_burst",
        "tls_cert and tls_key",
        "allowed_kinds",
    }
    assert str(caught.value) == caught.value.mistakes[0]


def test_what_a_wrong_setting_would_contradict_is_not_known():
    environment = {"HARBORMASTER_DRAIN_SECONDS": "x", "HARBORMASTER_DRAIN_LIMIT_SECONDS": "5"}
    with pytest.raises(SettingsError) as caught:
        ServeSettings.read(environment)
    assert [mistake.split(":")[0] for mistake in caught.value.mistakes] == ["HARBORMASTER_DRAIN_SECONDS"]


def test_a_default_that_was_not_computed_is_no_mistake():
    """The data folder of `up` is computed from another setting, which is not done while any is wrong."""
    with pytest.raises(SettingsError) as caught:
        UpSettings.read({"HARBORMASTER_LOG_LEVEL": "loud"})
    assert [mistake.split(":")[0] for mistake in caught.value.mistakes] == ["HARBORMASTER_LOG_LEVEL"]


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        pytest.param("HARBORMASTER_IP_ADDRESSES", "::1,a", "'::1,a': 'a' must be an IP address", id="ip-address"),
        pytest.param("HARBORMASTER_DNS_NAMES", "a b", "'a b': 'a b' must be a DNS name", id="blank"),
        pytest.param("HARBORMASTER_DNS_NAMES", "x" * 300, f"'{'x' * 64}': '{'x' * 64}' must be a DNS name", id="long"),
        pytest.param("HARBORMASTER_DNS_NAMES", "ü", "'ü': 'ü' must be a DNS name", id="no-ascii"),
    ],
)
def test_names_that_no_certificate_can_have_are_refused_by_the_setting(variable, value, message):
    with pytest.raises(SettingsError) as caught:
        ServeSettings.read({variable: value})
    assert caught.value.mistakes == (f"{variable}: {message}",)


def test_a_wildcard_is_a_dns_name():
    assert ServeSettings.read({"HARBORMASTER_DNS_NAMES": "*.Example.com"}).dns_names == ("*.Example.com",)


def test_a_contradiction_repeats_no_more_of_a_value_than_a_wrong_value_does():
    with pytest.raises(SettingsError) as caught:
        UpSettings.read({"HARBORMASTER_HTTP_HOST": "9" * 5000})
    assert len(caught.value.mistakes[0]) < 300
