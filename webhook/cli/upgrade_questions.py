"""What files say of an upgrade that need not be on the hub, as ``/v1/upgrade/plan`` asks for it."""

from collections.abc import Iterable
from typing import Final

from scorer.api import kinds
from scorer.api.kinds import Kind
from scorer.api.meta import JsonObject
from webhook.cli.documents import Loaded
from webhook.cli.failure import UserError

_LISTS: Final = {
    kinds.MAINTENANCE_WINDOW: "windows",
    kinds.VERSION_CATALOG: "catalogs",
    kinds.MEMBER_CLUSTER: "members",
}


def plan_question(name: str, loaded: Iterable[Loaded]) -> JsonObject:
    """Return the body of the question.

    Args:
        name: Of a run on the hub; empty: it is in the files.
        loaded: What the files say.

    Raises:
        UserError: There is no run, more than one, or something that a plan has no use for.
    """
    found: dict[Kind, list[JsonObject]] = {}
    for each in loaded:
        found.setdefault(each.kind, []).append(each.document)
    question: JsonObject = {}
    for kind, documents in found.items():
        if kind in _LISTS:
            question[_LISTS[kind]] = documents
        elif kind not in (kinds.UPGRADE_RUN, kinds.UPGRADE_STRATEGY):
            raise UserError(f"a plan of an upgrade has no use for a {kind.kind}")
    runs = [*([name] if name else []), *found.get(kinds.UPGRADE_RUN, ())]
    if len(runs) != 1:
        raise UserError(f"there are {len(runs)} upgrade runs, by name and in the files: a plan is of one")
    strategies = found.get(kinds.UPGRADE_STRATEGY, [])
    if len(strategies) > 1:
        raise UserError(f"there are {len(strategies)} strategies in the files: a run follows one")
    return {**question, "run": runs[0], **({"strategy": strategies[0]} if strategies else {})}
