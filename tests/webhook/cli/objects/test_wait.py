"""``harbormaster wait`` for conditions by their short names."""

import pytest

from scorer.api.kinds import PLACEMENT
from tests.builders.condition import condition
from tests.webhook.cli.fleets import placement
from webhook.cli.objects.wait import AmbiguousConditionError, GoalType


def goal(text):
    return GoalType().convert(text, None, None)


def live(*conditions):
    return {**placement(), "status": {"conditions": list(conditions)}}


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("Available", "ClusterResourcePlacementAvailable"),
        ("available", "ResourcePlacementAvailable"),
        ("ClusterResourcePlacementAvailable", "ClusterResourcePlacementAvailable"),
        ("SchedulerFailed", "harbormaster.dev/SchedulerFailed"),
        ("RemovalPending", "RemovalPending"),
    ],
)
def test_a_condition_is_named_without_kind_or_domain(word, kind):
    assert goal(f"condition={word}").met(live(condition(kind)))
    assert goal(f"condition={word}=False").met(live(condition(kind, "False")))


def test_the_full_name_counts_before_a_short_one():
    both = live(condition("Available", "False"), condition("ClusterResourcePlacementAvailable"))
    assert not goal("condition=Available").met(both)


def test_a_name_for_several_conditions_is_refused_with_the_candidates():
    both = live(condition("a.example/Ready"), condition("b.example/Ready"))
    with pytest.raises(AmbiguousConditionError, match=r"several conditions: a\.example/Ready, b\.example/Ready"):
        goal("condition=Ready").met(both)


def test_a_missing_condition_is_reported_with_those_that_exist(cli, hub):
    document = {**live(condition("ClusterResourcePlacementScheduled")), "apiVersion": PLACEMENT.api_version}
    stored = hub.run(hub.store.create(PLACEMENT, document))
    hub.run(hub.store.replace_status(PLACEMENT, {**stored, "status": document["status"]}))
    result = cli("wait", "crp/web", "--for=condition=Avialable", "--timeout=0")
    assert result.exit_code == 1
    assert "has no such condition. Its conditions: ClusterResourcePlacementScheduled" in result.stderr
    assert cli("wait", "crp/web", "--for=condition=Scheduled", "--timeout=0").exit_code == 0
