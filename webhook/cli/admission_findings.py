"""What admission says in a plan, as findings with their places in the files."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from scorer.api.field_path import FieldPath
from scorer.api.meta import JsonObject
from scorer.api.quoting import printable
from webhook.cli.documents import Loaded
from webhook.cli.positions import Positions
from webhook.cli.sarif import Result

ADMISSION: Final = "admission"
"""Takes the place of a rule id where admission names no rule."""


def findings(admission: Sequence[JsonObject], given: Sequence[Loaded], texts: Mapping[str, str]) -> Iterator[Result]:
    """Yield the errors and warnings of a plan.

    Args:
        admission: The verdicts of the plan.
        given: What they are about, in the same order.
        texts: Of the files, by the file of a `Source`.
    """
    positions = Positions(texts)
    for verdict, one in zip(admission, given, strict=False):
        name = f"{one.kind.kind} {one.shown_name}"
        told = [("error", error["rule"] or ADMISSION, error["field"], error["message"]) for error in verdict["errors"]]
        for warning in verdict["warnings"]:
            field, _, message = warning.partition(": ")
            told.append(("warning", ADMISSION, field, message) if message else ("warning", ADMISSION, "", warning))
        for level, rule, field, message in told:
            place = positions.place(one.source, _nearest(positions, one, field))
            text = printable(f"{field}: {message}" if field else message)
            yield Result(rule, level, f"{name}: {text}", one.source.file, place)


def _nearest(positions: Positions, one: Loaded, field: str) -> FieldPath:
    """Return the path of a field, or of the nearest parent that is there."""
    while field:
        if (path := positions.path(one.source, field)) is not None:
            return path
        field = field[: max(field.rfind("."), field.rfind("["), 0)]
    return FieldPath()
