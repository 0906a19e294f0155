"""Reads the instant that ``--now`` names."""

from datetime import datetime

import click

from scorer.api.json_object import parse_time


class Instant(click.ParamType[datetime]):
    """An RFC 3339 instant such as ``2026-03-01T10:00:00Z``."""

    name = "RFC3339"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Return the instant; fail with a message that shows the value."""
        if isinstance(value, datetime):
            return value
        try:
            return parse_time(str(value))
        except (ValueError, OverflowError):
            self.fail(f"{str(value)[:64]!r} is no instant such as 2026-03-01T10:00:00Z", param, ctx)


now_option = click.option(
    "--now",
    type=Instant(),
    help="Compute the age of heartbeats and values at this instant.  [default: the files' newest heartbeat, or now]",
)
