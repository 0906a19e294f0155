"""Staged update runs for the fixture hub: records as the loop writes them, at the moments of one worked timeline."""

from datetime import timedelta

from scorer.api.meta import JsonObject
from scorer.rollout.views.timeline import Band, Bar, BarState, Timeline
from tests.builders.update_run import STRATEGY, Moments
from tests.webhook.page.fixture_clock import NOW


def since(minutes: int, seconds: int = 0) -> Moments:
    """Return the timeline that started so long before `NOW`."""
    return Moments(NOW - timedelta(minutes=minutes, seconds=seconds))


def sample_runs() -> list[JsonObject]:
    """Return a run per state; those that are over began earlier."""
    return [
        since(12, 27).at_twelve(name="edge-cache-4", placement="edge-cache"),
        since(4).at_four(name="audit-2", placement="audit"),
        since(17, 40).stuck(name="payments-9", placement="payments"),
        since(95).stopped(name="telemetry-1", placement="telemetry"),
        since(300).aborted(name="edge-cache-3", placement="edge-cache"),
        since(1500).succeeded(name="edge-cache-2", placement="edge-cache"),
        since(11, 30).at_eleven(name="cart-1", placement="cart", namespace="shop"),
        since(2).unstarted(name="probe-1", placement="probe"),
    ]


def wide_run(clusters: int, name: str = "wide") -> JsonObject:
    """Return a run whose second stage has very many clusters: most are done, one has failed, some are in flight."""
    moments = since(16)
    names = [f"member-{number:04}" for number in range(clusters)]
    entries, share = [], 0.96 * clusters
    for place, cluster in enumerate(names):
        begun = 12 * 60 + 10 + place * 200 // clusters
        times = [f"{second // 60}:{second % 60:02}" for second in (begun, begun + 20 + place % 9)]
        if place == clusters // 2:
            entries.append(moments.cluster(cluster, *times, failed="no replica became available within 5m"))
        elif place < share:
            entries.append(moments.cluster(cluster, *times))
        else:
            entries.append(moments.cluster(cluster, times[0]) if place < share + 8 else moments.cluster(cluster))
    said = moments.said("Progressing", "True", "UpdateRunProgressing", "12:10")
    return moments.run([moments.tried(), moments.second(entries)], said, name=name, placement="telemetry")


def many_stages(stages: int, name: str = "stages") -> JsonObject:
    """Return a run of very many stages, half of them done."""
    moments = since(stages)
    plan = {"stages": [{**STRATEGY["stages"][0], "name": f"ring{number}"} for number in range(stages)]}
    found = []
    for number in range(stages):
        clusters = [f"ring{number}-{letter}" for letter in "abc"]
        begun, ended = f"{number}:00", f"{number}:40"
        if number * 2 < stages:
            done = [moments.said(kind, "True", "StageUpdatingSucceeded", ended) for kind in ("Succeeded",)]
            entries = [moments.cluster(cluster, begun, ended) for cluster in clusters]
            found.append(moments.stage(f"ring{number}", entries, *done, start=begun, end=ended))
        else:
            found.append(moments.stage(f"ring{number}", map(moments.cluster, clusters)))
    said = moments.said("Progressing", "True", "UpdateRunProgressing", "0:00")
    return moments.run(found, said, name=name, placement="telemetry", strategy=plan)


def rolling(clusters: list[JsonObject]) -> JsonObject:
    """Return the timeline of a rolling update that is so far on the clusters of a placement."""
    bars = []
    for place, entry in enumerate(clusters):
        begun = NOW - timedelta(seconds=80 - 20 * min(place, 3))
        match entry["state"]:
            case "available":
                bars.append(Bar(entry["cluster"], BarState.UPDATED, begun, begun + timedelta(seconds=18)))
            case "waiting" | "removing":
                bars.append(Bar(entry["cluster"], BarState.WAITING, detail=entry["detail"]))
            case state:
                kind = BarState.FAILED if state == "failed" else BarState.UPDATING
                bars.append(Bar(entry["cluster"], kind, begun, detail=entry["detail"]))
    band = Band("rolling update", "updating", tuple(bars), started=NOW - timedelta(seconds=80))
    over = all(bar.state is BarState.UPDATED for bar in bars)
    return Timeline((band,), band.started, NOW if over else None).document()
