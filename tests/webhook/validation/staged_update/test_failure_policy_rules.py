"""The rule on the annotations that say what a staged update does when clusters fail."""

import pytest

from webhook.access.user import UserInfo
from webhook.settings.admission import OWN_CONTROLLER
from webhook.validation.framework.context import Context
from webhook.validation.staged_update import run as staged_run
from webhook.validation.staged_update import strategy as staged_strategy

OURS = "harbormaster.dev/"


def make_strategy(**annotations):
    spec = {"stages": [{"name": "test", "labelSelector": {}}]}
    return make("ClusterStagedUpdateStrategy", spec, annotations)


def make_run(**annotations):
    spec = {"placementName": "p", "stagedRolloutStrategyName": "careful", "state": "Run"}
    return make("ClusterStagedUpdateRun", spec, annotations)


def make(kind, spec, annotations):
    meta = {"name": "x", "annotations": {f"{OURS}{key.replace('_', '-')}": text for key, text in annotations.items()}}
    return {"apiVersion": "placement.kubernetes-fleet.io/v1", "kind": kind, "metadata": meta, "spec": spec}


def judged(document, old=None, context=None):
    """Return rule and text of every finding."""
    rules = staged_strategy if document["kind"].endswith("Strategy") else staged_run
    return [(each.rule, str(each)) for each in rules.validate(document, old, context or Context())]


BOTH = pytest.mark.parametrize("made", [make_strategy, make_run])


@BOTH
@pytest.mark.parametrize(
    "annotations",
    [
        {},
        {"on_failure": "Stop"},
        {"on_failure": "Rollback", "max_failures": "0", "cluster_deadline": "1h30m"},
        {"on_failure": "", "max_failures": "", "cluster_deadline": ""},
    ],
)
def test_a_failure_policy_that_can_be_read_passes(made, annotations):
    assert judged(made(**annotations)) == []


@BOTH
@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("on_failure", "rollback", "'rollback': must be Stop or Rollback"),
        ("max_failures", "-1", "'-1': must be an integer"),
        ("max_failures", "1e3", "'1e3': must be an integer"),
        ("max_failures", "٣", "must be an integer"),
        ("max_failures", "20%", "'20%': must be an integer"),
        ("cluster_deadline", "soon", "'soon' is not a duration"),
        ("cluster_deadline", "0s", "'0s' is not positive"),
        ("cluster_deadline", "9999999999h", "'9999999999h' is longer than 2562047h"),
    ],
)
def test_an_annotation_that_cannot_be_read_is_refused_with_the_field_and_its_value(made, key, value, told):
    [(rule, text)] = judged(made(**{key: value}))
    assert rule == "X-55"
    assert f"metadata.annotations[{OURS}{key.replace('_', '-')}]" in text
    assert told in text


def test_every_mistake_is_reported():
    found = judged(make_run(on_failure="Pause", max_failures="many", cluster_deadline="1d"))
    assert [rule for rule, _ in found] == ["X-55"] * 3


def test_the_loop_may_copy_what_was_stored_before_there_was_a_rule():
    ours = Context().with_user(UserInfo(OWN_CONTROLLER))
    assert judged(make_run(max_failures="many"), make_run(), ours) == []
    ada = Context().with_user(UserInfo("ada"))
    assert [rule for rule, _ in judged(make_run(max_failures="many"), make_run(), ada)] == ["X-55"]
