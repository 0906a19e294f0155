"""Posts notifications one at a time, oldest first.

``note_event`` is called in the middle of a reconcile, so it only appends to a bounded queue: it never fails and never
waits. A failed post is retried with exponential backoff until the notification expires (``OLDEST``). A receiver that
recovers therefore gets all missed notifications that have not expired, and a receiver that remains down costs a bounded
queue and one log line.

Head-of-line blocking: if the oldest notification fails ``PATIENCE`` times in a row, later ones may pass it while the
receiver accepts them, because the receiver may reject only this one. On shutdown, each waiting notification is
tried once, until ``LAST_SECONDS`` have passed. The rest are dropped.
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
"""Number of ids that are remembered for deduplication."""
OLDEST: Final = timedelta(hours=1)
"""Age at which a notification expires."""
PATIENCE: Final = 5
"""Consecutive failures before later notifications may pass the first. Failures to connect do not count."""
POST_SECONDS: Final = 10.0
"""Timeout of one post."""
PAUSE_SECONDS: Final = (1.0, 60.0)
"""Initial and maximum backoff after a failure."""
LAST_SECONDS: Final = 2.0
"""Timeout for all attempts on shutdown together."""

log = logging.getLogger(__name__)


class DeliveryResult(StrEnum):
    """Result of a notification or of one attempt.

    ``FAILED`` is an attempt that is retried. All others are final.
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
        waiting: Returns the length of the queue.
    """

    def __init__(self, registry: CollectorRegistry, waiting: Callable[[], int]) -> None:
        self._counter = Counter(
            "harbormaster_notifications",
            "Number of notifications, by outcome. A failed attempt is retried.",
            ("result",),
            registry=registry,
        )
        for result in DeliveryResult:
            self._counter.labels(result)
        Gauge(
            "harbormaster_notifications_waiting", "Number of notifications in the queue.", registry=registry
        ).set_function(waiting)

    def count(self, result: DeliveryResult, times: int = 1) -> None:
        """Count notifications with a result."""
        self._counter.labels(result).inc(times)


class Notifier:
    """Posts Events to the receiver.

    Args:
        options: The receiver, and the reasons that are sent.
        source: The sending process.
        registry: Where the metrics are registered.
        now: The clock.
        pauses: Initial and maximum backoff after a failure, in seconds.
        post_seconds: Timeout of one post.
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
        self._sent: OrderedDict[str, None] = OrderedDict()
        self._dropped = 0
        self._failures = 0
        """Failures since the head of the queue was last sent. Failures to connect do not count."""
        self._trouble = ""
        self._counts = NotificationCounts(registry, lambda: len(self._waiting))

    async def check(self) -> None:
        """Check the files of the receiver, if one is configured.

        Raises:
            webhook.settings.environment.SettingsError: One of them cannot be used.
        """
        if self._options.url:
            await asyncio.to_thread(self._receiver.credentials)

    def note_event(self, document: JsonObject, event: Event) -> None:
        """Enqueue *event* on *document* if its reason is configured and it is not a repeat. A full queue drops it."""
        options = self._options
        if not options.url or options.reasons.isdisjoint((event.reason, f"{event.type}/{event.reason}")):
            return
        notification = notification_of(document, event, self._now())
        if notification.id in self._sent:
            return
        if len(self._waiting) >= MOST_WAITING:
            self._counts.count(DeliveryResult.DROPPED)
            self._dropped += 1
            return
        self._sent[notification.id] = None
        if len(self._sent) > MOST_REMEMBERED:
            self._sent.popitem(last=False)
        self._waiting.append(notification)
        self._arrived.set()

    async def run(self) -> None:
        """Send until cancelled, then try each waiting notification once, until ``LAST_SECONDS`` have passed."""
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
        place = 0
        try:
            async with asyncio.timeout(LAST_SECONDS):
                while place < len(self._waiting):
                    place += not await self._send(place)
        except TimeoutError:
            pass  # logged below
        if self._waiting:
            self._counts.count(DeliveryResult.DROPPED, len(self._waiting))
            log.warning("notifications not sent before shutdown", extra={"count": len(self._waiting)})
            self._waiting.clear()

    async def _send(self, place: int) -> bool:
        """Send the notification at a position of the queue. Return False if it has to be retried.

        It remains queued until its result is final, so a process that is cancelled during the post sends it again.
        """
        first = self._waiting[place]
        if self._dropped:
            log.warning("notifications dropped: queue full", extra={"count": self._dropped})
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
            return DeliveryResult.FAILED, f"no response within {self._post_seconds:g} s"
        except NotPostedError as error:
            self._failures += error.is_there
            return DeliveryResult.FAILED, str(error)
        except Exception as error:  # one that cannot be sent must not stop the others, nor the process
            log.exception("notification failed")
            return DeliveryResult.REFUSED, f"{type(error).__name__}: {error}"
        if 200 <= answer.status < 300:
            return DeliveryResult.SENT, ""
        reason = f"HTTP status {answer.status}: {answer.message}"
        if 300 <= answer.status < 500 and answer.status not in LATER:
            return DeliveryResult.REFUSED, reason
        self._failures += 1
        return DeliveryResult.FAILED, reason

    def _tell(self, result: DeliveryResult, notification: Notification, why: str) -> None:
        """Log a refusal, and a failure whose cause differs from that of the last one."""
        about = {"reason": notification.reason, "id": notification.id, "error": why}
        if result is DeliveryResult.REFUSED:
            log.warning("notification refused by the receiver", extra=about)
        elif result is DeliveryResult.FAILED and why != self._trouble:
            log.warning("notification failed, will retry", extra=about)
        elif result is DeliveryResult.SENT and self._trouble:
            log.info("notifications resumed")
        self._trouble = why if result is DeliveryResult.FAILED else ""


async def notifier_of(
    settings: NotificationSettings,
    namespace: str,
    instance: str,
    registry: CollectorRegistry,
    now: Callable[[], datetime],
) -> Notifier:
    """Create the notifier of a process.

    Args:
        settings: The receiver, and the reasons that are sent.
        namespace: Namespace of the installation.
        instance: Name of the process. In a pod, it is the pod's name.
        registry: Registry for its metrics.
        now: The clock.

    Raises:
        webhook.settings.environment.SettingsError: A file that the settings name cannot be used.
    """
    options = settings.notifications()
    notifier = Notifier(options, NotificationSource(options.hub, namespace, instance), registry, now)
    await notifier.check()
    return notifier
