"""Resolution of the version and the common images of a run, at its first start.

Source: docs/specifications/upgrade-runs.md 5 and 6.4.
"""

from collections.abc import Collection, Sequence

from scorer.api.upgrade.fields import UpgradeState
from scorer.api.upgrade.run import ResolvedVersions
from scorer.api.upgrade.version_catalog import VersionPhase
from scorer.upgrade.evaluation.context import Evaluation
from scorer.upgrade.members.member import Member
from scorer.upgrade.messages import format_names
from scorer.upgrade.versions.comparison import Version, is_alias, is_version, parse_version
from scorer.upgrade.versions.images import chosen_images


class NotResolvableError(Exception):
    """The version of a run cannot be determined. The message has the reason."""


def choose(ev: Evaluation) -> ResolvedVersions:
    """Return the version and the images of a run as they would be chosen now.

    Raises:
        NotResolvableError: The requested version is invalid, or no known patch of the minor version is available to all
            members.
    """
    skipped = {entry.name for _, _, entry in ev.record.entries() if entry.state is UpgradeState.SKIPPED}
    members = [
        ev.facts.members[name] for _, _, entry in ev.record.entries() if (name := entry.name) in ev.facts.members
    ]
    images = chosen_images(
        ev.spec.upgrade, [member for member in members if member.name not in skipped], ev.facts.catalog
    )
    return ResolvedVersions(kubernetes_version=_version(ev, members), node_images=images)


def _version(ev: Evaluation, members: Sequence[Member]) -> str:
    target = (ev.spec.upgrade.kubernetes_version or "").removeprefix("v")
    if not target:
        return ""
    if not is_version(target):
        raise NotResolvableError(f"spec.upgrade.kubernetesVersion: {target[:64]!r} is not a version such as 1.31.2")
    return _newest_patch(ev, members, target) if is_alias(target) else target


def _newest_patch(ev: Evaluation, members: Sequence[Member], minor: str) -> str:
    """Return the newest patch of a minor version that is available in every region of the members.

    If no catalog restricts these regions, it is the newest patch that back ends know.

    Raises:
        NotResolvableError: There is no such patch.
    """
    line = parse_version(minor).line
    regions = {member.region: ev.facts.catalog.region(member.region) for member in members}
    lists = [
        {
            parse_version(release.version)
            for release in region.kubernetes
            if _is_patch(release.version, release.phase, line)
        }
        for region in regions.values()
        if region.kubernetes is not None
    ]
    if not lists:
        if newest := ev.facts.newest_patches.get(minor, ""):
            return newest
        raise NotResolvableError(
            f"spec.upgrade.kubernetesVersion: no ClusterVersionCatalog lists the patches of {minor}: name a "
            f"patch, such as {minor}.0, or list the versions of {_regions(regions)} in a catalog"
        )
    if not (common := set.intersection(*lists)):
        raise NotResolvableError(f"no patch of {minor} is available in all of {_regions(regions)}")
    return _text(ev, max(common))


def _regions(names: Collection[str]) -> str:
    """Return the regions of members for messages. A run without members has no regions."""
    return f"the regions {format_names(sorted(names))}" if names else "its members' regions"


def _is_patch(version: str, phase: VersionPhase, line: tuple[int, int]) -> bool:
    return phase is not VersionPhase.PREVIEW and is_version(version) and parse_version(version).line == line


def _text(ev: Evaluation, version: Version) -> str:
    """Return a version as spelled in the catalog."""
    return next(
        release.version.removeprefix("v")
        for region in ev.facts.catalog.regions.values()
        for release in region.kubernetes or ()
        if is_version(release.version) and parse_version(release.version) == version
    )
