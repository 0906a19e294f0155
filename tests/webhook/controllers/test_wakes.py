"""What wakes which controller: each kind of object, and each kind of change of it."""

import asyncio
from datetime import timedelta

import pytest

from scorer.api.kinds import (
    BINDING,
    CUSTOM_RESOURCE_DEFINITION,
    EVICTION,
    INTERNAL_MEMBER_CLUSTER,
    KINDS,
    NAMESPACE,
    NAMESPACED_BINDING,
    NAMESPACED_OVERRIDE,
    NAMESPACED_OVERRIDE_SNAPSHOT,
    NAMESPACED_POLICY_SNAPSHOT,
    NAMESPACED_RESOURCE_SNAPSHOT,
    NODE,
    OVERRIDE,
    OVERRIDE_SNAPSHOT,
    PLACEMENT,
    PLACEMENT_STATUS,
    POLICY_SNAPSHOT,
    RESOURCE_PLACEMENT,
    RESOURCE_SNAPSHOT,
    STAGED_RUN,
    UPGRADE_RUN,
    WORK,
)
from scorer.api.names import (
    ACKNOWLEDGE,
    IS_LATEST_SNAPSHOT,
    PARENT_BINDING,
    PARENT_OVERRIDE,
    PARENT_PLACEMENT,
    PARENT_PLACEMENT_NAMESPACE,
    PREVIOUS_BINDING_STATE,
    REMOVE,
)
from scorer.member_gate.holds import MemberDisruption
from scorer.reservations import MEMBER, ROLLOUT, Thing, new_lease
from scorer.rollout.bindings import Overrides
from scorer.rollout.removal.eviction import EVICTED_BINDING
from scorer.rollout.selection.exclusions import SelectionSettings
from tests.scorer.builders import cluster_document
from tests.webhook.controllers.waking import Waking, changed, conditions, deleting, make
from tests.webhook.gate.gates import claim, node, node_pool
from webhook.controllers.machinery import loop
from webhook.controllers.placements.rollout import WAITS_FOR_MEMBER
from webhook.embedded.storage.store import EmbeddedStore

CONFIG_MAP = KINDS["", "ConfigMap"]
ALL = tuple(MemberDisruption)
EAST_SPACE = "fleet-member-east"


def of_placement(name, **labels):
    return {"labels": {PARENT_PLACEMENT: name, **labels}}


def make_placement(name, policy=None, strategy=None, **metadata):
    selector = {"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}
    spec = {"resourceSelectors": [selector], "policy": policy, "strategy": strategy}
    return make(PLACEMENT, name, spec=spec, status={}, **metadata)


def make_binding(placement, cluster, *, kind=BINDING, namespace="", said=(), **metadata):
    spec = {"state": "Bound", "targetCluster": cluster, "resourceSnapshotName": f"{placement}-0-snapshot"}
    labels = of_placement(placement)
    return make(kind, f"{placement}-{cluster}", namespace, spec=spec, status=conditions(*said), **labels, **metadata)


def make_work(name, binding, placement, namespace=""):
    labels = {PARENT_BINDING: binding, PARENT_PLACEMENT: placement, PARENT_PLACEMENT_NAMESPACE: namespace}
    return make(WORK, name, EAST_SPACE, spec={"workload": {"manifests": []}}, labels=labels)


def make_eviction(name, placement, cluster, **annotations):
    spec = {"placementName": placement, "clusterName": cluster}
    return make(EVICTION, name, spec=spec, annotations=annotations)


def make_override_snapshot(kind, name, namespace="", placement=None):
    spec = {"overrideSpec": {"placement": placement} if placement else {}}
    return make(kind, f"{name}-0", namespace, spec=spec, labels={PARENT_OVERRIDE: name})


def make_member(name, **differences):
    made = cluster_document(name, **differences)
    return {**made, "metadata": {"uid": name, "generation": 1, **made["metadata"]}}


def waiting(binding):
    """A binding that says that its rollout waits for its member."""
    said = conditions("RolloutStarted=False")
    said["conditions"][0]["message"] = f"{WAITS_FOR_MEMBER}somebody else has it"
    return {**binding, "status": said}


MIRROR = {"reportBackStrategy": {"type": "Mirror", "destination": "OriginalResource"}}
DONE = ("RolloutStarted", "Applied", "Available")
FULL = {"placementType": "PickN", "numberOfClusters": 1}

WEB = make_placement("web")
ECHO = make_placement("echo", strategy=MIRROR)
FIXED = changed(make_placement("full", FULL), status=conditions("ClusterResourcePlacementScheduled"))
CART = make(RESOURCE_PLACEMENT, "cart", "team", spec={"resourceSelectors": []}, status={})
WEB_EAST, WEB_WEST = (make_binding("web", cluster, said=DONE) for cluster in ("east", "west"))
ECHO_EAST = make_binding("echo", "east", said=DONE)
CART_EAST = make_binding("cart", "east", kind=NAMESPACED_BINDING, namespace="team", said=DONE)
FULL_RECORD = make(
    POLICY_SNAPSHOT,
    "full-0",
    status=conditions("Scheduled"),
    labels={PARENT_PLACEMENT: "full", IS_LATEST_SNAPSHOT: "true"},
)
OFF_EAST = make_eviction("off-east", "web", "east")
SHOP, EAST_HOME = make(NAMESPACE, "shop"), make(NAMESPACE, EAST_SPACE)
EAST = make_member("east", labels={"region": "east"})
THERE = (
    WEB,
    ECHO,
    FIXED,
    CART,
    WEB_EAST,
    WEB_WEST,
    ECHO_EAST,
    CART_EAST,
    FULL_RECORD,
    OFF_EAST,
    SHOP,
    EAST_HOME,
    EAST,
)
"""What is on the hub before anything changes."""


@pytest.fixture(scope="module")
def store():
    """A store that nothing is asked of."""
    opened = EmbeddedStore.open(None)
    yield opened
    opened.close()


@pytest.fixture
def make_waking(store, monkeypatch):
    """Return what makes a loop that has been told of `THERE`, and of more."""

    def started(*more, **settings):
        waking = Waking(store, monkeypatch, **settings)
        waking.follow()
        waking.put(*THERE, *more)
        waking.woken()
        return waking

    return started


def rows(*rows):
    return pytest.mark.parametrize(("before", "after", "woken"), [pytest.param(*row, id=name) for name, *row in rows])


EVERY_PLACEMENT = {"crp/web", "crp/echo", "crp/full", "rp/team/cart"}


def all_of(queue):
    return {f"{queue} {placement}" for placement in EVERY_PLACEMENT}


NEW, NEW_ECHO = make_placement("new"), make_placement("new", strategy=MIRROR)


@rows(
    ("made", None, NEW, {"placement crp/new", "rollout crp/new"}),
    ("spec", NEW, changed(NEW, spec={"policy": FULL}), {"placement crp/new", "rollout crp/new"}),
    ("condition", NEW, changed(NEW, status=conditions("ClusterResourcePlacementApplied")), set()),
    ("label", NEW, changed(NEW, labels={"a": "b"}), set()),
    ("deleted", NEW, deleting(NEW), {"placement crp/new", "rollout crp/new", "scheduler crp/new"}),
    ("made-deleting", None, deleting(NEW), {"placement crp/new", "rollout crp/new", "scheduler crp/new"}),
    ("gone", NEW, None, {"placement crp/new", "rollout crp/new"}),
    ("namespaced-spec", CART, changed(CART, spec={}), {"placement rp/team/cart", "rollout rp/team/cart"}),
    ("reports-back-made", None, NEW_ECHO, {"placement crp/new", "rollout crp/new", "back_report crp/new"}),
    (
        "reports-back-spec",
        ECHO,
        changed(ECHO, spec={}),
        {f"{q} crp/echo" for q in ("placement", "rollout", "back_report")},
    ),
    ("reports-back-selects", ECHO, changed(ECHO, status={"selectedResources": [{}]}), {"back_report crp/echo"}),
    ("reports-back-condition", ECHO, changed(ECHO, status=conditions("Available")), set()),
    ("reports-back-gone", ECHO, None, {"placement crp/echo", "rollout crp/echo", "work echo-east"}),
    (
        "reports-back-from-now-on",
        WEB,
        changed(WEB, spec={"strategy": MIRROR}),
        {"placement crp/web", "rollout crp/web", "back_report crp/web", "work web-east", "work web-west"},
    ),
    (
        "reports-back-no-more",
        ECHO,
        changed(ECHO, spec={"strategy": None}),
        {"placement crp/echo", "rollout crp/echo", "work echo-east"},
    ),
    (
        "reports-back-no-more-and-failed",
        ECHO,
        changed(ECHO, spec={"strategy": None}, status=conditions("harbormaster.dev/BackReportFailed")),
        {"placement crp/echo", "rollout crp/echo", "work echo-east", "back_report crp/echo"},
    ),
)
async def test_placement(make_waking, before, after, woken):
    assert make_waking().change(before, after) == woken


RECORD = make(POLICY_SNAPSHOT, "web-0", **of_placement("web"))
CART_RECORD = make(NAMESPACED_POLICY_SNAPSHOT, "cart-0", "team", **of_placement("cart"))


@rows(
    ("made", None, RECORD, {"scheduler crp/web"}),
    ("label", RECORD, changed(RECORD, **of_placement("web", a="b")), {"scheduler crp/web", "placement crp/web"}),
    ("annotation", RECORD, changed(RECORD, annotations={"a": "b"}), {"scheduler crp/web", "placement crp/web"}),
    ("status", RECORD, changed(RECORD, status=conditions("Scheduled")), {"placement crp/web"}),
    ("nothing", RECORD, RECORD, set()),
    ("deleted", RECORD, deleting(RECORD), set()),
    ("gone", RECORD, None, {"scheduler crp/web", "placement crp/web"}),
    ("namespaced", CART_RECORD, None, {"scheduler rp/team/cart", "placement rp/team/cart"}),
)
async def test_policy_snapshot(make_waking, before, after, woken):
    assert make_waking().change(before, after) == woken


CONTENT = make(RESOURCE_SNAPSHOT, "web-0-snapshot", **of_placement("web"))
CART_CONTENT = make(NAMESPACED_RESOURCE_SNAPSHOT, "cart-0-snapshot", "team", **of_placement("cart"))


@rows(
    ("made", None, CONTENT, {"rollout crp/web"}),
    ("label", CONTENT, changed(CONTENT, **of_placement("web", a="b")), {"rollout crp/web"}),
    ("deleted", CONTENT, deleting(CONTENT), {"rollout crp/web"}),
    ("gone", CONTENT, None, {"rollout crp/web", "placement crp/web"}),
    ("namespaced", CART_CONTENT, None, {"rollout rp/team/cart", "placement rp/team/cart"}),
)
async def test_resource_snapshot(make_waking, before, after, woken):
    assert make_waking().change(before, after) == woken


STATUS, GOES_ON = "placement crp/web after 100 ms", "rollout crp/web after 50 ms"
MEANT = changed(WEB_EAST, annotations={REMOVE: WEB_EAST["metadata"]["uid"]})
NORTH = make_binding("web", "north")
NOT_APPLIED = {**conditions("Applied=False")["conditions"][0], "reason": "SaidOtherwise"}


@rows(
    ("made", None, NORTH, {STATUS, GOES_ON, "work web-north"}),
    (
        "unscheduled",
        WEB_EAST,
        changed(WEB_EAST, spec={"state": "Unscheduled"}, annotations={PREVIOUS_BINDING_STATE: "Bound"}),
        {STATUS, GOES_ON, "work web-east"},
    ),
    (
        "unscheduled-by-a-user",
        WEB_EAST,
        changed(WEB_EAST, spec={"state": "Unscheduled"}),
        {STATUS, GOES_ON, "work web-east", "scheduler crp/web"},
    ),
    (
        "unreadable-state",
        WEB_EAST,
        changed(WEB_EAST, spec={"state": "Nonsense"}),
        {STATUS, GOES_ON, "work web-east", "scheduler crp/web"},
    ),
    (
        "other-cluster",
        WEB_EAST,
        changed(WEB_EAST, spec={"targetCluster": "south"}),
        {STATUS, GOES_ON, "work web-east", "scheduler crp/web"},
    ),
    ("label", WEB_EAST, changed(WEB_EAST, **of_placement("web", a="b")), {STATUS}),
    ("word", WEB_EAST, MEANT, {STATUS, "scheduler crp/web", "work web-east"}),
    ("word-of-another", WEB_EAST, changed(WEB_EAST, annotations={REMOVE: "another"}), {STATUS}),
    ("anything-with-the-word", MEANT, changed(MEANT, **of_placement("web", a="b")), {STATUS, "scheduler crp/web"}),
    ("word-taken-back", MEANT, WEB_EAST, {STATUS, "work web-east"}),
    (
        "started",
        WEB_EAST,
        changed(WEB_EAST, status=conditions("RolloutStarted=False", "Applied", "Available")),
        {STATUS, GOES_ON, "work web-east"},
    ),
    (
        "says-that-it-has-started",
        changed(WEB_EAST, status=conditions("RolloutStarted=False", "Applied", "Available")),
        WEB_EAST,
        {STATUS, "work web-east"},
    ),
    (
        "no-longer-says-that-it-has-started",
        WEB_EAST,
        changed(WEB_EAST, status=conditions("Applied", "Available")),
        {STATUS, GOES_ON, "work web-east"},
    ),
    (
        "not-applied-for-another-reason",
        changed(WEB_EAST, status=conditions("RolloutStarted", "Applied=False")),
        changed(WEB_EAST, status={"conditions": [*conditions("RolloutStarted")["conditions"], NOT_APPLIED]}),
        {STATUS},
    ),
    (
        "available",
        WEB_EAST,
        changed(WEB_EAST, status=conditions("RolloutStarted", "Applied", "Available=False")),
        {STATUS, GOES_ON},
    ),
    ("other-condition", WEB_EAST, changed(WEB_EAST, status=conditions(*DONE, "Overridden")), {STATUS}),
    (
        "deleted",
        WEB_EAST,
        deleting(WEB_EAST),
        {STATUS, "scheduler crp/web", GOES_ON, "work web-east"},
    ),
    ("gone", WEB_EAST, None, {STATUS, "scheduler crp/web", GOES_ON, "work web-east"}),
    (
        "reports-back",
        ECHO_EAST,
        changed(ECHO_EAST, status=conditions(*DONE, "Overridden")),
        {"placement crp/echo after 100 ms", "back_report crp/echo"},
    ),
    (
        "namespaced",
        None,
        changed(CART_EAST, name="cart-west", uid="west"),
        {"placement rp/team/cart after 100 ms", "rollout rp/team/cart after 50 ms", "work team/cart-west"},
    ),
)
async def test_binding(make_waking, before, after, woken):
    assert make_waking().change(before, after) == woken


@pytest.mark.parametrize(
    ("count", "status", "rollout"),
    [
        pytest.param(5, " after 100 ms", " after 50 ms", id="shortest"),
        pytest.param(20, " after 400 ms", " after 100 ms", id="few"),
        pytest.param(400, " after 5000 ms", " after 2000 ms", id="very-many"),
        pytest.param(1500, " after 5000 ms", " after 5000 ms", id="longest"),
    ],
)
async def test_a_status_and_a_rollout_wait_longer_the_more_bindings_there_are(make_waking, count, status, rollout):
    more = [make_binding("big", f"c{number}") for number in range(count)]
    woken = make_waking(*more).change(more[0], changed(more[0], spec={"resourceSnapshotName": "big-1-snapshot"}))
    assert woken == {f"placement crp/big{status}", f"rollout crp/big{rollout}", "work big-c0"}


ORDER = make_work("web-work", "web-east", "web")
ECHO_ORDER = make_work("echo-work", "echo-east", "echo")
CART_ORDER = make_work("cart-work", "cart-east", "cart", "team")


@rows(
    ("made", None, ORDER, {"work web-east"}),
    ("status", ORDER, changed(ORDER, status=conditions("Applied")), {"work web-east"}),
    ("gone", ORDER, None, {"work web-east"}),
    (
        "relabelled",
        ORDER,
        changed(ORDER, labels=make_work("", "web-west", "web")["metadata"]["labels"]),
        {"work web-east", "work web-west"},
    ),
    ("of-nobody", None, changed(ORDER, labels={PARENT_PLACEMENT: "web"}), set()),
    ("reports-back", ECHO_ORDER, changed(ECHO_ORDER, status={}), {"work echo-east", "back_report crp/echo"}),
    ("namespaced", CART_ORDER, None, {"work team/cart-east"}),
)
async def test_work(make_waking, before, after, woken):
    assert make_waking().change(before, after) == woken


SOUTH = make_member("south", labels={"region": "south"})
BROKEN = changed(EAST, spec={"taints": 7})
OF_EAST = {"rollout crp/web", "rollout crp/echo", "rollout rp/team/cart", "work web-east", "work echo-east"} | {
    "work team/cart-east"
}


@rows(
    ("made", None, SOUTH, {"member south"}),
    (
        "made-where-bindings-are",
        None,
        changed(EAST, name="west", uid="w"),
        {"member west", "rollout crp/web", "work web-west"},
    ),
    (
        "label",
        EAST,
        changed(EAST, labels={"region": "far-east"}),
        {"member east", *OF_EAST, *all_of("scheduler")} - {"scheduler crp/full"},
    ),
    (
        "property",
        EAST,
        {**make_member("east", labels={"region": "east"}, properties={"kubernetes-fleet.io/node-count": "7"})},
        all_of("scheduler") - {"scheduler crp/full"},
    ),
    ("heartbeat", EAST, make_member("east", labels={"region": "east"}, heartbeat=timedelta(seconds=1)), set()),
    ("taint", EAST, changed(EAST, spec={"taints": [{"key": "k", "effect": "NoSchedule"}]}), {"member east"}),
    ("deleted", EAST, deleting(EAST), {"member east", *all_of("scheduler")}),
    ("gone", EAST, None, {"member east", *all_of("scheduler")}),
    ("unreadable", EAST, BROKEN, {"member east"}),
    ("unreadable-and-relabelled", EAST, changed(BROKEN, labels={}), {"member east"}),
    ("readable-again", BROKEN, changed(BROKEN, spec={"taints": []}), {"member east"}),
    ("unreadable-gone", BROKEN, None, {"member east", *all_of("scheduler")}),
)
async def test_member_cluster(make_waking, before, after, woken):
    assert make_waking().change(before, after) == woken


async def test_a_record_that_says_less_than_its_placement_counts(make_waking):
    """The placement copies what the scheduler has recorded a little later."""
    waking = make_waking()
    waking.put(changed(FULL_RECORD, status=conditions("Scheduled=False")))
    assert "scheduler crp/full" in waking.change(EAST, changed(EAST, labels={}))


JOIN = make(INTERNAL_MEMBER_CLUSTER, "east", EAST_SPACE)


@rows(
    ("order-made", None, JOIN, {"member east"}),
    ("report", JOIN, changed(JOIN, status={"agentStatus": []}), {"member east"}),
    ("order-gone", JOIN, None, {"member east"}),
    ("order-elsewhere", None, make(INTERNAL_MEMBER_CLUSTER, "west", EAST_SPACE), set()),
    ("namespace-label", EAST_HOME, changed(EAST_HOME, labels={"a": "b"}), {"member east"}),
    ("namespace-annotation", EAST_HOME, changed(EAST_HOME, annotations={"a": "b"}), set()),
    ("namespace-deleted", EAST_HOME, deleting(EAST_HOME), {"member east"}),
    ("namespace-gone", EAST_HOME, None, {"member east"}),
    ("other-namespace", SHOP, None, set()),
)
async def test_what_the_hub_has_of_a_member(make_waking, before, after, woken):
    assert make_waking().change(before, after) == woken


PATCH = make(OVERRIDE, "patch")
NAMED_PATCH = make(OVERRIDE, "patch", spec={"placement": {"name": "web"}})
ADVICE = "advisory cro/patch after 100 ms"
PATCH_0 = make_override_snapshot(OVERRIDE_SNAPSHOT, "patch", placement={"name": "web"})
TEAM_PATCH = make(NAMESPACED_OVERRIDE, "patch", "team")
TEAM_PATCH_0 = make_override_snapshot(
    NAMESPACED_OVERRIDE_SNAPSHOT, "patch", "team", {"name": "cart", "scope": "Namespaced"}
)
ANY_PATCH_0 = make_override_snapshot(OVERRIDE_SNAPSHOT, "patch")


@rows(
    ("made", None, PATCH, {"override cro/patch", ADVICE}),
    ("spec", PATCH, changed(PATCH, spec={"policy": {}}), {"override cro/patch", ADVICE}),
    ("acknowledged", PATCH, changed(PATCH, annotations={ACKNOWLEDGE: "X-78"}), {ADVICE}),
    ("made-for-one", None, NAMED_PATCH, {"override cro/patch", "advisory crp/web after 100 ms"}),
    ("label", PATCH, changed(PATCH, labels={"a": "b"}), set()),
    ("deleted", PATCH, deleting(PATCH), {"override cro/patch", ADVICE}),
    ("gone", PATCH, None, {"override cro/patch", ADVICE}),
    ("namespaced", None, TEAM_PATCH, {"override ro/team/patch", "advisory ro/team/patch after 100 ms"}),
    ("snapshot-made", None, PATCH_0, {"override cro/patch", "rollout crp/web"}),
    ("snapshot-label", PATCH_0, changed(PATCH_0, annotations={"a": "b"}), {"override cro/patch", "rollout crp/web"}),
    ("snapshot-gone", PATCH_0, None, {"override cro/patch", "rollout crp/web"}),
    ("snapshot-for-any", ANY_PATCH_0, None, {"override cro/patch"}),
    ("snapshot-namespaced", TEAM_PATCH_0, None, {"override ro/team/patch", "rollout rp/team/cart"}),
)
async def test_override(make_waking, before, after, woken):
    assert make_waking().change(before, after) == woken


OUTDATED = make(OVERRIDE_SNAPSHOT, "patch-0", labels={PARENT_OVERRIDE: "patch", IS_LATEST_SNAPSHOT: "false"})
LATEST = make(OVERRIDE_SNAPSHOT, "patch-1", labels={PARENT_OVERRIDE: "patch", IS_LATEST_SNAPSHOT: "true"})
PATCHED = changed(WEB_EAST, spec=Overrides(("patch-0",)).fields())
PATCHED_ANEW = changed(WEB_EAST, spec=Overrides(("patch-1",)).fields())
PATCHED_ELSEWHERE = changed(WEB_WEST, spec=Overrides(("patch-0",)).fields())
PATCHING = [{"clusters": [{"clusterResourceOverrideSnapshots": ["patch-0", "patch-1"]}]}]
PATCH_RUN = make(STAGED_RUN, "patching", status={"stagesStatus": PATCHING})
PATCH_RUN_OVER = changed(
    PATCH_RUN, status={**PATCH_RUN["status"], "conditions": [{"type": "Succeeded", "status": "True"}]}
)


@pytest.mark.parametrize(
    ("others", "before", "after", "woken"),
    [
        pytest.param((), PATCHED, None, {"override cro/patch"}, id="binding-gone"),
        pytest.param((), PATCHED, PATCHED_ANEW, {"override cro/patch"}, id="binding-moves"),
        pytest.param((), PATCHED_ANEW, None, set(), id="binding-of-the-latest"),
        pytest.param((PATCHED_ELSEWHERE,), PATCHED, None, set(), id="another-binding"),
        pytest.param((PATCH_RUN,), PATCHED, None, set(), id="an-active-run"),
        pytest.param((PATCH_RUN_OVER,), PATCHED, None, {"override cro/patch"}, id="a-run-that-is-over"),
        pytest.param((), PATCH_RUN, PATCH_RUN_OVER, {"override cro/patch"}, id="run-over"),
        pytest.param((PATCHED,), PATCH_RUN, PATCH_RUN_OVER, set(), id="run-over-with-a-binding"),
        pytest.param((), PATCH_RUN, None, {"override cro/patch"}, id="run-gone"),
        pytest.param((), PATCH_RUN_OVER, None, set(), id="run-gone-that-was-over"),
    ],
)
async def test_an_outdated_snapshot_that_is_no_longer_used(make_waking, others, before, after, woken):
    waking = make_waking(OUTDATED, LATEST, *others)
    assert {key for key in waking.change(before, after) if key.startswith("override")} == woken


LATER = make_eviction("later", "web", "west")
NAMED = make_eviction("later", "web", "west", **{EVICTED_BINDING: WEB_WEST["metadata"]["uid"]})


@rows(
    ("made", None, LATER, {"eviction later"}),
    ("spec", LATER, changed(LATER, spec={"clusterName": "east"}), {"eviction later"}),
    ("names-its-binding", LATER, NAMED, set()),
    ("answer", LATER, changed(LATER, status=conditions("Executed")), set()),
    ("deleted", LATER, deleting(LATER), {"eviction later"}),
    ("gone", LATER, None, set()),
    ("gone-after-its-word", NAMED, None, {"scheduler crp/web"}),
)
async def test_eviction(make_waking, before, after, woken):
    assert make_waking().change(before, after) == woken


COPY = make(PLACEMENT_STATUS, "web", "shop")


@rows(
    ("made", None, COPY, set()),
    ("changed", COPY, changed(COPY, status=conditions("Applied")), {"placement crp/web"}),
    ("gone", COPY, None, {"placement crp/web"}),
)
async def test_status_copy(make_waking, before, after, woken):
    assert make_waking().change(before, after) == woken


BOATS = make(CUSTOM_RESOURCE_DEFINITION, "boats.example.com", spec={"group": "example.com", "names": {"kind": "Boat"}})
SERVED = changed(BOATS, status=conditions("Established"))


@rows(
    ("made", None, BOATS, all_of("placement")),
    ("established", BOATS, SERVED, all_of("placement")),
    ("spec", SERVED, changed(SERVED, spec={"versions": []}), all_of("placement")),
    ("label", SERVED, changed(SERVED, labels={"a": "b"}), set()),
    ("gone", SERVED, None, all_of("placement")),
)
async def test_definition(make_waking, before, after, woken):
    waking = make_waking()
    if before is not None:
        waking.put(before)
    waking.selectables._stale = False
    assert waking.change(None if before is None else before, after) == woken
    assert waking.selectables._stale is bool(woken)
    assert (("example.com", "Boat") in waking.selectables._missing) is (after is None)


RATES = make(CONFIG_MAP, "rates", "shop")


@rows(
    ("made", None, RATES, {"placement crp/web", "placement crp/echo", "placement crp/full", "back_report crp/echo"}),
    (
        "content",
        RATES,
        {**RATES, "data": {"a": "b"}},
        {"placement crp/web", "placement crp/echo", "placement crp/full"},
    ),
    (
        "label",
        RATES,
        changed(RATES, labels={"a": "b"}),
        {"placement crp/web", "placement crp/echo", "placement crp/full"},
    ),
    ("status", RATES, changed(RATES, status={"a": "b"}), set()),
    ("bookkeeping", RATES, changed(RATES, generation=2, managedFields=[]), set()),
    ("gone", RATES, None, {"placement crp/web", "placement crp/echo", "placement crp/full"}),
    ("elsewhere", None, make(CONFIG_MAP, "rates", "dock"), set()),
    ("of-a-member", None, make(CONFIG_MAP, "rates", EAST_SPACE), set()),
)
async def test_selected_object(make_waking, before, after, woken):
    waking = make_waking()
    for kind in (CONFIG_MAP, NAMESPACE):
        waking.cache.of_kind(kind).synced.set()
    waking.selectables._stale = False
    waking.selectables._watch(CONFIG_MAP)
    assert waking.change(before, after) == woken


async def test_what_a_member_keeps_on_the_hub_wakes_no_placement_that_selects_all_namespaces(make_waking):
    everything = {"group": "", "version": "v1", "kind": "Namespace"}
    waking = make_waking(changed(WEB, spec={"resourceSelectors": [everything]}))
    waking.cache.of_kind(CONFIG_MAP).synced.set()
    waking.selectables._watch(CONFIG_MAP)
    assert "placement crp/web" in waking.change(None, make(CONFIG_MAP, "new", "shop"))
    assert waking.change(None, make(CONFIG_MAP, "new", EAST_SPACE)) == set()


async def test_a_selected_namespace(make_waking):
    waking = make_waking()
    waking.cache.of_kind(NAMESPACE).synced.set()
    waking.selectables._watch(NAMESPACE)
    assert waking.change(SHOP, changed(SHOP, labels={"a": "b"})) == {
        f"placement crp/{n}" for n in ("web", "echo", "full")
    }
    waking.selectables.end()
    assert waking.change(SHOP, changed(SHOP, labels={"a": "c"})) == set()


TO_EVICTIONS = (MemberDisruption.EVICTION, MemberDisruption.UPGRADE)
TO_ROLLOUTS = (MemberDisruption.ROLLOUT, MemberDisruption.UPGRADE)
EXECUTING = make_eviction("executing", "web", "west", **{EVICTED_BINDING: WEB_WEST["metadata"]["uid"]})
WEST_WAITS = waiting(make_binding("late", "west"))
EAST_WAITS = waiting(make_binding("late", "east"))
WAITING = (EXECUTING, WEST_WAITS, EAST_WAITS)
ROLLING = changed(WEB_EAST, status=conditions("RolloutStarted", "Applied"))


PLAN = "upgrade_plan v131 after 1000 ms"
RUN = "cluster_upgrade v131"


def make_run(*members):
    entries = [{"name": name, "state": "Running"} for name in members]
    return make(UPGRADE_RUN, "v131", status={"stages": [{"groups": [{"members": entries}]}]})


@rows(
    ("eviction-made", None, LATER, {"eviction later"}),
    ("eviction-answered", LATER, changed(LATER, status=conditions("Executed")), set()),
    ("eviction-gone", LATER, None, {"eviction later"}),
    ("eviction-gone-after-its-word", EXECUTING, None, {"eviction executing", "scheduler crp/web"}),
    (
        "its-binding-gone",
        WEB_WEST,
        None,
        {STATUS, "scheduler crp/web", GOES_ON, "work web-west", "eviction executing"},
    ),
    ("another-binding-gone", NORTH, None, {STATUS, "scheduler crp/web", GOES_ON, "work web-north"}),
    ("upgrade-begins", make_run(), make_run("east"), {PLAN, "eviction off-east", "rollout crp/late"}),
    ("upgrade-ends", make_run("east"), make_run(), {PLAN, "eviction off-east", "rollout crp/late"}),
    ("upgrade-made", None, make_run("west"), {RUN, PLAN, "eviction executing", "rollout crp/late"}),
    ("upgrade-goes-on", make_run("east"), changed(make_run("east"), labels={"a": "b"}), set()),
    ("upgrade-gone", make_run("east"), None, {RUN, PLAN, "eviction off-east", "rollout crp/late"}),
    (
        "rollout-begins",
        WEB_EAST,
        ROLLING,
        {STATUS, GOES_ON, "eviction off-east", "rollout crp/late"},
    ),
    (
        "rollout-ends",
        ROLLING,
        WEB_EAST,
        {STATUS, GOES_ON, "eviction off-east", "rollout crp/late"},
    ),
)
async def test_gated(make_waking, before, after, woken):
    assert make_waking(*WAITING, gate_members=ALL).change(before, after) == woken


@rows(
    ("eviction-gone", LATER, None, {"eviction later"}),
    (
        "its-binding-gone",
        WEB_WEST,
        None,
        {STATUS, "scheduler crp/web", GOES_ON, "work web-west", "eviction executing"},
    ),
    ("upgrade-begins", make_run(), make_run("east"), {PLAN, "eviction off-east"}),
    ("rollout-begins", WEB_EAST, ROLLING, {STATUS, GOES_ON}),
)
async def test_gated_without_rollouts(make_waking, before, after, woken):
    assert make_waking(*WAITING, gate_members=TO_EVICTIONS).change(before, after) == woken


@rows(
    ("eviction-gone", LATER, None, set()),
    ("its-binding-gone", WEB_WEST, None, {STATUS, "scheduler crp/web", GOES_ON, "work web-west"}),
    ("upgrade-begins", make_run(), make_run("east"), {PLAN, "rollout crp/late"}),
    ("rollout-begins", WEB_EAST, ROLLING, {STATUS, GOES_ON, "rollout crp/late"}),
)
async def test_gated_without_evictions(make_waking, before, after, woken):
    assert make_waking(*WAITING, gate_members=TO_ROLLOUTS).change(before, after) == woken


@pytest.mark.parametrize("gated", [(), (MemberDisruption.UPGRADE,)], ids=["nothing", "upgrades-alone"])
async def test_without_a_gate_nothing_waits(make_waking, gated):
    waking = make_waking(*WAITING, gate_members=gated)
    assert waking.change(make_run(), make_run("east")) == {PLAN}
    assert waking.change(LATER, None) == set()
    assert waking.change(WEB_WEST, None) == {STATUS, "scheduler crp/web", GOES_ON, "work web-west"}


@pytest.mark.parametrize(
    ("gated", "thing", "woken"),
    [
        pytest.param(ALL, Thing(MEMBER, "east"), {"eviction off-east", "rollout crp/late"}, id="member"),
        pytest.param(TO_EVICTIONS, Thing(MEMBER, "east"), {"eviction off-east"}, id="member-for-evictions"),
        pytest.param(TO_ROLLOUTS, Thing(MEMBER, "east"), {"rollout crp/late"}, id="member-for-rollouts"),
        pytest.param(ALL, Thing(MEMBER, "north"), set(), id="member-of-nobody"),
        pytest.param(ALL, Thing(ROLLOUT, "crp/web"), {"rollout crp/web"}, id="placement"),
        pytest.param(ALL, Thing(ROLLOUT, "rp/team/cart"), {"rollout rp/team/cart"}, id="namespaced-placement"),
        pytest.param(ALL, Thing(ROLLOUT, "crp/nowhere"), set(), id="unknown-placement"),
        pytest.param(TO_EVICTIONS, Thing(ROLLOUT, "crp/web"), set(), id="placement-without-rollouts"),
        pytest.param(ALL, Thing("disruption", "east"), set(), id="node-pool"),
    ],
)
async def test_reservation(make_waking, gated, thing, woken):
    waking = make_waking(*WAITING, gate_members=gated)
    lease = new_lease(thing, "harbormaster-system")
    waking.put(lease, shelf=waking.leases)
    assert waking.woken() == woken
    waking.drop(lease, shelf=waking.leases)
    assert waking.woken() == woken


async def test_a_lease_that_is_not_about_what_it_says_wakes_nobody(make_waking):
    waking = make_waking(*WAITING, gate_members=ALL)
    lease = new_lease(Thing(MEMBER, "east"), "harbormaster-system")
    waking.put({**lease, "metadata": {**lease["metadata"], "annotations": {}}}, shelf=waking.leases)
    assert waking.woken() == set()


POOL, NODE_1, CLAIM_1 = node_pool("a"), node("a-1", "a"), claim("a-1", "a")


@rows(
    ("pool-made", None, POOL, {"node_pool a"}),
    ("pool-changed", POOL, node_pool("a", {"nodes": "0"}), {"node_pool a"}),
    ("pool-gone", POOL, None, {"node_pool a"}),
    ("node-made", None, NODE_1, {"node_pool a"}),
    ("node-not-ready", NODE_1, node("a-1", "a", ready=False), {"node_pool a"}),
    ("node-heartbeat", NODE_1, changed(NODE_1, annotations={"a": "b"}), set()),
    ("node-moves", NODE_1, node("a-1", "b"), {"node_pool a", "node_pool b"}),
    ("node-of-no-pool", None, make(NODE, "other"), set()),
    ("claim-alone", None, CLAIM_1, set()),
    ("node-gone", NODE_1, None, {"node_pool a"}),
)
async def test_node_pool(make_waking, before, after, woken):
    assert make_waking().change(before, after) == woken


async def test_where_placements_select_nodes_no_pool_is_looked_at(make_waking):
    waking = make_waking(selection=SelectionSettings.of(allowed="v1/Node"))
    assert waking.change(None, POOL) == set()


async def test_at_the_start_everything_is_woken(store, monkeypatch):
    waking = Waking(store, monkeypatch)
    waking.put(*THERE, POOL, ORDER, PATCH, COPY)
    waking.woken()
    waking.follow()
    assert waking.woken() == {
        "member east",
        "override cro/patch",
        ADVICE,
        *all_of("placement"),
        "placement crp/web after 100 ms",
        "placement crp/echo after 100 ms",
        "placement rp/team/cart after 100 ms",
        "scheduler crp/full",
        *all_of("rollout"),
        "rollout crp/web after 50 ms",
        "rollout crp/echo after 50 ms",
        "rollout rp/team/cart after 50 ms",
        "work web-east",
        "work web-west",
        "work echo-east",
        "work team/cart-east",
        "eviction off-east",
        "back_report crp/echo",
        "node_pool a",
    }


async def test_after_a_while_everything_is_woken_again(make_waking):
    waking = make_waking(POOL, PATCH, ORDER)
    waking.selectables._stale = False
    resync = asyncio.create_task(waking.loop._resync())
    await asyncio.sleep(2 * loop.RESYNC.total_seconds())
    resync.cancel()
    assert waking.selectables._stale
    assert waking.woken() == {
        *all_of("placement"),
        *all_of("advisory"),
        "advisory cro/patch",
        *all_of("scheduler"),
        *all_of("rollout"),
        "back_report crp/echo",
        "eviction off-east",
        "member east",
        "work web-east",
        "work web-west",
        "work echo-east",
        "work team/cart-east",
        "node_pool a",
    }
