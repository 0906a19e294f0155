"""What is said of a check."""

from webhook.doctor.finding import MOST_PROBLEMS, State, judged, listed, refused
from webhook.kube.ports import ForbiddenError, NotServedError, UnavailableError

DENIED = (
    'clusterroles.rbac.authorization.k8s.io is forbidden: User "bob" cannot list resource "clusterroles" in API group '
    '"rbac.authorization.k8s.io" at the cluster scope'
)
DENIED_THERE = (
    'leases.coordination.k8s.io "loop" is forbidden: User "bob" cannot get resource "leases" in API group '
    '"coordination.k8s.io" in the namespace "quay"'
)


def test_without_problems_all_is_well():
    assert judged("a", [], "fine", "do this").document() == {
        "check": "a",
        "state": "ok",
        "found": "fine",
        "problems": [],
        "advice": "",
    }


def test_many_problems_are_counted():
    finding = judged("a", map(str, range(MOST_PROBLEMS + 2)), "fine", "do this")
    assert (finding.state, finding.found, finding.advice) == (State.WRONG, "22 problems", "do this")
    assert finding.problems[-2:] == ("19", "and 2 more")
    assert judged("a", ["one"], "fine").found == "1 problem"


def test_a_right_that_the_caller_lacks_is_named():
    assert refused("a", ForbiddenError(DENIED)).found == "not checked: you may not list clusterroles"
    assert refused("a", ForbiddenError(DENIED_THERE)).found == "not checked: you may not get leases in namespace quay"


def test_other_refusals_are_repeated():
    assert refused("a", UnavailableError("no\nanswer")).found == "not checked: no answer"
    assert (
        refused("a", NotServedError("404")).found
        == "not checked: the hub does not know the kind (404, see definitions)"
    )
    assert {refused("a", error("x")).state for error in (ForbiddenError, UnavailableError)} == {State.UNCHECKED}


def test_long_lists_are_cut():
    assert listed(list("abc"), 2) == "a, b and 1 more"
    assert listed(list("ab"), 2) == "a, b"
