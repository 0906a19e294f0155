"""Credentials that are renewed while we run."""

import json
import os
import stat
import sys
from datetime import UTC, datetime, timedelta

import pytest

from webhook.kube.client.api_server import ApiServer
from webhook.kube.login.kubeconfig import read_context
from webhook.kube.login.token_renewal import CHECK_SECONDS, renewal


def write_kubeconfig(folder, user):
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": user}, {"name": "other", "user": {"token": "other"}}],
        "contexts": [
            {"name": "x", "context": {"cluster": "c", "user": "u"}},
            {"name": "y", "context": {"cluster": "c", "user": "other"}},
        ],
        "current-context": "x",
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


async def sent(server):
    """The token that the next request would carry."""
    return (await server.login.credentials())["authorization"]


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        time = 1000.0

    monkeypatch.setattr("webhook.kube.login.token_renewal.time.monotonic", lambda: Clock.time)
    return Clock


async def test_a_token_file_is_read_again_when_it_changes(tmp_path, clock, caplog):
    file = tmp_path / "token"
    file.write_text("first\n", encoding="ascii")
    async with await ApiServer.connect(write_kubeconfig(tmp_path, {"tokenFile": "token"})) as server:
        assert await sent(server) == "Bearer first"
        file.write_text("second", encoding="ascii")
        os.utime(file, ns=(1, 1))
        assert await sent(server) == "Bearer first"
        clock.time += CHECK_SECONDS
        assert await sent(server) == "Bearer second"
        for content in ("", "a" * (2**20 + 1), None):  # being written anew, no token at all, gone for a moment
            file.unlink() if content is None else file.write_text(content, encoding="ascii")
            clock.time += CHECK_SECONDS
            assert await sent(server) == "Bearer second"
    assert "first" not in caplog.text


async def test_a_token_in_the_kubeconfig_needs_nothing(tmp_path):
    async with await ApiServer.connect(write_kubeconfig(tmp_path, {"token": "t", "tokenFile": "none"})) as server:
        assert await sent(server) == "Bearer t"
    assert await renewal(read_context(tmp_path / "kubeconfig", None)) is None
    async with await ApiServer.connect(write_kubeconfig(tmp_path, {"tokenFile": "none", "token": "t"}), "y") as server:
        assert await sent(server) == "Bearer other"


async def test_a_plugin_is_run_again_when_its_token_ends(tmp_path):
    count = tmp_path / "count"
    script = tmp_path / "plugin"
    soon = (datetime.now(UTC) + timedelta(minutes=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    script.write_text(
        f"#!{sys.executable}\n"
        "import json, pathlib\n"
        f"count = pathlib.Path({str(count)!r})\n"
        "number = int(count.read_text()) + 1 if count.exists() else 1\n"
        "count.write_text(str(number))\n"
        "kind = {'apiVersion': 'client.authentication.k8s.io/v1', 'kind': 'ExecCredential'}\n"
        f"print(json.dumps({{**kind, 'status': {{'token': f't{{number}}', 'expirationTimestamp': {soon!r}}}}}))\n",
        encoding="utf-8",
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    user = {
        "exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(script), "interactiveMode": "Never"}
    }
    async with await ApiServer.connect(write_kubeconfig(tmp_path, user)) as server:
        first = await sent(server)
        assert await sent(server) != first
