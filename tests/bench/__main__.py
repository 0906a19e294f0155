"""All benchmarks, or those that are named: ours, the target, and the floor measured in the same run.

Ratios travel, absolute times do not.
"""

import argparse
import ast
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

PARTS: Final = (
    "engine",
    "admission",
    "hook",
    "scoring",
    "extender",
    "disruption",
    "node_disruption",
    "week",
    "loop",
    "staged",
    "upgrade",
    "memory",
    "page",
)
WHEN_NAMED: Final = ("hub", "agent")
"""No part of a run of everything."""


def says(part: str) -> str:
    """Return the first line of a part's docstring."""
    source = Path(__file__).with_name(f"{part}.py").read_text(encoding="utf-8")
    return (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]


def wanted(arguments: Sequence[str] | None = None) -> list[str]:
    """Return the parts to measure; ends the process for ``--help`` and for a part that does not exist."""
    listed = "\n".join(f"  {part:16}{says(part)}" for part in (*PARTS, *WHEN_NAMED))
    parser = argparse.ArgumentParser(
        "python -m tests.bench",
        description="Measure: ours, the target, and the floor of the same run.",
        epilog=f"parts:\n{listed}\n\nas make: make bench ARGS=page",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"what to measure; without one, all but {', '.join(WHEN_NAMED)}"
    )
    named = list(dict.fromkeys(parser.parse_args(arguments).parts))
    if unknown := [part for part in named if part not in (*PARTS, *WHEN_NAMED)]:
        parser.error(f"there is no part {', '.join(unknown)}; there are {', '.join((*PARTS, *WHEN_NAMED))}")
    return named or list(PARTS)


def main() -> None:
    """Measure each part in a process of its own: memory counts."""
    for part in wanted():
        subprocess.run([sys.executable, "-m", f"tests.bench.{part}"], check=True)
        print(flush=True)


if __name__ == "__main__":
    main()
