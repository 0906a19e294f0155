"""X-98: a list of maintenance windows that cannot be read is told, and never keeps a member from reporting."""

import pytest

from scorer.api.names import UPGRADE_WINDOWS
from webhook.admission.judge import judge
from webhook.validation.framework.context import Context

CONTEXT = Context.of_objects([])
BROKEN = "nights; weekends"


def make_member(text):
    return {
        "apiVersion": "cluster.kubernetes-fleet.io/v1beta1",
        "kind": "MemberCluster",
        "metadata": {"name": "dover", "annotations": {UPGRADE_WINDOWS: text}},
        "spec": {"identity": {"kind": "User", "name": "dover"}},
    }


def warnings(new, old=None):
    judgement = judge("CREATE" if old is None else "UPDATE", new, old, CONTEXT)
    assert judgement.code == 200
    assert judgement.errors == ()
    return [warning.partition("]: ")[2] for warning in judgement.warnings if f"{UPGRADE_WINDOWS}]" in warning]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("", [], id="empty"),
        pytest.param("nights, weekends", [], id="sound"),
        pytest.param(
            BROKEN,
            ["invalid and ignored: 'nights; weekends' is not a valid name of a window"],
            id="no-commas",
        ),
        pytest.param(
            ",".join(f"w{place}" for place in range(21)),
            ["invalid and ignored: names 21 windows, must name at most 20"],
            id="too-many",
        ),
    ],
)
def test_a_list_of_windows_that_does_not_count_warns(text, words):
    assert warnings(make_member(text)) == words


def test_a_list_that_an_update_leaves_alone_does_not_warn_again():
    assert warnings(make_member(BROKEN), make_member(BROKEN)) == []
    assert len(warnings(make_member(BROKEN), make_member("nights"))) == 1
