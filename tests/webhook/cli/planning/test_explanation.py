"""An explanation in words: what several clusters have in common is said once, and what cannot be read is named."""

import pytest

from webhook.cli.planning.explanation import because, details, heading, limits

SCORE = "scores.harbormaster.dev/latency"


@pytest.mark.parametrize(
    ("message", "words"),
    [
        pytest.param(
            "policy snapshot a-0; b changed (new, labels); c changed (new, labels, health); d changed (new)",
            "policy snapshot a-0; b, c and d joined the fleet",
            id="the-same-is-said-once",
        ),
        pytest.param(
            "numberOfClusters 2 → 3; b changed (labels); c changed (gone); d changed (labels)",
            "numberOfClusters 2 → 3; b and d changed (labels); c left the fleet",
            id="what-differs-stays-apart",
        ),
        pytest.param(
            "since the last run these members changed: b (taints, labels), c (new) and 12 more",
            "b changed (taints, labels); c joined the fleet; 12 more changed",
            id="members",
        ),
        pytest.param(
            "policy snapshot a-0 → a-1: affinity, tolerations changed",
            "policy snapshot a-0 → a-1: affinity, tolerations changed",
            id="no-members",
        ),
        pytest.param("no change except the time", "no change except the time", id="nothing"),
    ],
)
def test_why_there_was_a_decision(message, words):
    assert because(message) == words


@pytest.mark.parametrize(
    ("answer", "end"),
    [
        pytest.param({"batches": 1}, "Fleet: 12 clusters, picked in 1 round.", id="one"),
        pytest.param({"batches": 3}, "Fleet: 12 clusters, picked in 3 rounds.", id="several"),
        pytest.param(
            {"batches": 0, "found": 2}, "It has all requested clusters, so none was evaluated again.", id="all"
        ),
        pytest.param({"batches": 0}, "Fleet: 12 clusters.", id="none"),
    ],
)
def test_how_often_clusters_were_picked(answer, end):
    given = {"wanted": 2, "found": 1, "fleetSize": 12, "evaluatedAt": "2026-03-01T12:00:00Z", **answer}
    assert heading("crp/web", given)[1].endswith(end)


def item(**parts):
    return {"cluster": "dover", "verdict": "NotNeeded", "rank": 3, "summary": "dover: a candidate", **parts}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nonsense", 'is not JSON such as {"value": "42"}'),
        ('{"value": 42}', '"value" must be a quantity in quotes'),
    ],
)
def test_an_external_score_that_cannot_be_read_has_a_warning_with_the_reason(text, reason):
    reading = {"name": SCORE, "observed": text, "unreadable": True}
    term = {"index": 0, "weight": 50, "points": 0, "sorter": {**reading, "order": "Ascending"}}
    lines = list(details(item(affinity={"score": 0, "terms": [term]})))
    assert f"  warning: {SCORE} cannot be read, so it does not count: {reason}" in lines
    assert f"        0  preference 1, weight 50: {SCORE} cannot be read; less is better" in lines
    told = item(affinity={"score": 0, "terms": [term]}, warnings=[f"{SCORE} cannot be read"])
    assert [line for line in details(told) if "warning" in line] == [f"  warning: {SCORE} cannot be read"]


def test_an_exceeded_limit_of_the_spread_is_said_in_words():
    constraint = {
        "index": 0,
        "key": "region",
        "whenUnsatisfiable": "ScheduleAnyway",
        "domain": "eu",
        "counts": {"eu": 3, "us": 1},
        "skew": 2,
        "maxSkew": 2,
        "change": 1,
        "violated": True,
        "points": -1000,
    }
    over = item(topology={"score": -1000, "constraints": [constraint]})
    assert limits([over]) == ["dover: one more in eu would exceed maxSkew 2 of region, which costs 1000"]
    assert list(details(over))[-1] == (
        "    -1000  region: placed so far: eu 3, us 1; the skew (largest less smallest) is 2, one more in eu changes "
        "it by +1; the limit of 2 is exceeded, so it ranks after all clusters within the limit (ScheduleAnyway)"
    )
    hard = {**constraint, "whenUnsatisfiable": "DoNotSchedule", "points": 0}
    refused = item(topology={"score": 0, "constraints": [hard]})
    assert limits([refused]) == []
    assert "the limit of 2 is exceeded, so it is filtered out (DoNotSchedule)" in list(details(refused))[-1]
