"""Works of a binding: names, content, reuse, envelopes, and what is reported back on the binding."""

from datetime import timedelta
from hashlib import sha256

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scorer.api.names import ABANDON, LEFT_OUT, OVERRIDES, REMOVE, RETAINED
from scorer.api.placement.binding import BindingStatus
from scorer.api.placement.work import Work
from scorer.api.unstructured.documents import with_metadata, with_spec
from scorer.rollout.bindings import NO_OVERRIDES, BindingView, Overrides, is_failed, readiness
from scorer.rollout.envelopes import EnvelopeError, EnvelopeKey, unwrap
from scorer.rollout.removal.marks import objects_digest
from scorer.rollout.snapshots.groups import SnapshotGroup, snapshot_groups
from scorer.rollout.status.binding import binding_status
from scorer.rollout.works.plan import (
    OverrideError,
    WorkCause,
    WorkPlan,
    needs_works,
    plan_works,
)
from scorer.rollout.works.records import overrides_of
from scorer.rollout.writes import Verb
from tests.scorer.builders import modest
from tests.scorer.rollout.placed_shop import FLEET, GROUP, NOW, make_binding, make_group, make_object

LATER = NOW + timedelta(minutes=1)


class MemberNamespace:
    """The Works of one binding as a store would keep them."""

    def __init__(self):
        self.works = {}

    def plan(self, binding, group, **more):
        return plan_works(binding, group, self.works.values(), **more)

    def run(self, binding, group, **more):
        plan = self.plan(binding, group, **more)
        for write in plan.writes:
            if write.verb is Verb.DELETE:
                del self.works[write.name]
                continue
            metadata = write.document["metadata"]
            same = write.document["spec"] == self.works.get(write.name, {}).get("spec")
            generation = metadata.get("generation", 0) + (not same)
            self.works[write.name] = {**write.document, "metadata": {**metadata, "generation": generation}}
        if plan.problem is None:
            assert not self.plan(binding, group, **more).writes
        return plan

    def report(self, name, conditions, manifests=()):
        work = self.works[name]
        generation = work["metadata"]["generation"]
        made = [
            {"type": kind, "status": status, "reason": reason, "observedGeneration": generation}
            for kind, status, reason in conditions
        ]
        self.works[name] = {**work, "status": {"conditions": made, "manifestConditions": list(manifests)}}


def test_one_work_per_snapshot():
    hub, group = MemberNamespace(), make_group([make_object("a", size=500_000), make_object("b", size=500_000)])
    hub.run(make_binding(applyStrategy={"type": "ServerSideApply"}), group)
    assert sorted(hub.works) == ["shop-0", "shop-work"]
    work = hub.works["shop-work"]
    assert work["metadata"]["namespace"] == "fleet-member-a"
    assert work["metadata"]["labels"] == {
        FLEET + "parent-resource-binding": "shop-a-1",
        FLEET + "parent-CRP": "shop",
        FLEET + "parent-resource-snapshot-index": "0",
    }
    nothing = sha256(b"[]").hexdigest()
    assert work["metadata"]["annotations"] == {
        FLEET + "parent-resource-snapshot-name": "shop-0-snapshot",
        FLEET + "parent-resource-override-snapshot-hash": nothing,
        FLEET + "parent-cluster-resource-override-snapshot-hash": nothing,
        "harbormaster.dev/work-generation": "1",
        "harbormaster.dev/work-objects": objects_digest(work["spec"]["workload"]["manifests"]),
    }
    assert work["spec"]["applyStrategy"]["serverSideApplyConfig"] == {"force": False}
    Work.read(work)


def test_a_resource_placement_prefixes_its_namespace():
    hub = MemberNamespace()
    hub.run(make_binding(namespace="x"), make_group([make_object("a")], namespace="x"))
    assert list(hub.works) == ["x.shop-work"]
    assert hub.works["x.shop-work"]["metadata"]["labels"][FLEET + "parent-placement-namespace"] == "x"


NAME = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,3}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,3}[a-z0-9])?){0,2}", fullmatch=True)
LOOKALIKE = st.sampled_from(
    ["work", "0", "1", "crp", "rp", "work-crp", "work-rp", "envelope", "work-envelope", "a.work"]
)
HOMES = st.sampled_from(["", "", "a", "kiosk", "work", "0"])


@given(st.lists(st.tuples(HOMES, st.one_of(NAME, LOOKALIKE, st.builds("{}-{}".format, LOOKALIKE, LOOKALIKE)))))
@example([("kiosk", "e"), ("", "kiosk.e")])
@example([("", "kiosk.e"), ("kiosk", "e"), ("", "kiosk.e-work"), ("kiosk", "e-work"), ("", "kiosk.e-work-rp")])
@example([("a", "b.c"), ("", "a.b.c"), ("", "a.b.c-0"), ("a", "b.c-0")])
@modest(100)
def test_no_two_placements_have_works_of_one_name(placements):
    """Whatever their names are, and in any order; later plans keep the names that were chosen."""
    stored = {}
    master = make_group([make_object("a"), envelope(one=make_object("b"))]).master
    group = SnapshotGroup(
        0, with_metadata(master, annotations={FLEET + "number-of-resource-snapshots": "2"}), (master,)
    )
    for namespace, name in dict.fromkeys(placements):
        binding = make_binding(namespace=namespace)
        binding["metadata"]["labels"] = {FLEET + "parent-CRP": name}
        plan = plan_works(binding, group, [], is_taken=stored.__contains__)
        made = {write.name: write.document for write in plan.writes}
        assert len(made) == 4
        assert not made.keys() & stored.keys()
        assert all(len(work) <= 253 for work in made)
        stored |= made
        assert plan_works(binding, group, made.values(), is_taken=(stored.keys() - made).__contains__).writes == ()
        assert plan_works(binding, group, made.values()).writes == ()


def test_two_envelopes_never_share_a_work(monkeypatch):
    """Not even when the digests in their names are equal, and whichever of them was there first."""
    monkeypatch.setattr(EnvelopeKey, "work_name", lambda key, base: f"{base}-envelope-0123456789abcdef")
    both = [make_object("a"), *(envelope(name=name, one=make_object("c")) for name in "ef")]
    for first in "ef":
        hub = MemberNamespace()
        hub.run(make_binding(), make_group([envelope(name=first, one=make_object("b"))]))
        before = next(name for name in hub.works if "envelope" in name)
        hub.run(make_binding(resourceSnapshotName="shop-1-snapshot"), next_group(both))
        holders = {work["metadata"]["labels"].get(FLEET + "envelope-name"): name for name, work in hub.works.items()}
        assert holders.keys() == {None, "e", "f"}
        assert holders[first] == before


def test_an_empty_snapshot_still_has_its_work():
    hub = MemberNamespace()
    hub.run(make_binding(), make_group([make_object("a")]), override=lambda content: None)
    assert hub.works["shop-work"]["spec"]["workload"] == {"manifests": []}


def test_only_index_and_overrides_replace_manifests():
    hub, group = MemberNamespace(), make_group([make_object("a")])
    hub.run(make_binding(), group)
    strategy = hub.plan(make_binding(applyStrategy={"type": "ReportDiff"}), group)
    assert strategy.writes[0].document["spec"]["workload"] == hub.works["shop-work"]["spec"]["workload"]
    overridden = make_binding(clusterResourceOverrideSnapshots=["cro-0"])
    hub.run(overridden, group, override=lambda content: {**content, "data": {"cluster": "a"}})
    assert hub.works["shop-work"]["spec"]["workload"]["manifests"][0]["data"] == {"cluster": "a"}
    mirror = {"type": "Mirror", "destination": "OriginalResource"}
    hub.run(overridden, group, report_back=mirror)
    assert hub.works["shop-work"]["spec"]["reportBackStrategy"] == mirror


def next_group(objects):
    """Return a group of the next index, of one snapshot."""
    master = make_group(objects).master
    metadata = {**master["metadata"], "name": "shop-1-snapshot"}
    metadata["labels"] = {**metadata["labels"], FLEET + "resource-index": "1"}
    return snapshot_groups([{**master, "metadata": metadata}])[0]


def test_works_no_longer_wanted_are_deleted():
    hub = MemberNamespace()
    hub.run(make_binding(), make_group([make_object("a", size=500_000), make_object("b", size=500_000)]))
    hub.run(make_binding(resourceSnapshotName="shop-1-snapshot"), next_group([make_object("a")]))
    assert list(hub.works) == ["shop-work"]


def test_a_work_that_is_not_wanted_and_goes_without_a_word_is_still_to_be_deleted():
    hub = MemberNamespace()
    hub.run(make_binding(), make_group([make_object("a", size=500_000), make_object("b", size=500_000)]))
    hub.works["shop-0"]["metadata"] |= {"uid": "u7", "deletionTimestamp": "2026-11-20T12:00:00Z"}
    smaller = make_group([make_object("a", size=500_000)])
    assert [(write.verb, write.name) for write in hub.plan(make_binding(), smaller).writes] == [(Verb.DELETE, "shop-0")]
    hub.works["shop-0"]["metadata"]["annotations"]["harbormaster.dev/remove"] = "u7"
    assert hub.plan(make_binding(), smaller).writes == ()


def test_works_say_with_which_overrides_they_were_made():
    hub, group = MemberNamespace(), make_group([make_object("a")])
    lists = {
        "clusterResourceOverrideSnapshots": ["cro-0"],
        "resourceOverrideSnapshots": [{"name": "r", "namespace": "x"}],
    }
    hub.run(make_binding(**lists), group, override=lambda content: {**content, "d": "overridden"})
    work = hub.works["shop-work"]
    assert overrides_of(work) == Overrides(("cro-0",), (("x", "r"),))
    silent = with_metadata(work, annotations={OVERRIDES: None})  # made before Works said so
    hub.works["shop-work"] = silent
    assert overrides_of(silent) is None
    assert [write.document for write in hub.plan(make_binding(**lists), group).writes] == [work]
    hub.run(make_binding(), group)
    assert OVERRIDES not in hub.works["shop-work"]["metadata"]["annotations"]
    assert overrides_of(hub.works["shop-work"]) == NO_OVERRIDES


def test_a_work_that_is_going_is_waited_for():
    hub, group = MemberNamespace(), make_group([make_object("a")])
    hub.run(make_binding(), group)
    hub.works["shop-work"]["metadata"]["deletionTimestamp"] = "2026-11-20T12:00:00Z"
    plan = hub.plan(make_binding(clusterResourceOverrideSnapshots=["cro-0"]), group)
    assert (plan.writes, plan.waiting, plan.changed) == ((), True, True)


def test_a_dropped_snapshot_does_not_matter_to_works_made_from_it():
    hub, group = MemberNamespace(), make_group([make_object("a")])
    assert hub.plan(make_binding(), None).problem.cause is WorkCause.OVERRIDDEN
    hub.run(make_binding(), group)
    assert hub.plan(make_binding(), None) == WorkPlan()
    refreshed = hub.plan(make_binding(applyStrategy={"type": "ReportDiff"}), None)
    assert refreshed.writes[0].document["spec"]["applyStrategy"]["type"] == "ReportDiff"
    other = hub.plan(make_binding(clusterResourceOverrideSnapshots=["cro-0"]), None)
    assert "shop-0-snapshot" in other.problem.message


def test_missing_shards_are_waited_for():
    group = make_group([make_object("a", size=500_000), make_object("b", size=500_000)])
    plan = plan_works(make_binding(), snapshot_groups([group.master])[0], [])
    assert (plan.problem.cause, plan.problem.retry) == (WorkCause.NOT_YET, True)
    status = {"conditions": [{"type": "RolloutStarted", "status": "True"}]}
    assert binding_status({**make_binding(), "status": status}, [], plan, NOW) == status


def envelope(kind="ResourceEnvelope", name="e", namespace="x", **data):
    return {**make_object(name, kind, api_version=GROUP, namespace=namespace), "data": data}


def test_an_envelope_has_a_work_of_its_own():
    wrapped = envelope(one=make_object("a"), two=make_object("b"))
    hub, group = MemberNamespace(), make_group([make_object("plain"), wrapped])
    hub.run(make_binding(), group, override=lambda content: {**content, "seen": True})
    name = "shop-work-envelope-" + sha256(b"ResourceEnvelope/x/e").hexdigest()[:16]
    assert sorted(hub.works) == ["shop-work", name]
    work = hub.works[name]
    assert [manifest["metadata"]["name"] for manifest in work["spec"]["workload"]["manifests"]] == ["b", "a"]
    assert all(manifest["seen"] for manifest in work["spec"]["workload"]["manifests"])
    assert (
        work["metadata"]["labels"]
        | {
            FLEET + "envelope-work": "ResourceEnvelope",
            FLEET + "envelope-name": "e",
            FLEET + "envelope-namespace": "x",
        }
        == work["metadata"]["labels"]
    )
    twin = {**work, "metadata": {**work["metadata"], "name": "other"}}
    plan = plan_works(make_binding(), group, [*hub.works.values(), twin])
    assert plan.problem.cause is WorkCause.DUPLICATE_ENVELOPE_WORKS


@pytest.mark.parametrize(
    ("wrapped", "words"),
    [
        pytest.param(envelope(), "0 objects", id="empty"),
        pytest.param(envelope(one=make_object("a", namespace="y")), "namespace y", id="another-namespace"),
        pytest.param(envelope(one=make_object("a", namespace="")), "(none)", id="no-namespace"),
        pytest.param(
            envelope(one=make_object("a", "Namespace", namespace="")), "cluster-scoped Namespace", id="cluster-scoped"
        ),
        pytest.param(
            envelope("ClusterResourceEnvelope", one=make_object("a")), "namespaced ConfigMap", id="namespaced"
        ),
        pytest.param(envelope(one={"kind": "ConfigMap"}), "lacks apiVersion", id="no-object"),
        pytest.param(envelope(one=["a"]), "is not an object", id="a-list"),
        pytest.param(
            envelope(one=make_object("a") | {"metadata": "a"}), "or metadata.name", id="metadata-that-is-no-object"
        ),
        pytest.param(envelope(one=make_object("a") | {"metadata": {"name": 5}}), "or metadata.name", id="a-number"),
        pytest.param(envelope(one=envelope()), "cannot be wrapped", id="nested"),
        pytest.param(envelope(one=make_object("a", "Pod")), "is Pod a, which is of a kind that is never", id="pod"),
        pytest.param(
            envelope("ClusterResourceEnvelope", one=make_object("kube-system", "Namespace", namespace="")),
            "is Namespace kube-system, which is a reserved namespace",
            id="reserved-namespace",
        ),
        pytest.param(
            envelope(
                "ClusterResourceEnvelope",
                one=make_object(
                    "appliedworks.placement.kubernetes-fleet.io",
                    "CustomResourceDefinition",
                    api_version="apiextensions.k8s.io/v1",
                    namespace="",
                ),
            ),
            "which defines a kind of the fleet",
            id="definition-of-the-fleet",
        ),
        pytest.param(envelope(name="n" * 64, one=make_object("a")), "64 characters", id="name-too-long"),
    ],
)
def test_content_that_cannot_be_placed(wrapped, words):
    found = unwrap(wrapped)
    assert isinstance(found, EnvelopeError)
    assert words in found.message
    plan = plan_works(make_binding(), make_group([wrapped]), [])
    status = binding_status(make_binding(), [], plan, NOW)
    assert (plan.writes, status["conditions"][-1]["reason"]) == ((), "SyncWorkFailed")


def test_what_is_the_fleets_own_is_in_no_work_although_a_snapshot_holds_it():
    """The snapshot may be older than the rule."""
    namespace = make_object("harbormaster-system", "Namespace", namespace="")
    plan = plan_works(make_binding(), make_group([make_object("a"), namespace]), [])
    assert plan.writes == ()
    assert (
        plan.problem.message == "Namespace harbormaster-system is a namespace of the fleet itself and cannot be placed"
    )


def test_a_failing_override_is_a_condition():
    hub = MemberNamespace()
    plan = hub.run(
        make_binding(), make_group([make_object("a")]), override=lambda content: OverrideError("no label zone")
    )
    status = binding_status(make_binding(), [], plan, NOW)
    assert [(c["type"], c["reason"], c["message"]) for c in status["conditions"]] == [
        ("Overridden", "OverriddenFailed", "no label zone")
    ]


@pytest.mark.parametrize(
    ("state", "rollout", "needed"),
    [
        pytest.param("Bound", "True", True, id="started"),
        pytest.param("Bound", "False", True, id="blocked"),
        pytest.param("Bound", None, False, id="not-decided"),
        pytest.param("Unscheduled", None, True, id="unscheduled"),
        pytest.param("Scheduled", "True", False, id="scheduled"),
    ],
)
def test_when_there_is_work(state, rollout, needed):
    conditions = [{"type": "RolloutStarted", "status": rollout, "observedGeneration": 2}] if rollout else []
    works = [{"metadata": {"name": "shop-work"}}]
    assert needs_works(make_binding(state=state, conditions=conditions), works) is needed
    assert needs_works(make_binding(state=state, conditions=conditions), ()) is (needed and state != "Unscheduled")
    stale = [{**condition, "observedGeneration": 1} for condition in conditions]
    assert needs_works(make_binding(state=state, conditions=stale), works) is (state == "Unscheduled")


def test_an_unscheduled_binding_keeps_its_works_as_they_should_be_and_makes_none():
    hub, group = MemberNamespace(), make_group([make_object("a", size=500_000), make_object("b", size=500_000)])
    hub.run(make_binding(), group)
    del hub.works["shop-work"]
    leaving = make_binding(state="Unscheduled", applyStrategy={"type": "ServerSideApply"})
    assert [(write.verb, write.name) for write in hub.run(leaving, group).writes] == [(Verb.REPLACE, "shop-0")]
    assert [(write.verb, write.name) for write in hub.run(make_binding(), group).writes] == [
        (Verb.CREATE, "shop-work"),
        (Verb.REPLACE, "shop-0"),
    ]


@pytest.mark.parametrize("more", [{}, {"applyStrategy": {"type": "ReportDiff"}}, None], ids=["same", "other", "edited"])
def test_a_work_that_is_wanted_again_is_neither_to_go_nor_abandoned(more):
    """Its removal was called off before it began: a later deletion by another client is no order."""
    hub, group = MemberNamespace(), make_group([make_object("a")])
    hub.run(make_binding(), group)
    said = {REMOVE: "uid", ABANDON: "true", "mine": "1"}
    hub.works["shop-work"] = work = with_metadata(hub.works["shop-work"], annotations=said)
    if more is None:
        work["metadata"]["generation"] += 1
        hub.works["shop-work"] = with_spec(work, workload={"manifests": []})
    plan = hub.run(make_binding(**(more or {})), group)
    assert [(write.verb, write.name) for write in plan.writes] == [(Verb.REPLACE, "shop-work")]
    left = hub.works["shop-work"]["metadata"]["annotations"]
    assert (REMOVE in left, ABANDON in left, left["mine"]) == (False, False, "1")


STARTED = {"type": "RolloutStarted", "status": "True", "reason": "RolloutStarted", "observedGeneration": 2}


def manifest(name, applied="True", available=None, drift=False, diff=False):
    conditions = [{"type": "Applied", "status": applied, "reason": "r"}]
    conditions += [{"type": "Available", "status": available, "reason": "s"}] if available else []
    entry = {
        "identifier": {"ordinal": 0, "version": "v1", "kind": "ConfigMap", "resource": "configmaps", "name": name},
        "conditions": conditions,
    }
    times = {"observationTime": "2026-11-20T12:00:00Z", "observedInMemberClusterGeneration": 4}
    if drift:
        entry["driftDetails"] = {
            **times,
            "firstDriftedObservedTime": "2026-11-20T11:00:00Z",
            "observedDrifts": [{"path": "/a"}],
        }
    if diff:
        entry["diffDetails"] = {
            **times,
            "firstDiffedObservedTime": "2026-11-20T11:00:00Z",
            "observedDiffs": [{"path": "/a"}],
        }
    return entry


def status_of(first, second, manifests=(), strategy="ClientSideApply"):
    """Return the status of a binding with two Works that say *first* and *second*."""
    hub, group = MemberNamespace(), make_group([make_object("a", size=500_000), make_object("b", size=500_000)])
    binding = make_binding(conditions=[STARTED], applyStrategy={"type": strategy})
    hub.run(binding, group)
    hub.report("shop-work", first, manifests)
    hub.report("shop-0", second)
    status = binding_status(binding, hub.works.values(), hub.plan(binding, group), NOW)
    BindingStatus.read(status)
    assert binding_status({**binding, "status": status}, hub.works.values(), WorkPlan(), LATER) == status
    return status


YES, NO = ("Applied", "True", "x"), ("Applied", "False", "x")
UP, DOWN = ("Available", "True", "x"), ("Available", "False", "x")
UNTRACKED = ("Available", "True", "WorkNotTrackable")
SEEN = [manifest("b", "False", diff=True), manifest("a", drift=True, available="False")]


@pytest.mark.parametrize(
    ("first", "second", "last", "lists"),
    [
        pytest.param([YES, UP], [YES, UP], ("Available", "AllWorkAreAvailable"), {"drifted"}, id="all-good"),
        pytest.param(
            [YES, UP],
            [YES, UNTRACKED],
            ("Available", "NotAllWorkAreAvailabilityTrackable"),
            {"drifted"},
            id="untrackable",
        ),
        pytest.param(
            [YES, UP], [YES, DOWN], ("Available", "NotAllWorkAreAvailable"), {"drifted", "failed"}, id="not-available"
        ),
        pytest.param([YES, UP], [YES], ("Available", "NotAllWorkAreAvailable"), {"drifted"}, id="available-incomplete"),
        pytest.param(
            [YES, UP], [NO], ("Applied", "NotAllWorkHaveBeenApplied"), {"drifted", "failed", "diffed"}, id="not-applied"
        ),
        pytest.param([NO], [], ("Applied", "NotAllWorkHaveBeenApplied"), set(), id="apply-incomplete"),
    ],
)
def test_what_the_works_say(first, second, last, lists):
    status = status_of(first, second, SEEN)
    found = status["conditions"][-1]
    assert (found["type"], found["reason"]) == last
    assert [condition["type"] for condition in status["conditions"]][:3] == [
        "RolloutStarted",
        "Overridden",
        "WorkSynchronized",
    ]
    assert {key.removesuffix("Placements") for key in status if key != "conditions"} == lists
    if "failed" in lists:
        assert [(item["name"], item["condition"]["type"]) for item in status["failedPlacements"]] == [
            ("a", "Available"),
            ("b", "Applied"),
        ]


@pytest.mark.parametrize(
    ("second", "reason", "lists"),
    [
        pytest.param([("DiffReported", "True", "x")], "AllWorkHaveDiffReported", True, id="reported"),
        pytest.param([], "NotAllWorkHaveDiffReported", False, id="incomplete"),
    ],
)
def test_report_diff(second, reason, lists):
    status = status_of([("DiffReported", "True", "x")], second, SEEN, "ReportDiff")
    assert status["conditions"][-1]["reason"] == reason
    assert ("diffedPlacements" in status) is lists
    assert "failedPlacements" not in status


def test_a_pass_that_changes_works_says_so_and_nothing_else():
    binding = make_binding(conditions=[STARTED])
    hub, group = MemberNamespace(), make_group([make_object("a")])
    plan = hub.run(binding, group)
    status = binding_status(binding, hub.works.values(), plan, NOW)
    assert status["conditions"][-1]["reason"] == "ApplyInProgress"
    assert is_failed(BindingView.of({**binding, "status": status}))
    diff = make_binding(conditions=[STARTED], applyStrategy={"type": "ReportDiff"})
    assert binding_status(diff, [], plan, NOW)["conditions"][-1]["reason"] == "DiffReportInProgress"


def test_the_wait_for_untrackable_objects_is_not_restarted_by_a_pass():
    status = status_of([YES, UNTRACKED], [YES, UNTRACKED])
    hub, group = MemberNamespace(), make_group([make_object("a")])
    hub.run(make_binding(), group)
    hub.report("shop-work", [YES, UNTRACKED])
    binding = {**make_binding(), "status": status}
    again = binding_status(binding, hub.works.values(), WorkPlan(), LATER + timedelta(seconds=1))
    view = BindingView.of({**binding, "status": again})
    assert readiness(view, LATER + timedelta(seconds=1), timedelta(seconds=60)).ready
    moved = {**binding, "metadata": {**binding["metadata"], "generation": 3}}
    restarted = binding_status(moved, hub.works.values(), WorkPlan(), LATER)
    assert restarted["conditions"][-1]["lastTransitionTime"] == "2026-11-20T12:01:00Z"


def test_the_message_of_a_binding_is_as_long_as_the_schema_allows_whatever_agents_write():
    hub, group = MemberNamespace(), make_group([make_object("a")])
    binding = make_binding(conditions=[STARTED])
    hub.run(binding, group)
    hub.report("shop-work", [("Applied", "False", "ForbiddenByMember")])
    hub.works["shop-work"]["status"]["conditions"][0]["message"] = "x" * 32768
    status = binding_status(binding, hub.works.values(), WorkPlan(), NOW)
    assert len(status["conditions"][-1]["message"]) <= 32768


def test_lists_are_cut_at_a_hundred():
    many = [manifest(f"m{at:03}", drift=True) for at in reversed(range(130))]
    status = status_of([YES, UP], [YES, UP], many)
    assert [item["name"] for item in status["driftedPlacements"]] == [f"m{at:03}" for at in range(100)]


@pytest.mark.parametrize(
    ("strategy", "kind", "others"),
    [
        pytest.param("ClientSideApply", "Applied", "NotAllWorkHaveBeenApplied", id="applies"),
        pytest.param("ReportDiff", "DiffReported", "NotAllWorkHaveDiffReported", id="compares"),
    ],
)
@pytest.mark.parametrize(
    ("answer", "unheard", "reason", "said"),
    [
        pytest.param("", "no heartbeat", "", "AgentNotReporting no heartbeat", id="unheard"),
        pytest.param("ForbiddenByMember", "", "", "ForbiddenByMember ", id="forbidden-by-the-member"),
        pytest.param("OlderThanApplied", "", "OlderThanApplied", "OlderThanApplied ", id="restored-hub"),
    ],
)
def test_a_work_that_fails_as_a_whole_is_a_failed_placement_with_the_cause(
    answer, unheard, reason, said, strategy, kind, others
):
    hub, group = MemberNamespace(), make_group([make_object("a", size=500_000), make_object("b", size=500_000)])
    binding = make_binding(conditions=[STARTED], applyStrategy={"type": strategy})
    hub.run(binding, group)
    hub.report("shop-work", [(kind, "True", "x")])
    hub.report("shop-0", [(kind, "False", answer)] if answer else [])
    status = binding_status(binding, hub.works.values(), hub.plan(binding, group), NOW, unheard)
    BindingStatus.read(status)
    (failed,) = status["failedPlacements"]
    assert (failed["kind"], failed["name"]) == ("Work", "shop-0")
    assert f"{failed['condition']['reason']} {failed['condition'].get('message', '')}" == said
    last = status["conditions"][-1]
    assert (last["type"], last["status"], last["reason"]) == (kind, "False", reason or others)
    assert "shop-0" in last["message"]
    assert unheard in last["message"]
    assert ("hub restored" in last["message"]) == (reason == "OlderThanApplied")
    assert binding_status({**binding, "status": status}, hub.works.values(), WorkPlan(), LATER, unheard) == status


@pytest.mark.parametrize("key", [LEFT_OUT, RETAINED])
@pytest.mark.parametrize("text", ["{", "7", "[1]", '[["a"]]'])
def test_a_record_that_cannot_be_read_does_not_block_the_works(key, text):
    member, binding, group = MemberNamespace(), make_binding(), make_group([make_object("a")])
    member.run(binding, group)
    member.works = {name: with_metadata(work, annotations={key: text}) for name, work in member.works.items()}
    plan = member.plan(binding, group)
    assert plan.problem is None
    assert [key in write.document["metadata"]["annotations"] for write in plan.writes] == [False]
