"""Reads and writes YAML, so that a file means the same here as in kubectl.

Built on the parser's events instead of PyYAML's constructor, which turns text into dates and silently accepts duplicate
keys. Plain words are read as kubectl reads them (sigs.k8s.io/yaml): ``yes``, ``no``, ``on``, ``off``, ``y`` and ``n``
are booleans, ``0644`` is octal, but instants and ``1:30`` are text. Aliases and merge keys are supported. Their
expansion is bounded, because a few lines can expand beyond any memory.

Deliberate differences: keys are text as written. Duplicate keys, aliases as keys, tags and non-finite numbers are
refused. So is a merge key after a member that it would replace in kubectl.

Source: kubernetes-sigs/yaml ``goyaml.v2/resolve.go``.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import yaml

DEEPEST: Final = 100
"""Maximum levels of nesting, the same as in the body of a request."""

LARGEST_REPETITION: Final = 4 * 1024 * 1024
"""Maximum total size of the expansions of all aliases of a text: values, keys and characters of text."""

_STRING_TAGS: Final = frozenset({"!", "tag:yaml.org,2002:str"})
_COLLECTION_TAGS: Final = frozenset({"!", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"})
_WORDS: Final[dict[str, bool | None]] = {
    word_form: value
    for value, words in ((True, "y yes true on"), (False, "n no false off"), (None, "null ~"))
    for word in words.split()
    for word_form in (word, word.capitalize(), word.upper())
} | {"": None}
_NOT_FINITE: Final = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", re.ASCII)
_INTEGERS: Final = (
    (re.compile(r"[-+]?(0|[1-9][0-9]*)", re.ASCII), 10),
    (re.compile(r"[-+]?0[xX][0-9a-fA-F]+", re.ASCII), 16),
    (re.compile(r"[-+]?0[oO]?[0-7]+", re.ASCII), 8),
    (re.compile(r"[-+]?0[bB][01]+", re.ASCII), 2),
)
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_BIDI: Final = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_LONGEST_NUMBER: Final = 400
_EXACT: Final = 2**53

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class YamlError(ValueError):
    """The text is not YAML, or not of the accepted subset. *line* counts from 1."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}")
        self.line = line
        self.message = message


class Parsed(NamedTuple):
    """One document of a text. *line* is its first line."""

    value: Any
    line: int


def parse_yaml(text: str) -> list[Parsed]:
    """Parse all documents of *text*. The value of an empty one is None.

    Raises:
        YamlError: The first error.
    """
    reader = _Reader(_events(text))
    documents = []
    for event in reader.events:
        if isinstance(event, yaml.DocumentStartEvent):
            first = next(reader.events)
            reader.anchors.clear()
            documents.append(Parsed(reader.value(first, 1), _line(first)))
    return documents


def _events(text: str) -> Iterator[Any]:
    try:
        yield from yaml.parse(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = min(mark.line + 1, len(text.splitlines()) or 1) if mark else 1  # the end may be one line too far
        context = f" {error.context}" if error.context else ""
        raise YamlError(line, f"not YAML: {error.problem or 'unreadable'}{context}") from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise YamlError(line, f"not YAML: {error.reason}") from error


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


class _Reader:
    """Builds values from the events of one text.

    Args:
        events: Events of the parser.
    """

    def __init__(self, events: Iterator[Any]) -> None:
        self.events = events
        self.anchors: dict[str, Any] = {}
        """Anchored values of this document so far. A value is registered when complete, so none contains itself."""
        self._room = LARGEST_REPETITION

    def value(self, event: Any, depth: int) -> Any:
        """Return the value that starts with *event*."""
        if isinstance(event, yaml.AliasEvent):
            return self._repeated(event, depth)
        node = self._constructed(event, depth)
        if event.anchor:
            self.anchors[event.anchor] = node
        return node

    def _constructed(self, event: Any, depth: int) -> Any:
        if isinstance(event, yaml.ScalarEvent):
            return _scalar(event)
        if event.tag is not None and event.tag not in _COLLECTION_TAGS:
            raise YamlError(_line(event), f"tag {event.tag} is not accepted")
        if depth > DEEPEST:
            raise YamlError(_line(event), f"nested deeper than {DEEPEST} levels")
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(depth)
        return self._mapping(depth)

    def _repeated(self, event: Any, depth: int) -> Any:
        """Return a copy of the value that an alias refers to. Raises `YamlError` without an anchor, or if too large."""
        if event.anchor not in self.anchors:
            raise YamlError(
                _line(event), f"*{event.anchor:.66}: the document has no anchor &{event.anchor:.66} before it"
            )
        return self._copy(self.anchors[event.anchor], event, depth)

    def _copy(self, value: Any, event: Any, depth: int) -> Any:
        self._room -= 1 + (len(value) if isinstance(value, str) else 0)
        if self._room < 0:
            raise YamlError(
                _line(event), f"*{event.anchor:.66}: aliases repeat too much, more than {LARGEST_REPETITION} in total"
            )
        if not isinstance(value, dict | list):
            return value
        if depth > DEEPEST:
            raise YamlError(_line(event), f"nested deeper than {DEEPEST} levels")
        if isinstance(value, list):
            return [self._copy(item, event, depth + 1) for item in value]
        self._room -= sum(map(len, value))
        return {key: self._copy(item, event, depth + 1) for key, item in value.items()}

    def _sequence(self, depth: int) -> list[Any]:
        items = []
        for event in self.events:
            if isinstance(event, yaml.SequenceEndEvent):
                break
            items.append(self.value(event, depth + 1))
        return items

    def _mapping(self, depth: int) -> dict[str, Any]:
        members: dict[str, Any] = {}
        lines: dict[str, int] = {}
        for event in self.events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            if _is_merge(event):
                self._merge(members, lines, event, depth)
                continue
            key = _key(event)
            if event.anchor:
                self.anchors[event.anchor] = key
            if key in lines:
                raise YamlError(_line(event), f"{key!r:.66} is given twice, the first time in line {lines[key]}")
            lines[key] = _line(event)
            members[key] = self.value(next(self.events), depth + 1)
        return members

    def _merge(self, members: dict[str, Any], lines: Mapping[str, int], event: Any, depth: int) -> None:
        """Add the members of the objects that ``<<`` names. The first object with a member wins.

        Raises:
            YamlError: ``<<`` names no object, or an object with a member that precedes it.
        """
        base = self.value(next(self.events), depth + 1)
        for base_mapping in base if isinstance(base, list) else [base]:
            if not isinstance(base_mapping, dict):
                raise YamlError(_line(event), "<< takes an object, or a list of objects")
            if twice := next((key for key in base_mapping if key in lines), None):
                raise YamlError(
                    _line(event),
                    f"<< also has {twice!r:.66}, which precedes it in line {lines[twice]}: put << first",
                )
            for key, value in base_mapping.items():
                members.setdefault(key, value)


def _is_merge(event: Any) -> bool:
    return isinstance(event, yaml.ScalarEvent) and event.implicit[0] and event.value == "<<"


def _key(event: Any) -> str:
    if isinstance(event, yaml.AliasEvent):
        raise YamlError(_line(event), f"*{event.anchor:.66}: an alias must not be a key: write it out")
    if not isinstance(event, yaml.ScalarEvent):
        raise YamlError(_line(event), "a key must be text, not a list or an object")
    if event.implicit[0] and event.value in ("", "~", "null", "Null", "NULL"):
        raise YamlError(_line(event), "a key must be text, not null")
    return str(event.value)


def _scalar(event: Any) -> Any:
    if event.tag in _STRING_TAGS:
        return event.value
    if event.tag is not None:
        raise YamlError(_line(event), f"tag {event.tag} is not accepted")
    if not event.implicit[0]:
        return event.value
    try:
        return resolve_plain(event.value)
    except ValueError as error:
        raise YamlError(_line(event), str(error)) from error


def resolve_plain(text: str) -> Any:
    """Return the value of *text* without quotes: null, a boolean, a number, else the text itself.

    Raises:
        ValueError: *text* is a number that JSON cannot represent.
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    if _NOT_FINITE.fullmatch(text):
        raise ValueError(f"{text} is not a valid JSON number")
    plain = text if text[0] == "." else text.replace("_", "")
    if len(plain) > _LONGEST_NUMBER:
        return text
    for grammar, base in _INTEGERS:
        if grammar.fullmatch(plain):
            digits = plain.lower().replace("0o", "0") if base == 8 else plain
            return _integer(int(digits, base), text)
    if not _FLOAT.fullmatch(plain):
        return text
    number = float(plain)
    if number in (float("inf"), float("-inf")):
        return text
    return int(number) if number.is_integer() and abs(number) < _EXACT else number


def _integer(value: int, text: str) -> int | float:
    if -(2**63) <= value < 2**64:
        return value
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{text:.32} is not a valid JSON number") from None


def format_yaml(*values: Any) -> str:
    """Write *values*, decoded JSON, as YAML documents that read back the same, here and in kubectl.

    Characters that change the direction of text are escaped, because they could disguise a value.
    """
    text = str(yaml.dump_all(values, Dumper=_Writer, sort_keys=False, allow_unicode=True, width=120))
    return _BIDI.sub(lambda letter: f"\\u{ord(letter[0]):04x}", text)


class _Writer(_Dumper):  # type: ignore[misc]  # one of two classes, depending on the installation of PyYAML
    """Quotes texts that would be read back as another type, and writes no aliases."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the base class's signature
        """Return True, so that equal parts are written out each time."""
        return True


def _represent_text(dumper: Any, text: str) -> Any:
    style = None
    if _BIDI.search(text):
        style = '"'  # the only style with escapes
    elif "\n" in text and text.strip() and not any(line != line.rstrip() for line in text.split("\n")):
        style = "|"
    elif _misleads(text):
        style = "'"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _misleads(text: str) -> bool:
    try:
        return not isinstance(resolve_plain(text), str)
    except ValueError:
        return True


_Writer.add_representer(str, _represent_text)
