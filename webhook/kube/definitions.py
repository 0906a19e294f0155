"""Whether objects are being deleted because the definition of their kind is."""

from scorer.api.documents import is_deleting
from scorer.api.kinds import CUSTOM_RESOURCE_DEFINITION, Kind
from webhook.kube.ports import Key, NotFoundError, Store


async def goes_with_its_definition(store: Store, kind: Kind) -> bool:
    """Ask whether all objects of a kind are being deleted with their definition.

    The API server marks the definition first, so when an object is seen that is marked for that reason, its definition
    is marked already. A store that keeps no definitions (the embedded one) does not delete any.

    Raises:
        ForbiddenError: We may not read definitions.
        StoreError: The store does not say.
    """
    try:
        return is_deleting(await store.get(CUSTOM_RESOURCE_DEFINITION, Key(kind.resource)))
    except NotFoundError:
        return False
