"""Refusals of writes that remove content from clusters without confirmation (RC-19, RC-20).

`webhook.admission.removal_effects` reads the cache. Before a write is refused, the placements are read from the store,
because a confirmation may be newer than the cache. A refusal names only placements that the author may read.

Source: docs/specifications/removal.md 10.
"""

import asyncio
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from scorer.api.family import FAMILY_OF
from scorer.api.kinds import KINDS, Kind, group_kind
from scorer.api.meta import JsonObject
from scorer.api.unstructured.documents import name_of, namespace_of, uid_of
from scorer.api.values.quoting import format_count, printable, quote
from scorer.rollout.confirmation.digests import REMOVAL_NOT_CONFIRMED, ConfirmableGroup
from webhook.access.rights import Access
from webhook.admission.judge import Judgement, as_warnings
from webhook.admission.removal_effects import PlacementLoss, removal_losses
from webhook.admission.rights import Rights
from webhook.kube.ports import Key, StoreError
from webhook.validation.framework.context import Context

RULE: Final = "RC-19"
MOST_READ: Final = 20
"""Maximum number of placements that are read and named. Others are only counted."""
_LONGEST_MESSAGE: Final = 4096


class StoredObjects(Protocol):
    """The hub itself."""

    async def get(self, kind: Kind, key: Key) -> JsonObject:
        """Return the stored object. Raises `StoreError`, such as `NotFoundError`."""
        ...


@dataclass(frozen=True, slots=True)
class RemovalVerdict:
    """The content that a write removes from clusters.

    Args:
        message: Reason why it is refused. Empty: it is allowed.
        warnings: Warnings for the author.
        causes: Machine-readable causes.
    """

    message: str = ""
    warnings: tuple[str, ...] = ()
    causes: tuple[JsonObject, ...] = ()

    def applied_to(self, judgement: Judgement) -> Judgement:
        """Return the verdict on the write. A refusal for another reason is unchanged."""
        if not judgement.allowed:
            return judgement
        if self.message:
            return Judgement(
                allowed=False,
                code=403,
                reason="Forbidden",
                message=self.message,
                warnings=judgement.warnings,
                rule=RULE,
                removals=self.causes,
            )
        if not self.warnings:
            return judgement
        return replace(judgement, warnings=as_warnings([*self.warnings, *judgement.warnings]))


NOTHING_REMOVED: Final = RemovalVerdict()


def removal_verdict(request: JsonObject, losses: Sequence[PlacementLoss], readable: Iterable[str]) -> RemovalVerdict:
    """Return the verdict on the removals of a write.

    Args:
        request: Request of the review.
        losses: Content that placements lose by it.
        readable: Uids of the placements that the author may read.
    """
    if not losses:
        return NOTHING_REMOVED
    shown = set(readable)
    named = [loss for loss in losses if uid_of(loss.owner) in shown]
    refused = [loss for loss in losses if loss.pending]
    if not refused:
        return RemovalVerdict(warnings=tuple(map(_warning, named)))
    texts = [_effect(loss) for loss in named if loss.pending]
    if hidden := sum(loss not in named for loss in refused):
        objects = sum(item.objects for loss in refused if loss not in named for item in loss.pending)
        cause = (
            "that you may not read (the owner must confirm)"
            if len(losses) <= MOST_READ
            else f"that you may not read or that are beyond the first {MOST_READ}"
        )
        texts.append(f"{format_count(objects, 'object')} of {format_count(hidden, 'placement')} {cause}")
    commands = _commands(request, [loss for loss in named if loss.pending])
    then = f". To continue: {' && '.join(commands)}, then repeat the request" if commands else ""
    effect = "; ".join(texts)
    message = printable(
        f"removes content from member clusters without confirmation: {effect}"[:_LONGEST_MESSAGE] + then
    )
    return RemovalVerdict(message, causes=tuple(_causes(named)))


def _effect(loss: PlacementLoss) -> str:
    groups = [f"{_removals_text(group, loss)} (digest {group.digest})" for group in loss.groups]
    extent = f" on {format_count(len(loss.clusters), 'cluster')}" if loss.clusters else ""
    return f"{loss.ref} loses {', '.join(groups)}{extent}"


def _removals_text(group: ConfirmableGroup, loss: PlacementLoss) -> str:
    """Return the removals that a digest confirms, with the other content that they delete on the members."""
    contents = loss.contents.get(group.digest)
    return f"{group}, {contents}" if contents else str(group)


def _warning(loss: PlacementLoss) -> str:
    extent = format_count(len(loss.clusters), "cluster")
    if loss.orphaned:
        return f"the content of {loss.ref} remains on {extent}, unmanaged, when its namespace is deleted"
    return f"removes content from {extent}: {loss.ref} loses {', '.join(map(str, loss.warned))}"


def _causes(losses: Iterable[PlacementLoss]) -> Iterable[JsonObject]:
    for loss in losses:
        for group in loss.groups:
            yield {
                "reason": REMOVAL_NOT_CONFIRMED,
                "field": loss.ref,
                "message": f"{group.digest} {_removals_text(group, loss)}",
            }


def _commands(request: JsonObject, losses: Sequence[PlacementLoss]) -> list[str]:
    """Return the commands that confirm: the object that is deleted, or the digests of each placement."""
    old = request.get("oldObject") or {}
    if losses and request.get("operation") == "DELETE" and request.get("name"):
        group, kind = group_kind(old)
        word = FAMILY_OF[kind].ref(old) if kind in FAMILY_OF else f"{_word(group, kind)}/{name_of(old)}"
        space = f" -n {namespace_of(old)}" if namespace_of(old) and kind not in FAMILY_OF else ""
        return [shlex.join(["harbormaster", "confirm", str(word)]) + space]
    return [
        f"harbormaster confirm {loss.ref} --digest {','.join(group.digest for group in loss.groups)}" for loss in losses
    ]


def _word(group: str, kind: str) -> str:
    kind_of_group = KINDS.get((group, kind))
    return kind_of_group.resource if kind_of_group is not None and kind_of_group.group else kind.lower()


def lacking_right(alternatives: Sequence[Sequence[Access]], context: Context, reason: str = "") -> RemovalVerdict:
    """Return the refusal of a confirmation whose author lacks the rights."""
    needed = " or ".join(" and ".join(map(str, accesses)) for accesses in alternatives)
    return RemovalVerdict(printable(f"{quote(context.user.username)} may not {needed}{reason}"))


class RemovalReviews:
    """Reviews what writes remove from clusters.

    Args:
        rights: Reviews the rights of the author, such as to read a placement.
        hub: Hub that placements are read from again.
    """

    def __init__(self, rights: Rights, hub: StoredObjects) -> None:
        self._rights = rights
        self._hub = hub

    async def review_confirmation(self, alternatives: Sequence[Sequence[Access]], context: Context) -> RemovalVerdict:
        """Return a refusal unless the author has all rights of one alternative."""
        reason = ""
        for accesses in alternatives:
            reviewed = await self._rights.review(context.user, accesses)
            if reviewed.is_undisputed:
                return NOTHING_REMOVED
            reason = reviewed.unanswered or reason
        return lacking_right(alternatives, context, f": {reason}" if reason else "")

    async def review(self, request: JsonObject, losses: Sequence[PlacementLoss], context: Context) -> RemovalVerdict:
        """Return the verdict on the removals of a write.

        Args:
            request: Request of the review.
            losses: Content that placements lose by it, according to the cache.
            context: Inputs of the rules, including the author.
        """
        if any(loss.pending for loss in losses):
            owners = await asyncio.gather(*(self._stored(loss.owner, request) for loss in losses[:MOST_READ]))
            losses = removal_losses(request, context, {uid_of(owner): owner for owner in owners})
        questions = [(loss, _reading(loss.owner)) for loss in losses[:MOST_READ]]
        reviewed = await self._rights.review(context.user, [access for _, access in questions])
        hidden = set(reviewed.denied)
        readable = [] if reviewed.unanswered else [loss for loss, access in questions if access not in hidden]
        return removal_verdict(request, losses, [uid_of(loss.owner) for loss in readable])

    async def _stored(self, owner: JsonObject, request: JsonObject) -> JsonObject:
        """Return a placement as it is stored, or *owner* if it cannot be read or is the object of the review itself."""
        if uid_of(owner) == uid_of(request.get("object") or request.get("oldObject") or {}):
            return owner
        try:
            return await self._hub.get(_kind(owner), Key(name_of(owner), namespace_of(owner)))
        except StoreError:
            return owner


def _reading(owner: JsonObject) -> Access:
    kind = _kind(owner)
    return Access("get", kind.group, kind.plural, name_of(owner), namespace_of(owner))


def _kind(owner: JsonObject) -> Kind:
    return KINDS[group_kind(owner)]
