"""What admission would say about an object in a file: the steps of a write to the hub, without the hub.

Source: placement-api.md 2.8.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from scorer.api.meta import JsonObject
from scorer.api.schema import apply_schema_defaults, prune, strip_nulls
from webhook.admission import registry
from webhook.admission.context import Context
from webhook.admission.judge import judge, mutate
from webhook.cli.documents import Loaded
from webhook.embedded.metadata import validate_members, validate_place
from webhook.validation.field import FieldError, path_order


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of one object.

    Args:
        loaded: As read.
        document: As it would be stored.
        errors: Why it is refused, by path.
        refusal: Why it is refused where no field is to blame.
        warnings: What its writer should know anyway.
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
    return Context.of_objects([one.document for one in loaded], now=now)


def admit(loaded: Loaded, context: Context) -> Verdict:
    """Do to one object what the hub does when it is created."""
    kind = loaded.kind
    group, version = kind.group, loaded.document["apiVersion"].rpartition("/")[2]
    pruned = prune(kind, loaded.document)
    document = strip_nulls(kind, pruned.document)
    unknown = tuple(f'unknown field "{field}"' for field in pruned.dropped)
    basic = [*validate_place(kind, document["metadata"]), *validate_members(document["metadata"], {})]
    if registry.find(group, version, kind.kind) is None:
        return Verdict(loaded, document, _sorted(basic), warnings=unknown, has_rules=False)
    mutation = mutate(apply_schema_defaults(kind, document), None, "CREATE")
    document = apply_schema_defaults(kind, mutation.document)
    judgement = judge("CREATE", document, None, context)
    known = {str(error.field) for error in judgement.errors}
    errors = [*judgement.errors, *(error for error in basic if str(error.field) not in known)]
    warnings = tuple(dict.fromkeys((*unknown, *mutation.warnings, *judgement.warnings)))
    refusal = "" if judgement.allowed or judgement.errors else judgement.message
    return Verdict(loaded, document, _sorted(errors), refusal, warnings)


def _sorted(errors: Iterable[FieldError]) -> tuple[FieldError, ...]:
    return tuple(sorted(errors, key=path_order))
