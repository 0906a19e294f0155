"""``harbormaster certs``, but for the hub: `e2e/replicas/test_certificates.py` asks a real one."""

import json
from asyncio import to_thread
from base64 import b64encode
from datetime import timedelta
from types import SimpleNamespace

import pytest
import yaml

from certs.rotation import Lineage, certificates_in, pem_of
from tests.webhook.kube.authority_hub import SECRET, AuthorityHub
from webhook.access.front_proxy import API_SERVICE
from webhook.cli.hub import login
from webhook.cli.hub.connection import HubConnection
from webhook.cli.operating import certs
from webhook.cli.options.hub import HubOptions
from webhook.kube.certificates.authority_secret import AuthoritySecret, StoredLineage
from webhook.kube.client.paths import path_of
from webhook.kube.ports import ForbiddenError, UnavailableError
from webhook.kube.webhook_configurations.ca_bundles import API_SERVICE_KIND, CaBundles
from webhook.runtime.clock import utc_now

PLACE = ("-n", "quay", "--secret", "ca", "--webhook-configuration", "hooks")


class Server(AuthorityHub):
    """The hub, as the commands close it."""

    async def __aexit__(self, *_: object) -> None:
        """Nothing is open."""


@pytest.fixture
def hub(monkeypatch):
    """A hub that the commands find, with the second generation of an authority."""
    found = Server()

    async def open_server(_):
        return found

    monkeypatch.setattr(login, "open_server", open_server)
    monkeypatch.setattr(HubOptions, "find", lambda _: HubConnection("https://hub.example.com", ours=False))
    return found


@pytest.fixture
async def lineage(hub):
    now = utc_now()
    found = Lineage.begin(now - timedelta(days=250)).rolled_over(now)
    await AuthoritySecret(hub, "quay", "ca").write(found, StoredLineage(None, None))
    bundles = CaBundles(hub, "hooks")
    for kind, known in (await bundles.read()).items():
        await bundles.write(kind, known, pem_of(found.trusted()))
    return found


async def stored(hub):
    return (await AuthoritySecret(hub, "quay", "ca").read()).lineage


@pytest.fixture
def call(cli):
    """Return a function that runs a command beside the event loop of the test."""

    async def run(*words):
        return await to_thread(cli, "certs", *words, *PLACE)

    return run


async def test_what_is_in_order_is_shown(call, lineage):
    done = await call("inspect")
    assert (done.exit_code, done.stderr) == (0, "")
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["quay/ca", "2"] in [words[:2] for words in lines]
    assert [lineage.active.name, "active"] in [words[:2] for words in lines]
    assert ["ValidatingWebhookConfiguration/hooks", "2"] in [words[:2] for words in lines]
    document = json.loads((await call("inspect", "-o", "json")).stdout)
    assert yaml.safe_load((await call("inspect", "-o", "yaml")).stdout) == document
    assert certificates_in((await call("inspect", "-o", "pem")).stdout.encode()) == lineage.trusted()


async def test_what_is_wrong_is_an_error(call, hub, lineage):
    hub.delete(SECRET)
    done = await call("inspect")
    assert done.exit_code == 1
    assert "error: Secret quay/ca: no certificate authority: it does not exist" in done.stderr
    assert (await call("inspect", "-o", "pem")).exit_code == 1
    assert (await call("rotate", "--force")).exit_code == 1


async def test_the_api_service_of_teams_is_inspected(call, hub, lineage, monkeypatch):
    path = path_of(API_SERVICE_KIND, name=API_SERVICE)
    available = {"type": "Available", "status": "True"}
    hub.put(path, {"metadata": {}, "spec": {}, "status": {"conditions": [available]}})
    done = await call("inspect")
    assert (done.exit_code, done.stderr.count("error: ")) == (1, 1)
    assert f"APIService {API_SERVICE} does not trust {lineage.active.name}" in done.stderr
    assert [f"APIService/{API_SERVICE}", "1", "none"] in [line.split() for line in done.stdout.splitlines()]
    bundle = b64encode(pem_of(lineage.trusted())).decode()
    hub.put(path, {**hub.documents[path], "spec": {"caBundle": bundle}})
    document = json.loads((await call("inspect", "-o", "json")).stdout)
    assert (document["problems"], document["apiService"]["available"]) == ([], True)
    refusal = {**available, "status": "False", "reason": "MissingEndpoints", "message": "no endpoints"}
    hub.put(path, {**hub.documents[path], "status": {"conditions": [refusal]}})
    done = await call("inspect")
    assert (done.exit_code, "so the hub deletes no namespace: MissingEndpoints" in done.stderr) == (1, True)
    assert "apiService" not in json.loads((await call("rotate", "--force", "-o", "json")).stdout)


async def test_an_api_service_that_the_settings_expect(call, hub, lineage, monkeypatch):
    hub.refusal["apiservices"] = ForbiddenError("you may not")
    done = await call("inspect")
    assert (done.exit_code, done.stderr) == (0, f"note: APIService {API_SERVICE} not inspected: you may not\n")
    monkeypatch.setenv("HARBORMASTER_TEAM_ANSWERS", "true")
    assert (await call("inspect")).stderr == "error: you may not\n"
    assert (await call("rotate", "--force")).exit_code == 0  # needs no right on the APIService
    del hub.refusal["apiservices"]
    assert f"error: APIService {API_SERVICE} is missing" in (await call("inspect")).stderr


@pytest.mark.parametrize(
    ("refusal", "complaint"),
    [
        pytest.param(ForbiddenError("you may not"), "error: you may not\n", id="forbidden"),
        pytest.param(UnavailableError("gone"), "error: https://hub.example.com: connection lost", id="gone"),
    ],
)
async def test_a_hub_that_refuses_is_told_in_a_line(call, hub, lineage, refusal, complaint):
    hub.refusal["secrets"] = refusal
    for words in (("inspect",), ("rotate",)):
        done = await call(*words)
        assert done.exit_code == 1
        assert done.stderr.startswith(complaint)


async def test_an_authority_that_is_not_due_stays(call, hub, lineage):
    done = await call("rotate")
    assert done.exit_code == 1
    assert f"error: {lineage.active.name} is due for replacement at " in done.stderr
    assert (await stored(hub)).generation == 2


async def test_force_replaces_it_and_says_who_is_cut_off(call, hub, lineage):
    done = await call("rotate", "--force")
    assert done.exit_code == 0
    assert "warning: clients that trust harbormaster-ca-1-" in done.stderr
    found = await stored(hub)
    assert done.stdout == (f"Secret quay/ca: generation 3, {found.active.name}. Replicas follow within seconds\n")
    assert found.trusted()[1] == lineage.active.certificate
    assert found.cross is not None


async def test_what_is_due_needs_no_force(call, hub, lineage):
    now = utc_now()
    old = Lineage.begin(now - timedelta(days=300))
    secret = AuthoritySecret(hub, "quay", "ca")
    await secret.write(old, await secret.read())
    done = await call("rotate", "-o", "json")
    assert (done.exit_code, done.stderr) == (0, "")
    assert json.loads(done.stdout)["generation"] == (await stored(hub)).generation == 2


@pytest.mark.parametrize(("asked", "days"), [(None, 90), (30 * 86400, 30)])
async def test_the_next_one_lasts_as_long_as_this_one_unless_told_otherwise(call, hub, monkeypatch, asked, days):
    if asked is not None:
        monkeypatch.setenv("HARBORMASTER_AUTHORITY_LIFE_SECONDS", str(asked))
    secret = AuthoritySecret(hub, "quay", "ca")
    await secret.write(Lineage.begin(utc_now(), timedelta(days=90)), await secret.read())
    assert (await call("rotate", "--force")).exit_code == 0
    following = (await stored(hub)).active
    assert round((following.not_after - following.not_before) / timedelta(days=1)) == days


async def test_distrust_leaves_nothing_of_before(call, hub, lineage):
    done = await call("rotate", "--force", "--distrust")
    assert done.exit_code == 0
    assert "warning: clients that do not trust" in done.stderr
    found = await stored(hub)
    assert (found.trusted(), found.cross) == ((found.active.certificate,), None)
    assert len(found.distrusted) == 2


async def test_a_rollover_that_is_declined_on_a_terminal_is_not_made(cli, hub, lineage, monkeypatch):
    monkeypatch.setattr(certs, "sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True)))
    done = await to_thread(cli, "certs", "rotate", "--force", *PLACE, text="n\n")
    assert done.exit_code == 1
    assert "error: not confirmed: the authority was not replaced" in done.stderr
    assert (await stored(hub)).generation == 2


async def test_distrust_alone_is_a_mistake(call, hub, lineage):
    done = await call("rotate", "--distrust")
    assert done.exit_code != 0
    assert "--distrust requires --force" in done.stderr
    assert (await stored(hub)).generation == 2


async def test_who_is_slower_is_told(call, hub, lineage, monkeypatch):
    """A replica rolls over between our reading and our writing."""
    monkeypatch.setattr(certs, "_warn", lambda *_, **__: hub.put(SECRET, hub.documents[SECRET]))
    done = await call("rotate", "--force")
    assert done.exit_code == 1
    assert "Secret quay/ca was changed by another client" in done.stderr


def test_the_hub_of_up_has_no_such_secret(cli, monkeypatch):
    monkeypatch.setattr(HubOptions, "find", lambda _: HubConnection("https://127.0.0.1:9443"))
    done = cli("certs", "inspect")
    assert done.exit_code == 1
    assert "creates an authority at every start" in done.stderr
