"""``/v1/events``: server-sent events that name changed objects, so that the page rereads them.

The stream names the changes but does not carry them: a viewer that missed an event reads everything again and is up to
date. Changes within a quarter of a second, or while a viewer is slow, are coalesced.

The viewer's rights are checked when the stream starts. Tokens expire and rights are revoked, so the server closes the
stream after a few minutes, and the viewer connects again with its credentials.
"""

import asyncio
from dataclasses import replace
from typing import Final, NotRequired

import orjson
from aiohttp import web
from typing_extensions import TypedDict

from scorer.api.family import PLACEMENTS, ref_prefixes
from webhook.answers.questions import ViewChange
from webhook.answers.status.hub_status import RESTRICTED_KINDS, RUN_KINDS
from webhook.endpoints.http.access_control import ANONYMOUS, caller_of, shown
from webhook.endpoints.http.api import Api
from webhook.endpoints.http.problems import Problem, ProblemError
from webhook.telemetry.health import Health

PAUSE_SECONDS: Final = 0.25
"""Minimum time between two events."""
COMMENT_SECONDS: Final = 15.0
"""Maximum silence before a comment is sent, so that proxies do not close an idle connection."""
STREAM_SECONDS: Final = 300.0
"""Maximum lifetime of a stream."""
MOST_NAMED: Final = 200
"""Maximum number of changed clusters that an event names. If more have changed, the viewer rereads all of them."""
WRITE_SECONDS: Final = 30.0
"""Write timeout. A slower viewer is disconnected."""


class Change(TypedDict):
    """Data of a `change` event: the parts to read again."""

    revision: int
    """Grows with every change."""
    clusters: bool
    """Whether any cluster changed."""
    clusterNames: NotRequired[list[str]]
    """Names of the changed clusters. If it is absent and `clusters` is true, any cluster may have changed."""
    placements: list[str]
    """References of the changed placements."""
    runs: bool
    """Whether any update run changed."""


def add_routes(api: Api, health: Health) -> None:
    """Serve ``/v1/events`` until the process drains."""
    viewers: set[_Viewer] = set()

    async def events(request: web.Request) -> web.StreamResponse:
        kinds = await api.readable_kinds(request, RESTRICTED_KINDS)
        caller = caller_of(request)
        # No await between these checks and `viewers.add`: two streams that start concurrently must not both take the
        # last slot.
        caller_streams = sum(viewer.caller == caller.username for viewer in viewers)
        if caller != ANONYMOUS and caller_streams >= api.settings.event_streams_per_caller:
            detail = f"{shown(caller)} already has {caller_streams} open streams, the limit per caller"
            raise ProblemError(Problem.RATE_LIMITED, detail, retry_after=10)
        if len(viewers) >= api.settings.event_streams:
            detail = f"{len(viewers)} streams are already open, the limit of this server"
            raise ProblemError(Problem.NOT_READY, detail, retry_after=10)
        prefixes, sees_runs = ref_prefixes(kinds & {*PLACEMENTS}), not kinds.isdisjoint(RUN_KINDS)
        changes, viewer = api.answers.changes, _Viewer(prefixes, caller.username, sees_runs=sees_runs)
        viewers.add(viewer)
        loop = asyncio.get_running_loop()
        end = loop.time() + STREAM_SECONDS
        # Subscribe before the headers are sent: a change in between is part of the first event. The first event names
        # everything, as the viewer may have read before its subscription.
        unsubscribe = changes.subscribe(viewer.add)
        draining = asyncio.create_task(health.draining.wait())
        draining.add_done_callback(lambda _: viewer.wake.set())
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
        response.force_close()
        try:
            viewer.add(changes.everything())
            await response.prepare(request)
            while request.method != "HEAD" and not health.draining.is_set() and loop.time() < end:
                text = await viewer.next()
                async with asyncio.timeout(WRITE_SECONDS):
                    await response.write(text)
        except (ConnectionError, TimeoutError):
            pass  # the viewer disconnected
        finally:
            unsubscribe()
            viewers.discard(viewer)
            draining.cancel()
        return response

    api.get("/v1/events", "/v1/events", events)


class _Viewer:
    """One open page, with the changes that it has yet to receive.

    Args:
        prefixes: Prefixes of the references that it may see.
        caller: The user's name.
        sees_runs: Whether it may list runs. Runs that change together with a visible placement count in any case.
    """

    def __init__(self, prefixes: tuple[str, ...], caller: str, *, sees_runs: bool) -> None:
        self._prefixes = prefixes
        self._sees_runs = sees_runs
        self.caller = caller
        self.wake = asyncio.Event()
        self._pending: ViewChange | None = None
        self._sent_at = 0.0

    def add(self, change: ViewChange) -> None:
        """Enqueue the part of *change* that the viewer may see, if any, for the next event."""
        visible = frozenset(ref for ref in change.placements if ref.startswith(self._prefixes))
        # A run is announced with its placement, but the rights to the two are separate.
        runs = change.runs and (self._sees_runs or bool(visible))
        if (visible, runs) != (change.placements, change.runs):
            if not visible and not runs and change.clusters == frozenset():
                return
            change = replace(change, placements=visible, runs=runs)
        self._pending = change if self._pending is None else self._pending | change
        self.wake.set()

    async def next(self) -> bytes:
        """Return the next event, or a comment after `COMMENT_SECONDS` without one or when the server shuts down."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(COMMENT_SECONDS):
                await self.wake.wait()
        except TimeoutError:
            return b": still here\n\n"
        await asyncio.sleep(max(0.0, self._sent_at + PAUSE_SECONDS - loop.time()))
        # No await until `_pending` is taken: a change in between would be cleared without being sent.
        self.wake.clear()
        self._sent_at = loop.time()
        change, self._pending = self._pending, None
        return b": goodbye\n\n" if change is None else event(change)


def event(change: ViewChange) -> bytes:
    """Return *change* as one server-sent event."""
    names = change.clusters
    data: Change = {
        "revision": change.revision,
        "clusters": names is None or bool(names),
        "placements": sorted(change.placements),
        "runs": change.runs,
    }
    if names and len(names) <= MOST_NAMED:
        data["clusterNames"] = sorted(names)
    return b"event: change\ndata: " + orjson.dumps(data) + b"\n\n"
