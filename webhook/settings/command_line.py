"""What commands read from the environment, besides their options: the hub to ask, the editor, the terminal."""

from typing import Annotated

from pydantic import Field

from webhook.settings.data_folder import DataSettings
from webhook.settings.environment import Settings, Variable
from webhook.settings.hub import KubeconfigSettings
from webhook.settings.variables import only_prints


class TerminalSettings(Settings):
    """How tables are shown, by conventions that other programs follow as well: https://no-color.org, terminfo."""

    no_color: Annotated[str, Variable("NO_COLOR")] = Field(
        default="", description="Any text, whatever it says, asks for tables without colours."
    )
    term: Annotated[str, Variable("TERM")] = Field(
        default="", description="Kind of terminal: `dumb` gets plain columns, as a pipe does."
    )

    @property
    def can_only_print(self) -> bool:
        """Whether the terminal can only print lines of text."""
        return only_prints(self.term)


class EditorSettings(Settings):
    """The editor, found as kubectl finds it."""

    kube_editor: Annotated[str, Variable("KUBE_EDITOR")] = Field(
        default="", description="Editor of `harbormaster edit`; empty: that of `EDITOR`."
    )
    usual_editor: Annotated[str, Variable("EDITOR")] = Field(
        default="", description="Editor of `harbormaster edit` where `KUBE_EDITOR` names none; empty: `vi`."
    )

    @property
    def editor(self) -> str:
        """The command that edits a file."""
        return self.kube_editor or self.usual_editor or "vi"


class DiffSettings(Settings):
    """The program that compares, found as kubectl finds it."""

    external_diff: Annotated[str, Variable("KUBECTL_EXTERNAL_DIFF")] = Field(
        default="", description="Program of `harbormaster diff`, with its options; empty: none, it compares itself."
    )


class CommandLineSettings(DataSettings, KubeconfigSettings, TerminalSettings, EditorSettings, DiffSettings):
    """Everything that commands read from the environment."""

    server: str = Field(
        default="", description="URL of the hub that commands ask; empty: the one of the data folder, or kubectl's."
    )
