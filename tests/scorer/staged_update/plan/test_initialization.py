"""What the first pass of a run takes from the hub, and what it refuses for good."""

import pytest

from scorer.staged_update.outcome import RunFailedError
from scorer.staged_update.plan.initialization import initialise
from tests.scorer.staged_update.hub import make_hub, make_run, make_stage


@pytest.mark.parametrize(
    ("index", "cause"),
    [
        pytest.param("0", "", id="first"),
        pytest.param("1", "", id="latest"),
        pytest.param("01", "resource-snapshot-not-found", id="leading-zero"),
        pytest.param("00", "resource-snapshot-not-found", id="two-zeros"),
        pytest.param("2", "resource-snapshot-not-found", id="none"),
        pytest.param("+1", "resource-index-invalid", id="sign"),
        pytest.param("-1", "resource-index-invalid", id="negative"),
        pytest.param("٠", "resource-index-invalid", id="another-script"),
    ],
)
def test_an_index_is_that_of_the_label(index, cause):
    """The reference lists the snapshots whose label has this very text."""
    hub = make_hub(make_stage("one"), clusters={"a": "one"}, run=make_run(index=index), snapshots=2)
    if not cause:
        assert initialise(hub.run, hub.facts).status["resourceSnapshotIndexUsed"] == index
        return
    with pytest.raises(RunFailedError) as raised:
        initialise(hub.run, hub.facts)
    assert raised.value.cause == cause
    assert index in str(raised.value)
