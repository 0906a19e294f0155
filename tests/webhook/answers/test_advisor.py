"""The engine behind ``/v1``: what is ranked is what is explained, and pages are cut from one and the same list."""

import asyncio
import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scorer.api.cluster.member_cluster import MemberCluster
from scorer.api.family import PlacementRef
from scorer.api.kinds import BINDING, MEMBER_CLUSTER, PLACEMENT
from scorer.api.meta import format_time
from scorer.api.names import PARENT_PLACEMENT
from scorer.api.placement.placement import PlacementPolicy
from scorer.api.values.label_selector import LabelSelector
from tests.scorer.builders import (
    NODES,
    NOW,
    cluster_document,
    members,
    modest,
    pick_fixed,
    pick_n,
    pick_n_policies,
    policy,
    prefer,
)
from webhook.answers.advisor import HubAdvisor
from webhook.answers.decisions import EPOCH, STEP
from webhook.answers.questions import PlacementQuestion
from webhook.answers.ranking import affinity_range
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.cache.informer import Cache

FILTERED = ("Picked", "ScoreTooLow")


@pytest.fixture(scope="module")
def advisor():
    """An advisor of a hub without members; the questions bring their own."""
    store = EmbeddedStore.open(None)
    yield HubAdvisor(Cache(store), lambda: NOW)
    store.close()


POLICIES = st.one_of(
    pick_n_policies(6),
    pick_n_policies(1, constraints=0).map(
        lambda made: {"placementType": "PickAll"} | {"tolerations": made.get("tolerations", [])}
    ),
    st.lists(st.sampled_from(["port-1", "port-2", "port-3", "nowhere"]), unique=True).map(
        lambda names: pick_fixed(*names)
    ),
)
NAMES = st.none() | st.lists(st.sampled_from([f"port-{number}" for number in range(1, 15)]), unique=True)


@given(clusters=members(10), wanted=POLICIES, data=st.data())
@modest(150)
def test_what_is_ranked_is_what_is_explained(advisor, clusters, wanted, data):
    question = PlacementQuestion(PlacementPolicy.read(wanted), clusters=tuple(clusters))
    verdict = advisor.evaluate(question)
    items = advisor.explain(question)["items"]
    eligible = [item for item in items if item["verdict"] in FILTERED]
    assert [(one.cluster, one.rank, one.selected) for one in verdict.eligible] == [
        (item["cluster"], item["rank"], item["verdict"] == "Picked") for item in eligible
    ]
    assert [(one.topology_spread, one.affinity) for one in verdict.eligible] == [
        (item.get("topology", {"score": 0})["score"], item.get("affinity", {"score": 0})["score"]) for item in eligible
    ]
    others = {item["cluster"]: item for item in items if item["verdict"] not in (*FILTERED, "NotListed", "NotNeeded")}
    if wanted.get("numberOfClusters") == 0:  # a run that wants no cluster filters none; the explanation does
        others = {}
    assert [one.cluster for one in verdict.rejected] == sorted(others)
    assert all(f"{one.code}: {one.message}" == others[one.cluster]["reason"] for one in verdict.rejected)
    scores = [one.affinity for one in verdict.eligible]
    assert affinity_range(verdict.eligible) == (min(scores, default=0), max(scores, default=0))
    assert affinity_range(list(verdict.eligible)) == affinity_range(verdict.eligible)


@given(clusters=members(10), wanted=POLICIES, start=st.integers(0, 12), size=st.integers(0, 12), names=NAMES)
@modest(100)
def test_a_part_of_the_answer_is_a_part_of_the_whole(advisor, clusters, wanted, start, size, names):
    known = {cluster.metadata.name for cluster in clusters}
    asked = None if names is None else tuple(name for name in names if name in known)
    placement = PlacementPolicy.read(wanted)
    whole = advisor.evaluate(PlacementQuestion(placement, clusters=tuple(clusters)))
    part = advisor.evaluate(PlacementQuestion(placement, names=asked, clusters=tuple(clusters)))
    for ours, all_of_them in ((part.eligible, whole.eligible), (part.rejected, whole.rejected)):
        found = list(ours)
        assert found == [one for one in all_of_them if asked is None or one.cluster in asked]
        assert len(ours) == len(found)
        assert list(ours[start : start + size]) == found[start : start + size]
        assert list(ours[::-1]) == found[::-1]
        assert [ours[at] for at in range(-len(found), len(found))] == found * 2
        with pytest.raises(IndexError):
            ours[len(found)]


def test_a_label_selector_narrows_the_answer_and_keeps_the_ranks(advisor):
    clusters = [
        cluster_document(name, labels={"env": env}, properties={NODES: nodes})
        for name, env, nodes in [("a", "prod", "1"), ("b", "dev", "3"), ("c", "prod", "2")]
    ]
    selector = LabelSelector.read({"matchLabels": {"env": "prod"}})
    wanted = PlacementPolicy.read(pick_n(1, preferred=[prefer(100, NODES)]))
    question = PlacementQuestion(wanted, selector=selector, clusters=tuple(map(MemberCluster.read, clusters)))
    verdict = advisor.evaluate(question)
    assert [(one.cluster, one.rank, one.selected) for one in verdict.eligible] == [("c", 2, False), ("a", 3, False)]


async def test_a_placement_of_the_hub_is_explained_with_its_name():
    store = EmbeddedStore.open(None)
    cache = Cache(store)
    cache.of_kind(MEMBER_CLUSTER).put(cluster_document("a") | {"metadata": {"name": "a", "resourceVersion": "1"}})
    placement = {"kind": "x", "metadata": {"name": "payments", "resourceVersion": "1"}, "spec": {"policy": policy()}}
    cache.of_kind(PLACEMENT).put(placement)
    answer = HubAdvisor(cache, lambda: NOW).explain(
        PlacementQuestion(PlacementRef("ClusterResourcePlacement", "payments"))
    )
    assert (answer["placement"], answer["snapshot"], answer["trigger"]) == ("crp/payments", None, None)
    assert [item["verdict"] for item in answer["items"]] == ["Picked"]
    store.close()


async def test_what_is_ranked_is_explained_in_the_same_terms_though_some_clusters_are_held():
    """A ranking is that of a first run; the decision as it stands keeps what it has, and ranks differently."""
    store = EmbeddedStore.open(None)
    cache = Cache(store)
    for name, nodes in [("a", "1"), ("b", "2"), ("c", "3")]:
        document = cluster_document(name, properties={NODES: nodes})
        cache.of_kind(MEMBER_CLUSTER).put(document | {"metadata": {"name": name, "resourceVersion": "1"}})
    wanted = pick_n(1, preferred=[prefer(100, NODES)])
    placement = {"kind": "x", "metadata": {"name": "payments", "resourceVersion": "1"}, "spec": {"policy": wanted}}
    cache.of_kind(PLACEMENT).put(placement)
    metadata = {"name": "payments-a", "resourceVersion": "1", "labels": {PARENT_PLACEMENT: "payments"}}
    spec = {"state": "Bound", "targetCluster": "a", "schedulingPolicySnapshotName": ""}
    cache.of_kind(BINDING).put({"kind": "x", "metadata": metadata, "spec": spec})
    advisor = HubAdvisor(cache, lambda: NOW)
    question = PlacementQuestion(PlacementRef("ClusterResourcePlacement", "payments"))
    ranked = [(one.cluster, one.rank, one.selected) for one in advisor.evaluate(question).eligible]
    assert ranked == [("c", 1, False), ("b", 2, False), ("a", 3, True)]
    anew = advisor.explain(replace(question, anew=True))["items"]
    assert next((item["cluster"], item["rank"], item["verdict"]) for item in anew) == ("c", 1, "Picked")
    stands = advisor.explain(question)["items"]
    assert next((item["cluster"], item["verdict"]) for item in stands) == ("a", "Kept")
    store.close()


async def test_the_revision_names_the_instant_that_was_judged():
    """Also when the clock goes on in between: the same question and revision, the same answer."""
    store = EmbeddedStore.open(None)
    cache = Cache(store)
    cache.of_kind(MEMBER_CLUSTER).put(cluster_document("a") | {"metadata": {"name": "a", "resourceVersion": "1"}})
    ticks = itertools.count()
    advisor = HubAdvisor(cache, lambda: NOW + next(ticks) * STEP)
    question = PlacementQuestion(PlacementPolicy.read(policy()))
    for _ in range(3):
        verdict = advisor.evaluate(question)
        step = int(verdict.fleet_revision.partition("/")[2])
        assert verdict.evaluated_at == EPOCH + step * STEP
        explained = advisor.explain(question)
        step = int(explained["fleetRevision"].partition("/")[2])
        assert explained["evaluatedAt"] == format_time(EPOCH + step * STEP)
    store.close()


async def test_replicas_that_know_the_same_give_the_same_answer_under_the_same_revision():
    """Whenever each has started, and in whatever order it has heard of the members."""
    store = EmbeddedStore.open(None)

    def stored(name, version):
        metadata = {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}
        return cluster_document(name) | {"metadata": metadata}

    def replica(started, *documents, gone=()):
        cache = Cache(store)
        shelf = cache.of_kind(MEMBER_CLUSTER)
        for document in documents:
            shelf.put(document)
            _ = cache.fleet.revision
        for document in gone:
            shelf.drop(document)
        clock = [started]
        advisor = HubAdvisor(cache, lambda: clock[0])
        clock[0] = NOW
        return advisor

    left = stored("left", 3)
    early = replica(NOW - 3 * STEP, stored("a", 1), stored("b", 2), left, stored("a", 9), gone=[left])
    late = replica(NOW, stored("b", 2), stored("a", 9))
    behind = replica(NOW, stored("b", 2), stored("a", 1))
    question = PlacementQuestion(PlacementPolicy.read(policy()))
    answers = [advisor.evaluate(question) for advisor in (early, late, behind)]
    assert answers[0].fleet_revision == answers[1].fleet_revision != answers[2].fleet_revision
    assert answers[0].evaluated_at == answers[1].evaluated_at
    assert early.explain(question) == late.explain(question)
    store.close()


async def test_an_explanation_can_be_made_in_a_thread_while_the_fleet_goes_on():
    store = EmbeddedStore.open(None)
    cache = Cache(store)
    for number in range(50):
        document = cluster_document(f"c{number}", properties={NODES: str(number)})
        cache.of_kind(MEMBER_CLUSTER).put(document | {"metadata": {"name": f"c{number}", "resourceVersion": "1"}})
    advisor = HubAdvisor(cache, lambda: NOW)
    question = PlacementQuestion(PlacementPolicy.read(pick_n(1, preferred=[prefer(100, NODES)])))
    expected = advisor.explain(question)
    make = advisor.explaining(question)
    document = cluster_document("c0", properties={NODES: "1000"})
    cache.of_kind(MEMBER_CLUSTER).put(document | {"metadata": {"name": "c0", "resourceVersion": "2"}})
    columns = cache.fleet.column_count
    assert await asyncio.to_thread(make) == expected
    assert cache.fleet.column_count == columns, "what is built on the way stays with the copy"
    assert advisor.explain(question) != expected
    store.close()
