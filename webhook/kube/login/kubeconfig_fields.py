"""Checks the fields of a kubeconfig: the library takes them unchecked, and fails only where it uses them.

A value must be what kubectl asks for. A message names the field, and shows no secret.

Source: client-go ``tools/clientcmd/api/v1/types.go``.
"""

from collections.abc import Mapping
from typing import Any, Final

import yaml

from webhook.kube.transport.addresses import check_address

_TEXTS: Final[Mapping[str, tuple[str, ...]]] = {
    "cluster": ("server", "certificate-authority", "certificate-authority-data", "proxy-url", "tls-server-name"),
    "user": (
        "token",
        "tokenFile",
        "username",
        "password",
        "client-certificate",
        "client-certificate-data",
        "client-key",
        "client-key-data",
    ),
}
_SECRET: Final = frozenset({"token", "password", "client-key-data"})
_SHOWN: Final = 128
"""Characters of a value that a message repeats."""
_FAST: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NESTING: Final = (b"[", b"{", b"-", b"?")
_DEEPEST: Final = 1000
"""Of what can nest in one line; the parser in C has no limit of its own, and takes the process down with it."""


def parse_kubeconfig(content: bytes) -> Any:
    """Read the YAML of a kubeconfig, by the parser in C where there is one: certificates are long.

    Raises:
        yaml.YAMLError, ValueError, RecursionError: It is none.
    """
    plain = sum(map(content.count, _NESTING)) > _DEEPEST
    return yaml.load(content, Loader=yaml.SafeLoader if plain else _FAST)  # noqa: S506 - both are safe


def check_kubeconfig(document: Any, context: str | None) -> None:
    """Check the cluster and the user of a context; if the kubeconfig has none, the library says so.

    Args:
        document: A kubeconfig.
        context: Of it; None: its current one.

    Raises:
        ValueError: A field cannot be used.
    """
    context_entry = _named(document, "contexts", context or _member(document, "current-context"), "context")
    cluster, user = (_member(context_entry, section) for section in ("cluster", "user"))
    for section, name in (("cluster", cluster), ("user", user)):
        entry = _named(document, f"{section}s", name, section)
        if entry is None:
            continue
        path = f"{section} {str(name)[:_SHOWN]!r}: "
        if not isinstance(entry, dict) and not (section == "user" and not entry):
            raise ValueError(f"{path}must be an object")
        for field in _TEXTS[section]:
            value = _member(entry, field)
            if value is not None and not isinstance(value, str):
                text = "" if field in _SECRET else f" {str(value)[:_SHOWN]!r}:"
                raise ValueError(f"{path}{field}:{text} must be text; put it in quotes")
        if section == "cluster":
            _check_address(path + "server", _member(entry, "server"))
        elif (token := _member(entry, "token")) and not (token.isascii() and token.isprintable()):
            raise ValueError(f"{path}token: contains a line break or another character that no token has")


def _check_address(where: str, server: Any) -> None:
    if not server:
        raise ValueError(f"{where}: is missing: the address of the API server")
    try:
        # With a path perhaps: several API servers may share a host.
        check_address(server, "expected a URL such as https://10.0.0.7:6443", bare=False)
    except ValueError as error:
        raise ValueError(f"{where}: {server[:_SHOWN]!r}: {error}") from error


def _named(document: Any, section: str, name: Any, member: str) -> Any:
    """Return what *document* has in *section* under *name*; None: nothing."""
    entries = _member(document, section)
    for entry in entries if isinstance(entries, list) else ():
        if name and _member(entry, "name") == name:
            return _member(entry, member)
    return None


def _member(document: Any, name: str) -> Any:
    return document.get(name) if isinstance(document, dict) else None
