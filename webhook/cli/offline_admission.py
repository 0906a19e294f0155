"""What admission would say about an object in a file: the steps of a write to the hub, without the hub.

Source: placement-api.md 2.8.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from scorer.api.meta import JsonObject
from webhook.admission.failures import log_failure
from webhook.admission.rehearsal import rehearse
from webhook.answers.proposal import has_rules
from webhook.cli.documents import Loaded
from webhook.validation.context import Context
from webhook.validation.field import FieldError

ANY_NAME: Final = "A-01"
"""The rule for names of all kinds."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What admission would say about one object.

    Args:
        loaded: As read.
        document: As it would be stored.
        errors: Why it is refused, by path.
        refusal: Why it is refused, if the reason concerns no field.
        warnings: What the user is told besides.
        has_rules: Whether there are rules for its kind.
    """

    loaded: Loaded
    document: JsonObject
    errors: tuple[FieldError, ...] = ()
    refusal: str = ""
    warnings: tuple[str, ...] = ()
    has_rules: bool = True

    @property
    def allowed(self) -> bool:
        """Whether it may be written."""
        return not self.errors and not self.refusal

    def lines(self) -> list[str]:
        """Return one line per mistake, with file, document, field and value."""
        mistakes = [str(error) for error in self.errors] or ([self.refusal] if self.refusal else [])
        return [f"{self.loaded.source}: {mistake}" for mistake in mistakes]


def context_of(loaded: Iterable[Loaded], now: datetime) -> Context:
    """Return the context of a hub that holds all of *loaded*."""
    return Context.of_objects([one.document for one in loaded], now=now, on_failure=log_failure)


def admit(loaded: Loaded, context: Context) -> Verdict:
    """Do to one object what the hub does when it is created."""
    verdict = rehearse(loaded.document, None, "CREATE", context)
    ruled = has_rules(loaded.document)
    warnings = verdict.warnings if ruled else ()
    return Verdict(loaded, verdict.document, _said_once(verdict.errors), verdict.refusal, warnings, ruled)


def _said_once(errors: tuple[FieldError, ...]) -> tuple[FieldError, ...]:
    """Leave out that a name has not the grammar of all names, where the kind's own, which is narrower, says so too."""
    own = {error.field for error in errors if error.rule != ANY_NAME}
    return tuple(error for error in errors if error.rule != ANY_NAME or error.field not in own)
