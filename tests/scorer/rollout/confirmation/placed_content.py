"""A placement, its selections and its resource snapshots, for tests of the confirmation of removals."""

from datetime import UTC, datetime, timedelta

from scorer.api.names import CARRIED_OUT, CONFIRM_REMOVAL, EXEMPT_SINCE, REMOVAL_CONFIRMATION
from scorer.rollout.confirmation.digests import CarriedOut, Confirmation, RemovalEffect, RemovalItem
from scorer.rollout.confirmation.objects import ObjectFacts, judge_objects
from scorer.rollout.confirmation.policy import RemovalPolicy
from scorer.rollout.confirmation.sources import ObjectSource, format_sources
from scorer.rollout.object_size import object_identity
from scorer.rollout.snapshots.groups import SnapshotGroup

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
UID = "u-placement"
DEFAULTS = RemovalPolicy()


def make_object(name, kind="ConfigMap", namespace="shop", group="", labels=None, **fields):
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    if labels:
        metadata["labels"] = labels
    return {"apiVersion": f"{group}/v1" if group else "v1", "kind": kind, "metadata": metadata, **fields}


def make_namespace(name="shop", labels=None):
    return make_object(name, "Namespace", "", labels=labels)


def make_envelope(name, *contents, kind="ResourceEnvelope"):
    data = {content["metadata"]["name"]: content for content in contents}
    namespace = "shop" if kind == "ResourceEnvelope" else ""
    return make_object(name, kind, namespace, "placement.kubernetes-fleet.io", data=data)


def config_maps(count, start=0):
    return [make_object(f"c{number:03}") for number in range(start, start + count)]


def make_group(index, objects, created=NOW - 10 * HOUR, sources=None):
    object_sources = {object_identity(content): ObjectSource(uid(content)) for content in objects} | dict(sources or {})
    annotations = {
        "harbormaster.dev/sources": format_sources(object_sources, objects),
        "kubernetes-fleet.io/number-of-resource-snapshots": "1",
        "kubernetes-fleet.io/resource-hash": f"hash-{index}",
    }
    labels = {"kubernetes-fleet.io/is-latest-snapshot": "true", "kubernetes-fleet.io/resource-index": str(index)}
    metadata = {
        "name": f"shop-{index}-snapshot",
        "labels": labels,
        "annotations": annotations,
        "creationTimestamp": created.isoformat(),
    }
    return SnapshotGroup(index, {"metadata": metadata, "spec": {"selectedResources": list(objects)}})


def uid(content):
    return f"uid-{content['kind']}-{content['metadata']['name']}"


def make_placement(confirm="", carried_out="", setting="", namespace="", exempt_since=""):
    annotations = {
        CONFIRM_REMOVAL: confirm,
        CARRIED_OUT: carried_out,
        REMOVAL_CONFIRMATION: setting,
        EXEMPT_SINCE: exempt_since,
    }
    annotations = {key: value for key, value in annotations.items() if value}
    kind = "ResourcePlacement" if namespace else "ClusterResourcePlacement"
    metadata = {"name": "shop", "uid": UID, "annotations": annotations}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": "placement.kubernetes-fleet.io/v1", "kind": kind, "metadata": metadata, "spec": {}}


def item_of(content, source=None):
    return RemovalItem(RemovalEffect.OBJECT, object_identity(content), uid(source or content))


def confirm(*digests, expiry=NOW + HOUR):
    return Confirmation(frozenset(digests), expiry).format()


def carried_out(*digests, index="", expiry=NOW + HOUR):
    return CarriedOut().with_digests(digests, expiry, str(index)).format()


def judge(placed, selected, *, placement=None, namespaces=(), policy=DEFAULTS, now=NOW):
    """Judge a selection against snapshot groups, or against objects placed long ago."""
    groups = placed if placed and isinstance(placed[0], SnapshotGroup) else [make_group(0, placed)]
    placement = placement or make_placement()
    namespace_by_name = {content["metadata"]["name"]: content for content in namespaces}
    uids = {object_identity(content): uid(content) for content in selected}
    facts = ObjectFacts(policy.of(placement), placement, selected, uids, groups, namespace_by_name.get, now)
    return judge_objects(facts)


def names(judgement):
    return [content["metadata"]["name"] for content in judgement.objects]
