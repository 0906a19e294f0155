"""How much callers may ask of a server at once."""

from pydantic import Field

from webhook.settings.environment import Settings
from webhook.settings.values import MEBIBYTE, Bytes, Seconds


class LimitSettings(Settings):
    """Limits on the requests of all callers."""

    admission_body_bytes: Bytes = Field(default=8 * MEBIBYTE, description="Longest body of an admission review.")
    api_body_bytes: Bytes = Field(default=MEBIBYTE, description="Longest body of a request to `/v1`.")
    extender_body_bytes: Bytes = Field(
        default=32 * MEBIBYTE, description="Longest body of a request to the scheduler extender."
    )
    bodies_bytes: Bytes = Field(
        default=64 * MEBIBYTE,
        description="Memory for bodies that are being read, and for long ones that are being judged; a request that "
        "needs more is answered 503.",
    )
    body_seconds: Seconds = Field(default=5, description="How long the body of a request may take to arrive.")
    admission_in_flight: int = Field(
        default=100,
        gt=0,
        description="Admission reviews that are handled at once; one more is answered 503, and strangers get half of "
        "them at most.",
    )
    event_streams: int = Field(default=100, gt=0, description="Streams of `/v1/events` that may be open at once.")
    event_streams_per_caller: int = Field(
        default=20,
        gt=0,
        description="Streams of `/v1/events` that one caller may have open at once; the plain listener, which does not "
        "authenticate callers, has no such limit.",
    )
