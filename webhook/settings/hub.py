"""Which hub a process works for, where no option says so; the variables are those of kubectl and of Kubernetes."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from webhook.settings.environment import Settings, Variable
from webhook.settings.variables import split_kubeconfigs


class KubeconfigSettings(Settings):
    """The kubeconfigs that kubectl would use."""

    kubeconfig: Annotated[str, Variable("KUBECONFIG")] = Field(
        default="",
        description="Kubeconfigs, separated as in `PATH`: commands look for a context in all of them, as kubectl does, "
        "`serve` and `reconcile` use the first.",
    )

    @property
    def kubeconfigs(self) -> tuple[Path, ...]:
        """The files, as they are written there."""
        return split_kubeconfigs(self.kubeconfig)


class HubSettings(KubeconfigSettings):
    """The hub of a process that runs for long."""

    kubernetes_service_host: Annotated[str | None, Variable("KUBERNETES_SERVICE_HOST")] = Field(
        default=None,
        description="Set by Kubernetes in a pod, where a process works for its own cluster rather than for that of "
        "`KUBECONFIG`.",
    )

    @property
    def kubeconfig_of_hub(self) -> Path | None:
        """The kubeconfig of the hub; None: the account of this pod."""
        return self.kubeconfigs[0] if self.kubeconfigs and self.kubernetes_service_host is None else None
