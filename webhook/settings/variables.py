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
        term: Type of the terminal.
        no_color: Whether colors and links are disabled.
        force_hyperlink: Whether output has hyperlinks: ``0`` for no, another text for yes. Empty: if it is a terminal.
    """

    server: str
    data: Path
    kubeconfigs: tuple[Path, ...]
    term: str
    no_color: bool
    force_hyperlink: str

    @property
    def can_only_print(self) -> bool:
        """Whether the terminal can only print lines of text."""
        return only_prints(self.term)

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Self:
        """Return the variables. No text is invalid."""
        data = environment.get("HARBORMASTER_DATA", "")
        return cls(
            environment.get("HARBORMASTER_SERVER", ""),
            Path(data) if data else usual_data_folder(environment.get("XDG_STATE_HOME", "")),
            split_kubeconfigs(environment.get("KUBECONFIG", "")),
            environment.get("TERM", ""),
            bool(environment.get("NO_COLOR", "")),
            environment.get("FORCE_HYPERLINK", ""),
        )


def usual_data_folder(state_home: str) -> Path:
    """Return the default data folder, below the base folder for state files (XDG)."""
    base = Path(state_home)
    return (base if base.is_absolute() else Path.home() / ".local" / "state") / "harbormaster"


def split_kubeconfigs(text: str) -> tuple[Path, ...]:
    """Return the files that a value of ``KUBECONFIG`` lists, without empty entries."""
    return tuple(Path(name) for name in text.split(os.pathsep) if name)


def only_prints(term: str) -> bool:
    """Return whether a terminal of this type can only print lines of text."""
    return term == "dumb"
