"""How a run gets its stages, groups, members and limits, and what it chooses at its start."""

import pytest

from scorer.api.upgrade.fields import StrategyReference
from scorer.api.upgrade.run import UpgradeRunStatus
from scorer.upgrade.simulation.hub import EditStrategy, Start
from scorer.upgrade.state.record import status_document
from tests.scorer.upgrade.scenarios import BEGIN, at, entry, event, member, play, prepared, said, seen, skip, stage
from tests.vector_families.upgrade_runs import read_strategy


def layout(run):
    return {
        f"{stage.name}/{group.name}": [each.name for each in group.members]
        for stage in run.status.stages
        for group in stage.groups
    }


def initialised(*members, **given):
    return prepared(*members, start="", **given).hub.evaluate(BEGIN).run


def test_without_a_strategy_all_members_go_one_by_one():
    run = initialised(member("b"), member("a", group="other"), {"name": "c"})
    assert layout(run) == {"default/default": ["a", "b", "c"]}
    assert run.status.stages[0].groups[0].max_concurrency == 1
    assert said(run, "Initialized") == "True InitializedSuccessfully"


def test_a_group_has_the_members_that_its_selector_or_their_label_puts_there():
    selected = {"name": "chosen", "memberSelector": {"matchLabels": {"tier": "front"}}}
    run = initialised(
        member("a", "ga", labels={"env": "prod"}),
        member("b", "ga"),
        {"name": "c", "labels": {"env": "prod", "tier": "front"}},
        {"name": "d", "labels": {"tier": "front"}},
        stages=[stage("s", "ga", selected, memberSelector={"matchLabels": {"env": "prod"}})],
    )
    assert layout(run) == {"s/ga": ["a"], "s/chosen": ["c"]}


def test_the_selector_of_the_run_narrows_every_group():
    run = initialised(member("a", labels={"x": "1"}), member("b"), memberSelector={"matchLabels": {"x": "1"}})
    assert layout(run) == {"default/default": ["a"]}


@pytest.mark.parametrize(
    ("stages", "reason", "word"),
    [
        pytest.param(
            [stage("one", "g"), stage("two", {"name": "all", "memberSelector": {}})],
            *("MemberInMultipleGroups", "member a is in group g of stage one and in group all of stage two"),
            id="member-in-two-groups",
        ),
        pytest.param(
            [stage("one", {"name": "g", "memberSelector": {"matchExpressions": [{"key": "x", "operator": "Near"}]}})],
            *("StrategyInvalid", "Near"),
            id="selector-that-cannot-be-evaluated",
        ),
        pytest.param(
            [stage("one", {"name": "g", "maxConcurrency": "many"})],
            *("StrategyInvalid", "group g: 'many' is neither a count nor a percentage"),
            id="limit-that-cannot-be-read",
        ),
        pytest.param(
            [stage("one", "g", beforeGates=[{"type": "ScheduledStart"}])],
            *("StrategyInvalid", "scheduledStart"),
            id="scheduled-gate-without-a-time",
        ),
    ],
)
def test_a_run_that_is_not_in_order_cannot_start(stages, reason, word):
    hub = prepared(member("a"), stages=stages).hub
    moment = hub.evaluate(BEGIN, [Start()])
    assert moment.refused == (Start(),)
    assert [each.reason for each in moment.events] == ["CommandRefused"]
    assert said(hub.run, "Initialized") == f"False {reason}"
    assert word in next(each.message for each in hub.run.status.conditions if each.type == "Initialized")
    assert (hub.run.status.state, hub.run.status.stages) == ("NotStarted", ())


def test_a_strategy_that_does_not_exist_may_come_later():
    scenario = prepared(member("a"), stages=[stage("s", "g")])
    hub, strategy = scenario.hub, scenario.hub.strategy
    hub.strategy = None
    assert said(hub.evaluate(BEGIN).run, "Initialized") == "False StrategyNotFound"
    hub.strategy = strategy
    assert said(hub.evaluate(BEGIN).run, "Initialized") == "True InitializedSuccessfully"


def following(hub, name):
    """Let a run refer to a strategy, or to none; it is stored and read again, as everything is recorded."""
    reference = None if name is None else StrategyReference(name=name)
    hub.run = hub.run.model_copy(
        update={
            "spec": hub.run.spec.model_copy(update={"strategy_ref": reference, "strategy": None}),
            "status": UpgradeRunStatus.read(status_document(hub.run.status)),
        }
    )


def test_a_run_that_comes_to_refer_to_another_strategy_never_follows_the_first():
    hub = prepared(member("a"), start="", spec={"state": "Run"}).hub
    hub.run = hub.run.model_copy(update={"spec": hub.run.spec.model_copy(update={"state": "Initialize"})})
    assert layout(hub.evaluate(BEGIN).run) == {"default/default": ["a"]}
    following(hub, "careful")
    for now in (BEGIN, at("1h"), at("2h")):
        run = hub.evaluate(now, [Start()]).run
        assert said(run, "Initialized") == "False StrategyNotFound"
        assert (run.status.state, run.status.stages, run.status.strategy_snapshot) == ("NotStarted", (), None)
    hub.strategy = read_strategy({"stages": [stage("canary", "g", beforeGates=[{"type": "Approval"}])]})
    run = hub.evaluate(at("3h"), [Start()]).run
    assert (layout(run), run.status.strategy_snapshot_of, run.status.state) == (
        {"canary/g": ["a"]},
        "careful",
        "Pending",
    )


@pytest.mark.parametrize("between", ["other", None], ids=["another-strategy", "none"])
def test_a_strategy_that_a_run_comes_back_to_is_copied_anew(between):
    hub = prepared(member("a"), start="").hub
    for name, group, expected in (("rings", "g", "g"), ("rings", "h", "g"), (between, "h", "h"), ("rings", "k", "k")):
        hub.strategy = read_strategy({"stages": [stage("s", group)]})
        following(hub, name)
        expected = "default" if name is None else expected
        assert [each.groups[0].name for each in hub.evaluate(BEGIN).run.status.stages] == [expected]


def test_a_copy_outlives_its_strategy():
    hub = prepared(member("a"), start="").hub
    hub.strategy = read_strategy({"stages": [stage("s", "g")]})
    following(hub, "rings")
    hub.evaluate(BEGIN)
    hub.strategy = None
    following(hub, "rings")
    assert said(hub.evaluate(at("1h")).run, "Initialized") == "True InitializedSuccessfully"


def test_later_edits_of_a_strategy_do_not_reach_the_run():
    hub = prepared(member("a"), member("b", "other"), stages=[stage("s", "g")]).hub
    hub.evaluate(BEGIN)
    hub.evaluate(at("1h"), [EditStrategy(read_strategy({"stages": [stage("s", "other")]}))])
    assert layout(hub.evaluate(at("2h"), [Start()]).run) == {"s/g": ["a"]}


def test_the_list_of_members_is_fixed_by_the_start():
    found = seen(
        member("a"),
        start="1h",
        events=[
            event("30m", "addMember", member=member("b")),
            event("80m", "addMember", member=member("c")),
        ],
    )
    assert found["members"] == {"a": "Completed", "b": "Completed"}


def test_what_is_skipped_before_the_start_stays_skipped_when_the_members_change():
    hub = prepared(member("a"), member("b"), start="").hub
    moment = None
    for each in prepared(events=[skip("1h", "Member", "a")], start="").orders():
        moment = hub.evaluate(each[0], [each[1]])
    del hub.members["b"]
    assert entry(moment.run, "a").state == "Skipped"
    assert entry(hub.evaluate(at("2h")).run, "a").state == "Skipped"


def test_percentages_are_of_the_stage_and_of_the_group():
    played = play(
        *(member(f"a{place}", "ga") for place in range(7)),
        *(member(f"b{place}", "gb") for place in range(3)),
        stages=[
            stage(
                "s",
                {"name": "ga", "maxConcurrency": "50%", "maxAllowedFailures": "10%"},
                {"name": "gb", "maxConcurrency": "9", "maxAllowedFailures": 4},
                maxConcurrency="29%",
                maxAllowedFailures="11%",
            )
        ],
    )
    assert played.seen()["limits"]["s"] == {
        "maxConcurrency": 2,
        "maxAllowedFailures": 2,
        "groups": {
            "ga": {"maxConcurrency": 2, "maxAllowedFailures": 1},
            "gb": {"maxConcurrency": 2, "maxAllowedFailures": 4},
        },
    }


def test_a_count_that_is_lowered_is_told_at_the_start():
    hub = prepared(member("a"), stages=[stage("s", {"name": "g", "maxConcurrency": 3})]).hub
    moment = hub.evaluate(BEGIN, [Start()])
    assert [each.message for each in moment.events if each.reason == "ConcurrencyClamped"] == [
        "group g upgrades 1 member concurrently, not 3"
    ]


@pytest.mark.parametrize(
    ("regions", "resolved"),
    [
        pytest.param({"r1": ["1.31.1", "1.31.3"], "r2": ["1.31.1", "1.31.2"]}, "1.31.1", id="common-to-all-regions"),
        pytest.param({"r1": ["1.30.9", "1.31.3", "1.32.0"]}, "1.31.3", id="region-without-a-list-is-not-asked"),
        pytest.param({"r1": ["1.31.3"], "r2": ["1.31.2"]}, "", id="none-is-common"),
        pytest.param({}, "", id="no-catalog-and-no-back-end-knows"),
    ],
)
def test_a_minor_version_means_the_newest_patch_that_all_members_can_have(regions, resolved):
    found = seen(
        member("a"),
        member("b", region="r2"),
        catalog={"regions": {name: {"kubernetes": versions} for name, versions in regions.items()}},
        upgrade={"type": "Full", "kubernetesVersion": "1.31"},
    )
    assert found["resolvedKubernetesVersion"] == resolved
    assert (found["run"] == "NotStarted") is (not resolved)
    if not resolved:
        assert found["initializedReason"] == "VersionNotResolvable"
        assert found["rejected"] == [["start", "0s"]]


def test_without_a_catalog_the_back_ends_newest_patch_counts():
    hub = prepared(member("a"), upgrade={"type": "Full", "kubernetesVersion": "1.31"}).hub
    hub.newest_patches["1.31"] = "1.31.7"
    assert hub.evaluate(BEGIN, [Start()]).run.status.resolved.kubernetes_version == "1.31.7"


def test_pre_flight_checks_tell_what_would_be_in_the_way_and_do_not_prevent_the_start():
    hub = prepared(member("a", version="1.29.1"), member("b"), member("c", version="1.31.2")).hub
    run = hub.evaluate(BEGIN).run
    assert said(run, "Preflight") == "False PreflightIssues"
    message = next(each.message for each in run.status.conditions if each.type == "Preflight")
    assert message.startswith("a: UnsupportedVersionJump")
    assert "b:" not in message
    assert hub.evaluate(BEGIN, [Start()]).run.status.state == "Failed"
    assert said(initialised(member("b")), "Preflight") == "True PreflightPassed"


def test_a_strategy_in_the_run_itself_may_be_edited_until_the_start():
    inline = {"strategy": {"stages": [stage("s", "g")]}}
    hub = prepared(member("a"), member("b", "other"), spec=inline).hub
    assert layout(hub.evaluate(BEGIN).run) == {"s/g": ["a"]}
    edited = prepared(spec={"strategy": {"stages": [stage("s", "other")]}}).hub.run.spec
    hub.run = hub.run.model_copy(update={"spec": edited})
    assert layout(hub.evaluate(at("1h"), [Start()]).run) == {"s/other": ["b"]}


def test_a_version_that_cannot_be_read_is_named():
    hub = prepared(member("a"), upgrade={"type": "Full", "kubernetesVersion": "latest"}).hub
    run = hub.evaluate(BEGIN).run
    assert said(run, "Initialized") == "False VersionNotResolvable"
    message = next(each.message for each in run.status.conditions if each.type == "Initialized")
    assert "spec.upgrade.kubernetesVersion: 'latest'" in message


def test_a_minor_version_without_a_catalog_says_what_to_do():
    hub = prepared(
        *(member("a", region="eu"), member("b", region="us")), upgrade={"type": "Full", "kubernetesVersion": "1.31"}
    ).hub
    run = hub.evaluate(BEGIN).run
    message = next(each.message for each in run.status.conditions if each.type == "Initialized")
    assert "no ClusterVersionCatalog lists the patches of 1.31: name a patch, such as 1.31.0" in message
    assert "regions eu, us" in message


def test_members_that_are_skipped_before_the_start_do_not_limit_the_common_image():
    published = {"regions": {"r1": {"images": {"linux": ["110"]}}, "r2": {"images": {"linux": ["105"]}}}}
    upgrade = {"type": "NodeImageOnly", "nodeImage": {"selection": "Consistent"}}
    members = member("a"), member("b", region="r2")
    assert seen(*members, catalog=published, upgrade=upgrade)["consistent"] == {}
    found = seen(*members, catalog=published, upgrade=upgrade, start="1h", events=[skip("0s", "Member", "b")])
    assert found["consistent"] == {"linux": "110"}
