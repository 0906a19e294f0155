"""``--validate``: unknown fields of objects in files, refused by default, as kubectl does.

A field that no schema knows is dropped, and a typo in ``policy`` makes a placement of two clusters one of all clusters.
With a hub, its API server judges. Without one, the definitions that are shipped or among the files do. For other kinds,
such as NodePool, the shipped schema may be older than theirs, so it only warns.

Source: Kubernetes ``fieldValidation``, kubectl ``--validate``.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from scorer.api.crd.compatibility import schema_of, served
from scorer.api.crd.pruning import nearest_field, object_schema, unknown_fields, with_metadata
from scorer.api.kinds import UPGRADE_GROUP, split_api_version
from scorer.api.names import CLUSTER_GROUP, PLACEMENT_GROUP
from scorer.api.unstructured.json_object import JsonObject
from scorer.api.values.field_path import FieldPath
from webhook.cli.errors import UserError, complain
from webhook.cli.files.documents import Loaded
from webhook.embedded.storage.kinds import DEFINITION, kind_of_definition
from webhook.validation.framework.field import Cause, FieldError

if TYPE_CHECKING:
    from webhook.cli.hub.client import HubRefusedError

_Command = TypeVar("_Command", bound=Callable[..., Any])

UNKNOWN_FIELD: Final = "unknown-field"
"""Takes the place of a rule id."""
UNKNOWN: Final = re.compile(r'unknown field "(.*)"', re.DOTALL)
"""The warning of an API server."""
_STRICT_GROUPS: Final = frozenset({PLACEMENT_GROUP, CLUSTER_GROUP, UPGRADE_GROUP})
_STRICT_ERROR: Final = "strict decoding error: "
_REFUSALS: Final = ('unknown field "', 'duplicate field "')
_PART: Final = re.compile(r"\[([^][]*)\]?|([^.[]+)")


class Validation(StrEnum):
    """How unknown fields are treated."""

    STRICT = "strict"
    WARN = "warn"
    IGNORE = "ignore"

    @property
    def parameter(self) -> str:
        """The value of ``fieldValidation`` in a request."""
        return self.value.capitalize()


_WORDS: Final = {validation.value: validation for validation in Validation} | {
    "true": Validation.STRICT,
    "false": Validation.IGNORE,
}


def validate_option(command: _Command) -> _Command:
    """Give a command ``--validate``, passed as ``validation``."""
    return click.option(
        "--validate",
        "validation",
        type=click.Choice(list(_WORDS)),
        default=Validation.STRICT.value,
        show_default=True,
        callback=lambda _context, _parameter, value: _WORDS[value],
        metavar="strict|warn|ignore",
        help='Unknown or duplicate fields: "strict" (or "true") refuses the object, "warn" only warns, and "ignore" '
        '(or "false") silently drops them.',
    )(command)


@dataclass(frozen=True, slots=True)
class FieldCheck:
    """The check of the fields of objects in files.

    Args:
        validation: How unknown fields are treated.
        schemas: Those of definitions among the files, by group, version and kind.
    """

    validation: Validation = Validation.WARN
    schemas: Mapping[tuple[str, str, str], JsonObject] = field(default_factory=dict)

    @classmethod
    def of(cls, validation: Validation, objects: Iterable[Loaded]) -> "FieldCheck":
        """Return the check by the definitions among *objects*, and by the shipped ones."""
        schemas = {}
        for item in objects:
            kind = kind_of_definition(item.document) if item.kind.group_kind == DEFINITION else None
            if kind is not None:
                for version, content in served(item.document).items():
                    schemas[kind.group, version, kind.kind] = with_metadata(schema_of(content))
        return cls(validation, schemas)

    def errors(self, item: Loaded) -> list[FieldError]:
        """Return the errors about unknown fields, none where those are only warned of."""
        return self._errors(item, self._unknown(item)) if self._refuses(item) else []

    def warnings(self, item: Loaded) -> list[str]:
        """Return the warnings about unknown fields, none where those are refused or ignored."""
        return [] if self._refuses(item) else self._warnings(self._unknown(item))

    def check(self, objects: Iterable[Loaded]) -> None:
        """Warn of unknown fields.

        Raises:
            UserError: Unknown fields are refused. All of them are named.
        """
        problems: list[str] = []
        for item in objects:
            problems += (f"{item.source}: {error}" for error in self.errors(item))
            for warning in self.warnings(item):
                complain(f"Warning: {item.source}: {warning}")
        if problems:
            raise UserError(problems)

    def settled(self, verdict: JsonObject, item: Loaded, *, of_hub: bool) -> JsonObject:
        """Return a verdict of a plan with the unknown fields as errors, as warnings, or not at all.

        Args:
            verdict: One of ``admission``, with a warning for every unknown field.
            item: The object that it is about.
            of_hub: Whether a hub has found these fields. Its definitions count, because they may be newer.
        """
        paths = [path_of_text(match[1]) for text in verdict["warnings"] if (match := UNKNOWN.fullmatch(text))]
        warnings = [text for text in verdict["warnings"] if not UNKNOWN.fullmatch(text)]
        if not of_hub or self._defined(item) is not None:
            paths = self._unknown(item)
        if not self._refuses(item):
            return {**verdict, "warnings": [*self._warnings(paths), *warnings]}
        errors = [
            {"field": str(error.field), "reason": error.cause.value, "message": error.text(), "rule": error.rule}
            for error in self._errors(item, paths)
        ]
        allowed = verdict["allowed"] and not errors
        return {**verdict, "allowed": allowed, "errors": [*verdict["errors"], *errors], "warnings": warnings}

    def schema(self, item: Loaded) -> JsonObject:
        """Return the schema of an object: that of a definition among the files, else the shipped one."""
        return self._defined(item) or object_schema(item.kind)

    def _refuses(self, item: Loaded) -> bool:
        is_strict = item.kind.group in _STRICT_GROUPS or self._defined(item) is not None
        return is_strict and self.validation is Validation.STRICT

    def _defined(self, item: Loaded) -> JsonObject | None:
        group, version = split_api_version(str(item.document["apiVersion"]))
        return self.schemas.get((group, version, item.kind.kind))

    def _unknown(self, item: Loaded) -> list[FieldPath]:
        return list(unknown_fields(item.document, self.schema(item)))

    def _errors(self, item: Loaded, paths: Iterable[FieldPath]) -> list[FieldError]:
        schema = self.schema(item)
        return [
            FieldError(path, Cause.FORBIDDEN, f"unknown field{_hint(path, schema)}", UNKNOWN_FIELD) for path in paths
        ]

    def _warnings(self, paths: Iterable[FieldPath]) -> list[str]:
        return [] if self.validation is Validation.IGNORE else [f'unknown field "{path}"' for path in paths]


def unknown_lines(error: "HubRefusedError", schema: JsonObject) -> list[str]:
    """Return a line for each unknown field that the hub refuses, with the nearest known field.

    An API server answers a patch with the whole object in JSON before the reason.
    """
    _, strict, reason = error.message.rpartition(_STRICT_ERROR)
    mistakes = [
        (word, path_of_text(part[len(word) :].removesuffix('"')))
        for part in (reason if strict else "").split('", ')
        for word in _REFUSALS
        if part.startswith(word)
    ]
    return [f"{path}: {word[:-2]}{_hint(path, schema)}" for word, path in mistakes]


def path_of_text(text: str) -> FieldPath:
    """Return the path that an API server writes as *text*."""
    return FieldPath(int(key) if key.isdecimal() else key or name for key, name in _PART.findall(text))


def _hint(path: FieldPath, schema: JsonObject) -> str:
    close = nearest_field(path, schema)
    return f"; did you mean {close}?" if close and close != path[-1] else ""
