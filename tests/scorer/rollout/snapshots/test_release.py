"""Objects that were placed and belong to the clusters since are named in the snapshot, so that members keep them."""

import pytest

from scorer.api.names import RELEASE
from scorer.rollout.object_size import object_identity
from scorer.rollout.snapshots import release
from scorer.rollout.snapshots.groups import placed_group, snapshot_groups
from scorer.rollout.snapshots.resources import UNTHROTTLED, plan_resource_snapshots
from scorer.rollout.writes import Verb
from tests.scorer.rollout.placed_shop import NOW, make_object


class Hub:
    """Snapshots as a store would keep them."""

    def __init__(self, **spec):
        self.placement = {"apiVersion": "v1", "kind": "K", "metadata": {"name": "shop", "uid": "u"}, "spec": spec}
        self.stored = {}

    def run(self, *objects, clusters=()):
        cluster_objects = [object_identity(make_object(name)) for name in clusters]
        plan = plan_resource_snapshots(
            self.placement, self.stored.values(), objects, NOW, UNTHROTTLED, cluster_objects=cluster_objects
        )
        for write in plan.writes:
            if write.verb is Verb.DELETE:
                del self.stored[write.name]
            else:
                self.stored[write.name] = write.document
        return plan

    @property
    def latest(self):
        return placed_group(snapshot_groups(self.stored.values()))

    @property
    def released(self):
        return {name for _, _, _, name in self.latest.released()}

    @property
    def placed(self):
        return [content["metadata"]["name"] for content in self.latest.objects()]


A, B, C = map(make_object, "abc")


def test_an_object_that_was_never_placed_is_not_released():
    hub = Hub()
    hub.run(A, clusters=["job"])
    assert not hub.released


def test_an_object_that_was_placed_is_released_as_long_as_the_hub_has_it():
    hub = Hub(revisionHistoryLimit=1)
    hub.run(A, B)
    hub.run(A, clusters=["b"])
    assert (hub.placed, hub.released) == (["a"], {"b"})
    hub.run(A, C, clusters=["b"])
    assert hub.released == {"b"}, "a binding may have skipped the snapshot before"
    hub.run(C)
    assert not hub.released, "the hub has deleted it"


def test_an_object_that_the_hub_deletes_is_released_while_a_snapshot_has_it():
    hub = Hub()
    hub.run(A, B)
    hub.run(A, clusters=["b"])
    hub.run(A, C)
    assert hub.released == {"b"}


def test_an_object_that_is_selected_again_is_not_released():
    hub = Hub()
    hub.run(A, B)
    hub.run(A, clusters=["b"])
    hub.run(A, B)
    assert (hub.placed, hub.released) == (["a", "b"], set())


def test_nothing_is_written_while_nothing_changes():
    hub = Hub()
    hub.run(A, B)
    hub.run(A, clusters=["b"])
    assert not hub.run(A, clusters=["b"]).writes


@pytest.mark.parametrize("record", ["nothing", "[7]"])
def test_a_record_that_was_edited_is_replaced(record):
    hub = Hub()
    hub.run(A, B)
    hub.run(A, clusters=["b"])
    hub.latest.master["metadata"]["annotations"][RELEASE] = record
    hub.run(A, clusters=["b"])
    assert hub.released == {"b"}


def test_objects_that_the_record_has_no_room_for_remain_placed(monkeypatch):
    monkeypatch.setattr(release, "LONGEST_RECORD", 40)
    hub = Hub()
    hub.run(A, B, C)
    hub.run(A, clusters=["b", "c"])
    assert (hub.placed, hub.released) == (["a", "c"], {"b"})
    assert not hub.run(A, clusters=["b", "c"]).writes
    hub.stored = {name: document for name, document in hub.stored.items() if "-0-" not in name}
    hub.run(A, clusters=["c"])
    assert (hub.placed, hub.released) == (["a"], {"c"})
