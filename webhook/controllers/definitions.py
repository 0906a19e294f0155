"""Whether objects are being deleted because somebody deletes the definition of their kind."""

from scorer.api.kinds import CUSTOM_RESOURCE_DEFINITION, Kind
from scorer.rollout.documents import is_deleting
from webhook.kube.hub import Hub
from webhook.kube.ports import Key, NotFoundError


async def goes_with_its_definition(hub: Hub, kind: Kind) -> bool:
    """Ask the hub whether all objects of a kind are being deleted with their definition.

    The definition is marked first, so that whoever sees an object marked for that reason finds the definition so. A
    hub that keeps no definitions (the embedded store) does not delete any.

    Raises:
        StoreError: The hub does not say.
    """
    try:
        return is_deleting(await hub.store.get(CUSTOM_RESOURCE_DEFINITION, Key(kind.resource)))
    except NotFoundError:
        return False
