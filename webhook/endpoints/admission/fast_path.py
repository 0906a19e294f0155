"""The fast path of the listener: answers a review without a handler task if no step has to be awaited.

A module of its own, because processes without hooks also have listeners, and need not load the rules.
"""

from dataclasses import dataclass
from typing import Final, Literal, Protocol

from aiohttp import web
from aiohttp.web_protocol import RequestHandler


@dataclass(frozen=True, slots=True)
class Called:
    """The hook that the target of a request names.

    Args:
        hook: The hook.
        by_secret: Whether the target is below the secret path.
        budget: Seconds until the review times out, counted from its arrival.
    """

    hook: Literal["validate", "mutate"]
    by_secret: bool
    budget: float


class FastPath(Protocol):
    """Answers reviews that can be decided synchronously."""

    def find(self, target: str) -> Called | None:
        """Return the hook whose reviews `answer_synchronously` may answer, or None for any other target."""
        ...

    def answer_synchronously(self, call: Called, client: RequestHandler, body: bytes) -> bytes | None:
        """Answer a valid review of the API server that can be decided without waiting.

        Returns:
            The body of a response with status 200, or None if the ordinary handler must process the review, if only to
            refuse it. In that case, the call had no effect.
        """
        ...


FAST_PATH: Final = web.AppKey("FAST_PATH", FastPath)
"""The fast path of an application with hooks."""
