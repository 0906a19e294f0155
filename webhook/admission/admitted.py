"""Admission of one kind: the registered writes, the defaults and the rules."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from scorer.api.kinds import Kind
from scorer.api.meta import JsonObject
from webhook.defaulting.defaulted import DefaultedObject, DefaultingContext
from webhook.validation.framework.context import Context
from webhook.validation.framework.field import FieldWarning
from webhook.validation.framework.reading import Finding
from webhook.validation.guard_rails.writes import GuardRail
from webhook.validation.live.check import LiveCheck

Operation: TypeAlias = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]
Validate: TypeAlias = Callable[[JsonObject, JsonObject | None, Context], Iterator[Finding]]
Default: TypeAlias = Callable[[JsonObject, JsonObject | None], DefaultedObject]
Stamp: TypeAlias = Callable[[JsonObject, JsonObject | None, DefaultingContext], JsonObject]

MOST_VALUES: Final = 10_000
"""Maximum number of JSON values in an object without its status: far more than users write."""
MOST_COLLECTED: Final = 1000
"""Maximum number of collected findings: far more than an answer shows, far fewer than a hostile object may have."""
MOST_VALUES_OF_MANY: Final = 20_000
"""As `MOST_VALUES`, for kinds whose schema allows thousands of objects: groups in stages, versions in regions."""
MOST_VALUES_OF_MANIFESTS: Final = 50_000
"""As `MOST_VALUES`, for kinds with manifests, whose values no rule reads. Manifests of 1.5 MB have fewer."""

CREATE_UPDATE: Final = frozenset[Operation]({"CREATE", "UPDATE"})
ALL: Final = frozenset[Operation]({"CREATE", "UPDATE", "DELETE"})
CREATE: Final = frozenset[Operation]({"CREATE"})
DELETE: Final = frozenset[Operation]({"DELETE"})
UPDATE: Final = frozenset[Operation]({"UPDATE"})
UPDATE_DELETE: Final = frozenset[Operation]({"UPDATE", "DELETE"})
NEVER: Final = frozenset[Operation]()


@dataclass(frozen=True, slots=True)
class Admitted:
    """Admission of one kind.

    Args:
        kind: The kind.
        validate: Yields errors and warnings about an object. None: disabled, only guard rails apply.
        default: Sets defaults. None: disabled, the schema has all defaults.
        operations: Operations that the validating hook is registered for (serving.md 1.3).
        body: Field with the user's intent. An update that does not change it is not validated again.
        judged_whole: Whether an update is validated as a whole, not only its changes (serving.md 1.8 part B).
        refuse_deletion: Returns why an object must not be deleted now, empty if it may be.
        warn_about_deletion: Yields warnings about the effects of a deletion.
        warn_about_status: Yields warnings about a write of the status subresource.
        default_status: Changes a write of the status subresource before it is validated. None: disabled.
        validate_status: Yields errors that refuse a write of the status subresource.
        validate_deleted: Yields errors that refuse an update of an object that is being deleted.
        stamp: Sets values that depend on the request, such as a date or a token. Runs after the defaults.
        guards: Yield why the user must not make a write, in this order. Also run for subresources and deletions.
        live: Checks of a creation, or of an update of the body, against the rest of the hub, most important first.
        live_on_deletion: Checks of a deletion against the rest of the hub.
        lasting: The live checks whose warnings also apply to the stored object. Empty: they apply only to writes.
        most_values: An object with more JSON values is refused without validation.
    """

    kind: Kind
    validate: Validate | None = None
    default: Default | None = None
    operations: frozenset[Operation] = CREATE_UPDATE
    body: str = "spec"
    judged_whole: bool = False
    refuse_deletion: Callable[[JsonObject, Context], str] | None = None
    warn_about_deletion: Callable[[JsonObject], Iterator[FieldWarning]] | None = None
    warn_about_status: Callable[[JsonObject], Iterator[FieldWarning]] | None = None
    default_status: Default | None = None
    validate_status: Validate | None = None
    validate_deleted: Validate | None = None
    stamp: Stamp | None = None
    guards: tuple[GuardRail, ...] = ()
    live: tuple[LiveCheck, ...] = ()
    live_on_deletion: tuple[LiveCheck, ...] = ()
    lasting: tuple[LiveCheck, ...] = ()
    most_values: int = MOST_VALUES
