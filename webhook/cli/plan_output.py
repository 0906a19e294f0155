"""Plans as tables: first what moves, then how it would be rolled out. Unchanged placements are only counted."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import click

from scorer.api.meta import JsonObject
from scorer.api.quoting import printable
from webhook.cli.failure import complain
from webhook.cli.output import print_table
from webhook.cli.plan_words import reference, rollout_lines
from webhook.cli.planned_runs import print_runs

MOST_KEPT: Final = 12
"""How many of the clusters that a placement keeps are named; those that it gains or loses all are."""

_HEADERS: Final = ("PLACEMENT", "TYPE", "WANTED", "PICKED", "CLUSTERS", "WHY")


def print_plan(plan: JsonObject, *, everything: bool) -> None:
    """Print a plan.

    Args:
        plan: The document.
        everything: Show also what stays as it is.
    """
    runs = [run for run in plan.get("runs", ()) if everything or run["changed"]]
    entries = sorted(plan["placements"], key=lambda entry: not entry["changed"])
    shown = entries if everything else [entry for entry in entries if entry["changed"]]
    if not (entries or runs):
        complain("No placements in these files" if everything else "There are no placements")
        return
    _print_fleet(plan["fleet"])
    if shown:
        print_table(_HEADERS, [_row(entry) for entry in shown])
    for line in _rollouts(shown):
        click.echo(printable(line))
    if rest := len(entries) - len(shown):
        what = "1 placement stays as it is." if rest == 1 else f"{rest} placements stay as they are."
        click.echo(f"\n{what}" if shown else what)
    print_runs(runs, after_other=bool(entries))


def _print_fleet(fleet: Mapping[str, Sequence[str]]) -> None:
    if words := fleet_words(fleet):
        click.echo(printable(f"Fleet: {words}"))
        click.echo()


def fleet_words(fleet: Mapping[str, Sequence[str]]) -> str:
    """Return which members a plan assumes to come, change or go; empty: none."""
    return ", ".join(
        f"{word} {' '.join(fleet[word])}" for word in ("gained", "changed", "drained", "lost") if fleet[word]
    )


def _row(entry: JsonObject) -> list[str]:
    """Return one placement; ``+`` marks what it would get, ``-`` what it would lose."""
    gained, lost = set(entry["moves"]["gained"]), entry["moves"]["lost"]
    picked = [pick["cluster"] for pick in entry["picked"]]
    kept = [cluster for cluster in picked if cluster not in gained]
    words = [f"+{cluster}" for cluster in picked if cluster in gained]
    words += kept[:MOST_KEPT]
    if len(kept) > MOST_KEPT:
        words.append(f"(and {len(kept) - MOST_KEPT} more)")
    words += [f"-{cluster}" for cluster in lost]
    wanted = "all" if entry["wanted"] is None else str(entry["wanted"])
    ends = entry["rollout"]["type"] == "Deletion"
    why = "" if entry["satisfied"] and not ends else entry["message"]
    return [reference(entry), entry["type"], wanted, str(len(picked)), " ".join(words), why]


def _rollouts(entries: Sequence[JsonObject]) -> Iterator[str]:
    """Yield how placements would be rolled out, apart from those that reach all their clusters in one step."""
    first = True
    for entry in entries:
        lines = list(rollout_lines(entry["rollout"], entry["moves"]["stays"]))
        if lines:
            if first:
                yield ""
                yield "Rollout:"
                first = False
            yield f"  {reference(entry)}"
            yield from (f"    {line}" for line in lines)


def print_comparison(answer: JsonObject, names: tuple[str, str]) -> None:
    """Print two policies side by side: the clusters they disagree about, and a count of the rest.

    Args:
        answer: The document.
        names: What the two are called.
    """
    for name, side in zip(names, ("left", "right"), strict=True):
        head = answer[side]
        wanted = "all" if head["wanted"] is None else head["wanted"]
        line = f"{name}: {reference(head)}, {head['type']}, wants {wanted}, gets {head['found']}"
        click.echo(printable(line if head["satisfied"] else f"{line}: {head['message']}"))
    different = [cluster for cluster in answer["clusters"] if cluster["differs"]]
    if different:
        click.echo()
        rows = [[one["cluster"], *_sides(one), one["why"]] for one in different]
        print_table(["CLUSTER", *names, "WHY"], rows)
    if rest := len(answer["clusters"]) - len(different):
        what = "1 cluster is" if rest == 1 else f"{rest} clusters are"
        click.echo(f"\n{what} judged the same by both.")


def _sides(one: JsonObject) -> list[str]:
    return [_verdict(one["left"]), _verdict(one["right"])]


def _verdict(verdict: JsonObject) -> str:
    if verdict["rank"] is None:
        return str(verdict["verdict"])
    score = verdict["score"]
    points = str(score["affinity"]) + (f"{score['topologySpread']:+d}" if score["topologySpread"] else "")
    return f"{verdict['rank']}. {verdict['verdict']} ({points})"
