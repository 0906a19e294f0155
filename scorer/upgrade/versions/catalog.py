"""What is published where: the catalogs of a hub as one.

Source: upgrade-runs.md 3.6.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from scorer.api.upgrade.version_catalog import (
    DEFAULT_REGION,
    CatalogRegion,
    CatalogVersion,
    VersionCatalogSpec,
)
from scorer.upgrade.versions.comparison import image_order, is_version, parse_version


@dataclass(frozen=True, slots=True)
class Region:
    """What is published in a region.

    Args:
        kubernetes: The Kubernetes versions; None: they are not checked.
        images: The versions of node images by family; None: they are not checked.
    """

    kubernetes: tuple[CatalogVersion, ...] | None = None
    images: Mapping[str, tuple[str, ...]] | None = None

    def offers(self, version: str) -> bool:
        """Say whether clusters of the region can get a Kubernetes version."""
        if self.kubernetes is None:
            return True
        target = parse_version(version)
        return any(is_version(each.version) and parse_version(each.version) == target for each in self.kubernetes)

    def offers_image(self, family: str, version: str) -> bool:
        """Say whether clusters of the region can get a node image."""
        return self.images is None or any(
            image_order(each) == image_order(version) for each in self.images.get(family, ())
        )


_UNCHECKED: Final = Region()


@dataclass(frozen=True, slots=True)
class ReleaseCatalog:
    """What is published, by region."""

    regions: Mapping[str, Region] = field(default_factory=dict)
    published: Mapping[tuple[str, str], datetime] = field(default_factory=dict)
    """When a version of a family of node images was published, where a catalog says so."""

    @classmethod
    def of(cls, specs: Iterable[VersionCatalogSpec]) -> "ReleaseCatalog":
        """Merge catalogs by region: what one of them lists is published."""
        regions: dict[str, Region] = {}
        published: dict[tuple[str, str], datetime] = {}
        for spec in specs:
            for given in spec.regions:
                regions[given.name] = _merged(regions.get(given.name, _UNCHECKED), given)
                published |= _published(given)
        return cls(regions, published)

    def region(self, name: str) -> Region:
        """Return the entry of a region, or the default one in its place."""
        return self.regions.get(name) or self.regions.get(DEFAULT_REGION, _UNCHECKED)

    def newest_image(self, region: str, family: str, at: datetime | None = None) -> str | None:
        """Return the newest version of a family in a region; None: there is none, or nobody knows.

        Args:
            region: The region.
            family: The family.
            at: Leaves out what was published later, as far as the catalog says when that was; None: nothing.
        """
        listed = (self.region(region).images or {}).get(family, ())
        if at is None:
            return newest_image(listed)
        return newest_image([each for each in listed if self.published.get((family, each), at) <= at])


def _published(given: CatalogRegion) -> dict[tuple[str, str], datetime]:
    return {
        (each.family, image.version): image.published_at
        for each in given.node_images or ()
        for image in each.versions
        if image.published_at is not None
    }


def newest_image(versions: Collection[str]) -> str | None:
    """Return the newest version of node images; None: there is none."""
    return max(versions, key=lambda each: (image_order(each), each), default=None)


def _merged(known: Region, given: CatalogRegion) -> Region:
    kubernetes, images = known.kubernetes, known.images
    if given.kubernetes_versions is not None:
        kubernetes = (*(kubernetes or ()), *given.kubernetes_versions)
    if given.node_images is not None:
        merged = dict(images or {})
        for node_image in given.node_images:
            merged[node_image.family] = (
                *merged.get(node_image.family, ()),
                *(image.version for image in node_image.versions),
            )
        images = merged
    return Region(kubernetes, images)
