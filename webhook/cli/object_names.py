"""The names of objects on a hub: for completion, and for what a user may have meant."""

from difflib import get_close_matches
from typing import Final

from scorer.api.documents import dicts_at, text_at
from webhook.cli.client import Client, Place, RefusedError

MOST: Final = 500
"""Names that are read at most."""
_ALIKE: Final = 0.8
"""How much a name has to be like another one to be meant by it, from 0 to 1."""


async def names(client: Client, place: Place) -> list[str]:
    """Return the names in a collection, `MOST` at most."""
    listing = await client.few(place, MOST)
    return sorted(filter(None, (text_at(each, "metadata", "name") for each in dicts_at(listing, "items"))))


async def meant(client: Client, place: Place) -> str:
    """Return what to say behind the news that there is no object at *place*; empty: no name is like that one."""
    try:
        known = await names(client, Place(place.kind, place.namespace))
    except RefusedError:
        return ""
    close = get_close_matches(place.name, known, n=1, cutoff=_ALIKE)
    return f"; did you mean {close[0]}?" if close else ""
