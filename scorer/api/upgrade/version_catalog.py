"""ClusterVersionCatalog: which Kubernetes versions and node images exist in which region.

An absent list and an empty one differ: an absent list leaves the region unchecked, an empty one means that nothing is
published there (upgrade-runs.md 3.6). Versions are plain strings; the CRD has the pattern.

Source: upgrade-runs.md 3.6.
"""

from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import Field

from scorer.api.meta import ApiModel, ApiObject, Time
from scorer.api.upgrade.fields import ImageFamily, ImageVersion, KubernetesVersion, ObservedStatus

DEFAULT_REGION: Final = "default"
"""Applies to every region without an entry."""


def _by(key: str) -> dict[str, Any]:
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}


class VersionPhase(StrEnum):
    """How mature a version is."""

    GA = "GA"
    PREVIEW = "Preview"
    DEPRECATED = "Deprecated"


class CatalogVersion(ApiModel):
    """A published Kubernetes version."""

    version: KubernetesVersion
    phase: VersionPhase = VersionPhase.GA
    lts: bool = False


class CatalogImage(ApiModel):
    """A published version of a node image."""

    version: ImageVersion
    published_at: Time | None = None


class CatalogFamily(ApiModel):
    """The published versions of one family of node images."""

    family: ImageFamily
    versions: Annotated[tuple[CatalogImage, ...], Field(json_schema_extra=_by("version"))] = ()


class CatalogRegion(ApiModel):
    """What is published in one region."""

    name: str = Field(min_length=1, max_length=63)
    kubernetes_versions: tuple[CatalogVersion, ...] | None = Field(default=None, json_schema_extra=_by("version"))
    node_images: tuple[CatalogFamily, ...] | None = Field(default=None, json_schema_extra=_by("family"))


class VersionCatalogSpec(ApiModel):
    """``spec`` of a catalog; several catalogs are merged by region."""

    regions: Annotated[tuple[CatalogRegion, ...], Field(json_schema_extra=_by("name"))] = ()


class ClusterVersionCatalog(ApiObject):
    """Versions and images that members can be upgraded to."""

    spec: VersionCatalogSpec
    status: ObservedStatus = Field(default_factory=ObservedStatus)
