"""What a kubeconfig says of the way to an API server, besides tokens."""

import base64
import json
import ssl
from datetime import UTC, datetime

import pytest

from certs.authority import Authority
from webhook.kube.login.connection import ApiServerEndpoint, no_credentials
from webhook.kube.login.credentials import read_endpoint, read_login
from webhook.kube.login.kubeconfig import ConfigurationError


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Return what writes a kubeconfig with a cluster; the environment knows no proxy."""
    for name in ("HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)

    def written(**cluster):
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": "https://hub:6443", **cluster}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        path = tmp_path / "kubeconfig"
        path.write_text(json.dumps(document), encoding="utf-8")
        return path

    return written


async def test_where_and_by_what(write):
    login = await read_login(write(**{"tls-server-name": "kubernetes"}), None)
    assert (login.address, login.proxy, login.server_name) == ("https://hub:6443", None, "kubernetes")
    assert await login.credentials() == {"authorization": "Bearer t"}
    assert isinstance(login.trust, ssl.SSLContext)
    assert (login.trust.verify_mode, login.trust.check_hostname) == (ssl.CERT_REQUIRED, True)


async def test_a_server_that_need_not_show_who_it_is(write):
    login = await read_login(write(**{"insecure-skip-tls-verify": True}), None)
    assert isinstance(login.trust, ssl.SSLContext)
    assert (login.trust.verify_mode, login.trust.check_hostname) == (ssl.CERT_NONE, False)


@pytest.mark.parametrize(
    ("cluster", "environment", "proxy"),
    [
        pytest.param({}, {"HTTPS_PROXY": "http://p:1"}, "http://p:1", id="of-the-environment"),
        pytest.param({"proxy-url": "http://own:1"}, {"HTTPS_PROXY": "http://p:1"}, "http://own:1", id="its-own"),
        pytest.param({}, {"HTTPS_PROXY": "http://p:1", "NO_PROXY": "hub"}, None, id="not-for-this-one"),
        pytest.param({"server": "https://127.0.0.1:9443"}, {"HTTPS_PROXY": "http://p:1"}, None, id="of-this-machine"),
        pytest.param({"server": "https://[::1]:9443"}, {"HTTPS_PROXY": "http://p:1"}, None, id="by-ipv6"),
        pytest.param({"server": "https://localhost:9443"}, {"HTTPS_PROXY": "http://p:1"}, None, id="localhost"),
    ],
)
async def test_what_stands_in_between(write, monkeypatch, cluster, environment, proxy):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert (await read_login(write(**cluster), None)).proxy == proxy
    told = await read_endpoint(write(**cluster), None)  # to another client, which has an environment of its own
    assert told.proxy == cluster.get("proxy-url", "")
    assert told.login(no_credentials).proxy == proxy


async def test_what_another_client_is_told_has_the_authorities_and_no_credentials(write):
    pem = Authority.new(datetime.now(UTC)).pem
    data = base64.b64encode(pem).decode()
    told = await read_endpoint(write(**{"certificate-authority-data": data, "tls-server-name": "kubernetes"}), None)
    assert told == ApiServerEndpoint("https://hub:6443", pem.decode(), "kubernetes")
    login = told.login(no_credentials)
    assert (login.address, login.server_name) == ("https://hub:6443", "kubernetes")
    assert isinstance(login.trust, ssl.SSLContext)
    assert len(login.trust.get_ca_certs()) == 1
    with pytest.raises(
        ConfigurationError, match="insecure-skip-tls-verify: must not be true: the certificate of https://hub:6443"
    ):
        await read_endpoint(write(**{"insecure-skip-tls-verify": True}), None)


async def test_an_authority_that_cannot_be_read_is_named(write, tmp_path):
    with pytest.raises(ConfigurationError, match=f"kubeconfig {tmp_path / 'kubeconfig'}: .*nowhere"):
        await read_login(write(**{"certificate-authority": str(tmp_path / "nowhere")}), None)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        pytest.param("a" * (2**20 + 1), "larger than 1048576 bytes", id="too-large"),
        pytest.param("[" * 100_000, "recursion", id="nested-too-deep"),
    ],
)
async def test_a_file_that_takes_too_much_is_not_read(tmp_path, content, reason):
    path = tmp_path / "kubeconfig"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigurationError, match=f"kubeconfig {path}: .*{reason}"):
        await read_login(path, None)


async def test_authorities_without_end_are_told_to_no_other_client(write, tmp_path):
    pem = tmp_path / "ca.crt"
    pem.write_bytes(Authority.new(datetime.now(UTC)).pem.ljust(2**20 + 1))
    with pytest.raises(ConfigurationError, match=f"kubeconfig .*: {pem}: larger than 1048576 bytes"):
        await read_endpoint(write(**{"certificate-authority": str(pem)}), None)


async def test_without_a_kubeconfig_this_has_to_be_a_pod():
    with pytest.raises(ConfigurationError, match="no --kubeconfig is given, and the process does not run in a pod"):
        await read_login(None, None)


async def test_in_a_pod_the_files_of_its_account_say_where_and_by_what(monkeypatch, tmp_path):
    pem = Authority.new(datetime.now(UTC)).pem
    for name, content in (("token", b"t"), ("ca.crt", pem)):
        (tmp_path / name).write_bytes(content)
    module = "kubernetes_asyncio.config.incluster_config"
    monkeypatch.setattr(f"{module}.SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(f"{module}.SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    assert await read_endpoint(None, None) == ApiServerEndpoint("https://10.0.0.1:443", pem.decode())
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST")
    with pytest.raises(ConfigurationError, match="no --kubeconfig is given, and the process does not run in a pod: "):
        await read_endpoint(None, None)
