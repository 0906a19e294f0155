"""Plans on files, by the engine and the admission of a hub: for ``plan`` and for the tests of placements."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from scorer.api.family import FAMILIES, PLACEMENTS
from scorer.api.kinds import (
    APPLIED_WORK,
    INTERNAL_MEMBER_CLUSTER,
    PLACEMENT_STATUS,
    UPGRADE_REQUEST,
    UPGRADE_RUN,
    WORK,
)
from scorer.api.unstructured.documents import status_of
from scorer.api.unstructured.json_object import JsonObject
from scorer.what_if.state import UNJUDGED, ObjectKey
from webhook.access.user import UserInfo
from webhook.answers.proposal import EVERYBODY, RUNS, Audience, Deleted, Proposal, ProposalError, ProposedObject, plan
from webhook.cli.errors import UserError
from webhook.cli.files.documents import Loaded
from webhook.cli.offline.admission import offline_context
from webhook.cli.offline.stored_files import StoredFiles, store
from webhook.settings.admission import AdmissionSettings

_POINTER: Final = re.compile(r"(?<= in )(/(?:objects|deleted|lost|drained)(?:/[0-9]+)?)$", re.ASCII)
"""The pointer to the duplicate in the text of an error."""
_MACHINE_WRITTEN: Final = frozenset(
    kind.group_kind for kind in (APPLIED_WORK, INTERNAL_MEMBER_CLUSTER, PLACEMENT_STATUS, UPGRADE_REQUEST, WORK)
)
"""Kinds that only controllers write. If the files are the hub, objects of these kinds are not proposed changes."""
OVERRIDES: Final = tuple(family.override for family in FAMILIES)
ADMINISTRATOR: Final = UserInfo("harbormaster:plan", frozenset({"system:masters", "system:authenticated"}))


@dataclass(frozen=True, slots=True)
class PlannedLosses:
    """Member clusters that fail or are drained, and objects that are deleted.

    Args:
        lost: Members that are lost.
        drained: Members that are tainted and drained.
        deleted: Identities of the deleted objects, with the option as their source.
    """

    lost: Sequence[str] = ()
    drained: Sequence[str] = ()
    deleted: Sequence[Loaded] = ()


def plan_files(
    objects: Sequence[Loaded],
    fate: PlannedLosses,
    *,
    now: datetime | None,
    clock: datetime,
    only: ObjectKey | None = None,
    settings: AdmissionSettings | None = None,
) -> tuple[JsonObject, list[Loaded]]:
    """Plan on files that are both the hub and the proposed changes.

    Args:
        objects: The objects of the files.
        fate: Failed and drained members.
        now: The instant of the evaluation. None: unset, see `webhook.cli.offline.stored_files.store`.
        clock: The current time.
        only: The run to plan. None means all placements and all unfinished runs.
        settings: The admission settings. None means the defaults.

    Returns:
        The plan, and the objects that its verdicts of admission are about, in that order.

    Raises:
        UserError: The objects do not fit together. Lists every error.
    """
    planned = [item for item in objects if is_planned(item)]
    others = [item for item in objects if not is_planned(item)]
    stored_files = store(others, now=now, clock=clock)
    proposed = [ProposedObject(item.kind, item.document) for item in planned]
    proposal = Proposal(adopted=proposed, lost=fate.lost, drained=fate.drained)
    document = _plan(stored_files, objects, proposal, Places((), fate, only), settings)
    unjudged = Counter(item.kind.kind for item in others if item.kind.group_kind in UNJUDGED - _MACHINE_WRITTEN)
    if unjudged:
        not_judged = [{"kind": kind, "count": count} for kind, count in sorted(unjudged.items())]
        document |= {"complete": False, "notJudged": not_judged}
    return document, planned


def is_planned(item: Loaded) -> bool:
    """Return whether an object in files that are also the hub is a proposed change.

    Proposed changes are placements, overrides, staged update runs, and upgrade runs without a status.
    """
    return item.kind in (*PLACEMENTS, *OVERRIDES, *RUNS) or (item.kind == UPGRADE_RUN and not status_of(item.document))


def plan_changes(
    base: Sequence[Loaded],
    changed_objects: Sequence[Loaded],
    fate: PlannedLosses,
    *,
    now: datetime | None,
    clock: datetime,
    only: ObjectKey | None = None,
    settings: AdmissionSettings | None = None,
    settles: bool = True,
) -> JsonObject:
    """Return the plan of applying *changed_objects* to a hub with *base*.

    For *settles*, see `Proposal`. For the other arguments, see `plan_files`.
    """
    stored_files = store(base, now=now, clock=clock)
    objects = [ProposedObject(item.kind, item.document) for item in changed_objects]
    proposal = Proposal(
        objects,
        deleted=[Deleted(**item.reference) for item in fate.deleted],
        lost=fate.lost,
        drained=fate.drained,
        settles=settles,
    )
    return _plan(stored_files, base, proposal, Places(changed_objects, fate, only), settings)


def _plan(
    stored_files: StoredFiles,
    objects: Sequence[Loaded],
    proposal: Proposal,
    places: "Places",
    settings: AdmissionSettings | None,
) -> JsonObject:
    context = offline_context(objects, stored_files.now, user=ADMINISTRATOR, settings=settings)
    audience = EVERYBODY if places.named is None else Audience(only=(), runs=(places.named,))
    try:
        return dict(plan(stored_files.hub, proposal, context, audience))
    except ProposalError as error:
        raise UserError(
            places.command_line_mistake(pointer, detail) for pointer, _, detail in error.mistakes
        ) from error


class Places(NamedTuple):
    """Translates the JSON Pointers of a proposal into the user's arguments and files.

    Args:
        given: The proposed objects.
        fate: The members and objects that options name.
        named: The run that ``--run`` names, None if it is not given.
        clusters: The clusters that ``--cluster`` names.
        placements: The placements that ``--placement`` names.
    """

    given: Sequence[Loaded]
    fate: PlannedLosses = PlannedLosses()
    named: ObjectKey | None = None
    clusters: Sequence[str] = ()
    placements: Sequence[str] = ()

    def command_line_mistake(self, pointer: str, detail: str) -> str:
        """Return an error as one about the command line and the files."""
        return f"{self._place(pointer)}: {_POINTER.sub(lambda match: self._place(match[1]), detail)}"

    def _place(self, pointer: str) -> str:
        _, member, *rest = pointer.split("/")
        at = int(rest[0]) if rest and rest[0].isdecimal() else -1
        if member == "objects":
            if not 0 <= at < len(self.given):
                return "-f"
            return ": ".join(filter(None, (str(self.given[at].source), ".".join(rest[1:]))))
        if member == "runs" and self.named is not None:
            return f"--run {self.named.name}"
        if member == "deleted" and 0 <= at < len(self.fate.deleted):
            return str(self.fate.deleted[at].source)
        option, names = {
            "lost": ("--lost", self.fate.lost),
            "drained": ("--drained", self.fate.drained),
            "clusters": ("--cluster", self.clusters),
            "placements": ("--placement", self.placements),
        }.get(member, ("", ()))
        return f"{option} {names[at]}" if 0 <= at < len(names) else pointer
