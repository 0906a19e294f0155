"""Upgrade runs: scenarios on a moved clock, maintenance windows, and what a profile triggers.

``evaluate(kind, given)`` translates, and the engine answers. Times are durations since the beginning.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from scorer.api.conditions import FALSE, find_condition
from scorer.api.meta import format_time, parse_time
from scorer.api.names import UPGRADE_WINDOWS
from scorer.api.upgrade.fields import UpgradeState, UpgradeType
from scorer.api.upgrade.gate import GateTiming
from scorer.api.upgrade.profile import UpgradeProfileSpec
from scorer.api.upgrade.run import ClusterUpgradeRun, MemberStatus, SkipTarget
from scorer.api.upgrade.strategy import StrategySpec
from scorer.api.upgrade.version_catalog import VersionCatalogSpec
from scorer.upgrade.back_ends.interface import Capabilities, Inventory, Pool
from scorer.upgrade.members.member import GROUP_LABEL, ORDER, REGION_LABEL, Member, read_member
from scorer.upgrade.members.windows import targets_of, tier_of
from scorer.upgrade.planning.forecast import ForecastAssumptions, forecast
from scorer.upgrade.planning.plan import plan_of
from scorer.upgrade.profiles.target import NoTargetError, target_of
from scorer.upgrade.simulation.back_end import UPGRADER, AttemptOutcome, SimulatedBackEnd
from scorer.upgrade.simulation.hub import (
    AddMember,
    Approve,
    ChangeMember,
    Crash,
    EditStrategy,
    Order,
    Publish,
    RemoveMember,
    SimulatedEvaluation,
    SimulatedHub,
    Skip,
    Start,
    Stop,
    gates_of,
    simulate,
)
from scorer.upgrade.state.facts import Estimate
from scorer.upgrade.state.step import StartUpgrade
from scorer.upgrade.versions.catalog import ReleaseCatalog
from scorer.upgrade.versions.images import UNLISTED
from scorer.windows.maintenance import window_state
from scorer.windows.member_windows import WindowDefinition, windows_of
from tests.vector_families.line import Line

START = "2025-01-06T00:00:00Z"
UPGRADE = {"type": "Full", "kubernetesVersion": "1.31.2"}

_UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_DURATION = re.compile(r"(?:\d+[dhms])+")
_COMMANDS = {Start: "start", Stop: "stop", Approve: "approve"}


def check_upgrade_run(line: Line) -> None:
    """What the line wants comes out."""
    seen = evaluate(line["kind"], line["given"])
    assert _asked(seen, line["want"]) == _by_value(line["want"])


def evaluate(kind: str, given: Line) -> Line:
    """Return what the engine says."""
    return {"scenario": _scenario, "window": _window, "profile": _profile, "plan": _plan}[kind](given)


def duration(text: str) -> timedelta:
    """Read a duration such as ``1d2h30m``."""
    if not _DURATION.fullmatch(text):
        raise ValueError(f"{text!r} is not a duration")
    return timedelta(seconds=sum(int(part[:-1]) * _UNITS[part[-1]] for part in re.findall(r"\d+[dhms]", text)))


def written(length: timedelta) -> str:
    """Write a duration, its largest unit first."""
    seconds, text = int(length.total_seconds()), ""
    for unit, size in _UNITS.items():
        count, seconds = divmod(seconds, size)
        text += f"{count}{unit}" if count else ""
    return text or "0s"


def _asked(seen: Any, want: Any) -> Any:
    """Return the part of what was seen that a line asks for."""
    if isinstance(want, dict) and isinstance(seen, dict):
        return {key: _asked(seen.get(key), value) for key, value in want.items()}
    if isinstance(want, list) and isinstance(seen, list) and len(want) == len(seen):
        return [_asked(one, other) for one, other in zip(seen, want, strict=True)]
    return _by_value(seen)


def _by_value(value: Any) -> Any:
    """Return a value in which every duration is written in the same way."""
    match value:
        case dict():
            return {key: _by_value(item) for key, item in value.items()}
        case list():
            return [_by_value(item) for item in value]
        case str() if _DURATION.fullmatch(value):
            return written(duration(value))
    return value


def _window(given: Line) -> Line:
    now, upgrade = parse_time(given["now"]), UpgradeType(given.get("upgradeType", "Full"))
    windows, names = _windows("w", given["windows"], upgrade)
    readable = [windows[name].window for name in names]
    found = window_state([each for each in readable if each is not None], now) if names else None
    seen: Line = {"open": found is not None and found.is_open, "tier": tier_of(found, now)}
    if found is not None and not found.is_open:
        seen["nextOpen"] = None if found.until is None else format_time(found.until)
    return seen


def _windows(
    owner: str, specs: list[Line], upgrade: UpgradeType
) -> tuple[dict[str, WindowDefinition], tuple[str, ...]]:
    """Return windows by their names, and the names of those that apply to an upgrade."""
    documents = [
        {"apiVersion": "upgrade.harbormaster.dev/v1alpha1", "kind": "ClusterMaintenanceWindow"}
        | {"metadata": {"name": f"{owner}-{place}"}, "spec": spec}
        for place, spec in enumerate(specs)
    ]
    definitions = {each["metadata"]["name"]: WindowDefinition.of(each) for each in documents}
    for each in definitions.values():
        assert not each.error, each.error
    named = {"metadata": {"annotations": {UPGRADE_WINDOWS: ",".join(definitions)}}}
    return definitions, windows_of(named, definitions, targets_of(upgrade), ()).names


def _profile(given: Line) -> Line:
    spec = UpgradeProfileSpec.read({key: value for key, value in given.items() if key != "catalog"})
    known = given["catalog"].get("kubernetes", {})
    lts = set(known.get("lts", ()))
    versions = [
        {"version": version, "phase": phase, "lts": version.rpartition(".")[0] in lts}
        for key, phase in (("ga", "GA"), ("preview", "Preview"))
        for version in known.get(key, ())
    ]
    regions = [{"name": "r1", "kubernetesVersions": versions}]
    try:
        target = target_of(spec, ReleaseCatalog.of([VersionCatalogSpec.read({"regions": regions})]))
    except NoTargetError as error:
        return {"error": error.code.value}
    seen = {"upgradeType": target.type.value, "nodeImageSelection": target.selection.value}
    return seen | ({"kubernetesVersion": target.kubernetes_version} if target.kubernetes_version else {})


@dataclass
class Scenario:
    """A scenario that is played, and what was seen of it."""

    given: Line
    hub: SimulatedHub = field(init=False)
    started: list[str] = field(default_factory=list)
    rejected: list[list[str]] = field(default_factory=list)
    looks: dict[str, Line] = field(default_factory=dict)
    done_at: timedelta | None = None

    def __post_init__(self) -> None:
        self.begin = parse_time(self.given.get("t0", START))
        self.type = UpgradeType(self.given.get("upgrade", UPGRADE)["type"])
        self.fleet = {each["name"]: each for each in self.given["members"]}
        self.hub = SimulatedHub(
            run=_run(self.given),
            back_end=SimulatedBackEnd(self._outcome),
            members={},
            strategy=read_strategy(self.given.get("strategy")),
            catalog=_catalog(self.given.get("catalog")),
            upgraders={UPGRADER: Capabilities(chained_upgrades=self.given.get("chained", False), cancel=True)},
        )
        for each in self.given["members"]:
            self._remember_busy(each)
            self.hub.members[each["name"]] = self._member(each)

    def _outcome(self, name: str, attempt: int) -> AttemptOutcome:
        member = self.fleet[name]
        outcomes, length = member.get("outcomes", []), duration(member.get("duration", "30m"))
        match outcomes[attempt - 1] if attempt <= len(outcomes) else "ok":
            case "fail":
                return AttemptOutcome(length, fails=True)
            case "hang":
                return AttemptOutcome(None)
            case {"fail": after}:
                return AttemptOutcome(duration(after), fails=True)
        return AttemptOutcome(length)

    def _member(self, given: Line) -> Member:
        """Return a new member."""
        version = given.get("version", "1.30.4")
        inventory = Inventory(version, _pools(given.get("pools", [{"name": "np1"}]), version))
        return self._settings(given, inventory)

    def _changed(self, name: str, changes: Line, known: Member) -> Member:
        """Return a member with some fields overwritten."""
        assert known.inventory is not None
        given = self.fleet[name] = {**self.fleet[name], **changes}
        self._remember_busy(given)
        version = changes.get("version", known.inventory.version)
        pools = _pools(changes["pools"], version) if "pools" in changes else known.inventory.pools
        return self._settings(given, Inventory(version, pools))

    def _settings(self, given: Line, inventory: Inventory) -> Member:
        """Return a member with its labels and windows, which the hub knows from now on."""
        labels = {**given.get("labels", {}), REGION_LABEL: given.get("region", "r1")}
        if "group" in given:
            labels[GROUP_LABEL] = given["group"]
        definitions, _ = _windows(given["name"], given.get("windows", []), self.type)
        self.hub.windows.update(definitions)
        annotations = {UPGRADE_WINDOWS: ",".join(definitions), ORDER: str(given.get("order", 0))}
        document = {"metadata": {"name": given["name"], "labels": labels, "annotations": annotations}}
        windows = windows_of(document, self.hub.windows, targets_of(self.type), ())
        return read_member(document, windows, inventory, upgrader=UPGRADER)

    def _remember_busy(self, given: Line) -> None:
        if "busyUntil" in given:
            self.hub.busy_until[given["name"]] = self.begin + duration(given["busyUntil"])

    def orders(self) -> Iterator[tuple[datetime, Order]]:
        """Yield what happens when."""
        for event in self.given.get("events", [{"at": "0s", "do": "start"}]):
            yield self.begin + duration(event["at"]), self._order(event)

    def _order(self, event: Line) -> Order:
        match event["do"]:
            case "start":
                return Start()
            case "stop":
                return Stop()
            case "skip":
                return Skip(tuple(SkipTarget.read(each) for each in event["targets"]))
            case "approve":
                timing = GateTiming(event["timing"])
                return Approve(event["stage"], event.get("group") or "", timing, event.get("index", 0))
            case "catalog":
                return Publish(_catalog(event["catalog"]))
            case "addMember":
                self.fleet[event["member"]["name"]] = event["member"]
                return AddMember(self._member(event["member"]))
            case "setMember":
                return ChangeMember(event["name"], partial(self._changed, event["name"], event["set"]))
            case "removeMember":
                return RemoveMember(event["name"])
            case "editStrategy":
                strategy = read_strategy(event["strategy"])
                assert strategy is not None
                return EditStrategy(strategy)
            case "crash":
                return Crash()
        raise ValueError(f"an event {event['do']!r} is not known")

    def play(self) -> None:
        """Let everything happen, and look at every instant that the scenario asks about."""
        for _ in self.moments():
            pass

    def moments(self) -> Iterator[SimulatedEvaluation]:
        """Yield every instant at which the engine is asked."""
        until = self.begin + duration(self.given.get("until", "60d"))
        looks = sorted({self.begin + duration(text) for text in self.given.get("checkAt", [])})
        state = UpgradeState.NOT_STARTED
        before: SimulatedEvaluation | None = None
        for moment in simulate(self.hub, self.begin, list(self.orders()), until):
            while looks and looks[0] < moment.now:
                self._look(looks.pop(0), before)
            self._remember(moment)
            if moment.run.status.state is not state:
                state, self.done_at = moment.run.status.state, moment.now - self.begin
            before = moment
            yield moment
        for instant in looks:
            self._look(instant, before)

    def _look(self, instant: datetime, moment: SimulatedEvaluation | None) -> None:
        assert moment is not None
        self.looks[written(instant - self.begin)] = _states(moment.run)

    def _remember(self, moment: SimulatedEvaluation) -> None:
        begun = [each.operation for each in moment.step.actions if isinstance(each, StartUpgrade)]
        self.started += [each.member for each in begun]
        at = written(moment.now - self.begin)
        self.rejected += [[word, at] for order in moment.refused if (word := _COMMANDS.get(type(order))) is not None]

    def seen(self) -> Line:
        """Return what was seen in the end."""
        status = self.hub.run.status
        initialized = find_condition(status.conditions, "Initialized")
        failed = initialized is not None and initialized.status == FALSE
        return {
            **_states(self.hub.run),
            "times": {name: times for name, entry in _entries(self.hub.run) if (times := self._times(entry))},
            "attempts": {name: entry.attempt for name, entry in _entries(self.hub.run)},
            "failureCount": status.failure_count,
            "startOrder": self.started,
            "runDoneAt": None if self.done_at is None else written(self.done_at),
            "rejected": self.rejected,
            "final": {name: _final(member.inventory) for name, member in self.hub.members.items() if member.inventory},
            "consistent": {
                each.family: each.version for each in status.resolved.node_images if each.version != UNLISTED
            },
            "resolvedKubernetesVersion": status.resolved.kubernetes_version,
            "limits": _limits(self.hub.run),
            "initialized": not failed,
            "initializedReason": initialized.reason if failed and initialized is not None else None,
            "at": [{"t": text, **self.looks[written(duration(text))]} for text in self.given.get("checkAt", [])],
        }

    def since(self, instant: datetime | None) -> str | None:
        """Write an instant as a duration since the beginning."""
        return None if instant is None else written(instant - self.begin)

    def _times(self, entry: MemberStatus) -> list[str | None]:
        if not entry.attempt or entry.start_time is None:
            return []
        end = entry.completion_time
        return [written(entry.start_time - self.begin), None if end is None else written(end - self.begin)]


def _scenario(given: Line) -> Line:
    scenario = Scenario(given)
    scenario.play()
    return scenario.seen()


def _plan(given: Line) -> Line:
    """Return what is expected: every upgrade takes as long as the line says, and none fails."""
    scenario = Scenario({**given, "members": [{**each, "outcomes": []} for each in given["members"]]})
    expected = {each["name"]: duration(each.get("duration", "30m")) for each in given["members"]}
    scenario.hub.durations = {name: Estimate(length, length) for name, length in expected.items()}
    after = duration(given.get("assume", {}).get("approveAfter", "0s"))
    facts, assumed = scenario.hub.facts(scenario.begin), ForecastAssumptions(approve_after=after)
    plan, found = plan_of(scenario.hub.run, facts, (), assumed), forecast(scenario.hub.run, facts, assumed)
    return {
        "eta": scenario.since(plan.eta),
        "run": found.run.status.state.value,
        "maxConcurrent": plan.max_concurrent,
        "exposure": plan.exposure,
        "members": {
            each.name: {
                "action": each.action.value,
                "start": scenario.since(each.start),
                "end": scenario.since(each.end),
                "reason": each.reason,
            }
            for each in plan.members
        },
    }


def _run(given: Line) -> ClusterUpgradeRun:
    spec: Line = {"upgrade": given.get("upgrade", UPGRADE), "timeouts": {"memberUpgradeSeconds": 0}}
    if given.get("strategy") is not None:
        spec["strategyRef"] = {"name": "strategy"}
    if given.get("memberSelector") is not None:
        spec["memberSelector"] = given["memberSelector"]
    if given.get("memberTimeout"):
        spec["timeouts"] = {"memberUpgradeSeconds": int(duration(given["memberTimeout"]).total_seconds())}
    if "onUnsupportedJump" in given:
        spec["versionPolicy"] = {"onUnsupportedJump": given["onUnsupportedJump"]}
    metadata = {"name": "run", "uid": "uid", "generation": 1}
    return ClusterUpgradeRun.read({"kind": "ClusterUpgradeRun", "metadata": metadata, "spec": spec})


def _pools(given: list[Line], version: str) -> tuple[Pool, ...]:
    return tuple(
        Pool(
            name=each["name"],
            version=each.get("version", version),
            family=each.get("family", "linux"),
            image=each.get("image", "100"),
        )
        for each in given
    )


def read_strategy(given: Line | None) -> StrategySpec | None:
    """Read a strategy's spec."""
    return None if given is None else StrategySpec.read(given)


def _catalog(given: Line | None) -> ReleaseCatalog:
    regions = []
    for name, lists in ((given or {}).get("regions") or {}).items():
        region: Line = {"name": name}
        if "kubernetes" in lists:
            region["kubernetesVersions"] = [{"version": each} for each in lists["kubernetes"]]
        if "images" in lists:
            region["nodeImages"] = [
                {"family": family, "versions": [{"version": each} for each in versions]}
                for family, versions in lists["images"].items()
            ]
        regions.append(region)
    release_notes = (given or {}).get("releaseNotesURL") or ""
    return ReleaseCatalog.of([VersionCatalogSpec.read({"regions": regions, "releaseNotesURL": release_notes})])


def _entries(run: ClusterUpgradeRun) -> Iterator[tuple[str, MemberStatus]]:
    for stage in run.status.stages:
        for group in stage.groups:
            for entry in group.members:
                yield entry.name, entry


def _states(run: ClusterUpgradeRun) -> Line:
    status = run.status
    return {
        "run": status.state.value,
        "stages": {stage.name: stage.state.value for stage in status.stages},
        "groups": {
            f"{stage.name}/{group.name}": group.state.value for stage in status.stages for group in stage.groups
        },
        "members": {name: entry.state.value for name, entry in _entries(run)},
        "reasons": {name: entry.reason for name, entry in _entries(run) if entry.reason},
        "waits": {stage.name: wait.state.value for stage in status.stages if (wait := stage.after_stage_wait)},
        "gates": {_place(place): gate.state.value for place, gate in gates_of(run.status)},
    }


def _place(place: Approve) -> str:
    where = f"{place.stage}/{place.group}" if place.group else place.stage
    return f"{where}:{place.timing.value}:{place.index}"


def _final(inventory: Inventory) -> Line:
    pools = {pool.name: {"version": pool.version, "image": pool.image} for pool in inventory.pools}
    return {"version": inventory.version, "pools": pools}


def _limits(run: ClusterUpgradeRun) -> Line:
    return {
        stage.name: {
            "maxConcurrency": stage.max_concurrency,
            "maxAllowedFailures": stage.max_allowed_failures,
            "groups": {
                group.name: {
                    "maxConcurrency": group.max_concurrency,
                    "maxAllowedFailures": group.max_allowed_failures,
                }
                for group in stage.groups
            },
        }
        for stage in run.status.stages
    }
