"""Overrides: changes to placed objects that differ by member cluster, and their numbered versions.

Source: placement-api.md 3.8.
"""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field

from scorer.api.meta import ApiModel, ApiObject, Base64Text, Name
from scorer.api.placement import ClusterSelector, ResourceSelectorTerm

LONGEST_PATH = 4096
"""Characters of a JSON Pointer: enough for a dozen label keys in a row."""


class PlacementScope(StrEnum):
    """Which kind of placement an override names."""

    CLUSTER = "Cluster"
    NAMESPACED = "Namespaced"


class OverrideType(StrEnum):
    """What an override does to an object."""

    JSON_PATCH = "JSONPatch"
    DELETE = "Delete"


class PlacementRef(ApiModel):
    """The placement that an override is for."""

    name: Name
    scope: PlacementScope = PlacementScope.CLUSTER


class JsonPatchOverride(ApiModel):
    """One JSON Patch operation. ``model_fields_set`` tells whether a value was given; null counts as not given."""

    op: Literal["add", "remove", "replace"]
    path: str = Field(max_length=LONGEST_PATH)
    value: Annotated[Any, Field(json_schema_extra={"x-kubernetes-preserve-unknown-fields": True})] = None


class OverrideRule(ApiModel):
    """A change and the member clusters it applies to: none without a cluster selector, all when that has no terms."""

    cluster_selector: ClusterSelector | None = None
    override_type: OverrideType = OverrideType.JSON_PATCH
    json_patch_overrides: tuple[JsonPatchOverride, ...] = Field(
        default=(), alias="jsonPatchOverrides", min_length=1, max_length=20
    )


class OverridePolicy(ApiModel):
    """Rules, in the order in which they apply."""

    override_rules: tuple[OverrideRule, ...] = Field(min_length=1, max_length=20)


class ClusterResourceOverrideSpec(ApiModel):
    """``spec`` of a ClusterResourceOverride."""

    placement: PlacementRef | None = None
    cluster_resource_selectors: tuple[ResourceSelectorTerm, ...] = Field(min_length=1, max_length=20)
    policy: OverridePolicy


class ResourceSelector(ApiModel):
    """Names one object in the override's namespace."""

    group: Name
    version: Name
    kind: Name
    name: Name


class ResourceOverrideSpec(ApiModel):
    """``spec`` of a ResourceOverride."""

    placement: PlacementRef | None = None
    resource_selectors: tuple[ResourceSelector, ...] = Field(min_length=1, max_length=20)
    policy: OverridePolicy


class ClusterResourceOverride(ApiObject):
    """Changes cluster-scoped objects, and namespaces, on the way to member clusters."""

    spec: ClusterResourceOverrideSpec


class ResourceOverride(ApiObject):
    """Changes objects of its own namespace on the way to member clusters."""

    spec: ResourceOverrideSpec


class ClusterResourceOverrideSnapshotSpec(ApiModel):
    """``spec`` of a ClusterResourceOverrideSnapshot; immutable (X-95)."""

    override_spec: ClusterResourceOverrideSpec
    override_hash: Base64Text


class ResourceOverrideSnapshotSpec(ApiModel):
    """``spec`` of a ResourceOverrideSnapshot; immutable (X-95)."""

    override_spec: ResourceOverrideSpec
    override_hash: Base64Text


class ClusterResourceOverrideSnapshot(ApiObject):
    """A version of a ClusterResourceOverride."""

    spec: ClusterResourceOverrideSnapshotSpec


class ResourceOverrideSnapshot(ApiObject):
    """A version of a ResourceOverride."""

    spec: ResourceOverrideSnapshotSpec
