"""Overrides: changes to placed objects that differ by member cluster, and their numbered versions.

Source: docs/specifications/placement-api.md 3.8.
"""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field

from scorer.api.meta import ApiModel, ApiObject, Base64Text, Name
from scorer.api.placement.placement import ClusterSelector, ResourceSelectorTerm

LONGEST_PATH = 4096
"""Characters of a JSON Pointer: enough for a dozen label keys in a row."""


class PlacementScope(StrEnum):
    """Scope of the placement that an override names."""

    CLUSTER = "Cluster"
    NAMESPACED = "Namespaced"


class OverrideType(StrEnum):
    """Effect of an override on an object."""

    JSON_PATCH = "JSONPatch"
    DELETE = "Delete"


class OverridePlacementRef(ApiModel):
    """The placement that an override is for."""

    name: Name
    """Name of the placement."""
    scope: PlacementScope = PlacementScope.CLUSTER
    """Cluster: a ClusterResourcePlacement. Namespaced: a ResourcePlacement in the override's namespace."""


class JsonPatchOverride(ApiModel):
    """One JSON Patch operation. ``model_fields_set`` contains a given value. Null counts as not given."""

    op: Literal["add", "remove", "replace"]
    """Operation: add sets a field or inserts into a list, replace sets an existing field, remove deletes it."""
    path: str = Field(max_length=LONGEST_PATH)
    """The field, as a JSON Pointer (RFC 6901) such as ``/spec/replicas``."""
    value: Annotated[Any, Field(json_schema_extra={"x-kubernetes-preserve-unknown-fields": True})] = None
    """The value to write, any JSON; required for add and replace, forbidden for remove. In strings,
    ``${MEMBER-CLUSTER-NAME}`` represents the member's name. Absent: none."""


class OverrideRule(ApiModel):
    """A change and its member clusters: none without a cluster selector, all if the selector has no terms."""

    cluster_selector: ClusterSelector | None = None
    """Member clusters of the rule, only by label. Absent: none. A selector with an empty list of terms: all."""
    override_type: OverrideType = OverrideType.JSON_PATCH
    """JSONPatch: change the object. Delete: do not place the object on these clusters."""
    json_patch_overrides: tuple[JsonPatchOverride, ...] = Field(
        default=(), alias="jsonPatchOverrides", min_length=1, max_length=20
    )
    """The changes, in order. Required for JSONPatch, not taken by Delete. Absent: none."""


class OverridePolicy(ApiModel):
    """Rules in the order of application."""

    override_rules: tuple[OverrideRule, ...] = Field(min_length=1, max_length=20)
    """Rules in the order of application. Later rules see the changes of earlier ones."""


class ClusterResourceOverrideSpec(ApiModel):
    """``spec`` of a ClusterResourceOverride."""

    placement: OverridePlacementRef | None = None
    """The only placement whose objects are changed, immutable. Absent: every placement that selects them."""
    cluster_resource_selectors: tuple[ResourceSelectorTerm, ...] = Field(min_length=1, max_length=20)
    """The objects to change, by kind and name. A Namespace selects everything in it."""
    policy: OverridePolicy
    """Changes, and the member clusters that they apply to."""


class ResourceSelector(ApiModel):
    """Names one object in the override's namespace."""

    group: Name
    """API group of the object, empty for the core group."""
    version: Name
    """API version of the object."""
    kind: Name
    """Kind of the object."""
    name: Name
    """Name of the object."""


class ResourceOverrideSpec(ApiModel):
    """``spec`` of a ResourceOverride."""

    placement: OverridePlacementRef | None = None
    """The only placement whose objects are changed, immutable. Absent: every placement that selects them."""
    resource_selectors: tuple[ResourceSelector, ...] = Field(min_length=1, max_length=20)
    """The objects of this namespace to change."""
    policy: OverridePolicy
    """Changes, and the member clusters that they apply to."""


class ClusterResourceOverride(ApiObject):
    """Changes cluster-scoped objects, and namespaces, on the way to member clusters."""

    spec: ClusterResourceOverrideSpec
    """Selected objects, their changes, and the member clusters."""


class ResourceOverride(ApiObject):
    """Changes objects of its own namespace on the way to member clusters."""

    spec: ResourceOverrideSpec
    """Selected objects, their changes, and the member clusters."""


class ClusterResourceOverrideSnapshotSpec(ApiModel):
    """``spec`` of a ClusterResourceOverrideSnapshot, immutable (X-95)."""

    override_spec: ClusterResourceOverrideSpec
    """The override as it was."""
    override_hash: Base64Text
    """SHA-256 of the override, to tell versions apart."""


class ResourceOverrideSnapshotSpec(ApiModel):
    """``spec`` of a ResourceOverrideSnapshot, immutable (X-95)."""

    override_spec: ResourceOverrideSpec
    """The override as it was."""
    override_hash: Base64Text
    """SHA-256 of the override, to tell versions apart."""


class ClusterResourceOverrideSnapshot(ApiObject):
    """A version of a ClusterResourceOverride."""

    spec: ClusterResourceOverrideSnapshotSpec
    """The override at one time, immutable."""


class ResourceOverrideSnapshot(ApiObject):
    """A version of a ResourceOverride."""

    spec: ResourceOverrideSnapshotSpec
    """The override at one time, immutable."""
