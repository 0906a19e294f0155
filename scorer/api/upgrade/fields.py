"""Shared parts of the kinds of ``upgrade.harbormaster.dev/v1alpha1``: enums, names, versions, times of day.

Names, versions and times of day are plain strings here. Their patterns are only in the CRD, and admission checks them
with readable messages.

Source: docs/specifications/upgrade-runs.md 2.2, 3, 3.2 and 12.
"""

import re
from datetime import date
from enum import StrEnum
from typing import Annotated, Final, TypeAlias

from pydantic import Field, PlainSerializer, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from scorer.api.conditions import Conditions
from scorer.api.meta import ApiModel, Int64

LONGEST_NAME: Final = 50
"""Maximum length of the name of a user's object, in characters. Names of generated objects are derived from it."""
LONGEST_GENERATED_NAME: Final = 63
"""Maximum length of the name of a gate or request, in characters."""
MOST_NODE_IMAGES: Final = 50

NAME_PATTERN: Final = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
VERSION_PATTERN: Final = r"^v?[0-9]+\.[0-9]+(\.[0-9]+([-+][0-9A-Za-z.+-]+)?)?$"
MINOR_PATTERN: Final = r"^[0-9]+\.[0-9]+$"
TIME_PATTERN: Final = "^([01][0-9]|2[0-3]):[0-5][0-9]$"
OFFSET_PATTERN: Final = r"^[+-]((0[0-9]|1[0-3]):[0-5][0-9]|14:00)$"

UTC_OFFSET: Final = "+00:00"

Name: TypeAlias = Annotated[
    str, Field(min_length=1, max_length=LONGEST_NAME, json_schema_extra={"pattern": NAME_PATTERN})
]
MemberName: TypeAlias = Annotated[str, Field(min_length=1, max_length=253)]
"""Name of a MemberCluster, or of another skip target."""
KubernetesVersion: TypeAlias = Annotated[str, Field(json_schema_extra={"maxLength": 64, "pattern": VERSION_PATTERN})]
ReportedVersion: TypeAlias = Annotated[str, Field(json_schema_extra={"maxLength": 64})]
"""A Kubernetes version as reported by an upgrader. A longer text is accepted, but is not a version."""
ReportedText: TypeAlias = Annotated[str, Field(json_schema_extra={"maxLength": 32768})]
"""Human-readable text of an upgrader. A longer one is accepted, and truncated when quoted."""
ReportedName: TypeAlias = Annotated[str, Field(json_schema_extra={"maxLength": 253})]
"""A name, a code or the version of an image as reported by an upgrader. A longer one is accepted."""
ImageFamily: TypeAlias = Annotated[str, Field(min_length=1, max_length=253)]
ImageVersion: TypeAlias = Annotated[str, Field(min_length=1, max_length=253)]
TimeOfDay: TypeAlias = Annotated[str, Field(json_schema_extra={"pattern": TIME_PATTERN})]
UtcOffset: TypeAlias = Annotated[str, Field(json_schema_extra={"pattern": OFFSET_PATTERN})]

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)


def _read_date(value: object) -> date:
    """Parse ``YYYY-MM-DD``. The reader of pydantic would accept a number of seconds as a date."""
    if isinstance(value, str) and _DATE.fullmatch(value):
        try:
            return date.fromisoformat(value)
        except ValueError:
            pass
    elif type(value) is date:
        return value
    raise PydanticCustomError("local_date", "must be a date such as 2025-12-31")


LocalDate: TypeAlias = Annotated[
    date,
    PlainValidator(_read_date),
    PlainSerializer(date.isoformat, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "format": "date"}),
]
"""A calendar day at some UTC offset, ``YYYY-MM-DD``."""


class UpgradeType(StrEnum):
    """Parts of a cluster that an upgrade changes."""

    FULL = "Full"
    CONTROL_PLANE_ONLY = "ControlPlaneOnly"
    NODE_IMAGE_ONLY = "NodeImageOnly"


class NodeImageSelection(StrEnum):
    """Rule for choosing the node image of a member (upgrade-runs.md 6.4)."""

    LATEST = "Latest"
    CONSISTENT = "Consistent"
    CUSTOM = "Custom"


class UpgradeState(StrEnum):
    """State of a run, stage, group, member, gate or wait. A member is never ``Stopping``."""

    NOT_STARTED = "NotStarted"
    RUNNING = "Running"
    STOPPING = "Stopping"
    STOPPED = "Stopped"
    SKIPPED = "Skipped"
    FAILED = "Failed"
    PENDING = "Pending"
    COMPLETED = "Completed"


class Weekday(StrEnum):
    """A day of the week."""

    MONDAY = "Monday"
    TUESDAY = "Tuesday"
    WEDNESDAY = "Wednesday"
    THURSDAY = "Thursday"
    FRIDAY = "Friday"
    SATURDAY = "Saturday"
    SUNDAY = "Sunday"


class NodeImageVersion(ApiModel):
    """A node image: one version of one family."""

    family: ImageFamily
    """Family of the image, such as ``ubuntu-2204``."""
    version: ImageVersion
    """Version of the image, such as ``202503.21.0``."""


class StrategyReference(ApiModel):
    """The ClusterUpgradeStrategy to follow. It may not exist yet."""

    name: Name
    """Name of the ClusterUpgradeStrategy."""


class UpgradeError(ApiModel):
    """An error code with a human-readable message. Both are empty without an error."""

    code: ReportedName = ""
    """Machine-readable error code, empty without an error."""
    message: ReportedText = ""
    """Error message, empty without an error."""


class ObservedStatus(ApiModel):
    """``status`` of a kind that reports conditions only."""

    observed_generation: Int64 = 0
    """Generation of the object (``metadata.generation``) that the status is about."""
    conditions: Conditions = ()
    """Conditions of the object, such as whether it is Valid."""
