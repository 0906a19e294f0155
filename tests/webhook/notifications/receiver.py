"""A receiver of notifications over real HTTP, and one that listens to it being told."""

import asyncio
import ssl
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import orjson
from aiohttp import web
from prometheus_client import CollectorRegistry

from certs.authority import Authority
from scorer.api.event import Event
from tests.loopback import on_loopback
from tests.waiting import until
from webhook.notifications.notification import NotificationSource
from webhook.notifications.notifier import Notifier
from webhook.settings.notifications import NotificationOptions

SECRET = "x" * 40
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
PLACEMENT = {
    "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
    "kind": "ClusterResourcePlacement",
    "metadata": {"name": "web", "uid": "u-1"},
}
STALLED = Event("PlacementRolloutStalled", "nothing has moved for 10 minutes", "Warning")


class Receiver:
    """Answers with the statuses that it is given, in turn, then with 200."""

    def __init__(self, *statuses):
        self.statuses = list(statuses)
        self.heard = []
        self.other_paths = []
        self.hangs = False
        self.fails_at = ""
        """A reason of notifications that are always answered with 500."""
        self.ends_at_it = False
        """These are not answered: the connection ends, as when a program crashes."""
        self.ended = asyncio.Event()
        self.largest = 0

    async def handle(self, request):
        self.heard.append((dict(request.headers), await request.read()))
        if self.hangs:
            await self.ended.wait()
        status = self.statuses.pop(0) if self.statuses else 200
        if self.fails_at and self.bodies[-1]["reason"] == self.fails_at:
            status = 500
            if self.ends_at_it:
                request.transport.abort()
        headers = {"Location": "/elsewhere"} if 300 <= status < 400 else {}
        return web.Response(status=status, headers=headers, body=b"x" * self.largest)

    async def elsewhere(self, request):
        self.other_paths.append(request.path)
        return web.Response()

    @property
    def bodies(self):
        return [orjson.loads(body) for _, body in self.heard]


@asynccontextmanager
async def listening(*statuses, tls=None):
    found = Receiver(*statuses)
    app = web.Application()
    app.router.add_post("/", found.handle)
    app.router.add_route("*", "/elsewhere", found.elsewhere)
    async with on_loopback(app, tls=tls) as address:
        found.url = f"{address.replace('127.0.0.1', 'localhost')}/"
        try:
            yield found
        finally:
            found.ended.set()


def tls_of(authority, folder):
    """Return the side of the server, with a certificate for localhost."""
    leaf = authority.issue(("localhost",), (), datetime.now(UTC))
    for name, pem in (("crt", leaf.chain_pem), ("key", leaf.key_pem)):
        (folder / name).write_bytes(pem)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "crt", folder / "key")
    return context


def new_authority():
    return Authority.new(datetime.now(UTC))


class Teller:
    """A notifier with a clock that stands still."""

    def __init__(self, folder, url, post_seconds=30.0, pauses=(0.001, 0.01), **options):
        self.now = NOON
        self.registry = CollectorRegistry()
        self.secret_file = folder / "secret"
        self.secret_file.write_text(SECRET + "\n")
        wanted = NotificationOptions(url, self.secret_file, hub="quay", **options)
        source = NotificationSource("quay", "harbormaster-system", "pod-0")
        self.notifier = Notifier(
            wanted, source, self.registry, lambda: self.now, pauses=pauses, post_seconds=post_seconds
        )

    def tell(self, event=STALLED, document=PLACEMENT):
        self.notifier.note_event(document, event)

    def later(self, **span):
        self.now += timedelta(**span)

    def counted(self, result):
        return self.registry.get_sample_value("harbormaster_notifications_total", {"result": result})

    @property
    def waiting(self):
        return self.registry.get_sample_value("harbormaster_notifications_waiting")

    async def counts(self, result, number=1):
        await until(lambda: self.counted(result) >= number)

    @asynccontextmanager
    async def running(self):
        task = asyncio.create_task(self.notifier.run())
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.wait([task])
