"""Content that fits into etcd: sizes as etcd counts them, and objects that keep what they were."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.api.names import LEFT_OUT
from scorer.api.unstructured.documents import annotation
from scorer.rollout.object_size import (
    CONTENT_LIMIT,
    REQUEST_LIMIT,
    TooLarge,
    by_identity,
    describe,
    etcd_bytes,
    fit_objects,
    fit_together,
    parse_left_out,
    stored_size,
)
from scorer.rollout.snapshots.groups import snapshot_groups
from scorer.rollout.snapshots.resources import UNTHROTTLED, plan_resource_snapshots
from scorer.rollout.status.binding import binding_status
from scorer.rollout.works.plan import WorkPlan, plan_works
from scorer.rollout.works.status import work_status
from scorer.rollout.writes import Verb, applied
from tests.builders.manifest_result import make_result
from tests.scorer.builders import modest
from tests.scorer.rollout.placed_shop import GROUP, make_binding

NOW = datetime(2026, 11, 20, 10, tzinfo=UTC)
PLACEMENT = {
    "apiVersion": "placement.kubernetes-fleet.io/v1",
    "kind": "ClusterResourcePlacement",
    "metadata": {"name": "shop", "uid": "u1"},
    "spec": {},
}
PAGE = "<td></td>" * 60_000


def make_object(name, text="", api_version="v1"):
    metadata = {"name": name, "namespace": "x"}
    return {"apiVersion": api_version, "kind": "ConfigMap", "metadata": metadata, "data": {"a": text}}


def sized(name, size):
    """Make an object of exactly *size* bytes in etcd."""
    return make_object(name, "y" * (size - stored_size(make_object(name))))


class Hub:
    """Snapshots of one placement as a store would keep them."""

    def __init__(self):
        self.stored = []
        self.bindings = []

    def plan(self, *objects):
        return plan_resource_snapshots(PLACEMENT, self.stored, objects, NOW, UNTHROTTLED, bindings=self.bindings)

    def lose(self):
        """Delete all snapshots; the bindings are on the latest one."""
        self.bindings = [make_binding(resourceSnapshotName=self.groups[-1].name)]
        self.stored = []

    def run(self, *objects, writes=None):
        plan = self.plan(*objects)
        self.stored = applied(self.stored, plan.writes[:writes])
        if writes is None:
            assert self.plan(*objects).writes == ()
        return plan

    @property
    def groups(self):
        return snapshot_groups(self.stored)


def texts(group):
    return {content["metadata"]["name"]: content["data"]["a"] for content in group.objects()}


def named(plan):
    return [(each.identity[3], each.kept) for each in plan.too_large]


@pytest.mark.parametrize(
    ("text", "size"),
    [
        pytest.param(b'"abc"', 5, id="plain"),
        pytest.param(b'"<>&"', 2 + 3 * 6, id="html"),
        pytest.param('"\u2028\u2029"'.encode(), 2 + 2 * 6, id="line-separators"),
        pytest.param('"\u20ac\u2027"'.encode(), 2 + 2 * 3, id="their-neighbours"),
        pytest.param(b'"\\u003c\\""', 10, id="escaped-already"),
    ],
)
def test_bytes_in_etcd(text, size):
    assert etcd_bytes(text) == size


def test_the_page_of_540_kilobytes_does_not_fit():
    assert stored_size(make_object("page", PAGE)) > REQUEST_LIMIT > 2 * len(PAGE)


def test_only_an_object_that_was_never_placed_is_left_out():
    hub = Hub()
    first = hub.run(make_object("page", PAGE), make_object("other", "1"))
    assert (named(first), texts(hub.groups[-1])) == ([("page", False)], {"other": "1"})
    assert [item["name"] for item in first.identifiers] == ["other"]
    hub.run(make_object("page", "small"), make_object("other", "2"))
    grown = hub.run(make_object("page", PAGE), make_object("other", "3"))
    assert (named(grown), texts(hub.groups[-1])) == ([("page", True)], {"page": "small", "other": "3"})
    assert hub.plan(make_object("page", PAGE + "<"), make_object("other", "3")).writes == ()
    hub.run(make_object("page", PAGE), make_object("other", "4"))
    assert texts(hub.groups[-1]) == {"page": "small", "other": "4"}
    shrunk = hub.run(make_object("page", "small again"), make_object("other", "4"))
    assert (named(shrunk), texts(hub.groups[-1])) == ([], {"page": "small again", "other": "4"})
    hub.run(make_object("page", PAGE), make_object("other", "4"))
    assert named(hub.run(make_object("other", "4"))) == []
    assert texts(hub.groups[-1]) == {"other": "4"}, "deleted on the hub"


def test_the_content_that_is_kept_may_be_of_another_version():
    hub = Hub()
    hub.run(make_object("page", "small", "v1beta1"))
    assert named(hub.run(make_object("page", PAGE))) == [("page", True)]
    assert hub.groups[-1].objects() == [make_object("page", "small", "v1beta1")]


@pytest.mark.parametrize(
    ("size", "fits"), [pytest.param(CONTENT_LIMIT, True, id="limit"), pytest.param(CONTENT_LIMIT + 1, False, id="more")]
)
def test_near_the_limit(size, fits):
    hub = Hub()
    hub.run(make_object("a", "small"))
    assert bool(named(hub.run(sized("a", size)))) is not fits
    assert all(stored_size(document) < REQUEST_LIMIT for document in hub.stored)


def test_content_that_was_stored_at_another_limit_is_not_reported():
    content = sized("a", CONTENT_LIMIT + 1)
    assert fit_objects([content], [stored_size(content)], by_identity([content])).too_large == ()


def test_objects_that_fit_alone_get_as_many_snapshots_as_they_need():
    hub = Hub()
    plan = hub.run(*(make_object(f"page-{number}", PAGE[:180_000]) for number in range(4)))
    assert (plan.too_large, len(hub.groups[-1].documents)) == ((), 4)
    assert all(stored_size(document) < 820 * 1024 for document in hub.stored)
    assert len(texts(hub.groups[-1])) == 4


def test_clusters_keep_the_complete_group_until_the_master_of_the_next_is_written():
    hub = Hub()
    hub.run(make_object("a", "1"))
    big = [sized(name, 700_000) for name in "abc"]
    writes = hub.plan(*big).writes
    assert [(write.verb, write.name) for write in writes] == [
        (Verb.CREATE, "shop-1-0"),
        (Verb.CREATE, "shop-1-1"),
        (Verb.REPLACE, "shop-0-snapshot"),
        (Verb.CREATE, "shop-1-snapshot"),
    ]
    hub.run(*big, writes=1)
    assert [write.name for write in hub.plan(*big).writes] == ["shop-1-1", "shop-0-snapshot", "shop-1-snapshot"]
    other = hub.plan(make_object("a", "2"))
    assert [(write.verb, write.name) for write in other.writes] == [
        (Verb.DELETE, "shop-1-0"),
        (Verb.REPLACE, "shop-0-snapshot"),
        (Verb.CREATE, "shop-2-snapshot"),
    ]
    assert [write.name for write in hub.plan(make_object("a", "1")).writes] == ["shop-1-0"], "the change was undone"


def test_a_group_that_another_release_cut_otherwise_is_made_anew():
    """Its missing parts would not fit to those that exist."""
    hub = Hub()
    objects = [make_object(f"page-{number}", PAGE[:90_000]) for number in range(4)]
    plan = hub.run(*objects)
    master = next(document for document in hub.stored if document["metadata"]["name"] == plan.name)
    master["metadata"]["annotations"]["kubernetes-fleet.io/number-of-resource-snapshots"] = "7"
    again = hub.run(*objects)
    assert (again.index, [group.is_complete for group in hub.groups]) == (1, [False, True])


def test_with_a_history_of_one_the_last_complete_group_goes_when_the_next_is_complete():
    placement = {**PLACEMENT, "spec": {"revisionHistoryLimit": 1}}
    hub = Hub()
    hub.run(make_object("a", "1"))
    plan = plan_resource_snapshots(placement, hub.stored, [make_object("a", "2")], NOW, UNTHROTTLED)
    assert [(write.verb, write.name) for write in plan.writes] == [
        (Verb.REPLACE, "shop-0-snapshot"),
        (Verb.CREATE, "shop-1-snapshot"),
        (Verb.DELETE, "shop-0-snapshot"),
    ]


def test_an_incomplete_latest_group_keeps_the_complete_one_in_the_history():
    """With a history of two there is no room for both, but what clusters have is in the complete one only."""
    placement = {**PLACEMENT, "spec": {"revisionHistoryLimit": 2}}
    hub = Hub()
    hub.run(make_object("page", "small"))
    torn = hub.run(make_object("page", "torn")).name
    master = next(document for document in hub.stored if document["metadata"]["name"] == torn)
    master["metadata"]["annotations"]["kubernetes-fleet.io/number-of-resource-snapshots"] = "2"
    plan = plan_resource_snapshots(placement, hub.stored, [make_object("page", PAGE)], NOW, UNTHROTTLED)
    assert [(write.verb, write.name) for write in plan.writes] == [
        (Verb.REPLACE, "shop-1-snapshot"),
        (Verb.CREATE, "shop-2-snapshot"),
        (Verb.DELETE, "shop-0-snapshot"),
    ]
    assert plan.writes[1].document["spec"]["selectedResources"] == [make_object("page", "small")]


SIZES = st.sampled_from([0, 1_000, 400_000, 700_000, 1_400_000, CONTENT_LIMIT])


@given(st.lists(st.tuples(SIZES, SIZES), max_size=6))
@modest(25)
def test_objects_that_fit_together_lose_nothing(pairs):
    """Whatever grows: all that was there remains there, and the whole fits."""
    before, room = {}, CONTENT_LIMIT
    for at, (size, _) in enumerate(pairs):
        if 200 <= size <= room:
            before |= by_identity([sized(f"o{at}", size)])
            room -= size
    wanted = [sized(f"o{at}", max(size, 200)) for at, (_, size) in enumerate(pairs)]
    found = fit_together(wanted, before)
    assert found is not None
    assert sum(map(stored_size, found.objects)) <= CONTENT_LIMIT
    carried = by_identity(found.objects)
    assert before.keys() <= carried.keys()
    named = {each.identity: each.kept for each in found.too_large}
    for identity, content in by_identity(wanted).items():
        if identity not in named:
            assert carried[identity] == content
        else:
            assert carried.get(identity) == before.get(identity)
            assert named[identity] == (identity in before)


def test_an_object_that_shrinks_makes_room():
    before = by_identity([sized("a", 900_000), sized("b", 500_000)])
    wanted = [sized("b", 1_200_000), sized("a", 200_000), sized("c", 1_000_000)]
    found = fit_together(wanted, before)
    assert found.objects == tuple(wanted[:2])
    assert [(each.identity[3], each.kept) for each in found.too_large] == [("c", False)]


def test_content_that_never_fitted_is_given_up():
    before = by_identity([sized("a", 900_000), sized("b", 900_000)])
    assert fit_together([sized("a", 900_001), sized("b", 900_001)], before) is None


OVERRIDES = {"clusterResourceOverrideSnapshots": ["more-0"]}


def without_manifests(work):
    spec = {name: value for name, value in work["spec"].items() if name != "workload"}
    return {**work, "spec": spec}


def envelope(text):
    metadata = {"name": "e", "namespace": "x"}
    data = {"one": make_object("wrapped", text)}
    return {"apiVersion": GROUP, "kind": "ResourceEnvelope", "metadata": metadata, "data": data}


class Cluster:
    """The Works of one binding, which the cache keeps without their manifests."""

    def __init__(self, overrides=OVERRIDES):
        self.overrides = overrides
        self.works = {}

    def plan(self, group, grow, whole=False):
        binding = make_binding(resourceSnapshotName=group.name, **self.overrides)
        works = self.works.values() if whole else map(without_manifests, self.works.values())
        return plan_works(binding, group, works, override=grow)

    def run(self, group, grow):
        plan = self.plan(group, grow)
        if plan.needs_manifests:
            assert plan.writes == ()
            plan = self.plan(group, grow, whole=True)
        for write in plan.writes:
            if write.verb is Verb.DELETE:
                del self.works[write.name]
                continue
            metadata = {**write.document["metadata"], "generation": write.document["metadata"].get("generation", 0) + 1}
            self.works[write.name] = {**write.document, "metadata": metadata}
        if plan.problem is None:
            assert self.plan(group, grow, whole=True).writes == ()
        return plan

    def manifests(self, name="shop-work"):
        manifests = self.works[name]["spec"]["workload"]["manifests"]
        return {manifest["metadata"]["name"]: manifest["data"]["a"][:1] for manifest in manifests}

    def said(self, group):
        binding = make_binding(resourceSnapshotName=group.name, **self.overrides)
        conditions = binding_status(binding, self.works.values(), WorkPlan(), NOW)["conditions"]
        return [each["message"] for each in conditions if each["type"] == "ObjectsTooLarge"]


def growing(*names):
    """An override that makes these objects as large as they may be."""

    def grow(content):
        name = content["metadata"]["name"]
        return {**content, "data": {"a": "G" * (CONTENT_LIMIT - 300)}} if name in names else content

    return grow


def group_of(hub, *objects):
    hub.run(*objects)
    return hub.groups[-1]


def test_an_object_that_an_override_makes_too_large_keeps_its_content_in_its_work():
    hub, cluster = Hub(), Cluster()
    cluster.run(group_of(hub, make_object("a", "1"), make_object("b", "1")), growing())
    group = group_of(hub, make_object("a", "2"), make_object("b", "2"), make_object("new", "2"))
    cluster.run(group, growing("b", "new"))
    assert cluster.manifests() == {"a": "2", "b": "G"}, "one of them fits"
    assert cluster.said(group) == ["ConfigMap x/new (1.6 MB, left out)"]
    group = group_of(hub, make_object("a", "3"), make_object("b", "3"), make_object("new", "3"))
    cluster.run(group, growing("a", "b"))
    assert cluster.manifests() == {"a": "2", "b": "G", "new": "3"}
    assert cluster.said(group) == ["ConfigMap x/a (1.6 MB, keeps its last content)"]
    group = group_of(hub, make_object("a", "4"))
    cluster.run(group, growing("a"))
    assert (cluster.manifests(), cluster.said(group)) == ({"a": "G"}, [])


def test_an_object_keeps_its_content_in_another_work_too():
    """Of several snapshots each has a Work; an object may move from one to the other."""
    hub, cluster = Hub(), Cluster()
    first = [sized("a", 700_000), make_object("b", "1"), sized("c", 700_000)]
    cluster.run(group_of(hub, *first), growing())
    assert cluster.manifests("shop-0").keys() == {"c"}
    group = group_of(hub, sized("a", 790_000), sized("b", 100_000), sized("c", 700_000))
    cluster.run(group, growing("b"))
    assert (cluster.manifests("shop-work").keys(), cluster.manifests("shop-0")) == ({"a"}, {"b": "1", "c": "y"})
    assert cluster.said(group) == ["ConfigMap x/b (1.6 MB, keeps its last content)"]


@pytest.mark.parametrize("overrides", [OVERRIDES, {}], ids=["overrides", "none"])
def test_an_object_survives_the_loss_of_all_snapshots_where_it_is(overrides):
    hub, cluster = Hub(), Cluster(overrides)
    cluster.run(group_of(hub, sized("filler", 700_000), sized("page", 700_000)), growing())
    held = cluster.works["shop-0"]["spec"]["workload"]["manifests"]
    hub.lose()
    lost = hub.run(make_object("filler", "2"), make_object("page", PAGE))
    assert (named(lost), texts(hub.groups[-1])) == ([("page", False)], {"filler": "2"})
    cluster.run(hub.groups[-1], growing())
    assert (cluster.manifests(), cluster.works["shop-0"]["spec"]["workload"]["manifests"]) == ({"filler": "2"}, held)
    cluster.run(group_of(hub, make_object("filler", "3"), make_object("page", PAGE)), growing())
    assert (cluster.manifests(), cluster.manifests("shop-0")) == ({"filler": "3"}, {"page": "y"})
    cluster.run(group_of(hub, make_object("filler", "3")), growing())
    assert cluster.works.keys() == {"shop-work"}, "deleted on the hub"


def test_what_is_left_out_stays_in_the_work_that_it_shares():
    hub, cluster = Hub(), Cluster()
    cluster.run(group_of(hub, make_object("filler", "1"), make_object("page", "1")), growing())
    hub.lose()
    cluster.run(group_of(hub, make_object("filler", "2"), make_object("page", PAGE)), growing())
    assert cluster.manifests() == {"filler": "2", "page": "1"}
    cluster.run(group_of(hub, make_object("filler", "2"), make_object("page", "3")), growing())
    assert cluster.manifests() == {"filler": "2", "page": "3"}


def test_an_envelope_that_is_left_out_stays_in_its_work():
    hub, cluster = Hub(), Cluster()
    cluster.run(group_of(hub, envelope("1")), growing())
    (name,) = cluster.works.keys() - {"shop-work"}
    hub.lose()
    cluster.run(group_of(hub, envelope(PAGE)), growing())
    assert cluster.manifests(name) == {"wrapped": "1"}
    cluster.run(group_of(hub), growing())
    assert cluster.works.keys() == {"shop-work"}


def test_a_record_that_was_edited_removes_nothing():
    hub, cluster = Hub(), Cluster()
    cluster.run(group_of(hub, make_object("page", "1")), growing())
    hub.lose()
    group = group_of(hub, make_object("page", PAGE))
    group.master["metadata"]["annotations"][LEFT_OUT] = "nothing"
    with pytest.raises(ValueError, match="invalid literal"):
        cluster.plan(group, growing())
    assert hub.run(make_object("page", PAGE)).index == group.index
    assert hub.groups[-1].left_out() == {("", "ConfigMap", "x", "page")}, "it is as it was again"


def test_a_work_names_what_is_left_out():
    """A Work that is lost with all snapshots is made anew without that object, which the agent then keeps."""
    hub, cluster = Hub(), Cluster()
    cluster.run(group_of(hub, make_object("page", PAGE), make_object("other", "1")), growing())
    assert parse_left_out(annotation(cluster.works["shop-work"], LEFT_OUT)) == {("", "ConfigMap", "x", "page")}
    cluster.run(group_of(hub, make_object("other", "1")), growing())
    assert annotation(cluster.works["shop-work"], LEFT_OUT) == ""


@pytest.mark.parametrize("emptied", [True, False], ids=["emptied", "deleted"])
def test_a_work_names_what_an_override_makes_too_large_when_its_content_is_lost(emptied):
    hub, cluster = Hub(), Cluster()
    objects = make_object("page", "1"), sized("other", 300_000)
    cluster.run(group_of(hub, *objects), lambda content: content)
    cluster.overrides = {"clusterResourceOverrideSnapshots": ["more-1"]}
    cluster.run(hub.groups[-1], growing("page"))
    assert cluster.manifests() == {"page": "1", "other": "y"}
    assert annotation(cluster.works["shop-work"], LEFT_OUT) == ""
    if emptied:
        cluster.works["shop-work"]["spec"]["workload"]["manifests"] = []
        cluster.works["shop-work"]["metadata"]["generation"] += 1
    else:
        cluster.works.clear()
    cluster.run(hub.groups[-1], growing("page"))
    assert cluster.manifests() == {"other": "y"}
    assert parse_left_out(annotation(cluster.works["shop-work"], LEFT_OUT)) == {("", "ConfigMap", "x", "page")}


def test_overrides_leave_room_in_a_work_for_the_status_of_many_objects():
    hub, cluster = Hub(), Cluster()
    objects = [make_object(f"object-{number}", "x" * 400) for number in range(800)]
    cluster.run(group_of(hub, *objects), lambda content: {**content, "data": {"a": "G" * 1_600}})
    (work,) = cluster.works.values()
    names = [manifest["metadata"]["name"] for manifest in work["spec"]["workload"]["manifests"]]
    status = work_status(work, [make_result(name) for name in names], NOW)
    assert stored_size({**work, "status": status}) < REQUEST_LIMIT
    assert len(names) > 500
    assert "left out" in cluster.said(hub.groups[-1])[0]


def test_what_is_said():
    one = TooLarge(("", "Namespace", "", "shop"), 1_740_001, kept=False)
    kept = replace(one, identity=("", "ConfigMap", "shop", "page"), kept=True)
    said = "Namespace shop (1.8 MB, left out), ConfigMap shop/page (1.8 MB, keeps its last content)"
    assert (describe([]), describe([one, kept])) == ("", said)
    assert describe([one] * 12).endswith("Namespace shop (1.8 MB, left out) and 2 more")
