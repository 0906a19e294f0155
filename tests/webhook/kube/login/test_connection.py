"""The way into a server that is known by its address and a token."""

import ssl
from datetime import UTC, datetime

import pytest

from certs.authority import Authority
from webhook.kube.login.connection import Login


async def test_a_token_by_itself(tmp_path, monkeypatch):
    """Its server is found beside us or named by hand: a proxy of the environment would be given the token."""
    monkeypatch.setenv("HTTPS_PROXY", "http://p:1")
    (tmp_path / "ca").write_bytes(Authority.new(datetime.now(UTC)).pem)
    login = Login.by_token("https://hub:1", "t", tmp_path / "ca")
    assert (await login.credentials(), login.proxy) == ({"Authorization": "Bearer t"}, None)
    assert isinstance(login.trust, ssl.SSLContext)
    assert len(login.trust.get_ca_certs()) == 1
    (tmp_path / "ca").write_text("none")
    with pytest.raises(ssl.SSLError):
        Login.by_token("https://hub:1", "t", tmp_path / "ca")
    assert Login.by_token("http://127.0.0.1:1", "t", tmp_path / "ca").trust is True
