"""Dry-run plans over the current state of the hub: ``/v1/plan`` and ``/v1/render``.

A plan works on a copy of the state at one moment, which is cheap to take. Judging and planning run in a thread, one
plan at a time, so that a large plan delays only other plans.

Source: docs/specifications/scheduling.md 22.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeVar

from scorer.api.kinds import KINDS, MEMBER_CLUSTER, Kind
from scorer.api.meta import JsonObject
from scorer.rollout.selection.exclusions import TRIMMED_AT_HOME
from scorer.what_if.state import FIELDS, ObjectKey
from webhook.access.ports import NotReviewedError
from webhook.access.rights import Reviewed
from webhook.access.user import UserInfo
from webhook.admission.authorization import is_enforced
from webhook.admission.cached import ADMISSION_KINDS
from webhook.admission.documents import DocumentSet
from webhook.admission.rights import Rights
from webhook.answers.one_at_a_time import OneAtATime
from webhook.answers.plan_answer import Plan, PlanAnswer
from webhook.answers.proposal import (
    CLUSTER_WIDE,
    PLANNED_IF_THERE,
    PLANNED_KINDS,
    Audience,
    Misfit,
    Proposal,
    ProposalError,
    plan,
    stored,
)
from webhook.answers.rendering import RenderAnswer, RenderScope, render
from webhook.answers.upgrade_plans import LONGEST_SECONDS
from webhook.kube.cache.informer import Cache
from webhook.kube.ports import Key
from webhook.runtime.clock import patience
from webhook.validation.framework.context import Context, UnknownStateError
from webhook.validation.member_cluster import INTERNAL_SERVICE_EXPORT

MOST_RIGHTS: Final = 1000
"""Maximum number of the author's rights that are reviewed for one plan."""
_CLUSTER_WIDE: Final = frozenset(kind.group_kind for kind in CLUSTER_WIDE)
_AnswerT = TypeVar("_AnswerT")


class HubPlanner:
    """Plans over a cache, without writing anything.

    Args:
        cache: The hub's objects. The kinds that plans depend on are added to its watches.
        admission: Returns the inputs of admission rules.
        rights: Reviews the rights of authors.
        now: The clock.
    """

    def __init__(
        self, cache: Cache, admission: Callable[[], Context], rights: Rights, now: Callable[[], datetime]
    ) -> None:
        self._cache = cache
        self._admission = admission
        self._rights = rights
        self._now = now
        self._plans = OneAtATime()
        cache.require(PLANNED_KINDS)
        cache.watch_if_allowed(PLANNED_IF_THERE)

    async def plan(self, proposal: Proposal, user: UserInfo, audience: Audience) -> PlanAnswer:
        """Return the plan of a proposal, with the revision of the fleet that it is for.

        Args:
            proposal: The changes.
            user: The author.
            audience: Objects that the author may see.

        Raises:
            webhook.answers.proposal.ProposalError: The proposal does not fit the hub.
            NotReviewedError: The user's rights cannot be reviewed, and the settings require that.
            PlannerBusyError: Too many other plans are waiting, or they take too long.
            DeadlineExceededError: The plans of upgrade runs take too long.
        """
        document, revision = await self._answer(_plan, proposal, user, audience)
        return {**document, "fleetRevision": revision}

    async def render(self, proposal: Proposal, user: UserInfo, audience: Audience, scope: RenderScope) -> RenderAnswer:
        """Return the objects of placements before and after a proposal. The other arguments are those of `plan`.

        Raises:
            webhook.answers.proposal.ProposalError: The proposal does not fit the hub, or the answer would be too large.
            NotReviewedError: See `plan`.
            PlannerBusyError: See `plan`.
        """
        function = partial(render, scope=scope)
        document, revision = await self._answer(function, proposal, user, audience)
        return {**document, "fleetRevision": revision}

    def content_kinds(self) -> frozenset[Kind]:
        """Return the kinds that placements may select, if the cache holds their selectable objects unabridged."""
        kinds = {**self._admission().kinds.custom, **KINDS}
        return frozenset(
            kind
            for kind in kinds.values()
            if kind.group_kind not in FIELDS
            and kind != MEMBER_CLUSTER
            and (self._cache.holds_whole(kind) or (kind.group_kind in TRIMMED_AT_HOME and self._cache.watches(kind)))
        )

    async def _answer(
        self,
        function: Callable[..., _AnswerT],
        proposal: Proposal,
        user: UserInfo,
        audience: Audience,
    ) -> tuple[_AnswerT, str]:
        """Return the answer of *function* to a proposal, with the revision of the fleet that it is for."""
        # A team may have any number of accounts in its namespace.
        caller = f"namespace {audience.namespace}" if audience.namespace else f"user {user.username}"
        async with self._plans.acquire(caller):
            context = replace(self._admission().with_user(user), now=self._now().replace(microsecond=0))
            # Both before the first await: the watch continues while rights are reviewed, and the answer must have the
            # revision that it was computed from.
            hub, revision = self._hub(context), str(self._cache.fleet.revision)
            if audience.namespace:
                hub = hub.within(audience.namespace, _namespaced(context), _CLUSTER_WIDE)
            refused = frozenset(self._cache.unread())
            unread = [kind for kind in PLANNED_IF_THERE if kind.resource in refused]
            audience = replace(audience, kinds=frozenset(audience.kinds).difference(unread))
            reviews = await _reviews(proposal, context, hub, self._rights, audience)
            return await asyncio.to_thread(function, hub, proposal, context, audience, reviews, unread), revision

    def _hub(self, context: Context) -> DocumentSet:
        """Return a copy of the current hub for the thread. No other task adds columns to its fleet."""
        fleet = self._cache.fleet
        _ = fleet.eligibility, fleet.taints, fleet.namespaces
        documents_by_kind: dict[tuple[str, str], Mapping[Key, JsonObject]] = {}
        group_kinds = []
        for kind in {*KINDS.values(), INTERNAL_SERVICE_EXPORT}:
            if _is_known(kind, context):
                group_kinds.append(kind.group_kind)
                documents_by_kind[kind.group_kind] = dict(self._cache.of_kind(kind).objects)
        for kind in (*ADMISSION_KINDS, *PLANNED_KINDS, *PLANNED_IF_THERE, *self.content_kinds()):
            if kind.group_kind not in documents_by_kind:
                documents_by_kind[kind.group_kind] = dict(self._cache.of_kind(kind).objects)
        return DocumentSet(documents_by_kind, group_kinds, fleet.updated(()))


def _namespaced(context: Context) -> frozenset[tuple[str, str]]:
    """Return the namespaced kinds of a hub, as group and kind."""
    hub_kinds = (*KINDS.values(), *context.kinds.custom.values(), INTERNAL_SERVICE_EXPORT)
    return frozenset(kind.group_kind for kind in hub_kinds if kind.namespaced)


def _is_known(kind: Kind, context: Context) -> bool:
    try:
        context.hub.list(kind)
    except UnknownStateError:
        return False
    return True


def _plan(*inputs: Any) -> Plan:
    """Return a plan, with a deadline for the plans of upgrade runs: members may have thousands of windows."""
    return plan(*inputs, pulse=patience("the plan of upgrade runs", LONGEST_SECONDS))


async def _reviews(
    proposal: Proposal, context: Context, hub: DocumentSet, rights: Rights, audience: Audience
) -> Mapping[ObjectKey, Reviewed]:
    """Review the rights of the author, as the validating hook does.

    Raises:
        ProposalError: There are too many to review.
        NotReviewedError: The rights cannot be reviewed, and the settings require a review.
    """
    overlaid_context = context
    if audience.compared is not None:
        comparable = hub.limited(audience.compared)
        existing = comparable.existing if audience.namespace else context.existing
        overlaid_context = replace(context, hub=comparable, existing=existing)
    needs, count = {}, 0
    for at, item in enumerate(proposal.objects):
        identity, old = item.identity, stored(hub, item, audience)
        write: JsonObject = {
            "kind": {"group": identity.group, "kind": identity.kind},
            "operation": "CREATE" if old is None else "UPDATE",
            "object": item.document,
            "oldObject": old,
        }
        needs[identity] = rights.needed(write, context.user, overlaid_context)
        count += len(needs[identity])
        if count > MOST_RIGHTS:
            detail = f"the objects up to this one need {count} rights, but at most {MOST_RIGHTS} can be reviewed"
            raise ProposalError([Misfit(f"/objects/{at}", "too-many", detail)])
    reviews = {}
    for identity, needs_of_object in needs.items():
        if needs_of_object:
            rights_review = await rights.review(context.user, needs_of_object)
            if rights_review.unanswered and is_enforced(rights_review, context.settings.placement_authorization):
                raise NotReviewedError(rights_review.unanswered)
            reviews[identity] = rights_review
    return reviews
