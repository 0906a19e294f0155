"""What the answers to the dry runs mean."""

import pytest

from webhook.doctor.dry_runs import HOOK, DryRuns, judge_dry_runs
from webhook.doctor.finding import State
from webhook.kube.ports import ForbiddenError, InvalidObjectError, NotServedError, UnavailableError

OURS = InvalidObjectError(f'admission webhook "{HOOK}" denied the request: no')
OURS_FORBIDS = ForbiddenError(f'admission webhook "{HOOK}" denied the request: no')
DOWN = UnavailableError(f'failed calling webhook "{HOOK}": connect: connection refused')
DISTRUST = UnavailableError(f'failed calling webhook "{HOOK}": tls: failed to verify: x509: unknown authority')
NO_RIGHT = ForbiddenError('User "bob" cannot create resource "clusterresourceplacements" in API group "x"')


@pytest.mark.parametrize(
    ("runs", "state", "said"),
    [
        pytest.param(DryRuns(None, OURS), State.OK, "and an invalid one is refused", id="well"),
        pytest.param(DryRuns(None, OURS_FORBIDS), State.OK, "and an invalid one is refused", id="well-by-403"),
        pytest.param(DryRuns(DOWN, DOWN), State.WRONG, "a valid placement is refused: failed calling", id="down"),
        pytest.param(DryRuns(None, None), State.WRONG, "the API server does not call the webhooks", id="not-asked"),
        pytest.param(DryRuns(None, InvalidObjectError("other")), State.WRONG, f"not by {HOOK}", id="another-refuses"),
        pytest.param(DryRuns(DISTRUST, DISTRUST), State.UNCHECKED, "see certificates", id="distrusted"),
        pytest.param(DryRuns(NO_RIGHT, NO_RIGHT), State.UNCHECKED, "may not create clusterresourcepl", id="no-right"),
        pytest.param(DryRuns(NotServedError("404"), None), State.UNCHECKED, "see definitions", id="not-defined"),
    ],
)
def test_answers(runs, state, said):
    finding = judge_dry_runs(runs, "quay", is_registered=True)
    assert finding.state is state
    assert said in " ".join((finding.found, *finding.problems))
    assert len(finding.problems) == (state is State.WRONG)


def test_without_configurations_there_is_nothing_to_ask_by():
    assert judge_dry_runs(DryRuns(None, None), "quay", is_registered=False).state is State.UNCHECKED


def test_distrust_is_the_reason_of_the_api_server():
    assert "x509" in DryRuns(DISTRUST, DISTRUST).distrust
    assert DryRuns(DOWN, OURS).distrust == ""


def test_a_hook_that_has_judged_has_answered():
    assert DryRuns(None, OURS).answered
    assert DryRuns(OURS, DOWN).answered
    assert not DryRuns(DOWN, DISTRUST).answered
    assert not DryRuns(None, None).answered


def test_no_secret_is_printed():
    called = UnavailableError(f"failed calling webhook: Post https://a.b.svc:443/hooks/{'c0ffee' * 10}/validate: x509")
    finding = judge_dry_runs(DryRuns(called, called), "quay", is_registered=True)
    assert "c0ffee" not in str(finding) + DryRuns(called, called).distrust
    other = InvalidObjectError(str(called).replace("x509", "refused"))
    said = judge_dry_runs(DryRuns(other, other), "quay", is_registered=True).problems
    assert said == (f"a valid placement is refused: {str(other).replace('c0ffee' * 10, '…')}",)
