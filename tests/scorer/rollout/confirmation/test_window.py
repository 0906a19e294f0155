"""The memory of the window: single removals are one accident, however short the history of snapshots is."""

from datetime import timedelta
from functools import partial

import pytest

from scorer.api.names import SOURCES
from scorer.api.unstructured.documents import annotation
from scorer.rollout.confirmation.digests import rolled_up_digest
from scorer.rollout.confirmation.objects import ObjectFacts, judge_objects
from scorer.rollout.confirmation.sources import ObjectSource, format_sources, sources_of
from scorer.rollout.confirmation.window import PARTS
from scorer.rollout.object_size import object_identity
from scorer.rollout.snapshots.content_record import ContentRecord
from scorer.rollout.snapshots.groups import snapshot_groups
from scorer.rollout.snapshots.resources import UNTHROTTLED, plan_resource_snapshots
from scorer.rollout.writes import Verb
from tests.scorer.rollout.confirmation.placed_content import (
    DEFAULTS,
    HOUR,
    NOW,
    config_maps,
    item_of,
    make_envelope,
    make_namespace,
    make_placement,
    uid,
)
from webhook.validation.framework.object_meta import LONGEST_ANNOTATIONS

SHOP = make_namespace()
MINUTE = timedelta(minutes=1)


class Hub:
    """A placement with its resource snapshots, as a store would keep them."""

    def __init__(self, limit, ahead=0 * HOUR):
        self.placement = {**make_placement(), "spec": {"revisionHistoryLimit": limit}}
        self.stored, self.now = {}, NOW
        self.ahead = ahead
        """How far the clock of the API server is ahead of that of the loop."""

    def select(self, *objects):
        """Select these objects now, and return the verdict."""
        groups = snapshot_groups(self.stored.values())
        uids = {object_identity(each): uid(each) for each in objects}
        live = {"shop": SHOP}.get
        judgement = judge_objects(ObjectFacts(DEFAULTS, self.placement, objects, uids, groups, live, self.now))
        content = ContentRecord(partial(format_sources, judgement.sources), judgement.retained)
        snapshots = list(self.stored.values())
        plan = plan_resource_snapshots(
            self.placement, snapshots, judgement.objects, self.now, UNTHROTTLED, content=content
        )
        for write in plan.writes:
            if write.verb is Verb.DELETE:
                del self.stored[write.name]
            else:
                created = self.stored.get(write.name, {}).get("metadata", {}).get("creationTimestamp")
                metadata = {
                    **write.document["metadata"],
                    "creationTimestamp": created or (self.now + self.ahead).isoformat(),
                }
                self.stored[write.name] = {**write.document, "metadata": metadata}
        return judgement


@pytest.mark.parametrize("limit", [1, 2, 10])
def test_forty_single_deletions_are_one_accident(limit):
    hub, maps = Hub(limit), config_maps(50)
    hub.select(SHOP, *maps)
    hub.now += 2 * HOUR
    placed = []
    for number in range(1, 41):
        hub.now += MINUTE
        placed.append(len(hub.select(SHOP, *maps[number:]).objects))
    assert placed[:10] == list(range(50, 40, -1))
    assert set(placed[10:]) == {41}, "ten are removed with a warning, and all later ones wait"
    assert len(hub.stored) <= limit + PARTS + 1


@pytest.mark.parametrize("hours", [-9, -2, 2, 9])
@pytest.mark.parametrize("limit", [1, 10])
def test_deletions_are_one_accident_with_an_api_server_whose_clock_is_wrong(limit, hours):
    """Snapshots count by the loop's clock: it records when each was superseded."""
    hub, maps = Hub(limit, hours * HOUR), config_maps(50)
    hub.select(SHOP, *maps)
    hub.now += 2 * HOUR
    for number in range(1, 21):
        hub.now += MINUTE
        judgement = hub.select(SHOP, *maps[number:])
    assert (len(judgement.objects), len(judgement.pending)) == (41, 10)


@pytest.mark.parametrize("limit", [1, 10])
def test_what_has_left_the_window_does_not_count(limit):
    hub, maps = Hub(limit), config_maps(30)
    hub.select(SHOP, *maps)
    for number in range(1, 16):
        hub.now += 10 * MINUTE
        assert not hub.select(SHOP, *maps[number:]).pending, "at most seven within an hour"
    hub.now += 2 * HOUR
    for number in range(16, 18):
        hub.now += MINUTE
        hub.select(SHOP, *maps[number:])
    assert len(hub.stored) <= limit + 2


def test_a_label_set_before_the_deletion_exempts_nothing_with_a_history_of_one():
    hub, maps = Hub(1), config_maps(3)
    labelled = make_namespace(labels={"harbormaster.dev/ephemeral": "true"})
    hub.select(SHOP, *maps)
    for number in range(1, 5):
        hub.now += MINUTE
        hub.select(labelled, *maps, *config_maps(number, 10))
    assert hub.select().pending


def test_the_sources_of_ten_thousand_objects_fit_into_an_annotation():
    many = config_maps(10_000)
    envelope = make_envelope("wrapped", *many)
    keys = {content["metadata"]["name"]: NOW + number * MINUTE for number, content in enumerate(many[::2])}
    groups = tuple(rolled_up_digest("u", [item_of(content)]) for content in many[:4])
    for contents, source in (
        ([envelope], ObjectSource("u" * 36, keys=keys, groups=groups)),
        (many[:1400], ObjectSource("u" * 36, NOW, groups=groups)),  # as many as one snapshot has room for
    ):
        sources = {object_identity(content): source for content in contents}
        text = format_sources(sources, contents)
        assert len(text) < LONGEST_ANNOTATIONS * 0.6
        snapshot = {"metadata": {"annotations": {SOURCES: text}}, "spec": {"selectedResources": contents}}
        for record in sources_of(snapshot):
            assert (record.uid, record.since, record.keys.keys()) == (source.uid, source.since, source.keys.keys())


def test_the_sources_of_an_envelope_keep_their_times_and_roll_ups():
    maps = config_maps(9)
    keys = {f"c00{number}": NOW + (number % 2) * HOUR for number in (0, 1, 2, 4, 5, 6, 8)}
    source = ObjectSource("u", keys=keys, groups=("a" * 20, "b" * 20))
    envelope = make_envelope("wrapped", *maps)
    text = format_sources({object_identity(envelope): source}, [envelope])
    snapshot = {"metadata": {"annotations": {SOURCES: text}}, "spec": {"selectedResources": [envelope]}}
    assert sources_of(snapshot) == [source]
    assert annotation(snapshot, SOURCES) == text
    for broken in ("{", "[]", '[{"keys":{"2026-11-29T12:00:00Z":"0-99"}}]', '[{"since":"x"}]', "[7]"):
        snapshot["metadata"]["annotations"][SOURCES] = broken
        assert sources_of(snapshot) == [ObjectSource()]
