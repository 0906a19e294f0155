"""What the kernel counts of a process."""

import os
from pathlib import Path


def resident_megabytes(pid: int) -> float:
    """Return what a process holds in memory."""
    return _megabytes(pid, "VmRSS")


def most_resident_megabytes(pid: int) -> float:
    """Return the most that a process has held in memory."""
    return _megabytes(pid, "VmHWM")


def _megabytes(pid: int, name: str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024


def processor_seconds(pid: int) -> float:
    """Return the processor time that a process has taken, its own and that of the system for it."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def shared_megabytes(pid: int) -> float:
    """Return what a process holds in memory, of what several hold its share alone (PSS)."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def children_of(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    return [*map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split())]
