"""``harbormaster confirm`` and ``harbormaster removals`` against a hub whose loop asks for confirmation."""

import json
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from scorer.api.kinds import NAMESPACE, PLACEMENT
from scorer.api.names import CARRIED_OUT, CONFIRM_REMOVAL
from scorer.api.unstructured.documents import annotation, with_metadata
from scorer.rollout.confirmation.digests import CarriedOut, Confirmation
from tests.webhook.cli.conftest import running_hub
from tests.webhook.controllers.placements.confirmed_world import (
    CONFIG_MAP,
    confirm,
    confirming,
    delete,
    digests,
    on_members,
    pending,
)
from tests.webhook.edits import edit
from webhook.admission.cached import CachedContext
from webhook.kube.ports import Key
from webhook.runtime.clock import utc_now
from webhook.settings.admission import AdmissionSettings


class Hub:
    """A hub that has placed ``shop`` on three members."""

    def __init__(self, running, world):
        self.run = running.run
        self.world = world

    def until(self, test):
        self.run(self.world.until(test))

    def get(self, kind, name):
        return self.run(self.world.store.get(kind, Key(name)))

    def content(self):
        return self.run(on_members(self.world, CONFIG_MAP, "c0"))

    def confirmed(self, name="shop"):
        return Confirmation.of(self.get(PLACEMENT, name), utc_now()).digests


@pytest.fixture
def opened(tmp_path, monkeypatch):
    found = []

    @asynccontextmanager
    async def world():
        async with confirming() as running:
            context = CachedContext(running.cache, AdmissionSettings(), utc_now)
            found.extend((running, context))
            await running.until(lambda: running.cache.synced)
            yield running.store

    with running_hub(tmp_path / "hub", world, lambda: found[1]()) as hub:
        monkeypatch.setenv("HARBORMASTER_DATA", str(hub.data))
        yield Hub(hub, found[0])


def ok(result, code=0):
    assert result.exit_code == code, (result.stdout, result.stderr)
    return result.stdout


def test_a_refused_deletion_is_confirmed_and_repeated(cli, opened):
    refused = cli("delete", "namespace/shop", "--no-wait")
    assert "harbormaster confirm namespace/shop, then repeat the request" in refused.stderr
    assert "harbormaster confirm namespace/shop" in cli("delete", "namespace/shop", "--dry-run=server").stderr
    assert opened.content() == ["fish", "lion", "wolf"]
    shown = ok(cli("confirm", "namespace/shop", "--yes"))
    assert "crp/shop: Namespace shop and 8 objects in it, volume claims and other objects in it: unknown on 3" in shown
    assert "crp/shop confirmed until " in shown
    ok(cli("delete", "namespace/shop", "--no-wait"))
    opened.until(lambda: annotation(opened.world.cache.get(PLACEMENT, "shop"), CARRIED_OUT))
    assert not pending(opened.world)


def test_what_the_loop_holds_back_is_listed_and_confirmed(cli, opened):
    assert ok(cli("removals", "-o", "json")) == '{\n  "items": []\n}\n'
    none = cli("removals")
    assert (ok(none), none.stderr) == ("", "No pending removals\n")
    assert cli("removals", "-n", "shop").stderr.endswith("No pending removals in shop namespace\n")
    opened.run(delete(opened.world, NAMESPACE, "shop"))
    opened.until(lambda: pending(opened.world))
    [item] = json.loads(ok(cli("removals", "-o", "json")))["items"]
    assert (item["placement"], [item["digest"]]) == ("crp/shop", digests(opened.world))
    assert item["effect"] == "Namespace shop and 8 objects in it"
    assert (item["objects"], item["clusters"]) == (9, ["fish", "lion", "wolf"])
    assert json.loads(ok(cli("removals", "--older-than", "7d", "-o", "json"))) == {"items": []}
    assert item["digest"] in ok(cli("removals"))
    assert "removal pending" in ok(cli("get", "crp"))
    ok(cli("confirm", "crp/shop", "--yes"))
    opened.until(lambda: not pending(opened.world))


def test_a_confirmation_keeps_those_that_have_not_expired(cli, opened):
    earlier, other = "0" * 20, "1" * 20
    opened.run(confirm(opened.world, earlier))
    ok(cli("confirm", "crp/shop", "--digest", other, "-y"))
    assert opened.confirmed() == {earlier, other}


def test_a_confirmation_does_not_renew_what_was_carried_out(cli, opened):
    earlier, other = "0" * 20, "1" * 20
    record = CarriedOut().with_digests([earlier], utc_now() + timedelta(hours=1)).format()
    opened.run(
        edit(
            opened.world.store, PLACEMENT, Key("shop"), lambda it: with_metadata(it, annotations={CARRIED_OUT: record})
        )
    )
    opened.run(confirm(opened.world, earlier))
    ok(cli("confirm", "crp/shop", "--digest", other, "-y"))
    assert opened.confirmed() == {other}


def test_nothing_is_confirmed_without_consent(cli, opened):
    declined = cli("confirm", "namespace/shop")
    assert declined.exit_code == 1
    assert "use --yes" in declined.stderr
    assert annotation(opened.get(PLACEMENT, "shop"), CONFIRM_REMOVAL) == ""


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        pytest.param(("crp/shop", "--digest", "abc"), "is not a digest", id="no-digest"),
        pytest.param(
            ("namespace/shop", "--digest", "0" * 20),
            "is neither a placement nor a NodePool",
            id="digest-of-a-namespace",
        ),
        pytest.param(("crp/shop", "--abandon"), "not a placement that is being deleted", id="not-deleted"),
        pytest.param(("crp/shop", "--abandon", "--digest", "0" * 20), "cannot be used with --digest", id="both"),
    ],
)
def test_wrong_calls_are_refused(cli, opened, arguments, reason):
    result = cli("confirm", *arguments, "--yes")
    assert result.exit_code != 0
    assert reason in result.stderr


def test_a_deleted_placement_is_confirmed_or_abandoned(cli, opened):
    opened.run(delete(opened.world, PLACEMENT, "shop"))
    opened.until(lambda: pending(opened.world))
    [item] = json.loads(ok(cli("removals", "-o", "json")))["items"]
    assert item["effect"] == "ClusterResourcePlacement shop"
    assert "remains on the members" in ok(cli("confirm", "crp/shop", "--abandon", "--yes"))
    opened.until(lambda: opened.world.cache.get(PLACEMENT, "shop") is None)
    assert opened.content() == ["fish", "lion", "wolf"]
