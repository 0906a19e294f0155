"""The HTTPS interface in words and examples, from ``webhook/openapi.json``."""

import json
from collections.abc import Iterator
from typing import Any, Final

from tests.docs.pages import ROOT
from tests.docs.reference.markdown import code, lines, table, titled

METHODS: Final = ("get", "post", "put", "delete")
OPENAPI: Final = ROOT / "webhook" / "openapi.json"
LONGEST_EXAMPLE: Final = 60
"""Lines of an example; a longer one is left to the description itself."""

Document = dict[str, Any]


def page() -> str:
    """Return the page of all operations."""
    document = json.loads(OPENAPI.read_text(encoding="utf-8"))
    introduction = f"""
{document["info"]["description"]}

[webhook/openapi.json](../../webhook/openapi.json) is the complete description with every schema. A server has it at
`/v1/openapi.json`, and as a readable page at `/docs`. [Query a hub](../asking-from-elsewhere.md#who-may-ask)
explains the required rights and how to get a token.
"""
    parts = []
    for tag in document["tags"]:
        parts += [f"## {tag['name']}\n", f"{tag['description']}\n"]
        for path, item in document["paths"].items():
            for method in METHODS:
                operation = item.get(method)
                if operation is not None and operation["tags"] == [tag["name"]]:
                    parts += list(_operation(document, method, path, operation))
    return lines(titled("HTTPS API", introduction), *parts)


def _operation(document: Document, method: str, path: str, operation: Document) -> Iterator[str]:
    yield f"### {method.upper()} {path}\n"
    yield f"**{operation['summary']}.** {operation.get('description', '')}\n".replace("?.**", "?**")
    parameters = [_resolved(document, each) for each in operation.get("parameters", ())]
    rows = [
        (code(each["name"]), each["in"], each.get("description", "")) for each in parameters if each["in"] != "header"
    ]
    if rows:
        yield from table(["parameter", "in", "meaning"], rows)
        yield ""
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    yield from _example("Request:", content)
    for status, answer in operation["responses"].items():
        if status.startswith("2"):
            yield from _example("Answer:", _resolved(document, answer).get("content", {}).get("application/json", {}))
    others = ", ".join(status for status in operation["responses"] if not status.startswith("2"))
    yield f"Other statuses: {others}.\n"


def _resolved(document: Document, value: Document) -> Document:
    found: Any = value
    if reference := value.get("$ref"):
        found = document
        for part in reference.removeprefix("#/").split("/"):
            found = found[part]
    return dict(found)


def _example(title: str, content: Document) -> Iterator[str]:
    example = content.get("example")
    if example is None:
        return
    text = json.dumps(example, indent=2, ensure_ascii=False)
    if text.count("\n") < LONGEST_EXAMPLE:
        yield f"{title}\n\n```json\n{text}\n```\n"
