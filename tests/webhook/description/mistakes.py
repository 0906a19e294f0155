"""One way to every error that a caller can bring about, on a server that is at rest."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from io import BytesIO

from tests.webhook.description.example_hub import Answer, Caller
from tests.webhook.description.questions import CHEAP_AND_LARGE, by_name


@dataclass(frozen=True)
class Mistake:
    """A request that ends in a problem.

    Args:
        slug: Of the problem.
        method: Of the request.
        path: Of the request.
        make: Makes it.
    """

    slug: str
    method: str
    path: str
    make: Callable[[Caller], Awaitable[Answer]]


SCORE = {"placement": {"inline": CHEAP_AND_LARGE}}


async def malformed(caller: Caller) -> Answer:
    return await caller.ask("POST", "/v1/score", b'{"placement": ')


async def unauthenticated(caller: Caller) -> Answer:
    return await caller.anonymous().ask("GET", "/v1/clusters")


async def not_found(caller: Caller) -> Answer:
    return await caller.ask("GET", "/v1/clusters/nowhere")


async def method_not_allowed(caller: Caller) -> Answer:
    return await caller.ask("GET", "/v1/score")


async def continue_expired(caller: Caller) -> Answer:
    first = await caller.ask("POST", "/v1/score", SCORE | {"limit": 1})
    other = {"placement": by_name("payments"), "limit": 1, "continue": first.json["continue"]}
    return await caller.ask("POST", "/v1/score", other)


async def payload_too_large(caller: Caller) -> Answer:
    return await caller.ask("POST", "/v1/validate", BytesIO(b" " * (caller.up.settings.api_body_bytes + 1)))


async def unsupported_media_type(caller: Caller) -> Answer:
    return await caller.ask("POST", "/v1/validate", b"{}", Content_Type="application/yaml")


async def validation_failed(caller: Caller) -> Answer:
    return await caller.ask("POST", "/v1/score", {"placement": by_name("payments"), "limit": "3", "colour": "red"})


MISTAKES = (
    Mistake("malformed-request", "POST", "/v1/score", malformed),
    Mistake("unauthenticated", "GET", "/v1/clusters", unauthenticated),
    Mistake("not-found", "GET", "/v1/clusters/nowhere", not_found),
    Mistake("method-not-allowed", "GET", "/v1/score", method_not_allowed),
    Mistake("continue-expired", "POST", "/v1/score", continue_expired),
    Mistake("payload-too-large", "POST", "/v1/validate", payload_too_large),
    Mistake("unsupported-media-type", "POST", "/v1/validate", unsupported_media_type),
    Mistake("validation-failed", "POST", "/v1/score", validation_failed),
)
