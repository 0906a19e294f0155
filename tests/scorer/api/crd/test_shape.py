"""The shape of our kinds has exactly the parts of their schemas that decoding reads."""

from typing import Any

import pytest

from scorer.api.crd.definitions import metadata_schema, structural_schema
from scorer.api.crd.models import MODELS
from scorer.api.crd.shape import PARTS, metadata_shape, shape_of
from scorer.api.kinds import OUR_KINDS
from scorer.api.meta import JsonObject


@pytest.mark.parametrize("kind", OUR_KINDS, ids=str)
def test_the_shape_of_a_kind_is_that_of_its_schema(kind):
    schema = structural_schema(kind, staged_run_default_state="Run")
    assert shape_of(kind, staged_run_default_state="Run") == shape_in(schema)


def test_the_shape_of_metadata_is_that_of_its_schema():
    assert metadata_shape() == shape_in(metadata_schema())


def test_without_a_default_state_a_run_has_that_of_its_schema():
    for kind in OUR_KINDS:
        assert shape_of(kind) == shape_in(structural_schema(kind))


def test_every_kind_has_the_model_of_its_name():
    assert {key: model.__name__ for key, model in MODELS.items()} == {kind.group_kind: kind.kind for kind in OUR_KINDS}


def shape_in(schema: JsonObject) -> JsonObject:
    """Return the parts of a schema that a shape has."""
    shape: dict[str, Any] = {key: value for key, value in schema.items() if key in PARTS}
    if shape.get("type") != "object":
        shape.pop("type", None)
    for part in ("items", "additionalProperties"):
        if part in shape:
            shape[part] = shape_in(shape[part])
    if "properties" in shape:
        shape["properties"] = {name: shape_in(field) for name, field in shape["properties"].items()}
    return shape
