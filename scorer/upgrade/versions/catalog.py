"""Published versions per region: the catalogs of a hub, merged.

Source: docs/specifications/upgrade-runs.md 3.6.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from scorer.api.upgrade.version_catalog import (
    DEFAULT_REGION,
    CatalogRegion,
    CatalogVersion,
    OperatingSystem,
    VersionCatalogSpec,
)
from scorer.upgrade.versions.comparison import image_order, is_version, parse_version


@dataclass(frozen=True, slots=True)
class Region:
    """Published versions of a region.

    Args:
        kubernetes: Kubernetes versions. None: unlimited, every version is accepted.
        images: Versions of node images by family. None: unlimited, every version is accepted.
        release_notes: Web page about the releases, empty if no catalog of the region has one.
    """

    kubernetes: tuple[CatalogVersion, ...] | None = None
    images: Mapping[str, tuple[str, ...]] | None = None
    release_notes: str = ""

    def offers(self, version: str) -> bool:
        """Return whether a Kubernetes version is available to clusters of the region."""
        if self.kubernetes is None:
            return True
        target = parse_version(version)
        return any(is_version(offer.version) and parse_version(offer.version) == target for offer in self.kubernetes)

    def offers_image(self, family: str, version: str) -> bool:
        """Return whether a node image is available to clusters of the region."""
        return self.images is None or any(
            image_order(offered) == image_order(version) for offered in self.images.get(family, ())
        )


_UNCHECKED: Final = Region()


@dataclass(frozen=True, slots=True)
class ReleaseCatalog:
    """Published versions, by region."""

    regions: Mapping[str, Region] = field(default_factory=dict)
    published: Mapping[tuple[str, str], datetime] = field(default_factory=dict)
    """Publication time of a version of a family of node images, if a catalog has it."""
    security_patches: frozenset[tuple[str, str]] = frozenset()
    """Family and version of the node images of Linux that are security patches."""

    @classmethod
    def of(cls, specs: Iterable[VersionCatalogSpec]) -> "ReleaseCatalog":
        """Merge catalogs by region. A version is published if any of them lists it."""
        regions: dict[str, Region] = {}
        publication_times: dict[tuple[str, str], datetime] = {}
        security_patches: set[tuple[str, str]] = set()
        for spec in specs:
            for region in spec.regions:
                regions[region.name] = _merge(regions.get(region.name, _UNCHECKED), region, spec.release_notes_url)
                publication_times |= _publication_times(region)
                security_patches.update(_security_patches(region))
        return cls(regions, publication_times, frozenset(security_patches))

    def region(self, name: str) -> Region:
        """Return the entry of a region, or else the default entry."""
        return self.regions.get(name) or self.regions.get(DEFAULT_REGION, _UNCHECKED)

    def newest_image(self, region: str, family: str, at: datetime | None = None) -> str | None:
        """Return the newest version of a family in a region, or None if unpublished or unknown.

        Args:
            region: The region.
            family: The family.
            at: Ignore versions published later, as far as the catalog has dates. None: unlimited.
        """
        images = (self.region(region).images or {}).get(family, ())
        if at is None:
            return newest_image(images)
        return newest_image([version for version in images if self.published.get((family, version), at) <= at])


def _publication_times(region: CatalogRegion) -> dict[tuple[str, str], datetime]:
    return {
        (node_image.family, image.version): image.published_at
        for node_image in region.node_images or ()
        for image in node_image.versions
        if image.published_at is not None
    }


def _security_patches(region: CatalogRegion) -> Iterator[tuple[str, str]]:
    for node_image in region.node_images or ():
        if node_image.os is OperatingSystem.LINUX:
            yield from ((node_image.family, image.version) for image in node_image.versions if image.security_patch)


def newest_image(versions: Collection[str]) -> str | None:
    """Return the newest of *versions* of node images, or None if *versions* is empty."""
    return max(versions, key=lambda version: (image_order(version), version), default=None)


def _merge(region: Region, addition: CatalogRegion, release_notes: str) -> Region:
    kubernetes, images = region.kubernetes, region.images
    if addition.kubernetes_versions is not None:
        kubernetes = (*(kubernetes or ()), *addition.kubernetes_versions)
    if addition.node_images is not None:
        merged = dict(images or {})
        for node_image in addition.node_images:
            merged[node_image.family] = (
                *merged.get(node_image.family, ()),
                *(image.version for image in node_image.versions),
            )
        images = merged
    return Region(kubernetes, images, region.release_notes or release_notes)
