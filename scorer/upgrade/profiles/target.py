"""Target version of an auto-upgrade profile, and the run that upgrades to it.

Only released versions count, from all regions together.

Source: docs/specifications/upgrade-runs.md 12.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import Final

import orjson

from scorer.api.meta import JsonObject
from scorer.api.upgrade.fields import LONGEST_NAME, NodeImageSelection, UpgradeType
from scorer.api.upgrade.profile import Channel, ClusterUpgradeProfile, UpgradeProfileSpec
from scorer.api.upgrade.run import OnUnsupportedJump, UpgradeRunState
from scorer.api.upgrade.version_catalog import CatalogVersion, VersionPhase
from scorer.upgrade.versions.catalog import ReleaseCatalog, newest_image
from scorer.upgrade.versions.comparison import is_version, parse_version

SUPPORTED_MINORS: Final = 3
"""Number of minor versions without long-term support: the newest and the two before it."""
_HASH_DIGITS: Final = 8

Line = tuple[int, int]
"""Major and minor version."""


class TargetErrorCode(StrEnum):
    """Reason why a profile has no target or no run. RUN_NAME_TAKEN: another profile's run has its name."""

    NOT_RELEASED = "TargetVersionNotReleased"
    LONG_TERM_SUPPORT_REQUIRED = "LongTermSupportRequired"
    RUN_NAME_TAKEN = "RunNameTaken"


class NoTargetError(Exception):
    """A profile has no target.

    Args:
        code: Machine-readable reason.
        message: Human-readable reason.
    """

    def __init__(self, code: TargetErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class ProfileTarget:
    """Versions that a profile upgrades its members to.

    Args:
        type: Parts of the cluster that change.
        kubernetes_version: Target version, empty to keep the present versions.
        selection: Rule for choosing node images.
        images: Image per family, if images are the trigger. A different image triggers another run.
    """

    type: UpgradeType
    kubernetes_version: str
    selection: NodeImageSelection
    images: Mapping[str, str] = field(default_factory=dict)


def target_of(spec: UpgradeProfileSpec, catalog: ReleaseCatalog) -> ProfileTarget:
    """Return the current target of a profile.

    Raises:
        NoTargetError: No released version fits, or the target is invalid or needs long-term support.
    """
    if spec.channel is Channel.NODE_IMAGE:
        images = dict(sorted(_newest_images(catalog).items()))
        return ProfileTarget(UpgradeType.NODE_IMAGE_ONLY, "", NodeImageSelection.CONSISTENT, images)
    if spec.channel is Channel.SECURITY_PATCH:
        images = dict(sorted(_common_security_patches(catalog).items()))
        return ProfileTarget(UpgradeType.NODE_IMAGE_ONLY, "", NodeImageSelection.CUSTOM, images)
    releases = list(_released_versions(catalog))
    if not releases:
        raise NoTargetError(TargetErrorCode.NOT_RELEASED, "no Kubernetes version is released in any catalog")
    newest = max(parse_version(version.version).line for version in releases)
    target = _line(spec, newest, releases)
    image_selection = None if spec.node_image is None else spec.node_image.selection
    selection = NodeImageSelection.LATEST if image_selection is None else NodeImageSelection(image_selection.value)
    return ProfileTarget(UpgradeType.FULL, _newest_patch(releases, target), selection)


def _line(spec: UpgradeProfileSpec, newest: Line, releases: Sequence[CatalogVersion]) -> Line:
    if spec.channel is Channel.RAPID:
        return newest
    if spec.channel is Channel.STABLE:
        return newest[0], newest[1] - 1
    if not is_version(spec.target_kubernetes_version):
        message = f"spec.targetKubernetesVersion: {spec.target_kubernetes_version[:64]!r} is not a version such as 1.31"
        raise NoTargetError(TargetErrorCode.NOT_RELEASED, message)
    target = parse_version(spec.target_kubernetes_version).line
    patches = [version for version in releases if parse_version(version.version).line == target]
    old = target[0] < newest[0] or newest[1] - target[1] >= SUPPORTED_MINORS
    if patches and old and not (spec.long_term_support and any(patch.lts for patch in patches)):
        message = (
            f"{_line_text(target)} is too old without long-term support. The newest version is {_line_text(newest)}"
        )
        raise NoTargetError(TargetErrorCode.LONG_TERM_SUPPORT_REQUIRED, message)
    return target


def _newest_patch(releases: Sequence[CatalogVersion], line: Line) -> str:
    patches = [version.version for version in releases if parse_version(version.version).line == line]
    if not patches:
        raise NoTargetError(TargetErrorCode.NOT_RELEASED, f"no version {_line_text(line)} is released")
    return max(patches, key=parse_version).removeprefix("v")


def _released_versions(catalog: ReleaseCatalog) -> Iterator[CatalogVersion]:
    for region in catalog.regions.values():
        for release in region.kubernetes or ():
            if release.phase is VersionPhase.GA and is_version(release.version):
                yield release


def _common_security_patches(catalog: ReleaseCatalog) -> dict[str, str]:
    """Return, by Linux family, the newest security patch that all regions with the family have, if any."""
    patches: dict[str, set[str]] = {}
    for family, version in catalog.security_patches:
        patches.setdefault(family, set()).add(version)
    for region in catalog.regions.values():
        for family, versions in (region.images or {}).items():
            if family in patches:
                patches[family].intersection_update(versions)
    return {family: newest for family, versions in patches.items() if (newest := newest_image(versions)) is not None}


def _newest_images(catalog: ReleaseCatalog) -> dict[str, str]:
    versions: dict[str, list[str]] = {}
    for region in catalog.regions.values():
        for family, versions_by_image in (region.images or {}).items():
            versions.setdefault(family, []).extend(versions_by_image)
    return {
        family: newest
        for family, family_versions in versions.items()
        if (newest := newest_image(family_versions)) is not None
    }


def _line_text(line: Line) -> str:
    return f"{line[0]}.{line[1]}"


def run_name(profile: str, channel: Channel, target: ProfileTarget) -> str:
    """Return the name of the run for a target. The same target always has the same name.

    The hash normally covers only the target and the selection of images (upgrade-runs.md 12). If the name must be
    truncated, it also covers the full name of the profile. Otherwise two profiles with the same prefix would share a
    run, and the members of the second one would never be upgraded.
    """
    parts = ["auto", profile, channel.value.lower()]
    if target.kubernetes_version:
        parts.append(target.kubernetes_version.replace(".", "-").replace("+", "-").lower())
    whole, room = "-".join(parts), LONGEST_NAME - _HASH_DIGITS - 1
    target_parts: list[object] = [target.type, target.kubernetes_version, target.selection, dict(target.images)]
    if len(whole) > room:
        target_parts.append(profile)
    digest = sha256(orjson.dumps(target_parts, option=orjson.OPT_SORT_KEYS)).hexdigest()[:_HASH_DIGITS]
    return f"{whole[:room].rstrip('-')}-{digest}"


def run_of(profile: ClusterUpgradeProfile, target: ProfileTarget, *, start: bool) -> JsonObject:
    """Return the run that upgrades a profile's members to its target.

    Args:
        profile: The profile.
        target: Target of the run.
        start: Whether the run starts immediately. Otherwise it is only initialized.
    """
    spec = profile.spec
    upgrade: JsonObject = {"type": target.type.value, "nodeImage": {"selection": target.selection.value}}
    if target.selection is NodeImageSelection.CUSTOM:
        custom = [{"family": family, "version": version} for family, version in target.images.items()]
        upgrade["nodeImage"]["customVersions"] = custom
    if target.kubernetes_version:
        upgrade["kubernetesVersion"] = target.kubernetes_version
    run_spec: JsonObject = {
        "state": (UpgradeRunState.RUN if start else UpgradeRunState.INITIALIZE).value,
        "upgrade": upgrade,
        "versionPolicy": {"onUnsupportedJump": OnUnsupportedJump.SKIP.value},
    }
    if spec.strategy_ref is not None:
        run_spec["strategyRef"] = {"name": spec.strategy_ref.name}
    if spec.member_selector is not None:
        selector = spec.member_selector.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        run_spec["memberSelector"] = selector
    return {
        "apiVersion": "upgrade.harbormaster.dev/v1alpha1",
        "kind": "ClusterUpgradeRun",
        "metadata": {"name": run_name(profile.metadata.name, spec.channel, target)},
        "spec": run_spec,
    }
