"""Whatever a decision depends on has changed since an earlier one: that is noticed, each thing by itself."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from scorer.api.meta import format_time
from scorer.node_budgets.blockers import Blocker
from scorer.node_budgets.pool_view import PoolView
from scorer.node_disruption.cluster.snapshot import HASH, HASH_VERSION
from scorer.node_disruption.instance_types.catalog import InstanceTypeCatalog
from scorer.node_disruption.methods.planner import PlannerOptions, decide, pool_views
from tests.builders.pod import REQUIRED, make_pod
from tests.builders.worker import (
    NOW,
    TYPE,
    drifted,
    kept,
    make_catalog,
    make_cluster,
    make_pool_of,
    make_worker,
)

LATER = NOW + timedelta(hours=1)
HALF_AN_HOUR_LATER = NOW + timedelta(minutes=30)
DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
ZONE = "topology.kubernetes.io/zone"
TAINT = {"key": "closed", "effect": "NoSchedule"}
CORES = {"small": 2, "large": 8}
CATALOG = make_catalog({"small": 1.0, "large": 8.0}, cores=CORES)
SETTINGS = PlannerOptions()
DEARER = make_catalog({"small": 1.5, "large": 8.0}, cores=CORES)


@dataclass(frozen=True)
class Situation:
    """What a pass is asked about."""

    documents: Sequence[Any]
    now: Any = NOW
    catalog: InstanceTypeCatalog | None = CATALOG
    settings: PlannerOptions = SETTINGS
    unseen: Collection[str] = ()
    seen: Callable[[Mapping[str, PoolView]], Mapping[str, PoolView]] = dict


def busy(name, cpu="2", **more):
    return make_pod(f"on-{name}", name, needs={"cpu": cpu}, **more)


def small(name, **more):
    return make_worker(name, "small", cores=2, **more)


BASE = [make_pool_of(), make_pool_of("quiet", after="Never"), small("a"), busy("a"), small("b"), busy("b")]
"""Two nodes, both full, and a pool whose nodes stay, so that nothing is to be done."""
ROOM = small("room", pool="quiet")
"""A node that takes pods."""
STATIC = make_pool_of("static", after="1h", replicas=1)
LARGE = [make_worker("l", "large", cores=8), busy("l")]
CLOSED = make_pool_of(budgets=[{"nodes": "0"}])
OLD = small("a", created=NOW - timedelta(days=2), expireAfter="24h")


def given(*documents, **more):
    """The base with other objects, which come in the place of those of the same name."""
    return Situation([*BASE, *documents], **more)


def over_time(*documents, until=LATER, **more):
    """The same at two instants."""
    return given(*documents, **more), given(*documents, now=until, **more)


def guard(allowed, **spec):
    return {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "guard", "namespace": "shop"},
        "spec": {"selector": {}, **spec},
        "status": {"disruptionsAllowed": allowed},
    }


def namespace(**labels):
    return {"kind": "Namespace", "metadata": {"name": "shop", "labels": labels}}


def daemon(cpu):
    template = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}}
    return {
        "kind": "DaemonSet",
        "metadata": {"name": "d", "namespace": "shop", "uid": "d"},
        "spec": {"template": template},
    }


def alone_among(team):
    """A pod that keeps those of a team away from its node."""
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {},
        "namespaceSelector": {"matchLabels": {"team": team}},
    }
    return make_pod("p", "room", namespace="elsewhere", affinity={"podAntiAffinity": {REQUIRED: [term]}})


def spread():
    """A pod that is spread over zones."""
    selector = {"matchLabels": {"app": "web"}}
    constraint = {"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    return busy("a", labels={"app": "web"}, topologySpreadConstraints=[constraint])


def protected(duration, started=NOW):
    pod = busy("a", annotations={DO_NOT_DISRUPT: duration})
    pod["status"]["startTime"] = format_time(started)
    return pod


def closed(*windows):
    """A pool of which no node goes for an hour from each of these times of the day on."""
    return make_pool_of(budgets=[{"nodes": "0", "schedule": each, "duration": "1h"} for each in windows])


def with_view(**more):
    return lambda views: {**views, "general": replace(views["general"], **more)}


def held(*names, count=0):
    return lambda views: {**views, "general": views["general"].with_held(names, count)}


def nothing(_views):
    return {}


def never(_node, _class, _now):
    return (Blocker("Never", "nothing goes"),)


KEEPING = make_pool_of(template={"annotations": {DO_NOT_DISRUPT: "true"}})


@pytest.mark.parametrize("turned", [False, True], ids=["there", "back"])
@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(given(), given(small("c"), busy("c")), id="a-node-comes"),
        pytest.param(given(), given(small("a", annotations={DO_NOT_DISRUPT: "true"})), id="do-not-disrupt-on-a-node"),
        pytest.param(given(), given(small("a", conditions=drifted())), id="a-claim-has-drifted"),
        pytest.param(given(), given(small("a", deleting=NOW)), id="a-claim-is-deleted"),
        pytest.param(given(ROOM), given(small("room", pool="quiet", taints=[TAINT])), id="a-node-elsewhere-closes"),
        pytest.param(given(), given(busy("a", "1")), id="a-pod-becomes-smaller"),
        pytest.param(given(), given(busy("a", phase="Succeeded")), id="a-pod-has-finished"),
        pytest.param(given(), given(busy("a", annotations={DO_NOT_DISRUPT: "true"})), id="do-not-disrupt-on-a-pod"),
        pytest.param(given(), given(make_pod("p", "b")), id="a-pod-comes"),
        pytest.param(given(ROOM), given(ROOM, make_pod("p", "room", needs={"cpu": "1"})), id="room-elsewhere"),
        pytest.param(given(), given(make_pod("p", needs={"cpu": "4"})), id="a-pod-is-pending"),
        pytest.param(given(busy("a", "1")), given(busy("a", "1"), make_pod("p")), id="a-node-is-nominated"),
        pytest.param(given(), given(guard(0)), id="a-budget-of-pods"),
        pytest.param(given(guard(1)), given(guard(0)), id="a-budget-of-pods-lets-none-go"),
        pytest.param(given(guard(1)), given(guard(1, maxUnavailable=0)), id="a-budget-of-pods-that-never-will"),
        pytest.param(given(), given(make_pool_of(policy="WhenEmpty")), id="another-policy"),
        pytest.param(given(), given(make_pool_of(after="2h")), id="another-consolidate-after"),
        pytest.param(given(), given(CLOSED), id="another-budget"),
        pytest.param(given(), Situation(BASE[1:]), id="a-pool-comes"),
        pytest.param(given(LARGE, daemon("1500m")), given(LARGE, daemon("0")), id="a-daemon-set"),
        pytest.param(
            given(ROOM, alone_among("sea"), namespace(team="sea")),
            given(ROOM, alone_among("sea"), namespace(team="land")),
            id="labels-of-a-namespace",
        ),
        pytest.param(
            given(ROOM, spread()), given(ROOM, spread(), small("far", zone="z2", taints=[TAINT])), id="a-domain-comes"
        ),
        pytest.param(given(), given(small("x", without=["karpenter.sh/nodepool"])), id="a-node-of-no-pool"),
        pytest.param(given(), given(make_pod("p", "nowhere")), id="a-note"),
        pytest.param(given(), given(catalog=None), id="no-catalog"),
        pytest.param(given(), given(catalog=DEARER), id="other-prices"),
        pytest.param(given(), given(catalog=InstanceTypeCatalog(())), id="no-instance-types"),
        pytest.param(given(), given(settings=PlannerOptions(single_node_simulations=1)), id="fewer-tries"),
        pytest.param(
            given(CLOSED, OLD),
            given(CLOSED, OLD, settings=PlannerOptions(graceful_expiration=True)),
            id="graceful-expiration",
        ),
        pytest.param(
            given(KEEPING),
            given(KEEPING, settings=PlannerOptions(template_do_not_disrupt=False)),
            id="do-not-disrupt-on-a-pool",
        ),
        pytest.param(given(), given(seen=held("a")), id="a-node-is-reserved"),
        pytest.param(given(seen=held("a")), given(seen=held("b")), id="another-node-is-reserved"),
        pytest.param(given(), given(seen=held(count=2)), id="nodes-are-reserved"),
        pytest.param(given(), given(seen=nothing), id="pools-are-not-seen"),
        pytest.param(given(), given(seen=with_view(blockers=never)), id="pools-are-seen-otherwise"),
        pytest.param(given(seen=with_view(blockers=never)), given(seen=nothing), id="pools-are-not-seen-any-more"),
        pytest.param(
            given(seen=nothing), given(small("a", labels={TYPE: "large"}), seen=nothing), id="a-node-of-an-unseen-pool"
        ),
        pytest.param(
            *over_time(small("a", created=NOW, expireAfter="1h"), seen=nothing), id="a-node-of-an-unseen-pool-expires"
        ),
        pytest.param(given(), given(seen=with_view(template_do_not_disrupt=True)), id="a-template-is-seen-otherwise"),
        pytest.param(
            given(seen=with_view(blockers=never)),
            given(seen=with_view(blockers=never, nodes={})),
            id="nodes-are-not-seen",
        ),
        pytest.param(given(catalog=None), given(catalog=None, unseen=["general"]), id="what-was-not-come-to"),
        pytest.param(*over_time(protected("30m"), until=HALF_AN_HOUR_LATER), id="do-not-disrupt-ends"),
        pytest.param(
            *over_time(small("a", deleting=NOW), protected("30m"), until=HALF_AN_HOUR_LATER),
            id="do-not-disrupt-ends-on-a-node-that-goes",
        ),
        pytest.param(*over_time(make_pool_of(after="1h"), small("a", last_pod_event=NOW)), id="a-node-has-been-quiet"),
        pytest.param(
            *over_time(STATIC, small("room", pool="static", last_pod_event=NOW)), id="a-node-takes-pods-again"
        ),
        pytest.param(
            *over_time(STATIC, small("a", pool="static"), protected("1h")),
            id="do-not-disrupt-ends-where-it-holds-nothing",
        ),
        pytest.param(
            *over_time(CLOSED, small("a", created=NOW, expireAfter="1h")),
            id="a-node-expires",
        ),
        pytest.param(
            *over_time(CLOSED, small("a", created=NOW, labels={TYPE: "gone"})),
            id="a-type-is-missed",
        ),
        pytest.param(
            *over_time(
                make_pool_of(digest="new", budgets=[{"nodes": "1"}]),
                small("a", conditions={"Drifted": ("X", format_time(HALF_AN_HOUR_LATER))}),
                small("b", claim={HASH: "old", HASH_VERSION: "v3"}),
                busy("a", nodeSelector={"no": "where"}),
                busy("b", nodeSelector={"no": "where"}),
            ),
            id="a-drift-is-no-longer-in-the-future",
        ),
        pytest.param(*over_time(closed("30 12 * * *")), id="a-budget-closes"),
        pytest.param(*over_time(closed("0 12 * * *")), id="a-budget-opens"),
        pytest.param(*over_time(closed("0 12 * * *", "0 13 * * *", "30 13 * * *")), id="another-budget-holds"),
    ],
)
def test_a_change_is_noticed(one, other, turned):
    """One thing at a time, while all else stays the same objects."""
    first, second = (other, one) if turned else (one, other)
    before = make_cluster(first.documents)
    after = kept(before, make_cluster(second.documents))
    earlier, expected = passed(first, before), passed(second, after)
    assert expected != replace(earlier, now=second.now)
    assert passed(second, after, previous=earlier) == expected


def test_nothing_is_to_be_done_at_first():
    assert not passed(given(), make_cluster(BASE)).commands


def passed(situation, cluster, **more):
    views = situation.seen(pool_views(cluster, situation.settings))
    catalog, now, unseen = situation.catalog, situation.now, situation.unseen
    return decide(cluster, catalog, now, situation.settings, views=views, unseen_pools=unseen, **more)
