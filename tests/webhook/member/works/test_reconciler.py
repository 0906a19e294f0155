"""Works, from the hub to the member and back; on real stores."""

from datetime import timedelta

import orjson
import pytest

from scorer.api.kinds import APPLIED_WORK, CUSTOM_RESOURCE_DEFINITION, EVENT, KINDS, NAMESPACE, WORK, group_kind
from scorer.api.names import ABANDON, LAST_APPLIED, SPEC_HASH, WORK_CLEANUP, WORK_OBJECTS, WRITTEN
from scorer.api.unstructured.documents import with_finalizer, with_metadata
from tests.webhook.member.hub_and_member import SPACE, START, config_map, namespace
from webhook.embedded.simulation.member_stores import ObservedStore
from webhook.kube.ports import (
    ConflictError,
    EventType,
    ForbiddenError,
    Key,
    NotFoundError,
    StoreError,
    UnavailableError,
    key_of,
)
from webhook.member.apply import steps
from webhook.member.membership.hub_state import HubMemberState
from webhook.member.objects.owner_references import owner_reference, with_owners
from webhook.member.works.reconciler import reconcile_work

KEY = Key("web-work", SPACE)
CONFIG_MAP, DEPLOYMENT, SERVICE = KINDS["", "ConfigMap"], KINDS["apps", "Deployment"], KINDS["", "Service"]


def deployment(image="shop:1", replicas=2):
    container = {"name": "shop", "image": image}
    template = {"metadata": {"labels": {"app": "shop"}}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "shop", "namespace": "web"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "shop"}}, "template": template},
    }


async def test_a_work_arrives_on_the_member(cluster):
    await cluster.place(deployment(), config_map(), namespace())
    outcome = await cluster.reconcile()
    work = await cluster.work()
    assert work["metadata"]["finalizers"] == [WORK_CLEANUP]
    assert await cluster.conditions() == {
        "Applied": ("True", "AllManifestsApplied"),
        "Available": ("False", "SomeManifestsAreNotAvailable"),
    }
    assert not outcome.settled
    owner = await cluster.member.get(APPLIED_WORK, Key("web-work"))
    assert owner["spec"] == {"workName": "web-work", "workNamespace": SPACE}
    assert [entry["kind"] for entry in owner["status"]["appliedResources"]] == ["Deployment", "ConfigMap", "Namespace"]
    live = await cluster.live(CONFIG_MAP, "settings")
    (reference,) = live["metadata"]["ownerReferences"]
    assert reference["uid"] == owner["metadata"]["uid"]
    assert reference["blockOwnerDeletion"] is True
    assert orjson.loads(live["metadata"]["annotations"][LAST_APPLIED]) == config_map()
    assert live["metadata"]["annotations"][SPEC_HASH]


async def test_availability_comes_back(cluster):
    await cluster.place(namespace(), deployment(replicas=2))
    await cluster.reconcile()
    counts = {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2}
    live = await cluster.live(DEPLOYMENT, "shop")
    await cluster.member.replace_status(DEPLOYMENT, {**live, "status": counts})
    outcome = await cluster.reconcile()
    assert outcome.settled
    assert (await cluster.conditions())["Available"] == ("True", "AllManifestsAvailable")


@pytest.mark.parametrize(
    "strategy",
    [
        {},
        {"type": "ServerSideApply", "serverSideApplyConfig": {"force": True}},
        {"comparisonOption": "FullComparison"},
        {"whenToApply": "IfNotDrifted"},
        {"type": "ReportDiff"},
        {"type": "ReportDiff", "whenToTakeOver": "Never"},
    ],
)
async def test_a_second_pass_writes_nothing(cluster, strategy):
    await cluster.place(namespace(), config_map(), deployment(), {"kind": "x"}, config_map(), applyStrategy=strategy)
    await cluster.member.create(NAMESPACE, namespace("other"))
    await cluster.reconcile()
    versions = cluster.versions
    await cluster.reconcile()
    assert cluster.versions == versions


async def test_nulls_in_a_manifest_do_not_make_it_write_again(cluster):
    with_nulls = deployment()
    with_nulls["spec"]["template"]["metadata"]["creationTimestamp"] = None
    with_nulls["spec"]["template"]["spec"]["containers"][0]["resources"] = None
    await cluster.place(namespace(), with_nulls)
    await cluster.reconcile()
    versions = cluster.versions
    await cluster.reconcile()
    assert cluster.versions == versions


async def test_time_that_passes_writes_nothing(cluster):
    """Also for manifests that name nothing, and for those that name the same object."""
    await cluster.place(namespace(), config_map(), {"kind": "x"}, config_map(), {"kind": "x"}, config_map())
    await cluster.reconcile()
    versions = cluster.versions
    cluster.time += timedelta(hours=1)
    await cluster.reconcile()
    assert cluster.versions == versions


async def test_an_empty_work_is_available(cluster):
    await cluster.place()
    assert (await cluster.reconcile()).settled
    assert await cluster.conditions() == {
        "Applied": ("True", "AllManifestsApplied"),
        "Available": ("True", "AllManifestsAvailable"),
    }


async def test_a_changed_work_changes_the_member(cluster):
    await cluster.place(namespace(), config_map(level="info", old="x"), config_map("other"))
    await cluster.reconcile()
    live = await cluster.live(CONFIG_MAP, "settings")
    await cluster.edit(CONFIG_MAP, "settings", data={**live["data"], "foreign": "f", "level": "debug"})
    await cluster.place(namespace(), config_map(level="warn"))
    await cluster.reconcile()
    assert (await cluster.live(CONFIG_MAP, "settings"))["data"] == {"level": "warn", "foreign": "f"}
    assert await cluster.live(CONFIG_MAP, "other") is None
    assert len((await cluster.work())["status"]["manifestConditions"]) == 2
    versions = cluster.versions
    await cluster.reconcile()
    assert cluster.versions == versions


async def test_changes_on_the_member_are_undone(cluster):
    await cluster.place(namespace(), config_map(level="info"))
    await cluster.reconcile()
    await cluster.edit(CONFIG_MAP, "settings", data={"level": "debug"})
    await cluster.reconcile()
    assert (await cluster.live(CONFIG_MAP, "settings"))["data"] == {"level": "info"}
    await cluster.member.delete(CONFIG_MAP, Key("settings", "web"))
    await cluster.reconcile()
    assert (await cluster.live(CONFIG_MAP, "settings"))["data"] == {"level": "info"}


async def test_a_deleted_work_leaves_nothing_behind(cluster):
    await cluster.place(namespace(), config_map(), deployment())
    await cluster.reconcile()
    await cluster.remove()
    assert (await cluster.reconcile()).gone
    assert len(cluster.member) == 0
    with pytest.raises(NotFoundError):
        await cluster.work()
    assert (await cluster.reconcile()).gone


async def test_an_abandoned_work_leaves_its_objects(cluster):
    await cluster.place(namespace(), config_map())
    await cluster.reconcile()
    await cluster.remove(**{ABANDON: "true"})
    assert (await cluster.reconcile()).gone
    live = await cluster.live(CONFIG_MAP, "settings")
    assert not live["metadata"].get("ownerReferences")
    assert len(cluster.member) == 2


MARK = {"harbormaster.dev/keep": "true"}


async def was_there(cluster, *documents):
    """Have objects on the member before anything is placed."""
    for document in documents:
        kind = NAMESPACE if document["kind"] == "Namespace" else CONFIG_MAP
        await cluster.member.create(kind, document)


def marked(document):
    return {**document, "metadata": {**document["metadata"], "annotations": MARK}}


TAKE_OVER = ("Always", "IfNoDiff", "Never")


def content_of(store):
    """Return everything on a member but what is ours."""
    ours = {APPLIED_WORK.group_kind, KINDS["coordination.k8s.io", "Lease"].group_kind}
    return {kind: store.objects(kind) for kind in KINDS.values() if kind.group_kind not in ours}


@pytest.mark.parametrize("when", TAKE_OVER)
@pytest.mark.parametrize("same", [True, False], ids=["no-difference", "difference"])
async def test_a_comparison_writes_to_nothing_on_the_member_in_its_whole_life(cluster, when, same):
    """Compared, compared with other content, without an object, and removed; an owner of ours would remove it all."""
    await was_there(cluster, namespace(), config_map(level="info" if same else "debug"), config_map("other"))
    before = content_of(cluster.member)
    strategy = {"type": "ReportDiff", "whenToTakeOver": when}
    for manifests in ([namespace(), config_map(), config_map("other")], [namespace(), config_map(level="trace")]):
        await cluster.place(*manifests, applyStrategy=strategy)
        await cluster.reconcile()
        assert content_of(cluster.member) == before
    assert not (await cluster.member.get(APPLIED_WORK, Key("web-work"))).get("status", {}).get("appliedResources")
    await cluster.remove()
    assert (await cluster.reconcile()).gone
    assert content_of(cluster.member) == before
    with pytest.raises(NotFoundError):
        await cluster.member.get(APPLIED_WORK, Key("web-work"))


async def compared_by_an_earlier_release(cluster, *documents):
    """Place objects to compare them, and give them the owner that releases up to 0.1.0 gave them."""
    await was_there(cluster, namespace(), *documents)
    await cluster.place(namespace(), *documents, applyStrategy={"type": "ReportDiff"})
    await cluster.reconcile()
    owner = await cluster.member.get(APPLIED_WORK, Key("web-work"))
    for kind, key in ((NAMESPACE, Key("web")), *((CONFIG_MAP, key_of(each)) for each in documents)):
        live = await cluster.member.get(kind, key)
        await cluster.member.replace(kind, with_owners(live, [owner_reference(owner)]))


async def owners_of(cluster, *names):
    """Return the owners of the namespace and of ConfigMaps in it."""
    lives = [await cluster.live(NAMESPACE, "web", ""), *[await cluster.live(CONFIG_MAP, name) for name in names]]
    return [live["metadata"].get("ownerReferences", []) for live in lives]


async def test_what_an_earlier_release_took_over_to_compare_it_is_released_once(cluster):
    await compared_by_an_earlier_release(cluster, config_map(), config_map("dropped"))
    await cluster.place(namespace(), config_map(), applyStrategy={"type": "ReportDiff"})
    await cluster.reconcile()
    assert await owners_of(cluster, "settings", "dropped") == [[], [], []]
    versions = cluster.versions
    await cluster.reconcile()
    assert cluster.versions == versions


async def test_what_an_earlier_release_took_over_to_compare_it_is_released_when_its_work_goes(cluster):
    await compared_by_an_earlier_release(cluster, config_map())
    await cluster.remove()
    assert (await cluster.reconcile()).gone
    assert await owners_of(cluster, "settings") == [[], []]


class ReadOnly(ObservedStore):
    """A member on which the agent may only read ConfigMaps."""

    async def replace(self, kind, document, *, dry_run=False):
        if kind == CONFIG_MAP:
            raise ForbiddenError("no")
        return await super().replace(kind, document, dry_run=dry_run)


async def test_what_may_not_be_released_is_not_collected(cluster):
    """Neither dropped by its Work nor when that goes: the agent tries again until it has the right."""
    await compared_by_an_earlier_release(cluster, config_map())
    await cluster.place(namespace(), applyStrategy={"type": "ReportDiff"})
    await reconcile_work(KEY, cluster.hub, ReadOnly(cluster.member), cluster.time)
    (entry,) = (await cluster.member.get(APPLIED_WORK, Key("web-work")))["status"]["appliedResources"]
    assert entry["name"] == "settings"
    await cluster.remove()
    with pytest.raises(StoreError, match="no"):
        await reconcile_work(KEY, cluster.hub, ReadOnly(cluster.member), cluster.time)
    assert await cluster.live(CONFIG_MAP, "settings") is not None
    assert (await cluster.reconcile()).gone
    assert await owners_of(cluster, "settings") == [[], []]


async def test_a_namespace_that_was_applied_stays_with_what_was_only_compared_in_it(cluster):
    await was_there(cluster, namespace())
    await cluster.place(namespace())
    await cluster.reconcile()
    await was_there(cluster, config_map())
    await cluster.place(namespace(), config_map(), applyStrategy={"type": "ReportDiff"})
    await cluster.reconcile()
    owner = owner_reference(await cluster.member.get(APPLIED_WORK, Key("web-work")))
    live = await cluster.live(CONFIG_MAP, "settings")
    await cluster.member.replace(CONFIG_MAP, with_owners(live, [owner]))
    await cluster.remove()
    assert (await cluster.reconcile()).gone
    assert await owners_of(cluster, "settings") == [[], []]


async def test_under_an_applying_strategy_nothing_is_released(cluster):
    """What was taken over, and not written before the agent stopped, is applied."""
    await compared_by_an_earlier_release(cluster, config_map())
    await cluster.place(namespace(), config_map(), applyStrategy={})
    await cluster.reconcile()
    owner = owner_reference(await cluster.member.get(APPLIED_WORK, Key("web-work")))
    assert await owners_of(cluster, "settings") == [[owner]] * 2


@pytest.mark.parametrize(("annotations", "stays"), [({}, False), ({ABANDON: "true"}, True)], ids=["goes", "abandoned"])
async def test_what_was_applied_before_it_was_only_compared_stays_ours(cluster, annotations, stays):
    """It follows deleteStrategy like everything that was applied, also after its AppliedWork was deleted by hand."""
    await cluster.place(namespace(), config_map())
    await cluster.reconcile()
    await cluster.place(namespace(), config_map(), applyStrategy={"type": "ReportDiff"})
    await cluster.reconcile()
    await cluster.member.delete(APPLIED_WORK, Key("web-work"))
    await cluster.reconcile()
    owner = owner_reference(await cluster.member.get(APPLIED_WORK, Key("web-work")))
    assert await owners_of(cluster, "settings") == [[owner]] * 2
    await cluster.remove(**annotations)
    await cluster.reconcile()
    assert (await cluster.live(CONFIG_MAP, "settings") is not None) == stays


@pytest.mark.parametrize("when", TAKE_OVER)
async def test_a_comparison_whose_applied_work_is_deleted_by_hand_takes_nothing_back(cluster, when):
    """The Work's status lists what was compared, and an AppliedWork without books takes back what is marked as its."""
    await was_there(cluster, namespace(), config_map(level="debug"))
    before = content_of(cluster.member)
    await cluster.place(namespace(), config_map(), applyStrategy={"type": "ReportDiff", "whenToTakeOver": when})
    for _ in range(2):
        await cluster.reconcile()
        await cluster.member.delete(APPLIED_WORK, Key("web-work"))
    await cluster.remove()
    assert (await cluster.reconcile()).gone
    assert content_of(cluster.member) == before


@pytest.mark.parametrize("first", ["applying", "comparing"])
@pytest.mark.parametrize("goes", ["applying", "comparing"])
async def test_a_comparison_of_what_another_work_applies_removes_nothing_of_it(cluster, first, goes):
    strategies = {"applying": {}, "comparing": {"type": "ReportDiff", "whenToTakeOver": "Always"}}
    for name in sorted(strategies, key=lambda name: name != first):
        await cluster.place(namespace(), config_map(), name=name, applyStrategy=strategies[name])
        await cluster.reconcile(name)
    for name in ("comparing", "applying"):
        await cluster.reconcile(name)
    await cluster.remove(goes)
    assert (await cluster.reconcile(goes)).gone
    assert (await cluster.live(CONFIG_MAP, "settings") is None) == (goes == "applying")


@pytest.mark.parametrize(
    ("when", "level", "reason"),
    [
        pytest.param("Always", "debug", "Applied", id="always"),
        pytest.param("IfNoDiff", "info", "Applied", id="no-difference"),
        pytest.param("IfNoDiff", "debug", "FailedToTakeOver", id="a-difference"),
        pytest.param("Never", "info", "NotTakenOver", id="never"),
    ],
)
async def test_from_comparing_to_applying_takes_over_as_the_strategy_says(cluster, when, level, reason):
    await was_there(cluster, namespace(), config_map(level=level))
    for strategy in ({"type": "ReportDiff", "whenToTakeOver": when}, {"whenToTakeOver": when}):
        await cluster.place(config_map(), applyStrategy=strategy)
        await cluster.reconcile()
    assert await cluster.reasons() == [reason]
    assert bool((await owners_of(cluster, "settings"))[1]) == (reason == "Applied")


async def test_what_a_work_held_before_it_only_compared_is_not_forgotten(cluster):
    await cluster.place(namespace(), config_map(), config_map("other"))
    await cluster.reconcile()
    await cluster.place(namespace(), config_map(), applyStrategy={"type": "ReportDiff"})
    await cluster.reconcile()
    await cluster.reconcile()
    versions = cluster.versions
    await cluster.reconcile()
    assert cluster.versions == versions
    await cluster.remove(**{ABANDON: "true"})
    await cluster.reconcile()
    assert not (await cluster.live(CONFIG_MAP, "other"))["metadata"].get("ownerReferences")


async def test_what_was_taken_over_stays_when_it_is_marked_to(cluster):
    """With its namespace, which takes everything in it along; what is not marked goes as always."""
    await was_there(cluster, namespace(), marked(config_map(level="ours")))
    await cluster.place(namespace(), config_map(), config_map("other"))
    await cluster.reconcile()
    assert (await cluster.live(CONFIG_MAP, "settings"))["metadata"]["ownerReferences"]
    await cluster.remove()
    assert (await cluster.reconcile()).gone
    for kind, name, space in ((CONFIG_MAP, "settings", "web"), (NAMESPACE, "web", "")):
        live = await cluster.live(kind, name, space)
        assert not live["metadata"].get("ownerReferences"), name
        assert not live["metadata"].get("deletionTimestamp"), name
    assert await cluster.live(CONFIG_MAP, "other") is None


async def test_what_a_work_no_longer_holds_stays_when_it_is_marked_to(cluster):
    await was_there(cluster, namespace(), marked(config_map(level="ours")))
    await cluster.place(namespace(), config_map(), config_map("other"))
    await cluster.reconcile()
    await cluster.place()
    await cluster.reconcile()
    assert not (await cluster.live(CONFIG_MAP, "settings"))["metadata"].get("ownerReferences")
    assert not (await cluster.live(NAMESPACE, "web", ""))["metadata"].get("ownerReferences")
    assert await cluster.live(CONFIG_MAP, "other") is None
    versions = cluster.versions
    await cluster.reconcile()
    assert cluster.versions == versions


class Secretive(ObservedStore):
    """A member whose agent may not read one object."""

    async def get(self, kind, key):
        if key.name == "secret":
            raise ForbiddenError("configmaps secret is forbidden")
        return await super().get(kind, key)


class Narrow(ObservedStore):
    """A member whose agent may write no webhook configurations and no ConfigMap."""

    async def create(self, kind, document):
        if kind.kind in ("ValidatingWebhookConfiguration", "ConfigMap"):
            raise ForbiddenError(f"{kind.plural} is forbidden")
        return await super().create(kind, document)


async def test_a_kind_that_acts_on_every_request_names_the_right_that_is_missing(cluster):
    hooks = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    await cluster.place(namespace(), {**hooks, "metadata": {"name": "ours"}, "webhooks": []}, config_map())
    await reconcile_work(KEY, cluster.hub, Narrow(cluster.member), cluster.time)
    messages = [await cluster.message(ordinal) for ordinal in range(3)]
    assert ["rbac.applyControlPlane=true" in message for message in messages] == [False, True, False]
    assert "is forbidden" in messages[2]


async def test_what_the_agent_may_not_read_and_never_applied_does_not_hold_its_work(cluster):
    await cluster.place(namespace(), config_map(), config_map("secret"))
    await reconcile_work(KEY, cluster.hub, Secretive(cluster.member), cluster.time)
    assert await cluster.live(CONFIG_MAP, "settings")
    await cluster.remove()
    for _ in range(3):
        await reconcile_work(KEY, cluster.hub, Secretive(cluster.member), cluster.time)
    with pytest.raises(NotFoundError):
        await cluster.work()
    assert await cluster.live(CONFIG_MAP, "settings") is None


async def test_what_was_applied_and_cannot_be_read_any_more_is_waited_for(cluster):
    """It may be marked to stay."""
    await cluster.place(namespace(), config_map("secret"))
    await cluster.reconcile()
    await cluster.remove()
    with pytest.raises(ForbiddenError):
        await reconcile_work(KEY, cluster.hub, Secretive(cluster.member), cluster.time)
    assert await cluster.live(CONFIG_MAP, "secret")


async def test_a_mark_made_by_hand_is_left_alone_while_the_object_is_placed(cluster):
    await cluster.place(namespace(), config_map())
    await cluster.reconcile()
    live = await cluster.live(NAMESPACE, "web", "")
    await cluster.edit(NAMESPACE, "web", "", metadata=with_metadata(live, annotations=MARK)["metadata"])
    await cluster.reconcile()
    await cluster.place(namespace(), config_map(level="debug"))
    await cluster.reconcile()
    await cluster.remove()
    assert (await cluster.reconcile()).gone
    assert (await cluster.live(NAMESPACE, "web", ""))["metadata"]["annotations"]["harbormaster.dev/keep"] == "true"


async def test_a_work_waits_until_its_applied_work_is_gone(cluster):
    await cluster.place(namespace(), config_map())
    await cluster.reconcile()
    owner = await cluster.member.get(APPLIED_WORK, Key("web-work"))
    held = {**owner["metadata"], "finalizers": ["example.com/hold"]}
    await cluster.member.replace(APPLIED_WORK, {**owner, "metadata": held})
    await cluster.remove()
    assert not (await cluster.reconcile()).gone
    assert (await cluster.work())["metadata"]["finalizers"] == [WORK_CLEANUP]
    owner = await cluster.member.get(APPLIED_WORK, Key("web-work"))
    await cluster.member.replace(APPLIED_WORK, {**owner, "metadata": {**owner["metadata"], "finalizers": []}})
    assert (await cluster.reconcile()).gone


async def test_bad_manifests_do_not_stop_good_ones(cluster):
    generated = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "x-", "namespace": "web"}}
    unknown = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "web"}}
    await cluster.place(namespace(), generated, config_map(), config_map(), unknown, config_map("lost", "nowhere"))
    await cluster.reconcile()
    assert await cluster.reasons() == [
        "Applied",
        "FoundGenerateName",
        "Applied",
        "Duplicated",
        "DecodingErred",
        "ManifestApplyFailed",
    ]
    assert "nowhere" in await cluster.message(5)
    assert await cluster.conditions() == {"Applied": ("False", "SomeManifestsAreNotApplied")}


async def test_what_cannot_be_compared_has_one_reason_and_says_why(cluster):
    generated = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "x-", "namespace": "web"}}
    unknown = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "web"}}
    await cluster.place(generated, config_map(), config_map(), unknown, applyStrategy={"type": "ReportDiff"})
    await cluster.reconcile()
    assert await cluster.reasons() == ["FailedToReportDiff", "FoundDiff", "FailedToReportDiff", "FailedToReportDiff"]
    causes = [(await cluster.message(at)).partition(":")[0] for at in (0, 2, 3)]
    assert causes == ["FoundGenerateName", "Duplicated", "DecodingErred"]
    assert await cluster.conditions() == {"DiffReported": ("False", "SomeManifestsHaveNotReportedDiff")}


async def test_a_definition_and_its_object_can_travel_together(cluster):
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{"name": "v1", "served": True, "storage": True}],
        },
    }
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 1}}
    await cluster.place(widget, definition)
    await cluster.reconcile()
    assert await cluster.reasons() == ["Applied", "Applied"]
    await cluster.place(definition)
    await cluster.reconcile()
    assert await cluster.live(CUSTOM_RESOURCE_DEFINITION, "widgets.example.com", "") is not None
    assert await cluster.live(cluster.member.kinds.find("example.com", "Widget"), "w", "") is None


class Failing:
    """A member that breaks off at a write, as a killed agent or a lost connection does."""

    def __init__(self, store, after):
        self._store = store
        self._left = after

    def __getattr__(self, name):
        call = getattr(self._store, name)
        if name not in ("create", "replace", "replace_status", "delete"):
            return call

        async def write(*args, **kwargs):
            if self._left == 0:
                raise ConflictError("killed")
            self._left -= 1
            return await call(*args, **kwargs)

        return write


@pytest.mark.parametrize("hub_writes", range(4))
async def test_a_pass_cut_off_on_the_hub_is_finished_by_the_next(cluster, hub_writes):
    await cluster.place(namespace(), config_map(), deployment())
    try:
        await reconcile_work(KEY, Failing(cluster.hub, hub_writes), ObservedStore(cluster.member), START)
    except ConflictError:
        applied = await cluster.live(CONFIG_MAP, "settings")
        assert applied is None or (await cluster.work())["status"]["manifestConditions"], "write ahead, then apply"
    await cluster.reconcile()
    assert (await cluster.conditions())["Applied"][0] == "True"
    assert len(cluster.member) == 4


async def test_what_a_cut_off_pass_applied_is_cleaned_up_when_the_work_changed_meanwhile(cluster):
    await cluster.place(namespace(), config_map("first"))
    with pytest.raises(ConflictError):  # finalizer and write-ahead get through, the results do not
        await reconcile_work(KEY, Failing(cluster.hub, 2), ObservedStore(cluster.member), START)
    assert await cluster.live(CONFIG_MAP, "first") is not None
    assert await cluster.reasons() == ["PreparingToProcess", "PreparingToProcess"]
    await cluster.place(namespace(), config_map("second"))
    await cluster.reconcile()
    assert await cluster.live(CONFIG_MAP, "first") is None
    assert await cluster.live(CONFIG_MAP, "second") is not None


async def test_an_object_that_failed_to_apply_last_time_is_still_cleaned_up(cluster):
    await cluster.place(namespace(), config_map())
    await cluster.reconcile()
    live = await cluster.live(CONFIG_MAP, "settings")
    other = await cluster.member.create(CONFIG_MAP, config_map("stranger"))
    stranger = {"apiVersion": "v1", "kind": "ConfigMap", "name": "stranger", "uid": other["metadata"]["uid"]}
    owners = [*live["metadata"]["ownerReferences"], stranger]
    await cluster.edit(CONFIG_MAP, "settings", metadata={**live["metadata"], "ownerReferences": owners})
    await cluster.reconcile()
    assert await cluster.reasons() == ["Applied", "ManifestApplyFailed"]
    assert "ConfigMap stranger" in await cluster.message(1)
    await cluster.place(namespace())
    await cluster.reconcile()
    live = await cluster.live(CONFIG_MAP, "settings")
    assert live["metadata"]["ownerReferences"] == [stranger], "co-owned: only let go"


async def test_an_object_of_another_work_is_not_taken(cluster):
    await cluster.place(namespace(), config_map(level="one"))
    await cluster.reconcile()
    await cluster.place(config_map(level="two"), name="other-work", applyStrategy={})
    await cluster.reconcile("other-work")
    assert await cluster.reasons("other-work") == ["FailedToTakeOver"]
    assert "AppliedWork web-work" in await cluster.message(name="other-work")
    assert (await cluster.live(CONFIG_MAP, "settings"))["data"] == {"level": "one"}
    await cluster.hub.delete(WORK, Key("other-work", SPACE))
    await cluster.reconcile("other-work")
    assert await cluster.live(CONFIG_MAP, "settings") is not None, "not owned, so not deleted"
    await cluster.reconcile()
    assert (await cluster.conditions())["Applied"][0] == "True"


async def test_an_object_left_behind_by_a_work_that_is_gone_is_taken(cluster):
    await cluster.place(namespace(), config_map(level="one"))
    await cluster.reconcile()
    work = await cluster.work()  # the hub gave the Work up without asking the member
    await cluster.hub.replace(WORK, {**work, "metadata": {**work["metadata"], "finalizers": []}})
    await cluster.hub.delete(WORK, KEY)
    await cluster.place(config_map(level="two"), name="other-work")
    await cluster.reconcile("other-work")
    assert await cluster.reasons("other-work") == ["Applied"]
    live = await cluster.live(CONFIG_MAP, "settings")
    assert [owner["name"] for owner in live["metadata"]["ownerReferences"]] == ["other-work"]
    assert live["data"] == {"level": "two"}


@pytest.mark.parametrize(
    ("strategy", "owned", "data", "reason", "level"),
    [
        pytest.param({}, False, {"level": "x"}, "Applied", "info", id="always"),
        pytest.param({"whenToTakeOver": "Never"}, False, {"level": "x"}, "NotTakenOver", "x", id="never"),
        pytest.param({"whenToTakeOver": "IfNoDiff"}, False, {"level": "x"}, "FailedToTakeOver", "x", id="differs"),
        pytest.param({"whenToTakeOver": "IfNoDiff"}, False, {"level": "info"}, "Applied", "info", id="same"),
        pytest.param(
            {"whenToTakeOver": "IfNoDiff"}, False, {"level": "info", "x": "y"}, "Applied", "info", id="partly"
        ),
        pytest.param(
            {"whenToTakeOver": "IfNoDiff", "comparisonOption": "FullComparison"},
            False,
            {"level": "info", "x": "y"},
            "FailedToTakeOver",
            "info",
            id="full",
        ),
        pytest.param({}, True, {"level": "x"}, "FailedToTakeOver", "x", id="owned-by-others"),
        pytest.param({"allowCoOwnership": True}, True, {"level": "x"}, "Applied", "info", id="shared"),
    ],
)
async def test_taking_over_what_was_there(cluster, strategy, owned, data, reason, level):
    await cluster.member.create(NAMESPACE, namespace())
    stranger = await cluster.member.create(CONFIG_MAP, config_map("stranger"))
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "stranger", "uid": stranger["metadata"]["uid"]}
    existing = config_map(**data)
    if owned:
        existing["metadata"]["ownerReferences"] = [owner]
    await cluster.member.create(CONFIG_MAP, existing)
    await cluster.place(config_map(level="info"), applyStrategy=strategy)
    await cluster.reconcile()
    assert await cluster.reasons() == [reason]
    assert (await cluster.live(CONFIG_MAP, "settings"))["data"]["level"] == level
    (entry,) = (await cluster.work())["status"]["manifestConditions"]
    assert ("diffDetails" in entry) == (reason == "FailedToTakeOver" and not owned)
    versions = cluster.versions
    await cluster.reconcile()
    assert cluster.versions == versions


async def test_report_diff_reports_what_differs(cluster):
    await cluster.member.create(NAMESPACE, namespace())
    await cluster.member.create(CONFIG_MAP, config_map(level="debug"))
    manifests = [namespace(), config_map(level="info"), config_map("missing")]
    strategy = {"type": "ReportDiff", "whenToTakeOver": "Never"}
    await cluster.place(*manifests, applyStrategy=strategy)
    before = cluster.member.resource_version
    assert (await cluster.reconcile()).settled
    assert int(cluster.member.resource_version) == int(before) + 2, "only the AppliedWork, and its status"
    assert await cluster.reasons() == ["NoDiffFound", "FoundDiff", "FoundDiff"]
    assert await cluster.conditions() == {"DiffReported": ("True", "AllManifestsDiffReported")}
    entries = (await cluster.work())["status"]["manifestConditions"]
    assert entries[1]["diffDetails"]["observedDiffs"] == [
        {"path": "/data/level", "valueInMember": "debug", "valueInHub": "info"}
    ]
    assert [detail["path"] for detail in entries[2]["diffDetails"]["observedDiffs"]] == ["/"]


async def test_an_object_that_was_only_compared_is_not_deleted_later(cluster):
    await cluster.member.create(NAMESPACE, namespace())
    await cluster.member.create(CONFIG_MAP, config_map(level="debug"))
    await cluster.place(config_map(level="info"), applyStrategy={"type": "ReportDiff"})
    await cluster.reconcile()
    await cluster.place(namespace(), applyStrategy={})
    await cluster.reconcile()
    assert (await cluster.live(CONFIG_MAP, "settings"))["data"] == {"level": "debug"}


async def test_from_comparing_to_applying(cluster):
    manifests = namespace(), config_map(level="info")
    await cluster.place(*manifests, applyStrategy={"type": "ReportDiff"})
    await cluster.reconcile()
    assert await cluster.reasons() == ["FoundDiff", "FoundDiff"]
    await cluster.place(*manifests, applyStrategy={})
    with pytest.raises(ConflictError):
        await reconcile_work(KEY, Failing(cluster.hub, 1), ObservedStore(cluster.member), START)
    assert await cluster.reasons() == ["PreparingToProcess", "PreparingToProcess"]
    await cluster.reconcile()
    assert (await cluster.conditions())["Applied"] == ("True", "AllManifestsApplied")


async def test_an_earlier_work_of_the_same_name_has_to_be_gone_first(cluster):
    await cluster.place(namespace())
    await cluster.reconcile()
    owner = await cluster.member.get(APPLIED_WORK, Key("web-work"))
    held = {**owner["metadata"], "finalizers": ["example.com/hold"]}
    await cluster.member.replace(APPLIED_WORK, {**owner, "metadata": held})
    await cluster.member.delete(APPLIED_WORK, Key("web-work"))
    with pytest.raises(StoreError, match="still being deleted"):
        await cluster.reconcile()


async def test_drifts_are_left_alone_when_asked_for(cluster):
    strategy = {"whenToApply": "IfNotDrifted"}
    await cluster.place(namespace(), config_map(level="info"), applyStrategy=strategy)
    await cluster.reconcile()
    await cluster.edit(CONFIG_MAP, "settings", data={"level": "debug"})
    cluster.time += timedelta(minutes=1)
    await cluster.reconcile()
    assert await cluster.reasons() == ["Applied", "FoundDrifts"]
    assert (await cluster.live(CONFIG_MAP, "settings"))["data"] == {"level": "debug"}
    details = (await cluster.work())["status"]["manifestConditions"][1]["driftDetails"]
    assert details["firstDriftedObservedTime"] == "2026-03-01T12:01:00Z"
    await cluster.place(namespace(), config_map(level="warn"), applyStrategy=strategy)
    await cluster.reconcile()
    assert await cluster.reasons() == ["Applied", "Applied"], "another manifest is applied over a drift"


async def test_full_comparison_reports_what_others_added(cluster):
    await cluster.place(namespace(), config_map(level="info"), applyStrategy={"comparisonOption": "FullComparison"})
    await cluster.reconcile()
    await cluster.edit(CONFIG_MAP, "settings", data={"level": "info", "foreign": "f"})
    await cluster.reconcile()
    entry = (await cluster.work())["status"]["manifestConditions"][1]
    assert entry["conditions"][0]["reason"] == "Applied"
    assert entry["driftDetails"]["observedDrifts"] == [{"path": "/data/foreign", "valueInMember": "f"}]


async def test_a_manifest_too_large_for_an_annotation_is_applied_without_it(cluster):
    await cluster.place(namespace(), config_map(a="x" * 300_000, b="y"))
    await cluster.reconcile()
    live = await cluster.live(CONFIG_MAP, "settings")
    assert live["metadata"]["annotations"][LAST_APPLIED] == ""
    await cluster.place(namespace(), config_map(a="z" * 300_000))
    await cluster.reconcile()
    live = await cluster.live(CONFIG_MAP, "settings")
    assert live["data"] == {"a": "z" * 300_000, "b": "y"}
    versions = cluster.versions
    await cluster.reconcile()
    assert cluster.versions == versions


async def test_an_object_being_deleted_is_waited_for(cluster):
    await cluster.place(namespace(), config_map())
    await cluster.reconcile()
    live = await cluster.live(CONFIG_MAP, "settings")
    await cluster.edit(CONFIG_MAP, "settings", metadata={**live["metadata"], "finalizers": ["example.com/hold"]})
    await cluster.member.delete(CONFIG_MAP, Key("settings", "web"))
    await cluster.reconcile()
    assert await cluster.reasons() == ["Applied", "ManifestApplyFailed"]
    assert "being deleted" in await cluster.message(1)
    live = await cluster.live(CONFIG_MAP, "settings")
    await cluster.edit(CONFIG_MAP, "settings", metadata={**live["metadata"], "finalizers": []})
    await cluster.reconcile()
    assert await cluster.reasons() == ["Applied", "Applied"]


class Order:
    """A member that notes what is created, and refuses some of it."""

    def __init__(self, store, refuses):
        self._store = store
        self._refuses = refuses
        self.created = []

    def __getattr__(self, name):
        return getattr(self._store, name)

    async def create(self, kind, document):
        self.created.append(key_of(document).name)
        if group_kind(document) in self._refuses:
            raise StoreError(f"no {kind.kind} here")
        return await self._store.create(kind, document)


async def test_waves_follow_each_other_even_when_one_fails(cluster):
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "sa", "namespace": "web"}}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "role"}}
    binding = {**role, "kind": "ClusterRoleBinding", "metadata": {"name": "binding"}}
    await cluster.place(deployment(), binding, role, account, namespace())
    member = Order(cluster.member, {("", "ServiceAccount")})
    await reconcile_work(KEY, cluster.hub, ObservedStore(member), START)
    assert member.created == ["web-work", "web", "sa", "role", "binding", "shop"]
    assert await cluster.reasons() == ["Applied", "Applied", "Applied", "ManifestApplyFailed", "Applied"]
    assert await cluster.message(3) == "no ServiceAccount here"


async def test_status_is_brought_back_when_asked_for(cluster):
    mirror = {"type": "Mirror", "destination": "OriginalResource"}
    await cluster.place(namespace(), deployment(), reportBackStrategy=mirror)
    await cluster.reconcile()
    live = await cluster.live(DEPLOYMENT, "shop")
    await cluster.member.replace_status(DEPLOYMENT, {**live, "status": {"replicas": 2}})
    await cluster.reconcile()
    entry = (await cluster.work())["status"]["manifestConditions"][1]
    assert entry["backReportedStatus"]["observedStatus"] == {"replicas": 2}


async def test_a_manifest_that_moves_to_another_version_stays(cluster):
    scaler = {
        "apiVersion": "autoscaling/v1",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "h", "namespace": "web"},
    }
    await cluster.place(namespace(), scaler)
    await cluster.reconcile()
    uid = (await cluster.live(KINDS["autoscaling", "HorizontalPodAutoscaler"], "h"))["metadata"]["uid"]
    await cluster.place(namespace(), {**scaler, "apiVersion": "autoscaling/v2"})
    await cluster.reconcile()
    assert (await cluster.live(KINDS["autoscaling", "HorizontalPodAutoscaler"], "h"))["metadata"]["uid"] == uid
    versions = cluster.versions
    await cluster.reconcile()
    assert cluster.versions == versions


async def test_a_drift_that_stays_is_written_again_every_few_minutes_only(cluster):
    strategy = {"comparisonOption": "FullComparison"}
    await cluster.place(namespace(), config_map(level="info"), applyStrategy=strategy)
    await cluster.reconcile()
    await cluster.edit(CONFIG_MAP, "settings", data={"level": "info", "foreign": "f"})
    await cluster.reconcile()
    versions = cluster.versions
    cluster.time += timedelta(minutes=4)
    await cluster.reconcile()
    assert cluster.versions == versions
    cluster.time += timedelta(minutes=1)
    await cluster.reconcile()
    details = (await cluster.work())["status"]["manifestConditions"][1]["driftDetails"]
    assert details["observationTime"] == "2026-03-01T12:05:00Z"
    assert details["firstDriftedObservedTime"] == "2026-03-01T12:00:00Z"


class Flaky(ObservedStore):
    """A member whose answers fail: *failures* maps (method, name) to the errors to come, one per call."""

    def __init__(self, store, failures):
        super().__init__(store)
        self.failures = failures

    def _fail(self, method, name):
        errors = self.failures.get((method, name))
        if errors:
            raise errors.pop(0)

    async def get(self, kind, key):
        self._fail("get", key.name)
        return await super().get(kind, key)

    async def create(self, kind, document):
        self._fail("create", document["metadata"]["name"])
        return await super().create(kind, document)

    async def replace(self, kind, document, *, dry_run=False):
        self._fail("replace", document["metadata"]["name"])
        return await super().replace(kind, document, dry_run=dry_run)


GONE = UnavailableError("the member does not answer")
BUSY = ConflictError("the object has been modified")


@pytest.mark.parametrize(
    ("failures", "reason"),
    [
        pytest.param({("create", "settings"): [GONE]}, "Applied", id="once"),
        pytest.param({("create", "settings"): [GONE] * 9}, "ManifestApplyFailed", id="only-this-object"),
        pytest.param({("get", "settings"): [GONE] * 9}, "FailedToFindObjInMemberCluster", id="reading-it"),
        pytest.param({("create", "settings"): [BUSY] * 3}, "Applied", id="written-by-others-meanwhile"),
        pytest.param({("create", "settings"): [BUSY] * 9}, "ManifestApplyFailed", id="all-the-time"),
        pytest.param({("create", "settings"): [StoreError("no")]}, "ManifestApplyFailed", id="refused"),
    ],
)
async def test_what_the_member_does_not_do_concerns_one_manifest(cluster, monkeypatch, failures, reason):
    monkeypatch.setattr(steps, "RETRY_SECONDS", 0)
    await cluster.place(namespace(), config_map(), config_map("other"))
    await reconcile_work(KEY, cluster.hub, Flaky(cluster.member, failures), START)
    assert await cluster.reasons() == ["Applied", reason, "Applied"]


async def test_a_member_that_does_not_answer_any_more_ends_the_pass(cluster, monkeypatch):
    """Nothing is said of any object then, since nothing is known."""
    monkeypatch.setattr(steps, "RETRY_SECONDS", 0)
    await cluster.place(namespace(), config_map(), config_map("other"), deployment())
    await cluster.reconcile()
    before = cluster.versions
    await cluster.place(namespace(), config_map(level="debug"), config_map("other"), deployment(replicas=3))
    work = await cluster.work()
    member = Flaky(cluster.member, {("replace", "settings"): [GONE] * 9})

    async def lost(kind, key):
        if kind == APPLIED_WORK and member.failures[("replace", "settings")] != [GONE] * 9:
            raise GONE
        return await cluster.member.get(kind, key)

    member.get = lost
    with pytest.raises(UnavailableError):
        await reconcile_work(KEY, cluster.hub, member, START)
    assert (await cluster.work())["status"] == work["status"]
    assert cluster.versions[1] == before[1], "later waves have not begun"


async def test_a_hub_that_does_not_answer_is_not_held_against_an_object(cluster):
    await cluster.place(namespace(), config_map(level="one"))
    await cluster.reconcile()
    await cluster.place(config_map(level="two"), name="other-work")

    class Lost(Failing):
        async def get(self, kind, key):
            if key == KEY:
                raise GONE
            return await cluster.hub.get(kind, key)

    with pytest.raises(UnavailableError):
        await reconcile_work(Key("other-work", SPACE), Lost(cluster.hub, 9), ObservedStore(cluster.member), START)
    assert await cluster.reasons("other-work") == ["PreparingToProcess"]


async def test_left_overs_that_the_member_keeps_are_not_forgotten(cluster):
    await cluster.place(namespace(), config_map())
    await cluster.reconcile()
    await cluster.place(namespace())

    class Keeping(ObservedStore):
        async def delete(self, kind, key, **conditions):
            raise StoreError("a webhook does not let it go")

    for _ in range(2):
        await reconcile_work(KEY, cluster.hub, Keeping(cluster.member), START)
        assert (await cluster.conditions())["Applied"][0] == "True"
    assert await cluster.live(CONFIG_MAP, "settings") is not None
    await cluster.reconcile()
    assert await cluster.live(CONFIG_MAP, "settings") is None
    versions = cluster.versions
    await cluster.reconcile()
    assert cluster.versions == versions


async def test_a_member_without_our_definitions_says_what_to_do(cluster):
    class Bare(ObservedStore):
        async def create(self, kind, document):
            raise NotFoundError("the server could not find the requested resource")

    await cluster.place(namespace())
    with pytest.raises(StoreError, match="harbormaster crds"):
        await reconcile_work(KEY, cluster.hub, Bare(cluster.member), START)


async def empty(cluster):
    await cluster.hub.replace(WORK, {**await cluster.work(), "spec": {"workload": {"manifests": []}}})


async def shorten(cluster):
    await cluster.hub.replace(WORK, {**await cluster.work(), "spec": {"workload": {"manifests": [namespace()]}}})


async def drop_the_spec(cluster):
    work = await cluster.work()
    await cluster.hub.replace(WORK, {name: value for name, value in work.items() if name != "spec"})


async def drop_the_signature(cluster):
    work = with_metadata(await cluster.work(), annotations={WORK_OBJECTS: None})
    await cluster.hub.replace(WORK, {**work, "spec": {"workload": {"manifests": []}}})


@pytest.mark.parametrize("accident", [empty, shorten, drop_the_spec, drop_the_signature])
async def test_what_a_work_lost_by_other_hands_than_the_hubs_stays_on_the_member(cluster, accident):
    await cluster.place(namespace(), config_map())
    await cluster.reconcile()
    before = await cluster.live(CONFIG_MAP, "settings"), await cluster.live(NAMESPACE, "web", "")
    await accident(cluster)
    await cluster.reconcile()
    await cluster.reconcile()
    assert (await cluster.live(CONFIG_MAP, "settings"), await cluster.live(NAMESPACE, "web", "")) == before
    await cluster.place(namespace())  # the hub has the last word, and it is not forgotten what there was
    await cluster.reconcile()
    assert await cluster.live(CONFIG_MAP, "settings") is None


async def restore(cluster, backup):
    """Put the Work back as it was, with everything that only an API server writes."""
    with cluster.hub._write() as write:
        write._record((WORK.group_kind, KEY), backup, EventType.MODIFIED)


async def all_on_the_member(cluster):
    return [(await cluster.member.list(kind)).items for kind in (NAMESPACE, CONFIG_MAP)]


async def test_a_work_from_a_backup_changes_nothing_until_that_is_accepted(cluster):
    accepted = []

    async def read_hub_state():
        return HubMemberState(accepts_older=bool(accepted))

    async def look():
        return await reconcile_work(KEY, cluster.hub, ObservedStore(cluster.member), cluster.time, None, read_hub_state)

    await cluster.place(namespace(), config_map(level="one"), config_map("old"))
    await look()
    backup = await cluster.work()
    await cluster.place(namespace(), config_map(level="two"))
    await look()
    newest, before = await cluster.work(), await all_on_the_member(cluster)

    await restore(cluster, backup)
    assert (await look()).held
    assert await all_on_the_member(cluster) == before
    assert (await cluster.conditions())["Applied"] == ("False", "OlderThanApplied")
    assert {event["reason"] for event in (await cluster.hub.list(EVENT)).items} == {"OlderThanApplied"}
    versions = cluster.versions
    assert (await look()).held
    assert cluster.versions == versions

    await cluster.place(namespace(), config_map(level="three"))  # on top of what was restored
    assert (await look()).held
    await cluster.remove()
    assert (await look()).held
    assert await all_on_the_member(cluster) == before

    await restore(cluster, newest)  # the right backup after all
    assert not (await look()).held
    assert (await cluster.conditions())["Applied"][0] == "True"
    assert await all_on_the_member(cluster) == before

    await restore(cluster, backup)
    assert (await look()).held
    accepted.append(True)
    assert not (await look()).held
    assert (await cluster.live(CONFIG_MAP, "settings"))["data"] == {"level": "one"}
    assert (await cluster.live(CONFIG_MAP, "old")) is not None
    accepted.clear()
    assert not (await look()).held
    assert (await cluster.conditions())["Applied"] == ("True", "AllManifestsApplied")


async def test_without_its_time_a_work_is_not_taken_for_one_from_a_backup(cluster):
    await cluster.place(namespace(), config_map(level="one"))
    cluster.time += timedelta(hours=1)
    await cluster.place(namespace(), config_map(level="two"))
    await cluster.reconcile()
    await cluster.hub.replace(WORK, with_metadata(await cluster.work(), annotations={WRITTEN: None}))
    for level in ("two", "three"):
        assert not (await cluster.reconcile()).held
        assert (await cluster.conditions())["Applied"] == ("True", "AllManifestsApplied")
        assert (await cluster.live(CONFIG_MAP, "settings"))["data"] == {"level": level}
        await cluster.place(namespace(), config_map(level="three"))


async def test_a_work_that_is_made_anew_by_a_process_whose_clock_is_behind_is_not_from_a_backup(cluster):
    cluster.time += timedelta(minutes=1)
    await cluster.place(namespace(), config_map(level="one"))
    await cluster.reconcile()
    await cluster.hub.delete(WORK, KEY)  # by hand
    await cluster.reconcile()
    cluster.time -= timedelta(seconds=40)
    await cluster.place(namespace(), config_map(level="two"))
    assert not (await cluster.reconcile()).held
    assert (await cluster.live(CONFIG_MAP, "settings"))["data"] == {"level": "two"}


async def test_an_older_file_put_over_a_work_takes_nothing_back_until_the_loop_writes_it_again(cluster):
    await cluster.place(namespace(), config_map(level="one"))
    older = await cluster.work()
    cluster.time += timedelta(hours=1)
    await cluster.place(namespace(), config_map(level="two"), config_map("new"))
    await cluster.reconcile()
    work = with_metadata(await cluster.work(), annotations=older["metadata"]["annotations"])
    await cluster.hub.replace(WORK, {**work, "spec": older["spec"]})
    for _ in range(2):
        assert (await cluster.reconcile()).held
        assert (await cluster.live(CONFIG_MAP, "settings"))["data"] == {"level": "two"}
        assert await cluster.live(CONFIG_MAP, "new") is not None
    await cluster.place(namespace(), config_map(level="two"), config_map("new"))
    assert not (await cluster.reconcile()).held
    assert (await cluster.conditions())["Applied"] == ("True", "AllManifestsApplied")


async def test_a_work_that_was_made_anew_since_and_shows_again_with_its_old_uid_is_from_a_backup(cluster):
    await cluster.place(namespace(), config_map(level="one"))
    await cluster.reconcile()
    backup = await cluster.work()
    await cluster.hub.delete(WORK, KEY)  # by hand
    await cluster.reconcile()
    cluster.time += timedelta(hours=1)
    await cluster.place(namespace(), config_map(level="two"))
    await cluster.reconcile()
    await restore(cluster, backup)
    assert (await cluster.reconcile()).held
    assert (await cluster.live(CONFIG_MAP, "settings"))["data"] == {"level": "two"}


async def test_an_older_snapshot_that_is_wanted_is_no_backup(cluster):
    await cluster.place(namespace(), config_map(level="one"))
    await cluster.reconcile()
    await cluster.place(namespace(), config_map(level="two"))
    await cluster.reconcile()
    await cluster.place(namespace(), config_map(level="one"))
    await cluster.reconcile()
    assert (await cluster.live(CONFIG_MAP, "settings"))["data"] == {"level": "one"}
    assert (await cluster.conditions())["Applied"][0] == "True"


async def test_a_work_names_the_finalizer_that_keeps_its_object_until_that_is_removed(cluster):
    await cluster.place(namespace(), config_map())
    await cluster.reconcile()
    held = ["example.com/hold"]
    owner = await cluster.member.get(APPLIED_WORK, Key("web-work"))
    await cluster.member.replace(APPLIED_WORK, {**owner, "metadata": {**owner["metadata"], "finalizers": held}})
    live = await cluster.live(CONFIG_MAP, "settings")
    await cluster.edit(CONFIG_MAP, "settings", metadata={**live["metadata"], "finalizers": held})
    await cluster.member.delete(CONFIG_MAP, Key("settings", "web"))
    await cluster.remove()
    blocked = await cluster.reconcile()
    (found,) = [each for each in (await cluster.work())["status"]["conditions"] if each["type"] == "Removed"]
    assert (found["status"], found["reason"]) == ("False", "FinalizersRemain")
    assert found["message"] == "ConfigMap web/settings: finalizer example.com/hold"
    versions = cluster.versions
    assert (await cluster.reconcile(), cluster.versions) == (blocked, versions)
    live = await cluster.live(CONFIG_MAP, "settings")
    await cluster.edit(CONFIG_MAP, "settings", metadata={**live["metadata"], "finalizers": []})
    assert (await cluster.reconcile()).digest != blocked.digest
    assert "Removed" not in await cluster.conditions()


class Unprivileged(ObservedStore):
    """The member after the agent's ClusterRoleBinding was deleted."""

    async def get(self, kind, key):
        raise ForbiddenError(f"{kind.plural} is forbidden")


class WithoutDelete(ObservedStore):
    """The member after a policy has forbidden the agent to delete anything."""

    async def delete(self, kind, key, **more):
        raise ForbiddenError(f"{kind.plural} is forbidden")


@pytest.mark.parametrize("member", [Unprivileged, WithoutDelete])
async def test_a_work_that_is_deleted_says_that_the_agent_may_not_remove_its_content(cluster, member):
    await cluster.place(namespace(), config_map())
    await cluster.reconcile()
    await cluster.remove()
    versions = []
    for _ in range(2):
        with pytest.raises(ForbiddenError):
            await reconcile_work(Key("web-work", SPACE), cluster.hub, member(cluster.member), cluster.time)
        versions.append(cluster.hub.resource_version)
    assert versions[0] == versions[1]
    assert (await cluster.conditions())["Removed"] == ("False", "ForbiddenByMember")
    (found,) = [each for each in (await cluster.work())["status"]["conditions"] if each["type"] == "Removed"]
    assert found["message"] == "Work web-work: the agent may not remove its content: appliedworks is forbidden"
    assert (await cluster.reconcile()).gone


async def test_any_number_of_finalizers_fits_into_the_status_of_a_work(cluster):
    await cluster.place(namespace(), config_map())
    await cluster.reconcile()
    owner = await cluster.member.get(APPLIED_WORK, Key("web-work"))
    await cluster.member.replace(APPLIED_WORK, with_finalizer(owner, "example.com/hold"))
    live = await cluster.live(CONFIG_MAP, "settings")
    held = [f"example.com/{number:0>60}" for number in range(600)]
    await cluster.edit(CONFIG_MAP, "settings", metadata={**live["metadata"], "finalizers": held})
    await cluster.member.delete(CONFIG_MAP, Key("settings", "web"))
    await cluster.remove()
    await cluster.reconcile()
    (found,) = [each for each in (await cluster.work())["status"]["conditions"] if each["type"] == "Removed"]
    assert found["message"].startswith("ConfigMap web/settings: finalizer example.com/0")
    assert len(found["message"]) <= 32768, "what the schema allows"


class WithoutBooks(ObservedStore):
    """The member after its ClusterRole has lost the status of AppliedWorks."""

    async def replace_status(self, kind, document):
        raise ForbiddenError(f"{kind.plural}/status is forbidden")


class WithoutLists(ObservedStore):
    """The member after its ClusterRole has lost the lists of AppliedWorks."""

    async def list(self, kind, namespace=None, labels=None):
        raise ForbiddenError(f"{kind.plural} is forbidden")


@pytest.mark.parametrize("member", [Unprivileged, WithoutBooks, WithoutLists])
async def test_a_work_says_that_the_agent_has_lost_its_rights_on_the_member_and_keeps_its_books(cluster, member):
    await cluster.place(namespace(), config_map(), config_map("gone"), namespace("extra"))
    await cluster.reconcile()
    await cluster.place(namespace(), config_map())
    entries = (await cluster.work())["status"]["manifestConditions"]
    versions = []
    for _ in range(2):
        with pytest.raises(ForbiddenError):
            await reconcile_work(Key("web-work", SPACE), cluster.hub, member(cluster.member), cluster.time)
        versions.append(cluster.versions)
    assert versions[0] == versions[1]
    assert await cluster.conditions() == {"Applied": ("False", "ForbiddenByMember")}
    assert (await cluster.work())["status"]["manifestConditions"] == entries
    await cluster.reconcile()
    assert (await cluster.conditions())["Applied"] == ("True", "AllManifestsApplied")
