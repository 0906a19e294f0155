"""What happens to a member whose turn it is: it is skipped, fails, waits, or goes.

The checks are in order, and the first that decides wins. They change nothing, so that a forecast, the readiness of a
gate and the pre-flight report say exactly what the run would do.

Source: upgrade-runs.md 6.1 to 6.5.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import Final

from scorer.api.meta import format_time
from scorer.api.upgrade.fields import UpgradeState, UpgradeType
from scorer.api.upgrade.run import MemberStatus, OnNotReady, OnUnsupportedJump, PlacementGuardMode, ResolvedVersions
from scorer.upgrade.back_end import Capabilities, Inventory, Target
from scorer.upgrade.evaluation import Evaluation
from scorer.upgrade.guard import endangered
from scorer.upgrade.images import ImageTargets, behind
from scorer.upgrade.members import Member
from scorer.upgrade.versions import Version, is_version, parse_version
from scorer.upgrade.window_policy import too_short

REJECTED_RETRY: Final = timedelta(minutes=1)
"""How long a member waits that its back end does not take for the moment."""

_LARGEST_SKEW: Final = 3
_LARGEST_OLD_SKEW: Final = 2
_OLD_KUBELET: Final = (1, 25)
"""Kubelets may be three minor versions behind the API server, and below this version two."""


class Outcome(Enum):
    """What becomes of a member at its turn."""

    SKIP = "skip"
    FAIL = "fail"
    WAIT = "wait"
    GO = "go"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a member at its turn, and why.

    Args:
        outcome: What happens.
        reason: In one word; empty: it goes.
        message: For people.
        opens: When its window opens next; None: no window is closed, or nobody knows.
        again: When a look at it may come to something else, besides that; None: after an event.
        target: What it is to run, if it goes.
    """

    outcome: Outcome
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
    """The checks of one evaluation."""

    def __init__(self, ev: Evaluation, resolved: ResolvedVersions) -> None:
        """Prepare them.

        Args:
            ev: The evaluation.
            resolved: The version and the images that the run has chosen, or would choose now.
        """
        self._ev = ev
        self._version = resolved.kubernetes_version
        self._images = ImageTargets(ev.spec.upgrade, resolved.node_images, ev.facts.catalog)

    def verdict(self, entry: MemberStatus) -> Verdict:
        """Say what would become of a member if it had its turn now."""
        member = self._ev.facts.members.get(entry.name)
        if member is None:
            return Verdict(Outcome.SKIP, "MemberRemoved", f"member {entry.name} has left the fleet")
        inventory = member.inventory
        if inventory is None or not self._is_known(inventory):
            return self._not_ready(member, "nobody knows which versions it runs")
        turn = _Turn(self._ev, entry, member, inventory, self._version, self._images)
        return turn.at_target() or turn.impossible() or turn.not_ready() or turn.waits() or turn.go()

    def _is_known(self, inventory: Inventory) -> bool:
        """Say whether the versions can be compared with the target, where that has one."""
        return not self._version or is_version(inventory.version)

    def _not_ready(self, member: Member, why: str) -> Verdict:
        if member.on_hold:
            return Verdict(Outcome.WAIT, "MemberOnHold", _held(member))
        return not_ready(self._ev.spec.version_policy.on_not_ready, member.name, why)


def not_ready(policy: OnNotReady, member: str, why: str) -> Verdict:
    """Say what becomes of a cluster that is stopped or unreachable."""
    outcome = {OnNotReady.WAIT: Outcome.WAIT, OnNotReady.SKIP: Outcome.SKIP, OnNotReady.FAIL: Outcome.FAIL}[policy]
    return Verdict(outcome, "ClusterNotReady", f"cluster {member} is not ready: {why}")


@dataclass(frozen=True)
class _Turn:
    """One member at its turn."""

    ev: Evaluation
    entry: MemberStatus
    member: Member
    inventory: Inventory
    version: str
    image_targets: ImageTargets

    def at_target(self) -> Verdict | None:
        """Skip a member that runs what it should, or of which a pool cannot get what the others get (6.1)."""
        if (pool := self.image_targets.unfindable(self.member)) is not None:
            message = f"pool {pool.name}: no image of family {pool.family} is common to the regions of this run"
            return Verdict(Outcome.SKIP, "ConsistentImageNotFound", message)
        if self._moves_version or self._moves_image:
            return None
        if self.version and parse_version(self.inventory.version) > parse_version(self.version):
            message = f"runs {self.inventory.version}, which is later than {self.version}"
            return Verdict(Outcome.SKIP, "AheadOfTarget", message)
        return Verdict(Outcome.SKIP, "AlreadyAtTarget", "runs what it should")

    def impossible(self) -> Verdict | None:
        """Fail a member that cannot be brought to the target (6.2, 6.3, 13.1)."""
        able = self._capabilities
        if able is None or not able.supports(self.ev.type):
            message = f"the upgrader {self.member.upgrader} cannot do upgrades of type {self.ev.type}"
            return Verdict(Outcome.FAIL, "UnsupportedByUpgrader", message)
        if self._moves_control_plane and not able.chained_upgrades and (verdict := self._jump()) is not None:
            return verdict
        return self._skew() if self.ev.type is UpgradeType.CONTROL_PLANE_ONLY else None

    def not_ready(self) -> Verdict | None:
        """Skip or fail a cluster that is not ready, where the run says so; waiting for it is one cause of several."""
        policy = self.ev.spec.version_policy.on_not_ready
        if self.inventory.ready or self.member.on_hold or policy is OnNotReady.WAIT:
            return None
        return not_ready(policy, self.member.name, "its upgrader says so")

    def waits(self) -> Verdict | None:
        """Let a member wait as long as there is a cause; the first names the reason, the message has all (6.5)."""
        causes = [cause for check in self._causes for cause in check()]
        if not causes:
            return None
        return Verdict(
            Outcome.WAIT,
            causes[0].reason,
            "; ".join(cause.message for cause in causes),
            opens=next((cause.opens for cause in causes if cause.opens is not None), None),
            again=min((cause.again for cause in causes if cause.again is not None), default=None),
        )

    def go(self) -> Verdict:
        """Let a member go."""
        return Verdict(Outcome.GO, target=Target(self.ev.type, self.version, self._images))

    @property
    def _capabilities(self) -> Capabilities | None:
        return self.ev.facts.upgraders.get(self.member.upgrader)

    @property
    def _images(self) -> Mapping[str, str]:
        return self.image_targets.of(self.member)

    @property
    def _moves_control_plane(self) -> bool:
        return bool(self.version) and parse_version(self.inventory.version) < parse_version(self.version)

    @property
    def _moves_version(self) -> bool:
        if self._moves_control_plane:
            return True
        return self.ev.type is UpgradeType.FULL and any(
            version < parse_version(self.version) for version in self._pool_versions()
        )

    @property
    def _moves_image(self) -> bool:
        return next(behind(self.inventory, self._images), None) is not None

    def _pool_versions(self) -> Iterator[Version]:
        return (parse_version(pool.version) for pool in self.inventory.pools if is_version(pool.version))

    def _jump(self) -> Verdict | None:
        now, then = parse_version(self.inventory.version), parse_version(self.version)
        if now.major == then.major and then.minor - now.minor <= 1:
            return None
        message = f"runs {self.inventory.version}: an upgrade to {self.version} would leave out minor versions"
        skips = self.ev.spec.version_policy.on_unsupported_jump is OnUnsupportedJump.SKIP
        return Verdict(Outcome.SKIP if skips else Outcome.FAIL, "UnsupportedVersionJump", message)

    def _skew(self) -> Verdict | None:
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
        return Verdict(Outcome.FAIL, "VersionSkewViolation", message)

    @property
    def _causes(self) -> tuple[Callable[[], Iterator[_Cause]], ...]:
        return self._hold, self._unready, self._busy, self._no_version, self._no_image, self._window, self._guard

    def _hold(self) -> Iterator[_Cause]:
        if self.member.on_hold:
            yield _Cause("MemberOnHold", _held(self.member))

    def _unready(self) -> Iterator[_Cause]:
        if not self.inventory.ready:
            yield _Cause("ClusterNotReady", f"cluster {self.member.name} is not ready: its upgrader says so")

    def _busy(self) -> Iterator[_Cause]:
        if other := self.ev.facts.busy.get(self.member.name):
            yield _Cause("ClusterBusy", f"run {other} is upgrading it")
        elif self.inventory.busy:
            yield _Cause("ClusterBusy", f"another operation is running on it: {self.inventory.busy}")
        elif self._is_still_at_work():
            message = f"its upgrade {self.entry.operation_id} has not come to an end yet"
            yield _Cause("ClusterBusy", message)
        elif (again := self._refused_until()) is not None:
            message = f"its upgrader has refused it for now; it is asked again at {format_time(again)}"
            yield _Cause("ClusterBusy", message, again=again)

    def _is_still_at_work(self) -> bool:
        """Say whether an attempt that was given up may still be changing the cluster (10.4)."""
        if self.entry.state is UpgradeState.RUNNING:
            return False
        found = self.ev.facts.observations.get(self.entry.operation_id)
        return found is not None and found.in_flight

    def _refused_until(self) -> datetime | None:
        """Return when a back end is asked again that has refused a member for the time being."""
        entry = self.entry
        if not entry.attempt or entry.operation_id or entry.completion_time is None:
            return None
        again = entry.completion_time + REJECTED_RETRY
        return again if again > self.ev.now else None

    def _no_version(self) -> Iterator[_Cause]:
        region = self.member.region
        if self._moves_version and not self.ev.facts.catalog.region(region).offers(self.version):
            message = f"version {self.version} is not available in region {region}"
            yield _Cause("KubernetesVersionNotAvailable", message)

    def _no_image(self) -> Iterator[_Cause]:
        region, images = self.ev.facts.catalog.region(self.member.region), self._images
        for family in dict.fromkeys(pool.family for pool in behind(self.inventory, images)):
            if not region.offers_image(family, images[family]):
                message = f"image {images[family]} of family {family} is not available in region {self.member.region}"
                yield _Cause("NodeImageVersionNotAvailable", message)
                return

    def _window(self) -> Iterator[_Cause]:
        if (closed := self.ev.tiers.closed(self.member) or too_short(self.ev, self.member)) is not None:
            yield _Cause("MaintenanceWindowClosed", closed.message, opens=closed.opens)

    def _guard(self) -> Iterator[_Cause]:
        if self.ev.spec.placement_guard.mode is not PlacementGuardMode.ENFORCE:
            return
        name = self.member.name
        guarded = self.ev.facts.guarded.get(name, ())
        if guarded and (placement := endangered(name, guarded, upgrading(self.ev))) is not None:
            message = f"placement {placement.name} may have at most {placement.allowed} clusters in upgrade at once"
            yield _Cause("PlacementGuard", message)


def upgrading(ev: Evaluation) -> set[str]:
    """Return the members that this run, or another one, upgrades now."""
    return {entry.name for _, _, entry in ev.record.running()} | set(ev.facts.busy)


def _held(member: Member) -> str:
    return f"member {member.name} is on hold"
