"""An external property provider: a command that the agent runs once per heartbeat.

It prints a JSON object on its standard output::

    {"properties": {"example.com/gpu-count": "8"},
     "resources": {"capacity": {"nvidia.com/gpu": "8"}, "allocatable": {...}, "available": {...}}}

``resources`` and each of its three parts are optional. The agent kills a run that times out. A run that survives the
kill counts as hanging, and with three hanging runs the agent starts no further one. A command that cannot be started,
or times out on its first run, is not run again before the agent restarts.

Source: docs/specifications/scheduling.md 18; KubeFleet pkg/controllers/internalmembercluster/v1beta1,
pkg/propertyprovider.
"""

import asyncio
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from scorer.api.conditions import FALSE, TRUE
from scorer.api.values.quantity import read_quantity
from webhook.member.membership.heartbeat import Statement

COLLECTION_SECONDS: Final = 10.0
MOST_HANGING: Final = 3
LONGEST_ANSWER: Final = 1024 * 1024
LONGEST_COMPLAINT: Final = 500
"""Maximum number of bytes of standard error to keep, from its end."""

PARTS: Final = ("capacity", "allocatable", "available")


@dataclass(frozen=True, slots=True)
class Provided:
    """Report of a provider.

    Args:
        properties: Property name to value.
        resources: By part (``capacity``, ``allocatable``, ``available``): resource name to quantity.
        remark: Standard error of the provider.
    """

    properties: Mapping[str, str] = field(default_factory=dict)
    resources: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    remark: str = ""


class CollectionError(Exception):
    """A failed collection. *reason* is that of the condition."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class ProviderCommand:
    """Runs the command of a property provider.

    Args:
        command: Program and arguments, run without a shell.
        seconds: Timeout of one run.
    """

    def __init__(self, command: Sequence[str], seconds: float = COLLECTION_SECONDS) -> None:
        self._command = tuple(command)
        self._seconds = seconds
        self._hanging: set[asyncio.Task[tuple[int, bytes, bytes]]] = set()
        self.started: Statement | None = None
        """The condition ``ClusterPropertyProviderStarted``. None before the first run."""

    def has_failed(self) -> bool:
        """Return whether the first run failed to start or timed out, so that the command is not run again."""
        return self.started is not None and self.started.status == FALSE

    async def collect(self) -> Provided:
        """Run the command once. Raises `CollectionError`."""
        if len(self._hanging) >= MOST_HANGING:
            raise CollectionError(
                "TooManyCalls", f"{len(self._hanging)} earlier runs of the provider are still running"
            )
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, start_new_session=True
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            message = f"{self._command[0]}: {reason}"
            self._start(Statement(_STARTED, FALSE, "FailedToStart", message))
            raise CollectionError("Failed", message) from error
        reading = asyncio.create_task(_read(process))
        try:
            await asyncio.wait({reading}, timeout=self._seconds)
        finally:
            if not reading.done():  # too slow, or we are cancelled: the command must not outlive us
                _kill(process)
                # A descendant in its own session survives the kill and may keep the pipes open. The task is therefore
                # kept and counted until it ends.
                self._hanging.add(reading)
                reading.add_done_callback(self._hanging.discard)
        if not reading.done():
            message = f"no response within {self._seconds:g} s"
            self._start(Statement(_STARTED, FALSE, "TimedOut", message))
            raise CollectionError("TimedOut", message)
        self._start(Statement(_STARTED, TRUE, "Started", "the property provider has started"))
        code, answer, complaint = reading.result()
        remark = complaint.decode(errors="replace").strip()
        if code != 0:
            ending = f"ended with exit code {code}" if code > 0 else f"terminated by signal {-code}"
            raise CollectionError("Failed", f"{ending}{': ' if remark else ''}{remark}")
        try:
            return parse_answer(answer, remark)
        except ValueError as error:
            raise CollectionError("Failed", f"{error}{'. Its output: ' if remark else ''}{remark}") from error

    def _start(self, statement: Statement) -> None:
        """Record how the first run started. Later runs do not change that."""
        if self.started is None:
            self.started = statement


_STARTED: Final = "ClusterPropertyProviderStarted"


def _kill(process: Process) -> None:
    """Kill the command and its children: `start_new_session` made it the leader of a process group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


async def _read(process: Process) -> tuple[int, bytes, bytes]:
    """Return exit code, standard output up to its limit, and the end of standard error."""
    assert process.stdout is not None
    assert process.stderr is not None
    answer, complaint = await asyncio.gather(
        _take(process.stdout, first=LONGEST_ANSWER + 1), _take(process.stderr, last=LONGEST_COMPLAINT)
    )
    return await process.wait(), answer, complaint


async def _take(stream: asyncio.StreamReader, *, first: int = 0, last: int = 0) -> bytes:
    """Read to the end, so that the writer never blocks. Keep the *first* bytes, or else the *last*."""
    output = b""
    while chunk := await stream.read(65536):
        if first:
            output += chunk[: first - len(output)]
        else:
            output = (output + chunk)[-last:]
    return output


def parse_answer(answer: bytes, remark: str = "") -> Provided:
    """Parse the output of a provider.

    Raises:
        ValueError: The output is malformed. The message names field and value.
    """
    if len(answer) > LONGEST_ANSWER:
        raise ValueError(f"standard output is longer than {LONGEST_ANSWER} bytes")
    try:
        document = orjson.loads(answer)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"standard output is not JSON: {error}: {answer[:64].decode(errors='replace')!r}") from error
    members = _object(document, "standard output")
    if unknown := sorted(members.keys() - {"properties", "resources"}):
        raise ValueError(f"{unknown[0]}: unknown field: must be one of properties, resources")
    properties = {
        name: _text(value, f"properties.{name}")
        for name, value in _object(members.get("properties", {}), "properties").items()
    }
    resources = _object(members.get("resources", {}), "resources")
    if unknown := sorted(resources.keys() - set(PARTS)):
        raise ValueError(f"resources.{unknown[0]}: unknown field: must be one of {', '.join(PARTS)}")
    parts = {
        part: {
            name: _amount(value, f"resources.{part}.{name}")
            for name, value in _object(amounts, f"resources.{part}").items()
        }
        for part, amounts in resources.items()
    }
    return Provided(properties, parts, remark)


def _object(value: object, at: str) -> Mapping[str, Any]:
    if isinstance(value, Mapping) and "" not in value:
        return value
    raise ValueError(f"{at}: {_excerpt(value)} must be an object without empty names")


def _text(value: object, at: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise ValueError(f"{at}: {_excerpt(value)} must be text or a number")


def _amount(value: object, at: str) -> str:
    text = _text(value, at)
    if read_quantity(text) is None:
        raise ValueError(f"{at}: {_excerpt(value)} must be a quantity")
    return text


def _excerpt(value: object) -> str:
    return repr(value)[:64]
