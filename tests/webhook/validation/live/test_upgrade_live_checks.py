"""Live checks on upgrade strategies and runs: what they would find on the hub as it is. They never deny."""

import json
from dataclasses import replace

import pytest

from tests.webhook.validation import live_objects
from tests.webhook.validation.live_objects import JANE, NOW
from tests.webhook.validation.upgrade_objects import (
    FULL,
    IMAGES_ONLY,
    make,
    make_request,
    make_run,
    make_stage,
    make_strategy,
)
from webhook.admission.judge import judge
from webhook.validation.framework.context import Context

GROUP = "harbormaster.dev/upgrade-group"
REGION = "harbormaster.dev/upgrade-region"


def make_member(name, version="", *, joined="True", region="", group="", **labels):
    labels |= {key: value for key, value in ((GROUP, group), (REGION, region)) if value}
    conditions = [{"type": "Joined", "status": joined}]
    member = live_objects.make("MemberCluster", name, {}, labels=labels, status={"conditions": conditions})
    if version:
        about = {"harbormaster.dev/upgrade-observed": json.dumps({"controlPlaneVersion": version})}
        member["metadata"]["annotations"] = about
    return member


def told(document, *hub, old=None, user=JANE):
    """The warnings about a write, without those of the rules."""
    context = replace(Context.of_objects(hub, now=NOW), user=user)
    verdict = judge("CREATE" if old is None else "UPDATE", document, old, context)
    assert verdict.allowed, verdict.errors
    return list(verdict.warnings)


def to(version, **spec):
    return make_run(upgrade={**FULL, "kubernetesVersion": version}, **spec)


def make_catalog(**regions):
    """A catalog; each version with a phase behind a colon, if it has one."""

    def entry(text):
        version, _, phase = text.partition(":")
        return {"version": version} | ({"phase": phase} if phase else {})

    listed = [{"name": name, "kubernetesVersions": [entry(each) for each in all_]} for name, all_ in regions.items()]
    return make("ClusterVersionCatalog", {"regions": listed}, name="public")


RINGS = make_strategy(make_stage("s", groups=[{"name": "canary"}, {"name": "rest"}]))


def test_a_group_that_nobody_carries():
    assert told(RINGS, make_member("a", group="rest")) == [
        'spec.stages[0].groups[0]: no member has the group label "canary"'
    ]


def test_members_whose_group_is_in_no_stage():
    hub = [make_member(name, group=group) for name, group in (("a", "canary"), ("b", "rest"), ("c", "edge"), ("d", ""))]
    assert told(RINGS, *hub) == ["spec.stages: 1 of 4 members have a group label that no stage lists"]


def test_a_strategy_without_groups_says_nothing_about_labels():
    assert told(make_strategy(make_stage()), make_member("a", group="edge")) == []


def test_a_hub_without_members_says_nothing_about_groups():
    assert told(RINGS) == []
    assert told(RINGS, make_member("a", joined="False")) == []


TWICE = [make_stage("a"), make_stage("b", groups=[{"name": "g", "memberSelector": {}}])]


def test_a_member_in_several_groups_is_not_named():
    member = make_member("secret-name")
    said = "a member is in several groups, so a run does not start"
    assert told(make_strategy(*TWICE), member) == [f"spec.stages: {said}"]
    assert told(make_run(strategy={"stages": TWICE}), member) == [f"spec.strategy: {said}"]
    by_name = make_run(strategyRef={"name": "x"})
    assert told(by_name, member, make_strategy(*TWICE)) == [f"spec.strategyRef: {said}"]


def test_the_selector_of_a_run_may_take_a_member_out_of_all_but_one_group():
    narrowed = make_run(strategy={"stages": TWICE}, memberSelector={"matchLabels": {"env": "prod"}})
    assert told(narrowed, make_member("a")) == []


def test_a_strategy_that_is_not_there_yet():
    assert told(make_run(strategyRef={"name": "rings"}), make_strategy(make_stage())) == [
        'spec.strategyRef.name: there is no ClusterUpgradeStrategy "rings" yet'
    ]


AT = "spec.upgrade.kubernetesVersion: "


@pytest.mark.parametrize(
    ("target", "warned"),
    [
        ("1.31.2", []),
        ("1.32.0", []),
        ("1.31.1", [f"{AT}1 of 2 members will be skipped because of a higher version"]),
        ("1.31", []),
        ("1.30", [f"{AT}1 of 2 members will be skipped because of a higher version"]),
        ("1.33.0", [f"{AT}1 of 2 members is more than one minor version behind"]),
        ("1.33", [f"{AT}1 of 2 members is more than one minor version behind"]),
    ],
)
def test_members_that_are_ahead_or_too_far_behind(target, warned):
    assert (
        told(to(target), make_member("a", "1.31.2"), make_member("b", "v1.32.0" if target >= "1.32" else "")) == warned
    )


def test_what_the_latest_request_reports_counts_before_the_annotation():
    def request(name, made, version):
        found = make_request(memberName="a")
        found["metadata"] = {"name": name, "creationTimestamp": made}
        return {**found, "status": {"controlPlaneVersion": version}}

    hub = [
        make_member("a", "1.20.0"),
        request("late", "2025-01-02T00:00:00Z", "1.31.0"),
        request("early", "2025-01-01T00:00:00Z", "1.10.0"),
        request("latest", "2025-01-03T00:00:00Z", ""),
    ]
    assert told(to("1.32.0"), *hub) == []


def test_a_version_that_is_in_no_catalog_of_a_region():
    catalog = make_catalog(eu=["1.31.2"], us=["1.30.4"])
    hub = [make_member("a", region="eu"), make_member("b", region="us"), make_member("c", region="ap"), catalog]
    assert told(to("1.31.2"), *hub) == [f"{AT}1 of 3 members will wait: the catalog of the region lacks the version"]
    assert told(to("1.31"), *hub) == told(to("1.31.2"), *hub)
    assert told(to("1.99.0"), *hub) == [f"{AT}2 of 3 members will wait: the catalog of the region lacks the version"]


def test_a_preview():
    catalog = make_catalog(default=["1.32.0:Preview", "1.31.2"])
    assert told(to("1.32.0"), make_member("a"), catalog) == [f'{AT}"1.32.0" is a preview version in a catalog']
    assert told(to("1.31.2"), make_member("a"), catalog) == []


def test_a_run_that_changes_no_version_says_nothing_about_versions():
    assert told(make_run(upgrade=IMAGES_ONLY), make_member("a", "1.20.0"), make_catalog(default=[])) == []


def running(name, *members, state="Running"):
    groups = [{"name": "g", "state": state, "members": [{"name": member, "state": state} for member in members]}]
    run = make("ClusterUpgradeRun", {"upgrade": FULL}, {"state": state, "stages": [{"name": "s", "groups": groups}]})
    return {**run, "metadata": {"name": name}}


def test_other_unfinished_runs_with_the_same_members():
    hub = [make_member("a"), make_member("b"), running("one", "a", "z"), running("two", "b", state="NotStarted")]
    assert told(make_run(), *hub) == ["spec: other unfinished runs include some of its members: one, two"]


@pytest.mark.parametrize(
    "other",
    [
        running("one", "z"),
        *(running("one", "a", state=state) for state in ("Completed", "Skipped", "Failed", "Stopped")),
        running("x", "a"),
    ],
)
def test_runs_that_are_over_or_have_other_members_or_are_the_run_itself(other):
    assert told(make_run(), make_member("a"), other) == []


def test_an_update_is_warned_about_when_it_aims_elsewhere_or_starts_the_run():
    hub = [make_member("a", "1.32.0")]
    old = to("1.31.0")
    assert told({**old, "spec": {**old["spec"], "timeouts": {"gateSeconds": 60}}}, *hub, old=old) == []
    assert len(told(to("1.31.1"), *hub, old=old)) == 1
    assert len(told(to("1.31.0", state="Run"), *hub, old=old)) == 1
    run = to("1.31.0", state="Run")
    assert told(to("1.31.0", state="Stop"), *hub, old=run) == []


def test_harbormaster_is_told_nothing():
    assert told(to("1.31.0"), make_member("a", "1.32.0"), user=Context().user) == []


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"controlPlaneVersion": 5}', '{"controlPlaneVersion": "new"}', "a" * 70000]
)
def test_a_version_that_cannot_be_read_counts_as_unknown(text):
    member = make_member("a")
    member["metadata"]["annotations"] = {"harbormaster.dev/upgrade-observed": text}
    assert told(to("1.31.0"), member) == []
