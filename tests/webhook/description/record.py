"""``python -m tests.webhook.description.record``: ask a real server for the examples of the document, and keep them.

The examples are answers as they came; only long lists are cut.
"""

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.webhook.description.example_hub import Caller, serving_example_fleet
from tests.webhook.description.mistakes import MISTAKES
from tests.webhook.description.questions import EXAMPLES, LONGEST_LIST

DESTINATION = Path(__file__).parents[3] / "webhook" / "description" / "examples.json"


async def record(caller: Caller) -> dict[str, Any]:
    """Return the examples, by operation and by slug."""
    operations: dict[str, Any] = {}
    for name, (method, path, body) in EXAMPLES.items():
        answer = await caller.ask(method, path, body)
        assert answer.status == 200, (name, answer)
        shown: dict[str, Any] = {} if body is None else {"request": body}
        operations[name] = shown | {"answer": shortened(answer.json)}
    _, event = await caller.first_event()
    operations["followEvents"] = {"answer": event.decode()}
    problems = {}
    for mistake in MISTAKES:
        answer = await mistake.make(caller)
        problems[mistake.slug] = answer.json
    return {"operations": operations, "problems": dict(sorted(problems.items()))}


def shortened(document: Any) -> Any:
    """Return a list answer with a few items only."""
    if isinstance(document, dict) and isinstance(document.get("items"), list):
        return document | {"items": document["items"][:LONGEST_LIST]}
    return document


async def main() -> None:
    """Record into the package."""
    with tempfile.TemporaryDirectory() as folder:
        async with serving_example_fleet(Path(folder)) as caller:
            examples = await record(caller)
    text = json.dumps(examples, indent=1, ensure_ascii=False, sort_keys=True)
    DESTINATION.write_text(text + "\n", encoding="utf-8")
    sys.stdout.write(f"wrote {DESTINATION}\n")


if __name__ == "__main__":
    asyncio.run(main())
