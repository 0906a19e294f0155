"""Warnings that hold for a stored object: those of admission, without those about the write itself."""

import pytest

from tests.builders.placement import fixed, make_placement
from tests.webhook.validation.live_objects import JANE, NOW, make_member, make_override, pick_n, plain
from webhook.admission.advisories import advisory_text, stored_warnings
from webhook.admission.judge import judge
from webhook.validation.framework.context import Context

HUB = [make_member("bravelion"), plain("v1", "Namespace", "shop")]


def rules_of(document, *hub):
    context = Context.of_objects([*HUB, document, *hub], user=JANE, now=NOW)
    return [warning.rule for warning in stored_warnings(document, context)]


@pytest.mark.parametrize(
    ("document", "hub", "rules"),
    [
        pytest.param(make_placement(policy=pick_n(1)), [], [], id="none"),
        pytest.param(make_placement(policy=pick_n(2)), [], ["X-05"], id="live"),
        pytest.param(make_placement(policy=fixed("atlantis")), [], ["X-07"], id="member"),
        pytest.param(
            make_placement(strategy={"rollingUpdate": {"maxSurge": 0}}), [], ["X-14"], id="of-the-object-alone"
        ),
        pytest.param(
            make_placement(policy=pick_n(2), strategy={"rollingUpdate": {"maxSurge": 0}}),
            [],
            ["X-05", "X-14"],
            id="both-by-rule",
        ),
        pytest.param(make_override(name="shpo"), [make_placement()], ["X-62"], id="override"),
        pytest.param(make_member("a", env="x"), [], [], id="kind-without-advisories"),
        pytest.param({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}, [], [], id="foreign-kind"),
    ],
)
def test_warnings_of_stored_objects(document, hub, rules):
    assert rules_of(document, *hub) == rules


def test_admission_gives_the_same_warnings():
    document = make_placement(policy=pick_n(2), strategy={"rollingUpdate": {"maxSurge": 0}})
    context = Context.of_objects(HUB, user=JANE, now=NOW)
    answered = judge("CREATE", document, None, context).warnings
    assert {str(warning) for warning in stored_warnings(document, context)} <= set(answered)


def test_an_acknowledged_rule_is_left_out():
    document = make_placement(policy=pick_n(2), strategy={"rollingUpdate": {"maxSurge": 0}})
    document["metadata"]["annotations"] = {"harbormaster.dev/acknowledge": "X-14"}
    assert rules_of(document) == ["X-05"]


def test_warnings_about_a_write_do_not_last():
    """X-29 would warn of the namespace that the member has, and that the placement has taken over long ago."""
    member = make_member("bravelion")
    member["status"]["namespaces"] = {"shop": ""}
    document = make_placement(policy=fixed("bravelion"))
    context = Context.of_objects([member, HUB[1]], user=JANE, now=NOW)
    assert "taken over" in judge("CREATE", document, None, context).warnings[0]
    assert stored_warnings(document, context) == []


def test_a_line_has_rule_object_field_and_text():
    context = Context.of_objects(HUB, user=JANE, now=NOW)
    (warning,) = stored_warnings(make_placement(policy=fixed("atlantis")), context)
    text = 'spec.policy.clusterNames[0]: there is no member cluster "atlantis" yet'
    assert advisory_text(warning) == f"X-07 {text}"
    assert advisory_text(warning, "ResourceOverride a/b") == f"X-07 ResourceOverride a/b: {text}"
