"""``--validate``: unknown fields of objects in files, refused by default, as kubectl does.

An API server drops unknown fields, so a typo in ``policy`` turns a placement on two clusters into one on all clusters.
With a hub, its API server validates the fields. Without a hub, the definitions among the files or the shipped ones are
used. For kinds of other projects, such as NodePool, the shipped schema may be outdated, so it only causes warnings.

Source: Kubernetes ``fieldValidation``, kubectl ``--validate``.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from scorer.api.kinds import UPGRADE_GROUP, split_api_version
from scorer.api.names import CLUSTER_GROUP, PLACEMENT_GROUP
from scorer.api.unstructured.json_object import JsonObject
from scorer.api.values.field_path import FieldPath
from webhook.cli.errors import UserError, complain
from webhook.cli.files.documents import Loaded
from webhook.embedded.storage.kinds import DEFINITION, kind_of_definition

if TYPE_CHECKING:
    from webhook.cli.hub.client import HubRefusedError
    from webhook.validation.framework.field import FieldError

_Command = TypeVar("_Command", bound=Callable[..., Any])

UNKNOWN_FIELD: Final = "unknown-field"
"""Replaces the rule ID of findings about unknown fields."""
UNKNOWN: Final = re.compile(r'unknown field "(.*)"', re.DOTALL)
"""The warning of an API server about an unknown field."""
_STRICT_GROUPS: Final = frozenset({PLACEMENT_GROUP, CLUSTER_GROUP, UPGRADE_GROUP})
_STRICT_ERROR: Final = "strict decoding error: "
_REFUSALS: Final = ('unknown field "', 'duplicate field "')
_PART: Final = re.compile(r"\[([^][]*)\]?|([^.[]+)")


class Validation(StrEnum):
    """Treatment of unknown fields."""

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
    """Add the option ``--validate`` to a command, as argument ``validation``."""
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
        validation: Treatment of unknown fields.
        schemas: Schemas of the definitions among the files, by group, version and kind.
    """

    validation: Validation = Validation.WARN
    schemas: Mapping[tuple[str, str, str], JsonObject] = field(default_factory=dict)

    @classmethod
    def of(cls, validation: Validation, objects: Iterable[Loaded]) -> "FieldCheck":
        """Return the check that uses the definitions among *objects*, and the shipped ones."""
        schemas = {}
        for item in objects:
            kind = kind_of_definition(item.document) if item.kind.group_kind == DEFINITION else None
            if kind is not None:
                from scorer.api.crd.compatibility import schema_of, served
                from scorer.api.crd.pruning import with_metadata

                for version, content in served(item.document).items():
                    schemas[kind.group, version, kind.kind] = with_metadata(schema_of(content))
        return cls(validation, schemas)

    def errors(self, item: Loaded) -> "list[FieldError]":
        """Return the errors about unknown fields, empty if they only cause warnings."""
        return self._errors(item, self._unknown(item)) if self._refuses(item) else []

    def warnings(self, item: Loaded) -> list[str]:
        """Return the warnings about unknown fields, empty if they are refused or ignored."""
        return [] if self._refuses(item) else self._warnings(self._unknown(item))

    def check(self, objects: Iterable[Loaded]) -> None:
        """Warn of unknown fields.

        Raises:
            UserError: Unknown fields are refused. Lists all of them.
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
            verdict: A verdict in ``admission`` of the plan, with a warning for every unknown field.
            item: The object of the verdict.
            of_hub: Whether a hub has found these fields. Its definitions take precedence, because they may be newer.
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
        from scorer.api.crd.pruning import object_schema

        return self._defined(item) or object_schema(item.kind)

    def _refuses(self, item: Loaded) -> bool:
        is_strict = item.kind.group in _STRICT_GROUPS or self._defined(item) is not None
        return is_strict and self.validation is Validation.STRICT

    def _defined(self, item: Loaded) -> JsonObject | None:
        group, version = split_api_version(str(item.document["apiVersion"]))
        return self.schemas.get((group, version, item.kind.kind))

    def _unknown(self, item: Loaded) -> list[FieldPath]:
        from scorer.api.crd.pruning import unknown_fields

        return list(unknown_fields(item.document, self.schema(item)))

    def _errors(self, item: Loaded, paths: Iterable[FieldPath]) -> "list[FieldError]":
        from webhook.validation.framework.field import Cause, FieldError

        schema = self.schema(item)
        return [
            FieldError(path, Cause.FORBIDDEN, f"unknown field{_hint(path, schema)}", UNKNOWN_FIELD) for path in paths
        ]

    def _warnings(self, paths: Iterable[FieldPath]) -> list[str]:
        return [] if self.validation is Validation.IGNORE else [f'unknown field "{path}"' for path in paths]


def unknown_lines(error: "HubRefusedError", schema: JsonObject) -> list[str]:
    """Return a line for each unknown field that the hub refuses, with the nearest known field.

    The refusal of a patch contains the whole object in JSON before the reason.
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
    from scorer.api.crd.pruning import nearest_field

    close = nearest_field(path, schema)
    return f". Did you mean {close}?" if close and close != path[-1] else ""
