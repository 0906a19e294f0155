"""The request of ``/v1/upgrade/plan``, made from files.

Runs, strategies, windows and members in the files need not exist on the hub.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from scorer.api import kinds
from scorer.api.kinds import Kind
from scorer.api.unstructured.documents import name_of, text_at
from scorer.api.unstructured.json_object import JsonObject
from webhook.cli.errors import UserError
from webhook.cli.files.documents import Loaded

_LISTS: Final = {
    kinds.MAINTENANCE_WINDOW: "windows",
    kinds.VERSION_CATALOG: "catalogs",
    kinds.MEMBER_CLUSTER: "members",
}
PLANNED: Final = frozenset({*_LISTS, kinds.UPGRADE_RUN, kinds.UPGRADE_STRATEGY})
"""The kinds that a plan depends on."""


def plan_question(name: str, objects: Iterable[Loaded], follows: str = "") -> tuple[JsonObject, list[str]]:
    """Return the body of the question, and notes on how it was composed.

    Args:
        name: Name of the run, in the files or else on the hub. If empty, the only one in the files.
        objects: The objects of the files.
        follows: The strategy that a run of the hub names, empty if none.

    Raises:
        UserError: No run is named and the files do not have exactly one, or the strategy is ambiguous.
    """
    by_kind: dict[Kind, list[JsonObject]] = {}
    for item in objects:
        by_kind.setdefault(item.kind, []).append(item.document)
    run = _run(name, by_kind.get(kinds.UPGRADE_RUN, ()))
    question: JsonObject = {_LISTS[kind]: documents for kind, documents in by_kind.items() if kind in _LISTS}
    question["run"] = run
    notes = []
    strategies = by_kind.get(kinds.UPGRADE_STRATEGY, ())
    strategy = _of_hub_run(follows, strategies) if isinstance(run, str) else _of_file(run, strategies)
    if strategy is not None:
        question["strategy"] = strategy
        if isinstance(run, str) and name_of(strategy) != follows:
            instead = f"in place of {follows}" if follows else "which it does not name"
            notes.append(f"the run follows strategy {name_of(strategy)} of the files, {instead}")
    if unused_words := _unused(run, strategy, by_kind):
        notes.append(f"not used for this plan: {unused_words}")
    return question, notes


def _run(name: str, runs: Sequence[JsonObject]) -> JsonObject | str:
    if name:
        return _find_by_name(name, runs) or name
    if not runs:
        raise UserError(
            "no ClusterUpgradeRun in the files. To plan a run of the hub: harbormaster upgrade plan RUN -f FILE"
        )
    if len(runs) > 1:
        names = ", ".join(map(name_of, runs))
        raise UserError(f"{len(runs)} upgrade runs in the files: name one of {names}")
    return runs[0]


def _of_hub_run(follows: str, strategies: Sequence[JsonObject]) -> JsonObject | None:
    """Return the strategy of the files for a run of the hub, or None.

    A strategy that the run names has priority. A single other one replaces the run's strategy.

    Raises:
        UserError: There are several, and the run refers to none of them.
    """
    if (reference := _find_by_name(follows, strategies)) is not None:
        return reference
    if len(strategies) > 1:
        raise UserError(f"{len(strategies)} strategies in the files, but the run names none of them: pass only one")
    return strategies[0] if strategies else None


def _of_file(run: JsonObject, strategies: Sequence[JsonObject]) -> JsonObject | None:
    """Return the strategy of the files that a run of the files names, or None."""
    return _find_by_name(text_at(run, "spec", "strategyRef", "name"), strategies)


def _find_by_name(name: str, documents: Sequence[JsonObject]) -> JsonObject | None:
    return next((document for document in documents if name_of(document) == name), None)


def _unused(run: JsonObject | str, strategy: JsonObject | None, by_kind: dict[Kind, list[JsonObject]]) -> str:
    counts = Counter(
        kind.kind
        for kind, documents in by_kind.items()
        for document in documents
        if kind not in _LISTS and document is not run and document is not strategy
    )
    return ", ".join(f"{kind} ({count})" for kind, count in sorted(counts.items()))
