"""The hub of a kubeconfig. Files and contexts are selected as in kubectl."""

from collections.abc import Mapping
from pathlib import Path

from scorer.api.unstructured.documents import text_at
from webhook.cli.errors import UserError
from webhook.cli.files.documents import DEFAULT_NAMESPACE
from webhook.cli.hub.connection import HubConnection
from webhook.kube.login.kubeconfig import ConfigurationError, Kubeconfig, find_context
from webhook.processes.hub_kubeconfig import is_hub_of_up
from webhook.settings.variables import CommandVariables


def files_of_kubectl(environment: Mapping[str, str]) -> list[Path]:
    """Return the files that kubectl would read: those of ``KUBECONFIG``, unchanged, else ``~/.kube/config``."""
    return list(CommandVariables.read(environment).kubeconfigs) or [Path.home() / ".kube" / "config"]


def find_kubeconfig(file: Path | None, context: str | None, environment: Mapping[str, str]) -> HubConnection:
    """Return the hub of a context. Missing files of ``KUBECONFIG`` are skipped, as in kubectl.

    Args:
        file: The kubeconfig, by default those of kubectl.
        context: The context, by default the current one.
        environment: The variables of the process.

    Raises:
        UserError: The file does not exist, lacks the context, or cannot be used.
    """
    paths = [file] if file is not None else [path for path in files_of_kubectl(environment) if path.exists()]
    if not paths:
        missing = files_of_kubectl(environment)[0]
        raise UserError(
            f"kubeconfig {missing}: no such file or directory. Give another kubeconfig with --kubeconfig FILE"
        )
    try:
        entry = find_context([Kubeconfig.read(path) for path in paths], context)
    except ConfigurationError as error:
        raise UserError(str(error)) from error
    return HubConnection(
        text_at(entry.cluster, "server"),
        token=text_at(entry.user, "token"),
        ca_file=entry.path("cluster", "certificate-authority"),
        kubeconfig=entry.file,
        context=entry.name,
        namespace=entry.namespace or DEFAULT_NAMESPACE,
        ours=is_hub_of_up(entry.cluster),
    )


def context_names(file: Path | None, environment: Mapping[str, str]) -> list[str]:
    """Return the names of all contexts in a kubeconfig. An unreadable file is skipped.

    Args:
        file: The kubeconfig. None means the files of kubectl.
        environment: The variables of the process.
    """
    names: list[str] = []
    for path in [file] if file is not None else files_of_kubectl(environment):
        try:
            names += Kubeconfig.read(path).context_names()
        except ConfigurationError:
            continue
    return sorted(set(names))
