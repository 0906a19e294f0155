"""Who may ask a local hub: the holder of the token in its data folder; on this machine, anybody who only reads."""

import ssl

import aiohttp
import pytest

from certs.context import CertificateError
from webhook.processes.up import Up
from webhook.settings.programs import UpSettings

QUICK = {"https_port": 0, "http_port": 0, "drain_seconds": 0, "drain_limit_seconds": 0, "shutdown_seconds": 1}
MEMBERS = "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters"


@pytest.fixture
async def up(tmp_path):
    async with Up(UpSettings(**QUICK), tmp_path / "data") as running:
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


async def test_authorities_that_cannot_be_used_are_refused_at_the_start(tmp_path):
    with pytest.raises(CertificateError, match=r"clients\.crt: No such file"):
        async with Up(UpSettings(client_ca=tmp_path / "clients.crt", **QUICK), tmp_path / "data"):
            pass
