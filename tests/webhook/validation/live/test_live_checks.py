"""Live checks, by the ids of their rules: what the rest of the hub makes of a write. They never deny."""

from copy import deepcopy
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scorer.api.kinds import KINDS, PLACEMENT
from tests.builders.binding import make_binding
from tests.builders.placement import fixed, make_placement
from tests.thoroughness import examples
from tests.webhook.validation.live_objects import (
    JANE,
    NAMESPACE,
    NOW,
    PARENT,
    ROLE,
    SHOP,
    labelled,
    make,
    make_budget,
    make_eviction,
    make_member,
    make_override,
    make_run,
    make_snapshot,
    make_strategy,
    measured,
    pick_n,
    plain,
    sorted_by,
)
from tests.webhook.validation.moving_clock import Watch
from webhook.admission.judge import MOST_WARNINGS, judge
from webhook.settings.admission import AdmissionSettings
from webhook.validation.framework.context import Context
from webhook.validation.framework.field import LONGEST_WARNING
from webhook.validation.live import placement as live_placement
from webhook.validation.live.check import LONGEST_KNOWN, MOST_KNOWN, run_checks, with_names

R = "resources.kubernetes-fleet.io/"


def of(rule, warnings):
    return [(str(warning.field), warning.message) for warning in warnings if warning.rule == rule]


def findings(document, old, hub, **switches):
    """Return what the live checks of a kind say, and make sure that the verdict is theirs to leave alone."""
    from webhook.admission.registry import REGISTRY

    subject = document or old
    entry = REGISTRY[subject["apiVersion"].partition("/")[0], subject["kind"]]
    context = Context.of_objects(hub, user=JANE, now=NOW, settings=AdmissionSettings(**switches))

    def fail(check, error):
        raise AssertionError(check) from error

    context = replace(context, on_failure=fail)
    return run_checks(entry.live if document else entry.live_on_deletion, document, old, context)


LION, CAT, FISH = (make_member(name, env="prod") for name in ("bravelion", "jumpingcat", "smartfish"))
TAINTED = make_member("tainted", taints=[{"key": "gpu", "effect": "NoSchedule"}])
FLEET = [LION, CAT, make_member("smartfish", env="test", properties={"harbor.example.org/slots": "3"})]
LATENCY = "scores.harbormaster.dev/latency"
SCORED = make_member("scored")
SCORED["metadata"]["annotations"] = {LATENCY: '{"value": "42"}'}

NUMBER = "spec.policy.numberOfClusters"


@pytest.mark.parametrize(
    ("policy", "members", "message"),
    [
        pytest.param(pick_n(3), FLEET, None, id="enough"),
        pytest.param(
            pick_n(4), FLEET, "4 clusters requested, but only 3 clusters joined so far", id="more-than-joined"
        ),
        pytest.param(
            pick_n(2),
            [LION, make_member("x", joined=False)],
            "2 clusters requested, but only 1 cluster joined so far",
            id="not-joined",
        ),
        pytest.param(
            pick_n(3, labelled(env="prod")),
            FLEET,
            "3 clusters requested, but the terms and tolerations match only 2 of 3 joined clusters",
            id="labels",
        ),
        pytest.param(pick_n(3, labelled(env="prod"), labelled(env="test")), FLEET, None, id="terms-are-ored"),
        pytest.param(
            pick_n(2, measured("harbor.example.org/slots")),
            FLEET,
            "2 clusters requested, but the terms and tolerations match only 1 of 3 joined clusters",
            id="properties",
        ),
        pytest.param(
            pick_n(2),
            [LION, TAINTED],
            "2 clusters requested, but the terms and tolerations match only 1 of 2 joined clusters",
            id="taints",
        ),
        pytest.param(pick_n(2, tolerations=[{"operator": "Exists"}]), [LION, TAINTED], None, id="tolerated"),
        pytest.param(
            pick_n(2, labelled(env="prod")), [LION, make_member("new", silent=True)], None, id="silent-may-still-fit"
        ),
        pytest.param(pick_n(9), [], None, id="no-members-known"),
        pytest.param({"placementType": "PickAll"}, FLEET, None, id="PickAll"),
    ],
)
def test_x05_more_clusters_than_there_can_be(policy, members, message):
    found = of("X-05", findings(make_placement(policy=policy), None, members))
    assert found == ([(NUMBER, message)] if message else [])


def test_x05_is_said_of_each_fleet_anew_whatever_was_said_of_another():
    """What is found out about a policy is kept for one fleet, and only so much of it."""
    said = [
        [of("X-05", findings(make_placement(policy=pick_n(count)), None, members)) for count in range(1, 5)]
        for members in (FLEET, [LION], FLEET)
    ]
    assert [[bool(each) for each in fleet] for fleet in said] == [
        [False, False, False, True],
        [False, True, True, True],
        [False, False, False, True],
    ]
    context = Context.of_objects(FLEET, user=JANE, now=NOW)
    for count in range(MOST_KNOWN + 20):
        assert judge("CREATE", make_placement(policy=pick_n(count + 1)), None, context).allowed
    assert len(live_placement._of_this_fleet(context.hub.fleet)) == MOST_KNOWN
    long = {**pick_n(5), "tolerations": [{"key": f"key-{number:060}", "operator": "Exists"} for number in range(60)]}
    assert of("X-05", findings(make_placement(policy=long), None, FLEET))
    assert max(map(len, live_placement._of_this_fleet(context.hub.fleet)), default=0) <= LONGEST_KNOWN


def test_x05_judges_the_policy_as_it_is_written_now():
    context = Context.of_objects(FLEET, user=JANE, now=NOW)
    placement, other = make_placement(policy=pick_n(3)), make_placement(policy=pick_n(3, labelled(env="prod")))
    narrow = other["spec"]["policy"]["affinity"]
    said = []
    for document, affinity in ((placement, None), (other, narrow), (placement, narrow), (placement, None)):
        document["spec"]["policy"].pop("affinity", None)
        document["spec"]["policy"] |= {"affinity": affinity} if affinity else {}
        said.append(any("match only 2 of 3" in text for text in judge("CREATE", document, None, context).warnings))
    assert said == [False, True, True, False]


def test_x05_is_said_beside_a_mistake_that_was_there_before():
    context = Context.of_objects(FLEET, user=JANE, now=NOW)
    old = make_placement(policy=pick_n(2, labelled(env="prod")), revisionHistoryLimit=0)
    new = make_placement(policy=pick_n(3, labelled(env="prod")), revisionHistoryLimit=0)
    judgement = judge("UPDATE", new, old, context)
    assert judgement.allowed
    assert any("match only 2 of 3" in text for text in judgement.warnings)


def test_x05_is_not_repeated_by_an_update_that_leaves_the_policy_alone():
    old = make_placement(policy=pick_n(4))
    assert not of("X-05", findings(make_placement(policy=pick_n(4), revisionHistoryLimit=5), old, FLEET))
    assert of("X-05", findings(make_placement(policy=pick_n(5)), old, FLEET))


@pytest.mark.parametrize(
    ("new", "old", "hub", "paths"),
    [
        pytest.param(fixed("bravelion"), None, FLEET, [], id="there"),
        pytest.param(fixed("bravelion", "typo"), None, FLEET, ["spec.policy.clusterNames[1]"], id="typo"),
        pytest.param(
            fixed("typo", "oops"), fixed("typo"), FLEET, ["spec.policy.clusterNames[1]"], id="only-what-is-new"
        ),
        pytest.param(fixed("typo"), None, [], [], id="no-members-known"),
    ],
)
def test_x07_a_listed_cluster_that_is_not_there(new, old, hub, paths):
    found = findings(make_placement(policy=new), make_placement(policy=old) if old else None, hub)
    assert [path for path, _ in of("X-07", found)] == paths


@pytest.mark.parametrize(
    ("policy", "members", "messages"),
    [
        pytest.param(pick_n(1, measured("harbor.example.org/slots")), FLEET, [], id="reported"),
        pytest.param(
            pick_n(1, measured("harbor.example.org/slot")),
            FLEET,
            ["no cluster reports it. Did you mean harbor.example.org/slots?"],
            id="close",
        ),
        pytest.param(pick_n(1, measured("berths")), FLEET, ["no cluster reports it"], id="nothing-close"),
        pytest.param(pick_n(1, preferred=[sorted_by("berths")]), FLEET, ["no cluster reports it"], id="sorter"),
        pytest.param(pick_n(1, measured(f"{R}total-cpu")), FLEET, [], id="well-known"),
        pytest.param(pick_n(1, measured(f"{R}total-nvidia.com-gpu")), FLEET, [], id="reported-resource"),
        pytest.param(pick_n(1, measured(f"{R}total-disks")), FLEET, ["no cluster reports it"], id="other-resource"),
        pytest.param(pick_n(1, measured("kubernetes.azure.com/vm-sizes/a1/count")), FLEET, [], id="size-count"),
        pytest.param(pick_n(1, preferred=[sorted_by(LATENCY)]), [*FLEET, SCORED], [], id="external-score"),
        pytest.param(pick_n(1, preferred=[sorted_by(LATENCY)]), FLEET, ["no cluster reports it"], id="no-such-score"),
        pytest.param(pick_n(1, measured("berths")), [*FLEET, make_member("x", silent=True)], [], id="one-is-silent"),
        pytest.param(pick_n(1, measured("berths")), [LION], [], id="nothing-is-reported"),
        pytest.param(pick_n(1, measured("berths")), [], [], id="no-members-known"),
    ],
)
def test_x08_a_property_that_nobody_reports(policy, members, messages):
    found = of("X-08", findings(make_placement(policy=policy), None, members))
    assert [message for _, message in found] == messages
    assert all(path.endswith(".name") for path, _ in found)


@pytest.mark.parametrize(
    ("selectors", "namespace", "hub", "messages"),
    [
        pytest.param([NAMESPACE], "", [SHOP], [], id="there"),
        pytest.param(
            [{**NAMESPACE, "name": "shpo"}], "", [SHOP], ['there is no Namespace "shpo" yet'], id="misspelt-name"
        ),
        pytest.param([NAMESPACE], "", [], [], id="kind-not-known"),
        pytest.param(
            [{**ROLE, "name": "", "labelSelector": {"matchLabels": {"a": "b"}}}],
            "",
            [plain("rbac.authorization.k8s.io/v1", "ClusterRole", "x", a="c")],
            ["selects no ClusterRole yet"],
            id="no-label-fits",
        ),
        pytest.param(
            [{**ROLE, "name": "", "labelSelector": {"matchLabels": {"a": "b"}}}],
            "",
            [plain("rbac.authorization.k8s.io/v1", "ClusterRole", "x", a="b")],
            [],
            id="a-label-fits",
        ),
        pytest.param(
            [{"group": "", "version": "v1", "kind": "ConfigMap", "name": "rates"}],
            "dock",
            [plain("v1", "ConfigMap", "rates", "quay")],
            ['there is no ConfigMap "rates" yet'],
            id="in-another-namespace",
        ),
        pytest.param(
            [
                {**NAMESPACE, "selectionScope": "NamespaceWithResourceSelectors"},
                {"group": "", "version": "v1", "kind": "ConfigMap"},
            ],
            "",
            [SHOP, plain("v1", "ConfigMap", "rates", "shop")],
            [],
            id="in-the-selected-namespace",
        ),
    ],
)
def test_x25_a_selector_that_finds_nothing(selectors, namespace, hub, messages):
    document = make_placement(selectors=selectors, namespace=namespace)
    assert [message for _, message in of("X-25", findings(document, None, hub))] == messages


SHARED = "crp/other places it on 1 of the same clusters: only one of them can apply it there"
CO_OWNED = {"applyStrategy": {"allowCoOwnership": True}}
LABELLED_NAMESPACE = {"group": "", "version": "v1", "kind": "Namespace", "labelSelector": {"matchLabels": {"a": "b"}}}


@pytest.mark.parametrize(
    ("mine", "other", "bound", "messages"),
    [
        pytest.param({}, {}, ["bravelion"], [SHARED], id="same-name"),
        pytest.param({}, {}, ["elsewhere"], [], id="other-clusters"),
        pytest.param({}, {"selectors": [{**NAMESPACE, "name": "dock"}]}, ["bravelion"], [], id="other-object"),
        pytest.param({}, {"selectors": [LABELLED_NAMESPACE]}, ["bravelion"], [SHARED], id="by-label"),
        pytest.param({}, {"selectors": [{**ROLE, "name": "shop"}]}, ["bravelion"], [], id="other-kind"),
        pytest.param({}, {"selectors": [{**NAMESPACE, "kind": []}]}, ["bravelion"], [], id="stored-with-another-type"),
        pytest.param({"strategy": CO_OWNED}, {"strategy": CO_OWNED}, ["bravelion"], [SHARED], id="both-share"),
        pytest.param({"strategy": CO_OWNED}, {}, ["bravelion"], [SHARED], id="one-shares"),
        pytest.param({}, {}, [], [], id="bindings-not-known"),
    ],
)
def test_x22_another_placement_places_the_same_object(mine, other, bound, messages):
    hub = [*FLEET, plain("v1", "Namespace", "shop", a="b"), make_placement("other", **other)]
    hub += [make_binding("other", cluster) for cluster in bound]
    document = make_placement(policy=fixed("bravelion", "jumpingcat"), **mine)
    assert [message for _, message in of("X-22", findings(document, None, hub))] == messages


def test_x22_a_placement_does_not_clash_with_itself():
    hub = [*FLEET, SHOP, make_placement(), make_binding("shop", "bravelion")]
    document = make_placement(policy=fixed("bravelion"))
    assert not of("X-22", findings(document, None, hub))


@pytest.mark.parametrize(
    ("limit", "run", "warned"),
    [
        pytest.param(2, make_run(resourceSnapshotIndex="3"), True, id="falls-out"),
        pytest.param(5, make_run(resourceSnapshotIndex="3"), False, id="stays"),
        pytest.param(2, make_run(status={"resourceSnapshotIndexUsed": "3"}), True, id="as-initialised"),
        pytest.param(2, make_run(resourceSnapshotIndex="3", conditions=[("Succeeded", "True")]), False, id="finished"),
        pytest.param(2, make_run(resourceSnapshotIndex="3", placementName="other"), False, id="of-another"),
        pytest.param(30, make_run(resourceSnapshotIndex="3"), False, id="raised"),
        pytest.param(2, None, False, id="runs-not-known"),
    ],
)
def test_x24_a_shorter_history_prunes_what_a_run_uses(limit, run, warned):
    hub = [make_snapshot("shop", index) for index in range(6)] + ([run] if run else [])
    found = findings(make_placement(revisionHistoryLimit=limit), make_placement(), hub)
    assert bool(of("X-24", found)) is warned


EVERYONE = {"name": "all", "labelSelector": {}}
PROD = {"name": "prod", "labelSelector": {"matchLabels": {"env": "prod"}}}
WAITING = [make_placement(strategy={"type": "External"}), make_binding("shop", "bravelion")]
ON_FISH = make_binding("shop", "smartfish")


@pytest.mark.parametrize(
    ("stages", "hub", "messages"),
    [
        pytest.param([EVERYONE], FLEET, [], id="each-in-one"),
        pytest.param(
            [EVERYONE, PROD],
            FLEET,
            ["2 of 3 clusters are in more than one stage: a run with one of them fails"],
            id="in-several",
        ),
        pytest.param([PROD], FLEET, [], id="a-part-of-the-fleet"),
        pytest.param([PROD], [*FLEET, *WAITING], [], id="those-that-wait-are-in-one"),
        pytest.param(
            [PROD],
            [*FLEET, *WAITING, ON_FISH],
            ["1 of 2 clusters is in no stage: a run with one of them fails"],
            id="in-none",
        ),
        pytest.param([EVERYONE, PROD], [*FLEET, WAITING[0], ON_FISH], [], id="overlap-where-nothing-waits"),
        pytest.param(
            [{**EVERYONE, "sortingLabelKey": "env"}],
            FLEET,
            ["the label is missing or not an integer on 3 of 3 clusters: a run with one of them fails"],
            id="sorted-by-words",
        ),
        pytest.param(
            [{**EVERYONE, "sortingLabelKey": "wave"}],
            [make_member("a", wave="007"), make_member("b", wave="-1")],
            [],
            id="sorted-by-integers",
        ),
        pytest.param(
            [{**EVERYONE, "sortingLabelKey": "wave"}],
            [make_member("a", wave="1"), make_member("b", wave="9223372036854775808"), make_member("c")],
            ["the label is missing or not an integer on 2 of 3 clusters: a run with one of them fails"],
            id="too-long-or-missing",
        ),
        pytest.param([EVERYONE, PROD], [], [], id="no-members-known"),
    ],
)
def test_x35_clusters_in_several_stages_or_none(stages, hub, messages):
    assert [message for _, message in of("X-35", findings(make_strategy(*stages), None, hub))] == messages


STARTED = {"stagedUpdateStrategySnapshot": {"stages": []}}


@pytest.mark.parametrize(
    ("deletes", "run", "message"),
    [
        pytest.param(
            False, make_run(status=STARTED), "1 unfinished run started with it and keep", id="changed-under-a-run"
        ),
        pytest.param(False, make_run(), None, id="changed-before-the-start"),
        pytest.param(
            True, make_run(), "without the strategy, 1 run will fail to initialize", id="deleted-before-the-start"
        ),
        pytest.param(True, make_run(status=STARTED), "1 unfinished run started with it and keep", id="deleted-under"),
        pytest.param(True, make_run(conditions=[("Succeeded", "False")]), None, id="failed"),
        pytest.param(True, make_run(conditions=[("Initialized", "False")]), None, id="never-initialised"),
        pytest.param(True, make_run(stagedRolloutStrategyName="tides"), None, id="of-another-strategy"),
        pytest.param(True, None, None, id="runs-not-known"),
    ],
)
def test_x36_a_strategy_in_use(deletes, run, message):
    new, old = None if deletes else make_strategy(EVERYONE), make_strategy(PROD)
    found = [text for _, text in of("X-36", findings(new, old, [run] if run else []))]
    assert [text.partition(" the stages")[0] for text in found] == ([message] if message else [])


def test_x36_a_deletion_warns_of_started_runs_and_of_the_others():
    runs = [make_run("a", status=STARTED), make_run("b"), make_run("c")]
    found = [text for _, text in of("X-36", findings(None, make_strategy(PROD), runs))]
    assert [text.partition(" the stages")[0] for text in found] == [
        "1 unfinished run started with it and keep",
        "without the strategy, 2 runs will fail to initialize",
    ]


EXTERNAL = make_placement(strategy={"type": "External"})
WAVES = make_strategy(EVERYONE)


@pytest.mark.parametrize(
    ("run", "hub", "paths"),
    [
        pytest.param(make_run(), [EXTERNAL, WAVES], [], id="all-there"),
        pytest.param(make_run(placementName="shpo"), [EXTERNAL, WAVES], ["placementName"], id="no-placement"),
        pytest.param(make_run(), [make_placement(), WAVES], ["placementName"], id="not-external"),
        pytest.param(
            make_run(stagedRolloutStrategyName="tides"),
            [EXTERNAL, WAVES],
            ["stagedRolloutStrategyName"],
            id="no-strategy",
        ),
        pytest.param(
            make_run(resourceSnapshotIndex="7"),
            [EXTERNAL, WAVES, make_snapshot("shop", 6)],
            ["resourceSnapshotIndex"],
            id="no-snapshot",
        ),
        pytest.param(
            make_run(resourceSnapshotIndex="7"), [EXTERNAL, WAVES, make_snapshot("shop", 7)], [], id="snapshot-there"
        ),
        pytest.param(make_run(resourceSnapshotIndex="7"), [EXTERNAL, WAVES], [], id="snapshots-not-known"),
        pytest.param(make_run(stagedRolloutStrategyName="tides"), [EXTERNAL], [], id="strategies-not-known"),
        pytest.param(make_run(placementName="shpo"), [WAVES], [], id="placements-not-known"),
        pytest.param(
            make_run(namespace="dock"),
            [make_placement(namespace="quay", strategy={"type": "External"})],
            ["placementName"],
            id="in-another-namespace",
        ),
    ],
)
def test_x41_what_a_run_will_not_find(run, hub, paths):
    found = of("X-41", findings(run, None, hub))
    assert [path.removeprefix("spec.") for path, _ in found] == paths


@pytest.mark.parametrize(
    ("old", "others", "warned"),
    [
        pytest.param(None, [make_run("first")], True, id="created-beside-another"),
        pytest.param(None, [make_run("first", conditions=[("Succeeded", "True")])], False, id="the-other-is-done"),
        pytest.param(None, [make_run("first", placementName="dock")], False, id="of-another-placement"),
        pytest.param(None, [make_run("run")], False, id="itself"),
        pytest.param(make_run(state="Stop"), [make_run("first")], True, id="started-again"),
        pytest.param(None, [], False, id="runs-not-known"),
    ],
)
def test_x43_another_run_of_the_placement(old, others, warned):
    assert bool(of("X-43", findings(make_run(), old, others))) is warned


ANALYSIS = "harbormaster.dev/analysis"
CHECK = '{"test": {"query": {"endpoint": "main", "expr": "errors", "below": 5}}}'
ASKS = {"name": "test", "afterStageTasks": [{"type": "Approval"}]}


def analysed(text=CHECK, **more):
    run = make_run(**more)
    return {**run, "metadata": {**run["metadata"], "annotations": {ANALYSIS: text}}}


@pytest.mark.parametrize(
    ("run", "old", "hub", "told"),
    [
        pytest.param(analysed(), None, [make_strategy(ASKS)], [], id="well"),
        pytest.param(
            analysed(), None, [make_strategy({"name": "live"})], ['"test" is not a stage'], id="no-such-stage"
        ),
        pytest.param(analysed(), None, [make_strategy({"name": "test"})], ["stage test has no App"], id="no-approval"),
        pytest.param(analysed(), make_run(), [make_strategy()], ['"test" is not a stage'], id="added-later"),
        pytest.param(analysed(), analysed(), [make_strategy()], [], id="untouched"),
        pytest.param(
            analysed(status={"stagedUpdateStrategySnapshot": {"stages": [ASKS]}}),
            make_run(),
            [make_strategy()],
            [],
            id="the-copy-of-the-run-counts",
        ),
        pytest.param(analysed(), None, [], [], id="no-strategy"),
        pytest.param(analysed("{"), None, [make_strategy()], [], id="unreadable"),
    ],
)
def test_x54_checks_of_stages_that_do_not_wait(run, old, hub, told):
    found = [message for _, message in of("X-54", findings(run, old, hub))]
    assert [message[: len(start)] for message, start in zip(found, told, strict=True)] == told


def test_x43_stopping_is_not_warned_about():
    assert not of("X-43", findings(make_run(state="Stop"), make_run(), [make_run("first")]))


@pytest.mark.parametrize(
    ("override", "hub", "warned"),
    [
        pytest.param(make_override(name="shop"), [make_placement()], False, id="there"),
        pytest.param(make_override(name="shpo"), [make_placement()], True, id="misspelt"),
        pytest.param(make_override(name="shop"), [], False, id="not-known"),
        pytest.param(
            make_override("dock", name="shop", scope="Namespaced"), [make_placement(namespace="dock")], False, id="rp"
        ),
        pytest.param(
            make_override("dock", name="shop", scope="Namespaced"),
            [make_placement(namespace="quay")],
            True,
            id="rp-of-another-namespace",
        ),
        pytest.param(make_override("dock", name="shop"), [make_placement()], False, id="rp-override-of-a-crp"),
    ],
)
def test_x62_the_placement_of_an_override(override, hub, warned):
    assert bool(of("X-62", findings(override, None, hub))) is warned


def test_x81_a_budget_without_its_placement():
    assert of("X-81", findings(make_budget(minAvailable=1), None, [make_placement("other")]))
    assert not of("X-81", findings(make_budget(minAvailable=1), None, [make_placement()]))
    assert not of("X-81", findings(make_budget(minAvailable=1), None, []))


@pytest.mark.parametrize(
    ("spec", "hub", "warned"),
    [
        pytest.param({"maxUnavailable": 0}, [], True, id="none"),
        pytest.param({"maxUnavailable": "0%"}, [], True, id="none-percent"),
        pytest.param({"maxUnavailable": "1%"}, [make_placement(policy=pick_n(3))], False, id="rounded-up-to-one"),
        pytest.param({"minAvailable": "100%"}, [], True, id="all"),
        pytest.param({"minAvailable": 3}, [make_placement(policy=pick_n(3))], True, id="as-many-as-wanted"),
        pytest.param({"minAvailable": 2}, [make_placement(policy=pick_n(3))], False, id="one-less"),
        pytest.param({"minAvailable": "90%"}, [make_placement(policy=pick_n(3))], True, id="rounded-up-to-all"),
        pytest.param({"minAvailable": 3}, [make_placement()], False, id="PickAll"),
        pytest.param({"minAvailable": 3}, [], False, id="not-known"),
        pytest.param({}, [make_placement()], False, id="X-80-is-another-rule"),
    ],
)
def test_x82_a_budget_that_lets_nothing_go(spec, hub, warned):
    assert bool(of("X-82", findings(make_budget(**spec), None, hub))) is warned


@pytest.mark.parametrize(
    ("eviction", "hub", "paths"),
    [
        pytest.param(make_eviction(), [make_placement(), make_binding("shop", "bravelion")], [], id="there"),
        pytest.param(make_eviction("shpo"), [make_placement()], ["spec.placementName"], id="no-placement"),
        pytest.param(
            make_eviction(cluster="elsewhere"),
            [make_placement(), make_binding("shop", "bravelion")],
            ["spec.clusterName"],
            id="not-on-the-cluster",
        ),
        pytest.param(make_eviction(), [make_placement()], [], id="bindings-not-known"),
        pytest.param(make_eviction("shpo"), [], [], id="placements-not-known"),
    ],
)
def test_x83_an_eviction_of_what_is_not_there(eviction, hub, paths):
    assert [path for path, _ in of("X-83", findings(eviction, None, hub))] == paths


GPU = {"key": "gpu", "effect": "NoSchedule"}
TOLERANT = pick_n(1, tolerations=[{"key": "gpu", "operator": "Exists"}])
NAMESPACED = [make_placement(namespace="dock"), make_binding("shop", "bravelion", namespace="dock")]


@pytest.mark.parametrize(
    ("before", "placement", "binding", "message"),
    [
        pytest.param(
            (),
            make_placement(),
            make_binding("shop", "bravelion"),
            "1 placement on this cluster: crp/shop",
            id="stays",
        ),
        pytest.param((GPU,), make_placement(), make_binding("shop", "bravelion"), None, id="an-old-taint"),
        pytest.param((), make_placement(policy=TOLERANT), make_binding("shop", "bravelion"), None, id="tolerated"),
        pytest.param(
            (), make_placement(policy=fixed("bravelion")), make_binding("shop", "bravelion"), None, id="PickFixed"
        ),
        pytest.param((), make_placement(), make_binding("shop", "jumpingcat"), None, id="on-another-cluster"),
        pytest.param(
            (), make_placement(), make_binding("shop", "bravelion", state="Unscheduled"), None, id="leaving-already"
        ),
    ],
)
def test_x92_a_taint_that_placements_do_not_tolerate(before, placement, binding, message):
    new, old = make_member("bravelion", taints=[GPU]), make_member("bravelion", taints=before)
    hub = [placement, binding, make_binding("x", "elsewhere", namespace="dock")]
    found = of("X-92", findings(new, old, hub))
    wanted = f"does not evict existing placements. Not tolerated by {message}"
    assert found == ([("spec.taints[0]", wanted)] if message else [])


def test_x93_a_cluster_that_leaves_with_placements_on_it():
    hub = [make_binding("shop", "bravelion"), make_binding("dock", "bravelion"), make_binding("far", "jumpingcat")]
    hub += [make_binding("rates", "bravelion", namespace="quay")]
    (found,) = of("X-93", findings(None, LION, hub))
    assert found[1] == "objects of 3 placements remain on this cluster, unmanaged: crp/dock, crp/shop, rp/quay/rates"
    assert not of("X-93", findings(None, FISH, hub))
    assert not of("X-93", findings(None, LION, []))


def asked(context, operation, document, old=None):
    return judge(operation, document, old, context)


HUB = [*FLEET, make_placement("other"), SHOP]
WISH = make_placement(policy=fixed("typo"))


def test_the_answer_carries_them():
    judgement = asked(Context.of_objects(HUB, user=JANE), "CREATE", WISH)
    assert judgement.allowed
    assert 'spec.policy.clusterNames[0]: there is no member cluster "typo" yet' in judgement.warnings


@pytest.mark.parametrize(
    "context",
    [
        pytest.param(Context.of_objects(HUB), id="we-ask-ourselves"),
        pytest.param(
            Context.of_objects(HUB, user=JANE, settings=AdmissionSettings(live_warnings=False)), id="switched-off"
        ),
        pytest.param(Context(user=JANE), id="nothing-known"),
    ],
)
def test_when_they_are_not_asked(context):
    assert asked(context, "CREATE", WISH).warnings == ()


def test_an_update_that_leaves_the_spec_alone_is_not_checked():
    new = deepcopy(WISH)
    new["metadata"]["finalizers"] = ["example.org/x"]
    assert asked(Context.of_objects(HUB, user=JANE), "UPDATE", new, WISH).warnings == ()


def test_a_refusal_is_given_without_them():
    document = make_placement(policy={**fixed("typo"), "numberOfClusters": 1})
    judgement = asked(Context.of_objects(HUB, user=JANE), "CREATE", document)
    assert (judgement.allowed, judgement.warnings) == (False, ())


def break_down(*_):
    raise ZeroDivisionError("a mistake of ours")


def test_a_check_that_breaks_is_told_once_and_the_verdict_stands():
    told = []
    hub = Context.of_objects(HUB, user=JANE).hub
    broken = type("Broken", (), {"get": break_down, "list": hub.list, "labelled": hub.labelled, "fleet": hub.fleet})()
    context = Context(user=JANE, hub=broken, on_failure=lambda check, error: told.append((check, type(error))))
    judgement = asked(context, "CREATE", make_placement(policy=fixed("typo"), selectors=[NAMESPACE]))
    assert judgement.allowed
    assert told == [
        ("warn_about_unknown_clusters", ZeroDivisionError),
        ("warn_about_empty_selectors", ZeroDivisionError),
    ]


def test_what_was_said_before_a_check_broke_stays_said():
    def check(_document, _old, _context):
        from webhook.validation.framework.field import FieldWarning
        from webhook.validation.live.placement import POLICY

        yield FieldWarning(POLICY, "first")
        raise ZeroDivisionError

    broken = []
    context = Context(user=JANE, on_failure=lambda name, error: broken.append((name, type(error))))
    assert [warning.message for warning in run_checks([check], WISH, None, context)] == ["first"]
    assert broken == [("check", ZeroDivisionError)]


@pytest.mark.parametrize(
    ("step", "said"),
    [pytest.param(0.0001, True, id="in-time"), pytest.param(0.03, False, id="used-up-by-the-first-checks")],
)
def test_when_the_time_is_used_up_the_rest_is_not_said(step, said):
    context = replace(Context.of_objects(HUB, user=JANE), clock=Watch(step))
    judgement = asked(context, "CREATE", WISH)
    assert judgement.allowed
    assert bool(judgement.warnings) is said


def test_a_long_walk_ends_when_the_time_is_used_up():
    hub = [make_binding(f"p{number}", "bravelion") for number in range(3000)]
    hub += [make_binding("x", "elsewhere", namespace="dock")]
    watch = Watch(0.005)
    context = replace(Context.of_objects(hub, user=JANE), clock=watch)
    judgement = asked(context, "DELETE", None, LION)
    assert (judgement.allowed, judgement.warnings) == (True, ())
    assert watch.time < 100.2


def test_every_answer_stays_within_its_bounds():
    document = make_placement(policy=fixed(*(f"typo-{number}" * 5 for number in range(60))))
    judgement = asked(Context.of_objects(HUB, user=JANE), "CREATE", document)
    assert len(judgement.warnings) == MOST_WARNINGS
    assert all(len(warning) <= LONGEST_WARNING for warning in judgement.warnings)


@given(
    names=st.lists(st.from_regex(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True), unique=True, max_size=20),
    unnamed=st.integers(0, 5),
)
def test_as_many_names_as_there_is_room_for(names, unnamed):
    text = with_names("removes the placement from 3 of 12 clusters", names, LONGEST_WARNING, len(names) + unnamed)
    assert len(text) <= LONGEST_WARNING
    assert text.startswith("removes the placement from 3 of 12 clusters")
    shown = [name for name in text.partition(": ")[2].partition(" and ")[0].split(", ") if name]
    assert shown == sorted(names)[: len(shown)]
    more = text.rpartition(" and ")[2] if " and " in text else "0 more"
    assert not shown or len(shown) + int(more.split()[0]) == len(names) + unnamed


SCALARS = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "shop", "bravelion", "External", "typo"])
)
JUNK = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "kind", "policy", "placementType", "clusterNames", "spec"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)
SUBJECTS = [
    make_placement(policy=fixed("typo")),
    make_placement(policy=pick_n(9, measured("berths"), labelled(env="prod"))),
    make_placement(namespace="dock", selectors=[{"group": "", "version": "v1", "kind": "ConfigMap"}]),
    make_strategy(EVERYONE, PROD),
    make_run(),
    make_override(name="shpo"),
    make_budget(minAvailable=3),
    make_eviction("shpo"),
    make_member("bravelion", taints=[GPU]),
]
EVERYTHING = [
    *FLEET,
    SHOP,
    *WAITING,
    *NAMESPACED,
    make(
        "ClusterSchedulingPolicySnapshot",
        "shop-0",
        {"policy": None, "policyHash": ""},
        labels={PARENT: "shop", "kubernetes-fleet.io/is-latest-snapshot": "true"},
    ),
    make_run("first"),
    make_snapshot("shop", 0),
    WAVES,
    plain("v1", "ConfigMap", "rates", "dock"),
]


@settings(max_examples=examples(400))
@given(
    subject=st.sampled_from(SUBJECTS),
    stored=st.sampled_from(SUBJECTS),
    member=st.sampled_from(["spec", "status", "metadata"]),
    junk=JUNK,
    operation=st.sampled_from(["CREATE", "UPDATE", "DELETE"]),
)
def test_a_live_check_never_changes_whether_a_write_is_allowed(subject, stored, member, junk, operation):
    """Whatever is written, and whatever is said to be stored: and no check of ours breaks over it."""
    document = (
        None if operation == "DELETE" else {**subject, member: junk if member == "status" else subject.get(member)}
    )
    old = None if operation == "CREATE" else {**stored, "kind": subject["kind"], member: junk}

    def fail(check, error):
        raise AssertionError(check) from error

    context = replace(Context.of_objects(EVERYTHING, user=JANE), on_failure=fail)
    with_checks = judge(operation, document, old, context)
    without = judge(operation, document, old, replace(context, settings=AdmissionSettings(live_warnings=False)))
    assert (with_checks.allowed, with_checks.errors, with_checks.code) == (
        without.allowed,
        without.errors,
        without.code,
    )


READ_BY_THE_SCHEDULER = ("Binding", "PolicySnapshot")


@settings(max_examples=examples(200))
@given(
    subject=st.sampled_from(SUBJECTS),
    spoilt=st.sampled_from([doc for doc in EVERYTHING if not doc["kind"].endswith(READ_BY_THE_SCHEDULER)]),
    member=st.sampled_from(["spec", "status", "labels"]),
    junk=JUNK,
    operation=st.sampled_from(["CREATE", "DELETE"]),
)
def test_nothing_breaks_over_what_else_is_in_the_files(subject, spoilt, member, junk, operation):
    """Files may hold anything; objects of a hub have been through their schema."""
    metadata = {**spoilt["metadata"], "labels": junk} if member == "labels" else spoilt["metadata"]
    broken = {**spoilt, "metadata": metadata} | ({member: junk} if member != "labels" else {})

    def fail(check, error):
        raise AssertionError(check) from error

    hub = [broken if document is spoilt else document for document in EVERYTHING]
    context = replace(Context.of_objects(hub, user=JANE, now=NOW), on_failure=fail)
    assert judge(operation, *((None, subject) if operation == "DELETE" else (subject, None)), context).allowed


def test_the_kinds_in_these_tests_are_real():
    assert all((doc["apiVersion"].rpartition("/")[0], doc["kind"]) in KINDS for doc in [*EVERYTHING, *SUBJECTS])
    assert PLACEMENT.kind == SUBJECTS[0]["kind"]


def job(name="migrate", namespace="shop", ttl=5, **metadata):
    made = plain("batch/v1", "Job", name, namespace)
    return {**made, "metadata": {**made["metadata"], **metadata}, "spec": {"ttlSecondsAfterFinished": ttl}}


ONCE = (
    "Job shop/migrate has ttlSecondsAfterFinished: members delete the Job after it finishes, and run it again "
    "only when its manifest changes"
)
OF_A_CRON_JOB = {"ownerReferences": [{"apiVersion": "batch/v1", "kind": "CronJob", "name": "c"}]}
IN_SHOP = {**NAMESPACE, "selectionScope": "NamespaceWithResourceSelectors"}


@pytest.mark.parametrize(
    ("selectors", "namespace", "hub", "messages"),
    [
        pytest.param([NAMESPACE], "", [SHOP, job()], [ONCE], id="in-a-selected-namespace"),
        pytest.param([NAMESPACE], "", [SHOP, job(ttl=0)], [ONCE], id="zero-seconds"),
        pytest.param([NAMESPACE], "", [SHOP, job(ttl=None)], [], id="without"),
        pytest.param([NAMESPACE], "", [SHOP, job(namespace="quay")], [], id="in-another-namespace"),
        pytest.param([NAMESPACE], "", [SHOP, job(**OF_A_CRON_JOB)], [], id="of-a-cron-job"),
        pytest.param([{**NAMESPACE, "selectionScope": "NamespaceOnly"}], "", [SHOP, job()], [], id="namespace-only"),
        pytest.param(
            [IN_SHOP, {"group": "batch", "version": "v1", "kind": "Job"}], "", [SHOP, job()], [ONCE], id="by-kind"
        ),
        pytest.param(
            [IN_SHOP, {"group": "", "version": "v1", "kind": "Secret"}], "", [SHOP, job()], [], id="another-kind"
        ),
        pytest.param(
            [{"group": "batch", "version": "v1", "kind": "Job", "name": "migrate"}], "shop", [job()], [ONCE], id="named"
        ),
        pytest.param(
            [{"group": "batch", "version": "v1", "kind": "Job", "name": "other"}], "shop", [job()], [], id="other-name"
        ),
    ],
)
def test_x37_a_selected_job_that_runs_once(selectors, namespace, hub, messages):
    document = make_placement(selectors=selectors, namespace=namespace)
    assert [message for _, message in of("X-37", findings(document, None, hub))] == messages


def test_x37_an_update_is_judged_by_what_it_adds():
    document = make_placement(selectors=[NAMESPACE])
    assert not of("X-37", findings(document, document, [SHOP, job()]))
