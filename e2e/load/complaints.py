"""What programs say in their logs that they must not have to say under load."""

import json
from collections.abc import Iterator, Mapping

from e2e.controlplane.process import Program


def complaints(programs: Mapping[str, Program]) -> Iterator[str]:
    """Yield what is said in logs at the level of errors, and what was printed past the log by an exception.

    Args:
        programs: By name; their logs are JSON, one object a line.
    """
    for name, program in programs.items():
        with program.log.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith("Traceback") or '"level": "error"' in line or '"level": "critical"' in line:
                    yield f"the log of {name} says {_short(line)}"


def _short(line: str) -> str:
    try:
        said = json.loads(line)
    except ValueError:
        return line.strip()[:500]
    return json.dumps({name: str(value)[-500:] for name, value in said.items()})
