"""Image targets of the pools of a member.

Source: docs/specifications/upgrade-runs.md 6.4.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from scorer.api.upgrade.fields import NodeImageSelection, NodeImageVersion, UpgradeType
from scorer.api.upgrade.run import Upgrade
from scorer.upgrade.back_ends.interface import Inventory, Pool
from scorer.upgrade.members.member import Member
from scorer.upgrade.versions.catalog import Region, ReleaseCatalog, newest_image
from scorer.upgrade.versions.comparison import image_order

UNLISTED: Final = "any"
"""Recorded as the common version of a family that no region of the run lists. Its pools count as up to date."""


def selection_of(upgrade: Upgrade) -> NodeImageSelection | None:
    """Return how the images of an upgrade are selected. None: disabled, it does not change images."""
    if upgrade.type is UpgradeType.CONTROL_PLANE_ONLY:
        return None
    return NodeImageSelection.LATEST if upgrade.node_image is None else upgrade.node_image.selection


def chosen_images(upgrade: Upgrade, members: Iterable[Member], catalog: ReleaseCatalog) -> tuple[NodeImageVersion, ...]:
    """Return the images that a run pins for its lifetime, empty unless its selection is Custom or Consistent.

    Args:
        upgrade: The goal.
        members: Members of the run that are not skipped.
        catalog: Published versions.
    """
    match selection_of(upgrade):
        case NodeImageSelection.CUSTOM if upgrade.node_image is not None:
            return upgrade.node_image.custom_versions
        case NodeImageSelection.CONSISTENT:
            return tuple(_common_images(members, catalog))
        case _:
            return ()


def _common_images(members: Iterable[Member], catalog: ReleaseCatalog) -> Iterator[NodeImageVersion]:
    """Yield the newest version of each family that is common to all regions. Families without one are omitted."""
    regions: dict[str, set[str]] = {}
    for member in members:
        for pool in pools_of(member):
            regions.setdefault(pool.family, set()).add(member.region)
    for family, names in sorted(regions.items()):
        lists = [
            versions for name in sorted(names) if (versions := _versions(catalog.region(name), family)) is not None
        ]
        version = UNLISTED if not lists else newest_image(_common(lists))
        if family and version is not None:
            yield NodeImageVersion(family=family, version=version)


def _versions(region: Region, family: str) -> tuple[str, ...] | None:
    return None if region.images is None else region.images.get(family, ())


def _common(lists: Sequence[tuple[str, ...]]) -> list[str]:
    other_orders = [{image_order(version) for version in versions} for versions in lists[1:]]
    return [version for version in lists[0] if all(image_order(version) in orders for orders in other_orders)]


class ImageTargets:
    """The image targets of a run."""

    __slots__ = ("_catalog", "_chosen", "_newest", "_selection")

    def __init__(self, upgrade: Upgrade, images: Iterable[NodeImageVersion], catalog: ReleaseCatalog) -> None:
        self._selection = selection_of(upgrade)
        self._chosen = {image.family: image.version for image in images}
        self._catalog = catalog
        self._newest: dict[tuple[str, str], str | None] = {}

    def unfindable(self, member: Member) -> Pool | None:
        """Return a pool of a family without a common image, or None."""
        if self._selection is not NodeImageSelection.CONSISTENT:
            return None
        return next((pool for pool in pools_of(member) if pool.family and pool.family not in self._chosen), None)

    def of(self, member: Member, at: datetime | None = None) -> Mapping[str, str]:
        """Return the image target of each family among a member's pools, if any.

        Args:
            member: The member.
            at: Publication cutoff of the newest images, as far as dates are known. None: unlimited.
        """
        if self._selection is None:
            return {}
        targets = {pool.family: self._target(member, pool.family, at) for pool in pools_of(member)}
        return {family: version for family, version in targets.items() if version is not None}

    def outdated_targets(self, member: Member) -> Mapping[str, str]:
        """Return the targets of the families with an outdated pool.

        Only these are requested from back ends, because nothing is ever downgraded. In a family with both outdated and
        newer pools, the back end must not change the newer ones.
        """
        return outdated_families(member.inventory, self.of(member)) if member.inventory is not None else {}

    def _target(self, member: Member, family: str, at: datetime | None) -> str | None:
        if self._selection is NodeImageSelection.LATEST:
            if at is None:
                return self._newest_image(member.region, family)
            return self._catalog.newest_image(member.region, family, at)
        version = self._chosen.get(family)
        return None if version == UNLISTED else version

    def _newest_image(self, region: str, family: str) -> str | None:
        """Return the newest image of a family, cached per region. None if unpublished or unknown."""
        place = (region, family)
        if place not in self._newest:
            self._newest[place] = self._catalog.newest_image(region, family)
        return self._newest[place]


def outdated_pools(inventory: Inventory, images: Mapping[str, str]) -> Iterator[Pool]:
    """Yield the pools whose image is older than its target."""
    for pool in inventory.pools:
        target = images.get(pool.family)
        if target is not None and image_order(pool.image) < image_order(target):
            yield pool


def outdated_families(inventory: Inventory, images: Mapping[str, str]) -> Mapping[str, str]:
    """Return the image targets of the families with an outdated pool."""
    return {pool.family: images[pool.family] for pool in outdated_pools(inventory, images)}


def pools_of(member: Member) -> tuple[Pool, ...]:
    """Return the pools of a member, empty if unknown."""
    return member.inventory.pools if member.inventory is not None else ()
