"""The kubeconfig of ``up``, which kubectl and the commands of harbormaster use to log in.

An extension holds what a kubeconfig has no field for: the URL of the page, and the mark that this server itself answers
``/v1``, unlike an API server. kubectl keeps unknown extensions.

Source: client-go ``tools/clientcmd/api/v1/types.go``.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from scorer.api.unstructured.documents import dicts_at

FILE: Final = "kubeconfig"
"""Name of the kubeconfig in the data folder."""

_NAME: Final = "harbormaster"
_EXTENSION: Final = "harbormaster.dev/up"


def hub_kubeconfig(server: str, token: str, ca_file: Path, page: str) -> str:
    """Return the text of the kubeconfig of a hub.

    Args:
        server: URL of its HTTPS listener.
        token: Token with all rights, so only its owner may read the text.
        ca_file: File with the CA certificate that signed the server certificate.
        page: URL of the page on this machine, which needs no certificate.
    """
    extension = {"name": _EXTENSION, "extension": {"page": page}}
    cluster = {"server": server, "certificate-authority": str(ca_file), "extensions": [extension]}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": _NAME,
        "contexts": [{"name": _NAME, "context": {"cluster": _NAME, "user": _NAME}}],
        "clusters": [{"name": _NAME, "cluster": cluster}],
        "users": [{"name": _NAME, "user": {"token": token}}],
    }
    return yaml.safe_dump(document, sort_keys=False)


def is_hub_of_up(cluster: Mapping[str, Any]) -> bool:
    """Return whether a cluster of a kubeconfig is a hub of ``up``."""
    return any(extension.get("name") == _EXTENSION for extension in dicts_at(cluster, "extensions"))
