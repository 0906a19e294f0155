"""Everything that the code can say has its place in ``docs/troubleshooting.md``, and nothing else has."""

import re
from functools import cache
from types import SimpleNamespace

import pytest

from scorer.rollout.removal.eviction import EvictionReason
from scorer.rollout.status.failures import failure_type
from scorer.rollout.works.availability import AvailabilityReason
from scorer.rollout.works.status import ManifestReason
from tests.docs.explained import FAILURES_TOLD_BY_EVENTS, TROUBLESHOOTING, TYPES
from tests.docs.pages import DOCS, REFERENCE, anchor_of, read_page
from tests.docs.said import words_said
from tests.webhook.controllers.world import running
from webhook.settings.analysis import AnalysisOptions
from webhook.settings.gate import NodeDisruptionMode, NodeDisruptionOptions

FAILED = "failed"
"""Before the reasons of a controller that fails, whichever it is."""
MEMBER = "member"
"""Before the reasons that the status of an upgrade run gives for its members."""


@cache
def explained() -> SimpleNamespace:
    """Return the anchors of reasons, in lower case: of conditions as pairs, of events, and all words together."""
    kinds = {kind.lower() for kind in (*TYPES, FAILED, MEMBER)}
    pairs = {(kind, reason) for kind, _, reason in map(_parted, TROUBLESHOOTING.anchors) if kind in kinds and reason}
    events = {reason for kind, _, reason in map(_parted, TROUBLESHOOTING.anchors) if kind == "event" and reason}
    reasons = {reason for _, reason in pairs}
    return SimpleNamespace(pairs=pairs, events=events, words=reasons | events | (kinds - {FAILED, MEMBER}))


def _parted(anchor):
    return anchor.partition("-")


def test_every_type_and_reason_that_the_code_can_say_is_explained():
    unknown = {word for word in words_said() if word.lower() not in explained().words}
    assert sorted(unknown) == []


def test_nothing_is_explained_that_the_code_cannot_say():
    said = {word.lower() for word in words_said()} | set(FAILURES_TOLD_BY_EVENTS)
    assert sorted(explained().words - said) == []


@pytest.mark.parametrize(
    ("kinds", "reasons"),
    [
        pytest.param(("applied", "diffreported"), ManifestReason, id="manifests"),
        pytest.param(("available",), AvailabilityReason, id="availability"),
        pytest.param(("valid", "executed"), EvictionReason, id="evictions"),
    ],
)
def test_every_member_of_a_registry_is_explained_as_a_reason(kinds, reasons):
    """A word may be a type and a reason at once, such as Applied; these are reasons."""
    found = {reason for kind, reason in explained().pairs if kind in kinds}
    assert sorted({reason.value for reason in reasons if reason.value.lower() not in found}) == []


async def test_every_controller_has_its_place_among_those_that_fail():
    optional = {
        "node_disruption": NodeDisruptionOptions(NodeDisruptionMode.ADVISE),
        "analysis": AnalysisOptions(kinds=frozenset({"jobs.batch"})),
    }
    async with running(**optional) as world:
        controllers = list(world.loop.queues)
    told = {anchor_of(failure_type(name)) for name in controllers}
    by_events = {f"harbormasterdev{word}" for word in FAILURES_TOLD_BY_EVENTS}
    explained_here = {anchor for anchor in TROUBLESHOOTING.anchors if anchor.startswith("harbormasterdev")}
    assert told == explained_here | by_events


def test_alerts_name_metrics_that_are_there():
    listed = set(read_page(REFERENCE / "metrics.md").spans)
    text = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")
    named = set(re.findall(r"harbormaster_\w+", text))
    assert sorted(name for name in named if name.removesuffix("_total") not in listed) == []
