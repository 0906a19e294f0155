"""CPU time of commands on the example fleet, and of Tab, next to that of an interpreter with numpy and pydantic.

Each command is a process of its own: user and system time, the median of several runs after one that warms up the file
cache. A command without files asks a hub that does not exist, and so does everything except the request.
"""

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Final

from tests.bench.figures import SHORT, Figure, Part

ROOT: Final = Path(__file__).parents[2]
RUNS: Final = 3 if SHORT else 9
GOAL_SECONDS: Final = 0.4
FLEET: Final = "examples/fleet"
LIBRARIES: Final = "import click, numpy, orjson, pydantic, yaml; from pydantic import BaseModel, Field, TypeAdapter"
COMMANDS: Final[Mapping[str, Sequence[str]]] = {
    "explain of files": ("explain", "-f", FLEET, "crp/payments"),
    "plan of files": ("plan", "-f", FLEET),
    "lint": ("lint", FLEET),
    "gate of files": (
        "gate",
        "disruption",
        "general",
        "--total",
        "30",
        "--reason",
        "Drifted",
        "-f",
        f"{FLEET}/node-pools.yaml",
    ),
    "explain of a hub": ("explain", "crp/payments", "--data", "none"),
    "plan of a hub": ("plan", "--lost", "bravelion", "--data", "none"),
    "gate of a hub": ("gate", "list", "--data", "none"),
    "get": ("get", "crp", "--data", "none"),
}
TABS: Final = ("harbormaster plan --", "harbormaster explain crp/", "harbormaster get ")


def main() -> None:
    """Measure and report."""
    part = Part("commands")
    floor = seconds([sys.executable, "-c", LIBRARIES])
    for name, words in COMMANDS.items():
        part.report(Figure(name, seconds([sys.executable, "-m", "webhook.cli", *words]), "s", GOAL_SECONDS, floor))
    for line in TABS:
        variables = {
            "_HARBORMASTER_COMPLETE": "bash_complete",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(line.split(" ")) - 1),
        }
        part.report(
            Figure(
                f"Tab after `{line}`",
                seconds([sys.executable, "-m", "webhook.cli"], variables),
                "s",
                GOAL_SECONDS,
                floor,
            )
        )


def seconds(command: Sequence[str], variables: Mapping[str, str] | None = None) -> float:
    """Return the CPU time of a command: the median of its runs."""
    with tempfile.TemporaryDirectory() as home:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": f"{home}/cache"} | {
            **(variables or {}),
            "HARBORMASTER_DATA": home,
            "HOME": home,
        }
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        return median([_once(command, environment) for _ in range(RUNS + 1)][1:])


def _once(command: Sequence[str], environment: Mapping[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
