"""The samples that users copy: those that are right are admitted as they stand, the others refused with the reason."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from e2e.controlplane.cluster import ApiError
from e2e.controlplane.refusals import causes_of
from scorer.api.kinds import KINDS, group_kind

SAMPLES = sorted((Path(__file__).parents[1] / "samples").glob("*.yaml"))


def expectations(text: str) -> Iterator[tuple[str, str]]:
    """What the comments at the top say: ("admitted", ""), ("warns", words), ("refused", path and words)."""
    for line in text.splitlines():
        if not line.startswith("# "):
            return
        verdict, _, words = line.removeprefix("# ").partition(": ")
        yield verdict.removeprefix("admitted, "), words


@pytest.mark.parametrize("path", [pytest.param(path, id=path.stem) for path in SAMPLES])
def test_a_sample_gets_the_verdict_that_it_announces(hub, path):
    text = path.read_text(encoding="utf-8")
    document = yaml.safe_load(text)
    kind = KINDS[group_kind(document)]
    wanted = list(expectations(text))
    target = f"/apis/{document['apiVersion']}/{kind.plural}?dryRun=All"
    refusals = [words for verdict, words in wanted if verdict == "refused"]
    try:
        _, warnings = hub.request("POST", target, document)
    except ApiError as error:
        causes = [f"{field}: {message}" for field, message in causes_of(error)]
        assert refusals, causes
        assert len(causes) == len(refusals), causes
        for refusal in refusals:
            field, _, words = refusal.partition(": ")
            assert any(cause.startswith(f"{field}: ") and words in cause for cause in causes), causes
        return
    assert not refusals
    for verdict, words in wanted:
        if verdict == "warns":
            assert any(words in warning for warning in warnings), warnings
