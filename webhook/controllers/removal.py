"""How the loop deletes a binding: it says first that it means it."""

from scorer.api.kinds import Kind
from scorer.api.meta import JsonObject
from scorer.rollout.intent import meant
from webhook.kube.hub import Hub


async def remove_meant(hub: Hub, kind: Kind, document: JsonObject) -> None:
    """Write on an object that it is meant to go, then delete it as it is now; see `scorer.rollout.intent`.

    Raises:
        ConflictError: Somebody has written it since it was read; nothing is deleted.
    """
    if (said := meant(document)) is not None:
        document = await hub.replace(kind, said)
    await hub.delete(kind, document, this_version=True)
