"""Rendered objects of a hub of files, for ``render`` and for plans in Markdown."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from scorer.api.family import FAMILY_OF, PLACEMENTS, placement_ref
from scorer.api.unstructured.json_object import JsonObject
from scorer.what_if.changes import apply_changes
from scorer.what_if.rendering import Contents, future_contents
from scorer.what_if.state import ObjectKey
from webhook.answers.proposal import Audience, Deleted, Proposal, ProposalError, ProposedObject, judge_proposal
from webhook.answers.rendering import RenderScope, render
from webhook.cli.errors import UserError
from webhook.cli.files.documents import Loaded
from webhook.cli.offline.admission import offline_context
from webhook.cli.offline.plan import ADMINISTRATOR, OVERRIDES, Places, PlannedLosses
from webhook.cli.offline.stored_files import StoredFiles, store
from webhook.cli.options.verdicts import refuse_denied

_RENDERED: Final = (*PLACEMENTS, *OVERRIDES)
"""Kinds that admission evaluates if the files are the hub itself."""


@dataclass(frozen=True, slots=True)
class RenderQuestion:
    """The part of a hub to render, and the objects that are deleted.

    Args:
        clusters: Only these member clusters. Empty: all.
        placements: Only these placements, as kind, namespace and name. Empty: all.
        unchanged: Whether objects that do not change are requested.
        deleted: Identities of the deleted objects, with the option as their source.
    """

    clusters: Sequence[str] = ()
    placements: Sequence[tuple[str, str, str]] = ()
    unchanged: bool = False
    deleted: Sequence[Loaded] = ()

    @property
    def scope(self) -> RenderScope:
        """The scope of the answer."""
        return RenderScope(self.clusters or None, self.unchanged)

    @property
    def keys(self) -> list[ObjectKey] | None:
        """The keys of the placements, or None for all placements."""
        keys = [ObjectKey(*FAMILY_OF[kind].placement.group_kind, name, home) for kind, home, name in self.placements]
        return keys or None

    def places(self, given: Sequence[Loaded]) -> Places:
        """Return the translation of pointers into the user's arguments."""
        references = [str(placement_ref(name, home)) for _, home, name in self.placements]
        return Places(given, PlannedLosses(deleted=self.deleted), clusters=self.clusters, placements=references)

    def members(self) -> JsonObject:
        """Return the members of a request body."""
        members: JsonObject = {"unchanged": self.unchanged, "deleted": [item.reference for item in self.deleted]}
        if self.clusters:
            members["clusters"] = list(self.clusters)
        if self.placements:
            members["placements"] = [
                {"kind": kind, "name": name, **({"namespace": home} if home else {})}
                for kind, home, name in self.placements
            ]
        return members


def render_files(
    objects: Sequence[Loaded],
    question: RenderQuestion,
    *,
    now: datetime | None,
    clock: datetime,
    base: Sequence[Loaded] | None = None,
) -> tuple[JsonObject, list[Loaded]]:
    """Render files that are both the hub and the proposed changes.

    Args:
        objects: The objects of the files.
        question: The part to render.
        now: The instant of the evaluation. None: unset, see `webhook.cli.offline.stored_files.store`.
        clock: The current time.
        base: The objects of other files, to compare with. None means the bindings of the files.

    Returns:
        The answer, and the objects that its verdicts of admission are about, in that order.

    Raises:
        UserError: The objects do not fit together. Lists every error.
    """
    others, proposal, adopted = _adopted(objects)
    before = None if base is None else _settled_contents(base, now=now, clock=clock)
    stored_files = store(others, now=now, clock=clock)
    return _render(stored_files, objects, proposal, question, question.places(()), before), adopted


def render_changes(
    hub: Sequence[Loaded],
    changed_objects: Sequence[Loaded],
    question: RenderQuestion,
    *,
    now: datetime | None,
    clock: datetime,
    base: Sequence[Loaded] | None = None,
) -> JsonObject:
    """Return the objects after *changed_objects* and deletions. For the other arguments, see `render_files`."""
    objects = [ProposedObject(item.kind, item.document) for item in changed_objects]
    proposal = Proposal(objects, deleted=[Deleted(**item.reference) for item in question.deleted])
    before = None if base is None else _settled_contents(base, now=now, clock=clock)
    stored_files = store(hub, now=now, clock=clock)
    return _render(stored_files, hub, proposal, question, question.places(changed_objects), before)


def _adopted(objects: Sequence[Loaded]) -> tuple[list[Loaded], Proposal, list[Loaded]]:
    """Return the objects that admission does not evaluate, a proposal that adopts the others, and the others."""
    adopted = [item for item in objects if item.kind in _RENDERED]
    others = [item for item in objects if item.kind not in _RENDERED]
    return others, Proposal(adopted=[ProposedObject(item.kind, item.document) for item in adopted]), adopted


def _render(
    stored_files: StoredFiles,
    objects: Sequence[Loaded],
    proposal: Proposal,
    question: RenderQuestion,
    places: Places,
    before: Contents | None,
) -> JsonObject:
    context = offline_context(objects, stored_files.now, user=ADMINISTRATOR)
    try:
        audience = Audience(only=question.keys)
        return dict(render(stored_files.hub, proposal, context, audience, scope=question.scope, before=before))
    except ProposalError as error:
        raise UserError(
            places.command_line_mistake(pointer, detail) for pointer, _, detail in error.mistakes
        ) from error


def _settled_contents(objects: Sequence[Loaded], *, now: datetime | None, clock: datetime) -> Contents:
    """Return the content of the placements in files once everything is rolled out.

    Raises:
        UserError: The objects do not fit together, or admission refuses a placement or an override.
    """
    others, proposal, adopted = _adopted(objects)
    stored_files = store(others, now=now, clock=clock)
    context = offline_context(objects, stored_files.now, user=ADMINISTRATOR)
    judged = judge_proposal(stored_files.hub, proposal, context)
    refuse_denied(judged.admission, adopted)
    return future_contents(apply_changes(judged.state, judged.changes))
