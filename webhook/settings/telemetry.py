"""What a process writes to its log."""

from typing import Literal

from pydantic import Field

from webhook.settings.environment import Settings


class LogSettings(Settings):
    """The log, on standard error."""

    log_format: Literal["json", "text"] = Field(
        default="json", description="How lines of the log are written: `json` for machines, `text` for people."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="The lowest level that is written."
    )
