"""Observability of a process: its log, its traces, its build, and the retention of history."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from webhook.settings.environment import Settings
from webhook.settings.values import MEBIBYTE, SecondsWithin


class ObservabilitySettings(Settings):
    """The log, on standard error, the build, and traces by OpenTelemetry.

    Traces need the libraries of ``requirements-otel.txt``.
    """

    log_format: Literal["json", "text"] = Field(
        default="json", description="Format of the log: `json`, or `text` for human readers."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Minimum level of log messages."
    )
    tracing_endpoint: str = Field(
        default="",
        description="OTLP endpoint (HTTP) for traces, such as `http://collector:4318/v1/traces`. Empty: disabled.",
    )
    tracing_share: Annotated[float, Field(ge=0, le=1)] = Field(
        default=1.0,
        description="Share of reconciles, admission reviews and extender requests that are traced, from 0 to 1. The "
        "sampling flag of a `traceparent` takes precedence, except in a review whose caller is not identified as the "
        "API server.",
    )
    commit: str = Field(
        default="",
        max_length=64,
        description="Commit that the program was built from. Set in the image, and shown in metrics.",
    )

    @field_validator("tracing_endpoint")
    @classmethod
    def _check_endpoint(cls, url: str) -> str:
        if not url:
            return url
        try:
            parts = urlsplit(url)
            parts.port  # noqa: B018 - raises where it is not a number
        except ValueError as error:
            raise ValueError(f"must be a URL: {error}") from error
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError("must start with http:// or https:// and a host")
        if parts.username is not None or parts.password is not None:
            raise ValueError("must not contain credentials: set OTEL_EXPORTER_OTLP_HEADERS")
        return url


@dataclass(frozen=True, slots=True)
class HistoryOptions:
    """Retention of the history, and the interval of its writes.

    Args:
        age: Retention time. Zero: disabled.
        most_bytes: Maximum size in bytes, for the loop and for the servers each.
        interval: Minimum interval between the writes of a process.
    """

    age: timedelta = timedelta(days=7)
    most_bytes: int = 8 * MEBIBYTE
    interval: timedelta = timedelta(seconds=10)


class HistorySettings(Settings):
    """The history of Events."""

    history_days: int = Field(
        default=7,
        ge=0,
        le=90,
        description=(
            "Number of days that decisions, rollouts, user actions and refusals are kept for `harbormaster history`. "
            "0: disabled."
        ),
    )
    history_megabytes: int = Field(
        default=8,
        ge=1,
        le=64,
        description="Size limit of the history in MiB, separately for the loop and for the servers. The oldest "
        "entries are deleted first.",
    )
    history_seconds: SecondsWithin = Field(
        default=10, ge=1, le=300, description="Minimum interval between writes of the history by one process."
    )

    def history(self) -> HistoryOptions:
        """Return the retention, the size limit and the write interval of the history."""
        return HistoryOptions(
            timedelta(days=self.history_days),
            self.history_megabytes * MEBIBYTE,
            timedelta(seconds=self.history_seconds),
        )
