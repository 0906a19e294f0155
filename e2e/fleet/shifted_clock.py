"""Run harbormaster with a clock that is wrong: ``python -m e2e.fleet.shifted_clock SECONDS WORDS...``.

All of harbormaster takes its time from `webhook.settings.clock.utc_now`, handed down from the command; here that one
function is replaced before any command is imported, so nothing in the product knows of it.
"""

import sys
from datetime import datetime, timedelta

from webhook.settings import clock


def main() -> None:
    """Shift the clock, then run the command."""
    by, right = timedelta(seconds=int(sys.argv[1])), clock.utc_now

    def shifted() -> datetime:
        return right() + by

    clock.utc_now = shifted
    sys.argv[0:2] = ["harbormaster"]
    from webhook.cli import main as harbormaster

    harbormaster()


if __name__ == "__main__":
    main()
