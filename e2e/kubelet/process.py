"""The process of a container: its command line, its start in namespaces of its own, its end."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from e2e.controlplane.cluster import JsonObject
from e2e.kubelet.environment import ConfigurationError, expand
from e2e.kubelet.images import Image
from e2e.kubelet.sandbox import ENDS_WITH_US, Sandbox

SCRIPT: Final = Path(__file__).with_name("container.sh")
SETPRIV: Final = "/usr/bin/setpriv"
USUAL_CAPABILITIES: Final = (
    *("CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "MKNOD", "NET_RAW", "SETGID", "SETUID", "SETFCAP", "SETPCAP"),
    *("NET_BIND_SERVICE", "SYS_CHROOT", "KILL", "AUDIT_WRITE"),
)
"""What container runtimes leave to root."""
FIRST: Final = 'setpriv --pdeathsig KILL sh "$0" "$@"; exit $?'
"""The first child of a shell with a new process namespace is the first process there; what ends it is told."""
CANNOT_START: Final = 128


@dataclass(frozen=True)
class Mount:
    """What of this machine is seen at which path of the container."""

    source: Path
    target: str
    read_only: bool

    def row(self) -> str:
        """As container.sh reads it."""
        return f"{'ro' if self.read_only else 'rw'}\t{self.source}\t{self.target}"


def privileges(container: JsonObject, pod: JsonObject, image: Image) -> list[str]:
    """Words before a command that take all from it but what its security context leaves.

    Raises:
        ConfigurationError: It must not be root, and is.
    """
    whole = pod["spec"].get("securityContext") or {}
    context = whole | (container.get("securityContext") or {})
    user = context.get("runAsUser", image.user)
    if context.get("runAsNonRoot") and user == 0:
        raise ConfigurationError("container has runAsNonRoot and image will run as root")
    group = context.get("runAsGroup", 0)
    groups = sorted({*whole.get("supplementalGroups", ()), *([whole["fsGroup"]] if "fsGroup" in whole else [])})
    changed = context.get("capabilities") or {}
    dropped = {name.removeprefix("CAP_") for name in changed.get("drop") or ()}
    kept = set() if "ALL" in dropped else set(USUAL_CAPABILITIES) - dropped
    kept |= {name.removeprefix("CAP_") for name in changed.get("add") or ()}
    bounds = ",".join(["-all", *(f"+{name.lower()}" for name in sorted(kept))])
    return [
        SETPRIV,
        "--pdeathsig=KILL",  # who ended with its parent as root does so no longer as another user
        f"--reuid={user}",
        f"--regid={group}",
        f"--groups={','.join(map(str, groups))}" if groups else "--clear-groups",
        f"--bounding-set={bounds}",
        "--inh-caps=-all",
        *(["--no-new-privs"] if context.get("allowPrivilegeEscalation") is False else []),
        "--",
    ]


def command_of(container: JsonObject, image: Image, environment: Mapping[str, str]) -> list[str]:
    """The command and arguments of a container, those of its image where it has none."""
    command = container.get("command") or image.entrypoint
    words = container.get("args") or (() if container.get("command") else image.command)
    return [expand(word, environment) for word in (*command, *words)]


class Process:
    """One run of a container.

    Args:
        sandbox: Of the Pod.
        folder: Of this run, made when missing; what it says is in ``log``.
        environment: Nothing else is in it.
    """

    def __init__(self, sandbox: Sandbox, folder: Path, environment: Mapping[str, str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / "log"
        self._folder = folder
        self._sandbox = sandbox
        self._environment = environment
        self._privileges: list[str] = []
        self._pid = 0
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, container: JsonObject, pod: JsonObject, image: Image, mounts: Sequence[Mount]) -> None:
        """Start it; returns when the container's own command is begun, or could not be.

        Raises:
            ConfigurationError: It must not be started as it is written.
        """
        self._privileges = privileges(container, pod, image)
        shown = [Mount(Path(path), path, read_only=True).row() for path in image.shown]
        opened = [f"open\t-\t{path}" for path in image.opened]
        table = self._folder / "mounts"
        table.write_text("".join(f"{row}\n" for row in (*opened, *shown, *(mount.row() for mount in mounts))))
        scratch = self._folder / "scratch"
        scratch.mkdir(exist_ok=True)
        read_only = (container.get("securityContext") or {}).get("readOnlyRootFilesystem", False)
        reading, writing = os.pipe()
        words = [
            *ENDS_WITH_US,
            *self._sandbox.enter(),
            *("unshare", "--mount", "--pid", "--propagation", "private"),
            *(
                "sh",
                "-c",
                FIRST,
                str(SCRIPT),
                str(scratch),
                ":".join(image.layers),
                "true" if read_only else "false",
            ),
            *(str(table), container.get("workingDir") or image.folder),
            *self._privileges,
            *command_of(container, image, self._environment),
        ]
        try:
            with self.log.open("ab") as log:
                self._process = await asyncio.create_subprocess_exec(
                    *words, stdin=writing, stdout=log, stderr=log, env=self._environment
                )
        finally:
            os.close(writing)
        self._pid = await self._announced(reading)

    async def _announced(self, reading: int) -> int:
        """Return the process id that the script reports; 0 when it ended without one."""
        reader = asyncio.StreamReader()
        pipe = os.fdopen(reading, "rb")
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
        try:
            # Without a time limit: the script dies of SIGPIPE when it reports its process id after the pipe was closed.
            return int(await reader.readline() or 0)
        finally:
            transport.close()

    @property
    def running(self) -> bool:
        """Whether it has been started and has not ended."""
        return self._process is not None and self._process.returncode is None

    async def wait(self) -> int:
        """Wait until it ends, and return its exit code; 128 and the signal's number where a signal ended it."""
        if self._process is None:
            return CANNOT_START
        code = await self._process.wait()
        return code if code >= 0 else 128 - code

    def send(self, number: signal.Signals) -> None:
        """Send the first process of the container a signal."""
        if self.running:
            with contextlib.suppress(ProcessLookupError):
                if self._pid:
                    os.kill(self._pid, number)
                else:
                    assert self._process is not None
                    self._process.send_signal(number)

    async def run(self, command: Sequence[str], seconds: float) -> str:
        """Run another command in the container; returns what went wrong, empty when nothing did."""
        where = ["nsenter", "--target", str(self._pid), "--mount", "--uts", "--ipc", "--net", "--pid", "--root", "--wd"]
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *(*ENDS_WITH_US, *where, *self._privileges, *command),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=pipe,
            stderr=asyncio.subprocess.STDOUT,
            env=self._environment,
        )
        try:
            async with asyncio.timeout(seconds):
                said, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
        return f"exit code {process.returncode}: {said.decode(errors='replace').strip()}" if process.returncode else ""

    def last_words(self) -> str:
        """The end of what it said."""
        with self.log.open("rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - 2048))
            return log.read().decode(errors="replace")
