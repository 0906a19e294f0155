"""The cluster that a kubeconfig leads to: its file, its context, and the namespace.

Files and contexts are chosen as kubectl chooses them. Of the credentials only a token is read here; certificates and
credential plugins are read by `webhook.kube.login.kubeconfig`.

Source: client-go ``tools/clientcmd/loader.go``.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from scorer.api.unstructured.documents import dict_at, dicts_at, text_at
from scorer.api.values.quoting import printable
from webhook.cli.errors import UserError
from webhook.cli.files.documents import DEFAULT_NAMESPACE
from webhook.cli.hub.connection import HubConnection
from webhook.kube.login.kubeconfig_fields import parse_kubeconfig
from webhook.processes.hub_kubeconfig import is_hub_of_up
from webhook.runtime.files import read_bounded
from webhook.settings.variables import CommandVariables


def files_of_kubectl(environment: Mapping[str, str]) -> list[Path]:
    """Return the files that kubectl would read: those of ``KUBECONFIG``, unchanged, else ``~/.kube/config``."""
    return list(CommandVariables.read(environment).kubeconfigs) or [Path.home() / ".kube" / "config"]


def find_kubeconfig(file: Path | None, context: str | None, environment: Mapping[str, str]) -> HubConnection:
    """Find out which hub is meant.

    Of several files in ``KUBECONFIG``, the first that names a current context decides the context, and the first that
    has a context of that name is used; files that do not exist are skipped, as in kubectl.

    Args:
        file: The kubeconfig; None: that of kubectl.
        context: The context; None: the current one.
        environment: The variables of the process.

    Raises:
        UserError: There is no such file, or no such context in it, or it cannot be used.
    """
    if file is not None:
        documents = {file: _read(file)}
    else:
        paths = files_of_kubectl(environment)
        documents = {path: _read(path) for path in paths if path.exists()}
        if not documents:
            raise UserError(f"kubeconfig {paths[0]}: no such file or directory; name another: --kubeconfig FILE")
    shown = ", ".join(map(str, documents))
    chosen = context or next((name for each in documents.values() if (name := each.get("current-context"))), None)
    if not isinstance(chosen, str) or not chosen:
        raise UserError(f"kubeconfig {shown}: has no current context; name one: --context NAME")
    for path, document in documents.items():
        if (entry := _entry(document, "contexts", chosen, "context")) is not None:
            connection = _connection(path, document, chosen, entry)
            _check_unambiguous(documents, path, chosen, entry)
            return connection
    names = [str(entry["name"]) for document in documents.values() for entry in _entries(document, "contexts")]
    there = ", ".join(map(printable, names[:20])) or "none"
    raise UserError(f"kubeconfig {shown}: has no context {printable(chosen[:128])!r}; those there: {there}")


def context_names(file: Path | None, environment: Mapping[str, str]) -> list[str]:
    """Return the names of all contexts in a kubeconfig, None: in those of kubectl; none of a file that is no such."""
    found: list[str] = []
    for path in [file] if file is not None else files_of_kubectl(environment):
        try:
            found += (str(entry["name"]) for entry in _entries(_read(path), "contexts"))
        except UserError:
            continue
    return sorted(set(found))


def _connection(path: Path, document: Mapping[str, Any], name: str, found: Mapping[str, Any]) -> HubConnection:
    """Return the connection of a context; its parts have to be all in its own file."""
    parts: dict[str, Mapping[str, Any]] = {}
    for section, member in (("clusters", "cluster"), ("users", "user")):
        wanted = found.get(member)
        entry = _entry(document, section, wanted, member)
        if entry is None and (member == "cluster" or wanted):
            raise UserError(
                f"kubeconfig {path}: the {member} {printable(str(wanted)[:128])!r} of context "
                f"{printable(name[:128])!r} is not in this file; merge the files into one: "
                "kubectl config view --flatten --minify > FILE, and name it: --kubeconfig FILE"
            )
        parts[member] = entry or {}
    authority = text_at(parts["cluster"], "certificate-authority")
    return HubConnection(
        text_at(parts["cluster"], "server"),
        token=text_at(parts["user"], "token"),
        ca_file=path.parent / authority if authority else None,
        kubeconfig=path,
        context=name,
        namespace=text_at(found, "namespace") or DEFAULT_NAMESPACE,
        ours=is_hub_of_up(parts["cluster"]),
    )


def _check_unambiguous(
    documents: Mapping[Path, Mapping[str, Any]], path: Path, name: str, found: Mapping[str, Any]
) -> None:
    """Raise `UserError` when kubectl would take a cluster or a user of the context from another file.

    Of several entries with the same name kubectl takes the first, so a context may lead to another hub than its own
    file says.
    """
    for section, member in (("clusters", "cluster"), ("users", "user")):
        for other, document in documents.items():
            if other == path:
                break
            first = _entry(document, section, found.get(member), member)
            if first is not None and first != _entry(documents[path], section, found.get(member), member):
                raise UserError(
                    f"kubeconfig {path}: the {member} {printable(str(found.get(member))[:128])!r} of context "
                    f"{printable(name[:128])!r} also stands in {other}, with another content, and kubectl "
                    f"takes that one; name the file that you mean: --kubeconfig FILE"
                )


def _entries(document: Mapping[str, Any], section: str) -> Sequence[Mapping[str, Any]]:
    return [each for each in dicts_at(document, section) if "name" in each]


def _entry(document: Mapping[str, Any], section: str, name: object, member: str) -> Mapping[str, Any] | None:
    """Return what is said in *section* under *name*; None: nothing."""
    for entry in _entries(document, section):
        if entry["name"] == name and name:
            return dict_at(entry, member)
    return None


def _read(file: Path) -> Mapping[str, Any]:
    try:
        content = read_bounded(file)
        document = parse_kubeconfig(content)
    except OSError as error:
        raise UserError(f"kubeconfig {file}: {(error.strerror or str(error)).lower()}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UserError(f"kubeconfig {file}: is not YAML: {' '.join(str(error).split())[:200]}") from error
    if document is None and not content.strip():
        return {}
    if not isinstance(document, dict):
        raise UserError(f"kubeconfig {file}: is no kubeconfig")
    return document
