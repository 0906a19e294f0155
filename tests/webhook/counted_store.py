"""An embedded store that knows how many writes are under way."""

from webhook.embedded.storage.store import EmbeddedStore


class CountedStore(EmbeddedStore):
    """Counts the writes that wait for their turn; `HARBORMASTER_SEED` makes them wait."""

    writing = 0

    async def _turn(self) -> None:
        self.writing += 1
        try:
            await super()._turn()
        finally:
            self.writing -= 1
