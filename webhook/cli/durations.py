"""Reads a duration that an option names."""

from datetime import timedelta

import click

from scorer.api.duration import parse_wait_time


class Duration(click.ParamType[timedelta]):
    """A duration such as ``90s`` or ``1h30m``."""

    name = "DURATION"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """Return the duration; fail with a message that shows the value."""
        if isinstance(value, timedelta):
            return value
        try:
            return parse_wait_time(str(value))
        except (ValueError, OverflowError) as error:
            self.fail(str(error), param, ctx)
