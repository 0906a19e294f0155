"""Contexts of a kubeconfig with static credentials, read without kubernetes-asyncio.

A server, perhaps a CA, a token or a certificate: the fast path of `webhook.kube.login.kubeconfig`. Anything else, and
anything invalid, is left to kubernetes-asyncio.
"""

import base64
import os
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from webhook.kube.login.connection import Login, environment_proxy
from webhook.kube.login.kubeconfig_fields import check_kubeconfig, parse_kubeconfig
from webhook.runtime.files import read_bounded

_OF_CLUSTER: Final = frozenset(
    {
        *("server", "certificate-authority", "certificate-authority-data", "tls-server-name", "proxy-url"),
        *("insecure-skip-tls-verify", "extensions"),
    }
)
_OF_USER: Final = frozenset(
    {"token", "client-certificate", "client-certificate-data", "client-key", "client-key-data", "extensions"}
)


def read_plain(kubeconfig: Path, context: str | None) -> Login | None:
    """Return the login of a context; None: it is not plain, or not right.

    Args:
        kubeconfig: The file.
        context: In it; None: its current one.
    """
    try:
        document = parse_kubeconfig(read_bounded(kubeconfig))
        check_kubeconfig(document, context)
        context_entry = _only(document["contexts"], context or document["current-context"])["context"]
        cluster = _only(document["clusters"], context_entry["cluster"])["cluster"]
        user = _only(document["users"], context_entry["user"])["user"] or {} if context_entry.get("user") else {}
        if cluster.keys() <= _OF_CLUSTER and user.keys() <= _OF_USER:
            return _login(cluster, user, kubeconfig.parent)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError, yaml.YAMLError):
        pass
    return None


def _only(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """Return the entry of a name. Raises `ValueError` unless there is exactly one."""
    (found,) = [entry for entry in entries if entry["name"] == name]
    return found


def _login(cluster: Mapping[str, Any], user: Mapping[str, Any], folder: Path) -> Login:
    address = str(cluster["server"]).rstrip("/")
    token = user.get("token")

    async def shown() -> Mapping[str, str]:
        return {"authorization": f"Bearer {token}"} if token else {}

    trust = _trust(cluster, user, folder) if address.startswith("https") else True
    proxy = cluster.get("proxy-url") or environment_proxy(address)
    return Login(address, trust, shown, proxy, cluster.get("tls-server-name") or None)


def _trust(cluster: Mapping[str, Any], user: Mapping[str, Any], folder: Path) -> ssl.SSLContext:
    """Return what TLS needs: of a file and of data, kubernetes-asyncio takes the file, and so does this."""
    file, data = cluster.get("certificate-authority"), cluster.get("certificate-authority-data")
    authorities = None if file or not data else base64.b64decode(data).decode("ascii")
    if authorities is not None and not authorities.strip():
        raise ValueError("no authorities at all")  # which would be taken for those of the system
    trust = ssl.create_default_context(cafile=folder / file if file else None, cadata=authorities)
    files = [user.get("client-certificate"), user.get("client-key")]
    contents = [user.get("client-certificate-data"), user.get("client-key-data")]
    if any((*files, *contents)):
        _show_certificate(trust, [folder / each if each else None for each in files], contents)
    if cluster.get("insecure-skip-tls-verify"):
        trust.check_hostname = False
        trust.verify_mode = ssl.CERT_NONE
    return trust


def _show_certificate(trust: ssl.SSLContext, files: list[Path | None], contents: list[str | None]) -> None:
    """Load certificate and key; the library takes them from files only, so that data is in one for a moment."""
    with tempfile.TemporaryDirectory(prefix="harbormaster-login-") as private:
        certificates = []
        for position, (file, data) in enumerate(zip(files, contents, strict=True)):
            if file is None and data:
                file = Path(private) / str(position)
                descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with os.fdopen(descriptor, "wb") as stream:
                    stream.write(base64.b64decode(data))
            certificates.append(file)
        certificate, key = certificates
        if certificate is None:
            raise ValueError("a key without a certificate")
        trust.load_cert_chain(certificate, key)
