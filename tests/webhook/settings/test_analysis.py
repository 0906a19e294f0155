"""The settings of analysis: names of endpoints and kinds, none by default."""

from pathlib import Path

import pytest

from webhook.settings.analysis import AnalysisSettings
from webhook.settings.environment import SettingsError
from webhook.settings.loop import HubLoopSettings

ENDPOINTS, KINDS = "HARBORMASTER_ANALYSIS_ENDPOINTS", "HARBORMASTER_ANALYSIS_KINDS"
NAMESPACES = "HARBORMASTER_ANALYSIS_ENDPOINT_NAMESPACES"


def read(**environment):
    return AnalysisSettings.read(environment).analysis()


def test_nothing_may_be_asked_by_default():
    assert not read().is_on
    assert read(**{KINDS: "jobs.batch"}).is_on
    assert read(**{ENDPOINTS: "main=http://prometheus:9090"}).is_on


def test_the_loop_gets_what_the_settings_name():
    options = HubLoopSettings.read({ENDPOINTS: "main=http://a", KINDS: "jobs.batch"}).loop().analysis
    assert (dict(options.endpoints), options.kinds) == ({"main": "http://a"}, {"jobs.batch"})


def test_endpoints_have_names_and_may_be_below_a_path():
    options = read(**{ENDPOINTS: "main=http://prometheus:9090/, other-2=https://[::1]/thanos/"})
    assert dict(options.endpoints) == {"main": "http://prometheus:9090", "other-2": "https://[::1]/thanos"}


def test_a_scheme_in_capitals_is_the_same_scheme():
    assert dict(read(**{ENDPOINTS: "main=HTTPS://prometheus"}).endpoints) == {"main": "https://prometheus"}
    with pytest.raises(SettingsError, match="must not be set when an endpoint in analysis_endpoints is not https: 'b'"):
        read(**{ENDPOINTS: "b=HTTP://b", "HARBORMASTER_ANALYSIS_TOKEN_FILE": "/token"})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("http://prometheus:9090", "must be NAME=URL", id="no-name"),
        pytest.param("Main=http://a", "must be NAME=URL", id="upper-case"),
        pytest.param("a=http://a,a=http://b", "is listed twice", id="twice"),
        pytest.param("a=ftp://a", "must start with http:// or https://", id="scheme"),
        pytest.param("a=http://", "must start with http:// or https:// and a host", id="no-host"),
        pytest.param("a=http://a:b", "must be a URL", id="port"),
        pytest.param("a=http://me:secret@a", "must not contain credentials", id="credentials"),
        pytest.param("a=http://a?query=up", "must not have a query or a fragment", id="query"),
    ],
)
def test_an_endpoint_that_cannot_be_asked_is_named(text, told):
    with pytest.raises(SettingsError, match=ENDPOINTS) as caught:
        read(**{ENDPOINTS: text})
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [("Job", "must be PLURAL.GROUP"), ("batch/v1/Job", "must be PLURAL.GROUP"), ("secrets", "no conditions")],
)
def test_a_kind_that_cannot_be_looked_at_is_named(text, told):
    with pytest.raises(SettingsError, match=told):
        read(**{KINDS: text})


def test_a_token_goes_to_no_endpoint_without_tls():
    file = {"HARBORMASTER_ANALYSIS_TOKEN_FILE": "/token"}
    assert read(**{ENDPOINTS: "a=https://a", **file}).token_file == Path("/token")
    with pytest.raises(SettingsError, match="must not be set when an endpoint in analysis_endpoints is not https: 'b'"):
        read(**{ENDPOINTS: "a=https://a,b=http://b", **file})


def test_an_endpoint_is_open_to_the_namespaces_that_are_named_for_it():
    options = read(**{ENDPOINTS: "a=http://a,b=http://b", NAMESPACES: "a=shop,a=dock,b=*"})
    assert options.namespaces == {"a": {"shop", "dock"}, "b": {"*"}}
    asked = [(name, home) for name in "ab" for home in ("", "shop", "sea") if options.may_query(name, home)]
    assert asked == [("a", ""), ("a", "shop"), ("b", ""), ("b", "shop"), ("b", "sea")]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("shop", "'shop': must be NAME=NAMESPACE", id="no-name"),
        pytest.param("a=", "'a': '': must be a namespace", id="empty"),
        pytest.param("a=Shop", "'a': 'Shop': must be a namespace", id="upper-case"),
        pytest.param("b=shop", "'b': must be the name of an endpoint in analysis_endpoints", id="unknown"),
    ],
)
def test_a_namespace_that_cannot_be_meant_is_named(text, told):
    with pytest.raises(SettingsError, match=r"(?i)analysis_endpoint_namespaces") as caught:
        read(**{ENDPOINTS: "a=http://a", NAMESPACES: text})
    assert told in str(caught.value)
