"""Findings of ``lint`` about objects that a placement in the same files selects.

Source: docs/specifications/rollout.md 2.10.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from scorer.api.kinds import KINDS, NAMESPACE, PLACEMENT, RESOURCE_PLACEMENT, split_api_version
from scorer.api.names import IGNORE_FIELDS
from scorer.api.unstructured.documents import annotation, dicts_at, text_at
from scorer.api.values.field_path import FieldPath
from scorer.rollout.object_size import object_identity
from scorer.rollout.ownership.ignored_fields import ignored_fields, ignored_fields_mistakes
from scorer.rollout.ownership.objects import EVIDENCE
from scorer.rollout.selection.selector import DocumentInventory, Selection, select_resources
from webhook.cli.files.documents import Identity, Loaded
from webhook.validation.live.placement import selected_home

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
    annotated = [item for item in objects if annotation(item.document, IGNORE_FIELDS)]
    autoscalers = [item for item in objects if item.kind.group_kind == _AUTOSCALER.group_kind]
    targets = set(map(_target, autoscalers))
    examined = [*annotated, *autoscalers, *(item for item in objects if item.identity in targets)]
    selected = _selected(objects, {item.identity: item for item in examined})
    for item in selected.values():
        for mistake in ignored_fields_mistakes(item.document):
            yield PlacedObjectRemark(item, _ANNOTATION, mistake, is_error=True)
    for autoscaler in selected.values():
        if autoscaler.kind.group_kind != _AUTOSCALER.group_kind:
            continue
        target = selected.get(_target(autoscaler))
        if target is not None and not _leaves_replicas(target):
            message = (
                f"HorizontalPodAutoscaler {autoscaler.name} sets replicas on each member, and each apply resets them: "
                f"annotate the {target.kind.kind} with {IGNORE_FIELDS}=/spec/replicas"
            )
            yield PlacedObjectRemark(target, FieldPath.of(*_REPLICAS), message)


def _selected(objects: Sequence[Loaded], examined: Mapping[Identity, Loaded]) -> dict[Identity, Loaded]:
    """Return which of the *examined* objects a placement selects.

    Searches only the examined objects, and the objects that affect the selection: namespaces, and evidence of the
    origin of objects. A search of all objects of a repository would take quadratic time.
    """
    placements = [item for item in objects if item.kind in (PLACEMENT, RESOURCE_PLACEMENT)]
    homes = {selected_home(dicts_at(item.document, "spec", "resourceSelectors")) for item in placements}
    namespaces = homes | {item.namespace for item in examined.values()}
    inventory = DocumentInventory(
        item.document
        for item in objects
        if item.identity in examined
        or item.kind in EVIDENCE.values()
        or (item.kind == NAMESPACE and item.name in namespaces)
    )
    selected: dict[Identity, Loaded] = {}
    for item in placements:
        if len(selected) == len(examined):
            break
        selection = select_resources(dicts_at(item.document, "spec", "resourceSelectors"), item.namespace, inventory)
        if isinstance(selection, Selection):
            identities = map(object_identity, selection.objects)
            selected |= {identity: examined[identity] for identity in identities if identity in examined}
    return selected


def _target(autoscaler: Loaded) -> Identity:
    group, _ = split_api_version(text_at(autoscaler.document, "spec", "scaleTargetRef", "apiVersion"))
    kind, name = (text_at(autoscaler.document, "spec", "scaleTargetRef", member) for member in ("kind", "name"))
    return group, kind, autoscaler.namespace, name


def _leaves_replicas(target: Loaded) -> bool:
    """Return whether the annotation of *target* leaves the replicas field, or one of its parents, to the member."""
    return any(_REPLICAS[: len(path)] == path for path in ignored_fields(target.document))
