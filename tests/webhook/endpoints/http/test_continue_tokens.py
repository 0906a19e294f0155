"""Tokens that continue a list, over several replicas."""

import json
from datetime import UTC, datetime

import pytest

from certs.authority import Authority
from certs.source import LeafFiles, OwnLeaves
from tests.webhook.endpoints.asking import PAYMENTS, ask, assert_problem
from webhook.endpoints.http.continue_tokens import sealing_key


@pytest.fixture
def leaves(tmp_path):
    """A certificate in files, as replicas that mount one Secret share it."""
    authority = Authority.new(datetime.now(UTC))

    def write(folder: str, key_of: str = "") -> LeafFiles:
        place = tmp_path / folder
        place.mkdir(exist_ok=True)
        if key_of:
            for name in ("tls.crt", "tls.key"):
                (place / name).write_bytes((tmp_path / key_of / name).read_bytes())
        else:
            leaf = authority.issue(("localhost",), ("127.0.0.1",), datetime.now(UTC))
            (place / "tls.crt").write_bytes(leaf.chain_pem + authority.pem)
            (place / "tls.key").write_bytes(leaf.key_pem)
        return LeafFiles(place / "tls.crt", place / "tls.key", authority_file(place, authority))

    return write


def authority_file(place, authority):
    path = place / "ca.crt"
    path.write_bytes(authority.pem)
    return path


async def page(port, token: str = ""):
    return await ask(port, "/v1/score", {"placement": PAYMENTS, "limit": 2, "continue": token})


async def test_replicas_with_one_key_understand_each_other(launch, leaves):
    async with launch(leaves=leaves("a")) as first, launch(leaves=leaves("b", "a")) as second:
        token = (await page(first)).json["continue"]
        assert [item["cluster"] for item in (await page(second, token)).json["items"]] == ["smartfish", "oslo"]


async def test_replicas_with_one_authority_understand_each_other(launch):
    """Each has a leaf of its own, and another one every few days."""
    authority = Authority.new(datetime.now(UTC))
    shared = OwnLeaves(authority, ("localhost",), ("127.0.0.1",))
    async with launch(leaves=shared) as first, launch(leaves=shared) as second:
        keys = [port.server.certificates._leaf.key_pem for port in (first, second)]
        assert len(set(keys)) == 2
        token = (await page(first)).json["continue"]
        assert [item["cluster"] for item in (await page(second, token)).json["items"]] == ["smartfish", "oslo"]


async def test_with_a_key_of_its_own_each_replica_knows_only_its_tokens(launch, leaves):
    async with launch(leaves=leaves("a")) as first, launch(leaves=leaves("b")) as second:
        token = (await page(first)).json["continue"]
        assert_problem(await page(second, token), "continue-expired", 410)
        assert (await page(first, token)).status == 200


async def test_the_key_changes_with_the_certificates(launch, leaves):
    """So that replicas that start later agree with those that were there."""
    async with launch(leaves=leaves("a")) as first:
        old = (await page(first)).json["continue"]
        leaves("a")
        assert first.server.certificates.renew_leaf()
        assert_problem(await page(first, old), "continue-expired", 410)
        async with launch(leaves=leaves("b", "a")) as second:
            new = (await page(first)).json["continue"]
            assert (await page(second, new)).status == 200


def test_the_key_of_the_seal_is_not_the_private_key():
    pem = b"-----BEGIN PRIVATE KEY-----"
    assert sealing_key(pem) != sealing_key(pem + b"\n")
    assert len(sealing_key(pem)) == 32
    assert pem not in sealing_key(pem)


async def test_a_token_tells_nothing_but_a_position(port):
    token = (await page(port)).json["continue"]
    assert len(token) == 28
    assert json.dumps(token).isascii()
