"""Compares answers with the document."""

from typing import Any

from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import best_match

from tests.webhook.description.example_hub import Answer


class Contract:
    """An OpenAPI document whose schemas have been closed: a member that it does not describe is a mistake."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.closed = {name: _closed(schema) for name, schema in document["components"]["schemas"].items()}

    def operation(self, method: str, path: str) -> dict[str, Any]:
        """Return the operation that answers a path, parameters filled in."""
        for template, methods in self.document["paths"].items():
            theirs, ours = template.split("/"), path.partition("?")[0].split("/")
            fits = len(theirs) == len(ours) and all(
                part == given or part.startswith("{") for part, given in zip(theirs, ours, strict=True)
            )
            if fits and method.lower() in methods:
                return methods[method.lower()]
        raise AssertionError(f"{method} {path} is not described")

    def response(self, method: str, path: str, status: int) -> dict[str, Any]:
        """Return what is described of one status."""
        responses = self.operation(method, path)["responses"]
        assert str(status) in responses, f"{method} {path} answers {status}, which is not described"
        found = responses[str(status)]
        if "$ref" in found:
            return self.document["components"]["responses"][found["$ref"].rpartition("/")[2]]
        return found

    def check(self, method: str, path: str, answer: Answer) -> None:
        """Fail when *answer* is not as described: status, headers, media type, body."""
        described = self.response(method, path, answer.status)
        headers = described.get("headers", {})
        lacking = {name for name in headers if name not in answer.headers}
        assert lacking == set(), f"{method} {path} {answer.status}: no {lacking}"
        for name, header in headers.items():
            if "$ref" in header:
                header = self.document["components"]["headers"][header["$ref"].rpartition("/")[2]]
            schema, text = header["schema"], answer.headers[name]
            value = int(text) if schema["type"] == "integer" else text
            self.fits(value, schema, f"{method} {path} {answer.status} {name}")
        content = described.get("content")
        if content is None:
            assert answer.body == b""
            return
        assert answer.media_type in content, f"{method} {path} {answer.status}: {answer.media_type}"
        if answer.media_type.endswith("json"):
            self.fits(answer.json, content[answer.media_type]["schema"], f"{method} {path} {answer.status}")

    def fits(self, value: Any, schema: dict[str, Any], what: str) -> None:
        """Fail when *value* is not of *schema*."""
        root = {**_closed(schema), "components": {"schemas": self.closed}}
        mistake = best_match(Draft202012Validator(root, format_checker=FormatChecker()).iter_errors(value))
        assert mistake is None, f"{what}: {mistake.json_path}: {mistake.message}"


def _closed(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: _closed(value) for key, value in schema.items() if key != "properties"}
    if "properties" in schema:
        closed["properties"] = {name: _closed(member) for name, member in schema["properties"].items()}
        closed.setdefault("additionalProperties", False)
    return closed
