"""Contexts with static credentials: the same login as by kubernetes-asyncio, or an error with the field."""

import base64
import json
import re
import ssl
import sys
from datetime import UTC, datetime

import pytest

from certs.authority import Authority
from webhook.kube.login.credentials import _library_login, _static_login, read_endpoint, read_login
from webhook.kube.login.kubeconfig import ConfigurationError, read_context

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
        pytest.param({"disable-compression": True}, {"impersonate": "me", "as-groups": []}, id="other-fields"),
        pytest.param({}, {"client-key": "me.key"}, id="key-without-certificate"),
        pytest.param({}, {"client-certificate": "me.crt", "client-key": "me.key"}, id="certificate-in-files"),
        pytest.param(
            {},
            {"client-certificate-data": encoded(LEAF.chain_pem), "client-key-data": encoded(LEAF.key_pem)},
            id="certificate-as-data",
        ),
    ],
)
async def test_the_login_is_that_of_the_library(write, cluster, user):
    context = read_context(write(cluster, user), None)
    own, theirs = _static_login(context), await _library_login(context)
    assert (own.address, own.proxy, own.server_name) == (theirs.address, theirs.proxy, theirs.server_name)
    assert await own.credentials() == await theirs.credentials()
    if own.address.startswith("https:"):
        assert trusted(own) == trusted(theirs)


@pytest.mark.parametrize(
    ("cluster", "user", "more", "reason"),
    [
        pytest.param(
            {"certificate-authority": "none.crt"}, {}, {}, "cluster 'c': certificate-authority: .*none.crt: ", id="file"
        ),
        pytest.param({"certificate-authority-data": "!"}, {}, {}, "authority-data: is empty", id="no-base64"),
        pytest.param({"certificate-authority-data": "a"}, {}, {}, "authority-data: must be base64", id="cut-base64"),
        pytest.param(
            {"certificate-authority-data": encoded(b"x")}, {}, {}, "certificate-authority-data: ", id="no-pem"
        ),
        pytest.param(
            {}, {"client-certificate": "me.crt"}, {}, "user 'u': client-certificate: .*me.crt: ", id="certificate-alone"
        ),
        pytest.param(
            {}, {"client-certificate": "me.crt", "client-key": "no.key"}, {}, "client-key: .*no.key: ", id="no-key"
        ),
        pytest.param({}, {}, {"users": [{"name": "u", "user": {}}] * 2}, "users: 'u' occurs 2 times", id="two-users"),
        pytest.param({"server": 1}, {}, {}, "cluster 'c': server: '1': must be text", id="no-text"),
        pytest.param({}, {"tokenFile": "none"}, {}, "none", id="library"),
    ],
)
async def test_an_error_names_the_file_the_context_and_the_field(write, cluster, user, more, reason):
    path = write(cluster, user, **more)
    with pytest.raises(ConfigurationError, match=rf"^kubeconfig {re.escape(str(path))}: context 'x': .*{reason}"):
        await read_login(path, None)


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        pytest.param({"current-context": "y"}, "has no context 'y', available: x", id="no-such-context"),
        pytest.param({"current-context": None}, "has no current context", id="no-current-context"),
        pytest.param({"contexts": []}, "has no context 'x', available: none", id="no-context"),
        pytest.param({"clusters": []}, "the cluster 'c' of context 'x' is not in this file", id="no-cluster"),
    ],
)
async def test_an_error_names_what_is_missing(write, more, reason):
    with pytest.raises(ConfigurationError, match=f"kubeconfig .*: {reason}"):
        await read_login(write({}, {}, **more), None)


@pytest.mark.parametrize("content", ["[" * 100_000, "- " * 100_000, "{a: " * 100_000, "? " * 100_000])
async def test_what_nests_too_deep_ends_no_process(tmp_path, content):
    """The parser in C would."""
    (tmp_path / "kubeconfig").write_text(content)
    with pytest.raises(ConfigurationError, match="is not YAML"):
        await read_login(tmp_path / "kubeconfig", None)


async def test_a_key_is_in_a_file_only_for_a_moment(write, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    data = {"client-certificate-data": encoded(LEAF.chain_pem), "client-key-data": encoded(LEAF.key_pem)}
    assert (await read_login(write({}, data), None)).address == "https://hub:6443"
    assert not list(tmp_path.glob("harbormaster-login-*"))


async def test_another_client_is_told_of_a_server_without_running_a_plugin(write, tmp_path):
    """Its address takes no credentials."""
    ran = tmp_path / "ran"
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": ["-c", f"open({str(ran)!r}, 'w')"],
    }
    assert (await read_endpoint(write({}, {"exec": plugin}), None)).server == "https://hub:6443"
    assert not ran.exists()
