"""Cache of review answers that deduplicates concurrent identical requests.

Source: docs/specifications/serving.md 3.4.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, Literal, TypeVar

from prometheus_client import CollectorRegistry, Counter

from webhook.access.ports import NotReviewedError
from webhook.kube.ports import StoreError

Subject = Literal["token", "access"]
Result = Literal["allow", "deny", "error", "cache"]

REVIEW_SECONDS: Final = 5.0
MOST_REMEMBERED: Final = 4096
MAX_CONCURRENT_REVIEWS: Final = 16

AnswerT = TypeVar("AnswerT")


class ReviewCounts:
    """Counts reviews.

    Args:
        registry: Registry of the metric.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._counter = Counter(
            "harbormaster_auth_reviews",
            "Number of reviews of tokens and rights, by result. cache: answered from the cache.",
            ("kind", "result"),
            registry=registry,
        )
        for kind in ("token", "access"):
            for result in ("allow", "deny", "error", "cache"):
                self._counter.labels(kind, result)

    def count(self, kind: Subject, result: Result) -> None:
        """Count one review."""
        self._counter.labels(kind, result).inc()


class Reviews(Generic[AnswerT]):
    """Cached answers to reviews of one kind.

    Args:
        kind: Kind of review, for the metrics.
        counts: The metrics.
        seconds: Returns the time to live of an answer.
        allows: Returns whether an answer counts as allowed.
    """

    def __init__(
        self,
        kind: Subject,
        counts: ReviewCounts,
        *,
        seconds: Callable[[AnswerT], float],
        allows: Callable[[AnswerT], bool],
    ) -> None:
        self._kind: Subject = kind
        self._counts = counts
        self._seconds = seconds
        self._allows = allows
        self._answers: OrderedDict[Hashable, tuple[float, AnswerT]] = OrderedDict()
        self._asking: dict[Hashable, asyncio.Task[AnswerT]] = {}
        self._slots = asyncio.Semaphore(MAX_CONCURRENT_REVIEWS)

    def cached(self, key: Hashable) -> AnswerT | None:
        """Return the cached answer, or None if it is missing or expired."""
        entry = self._answers.get(key)
        if entry is None or asyncio.get_running_loop().time() >= entry[0]:
            return None
        self._answers.move_to_end(key)
        return entry[1]

    async def find(self, key: Hashable, ask: Callable[[], Awaitable[AnswerT]]) -> AnswerT:
        """Return the cached answer, or request one. Concurrent callers with the same key share one request.

        Failures are not cached.

        Args:
            key: Identifies the review.
            ask: Sends the review to the API server.

        Raises:
            NotReviewedError: The request failed, or timed out after `REVIEW_SECONDS`, including the wait for a slot.
        """
        cached = self.cached(key)
        if cached is not None:
            self._counts.count(self._kind, "cache")
            return cached
        task = self._asking.get(key)
        if task is None:
            task = self._asking[key] = asyncio.create_task(self._ask(key, ask))
            task.add_done_callback(lambda task: self._forget(key, task))
        return await asyncio.shield(task)  # shielded: cancelling one caller must not cancel the others

    async def _ask(self, key: Hashable, ask: Callable[[], Awaitable[AnswerT]]) -> AnswerT:
        request_time = asyncio.get_running_loop().time()  # the answer may be as old as the request
        try:
            async with asyncio.timeout(REVIEW_SECONDS), self._slots:
                answer = await ask()
        except (StoreError, TimeoutError) as error:
            self._counts.count(self._kind, "error")
            raise NotReviewedError(str(error) or "the API server did not answer in time") from error
        self._counts.count(self._kind, "allow" if self._allows(answer) else "deny")
        self._answers[key] = (request_time + self._seconds(answer), answer)
        self._answers.move_to_end(key)
        if len(self._answers) > MOST_REMEMBERED:
            self._answers.popitem(last=False)
        return answer

    def _forget(self, key: Hashable, task: asyncio.Task[AnswerT]) -> None:
        del self._asking[key]
        if not task.cancelled():
            task.exception()  # retrieved here, because every caller may be cancelled: asyncio would log it otherwise
