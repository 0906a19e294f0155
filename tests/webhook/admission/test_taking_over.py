"""What a placement is said to make its own that was on members before (X-29)."""

import pytest

from tests.builders.binding import make_binding
from tests.builders.placement import fixed, make_placement
from tests.webhook.validation.live_objects import JANE, NAMESPACE, NOW, make_member, make_policy_snapshot
from webhook.admission.judge import judge
from webhook.validation.context import Context

NEVER = {"applyStrategy": {"whenToTakeOver": "Never"}}
DIFF = {"applyStrategy": {"type": "ReportDiff"}}
BOTH = fixed("bravelion", "jumpingcat")


def member(name, **namespaces):
    document = make_member(name)
    return {**document, "status": {**document["status"], "namespaces": namespaces}}


MEMBERS = (member("bravelion", shop="", bar=""), member("jumpingcat", shop="other-work"), member("smartfish", shop=""))
SILENT = tuple(make_member(name) for name in ("bravelion", "jumpingcat", "smartfish"))


def said(new, old=None, hub=MEMBERS):
    context = Context.of_objects([*hub], user=JANE, now=NOW)
    judgement = judge("CREATE" if old is None else "UPDATE", new, old, context)
    assert judgement.allowed, judgement.message
    return [text for text in judgement.warnings if "would become ours" in text]


ONE = ["spec.resourceSelectors: 1 existing object would become ours, and go with the placement (1 cluster)"]
TWO = ["spec.resourceSelectors: 2 existing objects would become ours, and go with the placement (2 clusters)"]


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
    assert text.endswith("2 existing objects would become ours, and go with the placement (1 cluster)")


def test_a_stored_placement_that_no_schema_has_seen_stops_no_update_of_it():
    old = make_placement(policy=fixed("bravelion"), strategy={"applyStrategy": 1})
    assert said(make_placement(policy=fixed("bravelion")), old, held(old, "bravelion")) == []
