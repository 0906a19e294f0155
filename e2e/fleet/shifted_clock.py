"""Run harbormaster with a clock that is wrong: ``python -m e2e.fleet.shifted_clock FILE WORDS...``.

FILE holds by how many seconds the clock is ahead; it may be written while the command runs, and the clock jumps. All of
harbormaster takes its time from `webhook.runtime.clock.utc_now`, handed down from the command; here that one function
is replaced before any command is imported, so nothing in the product knows of it.
"""

import sys
from datetime import datetime, timedelta
from pathlib import Path

from webhook.runtime import clock


def program_with_clock(file: Path, seconds: int) -> tuple[str, ...]:
    """Return what to run in the place of ``harbormaster``, with a clock that is ahead by *seconds* until it is set."""
    set_clock(file, seconds)
    return sys.executable, "-m", "e2e.fleet.shifted_clock", str(file)


def set_clock(file: Path, seconds: int) -> None:
    """Set the clock of that file ahead by *seconds*, or behind; it jumps at once."""
    passing = file.with_suffix(".new")
    passing.write_text(str(seconds), encoding="ascii")
    passing.replace(file)


def main() -> None:
    """Shift the clock, then run the command."""
    file, right = Path(sys.argv[1]), clock.utc_now

    def shifted() -> datetime:
        return right() + timedelta(seconds=int(file.read_text(encoding="ascii")))

    clock.utc_now = shifted
    sys.argv[0:2] = ["harbormaster"]
    from webhook.cli import main as harbormaster

    harbormaster()


if __name__ == "__main__":
    main()
