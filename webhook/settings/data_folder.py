"""Where ``up`` keeps everything, and where commands look for it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from webhook.settings.environment import Settings, Variable
from webhook.settings.variables import usual_data_folder


def _usual_folder(read: Mapping[str, Any]) -> Path:
    return usual_data_folder(read["state_home"])


class DataSettings(Settings):
    """The data folder."""

    state_home: Annotated[str, Variable("XDG_STATE_HOME")] = Field(
        default="", description="Folder for the state of programs; `~/.local/state` where it is no absolute path."
    )
    data: Path = Field(
        default_factory=_usual_folder,
        description="Data folder of `up`; unset or empty: `harbormaster` in the folder for the state of programs.",
    )

    @classmethod
    def found(cls, environment: Mapping[str, str]) -> dict[str, str]:
        """Return what the environment says; an empty text names no folder."""
        return {name: text for name, text in super().found(environment).items() if name != "data" or text}
