"""What a process tells about itself: its log, and which build it is."""

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


class BuildSettings(Settings):
    """Which build this is."""

    commit: str = Field(
        default="",
        max_length=64,
        description="Commit of the source that the program was built from; an image sets it, and metrics show it.",
    )
