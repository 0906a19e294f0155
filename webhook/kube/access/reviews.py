"""Cache of review answers, with one request for concurrent identical questions.

Source: serving.md 3.4.
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
        registry: Where the metric is registered.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._counter = Counter(
            "harbormaster_auth_reviews",
            "Reviews of who a caller is and of what a user may do: asked of the API server, or known already.",
            ("kind", "result"),
            registry=registry,
        )
        for kind in ("token", "access"):
            for result in ("allow", "deny", "error", "cache"):
                self._counter.labels(kind, result)

    def count(self, kind: Subject, result: Result) -> None:
        """Count one."""
        self._counter.labels(kind, result).inc()


class Reviews(Generic[AnswerT]):
    """Answers of one kind.

    Args:
        kind: What they are about, for the metrics.
        counts: The metrics.
        seconds: How long an answer is good.
        allows: Whether it is a good one.
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
        self._known: OrderedDict[Hashable, tuple[float, AnswerT]] = OrderedDict()
        self._asking: dict[Hashable, asyncio.Task[AnswerT]] = {}
        self._slots = asyncio.Semaphore(MAX_CONCURRENT_REVIEWS)

    def cached(self, key: Hashable) -> AnswerT | None:
        """Return the answer that is still good, None when there is none."""
        entry = self._known.get(key)
        if entry is None or asyncio.get_running_loop().time() >= entry[0]:
            return None
        self._known.move_to_end(key)
        return entry[1]

    async def find(self, key: Hashable, ask: Callable[[], Awaitable[AnswerT]]) -> AnswerT:
        """Return the answer, by asking if it is not known; callers that come meanwhile wait for the same answer.

        A failure is not remembered.

        Args:
            key: What is asked.
            ask: Asks the API server.

        Raises:
            NotReviewedError: There was no answer within five seconds.
        """
        cached = self.cached(key)
        if cached is not None:
            self._counts.count(self._kind, "cache")
            return cached
        task = self._asking.get(key)
        if task is None:
            task = self._asking[key] = asyncio.create_task(self._ask(key, ask))
            task.add_done_callback(lambda task: self._forget(key, task))
        return await asyncio.shield(task)  # a caller that is cancelled must not cancel it for the others

    async def _ask(self, key: Hashable, ask: Callable[[], Awaitable[AnswerT]]) -> AnswerT:
        request_time = asyncio.get_running_loop().time()  # what the answer says may be as old as the question
        try:
            async with asyncio.timeout(REVIEW_SECONDS), self._slots:
                answer = await ask()
        except (StoreError, TimeoutError) as error:
            self._counts.count(self._kind, "error")
            raise NotReviewedError(str(error) or "the API server did not answer in time") from error
        self._counts.count(self._kind, "allow" if self._allows(answer) else "deny")
        self._known[key] = (request_time + self._seconds(answer), answer)
        self._known.move_to_end(key)
        if len(self._known) > MOST_REMEMBERED:
            self._known.popitem(last=False)
        return answer

    def _forget(self, key: Hashable, task: asyncio.Task[AnswerT]) -> None:
        del self._asking[key]
        if not task.cancelled():
            task.exception()  # retrieved here, as every caller may be gone: else asyncio logs it as never retrieved
