"""Deletion of bindings and Works: the intent is written on the object first, then that version is deleted."""

from collections.abc import Iterable, Mapping
from typing import Any

from scorer.api.kinds import WORK, Kind
from scorer.api.meta import JsonObject
from scorer.rollout.removal.deletion import plan_work_deletion
from scorer.rollout.removal.marks import marked_for_removal
from scorer.rollout.writes import Verb, Write, replace
from webhook.kube.cache.hub import Hub, run_concurrently
from webhook.kube.ports import ConflictError, NotFoundError, NotServedError, key_of


async def mark_and_delete(hub: Hub, kind: Kind, document: JsonObject) -> None:
    """Write on an object that it is meant to go, then delete it as it is now; see `scorer.rollout.removal.marks`.

    Raises:
        ConflictError: Another client has written it since it was read; nothing is deleted.
    """
    # The word first: after a crash in between, the next pass deletes the object or takes the word back. A deletion
    # without the word would be taken for a mistake.
    if (marked := marked_for_removal(document)) is not None:
        document = await hub.replace(kind, marked)
    await hub.delete(kind, document, this_version=True)


async def delete_works(
    hub: Hub, works: Iterable[JsonObject], member: Mapping[str, Any] | None, *, abandoned: bool
) -> None:
    """Delete Works, all at once, each after what has to be written on it: see `plan_work_deletion`.

    Raises:
        ConflictError: Another client has written one since; the next attempt knows what it is now.
    """
    await run_concurrently(_take_away(hub, plan_work_deletion([work], member, abandoned=abandoned)) for work in works)


async def _take_away(hub: Hub, writes: Iterable[Write]) -> None:
    """Delete a Work, after what has to be written on it; only as it was when that was decided.

    An agent may put its finalizer on the Work at the very moment of its deletion. The API server could then remove the
    Work without waiting for the agent, and what it placed on the member would stay there. The finalizer makes another
    version of the Work, so the precondition on the version prevents that.

    Args:
        hub: Where it is.
        writes: What to write on one Work, and its deletion; one that is gone already is fine.

    Raises:
        ConflictError: Another client has written it since; the next attempt knows what it is now.
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
    """Give a Work that is to be replaced its manifests back, which the cache does not keep.

    Raises:
        ConflictError: Another client has written it since it was read.
    """
    if write.verb is not Verb.REPLACE or "workload" in write.document["spec"]:
        return write
    current = await hub.store.get(WORK, key_of(write.document))
    if current["metadata"]["resourceVersion"] != write.document["metadata"]["resourceVersion"]:
        raise ConflictError(f"Work {key_of(write.document)} has just been written by another client")
    spec = {"workload": current["spec"].get("workload"), **write.document["spec"]}
    return replace({**write.document, "spec": spec})
