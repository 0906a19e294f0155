"""Whether objects are being deleted because somebody deletes the definition of their kind."""

from scorer.api.documents import is_deleting
from scorer.api.kinds import CUSTOM_RESOURCE_DEFINITION, Kind
from webhook.kube.ports import Key, NotFoundError, Store


async def goes_with_its_definition(store: Store, kind: Kind) -> bool:
    """Ask whether all objects of a kind are being deleted with their definition.

    The definition is marked first, so that whoever sees an object marked for that reason finds the definition so. A
    store that keeps no definitions (the embedded one) does not delete any.

    Raises:
        ForbiddenError: We may not read definitions.
        StoreError: The store does not say.
    """
    try:
        return is_deleting(await store.get(CUSTOM_RESOURCE_DEFINITION, Key(kind.resource)))
    except NotFoundError:
        return False
