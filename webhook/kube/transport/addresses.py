"""Server addresses: validity of a URL, and whether it is loopback or link-local."""

from collections.abc import Collection
from ipaddress import ip_address
from typing import Final
from urllib.parse import SplitResult, urlsplit

_BEYOND_THE_HOST: Final = frozenset("@?#")


def check_address(
    text: str, expected: str, *, schemes: Collection[str] = ("https", "http"), bare: bool = True
) -> SplitResult:
    """Return the parts of a URL that names a server.

    Args:
        text: The user's input.
        expected: Error message for invalid input.
        schemes: Allowed schemes.
        bare: Whether only host, port and a trailing slash are allowed. If False, so are user, path, query and fragment.

    Raises:
        ValueError: The URL is invalid. The message is *expected*, or names the invalid part.
    """
    parts = urlsplit(text)
    port = parts.port
    beyond = parts.path.strip("/") or _BEYOND_THE_HOST & set(text) or port == 0
    if parts.scheme not in schemes or not parts.hostname or not text.isprintable() or " " in text or (bare and beyond):
        raise ValueError(expected)
    return parts


def check_remote(text: str) -> None:
    """Check an API server's address that is read from a cluster, where users other than the operator may have set it.

    A token is sent to this address. Loopback is allowed, because a hub and a member may share a machine.

    Args:
        text: Address as stored, optionally with a path.

    Raises:
        ValueError: The address is not allowed. The message gives the reason, without the address.
    """
    expected = "expected an https URL such as https://10.0.0.7:6443, without user, query and fragment"
    parts = check_address(text, expected, schemes=("https",), bare=False)
    if _BEYOND_THE_HOST & set(text):
        raise ValueError(expected)
    if _is_link_local(parts.hostname or ""):
        raise ValueError("must not be a link-local address, where clouds serve the metadata of the machine")


def _is_link_local(host: str) -> bool:
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return False
    address = getattr(address, "ipv4_mapped", None) or address
    return address.is_link_local


def is_loopback(host: str) -> bool:
    """Return whether a host, without brackets and port, is this machine's loopback interface."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
