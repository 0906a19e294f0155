"""A placement's tree for terminals: problems first, healthy clusters in one line.

Nodes are made from the results of `scorer.rollout.views.tree`. On a terminal they are wrapped and colored. Elsewhere,
every node is one line for ``grep`` and never cut.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from scorer.api.conditions import TRUE
from scorer.api.names import ADVISORIES, REMOVAL_PENDING_CONDITION
from scorer.api.unstructured.json_object import JsonObject
from scorer.api.values.quoting import format_count, printable
from scorer.rollout.views.tree import ClusterState, ObjectState, title_of_object
from webhook.cli.text.links import STATE, links_in
from webhook.cli.text.output import with_links

if TYPE_CHECKING:
    from rich.tree import Tree

MOST_CLUSTERS: Final = 20
"""Maximum number of clusters with a problem that are shown one by one. The others are counted by state."""
MOST_NAMES: Final = 10
MOST_FIELDS: Final = 3
MOST_MISSING: Final = 5

_GAP: Final = "  "
_QUIET: Final = (ObjectState.APPLIED, ObjectState.SAME, ObjectState.AVAILABLE)
_STYLES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("available", "reported", "applied", "same"), "green"),
    **dict.fromkeys(("failed", "invalid", "stalled"), "red"),
    **dict.fromkeys(
        (
            "applying",
            "waiting",
            "not yet",
            "rolling out",
            "pending",
            "empty",
            "removal pending",
            "short",
            "external",
            "differs",
        ),
        "yellow",
    ),
    **dict.fromkeys(("removing", "deleting"), "magenta"),
}


@dataclass(frozen=True, slots=True)
class Part:
    """Some words of a line, their style, and their kind as `webhook.cli.text.links` links them."""

    text: str
    style: str = ""
    kind: str = ""


@dataclass(frozen=True, slots=True)
class TreeNode:
    """One line and its children."""

    parts: tuple[Part, ...]
    children: "tuple[TreeNode, ...]" = ()

    @property
    def text(self) -> str:
        """The line without colors."""
        return "".join(part.text for part in self.parts)


def make_nodes(tree: JsonObject, *, everything: bool = False) -> TreeNode:
    """Return the tree as lines.

    Args:
        tree: Result of `scorer.rollout.views.tree.placement_tree`.
        everything: Show every cluster and every object by itself.
    """
    clusters, missing = tree["clusters"], tree["missing"]
    clusters_with_detail = (
        clusters
        if everything
        else [cluster for cluster in clusters if not _is_told_in_one_line(cluster)][:MOST_CLUSTERS]
    )
    apart = {id(cluster) for cluster in clusters_with_detail}
    placement = tree["placement"]
    details = [f"{cluster['cluster']}: {cluster['detail']}" for cluster in clusters]
    is_repeated_below = placement["why"] in (*details, _pending_message(placement))
    return TreeNode(
        placement_line({**placement, "why": ""} if is_repeated_below else placement),
        (
            *_about(tree["placement"]),
            *(
                _cluster(cluster, tree["placement"]["resourceIndex"], everything=everything)
                for cluster in clusters_with_detail
            ),
            *_missing(missing, everything=everything),
            *_folded([cluster for cluster in clusters if id(cluster) not in apart], tree["placement"]["resourceIndex"]),
        ),
    )


def _is_told_in_one_line(cluster: Mapping[str, Any]) -> bool:
    """Return whether a cluster needs no line of its own: it is healthy, or healthy until its turn in the rollout."""
    objects = (item for work in cluster["works"] for item in work["objects"])
    return bool(cluster["healthy"]) or (cluster["state"] == ClusterState.WAITING and all(map(_is_quiet, objects)))


def placement_line(placement: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return the line about the placement itself."""
    requested = "all" if placement["wanted"] is None else placement["wanted"]
    index = "" if placement["resourceIndex"] is None else f", resource snapshot {placement['resourceIndex']}"
    counts = f"{_GAP}{placement['type']}, wants {requested}, has {placement['picked']}{index}"
    return Part(placement["ref"], "bold"), Part(counts), *_state(placement["state"], placement["why"])


def _state(state: str, detail: str) -> tuple[Part, ...]:
    name = Part(state, _STYLES.get(state, ""), STATE)
    return (Part(_GAP), name, *((Part(f": {detail}"),) if detail else ()))


def _about(placement: Mapping[str, Any]) -> Iterator[TreeNode]:
    kind, reason = placement["kind"], placement["why"]
    if message := _pending_message(placement):
        command = TreeNode((Part(f"harbormaster confirm {placement['ref']}", "dim"),))
        yield TreeNode((Part("removal pending", _STYLES["removal pending"]), Part(f": {message}")), (command,))
    conditions = [
        {
            **condition,
            "type": condition["type"].removeprefix(kind),
            "message": "" if condition["message"] == reason else condition["message"],
        }
        for condition in placement["conditions"]
        if condition["type"] not in (REMOVAL_PENDING_CONDITION, ADVISORIES)
    ]
    if advisories := _message_of(placement, ADVISORIES):
        lines = tuple(TreeNode((Part(line),)) for line in advisories.split("\n"))
        yield TreeNode((Part("advisories", "yellow"),), lines)
    if conditions:
        yield TreeNode((Part("conditions"), *_conditions(conditions)))
    yield from _ending(placement)


def _pending_message(placement: Mapping[str, Any]) -> str:
    """Return the removals that wait for confirmation, with their digests. Empty: none."""
    return _message_of(placement, REMOVAL_PENDING_CONDITION)


def _message_of(placement: Mapping[str, Any], condition: str) -> str:
    """Return the message of a condition that is True, else an empty string."""
    conditions = (each for each in placement["conditions"] if each["type"] == condition)
    return next((str(each["message"]) for each in conditions if each["status"] == TRUE), "")


def _conditions(conditions: Sequence[Mapping[str, Any]]) -> Iterator[Part]:
    """Yield all conditions on one line: the names of the True ones, then every other one with its status and reason."""
    good = [condition["type"] for condition in conditions if condition["status"] == "True" and condition["current"]]
    if good:
        yield Part(f"{_GAP}{', '.join(good)} ")
        yield Part("True", "green")
    for condition in conditions:
        if condition["type"] not in good:
            yield from _condition(condition)


def _condition(condition: Mapping[str, Any]) -> Iterator[Part]:
    yield Part(_GAP)
    yield Part(condition["type"])
    yield Part(" ")
    yield Part(condition["status"], "red" if condition["status"] == "False" else "yellow")
    if not condition["current"]:
        yield Part(" of an earlier generation", "dim")
    elif condition["status"] != "True":
        yield Part(" ")
        yield Part(condition["reason"], kind=condition["type"])
        yield Part(f": {condition['message']}" if condition["message"] else "")


def _ending(document: Mapping[str, Any]) -> Iterator[TreeNode]:
    if document["deleting"]:
        yield TreeNode((Part("is being deleted", _STYLES["deleting"]), Part(_held(document))))


def _held(document: Mapping[str, Any]) -> str:
    return f", held by {', '.join(document['finalizers'])}" if document["finalizers"] else ""


def cluster_line(cluster: Mapping[str, Any], latest: int | None) -> tuple[Part, ...]:
    """Return the line about one cluster."""
    parts = [Part(cluster["cluster"], "bold"), *_state(cluster["state"], cluster["detail"])]
    if cluster["drifts"]:
        parts.append(Part(f"{_GAP}drifted: {format_count(cluster['drifts'], 'field')}", "yellow"))
    if cluster["diffs"]:
        parts.append(Part(f"{_GAP}differs: {format_count(cluster['diffs'], 'field')}", "yellow"))
    if cluster["upToDate"] is False:
        parts.append(Part(f"{_GAP}{_age(cluster, latest)}", "yellow"))
    return tuple(parts)


def _age(cluster: Mapping[str, Any], latest: int | None) -> str:
    return f"resource snapshot {cluster['binding']['resourceIndex']}, the latest is {latest}"


def _cluster(cluster: Mapping[str, Any], latest: int | None, *, everything: bool) -> TreeNode:
    children = [*_binding(cluster), *(_work(work, everything=everything) for work in cluster["works"])]
    return TreeNode(cluster_line(cluster, latest), tuple(children))


def _binding(cluster: Mapping[str, Any]) -> Iterator[TreeNode]:
    binding = cluster["binding"]
    if binding is None:
        return
    index = (
        "no resource snapshot yet"
        if binding["resourceIndex"] is None
        else f"resource snapshot {binding['resourceIndex']}"
    )
    age = {True: ", the latest", False: ", outdated", None: ""}[cluster["upToDate"]]
    parts = [Part("binding ", "dim"), Part(binding["name"]), Part(f"{_GAP}{binding['state']}, {index}{age}")]
    rollout = binding["rollout"]
    if (
        not cluster["healthy"]
        and rollout
        and rollout["message"]
        and (cluster["detail"] or "?") not in rollout["message"]
    ):
        parts.append(Part(f"{_GAP}{rollout['message']}", "dim"))
    condition = binding["condition"]
    below = (
        (TreeNode(tuple(_flush(_condition(condition)))),)
        if condition and condition["status"] != "True" and cluster["detail"] not in condition["message"]
        else ()
    )
    yield TreeNode(tuple(parts), (*below, *_ending(binding)))


def _flush(parts: Iterable[Part]) -> list[Part]:
    """Return the parts without the gap before the first one."""
    first, *others = parts
    return [replace(first, text=first.text.lstrip()), *others]


def _work(work: Mapping[str, Any], *, everything: bool) -> TreeNode:
    parts = [Part("Work ", "dim"), Part(work["name"])]
    if work["envelope"]:
        parts.append(Part(f"{_GAP}from {_envelope(work['envelope'])}", "dim"))
    if work["waitingForAgent"] and not work["deleting"]:
        reported = work["reportedGeneration"]
        since = "nothing reported yet" if reported is None else f"{reported} reported"
        parts.append(Part(f"{_GAP}waits for the agent", "yellow"))
        parts.append(Part(f": generation {work['generation']}, {since}"))
    else:
        parts += _conditions(work["conditions"])
    objects = work["objects"]
    visible = objects if everything else [item for item in objects if not _is_quiet(item)]
    below = [_object(item) for item in visible]
    if len(visible) < len(objects):
        below.append(TreeNode((Part(_quiet_objects([item for item in objects if _is_quiet(item)]), "green"),)))
    return TreeNode(tuple(parts), (*_ending(work), *below))


def _is_quiet(entry: Mapping[str, Any]) -> bool:
    return entry["state"] in _QUIET and not entry["drifts"] and not entry["diffs"]


def _quiet_objects(objects: Sequence[Mapping[str, Any]]) -> str:
    counts: dict[str, int] = {}
    for item in objects:
        counts[item["state"]] = counts.get(item["state"], 0) + 1
    return ", ".join(f"{format_count(number, 'object')} {state}" for state, number in counts.items())


def _envelope(envelope: Mapping[str, Any]) -> str:
    space = f"{envelope['namespace']}/" if envelope["namespace"] else ""
    return f"{envelope['type']} {space}{envelope['name']}"


def _object(entry: Mapping[str, Any]) -> TreeNode:
    state, message, reason = entry["state"], entry["message"], entry["reason"]
    suffix = f": {message}" if message else ""
    if state == ObjectState.FAILED:
        suffix = f" {reason}{suffix}"
    parts = [Part(title_of_object(entry)), Part(_GAP), Part(state, _STYLES.get(state, ""), STATE), Part(suffix)]
    if not entry["tracked"]:
        parts.append(Part(", its availability cannot be tracked", "dim"))
    for word, key in (("drifted", "drifts"), ("differs", "diffs")):
        if entry[key]:
            parts.append(Part(f"{_GAP}{word}: {_fields(entry[key])}", "yellow"))
    return TreeNode(tuple(parts))


def _fields(details: Sequence[Mapping[str, Any]]) -> str:
    """Return the number of fields, and the paths of the first ones."""
    paths = [item["path"] for item in details[:MOST_FIELDS]]
    more = ", …" if len(details) > len(paths) else ""
    return f"{format_count(len(details), 'field')} ({', '.join(paths)}{more})"


def _missing(missing: Sequence[Mapping[str, Any]], *, everything: bool) -> Iterator[TreeNode]:
    if not missing:
        return
    visible = missing if everything else missing[:MOST_MISSING]
    below = [TreeNode((Part(item["message"] or item["reason"]),)) for item in visible]
    if len(visible) < len(missing):
        below.append(TreeNode((Part(f"and {len(missing) - len(visible)} more", "dim"),)))
    yield TreeNode((Part(f"{format_count(len(missing), 'cluster')} wanted, not found", "yellow"),), tuple(below))


def _folded(clusters: Sequence[Mapping[str, Any]], latest: int | None) -> Iterator[TreeNode]:
    """Yield a line per state of the clusters that are not shown one by one, with the reason if they have one."""
    names: dict[tuple[str, str, str], list[str]] = {}
    for cluster in clusters:
        detail = cluster["detail"] if _is_told_in_one_line(cluster) else ""
        age = f"{_GAP}{_age(cluster, latest)}" if cluster["upToDate"] is False else ""
        names.setdefault((cluster["state"], detail, age), []).append(cluster["cluster"])
    for (state, detail, age), name in names.items():
        more = f" and {len(name) - MOST_NAMES} more" if len(name) > MOST_NAMES else ""
        shown_names = Part(f" ({', '.join(name[:MOST_NAMES])}{more})", "dim")
        reason = Part(f": {detail}" if detail else "")
        yield TreeNode(
            (
                Part(format_count(len(name), "cluster")),
                Part(" "),
                Part(state, _STYLES[state], STATE),
                shown_names,
                reason,
                Part(age, "yellow"),
            )
        )


def with_urls(node: TreeNode) -> TreeNode:
    """Return the tree with the URLs for the words of each line appended to the line."""
    urls = dict.fromkeys(link.url for part in node.parts for link in links_in(part.text, part.kind))
    parts = (*node.parts, *((Part(f"{_GAP}{','.join(urls)}", "dim"),) if urls else ()))
    return TreeNode(parts, tuple(map(with_urls, node.children)))


def plain_lines(node: TreeNode, *, ascii_only: bool = False) -> Iterator[str]:
    """Yield the tree as text, one line per node.

    Args:
        node: The root.
        ascii_only: Draw with letters that every terminal has.
    """
    yield printable(node.text)
    yield from _plain(node.children, ("|   ", "|-- ", "`-- ") if ascii_only else ("│   ", "├── ", "└── "), "")


def _plain(nodes: Sequence[TreeNode], signs: tuple[str, str, str], before: str) -> Iterator[str]:
    for position, node in enumerate(nodes):
        last = position == len(nodes) - 1
        yield before + (signs[2] if last else signs[1]) + printable(node.text)
        yield from _plain(node.children, signs, before + ("    " if last else signs[0]))


def rich_tree(node: TreeNode) -> "Tree":
    """Return the tree for a terminal."""
    from rich.tree import Tree

    root = Tree(_rich_text(node), guide_style="dim")
    _grow(root, node)
    return root


def _grow(branch: "Tree", node: TreeNode) -> None:
    for child in node.children:
        _grow(branch.add(_rich_text(child)), child)


def _rich_text(node: TreeNode) -> Any:
    from rich.text import Text

    line = Text()
    for part in node.parts:
        line.append_text(with_links(Text(printable(part.text), part.style), part.kind))
    return line


class TreeChangeLog:
    """Changes of a tree since the last call, one line each: for a log instead of a terminal."""

    def __init__(self) -> None:
        self._entries_before: dict[str, str] = {}

    def lines(self, tree: JsonObject, *, everything: bool = False) -> list[str]:
        """Return the new lines in the order of the tree, then those of removed items.

        Args:
            tree: Result of `scorer.rollout.views.tree.placement_tree`.
            everything: Also report Works and objects, not only clusters.
        """
        entries = dict(_entries(tree, everything=everything))
        lines = [text for key, text in entries.items() if self._entries_before.get(key) != text]
        lines += [f"{key}{_GAP}gone" for key in self._entries_before if key not in entries]
        self._entries_before = entries
        return [printable(line) for line in lines]


def _entries(tree: JsonObject, *, everything: bool) -> Iterator[tuple[str, str]]:
    """Yield the key and the text of every line that can change. A cluster may have several bindings, old and new."""
    placement = tree["placement"]
    yield placement["ref"], TreeNode(placement_line(placement)).text
    if missing := tree["missing"]:
        words = "; ".join(item["message"] for item in missing[:MOST_MISSING])
        yield "wanted, not found", f"wanted, not found{_GAP}{words}"
    for cluster in tree["clusters"]:
        name, binding = cluster["cluster"], cluster["binding"]
        key = f"{name}{_GAP}binding {binding['name']}" if binding else f"{name}{_GAP}{cluster['detail']}"
        yield key, TreeNode(cluster_line(cluster, placement["resourceIndex"])).text
        for work in cluster["works"] if everything else ():
            above = f"{key}{_GAP}Work {work['name']}"
            yield above, f"{name}{_GAP}{_work({**work, 'objects': []}, everything=True).text}"
            for item in work["objects"]:
                title = f"{above}{_GAP}{title_of_object(item)} #{item['ordinal']}"
                yield title, f"{name}{_GAP}{_object(item).text}"
