"""What a placement is said to make its own that was on members before (X-29)."""

import re
from dataclasses import replace

import pytest

from scorer.membership.heartbeats import NAMESPACE_LIMIT
from tests.builders.binding import make_binding
from tests.builders.placement import fixed, make_placement
from tests.webhook.validation.live_objects import (
    JANE,
    NAMESPACE,
    NOW,
    ROLE,
    make_member,
    make_policy_snapshot,
    plain,
)
from webhook.admission.judge import judge
from webhook.admission.taking_over import warn_about_taking_over
from webhook.validation.framework.context import Context, OutOfTimeError
from webhook.validation.framework.field import LONGEST_WARNING

NEVER = {"applyStrategy": {"whenToTakeOver": "Never"}}
DIFF = {"applyStrategy": {"type": "ReportDiff"}}
BOTH = fixed("bravelion", "jumpingcat")


def member(name, **namespaces):
    document = make_member(name)
    return {**document, "status": {**document["status"], "namespaces": namespaces}}


MEMBERS = (member("bravelion", shop="", bar=""), member("jumpingcat", shop="other-work"), member("smartfish", shop=""))
SILENT = tuple(make_member(name) for name in ("bravelion", "jumpingcat", "smartfish"))


def stored(document):
    return {**document, "metadata": {**document["metadata"], "uid": document["metadata"]["name"]}}


def warnings(new, old=None, hub=MEMBERS):
    return of_files(new, old, [stored(document) for document in hub])


def of_files(new, old, hub):
    context = Context.of_objects([*hub], user=JANE, now=NOW)
    judgement = judge("CREATE" if old is None else "UPDATE", new, old, context)
    assert judgement.allowed, judgement.message
    return judgement.warnings


def said(new, old=None, hub=MEMBERS):
    return [text for text in warnings(new, old, hub) if "would be taken over" in text]


def unseen(new, old=None, hub=MEMBERS):
    """Return on how many clusters objects may be that nobody has reported."""
    found = [text for text in warnings(new, old, hub) if "not reported yet" in text]
    return [int(re.search(r"namespaces of ([0-9]+) clusters? ", text)[1]) for text in found]


ONE = [
    "spec.resourceSelectors: 1 existing object on 1 cluster would be taken over, and later deleted with the placement"
]
TWO = [
    "spec.resourceSelectors: 2 existing objects on 2 clusters would be taken over, and later deleted with the placement"
]


@pytest.mark.parametrize(
    ("placement", "members", "wanted"),
    [
        pytest.param(make_placement(policy=BOTH), MEMBERS, ONE, id="where-no-work-has-put-it"),
        pytest.param(make_placement(), MEMBERS, TWO, id="all"),
        pytest.param(make_placement(strategy=NEVER), MEMBERS, [], id="never"),
        pytest.param(make_placement(strategy=DIFF), MEMBERS, [], id="only-compared"),
        pytest.param(make_placement(policy=fixed("jumpingcat")), MEMBERS, [], id="of-another-work"),
        pytest.param(make_placement(selectors=[{**NAMESPACE, "name": "new"}]), MEMBERS, [], id="not-there"),
        pytest.param(make_placement(), SILENT, [], id="members-that-do-not-tell"),
        pytest.param(
            make_placement(selectors=[{**NAMESPACE, "name": "bar", "selectionScope": "NamespaceOnly"}]),
            MEMBERS,
            ONE,
            id="alone",
        ),
    ],
)
def test_a_new_placement_says_what_it_would_take_over(placement, members, wanted):
    assert said(placement, hub=members) == wanted


def labelled(name, **labels):
    return plain("v1", "Namespace", name, **labels)


ON_HUB = (labelled("shop", team="a"), labelled("bar", team="a"), labelled("dock", team="b"), labelled("default"))
TEAM_A = {"matchLabels": {"team": "a"}}
EXPRESSION = {"matchExpressions": [{"key": "team", "operator": "Exists"}]}
THREE = [
    "spec.resourceSelectors: 3 existing objects on 2 clusters would be taken over, and later deleted with the placement"
]


def by_label(selector, **more):
    term = {"group": "", "version": "v1", "kind": "Namespace", "labelSelector": selector}
    return make_placement(selectors=[{name: value for name, value in term.items() if value is not None}], **more)


@pytest.mark.parametrize(
    ("placement", "wanted"),
    [
        pytest.param(by_label(TEAM_A), THREE, id="labels"),
        pytest.param(by_label(EXPRESSION), THREE, id="expressions"),
        pytest.param(by_label({}), THREE, id="every-namespace-but-reserved-ones"),
        pytest.param(by_label(None), THREE, id="no-selector"),
        pytest.param(by_label({"matchLabels": {"team": "b"}}), [], id="of-which-no-member-has-any"),
        pytest.param(by_label(TEAM_A, policy=fixed("jumpingcat")), [], id="of-another-work"),
        pytest.param(by_label(TEAM_A, strategy=NEVER), [], id="never"),
    ],
)
def test_namespaces_that_are_selected_by_label_count_as_those_that_are_named(placement, wanted):
    members = (*MEMBERS, member("busylizard", default=""))
    assert said(placement, hub=(*members, *ON_HUB)) == wanted


def test_where_namespaces_of_the_hub_are_not_known_those_that_are_named_still_count():
    placement = by_label(TEAM_A)
    placement["spec"]["resourceSelectors"].append(NAMESPACE)
    assert said(placement) == TWO


def test_a_namespace_that_is_going_from_the_hub_is_not_selected():
    going = labelled("shop", team="a")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert said(by_label(TEAM_A), hub=(*MEMBERS, going)) == []


def test_an_update_counts_what_its_labels_did_not_select_before():
    old = by_label({"matchLabels": {"team": "b"}}, policy=fixed("bravelion"))
    new = by_label(TEAM_A, policy=fixed("bravelion"))
    hub = [*held(old, "bravelion"), *ON_HUB]
    (text,) = said(new, old, hub)
    assert text.startswith("spec.resourceSelectors: 2 existing objects")
    assert said({**new, "spec": {**new["spec"], "revisionHistoryLimit": 3}}, new, hub) == []


CONFIG_MAP = {"group": "", "version": "v1", "kind": "ConfigMap", "name": "rates"}
INSIDE = ["spec.resourceSelectors: existing objects on {} would be taken over, and later deleted with the placement"]


def in_shop(**more):
    return make_placement(namespace="shop", selectors=[CONFIG_MAP], **more)


@pytest.mark.parametrize(
    ("placement", "members", "clusters"),
    [
        pytest.param(in_shop(policy=BOTH), MEMBERS, "1 cluster", id="where-the-namespace-is-the-members-own"),
        pytest.param(in_shop(), MEMBERS, "2 clusters", id="all"),
        pytest.param(in_shop(policy=fixed("jumpingcat")), MEMBERS, "", id="where-a-work-has-made-it"),
        pytest.param(in_shop(strategy=NEVER), MEMBERS, "", id="never"),
        pytest.param(in_shop(strategy=DIFF), MEMBERS, "", id="only-compared"),
        pytest.param(make_placement(namespace="dock", selectors=[CONFIG_MAP]), MEMBERS, "", id="not-there"),
    ],
)
def test_a_resource_placement_says_where_its_namespace_was_before(placement, members, clusters):
    assert said(placement, hub=members) == ([INSIDE[0].format(clusters)] if clusters else [])


def test_a_resource_placement_says_it_again_when_it_selects_more():
    old, more = in_shop(policy=fixed("bravelion")), {**CONFIG_MAP, "name": "more"}
    new = make_placement(namespace="shop", selectors=[CONFIG_MAP, more], policy=fixed("bravelion"))
    binding = make_binding("shop", "bravelion", namespace="shop")
    hub = [*MEMBERS, old, make_policy_snapshot(old), binding]
    assert said(new, old, hub) == [INSIDE[0].format("1 cluster")]
    assert said({**new, "spec": {**new["spec"], "revisionHistoryLimit": 3}}, new, hub) == []


def full(name):
    return member(name, **{f"n{at:03}": "" for at in range(NAMESPACE_LIMIT)})


MUTE = make_member("mutefish", silent=True)
LEFT = make_member("leftfish", joined=False)
OURS = make_member("ourfish", properties={"harbormaster.dev/agent-version": "1.0"})
COLLECTING = make_member("newfish")
COLLECTING["status"]["conditions"] = [
    {
        "type": "NamespaceCollectionSucceeded",
        "status": "False",
        "reason": "x",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
]
PROD = {"labelSelector": {"matchLabels": {"env": "prod"}}}


def require(term):
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [term]}}
    return {"placementType": "PickAll", "affinity": {"clusterAffinity": required}}


@pytest.mark.parametrize(
    ("placement", "members", "count"),
    [
        pytest.param(make_placement(), MEMBERS, 0, id="all-have-reported"),
        pytest.param(make_placement(), SILENT, 0, id="agents-that-never-report-them"),
        pytest.param(make_placement(), (OURS, COLLECTING), 2, id="agents-that-have-not-reported-them-yet"),
        pytest.param(make_placement(), (MUTE,), 1, id="no-report-at-all"),
        pytest.param(make_placement(), (LEFT,), 1, id="not-joined"),
        pytest.param(make_placement(), (*MEMBERS, MUTE), 1, id="one-of-them"),
        pytest.param(make_placement(policy=fixed("mutefish")), (*MEMBERS, MUTE), 1, id="the-one-that-is-named"),
        pytest.param(make_placement(policy=fixed("smartfish")), (*MEMBERS, MUTE), 0, id="one-that-is-not-named"),
        pytest.param(make_placement(policy=require(PROD)), (*MEMBERS, MUTE), 0, id="one-that-does-not-fit"),
        pytest.param(
            make_placement(policy=require(PROD)),
            (*MEMBERS, make_member("mutefish", silent=True, env="prod")),
            1,
            id="one-that-fits",
        ),
        pytest.param(make_placement(), (full("manyfish"),), 1, id="a-list-that-is-cut-short"),
        pytest.param(make_placement(selectors=[{**NAMESPACE, "name": "n000"}]), (full("manyfish"),), 0, id="in-it"),
        pytest.param(in_shop(), (MUTE,), 1, id="resource-placement"),
        pytest.param(by_label(TEAM_A), (MUTE, *ON_HUB), 1, id="by-label"),
        pytest.param(make_placement(selectors=[ROLE]), (MUTE,), 0, id="nothing-that-is-ever-reported"),
        pytest.param(make_placement(strategy=NEVER), (MUTE,), 0, id="never"),
        pytest.param(make_placement(strategy=DIFF), (MUTE,), 0, id="only-compared"),
        pytest.param(make_placement(), (), 0, id="no-members"),
    ],
)
def test_members_whose_objects_are_not_known_are_counted(placement, members, count):
    assert unseen(placement, hub=(*members, labelled("other"))) == ([count] if count else [])


def test_members_in_files_have_no_agents_to_wait_for():
    assert not any("not reported yet" in text for text in of_files(make_placement(), None, [MUTE, LEFT]))


def test_an_update_counts_silent_members_where_it_adds_something():
    old = make_placement(policy=fixed("mutefish"))
    hub = [*MEMBERS, MUTE, old, make_policy_snapshot(old), make_binding("other", "bravelion")]
    assert unseen(make_placement(policy=fixed("mutefish"), revisionHistoryLimit=3), old, hub) == []
    assert unseen(make_placement(policy=fixed("mutefish", "smartfish")), old, hub) == [1]
    more = make_placement(policy=fixed("mutefish"), selectors=[NAMESPACE, {**NAMESPACE, "name": "bar"}])
    assert unseen(more, old, hub) == [1]
    assert unseen(old, make_placement(policy=fixed("mutefish"), strategy=NEVER), hub) == [1]


def test_the_warning_fits_into_a_header_whatever_the_number():
    members = [make_member(f"m{at}", silent=True) for at in range(1200)]
    (text,) = (each for each in warnings(make_placement(), hub=members) if "not reported" in each)
    assert len(text) <= LONGEST_WARNING


@pytest.mark.parametrize("placement", [make_placement(), in_shop(), by_label({})])
def test_the_work_of_a_review_is_bounded_by_time(placement):
    """Members and namespaces are looked at until the time of all live checks is over."""
    looked = []

    def clock():
        looked.append(None)
        return float(len(looked))

    members = [member(f"m{at}", shop="", **{f"n{at}": ""}) for at in range(1000)]
    spaces = [labelled(f"n{at}") for at in range(1000)]
    context = Context.of_objects([stored(each) for each in (*members, *spaces)], user=JANE, now=NOW)
    context = replace(context, clock=clock, deadline=clock() + 2)
    with pytest.raises(OutOfTimeError):
        list(warn_about_taking_over(placement, None, context))
    assert len(looked) < 10


def test_a_placement_without_metadata_is_planned_as_one_without_a_namespace(caplog):
    """No API server sends one; a check that fails on it would be told in the log as a mistake of ours."""
    nameless = {name: value for name, value in make_placement().items() if name != "metadata"}
    assert said(nameless) == TWO
    assert not caplog.records


def test_a_part_that_was_stored_with_another_type_is_looked_past(caplog):
    mistyped = {"applyStrategy": {"type": "ServerSideApply", "serverSideApplyConfig": "force"}}
    old = make_placement(policy=fixed("jumpingcat"), strategy=mistyped)
    assert said(make_placement(policy=BOTH, strategy=mistyped), old, held(old, "jumpingcat")) == ONE
    assert not caplog.records


def held(placement, *clusters, refused=()):
    entries = [
        {"group": "", "version": "v1", "kind": kind, "name": name, "condition": {"reason": reason}}
        for kind, name, reason in refused
    ]
    status = {"failedPlacements": entries}
    bindings = [{**make_binding("shop", name), "status": status} for name in clusters]
    return [*MEMBERS, placement, make_policy_snapshot(placement), *bindings]


def test_an_update_says_it_of_the_clusters_that_it_adds():
    old = make_placement(policy=fixed("bravelion"))
    hub = held(old, "bravelion")
    assert said(make_placement(policy=fixed("bravelion", "smartfish")), old, hub) == ONE
    assert said(make_placement(policy=fixed("bravelion"), revisionHistoryLimit=3), old, hub) == []


def test_an_update_that_begins_to_take_over_says_what_agents_have_found():
    """They told of each object that they were to leave alone; a Namespace that is reported as well counts once."""
    old = make_placement(policy=fixed("bravelion"), strategy=NEVER)
    refused = (("Namespace", "shop", "NotTakenOver"), ("ClusterRole", "viewer", "NotTakenOver"))
    hub = held(old, "bravelion", refused=(*refused, ("ClusterRole", "broken", "FailedToApply")))
    [text] = said(make_placement(policy=fixed("bravelion")), old, hub)
    assert text.endswith("2 existing objects on 1 cluster would be taken over, and later deleted with the placement")


def test_a_stored_placement_that_no_schema_has_seen_stops_no_update_of_it():
    old = make_placement(policy=fixed("bravelion"), strategy={"applyStrategy": 1})
    assert said(make_placement(policy=fixed("bravelion")), old, held(old, "bravelion")) == []
