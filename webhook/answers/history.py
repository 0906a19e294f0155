"""The last decisions on every placement, so that a new decision can be compared with earlier ones.

The decisions are read from the hub: from the status of the policy snapshots, as the cache observes changes. So every
replica that watches knows the same decisions, regardless of the replica that schedules.

The history of a replica starts with the last decision in each policy snapshot, because the hub does not keep earlier
ones. The time of such a decision is the latest of these: the creation of the snapshot, the last transition of its
condition, and the creation of its newest binding.

A member report triggers no computation: only the member's name is recorded, if a change matters to scheduling.

Source: docs/specifications/scheduling.md 22.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from scorer.api.family import FAMILIES, FAMILY_OF, Family, PlacementRef
from scorer.api.kinds import MEMBER_CLUSTER
from scorer.api.meta import JsonObject, parse_time
from scorer.api.names import (
    MEMBER_AGENT,
    NUMBER_OF_CLUSTERS,
    PLACEMENT_GENERATION,
    POLICY_INDEX,
    SCORE_PREFIX,
)
from scorer.api.unstructured.documents import annotations_of, dict_at, is_deleting, is_labelled_latest, label, status_of
from scorer.eligibility import EligibilityLimits
from scorer.placement.explanation import Trigger
from scorer.placement.past_run import (
    DecisionTrigger,
    PastRun,
    RecordedDecision,
    decisions_in,
    requested_clusters,
    run_document,
    scheduled,
)
from webhook.kube.cache.changes import ObjectDelta
from webhook.kube.cache.informer import Cache
from webhook.kube.listers.placements import children

MOST_RUNS: Final = 20
"""Maximum number of runs of one placement."""
LONGEST: Final = timedelta(days=7)
"""Maximum age of a run. The last run of a placement is always kept."""
MOST_DECISIONS: Final = 100_000
"""Maximum number of decisions on clusters over all placements. Beyond it, idle placements lose theirs first."""
MOST_MEMBERS: Final = 2_000
"""Maximum number of remembered changed members."""
MOST_NAMED: Final = 10
_RECORDED: Final = "Recorded"


@dataclass(slots=True)
class _Past:
    """The history of one placement, oldest run first."""

    runs: list[RecordedDecision] = field(default_factory=list)
    pending: list[DecisionTrigger] = field(default_factory=list)
    mark: int = 0
    """Sequence number of the last member change before the last run."""


class RunHistory:
    """Keeps the last decisions, within limits of number and age.

    Args:
        cache: The hub's objects.
        now: The clock.
    """

    def __init__(self, cache: Cache, now: Callable[[], datetime]) -> None:
        self._cache = cache
        self._now = now
        self._pasts: OrderedDict[PlacementRef, _Past] = OrderedDict()
        self._weight = 0
        self._members = _ChangedMembers(cache.limits)
        for family in FAMILIES:
            cache.subscribe(family.placement, partial(self._on_placement, family))
            cache.subscribe(family.binding, partial(self._on_binding, family))
            cache.subscribe(family.policy_snapshot, partial(self._on_snapshot, family))
        cache.subscribe(MEMBER_CLUSTER, self._on_member)

    def runs(self, ref: PlacementRef) -> list[PastRun] | None:
        """Return the last runs of a placement, latest first, or None if it does not exist."""
        family = FAMILY_OF.get(ref.kind)
        if family is None or self._cache.get(family.placement, ref.name, ref.namespace) is None:
            return None
        runs = self._retained_runs(self._pasts[ref].runs) if ref in self._pasts else []
        pairs = zip(runs, [None, *runs], strict=False)
        return [run_document(run, before) for run, before in pairs][::-1]

    def last_trigger(self, ref: PlacementRef) -> Trigger | None:
        """Return the trigger of the last decision, or None without a decision."""
        past = self._pasts.get(ref)
        return past.runs[-1].trigger.document() if past is not None and past.runs else None

    def _on_placement(self, family: Family, change: ObjectDelta) -> None:
        if change.new is None and (past := self._pasts.pop(family.ref(change.document), None)) is not None:
            self._weight -= sum(map(_weight, past.runs))

    def _on_binding(self, family: Family, change: ObjectDelta) -> None:
        """Record the deletion of a binding that is still needed: an eviction, as the scheduler deletes all others.

        The bindings of the initial list date the recorded decisions.
        """
        old, new = change
        if old is None and new is not None and not self._cache.of_kind(family.binding).synced.is_set():
            self._date(family.parent(new), [new])
        if old is None or is_deleting(old) or (new is not None and not is_deleting(new)):
            return
        if old["spec"].get("state") == "Unscheduled":
            return
        name, cluster = old["metadata"]["name"], old["spec"].get("targetCluster", "")
        message = f"the binding {name} on {cluster} was deleted"
        self._note(family, family.parent(old), DecisionTrigger("BindingDeleted", (name, cluster), message))

    def _on_member(self, change: ObjectDelta) -> None:
        """Record a changed member, except those of the initial list, which did not join just now."""
        if change.old is not None or self._cache.of_kind(MEMBER_CLUSTER).synced.is_set():
            self._members.note(change)

    def _on_snapshot(self, family: Family, change: ObjectDelta) -> None:
        old, new = change
        if new is None:
            return
        ref = family.parent(new)
        is_loading = not self._cache.of_kind(family.policy_snapshot).synced.is_set()
        if is_labelled_latest(new) and not is_loading:
            for trigger in self._changes(family, ref, old, new):
                self._note(family, ref, trigger)
        if scheduled(new) is None or (old is not None and old.get("status") == new.get("status")):
            return
        if is_loading and old is None:
            self._take_in(ref, new)
        elif is_labelled_latest(new):
            self._record(ref, new)

    def _changes(
        self, family: Family, ref: PlacementRef, old: JsonObject | None, new: JsonObject
    ) -> Iterable[DecisionTrigger]:
        """Yield the triggers of scheduling in a change of a policy snapshot."""
        name = new["metadata"]["name"]
        if old is None or not is_labelled_latest(old):
            past = self._pasts.get(ref)
            before = past.runs[-1].snapshot if past is not None and past.runs else ""
            message = f"policy snapshot {before} → {name}" if before else f"policy snapshot {name}"
            before_snapshot = self._cache.get(family.policy_snapshot, before, ref.namespace) if before else None
            if before_snapshot is not None and (parts := _differing(before_snapshot, new)):
                message += f": {', '.join(parts)} changed"
            yield DecisionTrigger("SnapshotCreated", (name,), message)
            return
        was, now = annotations_of(old), annotations_of(new)
        if was.get(NUMBER_OF_CLUSTERS) != now.get(NUMBER_OF_CLUSTERS):
            numbers = f"{was.get(NUMBER_OF_CLUSTERS, 'none')} → {now.get(NUMBER_OF_CLUSTERS, 'none')}"
            yield DecisionTrigger("NumberChanged", (name,), f"numberOfClusters {numbers}")
        elif was.get(PLACEMENT_GENERATION) != now.get(PLACEMENT_GENERATION):
            numbers = f"{was.get(PLACEMENT_GENERATION, 'none')} → {now.get(PLACEMENT_GENERATION, 'none')}"
            yield DecisionTrigger(
                "PlacementChanged", (str(ref),), f"generation {numbers} of the placement, the same policy"
            )

    def _note(self, family: Family, ref: PlacementRef, trigger: DecisionTrigger) -> None:
        # After the deletion of its placement: a new entry would never be removed, since no further deletion follows.
        if self._cache.get(family.placement, ref.name, ref.namespace) is None:
            return
        past = self._past(ref)
        if len(past.pending) < MOST_NAMED:
            past.pending.append(trigger)

    def _past(self, ref: PlacementRef) -> _Past:
        if ref not in self._pasts:  # an earlier change is not a trigger of the placement's first decision
            self._pasts[ref] = _Past(mark=self._members.counter)
        return self._pasts[ref]

    def _take_in(self, ref: PlacementRef, snapshot: JsonObject) -> None:
        """Record a decision from before this process started to watch. Snapshots are listed in any order."""
        condition = scheduled(snapshot) or {}
        times = (condition.get("lastTransitionTime"), snapshot["metadata"].get("creationTimestamp"))
        time = max(_times(times), default=self._now())
        trigger = DecisionTrigger(
            _RECORDED, (snapshot["metadata"]["name"],), "unknown: the decision was made before this process started"
        )
        past = self._past(ref)
        past.runs.append(self._read(snapshot, time, trigger, None))
        past.runs.sort(key=lambda run: run.index)
        self._weight += _weight(past.runs[-1])
        past.mark = self._members.counter
        self._date(ref, children(self._cache, FAMILY_OF[ref.kind].binding, ref))
        self._forget(ref)

    def _date(self, ref: PlacementRef, bindings: Iterable[JsonObject]) -> None:
        """Date recorded decisions by the creation of their last binding, if that is later than the known time.

        The time of the condition changes only with its status. A decision on another number of clusters may leave the
        status unchanged, but it creates bindings. Called both for listed bindings and for listed snapshots, since
        either kind may be listed first.
        """
        past = self._pasts.get(ref)
        if past is None:
            return
        dates: dict[str, list[object]] = {}
        for binding in bindings:
            snapshot = str(binding["spec"].get("schedulingPolicySnapshotName"))
            dates.setdefault(snapshot, []).append(binding["metadata"].get("creationTimestamp"))
        for place, run in enumerate(past.runs):
            if run.trigger.event == _RECORDED:
                time = max((run.time, *_times(dates.get(run.snapshot, ()))))
                past.runs[place] = replace(run, time=time, until=max(run.until, time))

    def _record(self, ref: PlacementRef, snapshot: JsonObject) -> None:
        past, now = self._past(ref), self._now()
        size = len(self._cache.of_kind(MEMBER_CLUSTER).objects)
        run = self._read(snapshot, now, DecisionTrigger("Unknown"), size)
        before = past.runs[-1] if past.runs else None
        moved_clusters = {decision.cluster for decision in run.picked}
        moved_clusters ^= {decision.cluster for decision in before.picked} if before else set()
        run = replace(run, trigger=self._trigger(past, moved_clusters))
        if before is not None and run.repeats(before):
            run = replace(run, time=before.time, trigger=before.trigger, times=before.times + 1)
            self._weight -= _weight(past.runs.pop())
        past.runs.append(run)
        self._weight += _weight(run)
        past.pending.clear()
        past.mark = self._members.counter
        self._pasts.move_to_end(ref)
        self._forget(ref)

    def _trigger(self, past: _Past, moved_clusters: set[str]) -> DecisionTrigger:
        """Return the changes since the last run, starting with members that were added or dropped."""
        members = self._members.since(past.mark, moved_clusters)
        words = ", ".join(f"{name} ({', '.join(aspects)})" for name, aspects in members[:MOST_NAMED])
        more = f" and {len(members) - MOST_NAMED} more" if len(members) > MOST_NAMED else ""
        if past.pending:
            first = past.pending[0]
            member_changes = [
                f"{name} changed ({', '.join(aspects)})" for name, aspects in members if name in moved_clusters
            ]
            notes = [*(trigger.message for trigger in past.pending), *member_changes[:MOST_NAMED]]
            return replace(first, message="; ".join(notes))
        if members:
            names = tuple(name for name, _ in members[:MOST_NAMED])
            return DecisionTrigger("MembersChanged", names, f"since the last run these members changed: {words}{more}")
        return DecisionTrigger("Unknown", (), "no change except the time")

    def _read(
        self, snapshot: JsonObject, time: datetime, trigger: DecisionTrigger, size: int | None
    ) -> RecordedDecision:
        condition = scheduled(snapshot) or {}
        picked, others = decisions_in(snapshot)
        return RecordedDecision(
            time=time,
            trigger=trigger,
            snapshot=snapshot["metadata"]["name"],
            index=_index(snapshot),
            wanted=requested_clusters(snapshot),
            picked=picked,
            others=others,
            satisfied=condition.get("status") == "True",
            message=str(condition.get("message", "")),
            fleet_size=size,
            until=time,
        )

    def _retained_runs(self, runs: list[RecordedDecision]) -> list[RecordedDecision]:
        """Return the latest runs, within the limits of number and age."""
        oldest = self._now() - LONGEST
        return [run for run in runs[-MOST_RUNS:-1] if run.until >= oldest] + runs[-1:]

    def _forget(self, ref: PlacementRef) -> None:
        past = self._pasts[ref]
        runs_kept = self._retained_runs(past.runs)
        self._weight += sum(map(_weight, runs_kept)) - sum(map(_weight, past.runs))
        past.runs = runs_kept
        while self._weight > MOST_DECISIONS:
            at_rest = next((past for past in self._pasts.values() if len(past.runs) > 1), None)
            at_rest = at_rest or next((past for past in self._pasts.values() if past.runs), None)
            if at_rest is None:
                return
            self._weight -= _weight(at_rest.runs.pop(0))


class _ChangedMembers:
    """Members with changes that matter to scheduling, latest change last.

    Args:
        limits: Limits on the silence of a member.
    """

    def __init__(self, limits: EligibilityLimits) -> None:
        self.counter = 0
        self._limits = limits
        self._changed: OrderedDict[str, dict[str, int]] = OrderedDict()

    def note(self, change: ObjectDelta) -> None:
        """Record which aspects of a MemberCluster have changed. The members that changed last are kept."""
        aspects = changed_aspects(change, self._limits)
        if not aspects:
            return
        name = change.document["metadata"]["name"]
        self.counter += 1
        entry = self._changed.setdefault(name, {})
        entry.update(dict.fromkeys(aspects, self.counter))
        self._changed.move_to_end(name)
        if len(self._changed) > MOST_MEMBERS:
            self._changed.popitem(last=False)

    def since(self, mark: int, first: set[str]) -> list[tuple[str, list[str]]]:
        """Return the members that changed after *mark*, each with its changed aspects.

        Members in *first* precede all others. Within both groups, the latest change comes first.
        """
        changes = []
        for name in reversed(self._changed):
            aspects = [aspect for aspect, number in self._changed[name].items() if number > mark]
            if not aspects:  # in the order of the last change: all further ones are older
                break
            changes.append((name, aspects))
        return sorted(changes, key=lambda entry: entry[0] not in first)


def changed_aspects(change: ObjectDelta, limits: EligibilityLimits) -> list[str]:
    """Return the changed aspects of a member cluster that matter to scheduling. A regular heartbeat has none."""
    old, new = change
    if old is None or new is None:
        return ["new"] if old is None else ["gone"]
    aspects = []
    before, after = old["metadata"], new["metadata"]
    if before.get("deletionTimestamp") != after.get("deletionTimestamp"):
        aspects.append("leaving")
    if before.get("labels") != after.get("labels"):
        aspects.append("labels")
    if before.get("annotations") != after.get("annotations") and _scores(before) != _scores(after):
        aspects.append("scores")
    if old["spec"] != new["spec"] and old["spec"].get("taints") != new["spec"].get("taints"):
        aspects.append("taints")
    was, now = status_of(old), status_of(new)
    if was is now:
        return aspects
    if _values(was) != _values(now):
        aspects.append("properties")
    if _amounts(was) != _amounts(now):
        aspects.append("resources")
    if was.get("namespaces") != now.get("namespaces"):
        aspects.append("namespaces")
    previous_agent, agent_now = _agent(was), _agent(now)
    if _conditions(previous_agent) != _conditions(agent_now):
        aspects.append("health")
    if _silence(previous_agent, agent_now) > limits.heartbeat:
        aspects.append("reporting again")
    return aspects


def _scores(metadata: Mapping[str, Any]) -> dict[str, str]:
    annotations = metadata.get("annotations") or {}
    return {name: text for name, text in annotations.items() if name.startswith(SCORE_PREFIX)}


def _values(status: Mapping[str, Any]) -> dict[str, str]:
    return {name: entry.get("value") for name, entry in (status.get("properties") or {}).items()}


def _amounts(status: Mapping[str, Any]) -> tuple[object, ...]:
    usage = status.get("resourceUsage") or {}
    return usage.get("capacity"), usage.get("allocatable"), usage.get("available")


def _agent(status: Mapping[str, Any]) -> Mapping[str, Any]:
    agents: list[Mapping[str, Any]] = status.get("agentStatus") or []
    return next((agent for agent in agents if agent.get("type") == MEMBER_AGENT), {})


def _conditions(agent: Mapping[str, Any]) -> dict[str, str]:
    return {entry["type"]: entry["status"] for entry in agent.get("conditions") or ()}


def _silence(before: Mapping[str, Any], after: Mapping[str, Any]) -> timedelta:
    """Return how long a member was silent before its last heartbeat, 0 if that is unknown."""
    then, now = before.get("lastReceivedHeartbeat"), after.get("lastReceivedHeartbeat")
    if then is None or now is None or then == now:
        return timedelta()
    try:
        return parse_time(now) - parse_time(then)
    except ValueError:
        return timedelta()


def _times(texts: Iterable[object]) -> Iterator[datetime]:
    """Yield the instants among *texts*, skipping other texts."""
    for text in texts:
        with suppress(ValueError):
            yield parse_time(str(text))


def _weight(run: RecordedDecision) -> int:
    return 1 + len(run.picked) + len(run.others)


def _index(snapshot: JsonObject) -> int:
    text = label(snapshot, POLICY_INDEX)
    return int(text) if text.isdecimal() else -1


def _differing(before: JsonObject, after: JsonObject) -> list[str]:
    """Return the parts of the policy that differ between two snapshots."""
    was, now = (dict_at(document, "spec", "policy") for document in (before, after))
    return sorted(part for part in {*was, *now} - {"numberOfClusters"} if was.get(part) != now.get(part))
