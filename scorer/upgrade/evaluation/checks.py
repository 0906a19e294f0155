"""Outcome for a member at its turn: skip, fail, wait or go.

The checks are ordered, and the first that decides wins. They have no side effects, so that a forecast, the readiness of
a gate and the preflight report match the run exactly.

Source: docs/specifications/upgrade-runs.md 6.1 to 6.5.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import Final

from scorer.api.meta import format_time
from scorer.api.upgrade.fields import UpgradeType
from scorer.api.upgrade.run import MemberStatus, OnNotReady, OnUnsupportedJump, PlacementGuardMode, ResolvedVersions
from scorer.api.values.quoting import format_count
from scorer.upgrade.back_ends.interface import Inventory, Target
from scorer.upgrade.evaluation.context import Evaluation
from scorer.upgrade.evaluation.window_policy import too_short
from scorer.upgrade.members.member import Member, pause_message
from scorer.upgrade.state.operations import still_open
from scorer.upgrade.state.placement_guard import endangered_placement
from scorer.upgrade.versions.catalog import Region
from scorer.upgrade.versions.comparison import Version, is_version, parse_version
from scorer.upgrade.versions.images import ImageTargets, outdated_families, outdated_pools

REJECTED_RETRY: Final = timedelta(minutes=1)
"""Backoff after a retryable refusal by a back end."""

_ASKED_AGAIN: Final = ". Next attempt at "
_LARGEST_SKEW: Final = 3
_LARGEST_OLD_SKEW: Final = 2
_OLD_KUBELET: Final = (1, 25)
"""Kubelets may be three minor versions behind the API server, or two if older than this version."""


class StartOutcome(Enum):
    """Outcome for a member at its turn."""

    SKIP = "skip"
    FAIL = "fail"
    WAIT = "wait"
    GO = "go"


@dataclass(frozen=True, slots=True)
class StartVerdict:
    """Outcome for a member at its turn, with the reason.

    Args:
        outcome: The outcome.
        reason: Machine-readable word, empty for GO.
        message: Human-readable message.
        opens: Next opening of its windows. None: unknown, or no window is closed.
        again: Earliest other time at which a check may have another result. None: unknown, only an event changes it.
        target: Versions that it is upgraded to, for GO.
    """

    outcome: StartOutcome
    reason: str = ""
    message: str = ""
    opens: datetime | None = None
    again: datetime | None = None
    target: Target = field(default_factory=lambda: Target(UpgradeType.FULL))


@dataclass(frozen=True, slots=True)
class _Cause:
    """One reason to wait."""

    reason: str
    message: str
    opens: datetime | None = None
    again: datetime | None = None


class Checks:
    """All checks of one evaluation."""

    def __init__(self, ev: Evaluation, versions: ResolvedVersions) -> None:
        """Prepare the checks.

        Args:
            ev: The evaluation.
            versions: Version and images that the run has chosen, or would choose now.
        """
        self._ev = ev
        self._version = versions.kubernetes_version
        self._image_targets = ImageTargets(ev.spec.upgrade, versions.node_images, ev.facts.catalog)

    def verdict(self, entry: MemberStatus) -> StartVerdict:
        """Return the verdict for a member if it had its turn now."""
        member = self._ev.facts.members.get(entry.name)
        if member is None:
            return StartVerdict(StartOutcome.SKIP, "MemberRemoved", f"member {entry.name} has left the fleet")
        inventory = member.inventory
        if inventory is None or not self._is_inventory_known(inventory):
            return unsupported(self._ev, member) or self._not_ready(member, "its versions are unknown")
        turn = _Turn(self._ev, entry, member, inventory, self._version, self._image_targets)
        return turn.at_target() or turn.impossible() or turn.not_ready() or turn.waits() or turn.go()

    def _is_inventory_known(self, inventory: Inventory) -> bool:
        """Return whether the versions are comparable with the target version, if there is one."""
        return not self._version or is_version(inventory.version)

    def _not_ready(self, member: Member, message: str) -> StartVerdict:
        if member.upgrades_paused:
            return StartVerdict(StartOutcome.WAIT, "MemberOnHold", pause_message(member))
        return not_ready(self._ev.spec.version_policy.on_not_ready, member.name, message)


def _release_notes(region: Region) -> str:
    """Return the link to the releases of a region, as the end of a message. Empty without one."""
    return f". Releases by region: {region.release_notes}" if region.release_notes else ""


def not_ready(policy: OnNotReady, member: str, message: str) -> StartVerdict:
    """Return the verdict that the policy requires for a cluster that is not ready."""
    outcome = {
        OnNotReady.WAIT: StartOutcome.WAIT,
        OnNotReady.SKIP: StartOutcome.SKIP,
        OnNotReady.FAIL: StartOutcome.FAIL,
    }[policy]
    return StartVerdict(outcome, "ClusterNotReady", f"cluster {member} is not ready: {message}")


def unsupported(ev: Evaluation, member: Member) -> StartVerdict | None:
    """Return the failure of a member whose back end is missing or does not support the upgrade, or None."""
    able = ev.facts.upgraders.get(member.upgrader)
    if able is None:
        return StartVerdict(StartOutcome.FAIL, "UnsupportedByUpgrader", f"there is no upgrader {member.upgrader}")
    if not able.supports(ev.type):
        message = f"the upgrader {member.upgrader} does not support upgrades of type {ev.type}"
        return StartVerdict(StartOutcome.FAIL, "UnsupportedByUpgrader", message)
    return None


class _Turn:
    """One member at its turn."""

    __slots__ = (
        "entry",
        "ev",
        "image_targets",
        "images",
        "inventory",
        "member",
        "moves_control_plane",
        "moves_version",
        "version",
    )

    def __init__(
        self,
        ev: Evaluation,
        entry: MemberStatus,
        member: Member,
        inventory: Inventory,
        version: str,
        image_targets: ImageTargets,
    ) -> None:
        self.ev = ev
        self.entry = entry
        self.member = member
        self.inventory = inventory
        self.version = version
        self.image_targets = image_targets
        self.images = image_targets.of(member)
        self.moves_control_plane = bool(version) and parse_version(inventory.version) < parse_version(version)
        self.moves_version = self.moves_control_plane or self._moves_pool()

    def _moves_pool(self) -> bool:
        """Return whether a pool must be upgraded. A pool of unknown version counts as outdated.

        A member whose back end never reports pool versions is therefore upgraded by every run. Such an upgrade usually
        changes nothing, but a skipped member could keep old nodes unnoticed.
        """
        if self.ev.type is not UpgradeType.FULL:
            return False
        target = parse_version(self.version)
        pools = self.inventory.pools
        return any(not is_version(pool.version) or parse_version(pool.version) < target for pool in pools)

    def at_target(self) -> StartVerdict | None:
        """Return SKIP for a member that is up to date, or has a pool without a common image, or None (6.1)."""
        if (pool := self.image_targets.unfindable(self.member)) is not None:
            message = f"pool {pool.name}: no image of family {pool.family} is common to the regions of this run"
            return StartVerdict(StartOutcome.SKIP, "ConsistentImageNotFound", message)
        if self.moves_version or next(outdated_pools(self.inventory, self.images), None) is not None:
            return None
        if self.version and parse_version(self.inventory.version) > parse_version(self.version):
            message = f"runs {self.inventory.version}, which is later than {self.version}"
            return StartVerdict(StartOutcome.SKIP, "AheadOfTarget", message)
        return StartVerdict(StartOutcome.SKIP, "AlreadyAtTarget", "runs the target versions")

    def impossible(self) -> StartVerdict | None:
        """Return FAIL for a member that cannot be upgraded to the target, or None (6.2, 6.3, 13.1).

        For an unsupported version jump, it is SKIP if the policy requires that.
        """
        if (verdict := unsupported(self.ev, self.member)) is not None:
            return verdict
        is_chained = self.inventory.chained or self.ev.facts.upgraders[self.member.upgrader].chained_upgrades
        if self.moves_control_plane and not is_chained and (verdict := self._jump()) is not None:
            return verdict
        return self._skew() if self.ev.type is UpgradeType.CONTROL_PLANE_ONLY else None

    def not_ready(self) -> StartVerdict | None:
        """Return SKIP or FAIL for a cluster that is not ready, if the policy requires it, or None.

        The policy ``Wait`` is one of the causes in `waits`.
        """
        policy = self.ev.spec.version_policy.on_not_ready
        if self.inventory.ready or self.member.upgrades_paused or policy is OnNotReady.WAIT:
            return None
        return not_ready(policy, self.member.name, "reported by its upgrader")

    def waits(self) -> StartVerdict | None:
        """Return WAIT if there is any cause, or None.

        The first cause is the reason, and the message lists all of them (6.5).
        """
        causes = [cause for check in _CAUSES if (cause := check(self)) is not None]
        if not causes:
            return None
        return StartVerdict(
            StartOutcome.WAIT,
            causes[0].reason,
            "; ".join(cause.message for cause in causes),
            opens=next((cause.opens for cause in causes if cause.opens is not None), None),
            again=min((cause.again for cause in causes if cause.again is not None), default=None),
        )

    def go(self) -> StartVerdict:
        """Return the verdict GO with the target."""
        return StartVerdict(
            StartOutcome.GO, target=Target(self.ev.type, self.version, outdated_families(self.inventory, self.images))
        )

    def _pool_versions(self) -> Iterator[Version]:
        return (parse_version(pool.version) for pool in self.inventory.pools if is_version(pool.version))

    def _jump(self) -> StartVerdict | None:
        now, target = parse_version(self.inventory.version), parse_version(self.version)
        if now.major == target.major and target.minor - now.minor <= 1:
            return None
        message = f"runs {self.inventory.version}: an upgrade to {self.version} would skip minor versions"
        skips = self.ev.spec.version_policy.on_unsupported_jump is OnUnsupportedJump.SKIP
        return StartVerdict(StartOutcome.SKIP if skips else StartOutcome.FAIL, "UnsupportedVersionJump", message)

    def _skew(self) -> StartVerdict | None:
        oldest = min(self._pool_versions(), default=None)
        if oldest is None:
            return None
        largest = _LARGEST_OLD_SKEW if oldest.line < _OLD_KUBELET else _LARGEST_SKEW
        if parse_version(self.version).minor - oldest.minor <= largest:
            return None
        message = (
            f"has nodes with version {oldest.major}.{oldest.minor}.{oldest.patch}, which may be at most {largest} minor"
            f" versions behind a control plane with {self.version}"
        )
        return StartVerdict(StartOutcome.FAIL, "VersionSkewViolation", message)

    def held(self) -> _Cause | None:
        """Return a cause while the member's upgrades are paused, or None."""
        return _Cause("MemberOnHold", pause_message(self.member)) if self.member.upgrades_paused else None

    def unready(self) -> _Cause | None:
        """Return a cause while the cluster is stopped or unreachable, or None."""
        if self.inventory.ready:
            return None
        return _Cause("ClusterNotReady", f"cluster {self.member.name} is not ready according to its upgrader")

    def busy(self) -> _Cause | None:
        """Return a cause while another operation is in progress on the cluster, or None."""
        if other := self.ev.facts.busy.get(self.member.name):
            return _Cause("ClusterBusy", other)
        if hold := self.ev.facts.held.get(self.member.name):
            return _Cause("ClusterBusy", hold)
        if self.inventory.busy:
            return _Cause("ClusterBusy", f"another operation is in progress on the cluster: {self.inventory.busy}")
        if not self.entry.attempt:
            return None
        if self.entry.operation_open:
            return _Cause("ClusterBusy", still_open(self.ev.run.metadata.name, self.entry))
        if (retry_at := self._refused_until()) is not None:
            refusal = self.entry.message.partition(_ASKED_AGAIN)[0] if self.entry.reason == "ClusterBusy" else ""
            message = f"{refusal or 'its upgrader has refused it for now'}{_ASKED_AGAIN}{format_time(retry_at)}"
            return _Cause("ClusterBusy", message, again=retry_at)
        return None

    def _refused_until(self) -> datetime | None:
        """Return the end of the backoff after a retryable refusal, or None if it has passed or there was no refusal."""
        if self.entry.operation_id or self.entry.completion_time is None:
            return None
        retry_at = self.entry.completion_time + REJECTED_RETRY
        return retry_at if retry_at > self.ev.now else None

    def no_version(self) -> _Cause | None:
        """Return a cause while the version is not published in the region, or None."""
        region = self.ev.facts.catalog.region(self.member.region)
        if not self.moves_version or region.offers(self.version):
            return None
        message = f"version {self.version} is not available in region {self.member.region}"
        return _Cause("KubernetesVersionNotAvailable", message + _release_notes(region))

    def no_image(self) -> _Cause | None:
        """Return a cause while an image is not published in the region, or None."""
        region, images = self.ev.facts.catalog.region(self.member.region), self.images
        for pool in outdated_pools(self.inventory, images):
            family, image = pool.family, images[pool.family]
            if not region.offers_image(family, image):
                message = f"image {image} of family {family} is not available in region {self.member.region}"
                return _Cause("NodeImageVersionNotAvailable", message + _release_notes(region))
        return None

    def closed(self) -> _Cause | None:
        """Return a cause while all windows are closed, or too little time is left in them, or None."""
        closed = self.ev.tiers.closed(self.member) or too_short(self.ev, self.member)
        return None if closed is None else _Cause("MaintenanceWindowClosed", closed.message, opens=closed.opens)

    def endangers(self) -> _Cause | None:
        """Return a cause while too few clusters of a placement would remain, or None."""
        if self.ev.spec.placement_guard.mode is not PlacementGuardMode.ENFORCE:
            return None
        name = self.member.name
        placements = self.ev.facts.guarded.get(name, ())
        placement = endangered_placement(name, placements, self.ev.upgrading) if placements else None
        if placement is None:
            return None
        allowed = format_count(placement.allowed, "cluster")
        message = f"placement {placement.full_name} allows at most {allowed} to be upgraded concurrently"
        return _Cause("PlacementGuard", message)


_CAUSES: Final[tuple[Callable[[_Turn], _Cause | None], ...]] = (
    *(_Turn.held, _Turn.unready, _Turn.busy, _Turn.no_version, _Turn.no_image),
    *(_Turn.closed, _Turn.endangers),
)
"""Reasons to wait, by precedence (6.5)."""
