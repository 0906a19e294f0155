"""The AppliedWork that owns a Work's objects: create it, take it over, or report its other owner.

Source: docs/specifications/rollout.md 11.1. Differs from the reference, which finds it by name alone:
`scorer.membership.identity`.
"""

from datetime import datetime

from scorer.api.conditions import FALSE, make_condition, merge_conditions
from scorer.api.kinds import APPLIED_WORK, Kind
from scorer.api.meta import JsonObject
from scorer.api.names import APPLIED_REVISION, APPLIED_WORK_CLEANUP, JOB_RUNS
from scorer.api.unstructured.documents import (
    conditions_of,
    generation_of,
    is_deleting,
    list_at,
    status_of,
    with_finalizer,
    with_metadata,
)
from scorer.membership.identity import AppliedWorkOwnership, HubMember, adopted, ownership_of, placed_by
from scorer.rollout.apply_strategy import reports_diff
from scorer.rollout.works.status import ManifestReason, work_status
from webhook.kube.ports import AlreadyExistsError, ConflictError, Key, NotFoundError, StoreError
from webhook.member.objects.ledger import on_latest, served_kinds, written_down
from webhook.member.objects.manifests import ManifestKinds, decode, manifest_result
from webhook.member.objects.owner_references import without_owner
from webhook.member.store.ports import MemberStore

REASON = "AppliedWorkOfAnother"


class AppliedWorkDeletingError(StoreError):
    """The AppliedWork with the name of the Work is being deleted. *found* is that AppliedWork."""

    def __init__(self, applied_work: JsonObject) -> None:
        super().__init__(f"AppliedWork {applied_work['metadata']['name']} is still being deleted on the member")
        self.found = applied_work


class AnothersError(Exception):
    """The AppliedWork with the name of the Work has another owner, which the message names. It must not be changed."""


async def applied_work(key: Key, member: MemberStore, us: HubMember) -> JsonObject:
    """Return the AppliedWork that owns the Work's objects, and create it if it does not exist.

    A released AppliedWork becomes ours, and no longer owns its previous objects. The apply of the Work then takes over
    those among them that the Work holds.

    Raises:
        AnothersError: The AppliedWork belongs to another owner.
        AppliedWorkDeletingError: The AppliedWork is being deleted.
        ConflictError: Another client wrote or created it in the meantime.
        StoreError: The member refused a request, does not serve AppliedWorks, or did not respond.
    """
    try:
        applied = await member.get(APPLIED_WORK, Key(key.name))
    except NotFoundError:
        return await _make(key, member, us)
    if is_deleting(applied):
        raise AppliedWorkDeletingError(applied)
    match ownership_of(applied, us):
        case AppliedWorkOwnership.OURS:
            with_cleanup = with_finalizer(applied, APPLIED_WORK_CLEANUP)
            return applied if with_cleanup is None else await member.replace(APPLIED_WORK, with_cleanup)
        case AppliedWorkOwnership.UNMARKED:
            return await member.replace(APPLIED_WORK, adopted(applied, us)) if us.hub else applied
        case AppliedWorkOwnership.ANOTHERS:
            raise AnothersError(f"AppliedWork {key.name} on this cluster belongs to {placed_by(applied)}, not to {us}")
    if placed_by(applied) == us:
        # On joining, `Registration.claim` adopted all that we had released. Another agent has released it since then.
        raise AnothersError(f"AppliedWork {key.name} was released: another agent has taken over this cluster")
    # References first, then the list, then our mark. If it were marked first, after a crash it would be ours with
    # another owner's objects in its list. Until it is marked, any pass can start over.
    await _release(applied, member)
    applied = await member.replace_status(APPLIED_WORK, {**applied, "status": {"appliedResources": []}})
    forgotten = with_metadata(applied, annotations={APPLIED_REVISION: None, JOB_RUNS: None})  # of another owner
    return await member.replace(APPLIED_WORK, adopted(forgotten, us))


async def _release(applied_work: JsonObject, member: MemberStore) -> None:
    """Remove an AppliedWork from the owners of every object in its list."""
    name = applied_work["metadata"]["name"]
    for identity, kind in await served_kinds(written_down(applied_work), member):

        async def change(live: JsonObject, kind: Kind = kind) -> None:
            if (without_us := without_owner(live, name)) is not None:
                await member.replace(kind, without_us)

        await on_latest(kind, Key(identity.name, identity.namespace), member, change)


async def _make(key: Key, member: MemberStore, us: HubMember) -> JsonObject:
    document = {
        "apiVersion": APPLIED_WORK.api_version,
        "kind": APPLIED_WORK.kind,
        "metadata": {"name": key.name},
        "spec": {"workName": key.name, "workNamespace": key.namespace},
    }
    try:
        adopted_work = adopted(document, us)
        return await member.create(APPLIED_WORK, with_finalizer(adopted_work, APPLIED_WORK_CLEANUP) or adopted_work)
    except AlreadyExistsError as error:  # created since it was read, maybe by another agent: check it in a new pass
        raise ConflictError(str(error)) from error
    except NotFoundError as error:
        subject = f"the member does not serve kind {APPLIED_WORK}: apply the output of `harbormaster crds` there"
        raise StoreError(f"{subject} ({error})") from error


def forbidden_status(work: JsonObject, reason: str, now: datetime) -> JsonObject:
    """Return the status of a Work that the agent cannot apply for lack of permissions on the member.

    The entries of its objects remain as last reported, because they record which objects may be on the member.
    """
    kind, generation = "DiffReported" if reports_diff(work) else "Applied", generation_of(work)
    message = f"the agent lacks rights on the member: {reason}"
    condition = make_condition(kind, FALSE, "ForbiddenByMember", message, generation=generation, now=now)
    return {**status_of(work), "conditions": merge_conditions(conditions_of(work), [condition])}


def refused_status(work: JsonObject, reason: str, kinds: ManifestKinds, now: datetime) -> JsonObject:
    """Return the status of a Work that is not applied because its AppliedWork belongs to another owner."""
    manifests = list_at(work, "spec", "workload", "manifests")
    results = [manifest_result(item, ManifestReason.NOT_OURS, reason) for item in decode(manifests, kinds)]
    status = work_status(work, results, now)
    kind = "DiffReported" if reports_diff(work) else "Applied"
    generation = work["metadata"].get("generation", 0)
    condition = make_condition(kind, FALSE, REASON, reason, generation=generation, now=now)
    others = [condition for condition in status["conditions"] if condition["type"] not in (kind, "Available")]
    return {**status, "conditions": [*merge_conditions(conditions_of(work), [condition]), *others]}
