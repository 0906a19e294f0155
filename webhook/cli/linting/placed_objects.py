"""Findings of ``lint`` about objects that a placement in the same files selects.

Source: rollout.md 2.10.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from scorer.api.kinds import KINDS, PLACEMENT, RESOURCE_PLACEMENT, split_api_version
from scorer.api.names import IGNORE_FIELDS
from scorer.api.unstructured.documents import dicts_at, text_at
from scorer.api.values.field_path import FieldPath
from scorer.rollout.object_size import object_identity
from scorer.rollout.ownership.ignored_fields import ignored_fields, ignored_fields_mistakes
from scorer.rollout.selection.selector import DocumentInventory, Selection, select_resources
from webhook.cli.files.documents import Identity, Loaded

IGNORED_FIELDS: Final = "ignore-fields"
"""Rule of these findings: not one of admission, which does not review such objects."""

_AUTOSCALER: Final = KINDS["autoscaling", "HorizontalPodAutoscaler"]
_ANNOTATION: Final = FieldPath.of("metadata", "annotations", IGNORE_FIELDS)
_REPLICAS: Final = ("spec", "replicas")


class PlacedObjectRemark(NamedTuple):
    """A remark about an object that is placed.

    Args:
        about: The object.
        field: The field that it concerns.
        message: The reason.
        is_error: Whether the object cannot be applied as it is.
    """

    about: Loaded
    field: FieldPath
    message: str
    is_error: bool = False


def placed_object_remarks(objects: Sequence[Loaded]) -> Iterator[PlacedObjectRemark]:
    """Yield the remarks about objects that placements among *objects* select."""
    selected = _selected(objects)
    placed_objects = {item.identity: item for item in objects if item.identity in selected}
    for item in placed_objects.values():
        for mistake in ignored_fields_mistakes(item.document):
            yield PlacedObjectRemark(item, _ANNOTATION, mistake, is_error=True)
    for autoscaler in placed_objects.values():
        if autoscaler.kind.group_kind != _AUTOSCALER.group_kind:
            continue
        target = placed_objects.get(_target(autoscaler))
        if target is not None and not _leaves_replicas(target):
            message = (
                f"HorizontalPodAutoscaler {autoscaler.name} sets replicas on each member, and each apply resets them: "
                f"annotate the {target.kind.kind} with {IGNORE_FIELDS}=/spec/replicas"
            )
            yield PlacedObjectRemark(target, FieldPath.of(*_REPLICAS), message)


def _selected(objects: Sequence[Loaded]) -> frozenset[Identity]:
    inventory = DocumentInventory([item.document for item in objects])
    selections = [
        select_resources(dicts_at(item.document, "spec", "resourceSelectors"), item.namespace, inventory)
        for item in objects
        if item.kind in (PLACEMENT, RESOURCE_PLACEMENT)
    ]
    return frozenset(
        object_identity(content)
        for selection in selections
        if isinstance(selection, Selection)
        for content in selection.objects
    )


def _target(autoscaler: Loaded) -> Identity:
    group, _ = split_api_version(text_at(autoscaler.document, "spec", "scaleTargetRef", "apiVersion"))
    kind, name = (text_at(autoscaler.document, "spec", "scaleTargetRef", member) for member in ("kind", "name"))
    return group, kind, autoscaler.namespace, name


def _leaves_replicas(target: Loaded) -> bool:
    """Return whether the annotation of *target* leaves the replicas field, or one of its parents, to the member."""
    return any(_REPLICAS[: len(path)] == path for path in ignored_fields(target.document))
