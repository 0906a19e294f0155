"""What the kinds of ``upgrade.harbormaster.dev/v1alpha1`` share: enums, names, versions, times of day.

Names, versions and times of day are plain strings here; their patterns go into the CRD only, and admission
checks them with messages for people.

Source: upgrade-runs.md 2.2, 3, 3.2 and 12.
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
"""Characters of a name that users choose; names of generated objects are derived from it."""
LONGEST_GENERATED_NAME: Final = 63
"""Characters of the name of a gate or request."""
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
"""Name of a MemberCluster, or of what a skip target refers to."""
KubernetesVersion: TypeAlias = Annotated[str, Field(json_schema_extra={"maxLength": 64, "pattern": VERSION_PATTERN})]
ReportedVersion: TypeAlias = Annotated[str, Field(json_schema_extra={"maxLength": 64})]
"""A Kubernetes version as an upgrader reports it; a longer one is read all the same, and is none."""
ReportedText: TypeAlias = Annotated[str, Field(json_schema_extra={"maxLength": 32768})]
"""What an upgrader says for people; a longer one is read all the same, and cut where it is repeated."""
ReportedName: TypeAlias = Annotated[str, Field(json_schema_extra={"maxLength": 253})]
"""A name, a code or the version of an image as an upgrader reports it; a longer one is read all the same."""
ImageFamily: TypeAlias = Annotated[str, Field(min_length=1, max_length=253)]
ImageVersion: TypeAlias = Annotated[str, Field(min_length=1, max_length=253)]
TimeOfDay: TypeAlias = Annotated[str, Field(json_schema_extra={"pattern": TIME_PATTERN})]
UtcOffset: TypeAlias = Annotated[str, Field(json_schema_extra={"pattern": OFFSET_PATTERN})]

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)


def _read_date(value: object) -> date:
    """Read ``YYYY-MM-DD``; pydantic's own reader would accept a number of seconds as a date."""
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
    """Which parts of a cluster an upgrade changes."""

    FULL = "Full"
    CONTROL_PLANE_ONLY = "ControlPlaneOnly"
    NODE_IMAGE_ONLY = "NodeImageOnly"


class NodeImageSelection(StrEnum):
    """How the node image of a member is chosen (upgrade-runs.md 6.4)."""

    LATEST = "Latest"
    CONSISTENT = "Consistent"
    CUSTOM = "Custom"


class UpgradeState(StrEnum):
    """State of a run, stage, group, member, gate or wait; a member is never ``Stopping``."""

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
    """The ClusterUpgradeStrategy to follow; it may not exist yet."""

    name: Name
    """Name of the ClusterUpgradeStrategy."""


class UpgradeError(ApiModel):
    """What went wrong, for programs and for people; both fields are empty when nothing did."""

    code: ReportedName = ""
    """What went wrong, as one word for programs; empty when nothing did."""
    message: ReportedText = ""
    """What went wrong, as a sentence for people; empty when nothing did."""


class ObservedStatus(ApiModel):
    """``status`` of a kind that reports conditions only."""

    observed_generation: Int64 = 0
    """Generation of the object (``metadata.generation``) that the status is about."""
    conditions: Conditions = ()
    """What is to be said about the object, such as whether it is Valid."""
