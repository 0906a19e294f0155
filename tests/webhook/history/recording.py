"""A hub on which a history is kept."""

from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

from scorer.api.kinds import CONFIG_MAP, NAMESPACE
from webhook.embedded.storage.store import EmbeddedStore
from webhook.history.entry import EntryType, InvolvedObject
from webhook.history.query import Query, find
from webhook.history.record import RecordSource, Retention
from webhook.history.writer import HistoryWriter

WEEK = Retention(timedelta(days=7), 10**7)
ABOUT = InvolvedObject("ClusterResourcePlacement", "web")


class Hub:
    """An embedded hub, a clock that stands still, and a writer."""

    def __init__(self):
        self.now = datetime(2026, 3, 2, 8, tzinfo=UTC)
        self.store = EmbeddedStore.open(None, now=lambda: self.now)

    def writer(self, instance="pod", retention=WEEK):
        return HistoryWriter(
            self.store, "ours", RecordSource.SERVER, instance, retention, timedelta(hours=1), lambda: self.now
        )

    async def chunks(self):
        return (await self.store.list(CONFIG_MAP, "ours")).items

    async def found(self, **query):
        return find(await self.chunks(), (), Query(**query))


@asynccontextmanager
async def hub():
    made = Hub()
    try:
        await made.store.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ours"}})
        yield made
    finally:
        made.store.close()


def refuse(writer, message="no", by="jane"):
    writer.note(EntryType.REFUSAL, ABOUT, "C-02", message, by)
