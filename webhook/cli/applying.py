"""Makes objects on the hub what files say, as ``kubectl apply`` does.

What a file said last time is kept in kubectl's own annotation, so a member that is no longer in the file is removed,
a member that somebody else set stays, and kubectl and we can take turns on the same object.

Source: Kubernetes ``kubectl apply``, three-way JSON merge patch.
"""

import json
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from scorer.api.documents import annotation
from scorer.api.meta import JsonObject, dump_json
from webhook.cli.client import Answer, Client, Place, RefusedError, place_of
from webhook.cli.documents import Loaded, in_order_of_dependence
from webhook.embedded.simulation import keep_status
from webhook.validation.reading import same_json

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_SET_BY_HUB: Final = frozenset(
    {
        *("uid", "resourceVersion", "generation", "creationTimestamp", "selfLink", "managedFields"),
        *("deletionTimestamp", "deletionGracePeriodSeconds"),
    }
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one object.

    Args:
        loaded: As read.
        action: ``created``, ``configured``, ``unchanged``, ``kept`` (changed on the hub since, and left so); empty when
            refused.
        warnings: What the hub said besides.
        refusal: Why it was refused.
    """

    loaded: Loaded
    action: str = ""
    warnings: tuple[str, ...] = ()
    refusal: RefusedError | None = None


def wanted_document(document: JsonObject, *, simulated: bool = True) -> JsonObject:
    """Return what is asked of the hub: without what only the hub sets, but with the status of a member that it plays.

    Args:
        document: What the file says.
        simulated: Whether the hub plays its members.
    """
    document = keep_status(document) if simulated else document
    metadata = {name: value for name, value in document["metadata"].items() if name not in _SET_BY_HUB}
    annotations = {name: text for name, text in (metadata.get("annotations") or {}).items() if name != LAST_APPLIED}
    if annotations or "annotations" in metadata:
        metadata["annotations"] = annotations
    body = {name: value for name, value in document.items() if name != "status"}
    body["metadata"] = metadata
    text = json.dumps(json.loads(dump_json(body)), sort_keys=True, separators=(",", ":"), ensure_ascii=False) + "\n"
    return {**body, "metadata": {**metadata, "annotations": {**annotations, LAST_APPLIED: text}}}


async def apply_all(
    client: Client, loaded: Iterable[Loaded], *, dry_run: bool = False, keep_edits: bool = False
) -> AsyncIterator[Outcome]:
    """Apply objects one after the other, namespaces and definitions first; a refusal does not stop the others.

    Args:
        client: Of the hub.
        loaded: What to apply.
        dry_run: Change nothing.
        keep_edits: Leave an object alone that was changed on the hub while its file has stayed the same.
    """
    for one in in_order_of_dependence(loaded):
        try:
            yield await apply_one(client, one, dry_run=dry_run, keep_edits=keep_edits)
        except RefusedError as error:
            yield Outcome(one, warnings=error.warnings, refusal=error)


async def apply_one(client: Client, one: Loaded, *, dry_run: bool = False, keep_edits: bool = False) -> Outcome:
    """Create the object, or change it to what is wanted.

    Raises:
        RefusedError: The hub refuses it.
    """
    wanted = wanted_document(one.document, simulated=client.simulated)
    place = place_of(wanted, one.kind)
    current = await find(client, place)
    if current is None:
        try:
            answer = await client.create(one.kind, wanted, dry_run=dry_run)
            return Outcome(one, "created", answer.warnings)
        except RefusedError as error:
            if error.reason != "AlreadyExists":
                raise
            current = await client.get(place)  # somebody was faster
    last = _last_applied(current)
    patch = three_way_patch(last, wanted, current)
    if not patch:
        return Outcome(one, "unchanged")
    if keep_edits and last and same_json(last, json.loads(wanted["metadata"]["annotations"][LAST_APPLIED])):
        tried = await client.patch(place, patch, dry_run=True)
        return Outcome(one, "kept" if _differ(tried, current, dry_run=True) else "unchanged")
    answer = await client.patch(place, patch, dry_run=dry_run)
    return Outcome(one, "configured" if _differ(answer, current, dry_run=dry_run) else "unchanged", answer.warnings)


def _differ(answer: Answer, current: JsonObject, *, dry_run: bool) -> bool:
    """Say whether a write changed anything: filling in defaults can make a patch amount to nothing."""
    if dry_run:
        return answer.document != current
    return bool(answer.document["metadata"].get("resourceVersion") != current["metadata"].get("resourceVersion"))


async def find(client: Client, place: Place) -> JsonObject | None:
    """Return an object, None when there is none.

    Raises:
        RefusedError: Any other refusal than that there is none.
    """
    try:
        return await client.get(place)
    except RefusedError as error:
        if error.code == 404:
            return None
        raise


def _last_applied(current: JsonObject) -> JsonObject:
    text = annotation(current, LAST_APPLIED)
    try:
        last = json.loads(text or "{}")
    except ValueError:
        return {}
    return last if isinstance(last, dict) else {}


def three_way_patch(last: Mapping[str, Any], wanted: Mapping[str, Any], current: Mapping[str, Any]) -> JsonObject:
    """Return the merge patch that brings *wanted* about.

    Args:
        last: What was wanted last time: what is there and no longer wanted goes.
        wanted: What is wanted now; null members are wanted gone.
        current: What is stored; what is only there stays.
    """
    patch: JsonObject = {name: None for name in last if name not in wanted and current.get(name) is not None}
    for name, value in wanted.items():
        here, before = current.get(name), last.get(name)
        if isinstance(value, Mapping) and isinstance(here, Mapping):
            inner = three_way_patch(before if isinstance(before, Mapping) else {}, value, here)
            if inner:
                patch[name] = inner
        elif value is None:
            if here is not None:
                patch[name] = None
        elif name not in current or not same_json(value, here):
            patch[name] = value
    return patch


def two_way_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> JsonObject:
    """Return the merge patch that turns *before* into *after*."""
    return three_way_patch(before, after, before)
