"""The environment of commands: their hub, its kubeconfig or data folder, the editor, the terminal.

Long-running processes read their hub here, too.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from webhook.settings.environment import Settings, Variable
from webhook.settings.variables import only_prints, split_kubeconfigs, usual_data_folder


class HubSettings(Settings):
    """The hub: the kubeconfigs that kubectl would use, or the account of a pod."""

    kubeconfig: Annotated[str, Variable("KUBECONFIG")] = Field(
        default="",
        description="Kubeconfigs, separated as in `PATH`. Commands search all of them for a context, as kubectl does. "
        "`serve` and `reconcile` use the first.",
    )
    kubernetes_service_host: Annotated[str | None, Variable("KUBERNETES_SERVICE_HOST")] = Field(
        default=None,
        description="Set by Kubernetes in a pod. The process then uses the cluster of the pod instead of `KUBECONFIG`.",
    )

    @property
    def kubeconfigs(self) -> tuple[Path, ...]:
        """Files of ``KUBECONFIG``. Relative paths are not resolved."""
        return split_kubeconfigs(self.kubeconfig)

    @property
    def kubeconfig_of_hub(self) -> Path | None:
        """The first kubeconfig. None means the account of a pod: in a pod, and without ``KUBECONFIG``."""
        return self.kubeconfigs[0] if self.kubeconfigs and self.kubernetes_service_host is None else None


def _usual_folder(options: Mapping[str, Any]) -> Path:
    return usual_data_folder(options["state_home"])


class DataSettings(Settings):
    """The data folder."""

    state_home: Annotated[str, Variable("XDG_STATE_HOME")] = Field(
        default="", description="Base folder for state files (XDG). Unset, empty or a relative path: `~/.local/state`."
    )
    data: Path = Field(
        default_factory=_usual_folder,
        description="Data folder of `up`. Unset or empty: `$XDG_STATE_HOME/harbormaster`, or "
        "`~/.local/state/harbormaster` if `XDG_STATE_HOME` is unset, empty or relative.",
    )

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> dict[str, str]:
        """Return the values in the environment. An empty text counts as unset."""
        return {name: text for name, text in super().from_environment(environment).items() if name != "data" or text}


class TerminalSettings(Settings):
    """The hub of commands, the terminal, the editor and the diff program.

    They follow conventions of other programs: https://no-color.org, terminfo, and kubectl.
    """

    server: str = Field(
        default="",
        description="URL of the hub that commands use. Empty: the hub of the data folder, or that of the kubeconfig.",
    )
    no_color: Annotated[str, Variable("NO_COLOR")] = Field(
        default="", description="Any value disables colors in tables, and hyperlinks."
    )
    force_hyperlink: Annotated[str, Variable("FORCE_HYPERLINK")] = Field(
        default="",
        description="Hyperlinks from words of the output to the documents: `0` disables them, any other value enables "
        "them. Empty: on a terminal.",
    )
    term: Annotated[str, Variable("TERM")] = Field(
        default="", description="Terminal type. With `dumb`, tables have plain columns, as in a pipe."
    )
    kube_editor: Annotated[str, Variable("KUBE_EDITOR")] = Field(
        default="", description="Editor for `harbormaster edit`. Empty: the value of `EDITOR`."
    )
    usual_editor: Annotated[str, Variable("EDITOR")] = Field(
        default="", description="Editor for `harbormaster edit` if `KUBE_EDITOR` is unset. Empty: `vi`."
    )
    external_diff: Annotated[str, Variable("KUBECTL_EXTERNAL_DIFF")] = Field(
        default="", description="Program for `harbormaster diff`, with its options. Empty: the built-in comparison."
    )

    @property
    def can_only_print(self) -> bool:
        """Whether the terminal can only print lines of text."""
        return only_prints(self.term)

    @property
    def editor(self) -> str:
        """Command of the editor."""
        return self.kube_editor or self.usual_editor or "vi"


class CommandLineSettings(DataSettings, HubSettings, TerminalSettings):
    """All settings that commands read from the environment."""

    reads = (DataSettings, "kubeconfig", TerminalSettings)
