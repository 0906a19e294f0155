"""Plans and rendered objects as Markdown, for a comment on a pull request: a table of changes, then folded details.

A GitHub comment has at most 65,536 characters. Rows and details that do not fit are omitted, and the text reports how
many. Names and messages are code spans, so that none of them is a link, a mention or HTML.

Source: GitHub Flavored Markdown 4.5, 4.10, 6.1; GitHub REST API, issue comments.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from scorer.api.unstructured.json_object import JsonObject
from scorer.api.values.quoting import format_count, printable
from scorer.staged_update.views.content_diff import ChangeKind
from webhook.cli.planning.node_pools import effect_lines
from webhook.cli.planning.output import (
    assumption_lines,
    describe_cluster,
    describe_fleet,
    difference_lines,
    reference,
    rest_lines,
    rollout_lines,
)
from webhook.cli.planning.run_output import changed_upgrades, run_lines, upgrade_lines

LARGEST: Final = 65_536
"""Maximum characters of a comment, counted in UTF-16 as GitHub does."""
MARKER: Final = "<!-- harbormaster plan -->"
"""The first line, with which CI finds its comment of an earlier push."""
RENDER_MARKER: Final = "<!-- harbormaster render -->"

_MOST_CLUSTERS: Final = 50
"""Maximum number of clusters of each sort that a row names."""
_MOST_REASONS: Final = 200
"""Maximum number of clusters with reasons in the folded details of a placement."""
_HEAD: Final = "| placement | type | wanted | picked | clusters | |\n| --- | --- | --- | --- | --- | --- |\n"
_RENDERED_HEAD: Final = (
    f"| placement | clusters | {' | '.join(map(str.lower, ChangeKind))} |\n| --- | --- | --- | --- | --- |\n"
)
_MOST_LINES: Final = 300
"""Maximum number of lines of the differences on a group of clusters."""
_RESERVED: Final = 400
"""Characters reserved for the note about omitted parts."""


def markdown(plan: JsonObject, warnings: Sequence[str]) -> str:
    """Return a plan as a comment.

    Args:
        plan: The document.
        warnings: Warnings of admission about the planned objects.
    """
    entries = [entry for entry in plan["placements"] if entry["changed"]]
    runs = [run for run in plan.get("runs", ()) if run["changed"]]
    upgrades = changed_upgrades(plan)
    text = _Text([f"{MARKER}\n### {_summary(plan, entries, [*runs, *upgrades])}\n"], "plan")
    if words := describe_fleet(plan["fleet"]):
        text.add(f"\nFleet: {code(words)}\n")
    if entries:
        text.add_all("placements", ["\n" + _HEAD + _row(entries[0]), *map(_row, entries[1:])])
    details = [_folded(_title(entry), _details(entry)) for entry in entries]
    details += [_folded(f"run {_run_name(run)}", run_lines(run)) for run in runs]
    details += [_folded(f"upgrade run {run['name']}", upgrade_lines(run)) for run in upgrades]
    if lines := list(effect_lines(plan.get("nodePools", {"pools": []}))):
        details.append(_folded("NodePools", lines))
    text.add_all("details", details)
    if rest := [*rest_lines(plan), *assumption_lines(plan)]:
        text.add_all("notes", [f"\n{code(line)}\n" for line in rest])
    if warnings:
        text.add_all("warnings", [_folded(_counted(len(warnings), "warning"), warnings)])
    text.add_all("differences", list(_differences(plan.get("rendered") or {})))
    return text.whole()


def rendered_markdown(rendered: JsonObject, side: str, notes: Sequence[str]) -> str:
    """Return the objects that change on clusters as a comment.

    Args:
        rendered: The answer of ``/v1/render``.
        side: Name of the earlier side.
        notes: Problems, and limits of the answer.
    """
    text = _Text([f"{RENDER_MARKER}\n### {_rendered_summary(rendered)}\n"], "render -o diff")
    rows = [_rendered_row(entry, group) for entry in rendered["placements"] for group in entry["groups"]]
    if rows:
        text.add_all("rows", [f"\n{_RENDERED_HEAD}{rows[0]}", *rows[1:]])
    text.add_all("notes", [f"\n{code(line)}\n" for line in notes])
    text.add_all("differences", list(_differences(rendered, side)))
    return text.whole()


def _rendered_summary(rendered: JsonObject) -> str:
    groups = [(reference(entry), group) for entry in rendered["placements"] for group in entry["groups"]]
    clusters = {cluster for _, group in groups for cluster in group["clusters"]}
    changes = {
        (item["change"], placement, item["group"], item["kind"], item["namespace"], item["name"])
        for placement, group in groups
        for item in group["objects"]
    }
    counts = Counter(change[0] for change in changes)
    words = [f"{counts[change]} {change.lower()}" for change in ChangeKind if counts[change]]
    return f"Objects: {', '.join(words)} on {_counted(len(clusters), 'cluster')}" if words else "No object changes"


def _rendered_row(entry: JsonObject, group: JsonObject) -> str:
    counts = Counter(item["change"] for item in group["objects"])
    cells = (code(reference(entry), cell=True), _cluster_names("", group["clusters"]))
    return f"| {' | '.join((*cells, *(str(counts[change]) for change in ChangeKind)))} |\n"


def _differences(rendered: JsonObject, side: str = "live") -> Iterator[str]:
    """Yield a folded diff for each group of clusters whose objects change alike."""
    if "problem" in rendered:
        yield f"\nDifferences of objects are omitted: {code(rendered['problem'])}\n"
    for entry in rendered.get("placements", ()):
        for group in entry["groups"]:
            head, *lines = difference_lines(entry, group, side)
            count = _counted(len(group["objects"]), "object")
            title = f"{reference(entry)}: {count} on {_counted(len(group['clusters']), 'cluster')}"
            rest = len(lines) - _MOST_LINES
            more = [f"# and {format_count(rest, 'more line')}: harbormaster render -o diff"] if rest > 0 else []
            yield _folded(title, [_shortened_head(head), *lines[:_MOST_LINES], *more], "diff")


def _shortened_head(head: str) -> str:
    """Return the line that names a placement and its clusters, with the first clusters only."""
    words = head.split(" ")
    rest = len(words) - _MOST_CLUSTERS - 3
    return head if rest <= 0 else f"{' '.join(words[:-rest])} and {rest} more"


class _Text:
    """A text of bounded length that records omitted parts."""

    def __init__(self, parts: Iterable[str], command: str) -> None:
        self._parts, self._command = list(parts), command
        self._left = LARGEST - _RESERVED - sum(map(_length, self._parts))
        self._cuts: list[str] = []

    def add(self, part: str) -> bool:
        """Add a part if it fits, and return whether it did."""
        if _length(part) > self._left:
            return False
        self._parts.append(part)
        self._left -= _length(part)
        return True

    def add_all(self, noun: str, parts: Sequence[str]) -> None:
        """Add parts up to the first that does not fit."""
        added = next((at for at, part in enumerate(parts) if not self.add(part)), len(parts))
        if added < len(parts):
            self._cuts.append(f"{noun} {added} of {len(parts)}")

    def whole(self) -> str:
        """Return the text, with a note about omitted parts."""
        if self._cuts:
            rest = "; ".join(self._cuts)
            note = f"Cut to fit into a comment: {rest}. `harbormaster {self._command}` shows all of it."
            self._parts.append(f"\n> {note}\n")
        return "".join(self._parts)


def _length(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _summary(plan: JsonObject, entries: Sequence[JsonObject], runs: Sequence[JsonObject]) -> str:
    rest = len(plan["placements"]) - len(entries)
    gains = sum(len(entry["moves"]["gained"]) for entry in entries)
    losses = sum(len(entry["moves"]["lost"]) for entry in entries)
    if not (entries or runs):
        return f"No placement changes: {_counted(rest, 'placement')} {_stay(rest)}"
    words = [f"{_counted(len(entries), 'placement')} {'changes' if len(entries) == 1 else 'change'}"]
    words += [f"{_counted(count, 'cluster')} {verb}" for count, verb in ((gains, "gained"), (losses, "lost")) if count]
    words += [f"{rest} {_stay(rest)}"] if rest else []
    words += [f"{_counted(len(runs), 'run')} would make changes"] if runs else []
    return ", ".join(words)


def _stay(count: int) -> str:
    return "does not change" if count == 1 else "do not change"


def _counted(count: int, noun: str) -> str:
    return f"1 {noun}" if count == 1 else f"{count} {noun}s"


def _row(entry: JsonObject) -> str:
    gained, lost = entry["moves"]["gained"], entry["moves"]["lost"]
    new = set(gained)
    remaining = [pick["cluster"] for pick in entry["picked"] if pick["cluster"] not in new]
    signs = (("+", gained), ("-", lost), ("", remaining))
    clusters = "<br>".join(_cluster_names(sign, names) for sign, names in signs if names)
    requested = "all" if entry["wanted"] is None else str(entry["wanted"])
    note = "" if entry["satisfied"] and entry["rollout"]["type"] != "Deletion" else code(entry["message"], cell=True)
    if failing := [failure["cluster"] for failure in entry["rollout"].get("failures", ())]:
        note = "<br>".join(filter(None, (note, f"fails on {_cluster_names('', failing)}")))
    kind = entry["type"] if entry["type"].isalnum() else code(entry["type"], cell=True)  # invalid: as written
    cells = (code(reference(entry), cell=True), kind, requested, str(len(entry["picked"])), clusters, note)
    return f"| {' | '.join(cells)} |\n"


def _cluster_names(sign: str, names: Sequence[str]) -> str:
    names_text = " ".join(code(f"{sign}{name}", cell=True) for name in names[:_MOST_CLUSTERS])
    return names_text if len(names) <= _MOST_CLUSTERS else f"{names_text} and {len(names) - _MOST_CLUSTERS} more"


def _title(entry: JsonObject) -> str:
    gained, lost = len(entry["moves"]["gained"]), len(entry["moves"]["lost"])
    return f"{reference(entry)}: +{gained} -{lost}"


def _details(entry: JsonObject) -> Iterator[str]:
    yield entry["message"]
    for sign, names in (("+", entry["moves"]["gained"]), ("-", entry["moves"]["lost"])):
        yield from (f"{sign} {describe_cluster(entry, name)}" for name in names[:_MOST_REASONS])
        if len(names) > _MOST_REASONS:
            yield f"{sign} and {len(names) - _MOST_REASONS} more"
    rollout = list(rollout_lines(entry["rollout"], entry["moves"]["stays"]))
    if rollout:
        yield "Rollout:"
        yield from (f"  {line}" for line in rollout)


def _run_name(run: JsonObject) -> str:
    return f"{run['namespace']}/{run['name']}" if run["namespace"] else str(run["name"])


def _folded(title: str, lines: Iterable[str], language: str = "text") -> str:
    body = "\n".join(map(printable, lines))
    fence = "`" * max(3, 1 + _longest_ticks(body))
    return f"\n<details><summary>{_html(title)}</summary>\n\n{fence}{language}\n{body}\n{fence}\n\n</details>\n"


def _html(text: str) -> str:
    """Return a text as HTML that is neither markup nor Markdown, not even a mention."""
    return "".join(
        letter if letter.isalnum() or letter in " -./:+" else f"&#{ord(letter)};" for letter in printable(text)
    )


def code(text: str, *, cell: bool = False) -> str:
    """Return a text as a code span, in a cell of a table if *cell*."""
    text_in_code = printable(text)
    if cell:
        *before, last = text_in_code.split("|")
        text_in_code = "".join(f"{part}{_escaped_bar(part)}" for part in before) + last
    ticks = "`" * (1 + _longest_ticks(text_in_code))
    blank = " " if "`" in text_in_code else ""
    return f"{ticks}{blank}{text_in_code}{blank}{ticks}"


def _escaped_bar(before: str) -> str:
    """Return a vertical bar, escaped so that it does not end a table cell.

    A backslash is added unless the text before it ends with an odd number of them.
    """
    return "|" if (len(before) - len(before.rstrip("\\"))) % 2 else "\\|"


def _longest_ticks(text: str) -> int:
    return max((len(list(run)) for letter, run in groupby(text) if letter == "`"), default=0)
