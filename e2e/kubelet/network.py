"""A network namespace for one test bed: the tests' thread enters it, and every process that it starts is inside.

A bridge connects the Pods; this machine's side of it is their gateway. Nothing leads out.
"""

import contextlib
import ctypes
import itertools
import os
import subprocess
from collections.abc import Iterator
from ipaddress import IPv4Network
from typing import Final

BRIDGE: Final = "pods"
PODS: Final = IPv4Network("10.244.0.0/16")
PREFIX_LENGTH: Final = PODS.prefixlen
GATEWAY: Final = str(PODS[1])
"""The address of all Nodes and of the API server."""

NEEDED: Final = (
    "Tests that run Pods need the rights of root and a kernel that lets root make namespaces: run them as root, in a "
    "container with CAP_SYS_ADMIN. `make check` runs those that need neither."
)
_CLONE_NEWNET: Final = 0x40000000
BRIDGE_LINK_ADDRESS: Final = "02:00:00:00:00:01"
"""Of the bridge. Without one, it has that of the Pod with the lowest, and another one when that Pod ends. All other
Pods then send to an address that no link has, until their kernels ask again after 20 to 50 seconds. ARP requests of the
gateway correct them sooner only if the packet that causes the request is from `GATEWAY`, not from that of a Service."""
_OUTSIDE: Final[list[int]] = []
"""The network of this machine, as an open file, while a thread is in `own_network`."""
_SET_UP: Final = f"""\
link set lo up
link add {BRIDGE} address {BRIDGE_LINK_ADDRESS} type bridge
addr add {GATEWAY}/{PREFIX_LENGTH} dev {BRIDGE}
link set {BRIDGE} up
"""


class NetworkError(Exception):
    """This machine does not let the tests have a network namespace; the text says why."""


@contextlib.contextmanager
def own_network() -> Iterator[None]:
    """Be in a new network namespace; processes, threads and sockets begun inside belong to it.

    Only the calling thread moves, so that whatever the process had open before goes on.

    Raises:
        NetworkError: The kernel refused.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    before = _current()
    try:
        if libc.unshare(_CLONE_NEWNET):
            why = os.strerror(ctypes.get_errno())
            raise NetworkError(f"unshare(CLONE_NEWNET): {why}. {NEEDED}")
        _OUTSIDE.append(before)
        try:
            done = subprocess.run(["ip", "-batch", "-"], input=_SET_UP, capture_output=True, text=True, check=False)
            if done.returncode:
                raise NetworkError(f"ip: {done.stderr.strip()}")
            yield
        finally:
            _enter(_OUTSIDE.pop())
    finally:
        os.close(before)


@contextlib.contextmanager
def outside() -> Iterator[None]:
    """Leave `own_network` until the block ends, as for a program that needs the internet.

    Raises:
        NetworkError: The kernel refused.
    """
    inside = _current()
    try:
        _enter(_OUTSIDE[-1])
        try:
            yield
        finally:
            _enter(inside)
    finally:
        os.close(inside)


def _current() -> int:
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def _enter(network: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(network, _CLONE_NEWNET):
        raise NetworkError(f"setns: {os.strerror(ctypes.get_errno())}")


class Addresses:
    """Gives each Pod an address, and none twice before all have been given.

    Args:
        first: Number of the first; two kubelets of one network begin far from each other.
    """

    def __init__(self, first: int = 0) -> None:
        self._numbers = itertools.count(first)

    def next(self) -> tuple[int, str]:
        """A number, and the address that goes with it."""
        number = next(self._numbers)
        return number, str(PODS[256 + number % (PODS.num_addresses - 512)])
