"""What the containers of a Pod share: a network namespace with an address of its own, a host name, IPC.

The namespaces are held by a process that does nothing, as the pause container does elsewhere. It ends with the kubelet,
and with it every container.
"""

import asyncio
import contextlib
import signal
from collections.abc import Sequence
from typing import Final

from e2e.kubelet.network import BRIDGE, GATEWAY, PREFIX_LENGTH

PAUSE: Final = """\
hostname "$1"
ip link set lo up
echo 0 > /proc/sys/net/ipv4/ip_unprivileged_port_start
echo
exec sleep infinity
"""
ENDS_WITH_US: Final = ("setpriv", "--pdeathsig", "KILL")


class SandboxError(Exception):
    """A namespace could not be made; the text is what the program said that was to make it."""


class Sandbox:
    """The namespaces of one Pod.

    Args:
        number: Of the Pod, for the name of its link.
        hostname: Seen in the Pod.
        address: Of the Pod.
    """

    def __init__(self, number: int, hostname: str, address: str) -> None:
        self.address = address
        self._number = number
        self._hostname = hostname
        self._holder: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Make the namespaces and connect them.

        Raises:
            SandboxError: This machine refused.
        """
        namespaces = ("unshare", "--net", "--uts", "--ipc", "sh", "-ec", PAUSE, "pause", self._hostname)
        pipe = asyncio.subprocess.PIPE
        holder = await asyncio.create_subprocess_exec(*ENDS_WITH_US, *namespaces, stdout=pipe, stderr=pipe)
        self._holder = holder
        assert holder.stdout is not None
        assert holder.stderr is not None
        if not await holder.stdout.readline():
            raise SandboxError((await holder.stderr.read()).decode().strip())
        link = f"pod{self._number}"
        await run(
            ["ip", "-batch", "-"],
            f"link add {link} type veth peer name eth0 netns {holder.pid}\nlink set {link} master {BRIDGE} up\n",
        )
        await run(
            [*self.enter(), "ip", "-batch", "-"],
            f"addr add {self.address}/{PREFIX_LENGTH} dev eth0\nlink set eth0 up\nroute add default via {GATEWAY}\n",
        )

    def enter(self) -> list[str]:
        """Words before a command that is to run in these namespaces."""
        assert self._holder is not None
        return ["nsenter", "--target", str(self._holder.pid), "--net", "--uts", "--ipc"]

    async def stop(self) -> None:
        """End the namespaces."""
        if self._holder is not None:
            with contextlib.suppress(ProcessLookupError):
                self._holder.send_signal(signal.SIGKILL)
            await self._holder.wait()


async def run(command: Sequence[str], given: str = "") -> None:
    """Run a command that ends at once.

    Args:
        command: Program and arguments.
        given: To its standard input.

    Raises:
        SandboxError: It failed.
    """
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.STDOUT)
    said, _ = await process.communicate(given.encode())
    if process.returncode:
        raise SandboxError(f"{' '.join(command)}: {said.decode().strip()}")
