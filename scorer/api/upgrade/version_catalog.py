"""ClusterVersionCatalog: the Kubernetes versions and node images that exist per region.

An absent list and an empty one differ: an absent list leaves the region unchecked, an empty one means that nothing is
published there (upgrade-runs.md 3.6). Versions are plain strings. The CRD has the pattern.

Source: docs/specifications/upgrade-runs.md 3.6.
"""

from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import Field

from scorer.api.meta import ApiModel, ApiObject, Time, shared_default
from scorer.api.upgrade.fields import ImageFamily, ImageVersion, KubernetesVersion, ObservedStatus

DEFAULT_REGION: Final = "default"
"""Applies to every region without an entry."""
RELEASE_NOTES_PATTERN: Final = "^(https?://[!-~]+)?$"


def _by(key: str) -> dict[str, Any]:
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}


class VersionPhase(StrEnum):
    """Maturity of a version."""

    GA = "GA"
    PREVIEW = "Preview"
    DEPRECATED = "Deprecated"


class OperatingSystem(StrEnum):
    """Operating system of the nodes of an image."""

    LINUX = "Linux"
    WINDOWS = "Windows"


class CatalogVersion(ApiModel):
    """A published Kubernetes version."""

    version: KubernetesVersion
    """The full Kubernetes version, such as ``1.31.2``."""
    phase: VersionPhase = VersionPhase.GA
    """Maturity: GA, Preview, or Deprecated. Profiles choose GA only."""
    lts: bool = False
    """Whether it gets long-term support. Absent: false."""


class CatalogImage(ApiModel):
    """A published version of a node image."""

    version: ImageVersion
    """Version of the image, such as ``202503.21.0``."""
    published_at: Time | None = None
    """Time when it was published. Absent: unknown, and its age is not checked."""
    security_patch: bool = False
    """Whether it is a release of security fixes only, which channel SecurityPatch follows. Absent: false."""


class CatalogFamily(ApiModel):
    """The published versions of one family of node images."""

    family: ImageFamily
    """Family of the images, such as ``ubuntu-2204``."""
    os: OperatingSystem = OperatingSystem.LINUX
    """Operating system of the nodes: Linux or Windows. Channel SecurityPatch skips Windows."""
    versions: Annotated[tuple[CatalogImage, ...], Field(json_schema_extra=_by("version"))] = ()
    """Its published versions, in any order. Absent: none."""


class CatalogRegion(ApiModel):
    """Published versions of one region."""

    name: str = Field(min_length=1, max_length=63)
    """Name of the region; ``default`` stands for every region without an entry."""
    kubernetes_versions: tuple[CatalogVersion, ...] | None = Field(default=None, json_schema_extra=_by("version"))
    """Kubernetes versions that are available to members in the region. An empty list: none. Absent: the region is not
    checked for versions."""
    node_images: tuple[CatalogFamily, ...] | None = Field(default=None, json_schema_extra=_by("family"))
    """Node images that are available to members in the region. An empty list: none. Absent: the region is not checked
    for images."""


class VersionCatalogSpec(ApiModel):
    """``spec`` of a catalog. Several catalogs are merged by region."""

    regions: Annotated[tuple[CatalogRegion, ...], Field(json_schema_extra=_by("name"))] = ()
    """Published versions, by region. Absent: unknown."""
    release_notes_url: str = Field(
        default="",
        alias="releaseNotesURL",
        max_length=1024,
        json_schema_extra={"pattern": RELEASE_NOTES_PATTERN},
    )
    """Web page with the releases by region, such as a release tracker. Messages about versions and images that are not
    available in a region of this catalog link to it. Absent: no link."""


class ClusterVersionCatalog(ApiObject):
    """Versions and images that members can be upgraded to."""

    spec: VersionCatalogSpec
    """Versions and images by region. Several catalogs are merged."""
    status: ObservedStatus = Field(default_factory=shared_default(ObservedStatus))
    """Conditions of the catalog, such as whether it is Valid."""
