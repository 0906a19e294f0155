"""``harbormaster reconcile`` and ``harbormaster agent`` as processes of their own, as an installation runs them."""

import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from e2e.controlplane.cluster import LOOPBACK
from e2e.controlplane.process import PATIENCE, Program, free_port
from e2e.controlplane.service import HARBORMASTER, UNCONFIRMED
from e2e.fleet.shifted_clock import program_with_clock

SYSTEM = "harbormaster-system"
LEASE = "harbormaster-reconcile"


class Role:
    """One process with probes and metrics on a plain port.

    Args:
        words: Of the command line, after the program.
        log: Where its output goes.
        settings: Given as ``HARBORMASTER_<NAME>``.
        program: What is run.
    """

    def __init__(
        self,
        words: list[str],
        log: Path,
        settings: Mapping[str, Any],
        program: tuple[str | Path, ...] = (HARBORMASTER,),
    ) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self.http_port = free_port()
        environment = {f"HARBORMASTER_{name.upper()}": str(value) for name, value in settings.items()}
        command = [*program, *words, f"--http-host={LOOPBACK}", f"--http-port={self.http_port}"]
        self.program = Program(command, log, environment)

    def start(self, *, wait: bool = True, seconds: float = PATIENCE) -> None:
        """Start it, and wait until it is ready."""
        self.program.start()
        if wait:
            self.wait_ready(seconds)

    def wait_ready(self, seconds: float = PATIENCE) -> None:
        """Wait until its readiness probe says yes."""
        self.program.wait_ready(self.ready, seconds)

    def stop(self) -> None:
        """Ask it to end, and wait."""
        self.program.stop(PATIENCE)

    def ready(self) -> bool:
        """Ask its readiness probe."""
        return self._answers("readyz")

    def checks(self) -> str:
        """Everything that its readiness probe says, ready or not; empty while nothing answers."""
        url = f"http://{LOOPBACK}:{self.http_port}/readyz?verbose"
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            with error:
                return error.read().decode()
        except OSError:
            return ""

    def live(self) -> bool:
        """Ask its liveness probe."""
        return self._answers("livez")

    def metrics(self) -> str:
        """All its metrics as text."""
        with urllib.request.urlopen(f"http://{LOOPBACK}:{self.http_port}/metrics", timeout=PATIENCE) as answer:
            return str(answer.read().decode())

    def _answers(self, path: str) -> bool:
        try:
            with urllib.request.urlopen(f"http://{LOOPBACK}:{self.http_port}/{path}", timeout=PATIENCE) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


class Reconciler(Role):
    """One replica of the loop.

    Args:
        kubeconfig: Who it is on the hub.
        folder: For its log.
        identity: Its name in the Lease.
        settings: Given as ``HARBORMASTER_<NAME>``.
        program: What is run.
    """

    def __init__(
        self,
        kubeconfig: Path,
        folder: Path,
        identity: str,
        settings: Mapping[str, Any],
        program: tuple[str | Path, ...] = (HARBORMASTER,),
    ) -> None:
        self.identity = identity
        words = ["reconcile", f"--kubeconfig={kubeconfig}", f"--namespace={SYSTEM}", f"--identity={identity}"]
        super().__init__(words, folder / f"{identity}.log", {**UNCONFIRMED, **settings}, program)


class Agent(Role):
    """The agent of one member.

    Args:
        cluster: Name of the member.
        hub: Kubeconfig for the hub.
        member: Kubeconfig for the member.
        folder: For its log.
        settings: Given as ``HARBORMASTER_<NAME>``.
        words: More options.
        clock_seconds: How far its clock is ahead; such an agent is started by `e2e.fleet.shifted_clock`.
    """

    def __init__(
        self,
        cluster: str,
        hub: Path,
        member: Path,
        folder: Path,
        settings: Mapping[str, Any],
        words: tuple[str, ...] = (),
        clock_seconds: int = 0,
    ) -> None:
        command = ["agent", f"--hub-kubeconfig={hub}", f"--kubeconfig={member}", f"--cluster={cluster}", *words]
        program: tuple[str | Path, ...] = (HARBORMASTER,)
        if clock_seconds:
            program = program_with_clock(folder / f"agent-{cluster}.clock", clock_seconds)
        super().__init__(command, folder / f"agent-{cluster}.log", settings, program)
