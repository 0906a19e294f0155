"""Findings as workflow commands of GitHub Actions, which shows them beside the changed lines, and in the job.

Source: GitHub Actions, "Workflow commands"; actions/toolkit, packages/core/src/command.ts for what is escaped.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from scorer.api.quoting import LONGEST_NAME, shortened
from webhook.cli.sarif import Result, relative_path

_LEVELS: Final = {"error": "error", "warning": "warning", "note": "notice"}
_OF_MESSAGES: Final = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A"})
_OF_PROPERTIES: Final = str.maketrans({"%": "%25", "\r": "%0D", "\n": "%0A", ":": "%3A", ",": "%2C"})


def annotations(results: Sequence[Result], folder: Path) -> Iterator[str]:
    """Yield one line per finding, with values of bounded length: GitHub drops what is too long.

    Args:
        results: The findings.
        folder: That of the checkout, where the job runs: names of files within it are relative to it.
    """
    for result in results:
        properties = {
            "file": shortened(relative_path(result.file, folder)),
            "line": str(result.place.line),
            "col": str(result.place.column),
            "title": f"harbormaster {shortened(result.rule, LONGEST_NAME)}",
        }
        written = ",".join(f"{name}={value.translate(_OF_PROPERTIES)}" for name, value in properties.items())
        yield f"::{_LEVELS[result.level]} {written}::{shortened(result.message).translate(_OF_MESSAGES)}"
