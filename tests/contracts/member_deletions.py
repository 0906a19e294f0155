"""Deletions on members leave from one module: who deletes elsewhere, or calls that module from elsewhere, is reported.

Run by ``make lint``; import contracts cannot see calls. Looked at is everything that has a member in its hands.
"""

import ast
import sys
from collections.abc import Iterator
from typing import Final

from tests.contracts.sources import sources

LOOKED_AT: Final = ("webhook/processes/agent.py", "webhook/member", "webhook/embedded/simulation/members.py")

REMOVAL: Final = "webhook/member/deletion/removal.py"
TRANSPORT: Final = "webhook/member/store/api_server.py"
"""Sends what `REMOVAL` asks for to an API server."""
CALLERS: Final = frozenset({"webhook/member/works/reconciler.py"})
"""Who may ask for a removal."""

_DELETING: Final = frozenset({"delete", "delete_collection", "deletecollection"})


def problems(path: str, text: str) -> Iterator[str]:
    """Yield what is wrong with a module, with its place.

    Args:
        path: Relative to the project.
        text: Its source.
    """
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Attribute(value=ast.Attribute(attr="_hub") | ast.Name(id="hub")):
                continue  # nothing on a member
            case ast.Attribute(attr=name) if name in _DELETING and path not in {REMOVAL, TRANSPORT}:
                yield f"{path}:{node.lineno}: .{name}: content leaves a member only through {REMOVAL}"
            case ast.Constant(value=str(word)) if word in {"DELETE", "delete"} and path != TRANSPORT:
                yield f"{path}:{node.lineno}: {word!r}: content leaves a member only through {REMOVAL}"
            case ast.ImportFrom(module="webhook.member.deletion.removal") if path not in CALLERS:
                yield f"{path}:{node.lineno}: imports {REMOVAL}; only {', '.join(sorted(CALLERS))} may"
            case ast.ImportFrom(module="webhook.member.deletion") if any(each.name == "removal" for each in node.names):
                yield f"{path}:{node.lineno}: imports {REMOVAL} as a whole: name what is used"
            case ast.Import() if any(each.name == "webhook.member.deletion.removal" for each in node.names):
                yield f"{path}:{node.lineno}: imports {REMOVAL} as a whole: name what is used"


def main() -> int:
    """Say what is wrong; return the exit code."""
    found = [problem for path, source in sources(*LOOKED_AT) for problem in problems(path, source)]
    sys.stdout.write("".join(f"{problem}\n" for problem in found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
