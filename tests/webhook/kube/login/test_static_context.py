"""Contexts that are read without kubernetes-asyncio: the same login as by it, or none."""

import base64
import json
import ssl
from datetime import UTC, datetime

import pytest

from certs.authority import Authority
from webhook.kube.login.kubeconfig import _login, _read
from webhook.kube.login.static_context import read_plain

NOW = datetime.now(UTC)
AUTHORITY = Authority.new(NOW)
LEAF = AUTHORITY.issue(("me",), (), NOW)


def encoded(content):
    return base64.b64encode(content).decode()


@pytest.fixture
def write(tmp_path, monkeypatch):
    for name in ("HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "ca.crt").write_bytes(AUTHORITY.pem)
    (tmp_path / "me.crt").write_bytes(LEAF.chain_pem)
    (tmp_path / "me.key").write_bytes(LEAF.key_pem)

    def written(cluster, user, **more):
        document = {
            "clusters": [{"name": "c", "cluster": {"server": "https://hub:6443/", **cluster}}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        } | more
        path = tmp_path / "kubeconfig"
        path.write_text(json.dumps(document), encoding="utf-8")
        return path

    return written


def trusted(login):
    trust = login.trust
    assert isinstance(trust, ssl.SSLContext)
    return trust.verify_mode, trust.check_hostname, trust.verify_flags, trust.get_ca_certs()


@pytest.mark.parametrize(
    ("cluster", "user"),
    [
        pytest.param({"certificate-authority": "ca.crt"}, {"token": "t"}, id="authority-in-a-file"),
        pytest.param({"certificate-authority-data": encoded(AUTHORITY.pem)}, {"token": "t"}, id="authority-as-data"),
        pytest.param({"insecure-skip-tls-verify": True}, {}, id="unchecked"),
        pytest.param({"tls-server-name": "kubernetes", "proxy-url": "http://p:1"}, {}, id="name-and-proxy"),
        pytest.param({"server": "http://127.0.0.1:1"}, {"token": "t"}, id="plain-http"),
        pytest.param({}, {"client-certificate": "me.crt", "client-key": "me.key"}, id="certificate-in-files"),
        pytest.param(
            {},
            {"client-certificate-data": encoded(LEAF.chain_pem), "client-key-data": encoded(LEAF.key_pem)},
            id="certificate-as-data",
        ),
    ],
)
async def test_the_login_is_the_same(write, cluster, user):
    path = write(cluster, user)
    plain, theirs = read_plain(path, None), _login(await _read(path, None))
    assert plain is not None
    assert (plain.address, plain.proxy, plain.server_name) == (theirs.address, theirs.proxy, theirs.server_name)
    assert await plain.credentials() == await theirs.credentials()
    if plain.address.startswith("https:"):
        assert trusted(plain) == trusted(theirs)


@pytest.mark.parametrize(
    ("cluster", "user", "more"),
    [
        pytest.param({}, {"exec": {"command": "a"}}, {}, id="plugin"),
        pytest.param({}, {"auth-provider": {"name": "oidc"}}, {}, id="provider"),
        pytest.param({}, {"tokenFile": "t"}, {}, id="token-that-changes"),
        pytest.param({}, {"username": "a", "password": "b"}, {}, id="password"),
        pytest.param({"unheard-of": 1}, {}, {}, id="field"),
        pytest.param({"certificate-authority": "none.crt"}, {}, {}, id="no-such-file"),
        pytest.param({"certificate-authority-data": "!"}, {}, {}, id="no-base64"),
        pytest.param({}, {"client-key": "me.key"}, {}, id="key-without-certificate"),
        pytest.param({}, {"client-certificate": "me.crt"}, {}, id="certificate-without-key"),
        pytest.param({}, {}, {"current-context": "y"}, id="no-such-context"),
        pytest.param({}, {}, {"contexts": []}, id="no-context"),
        pytest.param({}, {}, {"users": [{"name": "u", "user": {}}] * 2}, id="two-users"),
        pytest.param({"server": 1}, {}, {}, id="no-text"),
    ],
)
def test_all_else_is_left_to_the_library(write, cluster, user, more):
    assert read_plain(write(cluster, user, **more), None) is None


def test_what_nests_too_deep_ends_no_process(tmp_path):
    """The parser in C would."""
    for content in ("[" * 100_000, "- " * 100_000, "{a: " * 100_000, "? " * 100_000):
        (tmp_path / "kubeconfig").write_text(content)
        assert read_plain(tmp_path / "kubeconfig", None) is None


def test_a_key_is_in_a_file_only_for_a_moment(write, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    data = {"client-certificate-data": encoded(LEAF.chain_pem), "client-key-data": encoded(LEAF.key_pem)}
    assert read_plain(write({}, data), None) is not None
    assert not list(tmp_path.glob("harbormaster-login-*"))
