"""Confirmation of the removal of content.

Source: docs/specifications/removal.md 4.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from scorer.api.family import FAMILY_OF, Family
from scorer.api.kinds import MEMBER_CLUSTER
from scorer.api.names import CONFIRM_REMOVAL, PARENT_PLACEMENT
from scorer.api.unstructured.documents import name_of, namespace_of, uid_of
from scorer.api.unstructured.json_object import JsonObject, format_time
from scorer.rollout.confirmation.digests import DEFAULT_VALIDITY, CarriedOut, Confirmation
from scorer.rollout.confirmation.member_contents import describe_contents, namespace_counts
from scorer.rollout.status.placement_conditions import is_removal_pending
from scorer.rollout.views.removals import UnconfirmedRemoval, unconfirmed_removals
from webhook.actions.patches import versioned
from webhook.actions.planned import (
    ActionOrder,
    ActionPlan,
    ActionReader,
    ActionRefusedError,
    HubRefusalError,
    HubWrite,
    fact,
    named,
)

_MOST_FACTS: Final = 50
"""Maximum number of removals with a fact each."""


@dataclass(frozen=True, slots=True)
class ConfirmationPatch:
    """A confirmation of removals.

    Args:
        patch: Adds it to a placement, or to a NodePool.
        expiry: Its expiry.
    """

    patch: JsonObject
    expiry: datetime


def confirmation_patch(document: JsonObject, digests: Collection[str], now: datetime) -> ConfirmationPatch:
    """Return the patch that adds *digests* to the confirmation on an object."""
    earlier = Confirmation.of(document, now)
    record = CarriedOut.of(document).without_expired(now)
    # A digest on record counts again only in a confirmation that expires later.
    renewed = [record.until[digest] + timedelta(seconds=1) for digest in digests if digest in record.until]
    expiry = max(filter(None, (earlier.expiry, now + DEFAULT_VALIDITY, *renewed)))
    text = Confirmation(frozenset(digests) | (earlier.digests - record.until.keys()), expiry).format()
    return ConfirmationPatch(versioned(document, {"metadata": {"annotations": {CONFIRM_REMOVAL: text}}}), expiry)


async def plan_confirmation(order: ActionOrder, hub: ActionReader, now: datetime) -> ActionPlan:
    """Return the plan that confirms the pending removals of a placement.

    Raises:
        ActionRefusedError: No removal is pending, or a removal in the order is not.
    """
    family = FAMILY_OF[order.kind.kind]
    placement = await hub.get(order.kind, order.name, order.namespace)
    ref = str(family.ref(placement))
    pending = await _pending(family, placement, hub, now)
    digests = order.digests or tuple(removal["digest"] for removal in pending)
    unknown = sorted(set(digests) - {removal["digest"] for removal in pending})
    if unknown:
        raise ActionRefusedError(f"{ref}: no pending removal has the digest {', '.join(unknown)}")
    selected = [removal for removal in pending if removal["digest"] in digests]
    if not selected:
        raise ActionRefusedError(f"{ref}: nothing needs confirmation")
    confirmation = confirmation_patch(placement, digests, now)
    return ActionPlan(
        ["confirm", ref, "--digest", ",".join(sorted(digests))],
        [
            *(_sentence(removal, now) for removal in selected),
            "This cannot be undone: the content is deleted on the members.",
        ],
        {"uid": uid_of(placement)} | _facts(selected),
        HubWrite(order.kind, confirmation.patch, order.name, order.namespace),
        f"{ref} confirmed until {format_time(confirmation.expiry)}",
    )


async def _pending(
    family: Family, placement: JsonObject, hub: ActionReader, now: datetime
) -> Sequence[UnconfirmedRemoval]:
    if not is_removal_pending(placement):
        return ()
    namespace, selector = namespace_of(placement), f"{PARENT_PLACEMENT}={name_of(placement)}"
    snapshots = await hub.list_all(family.resource_snapshot, namespace, selector)
    bindings = await hub.list_all(family.binding, namespace, selector)
    try:
        members = await hub.list_all(MEMBER_CLUSTER)
    except HubRefusalError:  # without the right to list them, all that they report is unknown
        members = []
    counts = {name_of(member): namespace_counts(member) for member in members}
    return unconfirmed_removals(family, placement, snapshots, bindings, counts.get, now)


def _facts(removals: Sequence[UnconfirmedRemoval]) -> dict[str, str]:
    """Return the removals as facts. Too many are combined into one, because a precondition has a limited number.

    The digest of an object confirms its removal from every cluster, including clusters that get the object after the
    preview. The clusters are therefore part of the fact. Reports of members, such as the number of other objects, are
    not, because they change too often.
    """
    facts = {f"removal {each['digest']}": f"{each['effect']} from {_clusters(each)}" for each in removals}
    if len(facts) > _MOST_FACTS:
        return {"removals": fact("; ".join(f"{name}: {facts[name]}" for name in sorted(facts)))}
    return {name: fact(text) for name, text in facts.items()}


def _sentence(removal: UnconfirmedRemoval, now: datetime) -> str:
    on_members = describe_contents(removal["onMembers"], now)
    extent = f", {on_members}" if on_members else ""
    return f"Removes {removal['effect']}{extent}, from {_clusters(removal)} ({removal['digest']})."


def _clusters(removal: UnconfirmedRemoval) -> str:
    if removal["clusterCount"] <= len(removal["clusters"]):
        return named(removal["clusters"])
    return f"{removal['clusterCount']} clusters"
