"""What a process tells of itself at ``/metrics``."""

import urllib.request
from collections.abc import Callable

from e2e.controlplane.cluster import LOOPBACK


def metrics(port: int, *names: str) -> list[float]:
    """Return the sums of the samples of metrics, from one answer: each costs the process time.

    Args:
        port: The plain listener on loopback.
        names: Of the metrics; one with labels, as it is shown, means that sample alone.
    """
    with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/metrics", timeout=120) as answer:
        lines = answer.read().decode().splitlines()
    return [sum(map(_value, filter(_is_of(name), lines))) for name in names]


def _is_of(name: str) -> Callable[[str], bool]:
    return lambda line: line.startswith((f"{name} ", f"{name}{{"))


def _value(line: str) -> float:
    return float(line.rpartition(" ")[2])
