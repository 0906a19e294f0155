"""What the record of a past decision tells."""

import pytest

from scorer.placement.past_run import RecordedClusterDecision, decisions_in


@pytest.mark.parametrize(
    ("score", "decision"),
    [
        pytest.param({"priorityScore": 2, "affinityScore": 3}, RecordedClusterDecision("oslo", 2, 3), id="both-parts"),
        pytest.param({"affinityScore": 3}, RecordedClusterDecision("oslo", 0, 3), id="no-spread"),
        pytest.param({"priorityScore": 2}, RecordedClusterDecision("oslo", 2, 0), id="no-preference"),
        pytest.param({}, RecordedClusterDecision("oslo", 0, 0), id="no-parts"),
        pytest.param(None, RecordedClusterDecision("oslo", None, None), id="no-score"),
    ],
)
def test_what_was_not_recorded_of_a_score_counts_nothing(score, decision):
    entry = {"clusterName": "oslo", "selected": True, "reason": "picked"} | (
        {"clusterScore": score} if score is not None else {}
    )
    assert decisions_in({"status": {"targetClusters": [entry]}}) == ((decision,), ())


def test_only_those_that_were_not_selected_have_a_reason():
    found = [{"clusterName": name, "selected": name == "oslo", "reason": "told"} for name in ("oslo", "cork")]
    assert decisions_in({"status": {"targetClusters": found}}) == (
        (RecordedClusterDecision("oslo", None, None),),
        (RecordedClusterDecision("cork", None, None, "told"),),
    )
