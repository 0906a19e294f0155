r"""kubectl's JSONPath templates: ``{range .items[*]}{.metadata.name}{"\n"}{end}``.

kubectl has a dialect of its own: templates with text around actions, ``range`` and ``end``, paths that optionally start
with ``$`` or ``@``, keys with escaped dots, filters that compare with literals. Existing libraries parse RFC 9535 or
its predecessors, but no templates. This module therefore parses templates as kubectl does. Matches in an object are in
the order of its fields, whereas their order is random in kubectl.

Source: client-go ``util/jsonpath``.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

MOST_STEPS: Final = 256
"""Maximum number of steps of a path, and of nested ranges. No object is nested that deeply."""
_SHOWN: Final = 64
_FIELD: Final = re.compile(r"(?:\\.|[^ \t\r\n.,\[\]$@{}\\])+")
_NUMBER: Final = re.compile(r"[+-]?[0-9][0-9.eE+-]*", re.ASCII)
_SLICE: Final = re.compile(r"(-?[0-9]{0,9})(?:(:)(-?[0-9]{0,9}))?(?::(-?[0-9]{0,9}))?", re.ASCII)
_QUOTED: Final = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"")
_BOOLEAN: Final = re.compile(r"true|false")
_OPERATOR: Final = re.compile(r"==|!=|<=|>=|<|>|=")
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "0": "\0"}
_ACTION: Final = re.compile(r"\{((?:'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|[^{}'\"])*)\}")


class JsonPathError(ValueError):
    """A template cannot be parsed, or does not fit the object. The message has the reason."""


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of every object, or the value itself if the name is empty."""

    name: str

    def find(self, values: Sequence[Any]) -> list[Any]:
        if not self.name:
            return list(values)
        return [value[self.name] for value in values if isinstance(value, Mapping) and self.name in value]


@dataclass(frozen=True, slots=True)
class _Wildcard:
    """Everything in every object and list."""

    def find(self, values: Sequence[Any]) -> list[Any]:
        return [child for value in values for child in _children(value)]


@dataclass(frozen=True, slots=True)
class _Recursive:
    """Every non-empty object and list, at any depth."""

    def find(self, values: Sequence[Any]) -> list[Any]:
        matches = []
        for value in values:
            if inner := _children(value):
                matches += [value, *self.find(inner)]
        return matches


@dataclass(frozen=True, slots=True)
class _Slice:
    """Some items of every list. The end is exclusive. None means the end of the list."""

    first: int
    end: int | None
    step: int

    def find(self, values: Sequence[Any]) -> list[Any]:
        matches: list[Any] = []
        for value in values:
            if value is None:
                continue
            if not isinstance(value, list):
                raise JsonPathError(f"{_text(value)[:_SHOWN]} is not a list")
            length = len(value)
            first = self.first + (length if self.first < 0 else 0)
            end = length if self.end is None else self.end + (length if self.end < 0 else 0)
            if first == end:
                continue
            if not 0 <= first < length or not 0 <= end <= length:
                beyond = first if not 0 <= first < length else end - 1
                raise JsonPathError(f"array index out of bounds: index {beyond}, length {length}")
            if first > end:
                raise JsonPathError(f"starting index {first} is greater than ending index {end}")
            matches += value[first : end : self.step]
        return matches


@dataclass(frozen=True, slots=True)
class _Union:
    """Matches of several paths, one after another."""

    paths: tuple["Path", ...]

    def find(self, values: Sequence[Any]) -> list[Any]:
        return [value for path in self.paths for value in path.find(values)]


@dataclass(frozen=True, slots=True)
class _Literal:
    """A value that is written in the template."""

    value: Any

    def find(self, _values: Sequence[Any]) -> list[Any]:
        return [self.value]


@dataclass(frozen=True, slots=True)
class _Filter:
    """The items of every list that satisfy a comparison, or, without an operator, that the path matches."""

    left: "Path"
    operator: str
    right: "Path | None"

    def find(self, values: Sequence[Any]) -> list[Any]:
        matches = []
        for value in values:
            if value is None:
                continue
            if not isinstance(value, list):
                raise JsonPathError(f"{_text(value)[:_SHOWN]} is not a list and cannot be filtered")
            matches += [item for item in value if self._holds(item)]
        return matches

    def _holds(self, item: Any) -> bool:
        operands = self.left.find([item])
        if self.right is None:
            return bool(operands)
        right = self.right.find([item])
        if not operands or not right:
            return False
        if len(operands) > 1 or len(right) > 1:
            raise JsonPathError("can only compare one element at a time")
        return _compare(operands[0], self.operator, right[0])


_Step = _Field | _Wildcard | _Recursive | _Slice | _Union | _Literal | _Filter


@dataclass(frozen=True, slots=True)
class Path:
    """Consecutive steps."""

    steps: tuple[_Step, ...]

    def find(self, values: Sequence[Any]) -> list[Any]:
        """Return the matches of the steps in *values*. Raises `JsonPathError`."""
        matches = list(values)
        for step in self.steps:
            matches = step.find(matches)
        return matches


@dataclass(frozen=True, slots=True)
class _Range:
    """A part of the template that is repeated for every match of its path."""

    path: Path
    body: tuple["_Part", ...]


_Part = str | Path | _Range


@dataclass(frozen=True, slots=True)
class Template:
    """A parsed template."""

    parts: tuple[_Part, ...]

    def write(self, document: Any) -> str:
        """Return the output for *document*, decoded JSON. Missing values produce no output.

        Raises:
            JsonPathError: A step does not fit its input, such as an index beyond the end of a list.
        """
        return "".join(_output_parts(self.parts, document))

    def find(self, document: Any) -> list[Any]:
        """Return the matches of the paths of the template. Raises `JsonPathError`."""
        return list(_values(self.parts, document))


def parse_template(text: str) -> Template:
    """Parse a template.

    Raises:
        JsonPathError: The text is not a template.
    """
    stack: list[tuple[Path, list[_Part]]] = [(Path(()), [])]
    position = 0
    while position < len(text):
        opening = text.find("{", position)
        literal = text[position:] if opening < 0 else text[position:opening]
        if literal:
            stack[-1][1].append(literal)
        if opening < 0:
            break
        action = _ACTION.match(text, opening)
        if action is None:
            raise JsonPathError("unclosed action")
        position = action.end()
        _add_action(action[1].strip(), stack)
    if len(stack) > 1:
        raise JsonPathError("a range has no {end}")
    return Template(tuple(stack[0][1]))


def parse_path(text: str) -> Path:
    """Parse the path of a column or of a sort key: ``metadata.name``, ``.metadata.name`` or ``{.metadata.name}``.

    Raises:
        JsonPathError: The text is not a path.
    """
    inner = text.strip()
    if inner.startswith("{") and inner.endswith("}"):
        inner = inner[1:-1].strip()
    if not inner or "{" in inner or "}" in inner:
        raise JsonPathError(f"{text[:_SHOWN]!r}: expected a path such as .metadata.name or {{.metadata.name}}")
    path, rest = _Reader(inner if inner[0] in ".$@[" else f".{inner}").path()
    if rest:
        raise JsonPathError(f"unrecognized character in action: {rest[:1]!r}")
    return path


def _add_action(action: str, stack: list[tuple[Path, list[_Part]]]) -> None:
    if action == "end":
        if len(stack) == 1:
            raise JsonPathError("not in range, nothing to end")
        path, body = stack.pop()
        stack[-1][1].append(_Range(path, tuple(body)))
        return
    is_range = action.startswith("range") and action[5:6] in ("", " ", "\t")
    rest = action.removeprefix("range").strip() if is_range else action
    if is_range:
        path, remainder = _Reader(rest).path()
        if remainder:
            raise JsonPathError(f"unrecognized character in action: {remainder[:1]!r}")
        if len(stack) > MOST_STEPS:
            raise JsonPathError(f"more than {MOST_STEPS} ranges inside each other")
        stack.append((path, []))
        return
    while rest:
        path, rest = _Reader(rest).path()
        stack[-1][1].append(path)


class _Reader:
    """Parses one path at the start of a text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def path(self) -> tuple[Path, str]:
        """Return the path and the rest of the text. Raises `JsonPathError`."""
        steps: list[_Step] = []
        while self._at < len(self._text) and (step := self._step(bool(steps))) is not None:
            steps.append(step)
            if len(steps) > MOST_STEPS:
                raise JsonPathError(f"more than {MOST_STEPS} steps")
        rest = self._text[self._at :].strip()
        if not steps:
            raise JsonPathError(f"unrecognized character in action: {rest[:1]!r}" if rest else "an action is empty")
        return Path(tuple(steps)), rest

    def _step(self, follows: bool) -> _Step | None:
        text, at = self._text, self._at
        letter = text[at]
        if letter in "$@":
            self._at += 1
            return _Field("")
        if text.startswith("..", at):
            self._at += 2
            field = _FIELD.match(text, self._at)
            if field is None:
                return _Recursive()
            self._at = field.end()
            return _Union((Path((_Recursive(), _field_or_wildcard(field[0]))),))
        if letter == ".":
            self._at += 1
            field = _FIELD.match(text, self._at)
            if field is None:
                return _Field("")
            self._at = field.end()
            return _field_or_wildcard(field[0])
        if letter == "[":
            return self._brackets()
        if follows:
            return None
        if quotation := _QUOTED.match(text, at):
            self._at = quotation.end()
            return _Literal(_unquoted(quotation[0]))
        if number := _NUMBER.match(text, at):
            self._at = number.end()
            return _Literal(_number(number[0]))
        if (word := _BOOLEAN.match(text, at)) is not None:
            self._at = word.end()
            return _Literal(word[0] == "true")
        if word := _FIELD.match(text, at):
            raise JsonPathError(f"unrecognized identifier {word[0][:_SHOWN]}")
        return None

    def _brackets(self) -> _Step:
        inner = self._inside_brackets()
        if inner.startswith("?(") and inner.endswith(")"):
            return _filter(inner[2:-1])
        parts = _split(inner)
        if len(parts) > 1:
            return _Union(tuple(Path((_item(part),)) for part in parts))
        return _item(inner)

    def _inside_brackets(self) -> str:
        """Return the text between the brackets that open here, and advance past them. Raises `JsonPathError`."""
        begin = at = self._at + 1
        depth = 1
        while at < len(self._text):
            if quotation := _QUOTED.match(self._text, at):
                at = quotation.end()
                continue
            depth += {"[": 1, "]": -1}.get(self._text[at], 0)
            if not depth:
                self._at = at + 1
                return self._text[begin:at].strip()
            at += 1
        raise JsonPathError("unterminated array")


def _split(text: str) -> list[str]:
    """Split at commas that are not in quotes."""
    parts, begin, at = [], 0, 0
    while at < len(text):
        if quotation := _QUOTED.match(text, at):
            at = quotation.end()
            continue
        if text[at] == ",":
            parts.append(text[begin:at].strip())
            begin = at + 1
        at += 1
    return [*parts, text[begin:].strip()]


def _item(text: str) -> _Step:
    if text == "*":
        return _Wildcard()
    if _QUOTED.fullmatch(text):
        return _Field(_unquoted(text))
    match = _SLICE.fullmatch(text)
    if not text or match is None or text == "-":
        raise JsonPathError(f"invalid array index {text[:_SHOWN]}")
    first, colon, end, step = match.groups()
    try:
        numbers = [int(number) if number else None for number in (first, end, step)]
    except ValueError as error:
        raise JsonPathError(f"invalid array index {text[:_SHOWN]}") from error
    begin, last, pace = numbers
    if not colon:
        index = begin or 0
        return _Slice(index, index + 1 or None, 1)  # -1 is the last one
    if pace is not None and pace <= 0:
        raise JsonPathError("step must be > 0")
    return _Slice(begin or 0, last, pace or 1)


def _filter(text: str) -> _Filter:
    at = 0
    while at < len(text):
        if quotation := _QUOTED.match(text, at):
            at = quotation.end()
            continue
        if operator := _OPERATOR.match(text, at):
            if operator[0] == "=":
                raise JsonPathError("unrecognized filter operator =")
            left, right = _operand(text[:at]), _operand(text[operator.end() :])
            return _Filter(left, operator[0], right)
        at += 1
    return _Filter(_operand(text), "", None)


def _operand(text: str) -> Path:
    path, rest = _Reader(text.strip()).path()
    if rest:
        raise JsonPathError(f"unrecognized character in action: {rest[:1]!r}")
    return path


def _field_or_wildcard(text: str) -> _Field | _Wildcard:
    return _Wildcard() if text == "*" else _Field(re.sub(r"\\(.)", r"\1", text))


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), text[1:-1])


def _number(text: str) -> int | float:
    try:
        return int(text) if re.fullmatch(r"[+-]?[0-9]{1,19}", text, re.ASCII) else float(text)
    except ValueError:
        raise JsonPathError(f"cannot parse number {text[:_SHOWN]}") from None


def _children(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value.values())
    return list(value) if isinstance(value, list) else []


def _compare(left: Any, operator: str, right: Any) -> bool:
    if isinstance(left, bool) != isinstance(right, bool) or isinstance(left, str) != isinstance(right, str):
        raise JsonPathError("incompatible types for comparison")
    if not isinstance(left, str | int | float) or not isinstance(right, str | int | float):
        raise JsonPathError("invalid type for comparison")
    if operator in ("==", "!="):
        return (left == right) is (operator == "==")
    if isinstance(left, bool):
        raise JsonPathError("invalid type for comparison")
    before, equal = left < right, left == right  # type: ignore[operator]  # both are texts, or both numbers
    return {"<": before, "<=": before or equal, ">": not (before or equal), ">=": not before}[operator]


def _output_parts(parts: Sequence[_Part], current: Any) -> Iterator[str]:
    for part in parts:
        if isinstance(part, str):
            yield part
        elif isinstance(part, Path):
            yield " ".join(_text(value) for value in part.find([current]))
        else:
            for value in part.path.find([current]):
                yield from _output_parts(part.body, value)


def _values(parts: Sequence[_Part], current: Any) -> Iterator[Any]:
    for part in parts:
        if isinstance(part, Path):
            yield from part.find([current])
        elif isinstance(part, _Range):
            for value in part.path.find([current]):
                yield from _values(part.body, value)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict | list):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True)
    return go_text(value)


def go_text(value: Any) -> str:
    """Return a value as Go's ``fmt.Sprint`` writes it, which kubectl uses in the cells of custom columns."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return "true" if value else "false"
        case float():
            if math.isfinite(value) and (value == 0 or 1e-4 <= abs(value) < 1e21):
                return repr(int(value)) if value.is_integer() else repr(value)
            return re.sub(r"e([+-])(\d)$", r"e\g<1>0\2", repr(value))
        case Mapping():
            return f"map[{' '.join(f'{key}:{go_text(value[key])}' for key in sorted(value))}]"
        case list():
            return f"[{' '.join(map(go_text, value))}]"
        case _:
            return str(value)
