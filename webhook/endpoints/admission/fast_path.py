"""The fast path of the listener: answers a review without a handler task when nothing has to be awaited.

A module of its own, because processes without hooks have listeners as well, and need not load the rules.
"""

from dataclasses import dataclass
from typing import Final, Literal, Protocol

from aiohttp import web
from aiohttp.web_protocol import RequestHandler


@dataclass(frozen=True, slots=True)
class Called:
    """The hook that the target of a request names.

    Args:
        hook: Which one.
        by_secret: The target is below the secret path.
        budget: Seconds that the caller allows, less our margin.
    """

    hook: Literal["validate", "mutate"]
    by_secret: bool
    budget: float


class FastPath(Protocol):
    """Answers reviews for which nothing has to be waited for."""

    def find(self, target: str) -> Called | None:
        """Return the hook whose reviews `answer_synchronously` may answer; None: none is called by that target."""
        ...

    def answer_synchronously(self, call: Called, client: RequestHandler, body: bytes) -> bytes | None:
        """Answer a review of the API server for which nothing has to be waited for, and nothing is wrong.

        Returns:
            The body of the answer, of status 200. None: nothing has happened, and the ordinary handler has to take the
            review, also where that means to refuse it.
        """
        ...


FAST_PATH: Final = web.AppKey("FAST_PATH", FastPath)
"""That of an application with hooks."""
