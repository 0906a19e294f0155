"""Content that placements would lose by one write, by the rules that the loop applies after the write (RC-19).

Of the objects that placements select, the cache has only Namespaces. The selection is therefore repeated over the
placed content, with and without the write. The difference is the content that leaves.

Source: docs/specifications/removal.md 10.
"""

from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from scorer.api.family import CLUSTER, FAMILIES, FAMILY_OF, NAMESPACED, Family
from scorer.api.kinds import (
    CUSTOM_RESOURCE_DEFINITION,
    KINDS,
    MEMBER_CLUSTER,
    NAMESPACE,
    NODE_POOL,
    VOLUME_CLAIM,
    Kind,
    group_kind,
)
from scorer.api.meta import JsonObject, format_time, json_equal
from scorer.api.names import PARENT_PLACEMENT
from scorer.api.unstructured.documents import (
    PLACED_CONTENT,
    dict_at,
    dicts_at,
    is_deleting,
    label,
    labels_of,
    name_of,
    namespace_of,
    placed_in,
    placed_of,
    text_at,
    uid_of,
)
from scorer.rollout.bindings import PendingReason, PendingRemoval
from scorer.rollout.confirmation.clusters import (
    ClusterFacts,
    DroppedCluster,
    cluster_item,
    clusters_held,
    judge_clusters,
)
from scorer.rollout.confirmation.deletion import DeletionVerdict, has_content, judge_deletion, placement_item
from scorer.rollout.confirmation.digests import (
    ConfirmableGroup,
    Confirmation,
    RemovalEffect,
    RemovalItem,
    confirmable_groups,
    rolled_up_digest,
)
from scorer.rollout.confirmation.exemption import Exemptions
from scorer.rollout.confirmation.member_contents import (
    NamespaceCounts,
    describe_contents,
    leaving_namespaces,
    member_contents,
    namespace_counts,
)
from scorer.rollout.confirmation.objects import ObjectFacts, judge_objects
from scorer.rollout.confirmation.policy import ConfirmationMode, RemovalPolicy
from scorer.rollout.confirmation.sources import sources_of
from scorer.rollout.object_size import ObjectIdentity, object_identity
from scorer.rollout.removal.marks import is_marked_for_removal
from scorer.rollout.selection.selector import DocumentInventory, InvalidSelection, select_resources
from scorer.rollout.snapshots.groups import SnapshotGroup, placed_group, selected_resources, snapshot_groups
from webhook.admission.impact import changes_policy, planned_clusters
from webhook.validation.framework.context import Context, OutOfTimeError, UnknownStateError
from webhook.validation.framework.relations import children, cluster_of, holds_cluster
from webhook.validation.live.check import timed

PASSING_USERS: Final = (
    "system:kube-controller-manager",
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:serviceaccount:kube-system:namespace-controller",
)
"""Controllers of Kubernetes. They finish deletions that users have started, so a refusal would prevent nothing."""


@dataclass(frozen=True, slots=True)
class PlacementLoss:
    """Content that one placement loses.

    Args:
        owner: The placement, or the NodePool, whose annotation confirms it.
        pending: Items that need confirmation.
        warned: Items that leave with a warning.
        clusters: Clusters that lose content.
        orphaned: Whether the content remains on the clusters, and is no longer managed.
        batch: All placed objects of the kind and namespace, for the deletion of a collection: one digest confirms them.
        contents: Volume claims and other objects that are deleted with namespaces, in words, by digest.
    """

    owner: JsonObject
    pending: tuple[RemovalItem, ...] = ()
    warned: tuple[RemovalItem, ...] = ()
    clusters: tuple[str, ...] = ()
    orphaned: bool = False
    batch: tuple[RemovalItem, ...] = ()
    contents: Mapping[str, str] = field(default_factory=dict)

    @property
    def ref(self) -> str:
        """Reference of the owner in commands, such as ``crp/payments`` or ``nodepool/general``."""
        family = FAMILY_OF.get(group_kind(self.owner)[1])
        return str(family.ref(self.owner)) if family else f"nodepool/{name_of(self.owner)}"

    @property
    def groups(self) -> tuple[ConfirmableGroup, ...]:
        """The groups to confirm, each with its digest."""
        uid, batch = uid_of(self.owner), {item.identity for item in self.batch}
        others = confirmable_groups(uid, (item for item in self.pending if item.identity not in batch))
        return (*([ConfirmableGroup(rolled_up_digest(uid, self.batch), self.batch)] if batch else ()), *others)


def removal_losses(
    request: JsonObject, context: Context, owners: Mapping[str, JsonObject] | None = None
) -> tuple[PlacementLoss, ...]:
    """Return the content that placements lose by a write, according to the cache.

    Empty for writes of the loop and of `PASSING_USERS`, and for an object that is already being deleted. Losses that
    cannot be determined now are left out: the loop judges what is stored.

    Args:
        request: Request of a review, unchecked.
        context: The hub, the user and the policy.
        owners: Newer versions of placements, by uid.
    """
    old, document = request.get("oldObject"), request.get("object")
    operation = request.get("operation")
    if operation not in ("UPDATE", "DELETE") or not isinstance(old, dict):
        return ()
    if request.get("subResource") and group_kind(old) != NAMESPACE.group_kind:
        return ()
    judge = _JUDGES.get(group_kind(old))
    if judge is None or context.is_ours or is_deleting(old):
        return ()
    if context.user.username in PASSING_USERS:
        return ()
    after = document if operation == "UPDATE" and isinstance(document, dict) else None
    if operation == "UPDATE" and (after is None or group_kind(after) != group_kind(old)):
        return ()  # no API server sends such a review: the verdict on the object refuses it
    write = _Write(old, after, context.started(), owners or {}, in_batch=after is None and not request.get("name"))
    losses: list[PlacementLoss] = []
    try:
        losses.extend(loss for loss in judge(write) if loss.pending or loss.warned or loss.orphaned)
    except (UnknownStateError, OutOfTimeError):
        pass  # the loop judges what is stored
    except Exception as error:  # noqa: BLE001 - an object that cannot be read must not block writes
        context.on_failure("removal_losses", error)
    return tuple(replace(loss, contents=_on_members(loss, context)) if loss.pending else loss for loss in losses)


def _on_members(loss: PlacementLoss, context: Context) -> dict[str, str]:
    losses = {}
    for group in loss.groups:
        if namespaces := leaving_namespaces(loss.owner, group.items):
            dropped = sorted({item.cluster for item in group.items if item.cluster})
            counts = (_counts(cluster, context) for cluster in dropped or loss.clusters)
            losses[group.digest] = describe_contents(member_contents(namespaces, counts), context.now)
    return losses


def _counts(cluster: str, context: Context) -> NamespaceCounts | None:
    try:
        return namespace_counts(context.hub.get(MEMBER_CLUSTER, cluster))
    except UnknownStateError:
        return None


@dataclass(frozen=True, slots=True)
class _Write:
    """One write.

    Args:
        old: The stored object.
        new: The object after it. None if it is deleted.
        context: The hub.
        owners: Newer versions of placements, by uid.
        in_batch: Whether it is one of the deletions of a collection.
    """

    old: JsonObject
    new: JsonObject | None
    context: Context
    owners: Mapping[str, JsonObject]
    in_batch: bool = False

    def fresh(self, placement: JsonObject) -> JsonObject:
        """Return the newest known version of a placement."""
        return self.owners.get(uid_of(placement), placement)

    def policy(self, placement: JsonObject) -> RemovalPolicy:
        """Return the removal policy of a placement."""
        return self.context.settings.removal.of(placement)

    def namespace(self, name: str) -> JsonObject | None:
        """Return a Namespace as it is after the write, or None if it does not exist."""
        if group_kind(self.old) == NAMESPACE.group_kind and name == name_of(self.old):
            return self.new or _ending(self.old, self.context)
        return self.context.hub.get(NAMESPACE, name)


def _ending(document: JsonObject, context: Context) -> JsonObject:
    metadata = {**document["metadata"], "deletionTimestamp": format_time(context.now)}
    return {**document, "metadata": metadata}


def _of_placement(write: _Write) -> Iterator[PlacementLoss]:
    """Yield the content that a placement loses by its own deletion or edit."""
    if write.new is None:
        yield _of_deletion(write.fresh(write.old), write)
        return
    placement, policy = write.new, write.policy(write.new)
    if policy.is_off:
        return
    pending: list[RemovalItem] = []
    clusters: Sequence[str] = ()
    terms = ("spec", "resourceSelectors")
    if not json_equal(dicts_at(write.old, *terms), dicts_at(placement, *terms)):
        loss = _of_content(placement, write, dicts_at(write.old, *terms), lambda contents: contents)
        pending, clusters = [*pending, *loss.pending], loss.clusters
    if changes_policy(placement, write.old):
        dropped = _of_clusters(placement, policy, write.context)
        pending, clusters = [*pending, *dropped.pending], sorted({*clusters, *dropped.clusters})
    yield PlacementLoss(placement, tuple(pending), (), tuple(clusters))  # X-26 warns of the rest


def _of_deletion(placement: JsonObject, write: _Write) -> PlacementLoss:
    """Return the content that a placement loses when it is deleted, alone or with its Namespace."""
    context, policy = write.context, write.policy(placement)
    if policy.is_off:
        return PlacementLoss(placement)
    family = FAMILY_OF[str(placement.get("kind"))]
    name, namespace = name_of(placement), namespace_of(placement)
    groups = snapshot_groups(children(family.resource_snapshot, name, namespace, context))
    exempt = Exemptions.of(placement, groups, policy, write.namespace, context.now).covers_all()
    home = write.namespace(namespace) if namespace else None
    bindings = children(family.binding, name, namespace, context)
    snapshots = children(family.policy_snapshot, name, namespace, context)
    judged = judge_deletion(placement, bindings, policy, home, context.now, exempt=exempt, snapshots=snapshots)
    item = (placement_item(placement),)
    return PlacementLoss(
        placement,
        item if judged.verdict is DeletionVerdict.PENDING else (),
        item if judged.warned else (),
        judged.clusters,
        orphaned=judged.verdict is DeletionVerdict.ABANDONED and bool(judged.clusters),
    )


_Contents = list[JsonObject]


def _of_content(
    placement: JsonObject, write: _Write, terms: Sequence[JsonObject], change: Callable[[_Contents], _Contents]
) -> PlacementLoss:
    """Return the objects that leave a placement.

    Args:
        placement: The placement after the write.
        write: The write.
        terms: Selectors of the placement before the write.
        change: Returns the placed content as the write leaves it on the hub.
    """
    context, policy = write.context, write.policy(placement)
    if policy.is_off:
        return PlacementLoss(placement)
    family, namespace = FAMILY_OF[str(placement.get("kind"))], namespace_of(placement)
    clusters = _clusters_with_content(family, placement, context)
    groups = snapshot_groups(children(family.resource_snapshot, name_of(placement), namespace, context))
    base = placed_group(groups)
    if base is None or not clusters:
        return PlacementLoss(placement)
    contents, uids = _selected_before(base)
    changed = change(contents)
    before = _selection(terms, namespace, contents, context)
    after = _selection(dicts_at(placement, "spec", "resourceSelectors"), namespace, changed, context)
    if before is None or after is None:
        return PlacementLoss(placement)  # an invalid selection keeps the content that is placed
    lost = before - after
    if not lost:  # fast path: most edits of labels remove nothing from clusters
        return PlacementLoss(placement)
    remaining = [content for content in changed if object_identity(content) not in lost]
    facts = ObjectFacts(policy, placement, remaining, uids, groups, write.namespace, context.now)
    judged = judge_objects(facts)
    pending = judged.pending
    if pending:
        earlier = judge_objects(replace(facts, selected=contents)).pending
        digests = {item.digest(uid_of(placement)) for item in earlier}
        pending = tuple(item for item in pending if item.digest(uid_of(placement)) not in digests)
    batch = _batch(uids, write) if write.in_batch and pending else ()
    return PlacementLoss(placement, pending, judged.warned, clusters, batch=batch)


def _selected_before(base: SnapshotGroup) -> tuple[_Contents, dict[ObjectIdentity, str]]:
    """Return the placed objects that are still selected, and their uids on the hub."""
    contents, uids = [], {}
    for document in base.documents:
        for content, source in zip(selected_resources(document), sources_of(document), strict=True):
            if source.since is None:
                data = content.get("data")
                if source.keys and isinstance(data, dict):
                    content = {**content, "data": {key: data[key] for key in data if key not in source.keys}}
                contents.append(content)
                uids[object_identity(content)] = source.uid
    return contents, uids


def _selection(
    terms: Sequence[JsonObject], namespace: str, contents: _Contents, context: Context
) -> frozenset[ObjectIdentity] | None:
    """Return the objects among *contents* that selectors select. None: unknown, because the selectors are invalid."""
    served: Mapping[tuple[str, str], Kind] = ChainMap(dict(KINDS), dict(context.kinds.custom))
    selection = select_resources(terms, namespace, DocumentInventory(contents), served)
    if isinstance(selection, InvalidSelection):
        return None
    return frozenset(map(object_identity, selection.objects))


def _batch(uids: Mapping[ObjectIdentity, str], write: _Write) -> tuple[RemovalItem, ...]:
    kind = (*group_kind(write.old), namespace_of(write.old))
    items = (RemovalItem(RemovalEffect.OBJECT, identity, uid) for identity, uid in uids.items() if identity[:3] == kind)
    return tuple(sorted(items))


def _clusters_with_content(family: Family, placement: JsonObject, context: Context) -> tuple[str, ...]:
    bindings = children(family.binding, name_of(placement), namespace_of(placement), context)
    return tuple(
        sorted(
            {cluster_of(binding) for binding in bindings if has_content(binding) and not is_marked_for_removal(binding)}
        )
    )


def _of_clusters(placement: JsonObject, policy: RemovalPolicy, context: Context) -> PlacementLoss:
    """Return the content of the clusters that the policy drops after the write."""
    family, name, namespace = FAMILY_OF[str(placement.get("kind"))], name_of(placement), namespace_of(placement)
    if text_at(placement, "spec", "strategy", "type") == "External":
        return PlacementLoss(placement)
    bindings = children(family.binding, name, namespace, context)
    bound = [binding for binding in bindings if holds_cluster(binding) and has_content(binding)]
    if not bound:
        return PlacementLoss(placement)
    planned = planned_clusters(placement, context)
    members = context.hub.fleet
    waiting = [DroppedCluster(binding, pending) for binding in bindings if (pending := PendingRemoval.of(binding))]
    current = {cluster_of(binding) for binding in bindings if holds_cluster(binding)}
    dropped = [
        DroppedCluster(binding)
        for binding in bound
        if cluster_of(binding) not in planned
        and (member := members.member(cluster_of(binding))) is not None
        and member.metadata.deletion_timestamp is None
    ]
    if not dropped:
        return PlacementLoss(placement)
    snapshots = children(family.policy_snapshot, name, namespace, context)
    facts = ClusterFacts(
        policy,
        uid_of(placement),
        (*waiting, *dropped),
        frozenset(current & planned),
        dict.fromkeys(planned - current, True),  # none is yet, but the loop waits for that without confirmation
        clusters_held(snapshots, context.now, policy.window),
        Confirmation.of(placement, context.now),
        context.now,
    )
    judged = judge_clusters(facts)
    unconfirmed = {name for name, pending in judged.pending.items() if pending.reason is PendingReason.CONFIRMATION}
    items = tuple(
        sorted(cluster_item(cluster.binding) for cluster in dropped if name_of(cluster.binding) in unconfirmed)
    )
    return PlacementLoss(placement, items, (), tuple(sorted(cluster.cluster for cluster in dropped)))


def _of_hub_object(write: _Write) -> Iterator[PlacementLoss]:
    """Yield the content that placements lose by a write of an object that they place."""
    kind = group_kind(write.old)
    is_namespace = kind == NAMESPACE.group_kind
    if write.new is not None:
        fields = labels_of if is_namespace else _data
        if kind not in _JUDGED_UPDATES or json_equal(fields(write.old), fields(write.new)):
            return
    for placement in _placements_of(write):
        terms = dicts_at(placement, "spec", "resourceSelectors")
        if is_namespace and write.new is not None and _is_selected_alike(terms, write.old, write.new):
            continue
        yield _of_content(placement, write, terms, lambda contents: [*_after(write, contents)])
    if is_namespace and write.new is None:
        for placement in write.context.hub.list(NAMESPACED.placement, name_of(write.old)):
            if not is_deleting(placement):
                yield _of_deletion(write.fresh(placement), write)


def _is_selected_alike(terms: Sequence[JsonObject], old: JsonObject, new: JsonObject) -> bool:
    """Return whether selectors select a Namespace both before and after an update, or neither time.

    Fast path: the labels of a Namespace have no other effect on placed content, so the selection need not be repeated.
    """
    spaces = [term for term in terms if (term.get("group") or "", term.get("kind")) == NAMESPACE.group_kind]
    if not any(term.get("labelSelector") for term in spaces):
        return True
    served = {NAMESPACE.group_kind: NAMESPACE}
    before, after = (select_resources(spaces, "", DocumentInventory([document]), served) for document in (old, new))
    if isinstance(before, InvalidSelection) or isinstance(after, InvalidSelection):
        return False
    return before.uids.keys() == after.uids.keys()


def _data(document: JsonObject) -> JsonObject:
    return dict_at(document, "data")


def _after(write: _Write, contents: Iterable[JsonObject]) -> Iterator[JsonObject]:
    """Yield placed objects as the write leaves them on the hub."""
    changed = object_identity(write.old)
    for content in contents:
        identity = object_identity(content)
        if identity == changed and write.new is not None:
            if identity[:2] == NAMESPACE.group_kind:
                yield {**content, "metadata": {**content["metadata"], "labels": labels_of(write.new)}}
            else:
                yield {**content, "data": _data(write.new)}
        elif identity != changed and not (write.new is None and _ends_with(write.old, identity)):
            yield content


def _ends_with(deleted: JsonObject, identity: ObjectIdentity) -> bool:
    """Return whether an object is deleted with another one: its Namespace, or its definition."""
    kind = group_kind(deleted)
    if kind == NAMESPACE.group_kind:
        return identity[2] == name_of(deleted)
    defined = text_at(deleted, "spec", "group"), text_at(deleted, "spec", "names", "kind")
    return kind == CUSTOM_RESOURCE_DEFINITION.group_kind and identity[:2] == defined


def _placements_of(write: _Write) -> Iterator[JsonObject]:
    """Yield the placements that place the written object, or objects that are deleted with it."""
    old, hub = write.old, write.context.hub
    namespace = name_of(old) if group_kind(old) == NAMESPACE.group_kind else namespace_of(old)
    values = [placed_in(namespace)] if namespace else [placed_of(*group_kind(old))]
    if group_kind(old) == CUSTOM_RESOURCE_DEFINITION.group_kind:
        values.append(placed_of(text_at(old, "spec", "group"), text_at(old, "spec", "names", "kind")))
    families: dict[tuple[str, str], Family] = {}
    for family, home in ((CLUSTER, ""), (NAMESPACED, namespace_of(old))):
        if family is NAMESPACED and not home:
            continue
        for value in values:
            for snapshot in timed(hub.labelled(family.resource_snapshot, PLACED_CONTENT, value, home), write.context):
                families[label(snapshot, PARENT_PLACEMENT), home] = family
    for (name, home), family in sorted(families.items(), key=lambda entry: entry[0]):
        placement = hub.get(family.placement, name, home)
        if placement is not None and not is_deleting(placement):
            yield write.fresh(placement)


def _of_node_pool(write: _Write) -> Iterator[PlacementLoss]:
    """Yield the nodes of a NodePool that is deleted. Its own annotation confirms that."""
    pool, policy = write.old, write.policy(write.old)
    nodes = dict_at(pool, "status", "resources").get("nodes")
    if write.new is not None or policy.node_pool is ConfirmationMode.OFF or str(nodes or "0") == "0":
        return
    item = RemovalItem(RemovalEffect.NODE_POOL, (*NODE_POOL.group_kind, "", name_of(pool)), uid_of(pool))
    if item.digest(uid_of(pool)) in Confirmation.of(pool, write.context.now).digests:
        return
    is_asked = policy.node_pool is ConfirmationMode.CONFIRM
    yield PlacementLoss(pool, (item,) if is_asked else (), () if is_asked else (item,))


_JUDGES: Final[Mapping[tuple[str, str], Callable[[_Write], Iterator[PlacementLoss]]]] = {
    **{family.placement.group_kind: _of_placement for family in FAMILIES},
    **{family.envelope.group_kind: _of_hub_object for family in FAMILIES},
    NAMESPACE.group_kind: _of_hub_object,
    VOLUME_CLAIM.group_kind: _of_hub_object,
    CUSTOM_RESOURCE_DEFINITION.group_kind: _of_hub_object,
    NODE_POOL.group_kind: _of_node_pool,
}
_JUDGED_UPDATES: Final = frozenset({NAMESPACE.group_kind, *(family.envelope.group_kind for family in FAMILIES)})
