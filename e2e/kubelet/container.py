"""One container: started, probed, started again with a pause that doubles, and ended with a period of grace."""

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from e2e.controlplane.cluster import ApiError, JsonObject
from e2e.kubelet.environment import ConfigurationError
from e2e.kubelet.images import Image
from e2e.kubelet.node import now
from e2e.kubelet.probes import Target, perform, probe
from e2e.kubelet.process import Mount, Process
from e2e.kubelet.sandbox import Sandbox
from e2e.kubelet.state import State

LONGEST_PAUSE = 300.0
RETRY_SECONDS = 1.0
LEAST_GRACE = 2.0
"""Seconds that are left for SIGTERM when a hook has used up all."""
LONG_RUN = 600.0
"""A run of so many seconds has the pause begin anew."""


@dataclass(frozen=True)
class Surroundings:
    """What a container is given by its Pod.

    Args:
        pod: The Pod as it is now.
        sandbox: Its namespaces.
        folder: For the runs.
        find_image: By name; None where there is none.
        prepare: The environment and the mounts of a container.
        changed: Called after each change of its state.
        tell: Writes an Event: type, reason, message.
        first_pause: Seconds before the second restart.
    """

    pod: Callable[[], JsonObject]
    sandbox: Sandbox
    folder: Path
    find_image: Callable[[str], Image | None]
    prepare: Callable[[JsonObject, Image], Awaitable[tuple[dict[str, str], list[Mount]]]]
    changed: Callable[[], None]
    tell: Callable[[str, str, str], None]
    first_pause: float


class Container:
    """One container of a Pod.

    Args:
        spec: As in the Pod.
        around: See `Surroundings`.
        policy: ``Always``, ``OnFailure`` or ``Never``: when it is started again.
    """

    def __init__(self, spec: JsonObject, around: Surroundings, policy: str) -> None:
        self.state = State(spec["name"], spec["image"])
        self._spec = spec
        self._around = around
        self._policy = policy
        self._process: Process | None = None
        self._stopping, self._over = asyncio.Event(), asyncio.Event()
        self._pause = 0.0
        self._runs = 0
        self._began = ""

    async def run(self) -> None:
        """Run it until it has ended for good, or forever."""
        while not self._stopping.is_set():
            process = await self._begin()
            if process is None:
                await asyncio.sleep(RETRY_SECONDS)
                continue
            clock = asyncio.get_running_loop()
            began = clock.time()
            probing = asyncio.create_task(self._probe(process))
            try:
                code = await process.wait()
            finally:
                probing.cancel()
                await asyncio.gather(probing, return_exceptions=True)
            self._ended(process, code)
            if not self._again(code):
                break
            await self._wait_for_restart(clock.time() - began)
        self.state.finished = True
        self._over.set()
        self._around.changed()

    async def end(self, grace: float) -> None:
        """Have it end: hook, SIGTERM, and SIGKILL when *grace* (s) is over; it is not started again."""
        self._stopping.set()
        if self._process is not None and self.state.running:
            await self._stop(self._process, grace)
            await self._over.wait()
        elif not self.state.finished:
            self._set({"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}})
            self.state.finished = True

    def kill(self) -> None:
        """End what may still run, at once."""
        if self._process is not None:
            self._process.send(signal.SIGKILL)

    async def _begin(self) -> Process | None:
        """Start it; None when it cannot be, and the state says why."""
        image = self._around.find_image(self.state.image)
        if image is None:
            self._set({"waiting": {"reason": "ImagePullBackOff", "message": f"no image {self.state.image!r}"}})
            return None
        try:
            environment, mounts = await self._around.prepare(self._spec, image)
            process = Process(self._around.sandbox, self._around.folder / str(self._runs), environment)
            self._process = process
            await process.start(self._spec, self._around.pod(), image, mounts)
        except (ConfigurationError, ApiError, OSError) as error:
            self._set({"waiting": {"reason": "CreateContainerConfigError", "message": str(error)}})
            return None
        self._runs += 1
        self._began = now()
        self.state.started = "startupProbe" not in self._spec
        self.state.ready = self.state.started and "readinessProbe" not in self._spec
        self._set({"running": {"startedAt": self._began}})
        return process

    def _ended(self, process: Process, code: int) -> None:
        self.state.ready = self.state.started = False
        ended: JsonObject = {
            "exitCode": code,
            "reason": "Error" if code else "Completed",
            "startedAt": self._began,
            "finishedAt": now(),
        }
        if code and self._spec.get("terminationMessagePolicy") == "FallbackToLogsOnError":
            ended["message"] = process.last_words()
        self._set({"terminated": ended})

    def _again(self, code: int) -> bool:
        return not self._stopping.is_set() and (self._policy == "Always" or (self._policy == "OnFailure" and code != 0))

    async def _wait_for_restart(self, ran: float) -> None:
        """The first restart comes at once, each other one after a pause."""
        pause = 0.0 if ran > LONG_RUN else self._pause
        ended = self.state.current
        if pause:
            message = f"back-off {pause:g}s restarting failed container={self.state.name}"
            self._set({"waiting": {"reason": "CrashLoopBackOff", "message": message}}, last=ended)
            self._around.tell("Warning", "BackOff", message)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._stopping.wait()
        self._pause = min(pause * 2, LONGEST_PAUSE) if pause else self._around.first_pause
        if not self._stopping.is_set():
            self.state.restarts += 1
            self._set({"waiting": {"reason": "ContainerCreating"}}, last=ended)

    async def _probe(self, process: Process) -> None:
        target = self._target(process)
        if "startupProbe" in self._spec:
            await probe(self._spec["startupProbe"], target, lambda problem: self._startup(process, problem))
            if not self.state.started:
                return
        async with asyncio.TaskGroup() as tasks:
            if "livenessProbe" in self._spec:
                tasks.create_task(probe(self._spec["livenessProbe"], target, lambda found: self._live(process, found)))
            if "readinessProbe" in self._spec:
                tasks.create_task(probe(self._spec["readinessProbe"], target, self._ready))

    def _target(self, process: Process) -> Target:
        ports = {port["name"]: port["containerPort"] for port in self._spec.get("ports") or () if "name" in port}
        return Target(self._around.sandbox.address, ports, process.run)

    def _startup(self, process: Process, problem: str) -> bool:
        if problem:
            return self._unhealthy(process, "startupProbe", problem)
        self.state.started = True
        self.state.ready = "readinessProbe" not in self._spec
        self._around.changed()
        return False

    def _live(self, process: Process, problem: str) -> bool:
        if self._stopping.is_set():
            return False
        return not problem or self._unhealthy(process, "livenessProbe", problem)

    def _unhealthy(self, process: Process, which: str, problem: str) -> bool:
        """End it, so that it is started again; what it is given for that is the probe's or the Pod's period."""
        name = self.state.name
        self._around.tell("Warning", "Unhealthy", f"{which.removesuffix('Probe')} probe failed: {problem}")
        self._around.tell("Normal", "Killing", f"Container {name} failed {which}, will be restarted")
        whole = self._around.pod()["spec"].get("terminationGracePeriodSeconds", 30)
        grace = self._spec[which].get("terminationGracePeriodSeconds", whole)
        self._killing = asyncio.create_task(self._stop(process, grace))
        return False

    def _ready(self, problem: str) -> bool:
        if self.state.ready == bool(problem):
            self.state.ready = not problem
            if problem:
                self._around.tell("Warning", "Unhealthy", f"readiness probe failed: {problem}")
            self._around.changed()
        return True

    async def _stop(self, process: Process, grace: float) -> None:
        clock = asyncio.get_running_loop()
        end = clock.time() + grace
        hook = (self._spec.get("lifecycle") or {}).get("preStop")
        if hook and grace and (problem := await perform(hook, self._target(process), grace)):
            self._around.tell("Warning", "FailedPreStopHook", problem)
        process.send(signal.SIGTERM if grace else signal.SIGKILL)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(end - clock.time(), LEAST_GRACE)):
                await process.wait()
        process.send(signal.SIGKILL)
        await process.wait()

    def _set(self, current: JsonObject, *, last: JsonObject | None = None) -> None:
        self.state.current = current
        if last is not None:
            self.state.last = last
        self._around.changed()
