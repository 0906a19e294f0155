"""The kubeconfig of ``up``, by which kubectl and our own commands find the running hub and log in.

An extension holds what a kubeconfig has no field for: that this server itself answers the questions below ``/v1``, as
an API server does not, and where the page is. kubectl keeps extensions that it does not know.

Source: client-go ``tools/clientcmd/api/v1/types.go``.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from scorer.api.unstructured.documents import dicts_at

FILE: Final = "kubeconfig"
"""Its name in the data folder."""

_NAME: Final = "harbormaster"
_EXTENSION: Final = "harbormaster.dev/up"


def hub_kubeconfig(server: str, token: str, ca_file: Path, page: str) -> str:
    """Write the kubeconfig of a hub.

    Args:
        server: URL of its HTTPS listener.
        token: Lets its owner do everything there, so only they may read the text.
        ca_file: The authority that vouches for the server.
        page: URL where this machine sees the page without a certificate.
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
    """Say whether a cluster of a kubeconfig is a hub of ``up``."""
    return any(extension.get("name") == _EXTENSION for extension in dicts_at(cluster, "extensions"))
