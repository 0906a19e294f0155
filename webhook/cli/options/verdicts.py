"""Verdicts of admission on the objects of a proposal, as a command reports them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from scorer.api.unstructured.json_object import JsonObject
from webhook.cli.errors import UserError, complain
from webhook.cli.files.documents import Loaded
from webhook.cli.options.field_validation import FieldCheck


def settled(document: JsonObject, objects: Sequence[Loaded], fields: FieldCheck, *, of_hub: bool) -> JsonObject:
    """Return *document* with the unknown fields of *objects* in its verdicts, as *fields* requires.

    They are errors, warnings, or omitted.
    """
    own = [
        fields.settled(verdict, item, of_hub=of_hub)
        for verdict, item in zip(document["admission"], objects, strict=False)
    ]
    return {**document, "admission": [*own, *document["admission"][len(own) :]]}


def admission_warnings(admission: Sequence[JsonObject], objects: Sequence[Loaded]) -> Iterator[tuple[Loaded, str]]:
    """Yield the warnings of verdicts, which are in the order of *objects*."""
    for verdict, item in zip(admission, objects, strict=False):
        yield from ((item, warning) for warning in verdict["warnings"])


def refuse_denied(admission: Iterable[Mapping[str, Any]], objects: Iterable[Loaded]) -> None:
    """Raise `UserError` if a verdict of an answer, in the order of *objects*, is a refusal. Lists every error."""
    refusals = [
        ": ".join(filter(None, (str(item.source), error["field"], error["message"])))
        for verdict, item in zip(admission, objects, strict=False)
        for error in verdict["errors"]
    ]
    if refusals:
        raise UserError(refusals)


def check_admission(admission: Sequence[JsonObject], objects: Sequence[Loaded]) -> None:
    """Print the warnings of verdicts, which are in the order of *objects*.

    Raises:
        UserError: An object is refused. Lists every error.
    """
    refuse_denied(admission, objects)
    for item, warning in admission_warnings(admission, objects):
        complain(f"Warning: {item.source}: {warning}")
