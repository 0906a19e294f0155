"""Sends notifications, one after the other, in the order in which things happened.

One that the receiver answers with an error again and again, not at all or not in time, lets the others pass, as long as
it takes those: it may be the only one that it cannot take. A receiver that takes none gets them in order once it does.

Noting one is cheap, never fails and never waits: it happens in the midst of a reconcile. What the receiver does not
take is sent again, with pauses that grow, until it is too old to be news; so a receiver that was down for a while hears
of everything, and one that is down for good costs a bounded queue and a line in the log. The end of a process sends
what waits once more, and waits little for that.
"""

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Callable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from scorer.api.event import Event
from scorer.api.meta import JsonObject
from webhook.kube.transport.signed_post import LATER, NotPostedError, Receiver, post_signed
from webhook.notifications.notification import Notification, NotificationSource, notification_of
from webhook.settings.notifications import NotificationOptions, NotificationSettings

SETTING: Final = "NOTIFICATIONS"
MOST_WAITING: Final = 1_000
MOST_REMEMBERED: Final = 4_096
"""Ids by which what is told again is known."""
OLDEST: Final = timedelta(hours=1)
"""How long after it happened something is still sent."""
PATIENCE: Final = 5
"""How often in a row one may fail at a receiver that is there, before others may pass it."""
POST_SECONDS: Final = 10.0
"""How long the receiver may take."""
PAUSE_SECONDS: Final = (1.0, 60.0)
"""The first and the longest pause after a failure."""
LAST_SECONDS: Final = 2.0
"""How long the end of a process may take to send what waits."""

log = logging.getLogger(__name__)


class DeliveryResult(StrEnum):
    """What became of a notification, or of one attempt to send it.

    ``FAILED`` is an attempt that is made again; all others are final.
    """

    SENT = "sent"
    FAILED = "failed"
    REFUSED = "refused"
    EXPIRED = "expired"
    DROPPED = "dropped"


class NotificationCounts:
    """Counts notifications.

    Args:
        registry: Where the metrics are registered.
        waiting: Returns how many wait.
    """

    def __init__(self, registry: CollectorRegistry, waiting: Callable[[], int]) -> None:
        self._counter = Counter(
            "harbormaster_notifications",
            "Notifications by what became of them; failed: an attempt that is made again.",
            ("result",),
            registry=registry,
        )
        for result in DeliveryResult:
            self._counter.labels(result)
        Gauge(
            "harbormaster_notifications_waiting", "Notifications that are still to be sent.", registry=registry
        ).set_function(waiting)

    def count(self, result: DeliveryResult, times: int = 1) -> None:
        """Count what became of notifications."""
        self._counter.labels(result).inc(times)


class Notifier:
    """Tells the receiver of Events.

    Args:
        options: Who is told of what.
        source: Which process tells.
        registry: Where the metrics are registered.
        now: The clock.
        pauses: The first and the longest pause after a failure, in seconds.
        post_seconds: How long the receiver may take.
    """

    def __init__(
        self,
        options: NotificationOptions,
        source: NotificationSource,
        registry: CollectorRegistry,
        now: Callable[[], datetime],
        *,
        pauses: tuple[float, float] = PAUSE_SECONDS,
        post_seconds: float = POST_SECONDS,
    ) -> None:
        self._options = options
        self._receiver = Receiver(options.url, options.secret_file, options.ca, SETTING)
        self._source = source
        self._now = now
        self._pauses = pauses
        self._pause = pauses[0]
        self._post_seconds = post_seconds
        self._waiting: deque[Notification] = deque()
        self._arrived = asyncio.Event()
        self._told: OrderedDict[str, None] = OrderedDict()
        self._dropped = 0
        self._failures = 0
        """How often in a row the first in line has failed at a receiver that is there."""
        self._trouble = ""
        self._counts = NotificationCounts(registry, lambda: len(self._waiting))

    async def check(self) -> None:
        """Look whether the files can be used, if anybody is told.

        Raises:
            webhook.settings.environment.SettingsError: One cannot be.
        """
        if self._options.url:
            await asyncio.to_thread(self._receiver.credentials)

    def note_event(self, document: JsonObject, event: Event) -> None:
        """Have *event*, which happened to *document* now, sent if it is one of those that are."""
        options = self._options
        if not options.url or options.reasons.isdisjoint((event.reason, f"{event.type}/{event.reason}")):
            return
        notification = notification_of(document, event, self._now())
        if notification.id in self._told:
            return
        if len(self._waiting) >= MOST_WAITING:
            self._counts.count(DeliveryResult.DROPPED)
            self._dropped += 1
            return
        self._told[notification.id] = None
        if len(self._told) > MOST_REMEMBERED:
            self._told.popitem(last=False)
        self._waiting.append(notification)
        self._arrived.set()

    async def run(self) -> None:
        """Send until cancelled, then what waits once more."""
        try:
            while True:
                await self._arrived.wait()
                if await self._send(0):
                    self._pause, self._failures = self._pauses[0], 0
                else:
                    while self._failures >= PATIENCE and len(self._waiting) > 1 and await self._send(1):
                        pass
                    await asyncio.sleep(self._pause)
                    self._pause = min(2 * self._pause, self._pauses[1])
        finally:
            await self._send_the_rest()

    async def _send_the_rest(self) -> None:
        try:
            async with asyncio.timeout(LAST_SECONDS):
                while self._waiting and await self._send(0):
                    pass
        except TimeoutError:
            pass  # said below
        if self._waiting:
            self._counts.count(DeliveryResult.DROPPED, len(self._waiting))
            log.warning("notifications were not sent before the end", extra={"count": len(self._waiting)})
            self._waiting.clear()

    async def _send(self, place: int) -> bool:
        """Send what is at a place in line; say whether that was its turn, whatever became of it: not a failure for now.

        It stays in line until its end is known: a process that ends in the midst of it sends it again.
        """
        first = self._waiting[place]
        if self._dropped:
            log.warning("notifications dropped: too many wait", extra={"count": self._dropped})
            self._dropped = 0
        result = DeliveryResult.EXPIRED
        if self._now() - first.time <= OLDEST:
            result, reason = await self._post(first)
            self._tell(result, first, reason)
        else:
            log.warning("notification dropped: too old", extra={"reason": first.reason, "id": first.id})
        self._counts.count(result)
        if result is DeliveryResult.FAILED:
            return False
        del self._waiting[place]
        if not self._waiting:
            self._arrived.clear()
        return True

    async def _post(self, notification: Notification) -> tuple[DeliveryResult, str]:
        try:
            async with asyncio.timeout(self._post_seconds):
                answer = await post_signed(self._receiver, notification.body(self._source, self._now()), {})
        except TimeoutError:
            self._failures += 1
            return DeliveryResult.FAILED, f"no answer within {self._post_seconds:g} s"
        except NotPostedError as error:
            self._failures += error.is_there
            return DeliveryResult.FAILED, str(error)
        except Exception as error:  # one that cannot be sent must not end all others, nor the process
            log.exception("notification cannot be sent")
            return DeliveryResult.REFUSED, f"{type(error).__name__}: {error}"
        if 200 <= answer.status < 300:
            return DeliveryResult.SENT, ""
        reason = f"HTTP status {answer.status}: {answer.message}"
        if 300 <= answer.status < 500 and answer.status not in LATER:
            return DeliveryResult.REFUSED, reason
        self._failures += 1
        return DeliveryResult.FAILED, reason

    def _tell(self, result: DeliveryResult, notification: Notification, why: str) -> None:
        """Log what is refused, and what fails when it fails for another cause than before."""
        about = {"reason": notification.reason, "id": notification.id, "error": why}
        if result is DeliveryResult.REFUSED:
            log.warning("notification refused", extra=about)
        elif result is DeliveryResult.FAILED and why != self._trouble:
            log.warning("notification not sent, to be tried again", extra=about)
        elif result is DeliveryResult.SENT and self._trouble:
            log.info("notifications are sent again")
        self._trouble = why if result is DeliveryResult.FAILED else ""


async def notifier_of(
    settings: NotificationSettings,
    namespace: str,
    instance: str,
    registry: CollectorRegistry,
    now: Callable[[], datetime],
) -> Notifier:
    """Make the notifier of a process.

    Args:
        settings: Who is told of what.
        namespace: Of the installation.
        instance: Which process this is; in a pod its name.
        registry: Where its metrics are registered.
        now: The clock.

    Raises:
        webhook.settings.environment.SettingsError: A file that the settings name cannot be used.
    """
    options = settings.notifications()
    made = Notifier(options, NotificationSource(options.hub, namespace, instance), registry, now)
    await made.check()
    return made
