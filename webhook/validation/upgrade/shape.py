"""Rules that all upgrade kinds share: their shape, and the syntax of names, versions, times and selectors.

Source: docs/specifications/upgrade-runs.md 3, 3.2 and 4.
"""

import re
from collections.abc import Iterator
from typing import Final

from scorer.api.meta import ObjectMeta
from scorer.api.upgrade.fields import (
    LONGEST_GENERATED_NAME,
    LONGEST_NAME,
    NAME_PATTERN,
    OFFSET_PATTERN,
    TIME_PATTERN,
    VERSION_PATTERN,
    StrategyReference,
)
from scorer.api.values.field_path import FieldPath
from scorer.api.values.label_selector import LabelSelector
from webhook.validation.framework.context import Context
from webhook.validation.framework.field import SPEC, FieldError, invalid
from webhook.validation.framework.metadata import (
    METADATA,
    METADATA_RULES,
    USER_RULES,
    validate_labels_and_annotations,
    validate_metadata,
    warn_about_reserved_keys,
)
from webhook.validation.framework.reading import Finding
from webhook.validation.framework.rule import OURS, Rule, deny, schema
from webhook.validation.framework.selector import validate_label_selector

PLACES_OF_STAGES: Final = ("spec.stages.*", "spec.strategy.stages.*")
"""Paths of stages, in a strategy and in a run."""
PLACES_OF_GATES: Final = tuple(place for stage in PLACES_OF_STAGES for place in (stage, f"{stage}.groups.*"))
"""Paths of objects with gates: stages and groups."""

SHAPE: Final = schema("C-01", "Types, bounds and enum values must match the schema.", OURS, "spec")
NAMED: Final = deny(
    "C-02",
    f"The name must have at most {LONGEST_NAME} characters: lowercase letters, digits and '-' between them.",
    OURS,
)
GENERATED: Final = deny(
    "C-03",
    f"The name must have at most {LONGEST_GENERATED_NAME} characters: lowercase letters, digits and '-' between them.",
    OURS,
)
TIMES: Final = schema(
    "C-31",
    "startTime must be HH:MM, and utcOffset must be +HH:MM or -HH:MM, at most 14:00.",
    OURS,
    *(f"{at}.{field}" for at in ("spec", "spec.scheduledStart") for field in ("startTime", "utcOffset")),
    *(
        f"{at}.{side}.*.scheduledStart.{field}"
        for at in PLACES_OF_GATES
        for side in ("beforeGates", "afterGates")
        for field in ("startTime", "utcOffset")
    ),
)
SELECTORS: Final = deny("C-32", "A memberSelector must be a valid label selector.", OURS)
VERSIONS: Final = schema(
    "C-35",
    "A Kubernetes version must be X.Y.Z, or X.Y for its newest patch.",
    OURS,
    "spec.upgrade.kubernetesVersion",
    "spec.kubernetesVersion",
    "spec.regions.*.kubernetesVersions.*.version",
)

WRITTEN_BY_USERS: Final = (*USER_RULES, SHAPE, NAMED)
WRITTEN_BY_RUNS: Final = (*METADATA_RULES, SHAPE, GENERATED)

NAME_GRAMMAR: Final = (
    "must be 1 to {longest} lowercase letters, digits and '-', and start and end with a letter or digit"
)
_NAME: Final = re.compile(NAME_PATTERN, re.ASCII)
_TIME: Final = re.compile(TIME_PATTERN, re.ASCII)
_OFFSET: Final = re.compile(OFFSET_PATTERN, re.ASCII)
_VERSION: Final = re.compile(VERSION_PATTERN, re.ASCII)


def validate_about(
    new: ObjectMeta, old: ObjectMeta | None, context: Context, *, name: Rule = NAMED
) -> Iterator[Finding]:
    """Labels and annotations are valid, and a new object has a name that fits into generated names (C-02, C-03).

    A name cannot be changed, so no update is refused for it. Every name that C-02 and C-03 allow is also valid for the
    API server, so a name that they refuse gets no second error of A-01.
    """
    longest = LONGEST_NAME if name is NAMED else LONGEST_GENERATED_NAME
    if old is None and new.name and not is_name(new.name, longest):
        yield invalid(METADATA / "name", new.name, NAME_GRAMMAR.format(longest=longest), name.id)
        yield from validate_labels_and_annotations(new, old)
    else:
        yield from validate_metadata(new, old)
    if name is NAMED:
        yield from warn_about_reserved_keys(new, old, context)


def is_name(text: str, longest: int = LONGEST_NAME) -> bool:
    """Return whether *text* is a valid name of an object, a stage or a group."""
    return len(text) <= longest and _NAME.fullmatch(text) is not None


def validate_time(start_time: str, utc_offset: str, at: FieldPath) -> Iterator[FieldError]:
    """Time of day and UTC offset are well formed (C-31)."""
    if not _TIME.fullmatch(start_time):
        yield invalid(at / "startTime", start_time, "must be a time from 00:00 to 23:59", "C-31")
    if not _OFFSET.fullmatch(utc_offset):
        reason = "must be + or -, and an offset of at most 14:00, such as +01:00"
        yield invalid(at / "utcOffset", utc_offset, reason, "C-31")


def validate_selector(selector: LabelSelector | None, at: FieldPath) -> Iterator[FieldError]:
    """A member selector is a valid label selector (C-32). An invalid one would select no member."""
    if selector is not None:
        yield from validate_label_selector(selector, at / "memberSelector", "C-32")


def validate_reference(reference: StrategyReference | None) -> Iterator[FieldError]:
    """The name in a reference is a valid name of a strategy (C-01). The strategy need not exist."""
    if reference is not None and 0 < len(reference.name) <= LONGEST_NAME and not is_name(reference.name):
        reason = NAME_GRAMMAR.format(longest=LONGEST_NAME)
        yield invalid(SPEC / "strategyRef" / "name", reference.name, reason, "C-01")


def validate_version(version: str | None, at: FieldPath) -> Iterator[FieldError]:
    """A version is ``X.Y.Z``, or the alias ``X.Y`` (C-35)."""
    if version is not None and not _VERSION.fullmatch(version):
        yield invalid(at, version, "must be a version such as 1.31.2, or 1.31 for its newest patch", "C-35")
