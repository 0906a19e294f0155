"""What the translation of a line about the admission of upgrade kinds makes of it."""

import pytest

from tests.vector_families.upgrade_admission import check_upgrade_admission, evaluate_admission
from tests.webhook.validation.upgrade_objects import FULL, make_gate, make_request, make_run, make_window


def test_a_write_is_defaulted_before_it_is_judged():
    seen = evaluate_admission(
        {"operation": "CREATE", "object": make_run(upgrade={**FULL, "kubernetesVersion": "v1.31"})}
    )
    assert (seen["allowed"], seen["field"], seen["warnings"]) == (True, None, [])
    assert seen["defaulted"]["spec"]["upgrade"] == {
        "type": "Full",
        "kubernetesVersion": "1.31",
        "nodeImage": {"selection": "Latest"},
    }


def test_the_first_field_by_path_is_named():
    seen = evaluate_admission(
        {"operation": "CREATE", "object": make_run(state="Stop", memberSelector={"matchLabels": {"": ""}})}
    )
    assert (seen["allowed"], seen["field"]) == (False, "spec.memberSelector.matchLabels")


@pytest.mark.parametrize(
    ("new", "old", "field"),
    [
        (make_gate("Completed", "True"), make_gate("Completed"), "status.state"),
        (make_request("Accepted"), make_request("Failed"), "status.phase"),
    ],
)
def test_an_update_of_the_status_alone_is_judged_as_one(new, old, field):
    seen = evaluate_admission({"operation": "UPDATE", "object": new, "oldObject": old})
    assert (seen["allowed"], seen["field"]) == (False, field)


def test_a_line_that_wants_something_else_fails():
    given = {"operation": "CREATE", "object": make_window()}
    check_upgrade_admission({"given": given, "want": {"allowed": True, "defaulted": {"spec": {"durationHours": 4}}}})
    with pytest.raises(AssertionError):
        check_upgrade_admission(
            {"given": given, "want": {"allowed": True, "defaulted": {"spec": {"durationHours": 5}}}}
        )
    with pytest.raises(AssertionError):
        check_upgrade_admission({"given": given, "want": {"allowed": False}})


def test_a_line_may_want_something_not_to_be_there():
    control_plane = make_run(upgrade={**FULL, "type": "ControlPlaneOnly"})
    without = {"spec": {"upgrade": {"nodeImage": None}}}
    check_upgrade_admission({"given": {"operation": "CREATE", "object": control_plane}, "want": {"defaulted": without}})
    with pytest.raises(AssertionError):
        check_upgrade_admission(
            {"given": {"operation": "CREATE", "object": make_run()}, "want": {"defaulted": without}}
        )
