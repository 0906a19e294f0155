"""Deletion of bindings and Works: the intent is written on the object first, then that version is deleted."""

from collections.abc import Iterable, Mapping
from typing import Any

from scorer.api.kinds import WORK, Kind
from scorer.api.meta import JsonObject
from scorer.rollout.removal.deletion import plan_work_deletion
from scorer.rollout.removal.marks import with_removal_mark
from scorer.rollout.writes import Verb, Write, replace
from webhook.kube.cache.hub import Hub, run_concurrently
from webhook.kube.ports import ConflictError, NotFoundError, NotServedError, key_of


async def mark_and_delete(hub: Hub, kind: Kind, document: JsonObject) -> None:
    """Mark an object for removal, then delete that version. See `scorer.rollout.removal.marks`.

    Raises:
        ConflictError: Another client has written it since it was read. Nothing is deleted.
    """
    # The mark first: after a crash in between, the next pass deletes the object or removes the mark. A deletion
    # without the mark would count as accidental.
    if (marked := with_removal_mark(document)) is not None:
        document = await hub.replace(kind, marked)
    await hub.delete(kind, document, this_version=True)


async def delete_works(
    hub: Hub, works: Iterable[JsonObject], member: Mapping[str, Any] | None, *, abandoned: bool
) -> None:
    """Delete Works concurrently, each after the writes that its deletion needs: see `plan_work_deletion`.

    Raises:
        ConflictError: Another client has written one since. The retry reads it again.
    """
    await run_concurrently(_take_away(hub, plan_work_deletion([work], member, abandoned=abandoned)) for work in works)


async def _take_away(hub: Hub, writes: Iterable[Write]) -> None:
    """Execute the writes of a Work and its deletion, with the resource version of the decision.

    An agent may add its finalizer at the moment of the deletion. The API server could then remove the Work without
    waiting for the agent, and the placed objects would remain on the member. The finalizer makes another version of the
    Work, so the precondition prevents that.

    Args:
        hub: The hub cluster.
        writes: Writes of one Work, and its deletion. A Work that is already deleted is not an error.

    Raises:
        ConflictError: Another client has written it since. The retry reads it again.
    """
    marked: JsonObject | None = None
    try:
        for write in writes:
            if write.verb is Verb.REPLACE:
                marked = await hub.replace(WORK, (await whole(hub, write)).document)
            else:
                await hub.delete(WORK, marked or write.document, this_version=True)
    except NotServedError:
        raise
    except NotFoundError:
        return


async def whole(hub: Hub, write: Write) -> Write:
    """Return a replacement of a Work with the manifests, which the cache does not keep. Other writes are unchanged.

    Raises:
        ConflictError: Another client has written the Work since it was read.
        NotFoundError: The Work no longer exists.
    """
    if write.verb is not Verb.REPLACE or "workload" in write.document["spec"]:
        return write
    current = await hub.store.get(WORK, key_of(write.document))
    if current["metadata"]["resourceVersion"] != write.document["metadata"]["resourceVersion"]:
        raise ConflictError(f"Work {key_of(write.document)} has just been written by another client")
    spec = {"workload": current["spec"].get("workload"), **write.document["spec"]}
    return replace({**write.document, "spec": spec})
