"""What an update of a placement is said to take away, and what then happens (X-26)."""

from copy import deepcopy
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.api.kinds import PLACEMENT
from scorer.placement.binding_plan import read_binding
from scorer.placement.policy_hash import canonical_policy, policy_hash
from tests.builders.binding import make_binding
from tests.builders.placement import fixed, make_placement
from tests.webhook.controllers import world
from tests.webhook.validation.live_objects import (
    JANE,
    NAMESPACE,
    NOW,
    ROLE,
    labelled,
    make_member,
    make_policy_snapshot,
    pick_n,
    sorted_by,
)
from tests.webhook.validation.moving_clock import Watch
from webhook.admission.cached import CachedContext
from webhook.admission.judge import judge
from webhook.admission.review import answer
from webhook.kube.work_signing_keys import WorkKeys
from webhook.settings.admission import AdmissionSettings
from webhook.validation.framework.context import Context
from webhook.validation.framework.field import LONGEST_WARNING

NAMES = ("bravelion", "dozyowl", "jumpingcat", "smartfish")


def placed(placement, *clusters, selected=()):
    """Return a placement with the status that an API server sends along."""
    statuses = [{"clusterName": name} for name in clusters]
    return {**placement, "status": {"placementStatuses": statuses, "selectedResources": list(selected)}}


def hub_of(placement, bindings, members=None):
    members = (
        [make_member(name, env="prod" if name < "k" else "test") for name in NAMES] if members is None else members
    )
    namespace = placement["metadata"].get("namespace", "")
    held = [make_binding("shop", name, namespace=namespace, state=state) for name, state in bindings.items()]
    return [*members, placement, make_policy_snapshot(placement), *held]


def bound(*names, state="Bound"):
    return dict.fromkeys(names, state)


def impact(new, old, bindings, *, hub=None, selected=(), **changes):
    hub = hub_of(old, bindings) if hub is None else hub
    context = replace(Context.of_objects(hub, user=JANE, now=NOW), **changes)
    judgement = judge("UPDATE", new, placed(old, *bindings, selected=selected), context)
    assert judgement.allowed, judgement.message
    return [text for text in judgement.warnings if ": leaves " in text or ": removes " in text]


PAIR = bound("bravelion", "dozyowl")
ALL = "4 of 4 clusters: bravelion, dozyowl, jumpingcat, smartfish"
GPU_TOLERATED = {"key": "gpu", "operator": "Exists"}
PICK_ALL = {"placementType": "PickAll"}
PROD_ONLY = {
    "placementType": "PickAll",
    "affinity": {
        "clusterAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [labelled(env="prod")]}
        }
    },
}


@pytest.mark.parametrize(
    ("old", "new", "bindings", "warning"),
    [
        pytest.param(
            fixed(*NAMES),
            fixed("bravelion", "dozyowl"),
            bound(*NAMES),
            "2 of 4 clusters: jumpingcat, smartfish",
            id="shorter-list",
        ),
        pytest.param(fixed("bravelion"), fixed(*NAMES), bound("bravelion"), None, id="longer-list"),
        pytest.param(fixed("bravelion", "dozyowl"), fixed("dozyowl", "bravelion"), PAIR, None, id="other-order"),
        pytest.param(fixed(*NAMES), fixed(), bound(*NAMES), ALL, id="no-list"),
        pytest.param(pick_n(4), pick_n(3), bound(*NAMES), "1 of 4 clusters: bravelion", id="fewer"),
        pytest.param(pick_n(4), pick_n(0), bound(*NAMES), ALL, id="none"),
        pytest.param(pick_n(3), pick_n(4), bound("bravelion", "dozyowl", "smartfish"), None, id="more"),
        pytest.param(
            pick_n(4),
            pick_n(3),
            {**bound(*NAMES), "smartfish": "Scheduled"},
            "1 of 4 clusters: smartfish",
            id="what-is-not-rolled-out-goes-first",
        ),
        pytest.param(
            pick_n(2), pick_n(2, labelled(env="test")), PAIR, "2 of 2 clusters: bravelion, dozyowl", id="other-terms"
        ),
        pytest.param(pick_n(2), pick_n(2, labelled(env="prod")), PAIR, None, id="terms-that-fit"),
        pytest.param(pick_n(2), pick_n(2, preferred=[sorted_by("berths")]), PAIR, None, id="holders-win-ties"),
        pytest.param(PICK_ALL, PROD_ONLY, bound(*NAMES), "1 of 4 clusters: smartfish", id="PickAll-with-terms"),
        pytest.param(
            PICK_ALL, PROD_ONLY, {**bound(*NAMES), "smartfish": "Unscheduled"}, None, id="on-its-way-out-already"
        ),
        pytest.param(None, PROD_ONLY, bound(*NAMES), "1 of 4 clusters: smartfish", id="a-first-policy"),
        pytest.param(None, PICK_ALL, bound("smartfish"), None, id="only-spelled-out"),
        pytest.param(PICK_ALL, PROD_ONLY, {}, None, id="nothing-placed-yet"),
        pytest.param(pick_n(2), pick_n(2, tolerations=[GPU_TOLERATED]), PAIR, None, id="a-toleration-more"),
        pytest.param(PROD_ONLY, PROD_ONLY, bound(*NAMES), None, id="same-policy-though-a-cluster-fits-no-more"),
    ],
)
@pytest.mark.parametrize("namespace", ["", "dock"], ids=["crp", "rp"])
def test_clusters_that_an_update_leaves(old, new, bindings, warning, namespace):
    selectors = [{"group": "", "version": "v1", "kind": "ConfigMap"}] if namespace else [NAMESPACE]
    before = make_placement(policy=old, namespace=namespace, selectors=selectors)
    after = make_placement(policy=new, namespace=namespace, selectors=selectors, revisionHistoryLimit=7)
    assert impact(after, before, bindings) == (
        [f"spec.policy: removes the placement from {warning}"] if warning else []
    )


def test_a_cluster_that_is_gone_or_leaving_is_not_lost_by_the_update():
    leaving = make_member("dozyowl")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    members = [make_member("bravelion"), leaving, make_member("jumpingcat")]
    old, new = make_placement(policy=fixed(*NAMES)), make_placement(policy=fixed("bravelion"))
    found = impact(new, old, bound(*NAMES), hub=hub_of(old, bound(*NAMES), members))
    assert found == ["spec.policy: removes the placement from 1 of 4 clusters: jumpingcat"]


@pytest.mark.parametrize(
    ("status", "warning"),
    [
        pytest.param(
            NAMES,
            "removes the placement from 3 of 4 clusters: dozyowl, jumpingcat, smartfish",
            id="the-review-names-them",
        ),
        pytest.param(
            ["dozyowl"], "removes the placement from 3 of 4 clusters: dozyowl and 2 more", id="the-review-names-one"
        ),
        pytest.param([], "removes the placement from 3 of 4 clusters", id="the-review-names-none"),
    ],
)
def test_only_names_that_the_review_gives_are_repeated(status, warning):
    """Whoever reaches the port may ask: a made-up review learns no name."""
    old, new = make_placement(policy=pick_n(4)), make_placement(policy=pick_n(4, labelled(only="one")))
    members = [make_member(name, **({"only": "one"} if name == "bravelion" else {})) for name in NAMES]
    context = Context.of_objects(hub_of(old, bound(*NAMES), members), user=JANE, now=NOW)
    found = judge("UPDATE", new, placed(old, *status), context).warnings
    assert found[0] == f"spec.policy: {warning}"


def test_a_long_list_is_cut_between_names():
    names = [f"cluster-with-a-rather-long-name-{number:02}" for number in range(12)]
    old, new = make_placement(policy=fixed(*names)), make_placement(policy=fixed(names[11]))
    (found,) = impact(new, old, bound(*names), hub=hub_of(old, bound(*names), [make_member(name) for name in names]))
    assert found == f"spec.policy: removes the placement from 11 of 12 clusters: {names[0]} and 10 more"
    assert len(found) <= LONGEST_WARNING


def test_it_comes_before_all_other_warnings():
    old, new = make_placement(policy=pick_n(4)), make_placement(policy=pick_n(0))
    context = Context.of_objects(hub_of(old, bound(*NAMES)), user=JANE, now=NOW)
    first, *rest = judge("UPDATE", new, placed(old, *NAMES), context).warnings
    assert first.startswith("spec.policy: removes the placement from 4 of 4 clusters")
    assert rest


@pytest.mark.parametrize("missing", ["MemberCluster", "ClusterResourceBinding", "ClusterSchedulingPolicySnapshot"])
def test_what_is_not_known_is_not_guessed(missing):
    old, new = make_placement(policy=pick_n(4)), make_placement(policy=pick_n(1))
    hub = [document for document in hub_of(old, bound(*NAMES)) if document["kind"] != missing]
    assert impact(new, old, bound(*NAMES), hub=hub) == []


def test_a_binding_that_contradicts_itself_ends_it_without_a_word():
    old, new = make_placement(policy=pick_n(4)), make_placement(policy=pick_n(1))
    assert impact(new, old, {**bound(*NAMES), "x": "Nowhere"}) == []


def test_when_the_time_is_used_up_nothing_is_said():
    old, new = make_placement(policy=pick_n(4)), make_placement(policy=pick_n(1))
    assert impact(new, old, bound(*NAMES), clock=Watch(0.06)) == []


def test_the_switch_turns_it_off():
    old, new = make_placement(policy=pick_n(4)), make_placement(policy=pick_n(1))
    assert impact(new, old, bound(*NAMES), settings=AdmissionSettings(live_warnings=False)) == []


IN_SHOP = {"group": "", "version": "v1", "kind": "ConfigMap", "namespace": "shop"}
SELECTED = [NAMESPACE, ROLE, {**IN_SHOP, "name": "rates"}, {**IN_SHOP, "name": "terms"}]
ROLES = {**{key: ROLE[key] for key in ("group", "version", "kind")}, "labelSelector": {}}


@pytest.mark.parametrize(
    ("old", "new", "selected", "warning"),
    [
        pytest.param(
            [NAMESPACE, ROLE],
            [NAMESPACE],
            SELECTED,
            "removes 1 object from 2 clusters: ClusterRole viewer",
            id="dropped",
        ),
        pytest.param([NAMESPACE, ROLE], [NAMESPACE], [NAMESPACE], None, id="selects-nothing"),
        pytest.param(
            [ROLES, NAMESPACE],
            [NAMESPACE],
            [NAMESPACE, ROLE, {**ROLE, "name": "editor"}],
            "removes 2 objects from 2 clusters: ClusterRole editor, ClusterRole viewer",
            id="selects-many-by-label",
        ),
        pytest.param([NAMESPACE], [NAMESPACE, ROLE], SELECTED[:1], None, id="added"),
        pytest.param([NAMESPACE, ROLE], [ROLE, NAMESPACE], SELECTED, None, id="other-order"),
        pytest.param([NAMESPACE, ROLE], [NAMESPACE, ROLES], SELECTED, None, id="now-by-label"),
        pytest.param(
            [NAMESPACE, ROLE],
            [{**NAMESPACE, "name": "dock"}, ROLE],
            SELECTED,
            "removes 3 objects from 2 clusters: ConfigMap shop/rates, ConfigMap shop/terms, Namespace shop",
            id="another-namespace",
        ),
        pytest.param(
            [NAMESPACE],
            [{**NAMESPACE, "selectionScope": "NamespaceOnly"}],
            [NAMESPACE, SELECTED[2]],
            "removes 1 object from 2 clusters: ConfigMap shop/rates",
            id="only-the-namespace",
        ),
        pytest.param([NAMESPACE, ROLE], [NAMESPACE], (), None, id="a-status-that-reports-nothing"),
    ],
)
def test_objects_that_an_update_takes_off(old, new, selected, warning):
    before, after = make_placement(selectors=old), make_placement(selectors=new)
    found = impact(after, before, bound("bravelion", "dozyowl"), selected=selected)
    assert found == ([f"spec.resourceSelectors: {warning}"] if warning else [])


POLICIES = [
    None,
    PICK_ALL,
    PROD_ONLY,
    fixed(),
    fixed("bravelion", "smartfish"),
    fixed(*NAMES),
    *(pick_n(number) for number in range(5)),
    pick_n(2, labelled(env="test")),
    pick_n(3, preferred=[sorted_by("kubernetes-fleet.io/node-count")]),
]


@given(
    old=st.sampled_from(POLICIES),
    new=st.sampled_from(POLICIES),
    bindings=st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["Scheduled", "Bound", "Unscheduled"])),
)
def test_it_agrees_with_what_the_scheduler_decides(old, new, bindings):
    """The scheduler's own entry, on the snapshot that the new policy gets."""
    from webhook.controllers.placements.scheduler import SchedulerController

    before, after = make_placement(policy=old), make_placement(policy=new)
    context = Context.of_objects(hub_of(before, bindings), user=JANE, now=NOW)
    judgement = judge("UPDATE", after, placed(before, *NAMES), context)
    if not judgement.allowed or canonical_policy(old) == canonical_policy(new):
        return
    said = [text for text in judgement.warnings if text.startswith("spec.policy: removes the placement from")]
    snapshot = make_policy_snapshot(after)
    snapshot["metadata"]["name"] = "shop-0" if policy_hash(old) == policy_hash(new) else "shop-1"
    if new and "numberOfClusters" in new:
        snapshot["metadata"]["annotations"] = {"kubernetes-fleet.io/number-of-clusters": str(new["numberOfClusters"])}
    documents = [make_binding("shop", name, state=state) for name, state in bindings.items()]
    hub = type("Hub", (), {"cache": type("Cache", (), {"fleet": context.hub.fleet})})
    scheduler = SchedulerController(hub, lambda: NOW, lambda *_: None, None, WorkKeys(None, ""))
    run = scheduler.decide(type("Ref", (), {"namespace": ""}), snapshot, documents)
    held = {read_binding(document, "").cluster for document in documents if document["spec"]["state"] != "Unscheduled"}
    lost = held - {pick.cluster for pick in run.picked} - {binding.cluster for binding in run.kept}
    clusters = f"{len(held)} cluster{'s' * (len(held) != 1)}: {', '.join(sorted(lost))}"
    assert said == ([f"spec.policy: removes the placement from {len(lost)} of {clusters}"] if lost else [])


async def test_what_is_said_is_what_then_happens():
    """The whole hub: the answer, then the update itself."""
    async with world.running() as hub:
        context = CachedContext(hub.cache, AdmissionSettings(), hub.now)
        await hub.add(*(world.make_member(name, env="prod" if name < "k" else "test") for name in NAMES))
        await hub.add(make_placement("shop", pick_n(3)))
        await hub.until(lambda: len(hub.bound("shop")) == 3)
        await hub.cache.wait_synced()
        before = set(hub.bound("shop"))
        await hub.until(lambda: len(hub.cache.get(PLACEMENT, "shop")["status"].get("placementStatuses", ())) == 3)
        old = hub.cache.get(PLACEMENT, "shop")
        policy = pick_n(2, labelled(env="test"))
        new = deepcopy(old)
        new["spec"]["policy"] = policy
        judgement = judge("UPDATE", new, old, context().with_user(JANE))
        await hub.change(PLACEMENT, "shop", policy=policy)
        await hub.until(lambda: set(hub.bound("shop")) != before)
        lost = sorted(before - set(hub.bound("shop")))
        assert lost
        assert (
            judgement.warnings[0]
            == f"spec.policy: removes the placement from {len(lost)} of 3 clusters: {', '.join(lost)}"
        )


def test_the_hook_says_it_and_the_mutating_one_does_not():
    old, new = make_placement(policy=pick_n(4)), make_placement(policy=pick_n(3))
    context = Context.of_objects(hub_of(old, bound(*NAMES)), now=NOW)
    request = {
        "uid": "1",
        "operation": "UPDATE",
        "kind": {"group": PLACEMENT.group, "version": "v1beta1", "kind": PLACEMENT.kind},
        "resource": {"group": PLACEMENT.group, "version": "v1beta1", "resource": PLACEMENT.plural},
        "object": new,
        "oldObject": placed(old, *NAMES),
        "userInfo": {"username": "jane"},
    }
    response = answer({"request": request}, "validate", context)["response"]
    assert response["warnings"][0] == "spec.policy: removes the placement from 1 of 4 clusters: bravelion"
    assert "warnings" not in answer({"request": request}, "mutate", context)["response"]
