"""Reads settings from options, the environment and defaults, in this order, into one frozen object.

Outside this package, only variables of other programs are read, such as the proxies of the standard library
(`webhook.kube.client.api_server`), the time zone of this machine (`webhook.answers.time_zones`), the limits of the
allocator (`webhook.telemetry.allocator`) and the environment of ``helm`` (`webhook.processes.agent_installation`).

A setting has the name of its field: ``https_port`` is ``HARBORMASTER_HTTPS_PORT`` in the environment and
``--https-port`` on the command line.

Each area of the service has one class of settings. A program inherits from its areas, and lists in `Settings.reads` the
settings that it reads (`webhook.settings.programs`). It ignores all other variables, and the other settings keep their
defaults.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

PREFIX: Final = "HARBORMASTER_"
MOST_SHOWN: Final = 64
"""Maximum length of an invalid value in a message, in characters."""
Reads: TypeAlias = tuple["type[Settings] | str", ...]
"""Areas, and names of individual settings of other areas."""


@dataclass(frozen=True, slots=True)
class Variable:
    """Marks a field, in its annotation, whose variable other programs use as well."""

    name: str


class SettingsError(Exception):
    """Settings have invalid values. Each message names the setting and the value.

    Args:
        mistake: Message of a program that cannot start.
        more: Further messages.
    """

    def __init__(self, mistake: str, *more: str) -> None:
        super().__init__(mistake)
        self.mistakes = (mistake, *more)


class Contradiction(NamedTuple):
    """Settings that are valid individually but not together."""

    settings: frozenset[str]
    message: str


class ContradictionsError(ValueError):
    """Settings contradict one another."""

    def __init__(self, contradictions: Iterable[Contradiction]) -> None:
        self.found = tuple(contradictions)
        super().__init__(self.found[0].message)


class Settings(BaseModel):
    """Settings that are read from the environment."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)  # base classes are never instantiated

    reads: ClassVar[Reads] = ()
    """Settings that a program reads. Empty: all of its settings. Not inherited."""

    @classmethod
    def own_names(cls) -> tuple[str, ...]:
        """Return the settings that this class itself adds, in order."""
        return tuple(name for name in cls.__annotations__ if name in cls.model_fields)

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the settings that are read. The others keep their defaults."""
        if not (reads := cls.__dict__.get("reads", ())):
            return tuple(cls.model_fields)
        names = {name for part in reads for name in ((part,) if isinstance(part, str) else part.own_names())}
        return tuple(name for name in cls.model_fields if name in names)

    def contradictions(self) -> Iterator[Contradiction]:
        """Yield settings that contradict each other. An area yields those of its bases first."""
        yield from ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = frozenset(self.names())  # the default of a setting that is not read contradicts nothing
        if contradictions := tuple(
            contradiction for contradiction in self.contradictions() if contradiction.settings <= names
        ):
            raise ContradictionsError(contradictions)
        return self

    @classmethod
    def variable(cls, name: str) -> str:
        """Return the environment variable of a setting."""
        marks = (mark.name for mark in cls.model_fields[name].metadata if isinstance(mark, Variable))
        return next(marks, PREFIX + name.upper())

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> dict[str, str]:
        """Return the values in the environment by name of the setting.

        Unknown variables are ignored: Kubernetes sets some, such as ``HARBORMASTER_SERVICE_HOST``.
        """
        variables = {name: cls.variable(name) for name in cls.names()}
        return {name: environment[variable] for name, variable in variables.items() if variable in environment}

    @classmethod
    def read(cls, environment: Mapping[str, str], **given: Any) -> Self:
        """Return the settings, each from *given*, the environment or its default, in this order.

        A value of None in *given* counts as absent.

        Raises:
            SettingsError: A value is invalid. The error has all messages.
        """
        names = cls.names()
        options = {name: value for name, value in given.items() if value is not None}
        mistakes = [f"{name}: unknown setting" for name in options if name not in names]
        values = cls.from_environment(environment) | {name: value for name, value in options.items() if name in names}
        try:
            settings = cls.model_validate(values)
        except ValidationError as error:
            raise SettingsError(*mistakes, *cls._mistakes(error, values, options)) from error
        if mistakes:
            raise SettingsError(*mistakes)
        return settings

    @classmethod
    def _mistakes(cls, error: ValidationError, values: Mapping[str, Any], options: Mapping[str, Any]) -> Iterator[str]:
        """Yield one line per invalid value, then one per contradiction among the valid ones."""
        details = [
            detail
            for detail in error.errors(include_url=False)
            if detail["loc"] and detail["type"] != "default_factory_not_called"  # only follows from another error
        ]
        wrong = {str(detail["loc"][0]) for detail in details}
        for detail in details:
            name = str(detail["loc"][0])
            label = name if name in options else cls.variable(name)
            message = detail["msg"].removeprefix("Value error, ")
            yield f"{label}: {str(detail['input'])[:MOST_SHOWN]!r}: {message[:1].lower()}{message[1:]}"
        right = {name: value for name, value in values.items() if name not in wrong}
        for contradiction in cls._contradictions_of(right):
            if wrong.isdisjoint(contradiction.settings):
                yield contradiction.message

    @classmethod
    def _contradictions_of(cls, values: Mapping[str, Any]) -> tuple[Contradiction, ...]:
        try:
            cls.model_validate(values)
        except ValidationError as error:
            cause = error.errors(include_url=False)[0]["ctx"]["error"]
            assert isinstance(cause, ContradictionsError)  # each value is valid individually
            return cause.found
        return ()
