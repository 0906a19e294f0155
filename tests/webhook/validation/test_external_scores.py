"""X-27: an external score that does not count is told, and never keeps a member from reporting."""

from datetime import UTC, datetime

import pytest

from webhook.admission.judge import judge
from webhook.validation.framework.context import Context

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
NAME = "scores.harbormaster.dev/latency"
CONTEXT = Context.of_objects([], now=NOW)


def make_member(**annotations):
    return {
        "apiVersion": "cluster.kubernetes-fleet.io/v1beta1",
        "kind": "MemberCluster",
        "metadata": {"name": "dover", "annotations": {"who": "ann", **annotations}},
        "spec": {"identity": {"kind": "User", "name": "dover"}},
    }


def warnings(new, old=None):
    judgement = judge("CREATE" if old is None else "UPDATE", new, old, CONTEXT)
    assert judgement.code == 200
    assert judgement.errors == ()
    return [warning for warning in judgement.warnings if "dev/latency]" in warning]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param('{"value":"42"}', "", id="sound"),
        pytest.param('{"value":"42","validUntil":"2026-11-21T12:00:00Z"}', "", id="valid-to-this-instant"),
        pytest.param(
            '{"value":"42","validUntil":"2026-11-21T11:59:59Z"}',
            "expired at 2026-11-21T11:59:59Z, so it is ignored",
            id="expired",
        ),
        pytest.param("42", "unreadable: is not a JSON object", id="bare-number"),
        pytest.param("fast", "unreadable: is not JSON such as", id="no-json"),
        pytest.param('{"value":42}', 'unreadable: "value" must be a quantity in quotes', id="number"),
        pytest.param('{"value":"fast"}', "unreadable: value: 'fast' is not a quantity", id="no-quantity"),
        pytest.param('{"value":"1","until":"x"}', "unreadable: has the unknown field 'until'", id="unknown-member"),
        pytest.param(
            '{"value":"1","validUntil":"noon"}',
            "unreadable: validUntil: 'noon' is not an RFC 3339 instant",
            id="no-instant",
        ),
    ],
)
def test_a_score_that_does_not_count_warns(text, words):
    found = warnings(make_member(**{NAME: text}))
    if not words:
        assert found == []
        return
    (only,) = found
    assert only.partition("]: ")[2].startswith(words)
    assert only.endswith("...") is False


def test_a_broken_score_that_was_there_before_is_not_told_again():
    """Every heartbeat would repeat it; one that is touched is told."""
    broken, other = make_member(**{NAME: "fast"}), make_member(**{NAME: "faster"})
    assert warnings({**broken, "status": {}}, broken) == []
    assert len(warnings(other, broken)) == 1


def test_a_name_that_cannot_be_one_is_refused_as_for_any_annotation():
    judgement = judge("CREATE", make_member(**{"scores.harbormaster.dev/no name": '{"value":"1"}'}), None, CONTEXT)
    assert judgement.code == 422
    assert "scores.harbormaster.dev/no name" in str(judgement.errors[0])
