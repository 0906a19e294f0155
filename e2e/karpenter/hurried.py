"""Run harbormaster with short pauses between two looks at nodes: ``python -m e2e.karpenter.hurried WORDS...``.

What it does is the same; only a test that waits for one look after the other is over sooner.
"""

import sys
from datetime import timedelta
from typing import Final

from webhook.controllers.nodes import planning, preconditions

HURRIED: Final = (sys.executable, "-m", "e2e.karpenter.hurried")
"""What to run in the place of ``harbormaster``."""
PAUSE: Final = timedelta(seconds=2)


def main() -> None:
    """Shorten the pauses before any command is imported, then run the command."""
    vars(planning)["PASS"] = vars(preconditions)["RIVAL_EVERY"] = PAUSE
    sys.argv[0:1] = ["harbormaster"]
    from webhook.cli import main as harbormaster

    harbormaster()


if __name__ == "__main__":
    main()
