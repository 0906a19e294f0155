"""Holds real answers against the description: every member is described, and every described member is seen."""

from collections.abc import Iterator
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import best_match

from tests.webhook.description.example_hub import Answer

REFERENCE = "#/components/schemas/"


class Contract:
    """An OpenAPI document whose schemas have been closed: a member that it does not describe is a mistake.

    Remembers which members of which schemas the answers had.
    """

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.closed = {name: _closed(schema) for name, schema in document["components"]["schemas"].items()}
        self.seen: set[tuple[str, str]] = set()

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
        lacking = {name for name in described.get("headers", {}) if name not in answer.headers}
        assert lacking == set(), f"{method} {path} {answer.status}: no {lacking}"
        content = described.get("content")
        if content is None:
            assert answer.body == b""
            return
        assert answer.media_type in content, f"{method} {path} {answer.status}: {answer.media_type}"
        if answer.media_type.endswith("json"):
            self.fits(answer.json, content[answer.media_type]["schema"], f"{method} {path} {answer.status}")

    def fits(self, value: Any, schema: dict[str, Any], what: str) -> None:
        """Fail when *value* is not of *schema*; remember what was seen."""
        mistake = best_match(self._validator(schema).iter_errors(value))
        assert mistake is None, f"{what}: {mistake.json_path}: {mistake.message}"
        self._note(value, schema, "")

    def _validator(self, schema: dict[str, Any]) -> Draft202012Validator:
        root = {**_closed(schema), "components": {"schemas": self.closed}}
        return Draft202012Validator(root, format_checker=FormatChecker())

    def _note(self, value: Any, schema: dict[str, Any], name: str) -> None:
        if "$ref" in schema:
            name = schema["$ref"].removeprefix(REFERENCE)
            self._note(value, self.closed[name], name)
        for choice in schema.get("anyOf", schema.get("oneOf", ())):
            if self._validator(choice).is_valid(value):
                self._note(value, choice, name)
                break
        if isinstance(value, dict):
            properties = schema.get("properties", {})
            for member, content in value.items():
                if member in properties:
                    self.seen.add((name, member))
                    self._note(content, properties[member], name)
                elif isinstance(schema.get("additionalProperties"), dict):
                    self._note(content, schema["additionalProperties"], name)
        elif isinstance(value, list) and "items" in schema:
            for item in value:
                self._note(item, schema["items"], name)

    def described(self, *roots: str) -> set[tuple[str, str]]:
        """Return every member of the schemas that *roots* consist of."""
        names, ahead = set(), list(roots)
        while ahead:
            name = ahead.pop()
            if name not in names:
                names.add(name)
                ahead += list(_references(self.closed[name]))
        return {(name, member) for name in names for member in self.closed[name].get("properties", {})}


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


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if "$ref" in schema:
            yield schema["$ref"].removeprefix(REFERENCE)
        for value in schema.values():
            yield from _references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _references(value)
