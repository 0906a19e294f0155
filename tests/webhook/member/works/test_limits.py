"""What an agent applies and removes at all, whatever a Work holds."""

import pytest

from scorer.api.kinds import APPLIED_WORK, CUSTOM_RESOURCE_DEFINITION, KINDS, NAMESPACE, WORK
from scorer.api.names import PARENT_PLACEMENT_NAMESPACE, WORK_OBJECTS
from scorer.rollout.envelopes import EnvelopeKey
from scorer.rollout.removal.marks import objects_digest, with_removal_mark
from scorer.rollout.selection.exclusions import MemberLimits, parse_kind_rules
from tests.webhook.member.hub_and_member import SPACE, Cluster, config_map, namespace
from webhook.embedded.simulation.member_stores import ObservedStore
from webhook.kube.ports import Key
from webhook.member.works.reconciler import reconcile_work

CONFIG_MAP = KINDS["", "ConfigMap"]
OPEN = MemberLimits("", (), ())
"""Of an agent from before."""


@pytest.fixture
async def cluster():
    made = Cluster()
    await made.hub.create(NAMESPACE, namespace(SPACE))
    for name in ("agents", "kube-system", "shop"):
        await made.member.create(NAMESPACE, namespace(name))
    yield made
    made.hub.close()
    made.member.close()


async def apply(cluster, limits):
    return await reconcile_work(
        Key("web-work", SPACE), cluster.hub, ObservedStore(cluster.member), cluster.time, limits=limits
    )


async def order(cluster):
    """Have the loop delete the Work."""
    work = await cluster.work()
    await cluster.hub.replace(WORK, with_removal_mark(work))
    await cluster.hub.delete(WORK, Key("web-work", SPACE))


async def sign(cluster):
    """Have the loop sign what the Work holds."""
    work = await cluster.work()
    digest = objects_digest(work["spec"]["workload"]["manifests"])
    metadata = {**work["metadata"], "annotations": {WORK_OBJECTS: digest}}
    await cluster.hub.replace(WORK, {**work, "metadata": metadata})


def definition(name):
    plural, _, group = name.partition(".")
    names = {"kind": "AppliedWork", "plural": plural}
    spec = {"group": group, "scope": "Cluster", "names": names, "versions": [{"name": "v1", "served": True}]}
    metadata = {"name": name}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": spec,
    }


OURS = definition("appliedworks.placement.kubernetes-fleet.io")
LIMITS = MemberLimits("agents")


async def test_what_is_the_fleets_own_and_what_is_blocked_is_refused_by_name_and_the_rest_applied(cluster):
    before = {kind: (await cluster.member.list(kind)).items for kind in (NAMESPACE, CUSTOM_RESOURCE_DEFINITION)}
    refused = [
        OURS,
        namespace("agents"),
        namespace("kube-system"),
        config_map("note", "agents"),
        config_map("note", "kube-system"),
        namespace("fleet-member-lion"),
        {"apiVersion": "upgrade.harbormaster.dev/v1alpha1", "kind": "ClusterUpgradeRun", "metadata": {"name": "run"}},
    ]
    await cluster.place(*refused, config_map("cart", "shop"))
    await apply(cluster, LIMITS)
    assert await cluster.reasons() == [*["RefusedByAgent"] * len(refused), "Applied"]
    assert await cluster.message(0) == (
        "CustomResourceDefinition appliedworks.placement.kubernetes-fleet.io defines a kind of the fleet: the agent "
        "leaves it alone"
    )
    assert (await cluster.conditions())["Applied"] == ("False", "SomeManifestsAreNotApplied")
    assert before == {kind: (await cluster.member.list(kind)).items for kind in before}


async def test_only_allowed_kinds_are_applied(cluster):
    await cluster.place(namespace("more"), config_map("cart", "shop"))
    await apply(cluster, MemberLimits(allowed_kinds=parse_kind_rules("v1/ConfigMap")))
    assert await cluster.reasons() == ["RefusedByAgent", "Applied"]


@pytest.mark.parametrize("how", ["the-work-ends", "no-longer-held", "still-held"])
@pytest.mark.parametrize(
    ("limits", "kind", "manifest"),
    [
        pytest.param(LIMITS, CUSTOM_RESOURCE_DEFINITION, OURS, id="definition"),
        pytest.param(LIMITS, NAMESPACE, namespace("agents"), id="own-namespace"),
        pytest.param(LIMITS, CONFIG_MAP, config_map("note", "kube-system"), id="blocked-namespace"),
        pytest.param(
            MemberLimits(allowed_kinds=parse_kind_rules("v1/Namespace")),
            CONFIG_MAP,
            config_map("note", "shop"),
            id="kind-not-allowed",
        ),
    ],
)
async def test_what_an_agent_of_before_has_applied_stays_and_is_not_ours_any_more(cluster, how, limits, kind, manifest):
    """Else it would go with the AppliedWork that owns it."""
    await cluster.place(manifest, config_map("cart", "shop"))
    await apply(cluster, OPEN) if manifest is not OURS else await applied_by_hand(cluster)
    if how == "the-work-ends":
        await order(cluster)
    elif how == "no-longer-held":
        await cluster.place(config_map("cart", "shop"))
        await sign(cluster)
    await apply(cluster, limits)
    key = Key(manifest["metadata"]["name"], manifest["metadata"].get("namespace", ""))
    live = await cluster.member.get(kind, key)
    assert not live["metadata"].get("ownerReferences")
    assert not live["metadata"].get("deletionTimestamp")
    if how == "the-work-ends":
        assert (await cluster.member.list(APPLIED_WORK)).items == ()


CLASS = KINDS["scheduling.k8s.io", "PriorityClass"]
STRAY = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "urgent", "namespace": "shop"},
    "value": 1000,
}
"""The member serves its kind without namespaces; a hub that does not serve the kind cannot know."""
OF_RESOURCE_PLACEMENT = {PARENT_PLACEMENT_NAMESPACE: "shop"}
OF_RESOURCE_ENVELOPE = EnvelopeKey("ResourceEnvelope", "shop", "box").labels()
OF_CLUSTER_ENVELOPE = EnvelopeKey("ClusterResourceEnvelope", "", "box").labels()


async def label(cluster, labels):
    work = await cluster.work()
    await cluster.hub.replace(WORK, {**work, "metadata": {**work["metadata"], "labels": labels}})


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        pytest.param(OF_RESOURCE_PLACEMENT, "RefusedByAgent", id="resource-placement"),
        pytest.param(OF_RESOURCE_ENVELOPE, "RefusedByAgent", id="resource-envelope"),
        pytest.param(OF_CLUSTER_ENVELOPE, "Applied", id="cluster-envelope"),
        pytest.param({}, "Applied", id="cluster-placement"),
    ],
)
@pytest.mark.parametrize("named", [True, False], ids=["names-a-namespace", "names-none"])
async def test_what_comes_from_a_namespace_becomes_nothing_of_the_cluster(cluster, labels, reason, named):
    """Elsewhere a stray namespace is dropped: charts often render one."""
    metadata = STRAY["metadata"] if named else {"name": "urgent"}
    await cluster.place({**STRAY, "metadata": metadata}, config_map("cart", "shop"))
    await label(cluster, labels)
    await apply(cluster, LIMITS)
    assert await cluster.reasons() == [reason, "Applied"]
    assert len((await cluster.member.list(CLASS)).items) == (reason == "Applied")
    if reason != "Applied":
        assert "is cluster-scoped on the member and comes from a namespace of the hub" in await cluster.message(0)


@pytest.mark.parametrize("labels", [OF_RESOURCE_PLACEMENT, OF_RESOURCE_ENVELOPE], ids=["placement", "envelope"])
@pytest.mark.parametrize("how", ["still-held", "no-longer-held", "the-work-ends"])
async def test_what_an_earlier_agent_made_of_it_is_released_and_reported(cluster, labels, how):
    await cluster.place(STRAY, config_map("cart", "shop"))
    await apply(cluster, LIMITS)  # without labels the Work is not confined, as to an earlier agent
    await label(cluster, labels)
    if how == "the-work-ends":
        await order(cluster)
    elif how == "no-longer-held":
        await cluster.place(config_map("cart", "shop"))
    await apply(cluster, LIMITS)
    live = await cluster.member.get(CLASS, Key("urgent"))
    assert not live["metadata"].get("ownerReferences")
    assert not live["metadata"].get("deletionTimestamp")
    if how == "still-held":
        assert await cluster.reasons() == ["RefusedByAgent", "Applied"]


async def applied_by_hand(cluster):
    """Have the member hold the definition of AppliedWork as an agent of before has applied it."""
    await apply(cluster, OPEN)
    owner = await cluster.member.get(APPLIED_WORK, Key("web-work"))
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": "web-work",
        "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": True,
    }
    made = {**OURS, "metadata": {**OURS["metadata"], "ownerReferences": [reference]}}
    await cluster.member.create(CUSTOM_RESOURCE_DEFINITION, made)
    entry = {
        "ordinal": 0,
        "group": "apiextensions.k8s.io",
        "version": "v1",
        "kind": "CustomResourceDefinition",
        "name": OURS["metadata"]["name"],
    }
    resources = [entry, *(owner["status"]["appliedResources"])]
    await cluster.member.replace_status(APPLIED_WORK, {**owner, "status": {"appliedResources": resources}})
