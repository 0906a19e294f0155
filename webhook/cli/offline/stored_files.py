"""The hub of a plan, made of the objects in files."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from scorer.api import kinds
from scorer.api.family import PLACEMENTS
from scorer.fleet import Fleet
from webhook.admission.documents import DocumentSet
from webhook.answers.proposal import OVERRIDE_KINDS, PLANNED_KINDS
from webhook.cli.errors import UserError
from webhook.cli.files.documents import Loaded
from webhook.cli.offline.hub import READ_KINDS, newest_heartbeat, played, read_member, shape_mistakes


@dataclass(frozen=True, slots=True)
class StoredFiles:
    """The objects of files, as a hub would store them.

    Args:
        hub: The objects. Members that have never reported are simulated.
        now: The instant of the evaluation.
    """

    hub: DocumentSet
    now: datetime


def store(objects: Sequence[Loaded], *, now: datetime | None, clock: datetime) -> StoredFiles:
    """Return the hub that *objects* would make, without admission.

    Args:
        objects: The objects of the files.
        now: The instant of the evaluation. None means the newest heartbeat among *objects*, else *clock*.
        clock: The current time.

    Raises:
        UserError: An object that decisions depend on is malformed. Lists every error.
    """
    problems = [line for item in objects if item.kind in (*READ_KINDS, *PLACEMENTS) for line in shape_mistakes(item)]
    if problems:
        raise UserError(problems)
    instant = now or newest_heartbeat(item.document for item in objects if item.kind == kinds.MEMBER_CLUSTER) or clock
    documents, members = [], []
    for item in objects:
        document = item.document
        if item.kind == kinds.MEMBER_CLUSTER:
            document = played(item, instant)
            members.append(read_member(item, instant))
        documents.append(document)
    complete_kinds = set(PLANNED_KINDS) - OVERRIDE_KINDS  # bindings of a dump may name overrides that were not dumped
    return StoredFiles(DocumentSet.of(documents, Fleet.of(members), complete_kinds), instant)
