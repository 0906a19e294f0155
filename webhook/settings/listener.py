"""Listeners and their limits: addresses, connections, request sizes, shutdown."""

from collections.abc import Iterator
from typing import Final

from pydantic import Field

from webhook.settings.environment import MOST_SHOWN, Contradiction, Settings
from webhook.settings.values import MEBIBYTE, Bytes, Port, Seconds

LOOPBACK_HOSTS: Final = ("127.0.0.1", "::1", "localhost")
MOST_WORKERS: Final = 256
PLAIN_LISTENER: Final = ("http_host", "http_port", "connections", "handshakes_per_address", "handshake_seconds")
"""Settings of the HTTP listener, which every process has for probes and metrics."""


class ListenerSettings(Settings):
    """The listeners of a server, and the limits of any listener.

    Port 0 means any free port. The process logs its number.
    """

    host: str = Field(
        default="127.0.0.1", description="Address of the HTTPS listener, which serves admission, `/v1` and the page."
    )
    https_port: Port = Field(default=9443, description="Port of the HTTPS listener. 0: any free port.")
    page_on_http: bool = Field(
        default=False,
        description=(
            "Also serve the page and the read-only part of `/v1` on the plain listener, to every user of this machine."
        ),
    )
    page_actions: bool = Field(
        default=False,
        description=(
            "Offer actions on the page, such as approving or stopping a run. Each is sent to the API server of the hub "
            "with the token of the viewer, never with that of the server."
        ),
    )
    keepalive_seconds: Seconds = Field(
        default=120,
        description="Idle timeout of a connection. It must be longer than the 90 seconds of kube-apiserver, so "
        "that the API server closes the connection first and never sends a review on a closing connection.",
    )
    drain_seconds: Seconds = Field(
        default=15,
        description="Minimum time that the listeners remain open after SIGTERM, even without connected clients.",
    )
    drain_limit_seconds: Seconds = Field(
        default=100,
        description="Maximum time to wait for clients to close their connections after SIGTERM. Not less than "
        "`HARBORMASTER_DRAIN_SECONDS`.",
    )
    shutdown_seconds: Seconds = Field(
        default=10, description="Grace period for requests in flight after the listeners are closed."
    )
    workers: int = Field(
        default=1,
        ge=1,
        le=MOST_WORKERS,
        description="Processes that serve the same ports, each with its own cache. Limits on memory, connections, "
        "requests and rates apply to each.",
    )
    http_host: str = Field(
        default="127.0.0.1", description="Address of the plain HTTP listener, which serves probes and metrics."
    )
    http_port: Port = Field(default=8081, description="Port of the plain HTTP listener. 0: any free port.")
    connections: int = Field(
        default=1000,
        gt=0,
        description="Maximum number of open connections per listener. At the limit, a new connection closes another "
        "one: the oldest silent one or the oldest one in its handshake, if more than a quarter of the limit is in that "
        "state, otherwise an unauthenticated one, preferably an idle one, otherwise an idle authenticated one. If all "
        "are authenticated and none is idle, the new one is closed.",
    )
    handshakes_per_address: int = Field(
        default=200,
        gt=0,
        description="Maximum number of silent connections from one address, and of TLS handshakes in progress from "
        "one address. At either limit, the oldest one from that address is closed.",
    )
    handshake_seconds: Seconds = Field(default=3, gt=0, description="Timeout of a TLS handshake.")

    def contradictions(self) -> Iterator[Contradiction]:
        """Yield a page on a plain listener that is not on loopback, and a drain limit below the drain time."""
        yield from super().contradictions()
        if self.page_on_http and self.http_host not in LOOPBACK_HOSTS:
            yield Contradiction(
                frozenset({"page_on_http", "http_host"}),
                f"http_host: {self.http_host[:MOST_SHOWN]!r}: must be one of {', '.join(LOOPBACK_HOSTS)} when "
                "page_on_http is true",
            )
        if self.drain_limit_seconds < self.drain_seconds:
            yield Contradiction(
                frozenset({"drain_limit_seconds", "drain_seconds"}),
                f"drain_limit_seconds: {self.drain_limit_seconds:g}: must not be less than drain_seconds, "
                f"{self.drain_seconds:g}",
            )


class LimitSettings(Settings):
    """Limits on the requests of all callers."""

    admission_body_bytes: Bytes = Field(
        default=8 * MEBIBYTE, description="Size limit of the body of an admission review."
    )
    api_body_bytes: Bytes = Field(default=MEBIBYTE, description="Size limit of the body of a request to `/v1`.")
    extender_body_bytes: Bytes = Field(
        default=32 * MEBIBYTE, description="Size limit of the body of a request to the scheduler extender."
    )
    bodies_bytes: Bytes = Field(
        default=64 * MEBIBYTE,
        description="Memory for request bodies: those being read, and long ones being reviewed. A request that "
        "exceeds it gets 503.",
    )
    body_seconds: Seconds = Field(default=5, description="Timeout for receiving the body of a request.")
    admission_in_flight: int = Field(
        default=100,
        gt=0,
        description="Maximum number of concurrent admission reviews. Further ones get 503. Callers that are not "
        "identified as the API server get at most half of them.",
    )
    event_streams: int = Field(default=100, gt=0, description="Maximum number of concurrent streams of `/v1/events`.")
    event_streams_per_caller: int = Field(
        default=20,
        gt=0,
        description="Maximum number of concurrent streams of `/v1/events` per caller. Does not apply to the plain "
        "listener, which does not authenticate callers.",
    )
