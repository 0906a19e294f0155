"""The settings of signing in: errors that name setting and value."""

from datetime import timedelta
from pathlib import Path

import pytest

from webhook.settings.environment import SettingsError
from webhook.settings.sign_in import SignInOptions, SignInSettings

GIVEN = {
    "oidc_issuer_url": "https://accounts.example.com",
    "oidc_client_id": "fleet",
    "oidc_client_secret_file": "/client",
    "oidc_session_secret_file": "/sessions",
    "oidc_page_url": "https://Fleet.example.com:443/",
}


def test_nobody_signs_in_unless_a_provider_is_named():
    assert SignInSettings.read({}).sign_in() is None


def test_every_setting_reaches_the_sign_in():
    more = {
        "oidc_ca": "/ca",
        "oidc_scopes": "openid, groups",
        "oidc_username_claim": "name",
        "oidc_username_prefix": "u:",
        "oidc_groups_claim": "roles",
        "oidc_groups_prefix": "g:",
        "oidc_name": "Example",
        "oidc_session_seconds": "60",
    }
    assert SignInSettings.read({}, **GIVEN, **more).sign_in() == SignInOptions(
        "https://accounts.example.com",
        "fleet",
        Path("/client"),
        Path("/sessions"),
        "https://fleet.example.com",
        ("openid", "groups"),
        "name",
        "u:",
        "roles",
        "g:",
        "Example",
        timedelta(minutes=1),
        Path("/ca"),
    )


def test_the_page_may_have_an_address_for_a_host_and_a_port():
    for url in ("https://[::1]:8443", "https://10.0.0.7:8443"):
        assert SignInSettings.read({}, **GIVEN | {"oidc_page_url": f"{url}/"}).sign_in().page == url


def test_a_provider_without_a_name_is_called_by_its_host():
    assert SignInSettings.read({}, **GIVEN).sign_in().name == "accounts.example.com"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        pytest.param({"oidc_issuer_url": "accounts"}, "oidc_issuer_url: 'accounts'", id="no-url"),
        pytest.param({"oidc_issuer_url": "https://a/?b"}, "must not have a query", id="query"),
        pytest.param({"oidc_page_url": "http://fleet.example.com"}, "must be https://", id="page-without-tls"),
        pytest.param({"oidc_page_url": "https://fleet.example.com/ui"}, "must be https:// with a host", id="page-path"),
        pytest.param({"oidc_page_url": "https://me@fleet"}, "must be a URL such as", id="page-user"),
        pytest.param({"oidc_page_url": "https://flöte.example.com"}, "must be https:// with a host", id="page-letters"),
        pytest.param({"oidc_page_url": "https://fleet:"}, "must be https:// with a host", id="page-no-port"),
        pytest.param({"oidc_page_url": "https://fleet:0443"}, "must be https:// with a host", id="page-odd-port"),
        pytest.param({"oidc_page_url": "https://a\\b"}, "must be https:// with a host", id="page-backslash"),
        pytest.param({"oidc_session_secret_file": "/client"}, "must not be the file in", id="one-secret-for-both"),
        pytest.param({"oidc_scopes": "groups"}, "must contain openid", id="no-openid"),
        pytest.param({"oidc_scopes": 'openid,a"b'}, "invalid characters", id="no-scope"),
        *(
            pytest.param({f"oidc_{name}_prefix": "system:x"}, f"oidc_{name}_prefix: .* must not start", id=name)
            for name in ("username", "groups")
        ),
        pytest.param({"oidc_username_claim": ""}, "oidc_username_claim: ''", id="no-claim"),
        pytest.param({"oidc_session_seconds": "59"}, "oidc_session_seconds: '59'", id="too-short"),
        pytest.param({"oidc_session_seconds": "86401"}, "oidc_session_seconds: '86401'", id="too-long"),
        *(
            pytest.param({name: None}, f"oidc_issuer_url: must not be set without {name}", id=name)
            for name in ("oidc_client_id", "oidc_client_secret_file", "oidc_session_secret_file", "oidc_page_url")
        ),
    ],
)
def test_mistakes(given, message):
    with pytest.raises(SettingsError, match=message):
        SignInSettings.read({}, **(GIVEN | given))
