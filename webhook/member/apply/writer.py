"""Writes of a manifest: client-side or server-side apply, skipped if the object is unchanged since the last write.

Client-side apply merges the manifest, the last one and the live object, and stores the whole object. Server-side apply
leaves the merge to the API server, which tracks the managers of each field. Either way the object carries the manifest,
its hash, and our owner reference. The manifest lets the next merge detect dropped fields, for both ways of apply. In
the reference only client-side apply stores the manifest.

An object that still matches the result of the same write is not written again: see `webhook.member.apply.fingerprints`.
Without a stored fingerprint, an object that carries the hash of the manifest is first checked by a dry run.

Source: docs/specifications/rollout.md 11.5 and 11.6; KubeFleet pkg/controllers/workapplier/apply.go.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import orjson

from scorer.api.meta import JsonObject, dump_json, without_nulls
from scorer.api.names import LAST_APPLIED, SPEC_HASH
from scorer.api.placement.apply_strategy import ApplyStrategy
from scorer.api.unstructured.documents import annotations_of, is_deleting
from scorer.rollout.ownership.fields import member_fields
from webhook.kube.ports import StoreError
from webhook.member.apply.dropped_fields import last_manifest, unknown_fields, without_dropped
from webhook.member.apply.fingerprints import Fingerprints, content
from webhook.member.apply.retained_fields import configuration, disowned, whole_object
from webhook.member.apply.three_way_merge import three_way_merge
from webhook.member.objects.field_managers import (
    as_applied,
    has_no_other_managers,
    is_applied,
)
from webhook.member.objects.finalizers import obstacle, without_own_finalizers
from webhook.member.objects.manifests import Manifest, manifest_hash
from webhook.member.objects.owner_references import owners, with_owners
from webhook.member.store.ports import MANAGER, MemberStore
from webhook.validation.framework.object_meta import LONGEST_ANNOTATIONS


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes the objects of one Work.

    Args:
        member: Store of the objects.
        owner: The owner reference that every object gets.
        strategy: Apply strategy of the Work.
        fingerprints: Fingerprints of earlier writes.
    """

    member: MemberStore
    owner: JsonObject
    strategy: ApplyStrategy
    fingerprints: Fingerprints

    async def apply(self, item: Manifest, live: JsonObject | None) -> JsonObject:
        """Make the object match the manifest, and return it as stored.

        Args:
            item: The manifest.
            live: The object, owned by us. None if it does not exist.

        Raises:
            StoreError: The member refuses, or the object has other owners or is being deleted.
        """
        if live is not None:
            await self._check(item, live)
        force = False
        if self.strategy.type == "ServerSideApply":
            config = self.strategy.server_side_apply_config
            force = config is not None and config.force
        elif (result := self._merged(item, live)) is not None:
            return await self._client_side(item, live, result)
        return await self._server_side(item, live, force=force)

    async def _check(self, item: Manifest, live: JsonObject) -> None:
        if is_deleting(live):
            if (freed := without_own_finalizers(live)) is not None:
                live = await self.member.replace(item.kind, freed)
            reason = obstacle(item.kind, live)
            reason_suffix = f" ({reason})" if reason else ""
            raise StoreError(
                f"the object is being deleted on the member{reason_suffix}. It is applied when the deletion completes"
            )
        others = [owner for owner in owners(live) if owner["uid"] != self.owner["uid"]]
        if others and not self.strategy.allow_co_ownership:
            names = ", ".join(f"{owner['kind']} {owner['name']}" for owner in others)
            raise StoreError(f"also owned by {names}, and allowCoOwnership is false")

    def _merged(self, item: Manifest, live: JsonObject | None) -> JsonObject | None:
        """Return the object with the manifest merged into it, or None if the manifest does not fit its annotations."""
        if live is not None and unknown_fields(item.document, live):
            return None
        before, last = live or {}, last_manifest(live) if live else {}
        result = three_way_merge(item.kind, last, whole_object(item.document, live), before)
        if live is not None and member_fields(item.document, result) != member_fields(item.document, live):
            # The write decides which side owns a field. Example: with an aggregationRule, the member fills in the rules
            # of a ClusterRole. A manifest that drops it has rules of its own, and those must replace the member's in
            # the same write.
            result = three_way_merge(item.kind, last, whole_object(item.document, live, outcome=result), before)
        annotations = _annotations(item.document, annotations_of(result), live or {})
        if annotations[LAST_APPLIED] == "":
            return None
        return {**result, "metadata": {**result["metadata"], "annotations": annotations}}

    async def _client_side(self, item: Manifest, live: JsonObject | None, merged: JsonObject) -> JsonObject:
        applied = self._applied(item, "merged")
        if live is None:
            response = await self.member.create(item.kind, with_owners(merged, [self.owner]))
        elif merged == live or self.fingerprints.matches(live, applied):
            return live
        else:
            if _carries(live, item) and self._is_unchanged(
                live, await self.member.replace(item.kind, merged, dry_run=True), applied
            ):
                return live
            response = await self.member.replace(item.kind, merged)
        self.fingerprints.note(response, applied)
        return response

    async def _server_side(self, item: Manifest, live: JsonObject | None, *, force: bool) -> JsonObject:
        # Without other managers, an apply can only conflict with our own writes and with ``before-first-apply``, the
        # manager of fields that no manager was recorded for. Neither is a value of another writer.
        force = force or (live is not None and has_no_other_managers(live))
        applied = self._applied(item, f"applied force={force}")
        if live is not None and self.fingerprints.matches(live, applied):
            return live
        if live is not None:
            live = await self._prepared(item, live)
        body = self._configuration(item, live)
        if live is not None and is_applied(live) and _carries(live, item):
            outcome = await self.member.apply(item.kind, body, manager=MANAGER, force=force, dry_run=True)
            if self._is_unchanged(live, outcome, applied):
                return live
        # Server-side apply never removes a field that our earlier ordinary write owns. Example: the Work changes from
        # ClientSideApply to ServerSideApply, and the manifest drops a volume. Unless that write is turned into an
        # apply first, the volume remains forever.
        if live is not None and (converted := as_applied(live)) is not None:
            live = await self.member.replace(item.kind, converted)
            body = self._configuration(item, live)  # the replace has changed the resourceVersion
        response = await self.member.apply(item.kind, body, manager=MANAGER, force=force)
        if live is not None and member_fields(item.document, response) != member_fields(item.document, live):
            body = self._configuration(item, response)  # as in `_merged`: the write decides which side owns a field
            response = await self.member.apply(item.kind, body, manager=MANAGER, force=force)
        self.fingerprints.note(response, applied)
        return response

    async def _prepared(self, item: Manifest, live: JsonObject) -> JsonObject:
        """Disown and remove the fields that a server-side apply would handle wrongly."""
        freed = disowned(live, item.document, configuration(item.document, live))
        if freed is not None:
            live = await self.member.replace(item.kind, freed)
        pruned = None if _carries(live, item) else without_dropped(item.kind, item.document, live)
        return live if pruned is None else await self.member.replace(item.kind, pruned)

    def _is_unchanged(self, live: JsonObject, outcome: JsonObject, applied: str) -> bool:
        """Return whether a write is a no-op. If so, record the fingerprint."""
        is_same = content(outcome) == content(live)
        if is_same:
            self.fingerprints.note(live, applied)
        return is_same

    def _configuration(self, item: Manifest, live: JsonObject | None) -> JsonObject:
        """Return the apply configuration: our fields, bound to the object that was read."""
        document: JsonObject = without_nulls(configuration(item.document, live))
        own = annotations_of(document)
        annotations = _annotations(item.document, own, live or {})
        metadata = {**document["metadata"], "annotations": annotations, "ownerReferences": [self.owner]}
        if live is not None:
            # Apply has no version check of its own. If another client recreated the object, the uid makes the API
            # server refuse, and the steps decide again whether the new object may be taken over.
            metadata["uid"] = live["metadata"].get("uid", "")
            # A change since the check for drift would be silently overwritten. With the version, it is a conflict.
            if self.strategy.when_to_apply == "IfNotDrifted":
                metadata["resourceVersion"] = live["metadata"].get("resourceVersion", "")
        return {**document, "metadata": metadata}

    def _applied(self, item: Manifest, way: str) -> str:
        return f"{item.kind.api_version} {manifest_hash(item.document)} {way} {self.owner['uid']}"


def _carries(live: JsonObject, item: Manifest) -> bool:
    """Return whether this manifest was the last one applied to the object."""
    return annotations_of(live).get(SPEC_HASH) == manifest_hash(item.document)


def _annotations(manifest: JsonObject, desired: Mapping[str, str], live: JsonObject) -> JsonObject:
    """Return *desired* with the manifest and its hash.

    The manifest is omitted if it would make the annotations too large. It is also omitted while it is unknown which
    other fields of the object came from an earlier manifest.
    """
    annotations = {**desired, SPEC_HASH: manifest_hash(manifest)}
    before = annotations_of(live)
    text = dump_json(manifest).decode()
    previous = before.get(LAST_APPLIED)
    if previous is not None and previous != text and _is_same_manifest(previous, manifest):
        text = previous  # only the order of the fields differs
    all_annotations = {**before, **annotations, LAST_APPLIED: text}
    size = sum(len(key.encode()) + len(value.encode()) for key, value in all_annotations.items())
    fits = size <= LONGEST_ANNOTATIONS and not unknown_fields(manifest, live)
    return {**annotations, LAST_APPLIED: text if fits else ""}


def _is_same_manifest(text: str, manifest: JsonObject) -> bool:
    try:
        return bool(orjson.loads(text) == manifest)
    except orjson.JSONDecodeError:
        return False
