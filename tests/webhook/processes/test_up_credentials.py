"""Who may ask a local hub: the holder of the token in its data folder; on this machine, anybody who only reads."""

import ssl
import stat

import aiohttp
import pytest

from certs.context import CertificateError
from tests.webhook.endpoints.conftest import make_review
from tests.webhook.services import LISTENERS
from webhook.endpoints.admission import hooks
from webhook.processes.up import Up
from webhook.settings.programs import UpSettings

MEMBERS = "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters"


@pytest.fixture
async def up(tmp_path):
    async with Up(UpSettings(**LISTENERS), tmp_path / "data") as running:
        await running.cache.wait_synced()
        yield running


async def status(url: str, path: str, token: str | None, trust=True) -> int:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    connector = aiohttp.TCPConnector(ssl=trust)
    async with (
        aiohttp.ClientSession(connector=connector, headers=headers) as session,
        session.get(url + path) as answer,
    ):
        return answer.status


@pytest.mark.parametrize("path", ["/v1/clusters", "/v1/placements", MEMBERS])
async def test_over_https_the_token_opens_everything_and_nothing_else_does(up, path):
    trust = ssl.create_default_context(cafile=str(up.ca_file))
    token = up.token_file.read_text(encoding="ascii")
    assert await status(up.https_url, path, token, trust) == 200
    for wrong in (None, "", "wrong", token[:-1], token + "x", token.swapcase()):
        assert await status(up.https_url, path, wrong, trust) == 401


async def test_the_plain_door_lets_anybody_on_this_machine_read_and_no_more(up):
    assert await status(up.http_url, "/v1/clusters", None) == 200
    assert await status(up.http_url, MEMBERS, None) == 404
    token = up.token_file.read_text(encoding="ascii")
    assert await status(up.http_url, MEMBERS, token) == 404


async def reviewed(up, path: str) -> int:
    """The status of the answer to a review that any process of this machine can make up."""
    trust = ssl.create_default_context(cafile=str(up.ca_file))
    selector = {"group": "", "version": "v1", "kind": "Namespace", "name": "kube-system"}
    spec = {"resourceSelectors": [selector], "policy": {"placementType": "PickAll"}}
    forged = make_review()
    forged["request"]["object"]["spec"] = spec
    connector = aiohttp.TCPConnector(ssl=trust)
    async with (
        aiohttp.ClientSession(connector=connector) as session,
        session.post(up.https_url + path, json=forged) as answer,
    ):
        return answer.status


async def test_a_process_of_this_machine_is_no_api_server_without_the_secret_path(tmp_path, monkeypatch):
    noted = []
    monkeypatch.setattr(hooks, "note_review", lambda *given: noted.append(given))
    async with Up(UpSettings(**LISTENERS), tmp_path / "data") as up:
        await up.cache.wait_synced()
        secret = up.hook_secret_file.read_text(encoding="ascii")
        assert stat.S_IMODE(up.hook_secret_file.stat().st_mode) == 0o600
        assert await reviewed(up, "/validate") == 200
        assert await reviewed(up, f"/hooks/{secret[:-1]}/validate") == 404
        assert noted == []  # as the history is, so are the hub's objects and the rights of users
        assert await reviewed(up, f"/hooks/{secret}/validate") == 200
        assert len(noted) == 1
    async with Up(UpSettings(plain_admission_paths=False, **LISTENERS), tmp_path / "data") as up:
        await up.cache.wait_synced()
        assert await reviewed(up, "/validate") == 403
        assert await reviewed(up, f"/hooks/{secret}/validate") == 200


async def test_a_secret_of_the_settings_wins_over_that_of_the_data_folder(tmp_path):
    file = tmp_path / "secret"
    file.write_text("s" * 32, encoding="ascii")
    async with Up(UpSettings(webhook_secret_file=file, **LISTENERS), tmp_path / "data") as up:
        await up.cache.wait_synced()
        assert await reviewed(up, f"/hooks/{'s' * 32}/validate") == 200
        assert not (tmp_path / "data" / "hook-secret").exists()


async def test_authorities_that_cannot_be_used_are_refused_at_the_start(tmp_path):
    with pytest.raises(CertificateError, match=r"clients\.crt: No such file"):
        async with Up(UpSettings(client_ca=tmp_path / "clients.crt", **LISTENERS), tmp_path / "data"):
            pass
