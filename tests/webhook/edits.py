"""Changes to stored objects beside a loop that writes them, too."""

from collections.abc import Callable

from scorer.api.kinds import Kind
from scorer.api.meta import JsonObject
from webhook.kube.ports import ConflictError, Key, Store


async def edit(
    store: Store, kind: Kind, key: Key, meant: Callable[[JsonObject], JsonObject], *, status: bool = False
) -> JsonObject:
    """Replace an object, or its status, by what is meant of it: read again where another writer was faster."""
    write = store.replace_status if status else store.replace
    for _ in range(50):
        stored = await store.get(kind, key)
        try:
            return await write(kind, meant(stored))
        except ConflictError:
            continue
    raise AssertionError(f"{kind.kind} {key} is written all the time")
