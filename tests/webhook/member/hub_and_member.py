"""A hub and one member of it, Works from the one to the other, and what stands in them."""

from datetime import UTC, datetime, timedelta

from scorer.api.kinds import WORK
from scorer.api.meta import format_time
from scorer.api.names import WORK_OBJECTS, WRITTEN
from scorer.api.unstructured.documents import with_metadata
from scorer.rollout.removal.marks import objects_digest, with_removal_mark
from webhook.embedded.simulation.member_stores import ObservedStore
from webhook.embedded.storage.store import EmbeddedStore
from webhook.kube.ports import (
    Key,
    NotFoundError,
)
from webhook.member.works.reconciler import reconcile_work

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
SPACE = "fleet-member-bravelion"


def namespace(name="web"):
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def config_map(name="settings", space="web", **data):
    metadata = {"name": name, "namespace": space}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data or {"level": "info"}}


class Cluster:
    """A hub and a member, and what people and controllers do to them."""

    def __init__(self):
        self.time = START
        self.hub = EmbeddedStore.open(None, now=self.now)
        self.member = EmbeddedStore.open(None, now=self.now)

    def now(self):
        return self.time

    async def place(self, *manifests, name="web-work", **spec):
        """Create the Work, or change it."""
        spec = {"workload": {"manifests": list(manifests)}, **spec}
        key, signed = Key(name, SPACE), {WORK_OBJECTS: objects_digest(manifests), WRITTEN: format_time(self.time)}
        try:
            work = await self.hub.get(WORK, key)
        except NotFoundError:
            metadata = {"name": name, "namespace": SPACE, "annotations": signed}
            document = {"apiVersion": WORK.api_version, "kind": "Work", "metadata": metadata, "spec": spec}
            return await self.hub.create(WORK, document)
        self.time += timedelta(seconds=1)
        signed[WRITTEN] = format_time(self.time)
        return await self.hub.replace(WORK, {**with_metadata(work, annotations=signed), "spec": spec})

    async def remove(self, name="web-work", **annotations):
        """Delete the Work as the loop does."""
        work = with_metadata(await self.work(name), annotations=annotations)
        await self.hub.replace(WORK, with_removal_mark(work))
        await self.hub.delete(WORK, Key(name, SPACE))

    async def reconcile(self, name="web-work"):
        return await reconcile_work(Key(name, SPACE), self.hub, ObservedStore(self.member), self.time)

    async def work(self, name="web-work"):
        return await self.hub.get(WORK, Key(name, SPACE))

    async def conditions(self, name="web-work"):
        status = (await self.work(name))["status"]
        return {found["type"]: (found["status"], found["reason"]) for found in status["conditions"]}

    async def reasons(self, name="web-work"):
        """Return the reason of the first condition of every manifest."""
        entries = (await self.work(name))["status"]["manifestConditions"]
        return [entry["conditions"][0]["reason"] for entry in entries]

    async def message(self, ordinal=0, name="web-work"):
        entries = (await self.work(name))["status"]["manifestConditions"]
        return entries[ordinal]["conditions"][0]["message"]

    async def live(self, kind, name, space="web"):
        try:
            return await self.member.get(kind, Key(name, space))
        except NotFoundError:
            return None

    async def edit(self, kind, name, space="web", **changes):
        live = await self.member.get(kind, Key(name, space))
        return await self.member.replace(kind, {**live, **changes})

    @property
    def versions(self):
        return self.hub.resource_version, self.member.resource_version
