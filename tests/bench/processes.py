"""What the kernel counts of a process."""

from pathlib import Path


def resident_megabytes(pid: int) -> float:
    """Return what a process holds in memory."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024
