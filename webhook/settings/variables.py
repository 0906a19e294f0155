"""Variables that every command reads from the environment at its start.

`webhook.settings.command_line` describes and validates the same variables as settings. This module reads them without
pydantic, whose import would take longer than the command.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self


@dataclass(frozen=True, slots=True)
class CommandVariables:
    """The variables of commands.

    Args:
        server: URL of the hub. Empty: unset.
        data: Data folder of ``up``.
        kubeconfigs: The files that kubectl would use, as written.
        can_only_print: Whether the terminal can only print lines of text.
    """

    server: str
    data: Path
    kubeconfigs: tuple[Path, ...]
    can_only_print: bool

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Self:
        """Return the variables. No text is invalid."""
        data = environment.get("HARBORMASTER_DATA", "")
        return cls(
            environment.get("HARBORMASTER_SERVER", ""),
            Path(data) if data else usual_data_folder(environment.get("XDG_STATE_HOME", "")),
            split_kubeconfigs(environment.get("KUBECONFIG", "")),
            only_prints(environment.get("TERM", "")),
        )


def usual_data_folder(state_home: str) -> Path:
    """Return the default data folder, below the folder for the state of programs."""
    base = Path(state_home)
    return (base if base.is_absolute() else Path.home() / ".local" / "state") / "harbormaster"


def split_kubeconfigs(text: str) -> tuple[Path, ...]:
    """Return the files of ``KUBECONFIG``."""
    return tuple(Path(name) for name in text.split(os.pathsep) if name)


def only_prints(term: str) -> bool:
    """Return whether a terminal of this type can only print lines of text."""
    return term == "dumb"
