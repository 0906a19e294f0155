"""Admission refuses what the loop would hold back, with the digest that the loop accepts."""

from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta

import pytest

from scorer.api.kinds import NAMESPACE, NODE_POOL, PLACEMENT, VOLUME_CLAIM
from scorer.api.names import CARRIED_OUT, CONFIRM_REMOVAL, REMOVAL_CONFIRMATION
from scorer.api.unstructured.documents import name_of, uid_of, with_metadata, with_spec
from scorer.rollout.confirmation.digests import Confirmation
from scorer.rollout.confirmation.policy import DEFAULT_POLICY, NO_CONFIRMATION
from scorer.rollout.selection.selector import DocumentInventory
from tests.builders.placement import fixed, make_placement, namespace_term
from tests.virtual_time import loop_now
from tests.webhook.controllers.placements.confirmed_world import (
    bindings,
    confirm,
    confirming,
    delete,
    digests,
    pending,
)
from tests.webhook.controllers.world import make_member, running
from webhook.access.rights import Access, Reviewed
from webhook.access.user import UserInfo
from webhook.admission import removal_effects
from webhook.admission.cached import CachedContext
from webhook.admission.judge import ALLOWED
from webhook.admission.removal_effects import PASSING_USERS, removal_losses
from webhook.admission.removal_rights import confirmation_rights
from webhook.admission.removals import MOST_READ, RemovalReviews, removal_verdict
from webhook.kube.ports import Key
from webhook.settings.admission import AdmissionSettings
from webhook.validation.framework.context import Context

ALICE = UserInfo("alice", frozenset({"system:authenticated"}))
LABEL = {"placed": "yes"}


class Reader:
    """Rights of a user who may do anything but what is listed."""

    def __init__(self, *denied):
        self.denied = denied

    async def review(self, _user, needed):
        return Reviewed(tuple(access for access in needed if access.verb in self.denied))


async def context_of(world, policy=DEFAULT_POLICY, user=ALICE):
    make = CachedContext(world.cache, AdmissionSettings(removal=policy), loop_now)
    await world.until(lambda: world.cache.synced)
    return make().with_user(user)


def deletion(document, **rest):
    return {"operation": "DELETE", "name": name_of(document), "oldObject": document, "object": None} | rest


def update(old, new):
    return {"operation": "UPDATE", "name": name_of(old), "oldObject": old, "object": new}


def shown(losses):
    return [(loss.ref, [str(group) for group in loss.groups], len(loss.clusters)) for loss in losses]


def found(losses):
    return [group.digest for loss in losses for group in loss.groups]


@asynccontextmanager
async def placed_by_label():
    """Run a hub on which ``shop`` is placed because of its label."""
    term = {"group": "", "version": "v1", "kind": "Namespace", "labelSelector": {"matchLabels": LABEL}}
    async with running() as world:
        await world.add(make_member("fish"), make_member("lion"))
        shop = await world.store.get(NAMESPACE, Key("shop"))
        await world.store.replace(NAMESPACE, with_metadata(shop, labels=LABEL))
        await world.add(make_placement(selectors=[term]))
        await world.until(lambda: world.condition("shop", "Available").get("status") == "True")
        yield world


async def test_a_deleted_namespace_is_refused_with_the_digest_of_the_loop():
    async with confirming() as world:
        context = await context_of(world)
        shop = await world.store.get(NAMESPACE, Key("shop"))
        losses = removal_losses(deletion(shop), context)
        assert shown(losses) == [("crp/shop", ["Namespace shop and 8 objects in it"], 3)]
        await delete(world, NAMESPACE, "shop")
        await world.until(lambda: pending(world))
        assert digests(world) == found(losses)


async def test_a_confirmation_lets_the_same_write_pass_also_before_the_cache_has_it():
    async with confirming() as world:
        context = await context_of(world)
        request = deletion(await world.store.get(NAMESPACE, Key("shop")))
        losses = removal_losses(request, context)
        reviews = RemovalReviews(Reader(), world.store)
        refused = await reviews.review(request, losses, context)
        assert found(losses)[0] in refused.message
        assert "harbormaster confirm namespace/shop, then repeat the request" in refused.message
        assert "volume claims and other objects in it: unknown on 3 clusters" in refused.message
        assert [(cause["reason"], cause["field"]) for cause in refused.causes] == [("RemovalNotConfirmed", "crp/shop")]
        await confirm(world, *found(losses))
        allowed = await reviews.review(request, losses, context)  # the losses of the older cache
        assert allowed.applied_to(ALLOWED) == ALLOWED
        await world.until(lambda: not removal_losses(request, context))


async def test_a_label_taken_off_is_judged_as_a_deletion():
    async with placed_by_label() as world:
        context = await context_of(world)
        shop = await world.store.get(NAMESPACE, Key("shop"))
        without = {**shop, "metadata": {**shop["metadata"], "labels": {}}}
        losses = removal_losses(update(shop, without), context)
        assert shown(losses) == [("crp/shop", ["Namespace shop and 1 object in it"], 2)]
        assert removal_losses(update(shop, with_metadata(shop, labels={"tier": "1"})), context) == ()
        await world.store.replace(NAMESPACE, without)
        await world.until(lambda: pending(world))
        assert digests(world) == found(losses)


@pytest.mark.parametrize(("placed", "most"), [(placed_by_label, 1), (confirming, 0)], ids=["by-label", "by-name"])
async def test_another_label_of_a_namespace_does_not_select_its_content_again(placed, most, monkeypatch):
    """On a hub with many placements, that would take longer than the whole review."""
    listed = []

    def counted(contents):
        listed.append(len(contents))
        return DocumentInventory(contents)

    async with placed() as world:
        context = await context_of(world)
        shop = await world.store.get(NAMESPACE, Key("shop"))
        monkeypatch.setattr(removal_effects, "DocumentInventory", counted)
        assert removal_losses(update(shop, with_metadata(shop, labels={"tier": "1"})), context) == ()
        assert max(listed, default=0) == most


async def test_a_deleted_placement_is_confirmed_on_itself():
    async with confirming() as world:
        context = await context_of(world)
        placement = await world.store.get(PLACEMENT, Key("shop"))
        losses = removal_losses(deletion(placement), context)
        assert [(loss.ref, len(loss.clusters)) for loss in losses] == [("crp/shop", 3)]
        strategy = {"deleteStrategy": {"propagationPolicy": "Abandon"}}
        assert removal_losses(deletion(with_spec(placement, strategy=strategy)), context) == ()
        text = Confirmation(frozenset(found(losses)), loop_now() + timedelta(hours=1)).format()
        assert removal_losses(deletion(with_metadata(placement, annotations={CONFIRM_REMOVAL: text})), context) == ()


async def test_a_deletion_counts_the_clusters_that_were_left_within_the_window():
    async with confirming() as world:
        await world.change(PLACEMENT, "shop", policy=fixed("fish", "lion"))
        await world.until(lambda: len(bindings(world)) == 2)
        await world.change(PLACEMENT, "shop", policy=fixed("fish"))
        await world.until(lambda: len(bindings(world)) == 1)
        losses = removal_losses(deletion(await world.store.get(PLACEMENT, Key("shop"))), await context_of(world))
        assert [(loss.ref, loss.clusters) for loss in losses] == [("crp/shop", ("fish",))]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param(
            {"policy": fixed()}, ["cluster fish", "cluster lion", "cluster wolf"], id="policy-without-cluster"
        ),
        pytest.param(
            {"resourceSelectors": [namespace_term("dock")]}, ["Namespace shop and 8 objects in it"], id="other-selector"
        ),
        pytest.param({"policy": fixed("fish", "lion")}, [], id="one-cluster-less"),
        pytest.param({"revisionHistoryLimit": 3}, [], id="nothing-removed"),
    ],
)
async def test_edits_of_a_placement_are_judged_by_their_effect(change, words):
    async with confirming() as world:
        context = await context_of(world)
        placement = await world.store.get(PLACEMENT, Key("shop"))
        losses = removal_losses(update(placement, with_spec(placement, **change)), context)
        assert [word for loss in losses for word in map(str, loss.groups)] == words


async def test_the_digest_of_a_collection_is_shown_with_all_that_it_confirms():
    async with confirming() as world:
        claims = [
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "shop"}}
            for name in ("data", "logs", "wal")
        ]
        await world.add(*claims)
        await world.until(lambda: "wal" in str(world.cache.get(PLACEMENT, "shop")["status"]["selectedResources"]))
        context = await context_of(world)
        stored = await world.store.get(VOLUME_CLAIM, Key("data", "shop"))
        alone = removal_losses(deletion(stored), context)
        assert [str(group) for loss in alone for group in loss.groups] == ["PersistentVolumeClaim shop/data"]
        (loss,) = removal_losses(deletion(stored, name=""), context)
        assert [str(group) for group in loss.groups] == ["3 PersistentVolumeClaim objects in shop"]


async def test_what_passes_without_a_question():
    async with confirming() as world:
        shop = await world.store.get(NAMESPACE, Key("shop"))
        for user in PASSING_USERS:
            assert removal_losses(deletion(shop), await context_of(world, user=UserInfo(user))) == ()
        context = await context_of(world)
        assert removal_losses(deletion(shop), await context_of(world, NO_CONFIRMATION)) == ()
        ending = {**shop, "metadata": {**shop["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
        assert removal_losses(deletion(ending), context) == ()
        assert removal_losses(deletion(shop), context.for_unverified_caller()) == ()
        claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "x", "namespace": "shop"}}
        assert removal_losses(deletion(claim), context) == ()


@pytest.mark.parametrize("damaged", [{"kind": None}, {"kind": {}}, {"apiVersion": "v1"}, {}])
async def test_a_review_of_two_kinds_is_no_failure(damaged):
    old = make_placement("shop", metadata={"uid": "u"})
    failures = []
    context = replace(Context(user=ALICE), on_failure=lambda check, error: failures.append((check, error)))
    new = {**make_placement("shop", metadata={"uid": "u"}, selectors=[namespace_term("dock")]), **damaged}
    assert removal_losses(update(old, new if damaged else {}), context) == ()
    assert failures == []


async def test_where_confirmation_is_off_no_snapshot_is_read(monkeypatch):
    async with confirming() as world:
        reads = []
        monkeypatch.setattr(removal_effects, "children", lambda *key: reads.append(key) or [])
        shop = await world.store.get(NAMESPACE, Key("shop"))
        assert removal_losses(deletion(shop), await context_of(world, NO_CONFIRMATION)) == ()
        assert reads == []


async def test_a_caller_who_may_not_read_the_placement_learns_counts_alone():
    async with confirming() as world:
        context = await context_of(world)
        request = deletion(await world.store.get(NAMESPACE, Key("shop")))
        verdict = await RemovalReviews(Reader("get"), world.store).review(
            request, removal_losses(request, context), context
        )
        assert "9 objects of 1 placement that you may not read" in verdict.message
        assert not verdict.causes
        for secret in ("crp/shop", "fish", "db", *found(removal_losses(request, context))):
            assert secret not in verdict.message


async def test_a_node_pool_with_nodes_is_confirmed_on_itself():
    pool = {
        "apiVersion": NODE_POOL.api_version,
        "kind": "NodePool",
        "metadata": {"name": "general", "uid": "u-pool"},
        "status": {"resources": {"nodes": "3"}},
    }
    context = Context(user=ALICE, settings=AdmissionSettings(), now=loop_now())
    losses = removal_losses(deletion(pool), context)
    assert [loss.ref for loss in losses] == ["nodepool/general"]
    verdict = removal_verdict(deletion(pool), losses, [uid_of(pool)])
    assert "harbormaster confirm nodepools.karpenter.sh/general" in verdict.message
    assert removal_losses(deletion({**pool, "status": {"resources": {"nodes": "0"}}}), context) == ()
    verdict = removal_verdict(deletion(pool), losses * (MOST_READ + 1), [])
    assert verdict.message.endswith("that you may not read or that are beyond the first 20")


@pytest.mark.parametrize(
    ("before", "after", "needs"),
    [
        pytest.param({}, {CARRIED_OUT: "forged"}, True, id="a-forged-record-confirms-a-deletion"),
        pytest.param(
            {CARRIED_OUT: "a", CONFIRM_REMOVAL: "b"}, {CONFIRM_REMOVAL: "b"}, True, id="a-digest-that-counts-again"
        ),
        pytest.param({CARRIED_OUT: "a", CONFIRM_REMOVAL: "b"}, {}, False, id="replaced-without-annotations"),
        pytest.param({CARRIED_OUT: "a"}, {CARRIED_OUT: "a"}, False, id="unchanged"),
    ],
)
def test_the_record_of_what_was_carried_out_needs_the_verb(before, after, needs):
    old, new = (make_placement(metadata={"annotations": each}) for each in (before, after))
    context = Context(user=ALICE, settings=AdmissionSettings(), now=loop_now())
    own = Access("confirmremoval", PLACEMENT.group, PLACEMENT.plural, name_of(new))
    assert confirmation_rights(update(old, new), context) == (((own,),) if needs else ())


async def test_confirming_needs_the_verb_or_the_namespace():
    async with confirming() as world:
        context = await context_of(world)
        placement = await world.store.get(PLACEMENT, Key("shop"))
        shop = await world.store.get(NAMESPACE, Key("shop"))
        digest = found(removal_losses(deletion(shop), context))[0]
        own = Access("confirmremoval", PLACEMENT.group, PLACEMENT.plural, "shop")
        home = (Access("delete", "", "namespaces", "shop", "shop"), Access("place", "", "namespaces", "shop", "shop"))

        def asked(text, **more):
            return confirmation_rights(
                update(placement, with_metadata(placement, annotations={CONFIRM_REMOVAL: text, **more})), context
            )

        until = loop_now() + timedelta(hours=1)
        assert asked(Confirmation(frozenset({digest}), until).format()) == ((own,), home)
        assert asked(Confirmation(frozenset({digest, "0" * 20}), until).format()) == ((own,),)
        assert asked(Confirmation(frozenset({digest}), until).format(), **{REMOVAL_CONFIRMATION: "Off"}) == ((own,),)
        assert confirmation_rights(update(placement, with_spec(placement, policy=fixed())), context) == ()
        exempt = with_metadata(shop, labels={"harbormaster.dev/ephemeral": "true"})
        every = Access("confirmremoval", PLACEMENT.group, PLACEMENT.plural)
        inside = Access("confirmremoval", PLACEMENT.group, "resourceplacements", namespace="shop")
        assert confirmation_rights(update(shop, exempt), context) == ((every, inside),)
        refused = await RemovalReviews(Reader("confirmremoval", "place"), world.store).review_confirmation(
            ((own,), home), context
        )
        assert '"alice" may not confirmremoval' in refused.message
        allowed = await RemovalReviews(Reader("confirmremoval"), world.store).review_confirmation(
            ((own,), home), context
        )
        assert not allowed.message
