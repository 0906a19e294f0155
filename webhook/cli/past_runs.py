"""The last decisions on a placement in plain words: the text form of what ``/v1/placements/…/runs`` answers.

Source: scheduling.md 22, property 9.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from webhook.cli.explanation import because


def history(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield every decision, the latest first: when, why, what changed, who was picked."""
    items = answer["items"]
    count = "1 decision" if len(items) == 1 else f"{len(items)} decisions"
    yield f"{answer['placement']}: {count} on record{', the latest first' if len(items) > 1 else ''}."
    for item in items:
        yield ""
        yield from _run(item)


def _run(item: Mapping[str, Any]) -> Iterator[str]:
    wanted = "every cluster that passes" if item["wanted"] is None else item["wanted"]
    again = f", seen {item['times']} times until {item['until']}" if "times" in item else ""
    fleet = "" if item["fleetSize"] is None else f", the fleet has {item['fleetSize']}"
    yield f"{item['time']}{again}: policy snapshot {item['snapshot']} wants {wanted}, has {item['found']}{fleet}"
    yield f"  because  {because(item['trigger']['message'])}"
    for position, note in enumerate(item["difference"]):
        yield f"  {'changed' if not position else '       '}  {note}"
    if item["picked"]:
        yield f"  picked   {', '.join(map(_picked, item['picked']))}"
    if item["counts"]:
        counts = ", ".join(f"{count} {category}" for category, count in item["counts"].items())
        yield f"  others   {counts}"
    yield f"  message  {item['message']}"


def _picked(entry: Mapping[str, Any]) -> str:
    if "score" not in entry:
        return str(entry["cluster"])
    score = entry["score"]
    spread = f", spread {score['topologySpread']}" if score["topologySpread"] else ""
    return f"{entry['cluster']} (affinity {score['affinity']}{spread})"
