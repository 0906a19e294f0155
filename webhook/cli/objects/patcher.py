"""Creates and patches objects as ``kubectl apply`` does: three-way merge, last applied configuration, dry run.

kubectl's own annotation records the file as last applied. So a field that was removed from the file is removed from the
object, fields of other clients are kept, and users can apply the same object with kubectl and harbormaster in turn.

Source: Kubernetes ``kubectl apply``, three-way JSON merge patch.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from scorer.api.kinds import MEMBER_CLUSTER, UPGRADE_RUN
from scorer.api.unstructured.documents import annotation, annotations_of, metadata_of
from scorer.api.unstructured.json_object import JsonObject, dump_json, json_equal
from webhook.cli.files.documents import Loaded, in_order_of_dependence
from webhook.cli.hub.client import Client, HubRefusedError, HubResponse, ResourcePath, find, place_of
from webhook.cli.objects.options import DryRun
from webhook.cli.options.field_validation import Validation
from webhook.embedded.simulation.annotations import parse_behaviour, status_in_annotation
from webhook.kube.listers.upgrades import has_joined

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_ARRIVAL_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 0.05
_SET_BY_HUB: Final = frozenset(
    {
        *("uid", "resourceVersion", "generation", "creationTimestamp", "selfLink", "managedFields"),
        *("deletionTimestamp", "deletionGracePeriodSeconds"),
    }
)


@dataclass(frozen=True, slots=True)
class ApplyOutcome:
    """Outcome of applying one object.

    Args:
        loaded: The object as read.
        action: ``created``, ``configured``, ``unchanged``, or ``kept`` if it was edited on the hub and left alone.
            Empty if refused.
        warnings: The hub's warnings.
        refusal: Reason for a refusal. None: not refused.
        live: The object as the hub stores it, or would after a dry run. None: unknown, as for a refused object or a
            client dry run.
    """

    loaded: Loaded
    action: str = ""
    warnings: tuple[str, ...] = ()
    refusal: HubRefusedError | None = None
    live: JsonObject | None = None


def request_document(document: JsonObject, *, simulated: bool = True) -> JsonObject:
    """Return the request body: without fields that only the hub sets, and with the annotation that records the file.

    The status of a simulated member is sent in an annotation.

    Args:
        document: The object as in the file.
        simulated: Whether the hub simulates its members.
    """
    document = status_in_annotation(document) if simulated else document
    metadata = {name: value for name, value in document["metadata"].items() if name not in _SET_BY_HUB}
    annotations = {name: text for name, text in (metadata.get("annotations") or {}).items() if name != LAST_APPLIED}
    if annotations or "annotations" in metadata:
        metadata["annotations"] = annotations
    body = {name: value for name, value in document.items() if name != "status"}
    body["metadata"] = metadata
    text = json.dumps(json.loads(dump_json(body)), sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n"
    return {**body, "metadata": {**metadata, "annotations": {**annotations, LAST_APPLIED: text}}}


async def apply_all(
    client: Client,
    objects: Iterable[Loaded],
    *,
    dry_run: DryRun = DryRun.NONE,
    keep_edits: bool = False,
    validation: Validation = Validation.WARN,
) -> AsyncIterator[ApplyOutcome]:
    """Apply objects one by one, namespaces and definitions first. Continue after a refusal.

    Args:
        client: Client of the hub.
        objects: The objects to apply.
        dry_run: Kind of dry run.
        keep_edits: Skip an object that was changed on the hub while its file is unchanged.
        validation: Treatment of unknown fields by the hub.
    """
    new_members: list[ResourcePath] = []
    for item in in_order_of_dependence(objects):
        if item.kind == UPGRADE_RUN and not dry_run:
            await _let_join(client, new_members)
        try:
            outcome = await apply_one(client, item, dry_run=dry_run, keep_edits=keep_edits, validation=validation)
            if client.simulated and item.kind == MEMBER_CLUSTER and outcome.action == "created":
                new_members.append(place_of(item.document, item.kind))
            yield outcome
        except HubRefusedError as error:
            yield ApplyOutcome(item, warnings=error.warnings, refusal=error)


async def _let_join(client: Client, new_members: list[ResourcePath]) -> None:
    """Wait until the simulated members that were just created have joined, or time out.

    An upgrade run covers the members that exist when it starts. On a real hub, they joined long before.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(_ARRIVAL_SECONDS):
            while new_members:
                member = await find(client, new_members[-1])
                if member is None or has_joined(member) or parse_behaviour(annotations_of(member)).silent:
                    new_members.pop()
                else:
                    await asyncio.sleep(_LOOK_SECONDS)
    new_members.clear()


async def apply_one(
    client: Client,
    item: Loaded,
    *,
    dry_run: DryRun = DryRun.NONE,
    keep_edits: bool = False,
    validation: Validation = Validation.WARN,
) -> ApplyOutcome:
    """Create the object, or patch it to the desired state.

    Raises:
        HubRefusedError: The hub refuses it.
    """
    desired = request_document(item.document, simulated=client.simulated)
    place = place_of(desired, item.kind)
    current = await find(client, place)
    if current is None:
        if dry_run is DryRun.CLIENT:
            return ApplyOutcome(item, "created")
        try:
            answer = await client.create(item.kind, desired, dry_run=bool(dry_run), validation=validation.parameter)
            return ApplyOutcome(item, "created", answer.warnings, live=answer.document)
        except HubRefusedError as error:
            if error.reason != "AlreadyExists":
                raise
            # Another client created it between our read and our write. Continue as for an existing object.
            current = await client.get(place)
    # The patch below has no resourceVersion, like kubectl's. It names only fields of the file, so writes of other
    # clients to other fields after our read are neither lost nor a conflict.
    last = _last_applied(current)
    is_unchanged = json_equal(last, _last_applied(desired))
    if is_unchanged:  # keep kubectl's annotation, which may be formatted differently
        desired["metadata"]["annotations"][LAST_APPLIED] = annotation(current, LAST_APPLIED)
    patch = three_way_patch(last, desired, current)
    if not patch:
        return ApplyOutcome(item, "unchanged", live=current)
    if keep_edits and is_unchanged:
        # The patch may differ from the stored object only by fields that defaulting fills in. A dry run finds out.
        result = await client.patch(place, patch, dry_run=True, validation=validation.parameter)
        return ApplyOutcome(item, "kept" if _differ(result, current, dry_run=True) else "unchanged")
    if dry_run is DryRun.CLIENT:
        return ApplyOutcome(item, "configured")
    answer = await client.patch(place, patch, dry_run=bool(dry_run), validation=validation.parameter)
    action = "configured" if _differ(answer, current, dry_run=bool(dry_run)) else "unchanged"
    return ApplyOutcome(item, action, answer.warnings, live=answer.document)


async def merged(client: Client, item: Loaded, validation: Validation) -> tuple[JsonObject | None, HubResponse]:
    """Return the live object, or None, and the hub's response to a dry run of applying it.

    Raises:
        HubRefusedError: The hub refuses it.
    """
    desired = request_document(item.document, simulated=client.simulated)
    place = place_of(desired, item.kind)
    current = await find(client, place)
    if current is None:
        return None, await client.create(item.kind, desired, dry_run=True, validation=validation.parameter)
    patch = three_way_patch(_last_applied(current), desired, current)
    if not patch:
        return current, HubResponse(current)
    return current, await client.patch(place, patch, dry_run=True, validation=validation.parameter)


def _differ(answer: HubResponse, current: JsonObject, *, dry_run: bool) -> bool:
    """Return whether a write changed the object. After defaulting, a patch may be a no-op."""
    if dry_run:
        return answer.document != current
    return bool(answer.document["metadata"].get("resourceVersion") != current["metadata"].get("resourceVersion"))


def _last_applied(document: JsonObject) -> JsonObject:
    """Return the file content that *document* was last applied from, or an empty object if unknown.

    kubectl also records empty annotations, the status, and fields that only the hub sets. They are omitted.
    """
    text = annotation(document, LAST_APPLIED)
    try:
        last = json.loads(text or "{}")
    except ValueError:
        return {}
    if not isinstance(last, dict):
        return {}
    metadata = {name: value for name, value in metadata_of(last).items() if name not in _SET_BY_HUB}
    if not metadata.get("annotations"):
        metadata.pop("annotations", None)
    body = {name: value for name, value in last.items() if name != "status"}
    return {**body, "metadata": metadata} if body else {}


def three_way_patch(last: Mapping[str, Any], desired: Mapping[str, Any], current: Mapping[str, Any]) -> JsonObject:
    """Return the merge patch that leads to *desired*.

    Args:
        last: The last applied state. Fields that are not in *desired* are removed.
        desired: The desired state. Fields that are null are removed.
        current: The stored object. Fields that only *current* has are kept.
    """
    patch: JsonObject = {name: None for name in last if name not in desired and current.get(name) is not None}
    for name, value in desired.items():
        live, before = current.get(name), last.get(name)
        if isinstance(value, Mapping) and isinstance(live, Mapping):
            inner = three_way_patch(before if isinstance(before, Mapping) else {}, value, live)
            if inner:
                patch[name] = inner
        elif value is None:
            if live is not None:
                patch[name] = None
        elif name not in current or not json_equal(value, live):
            patch[name] = value
    return patch


def two_way_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> JsonObject:
    """Return the merge patch that turns *before* into *after*."""
    return three_way_patch(before, after, before)
